#!/usr/bin/env python3
"""flat.py WHO FILE - whether memory stays as it is while a program works.

FILE holds lines "sample SECONDS RECORDS ANON_KB [BYTES [NAME=BYTES/BLOCKS]…]" (soak.c). The first half is left
out: buffers and pools fill until each has met its busiest moment. A straight line through the rest says how
fast a measure rises. It grows if that is more than 50 kB a minute and what the line rises by in that time
is more than 64 kB, which one more buffer would be. One line a measure; of what grows, the parts that
rose as well.
"""
import sys

KB_A_MINUTE, ONE_BUFFER_KB = 50, 64

who, rows, parts = sys.argv[1], [], {}
with open(sys.argv[2]) as lines:
    for line in lines:
        words = line.split()
        if words[:1] != ["sample"]:
            continue
        numbers = [float(word) for word in words[1:] if "=" not in word]
        rows.append(numbers)
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                parts.setdefault(name, []).append((numbers[0], float(value.split("/")[0]) / 1024))
if len(rows) < 20:
    sys.exit("%s: only %d samples" % (who, len(rows)))
since = rows[-1][0] / 2


def line(points):
    """A least-squares line through the points of the second half: their mean, what it rises a minute and at all."""
    points = [point for point in points if point[0] >= since]
    if len(points) < 10:
        return 0, 0, 0
    middle = sum(time for time, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((time - middle) ** 2 for time, _ in points)
    slope = sum((time - middle) * (value - mean) for time, value in points) / spread
    return mean, slope * 60, slope * (points[-1][0] - points[0][0])


bad = 0
for column, name, unit in ((2, "anonymous memory", 1), (3, "the library's bytes", 1024)):
    if any(len(row) <= column for row in rows):
        continue
    mean, minute, rise = line([(row[0], row[column] / unit) for row in rows])
    flat = minute <= KB_A_MINUTE or rise <= ONE_BUFFER_KB
    bad += not flat
    print("soak %s: %s %.0f kB on average, %+.0f kB a minute, %+.0f kB in %.0f s %s"
          % (who, name, mean, minute, rise, rows[-1][0] - since, "flat" if flat else "GROWS"))
if bad:
    for name in sorted(parts):
        mean, minute, rise = line(parts[name])
        if minute > KB_A_MINUTE / 10:
            print("soak %s:   %s %.0f kB on average, %+.0f kB a minute" % (who, name, mean, minute))
sys.exit(1 if bad else 0)
