#!/usr/bin/env python3
"""check_numbered.py ACKED READ COUNT PARTITIONS - what numbered.c sent, against what came back.

ACKED: lines "partition offset number"; READ: lines "partition offset number padding" as consumed.
Every acknowledged record must be there, at its offset (-1: the producer was told it is a
duplicate, so the offset is not known); within a partition offsets follow each other and numbers
rise by PARTITIONS without gap, so nothing is lost, doubled or out of order.
"""
import sys

acked, read, count, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
bad = []
found = {}
following = {p: (0, p) for p in range(partitions)}  # partition: next offset, next number
with open(read, "rb") as lines:
    for line in lines:
        words = line.split(b" ")
        p, offset, number = int(words[0]), int(words[1]), int(words[2])
        padding = bytes([ord("a") + number % 26])
        if words[3].rstrip(b"\n").strip(padding):
            bad.append("partition %d offset %d: the value changed" % (p, offset))
        if (offset, number) != following[p]:
            bad.append("partition %d: offset %d has number %d, expected offset %d with number %d"
                       % ((p, offset, number) + following[p]))
        following[p] = offset + 1, number + partitions
        if number in found:
            bad.append("number %d twice: %s and %s" % (number, found[number], (p, offset)))
        found[number] = p, offset

told = 0
with open(acked) as lines:
    for line in lines:
        p, offset, number = map(int, line.split())
        told += 1
        if number not in found:
            bad.append("number %d was acknowledged (partition %d, offset %d) and is not there" % (number, p, offset))
        elif found[number][0] != p or offset not in (-1, found[number][1]):
            bad.append("number %d was acknowledged at %d:%d and is at %d:%d" % ((number, p, offset) + found[number]))
if len(found) != count:
    bad.append("%d records are there, %d were sent" % (len(found), count))
print("%d records, %d acknowledged, %d mistakes" % (len(found), told, len(bad)))
print("\n".join(bad[:20]))
sys.exit(1 if bad else 0)
