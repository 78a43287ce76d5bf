#!/usr/bin/env python3
"""flat.py WHO FILE - whether memory stays as it is while a program works.

FILE holds lines "sample SECONDS RECORDS ANON_KB BYTES" (soak.c; BYTES may be missing). The first fifth is
left out: buffers fill. A straight line through the rest says what would be added over the whole time;
up to 1 MiB and a fiftieth of what is there counts as flat, since allocators breathe. One line a measure.
"""
import sys

who, rows = sys.argv[1], []
with open(sys.argv[2]) as lines:
    for line in lines:
        words = line.split()
        if words[:1] == ["sample"]:
            rows.append([float(word) for word in words[1:]])
if len(rows) < 10:
    sys.exit("%s: only %d samples" % (who, len(rows)))
rows = [row for row in rows if row[0] >= rows[-1][0] / 5]
span = rows[-1][0] - rows[0][0]


def growth(column):
    """What a least-squares line through the column rises from the first to the last sample."""
    times, values = [row[0] for row in rows], [row[column] for row in rows]
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((t - middle) ** 2 for t in times)
    return mean, sum((t - middle) * (v - mean) for t, v in zip(times, values)) / spread * span


bad = 0
for column, name, unit in ((2, "anonymous memory", 1), (3, "the library's bytes", 1024)):
    if any(len(row) <= column for row in rows):
        continue
    mean, rise = (value / unit for value in growth(column))
    flat = rise <= 1024 + mean / 50
    bad += not flat
    print("soak %s: %s %.0f kB on average, %+.0f kB in %.0f s %s"
          % (who, name, mean, rise, span, "flat" if flat else "GROWS"))
sys.exit(1 if bad else 0)
