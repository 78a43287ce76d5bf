#!/usr/bin/env python3
"""lines.py SIZE [SEED] - lines of text to send through a broker, about SIZE bytes, always the same ones.

Empty lines, short ones, UTF-8 of all lengths, carriage returns, tabs, numbers, lines that compress
well and lines that do not, and now and then a long one, up to 900 000 bytes. No newline inside.
"""
import random
import sys

WORDS = ("broker partition offset leader epoch topic record batch größer naïve Ελληνικά русский 日本語 "
         "한국어 עברית हिन्दी 🦊 🎉 e\u0301 ½ ∑ 0 1 42 -7 3.14 true null { } [ ] \" \\ , ; : \t \r").split(" ")


def noise(dice, size):
    """Bytes that do not compress, with none that ends a line; not valid UTF-8."""
    return dice.randbytes(size).replace(b"\n", b"\x00")


def line(dice, number):
    kind = dice.random()
    if kind < 0.06:
        return b""
    if kind < 0.50:
        return " ".join(dice.choices(WORDS, k=dice.randrange(1, 12))).encode()
    if kind < 0.85:
        return b'{"id":%d,"time":%d,"state":"%s"}' % (number, 1600000000000 + 37 * number,
                                                    dice.choice((b"new", b"paid", b"sent")))
    if kind < 0.97:
        return " ".join(dice.choices(WORDS, k=dice.randrange(20, 120))).encode()
    if kind < 0.9995:
        return noise(dice, dice.randrange(1, 4000))
    if kind < 0.9998:
        return noise(dice, dice.randrange(4000, 900000))
    return (" ".join(dice.choices(WORDS, k=60)).encode() * 9000)[:dice.randrange(4000, 900001)].replace(b"\n", b" ")


def main():
    size, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    dice = random.Random(seed)
    out = sys.stdout.buffer
    for fixed in (b"", b"first", b"x" * 900000, "ü".encode() * 450000):  # what must not be missing
        out.write(fixed + b"\n")
        size -= len(fixed) + 1
    number = 0
    while size > 0:
        block = [line(dice, number + i) for i in range(1000)]
        number += 1000
        text = b"\n".join(block) + b"\n"
        out.write(text)
        size -= len(text)


main()
