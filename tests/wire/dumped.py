#!/usr/bin/env python3
"""dumped.py FIRST DUMP… - the records that a text of DumpLogSegments tells of, from offset FIRST on.

One a line, "offset TAB timestamp TAB key TAB value TAB names of headers", without control records.
"""
import re
import sys

RECORD = re.compile(r"\| offset: (\d+) (?:CreateTime|LogAppendTime|NoTimestampType): (-?\d+) keySize: (-?\d+) "
                    r"valueSize: (-?\d+)(?: sequence: -?\d+)? headerKeys: \[(.*?)\](.*)", re.DOTALL)
first = int(sys.argv[1])
for name in sys.argv[2:]:
    for line in open(name, encoding="utf-8", newline="\n"):
        found = RECORD.match(line.rstrip("\n"))
        if not found or "endTxnMarker" in line:
            continue
        offset, time, key_size, value_size, headers, rest = found.groups()
        key = value = ""
        if int(key_size) >= 0:
            key, _, value = rest[len(" key: "):].partition(" payload: ")
        elif int(value_size) >= 0:
            value = rest[len(" payload: "):]
        if int(offset) >= first:
            print("\t".join((offset, time, key, value, headers)))
