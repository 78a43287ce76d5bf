#!/usr/bin/env python3
"""Write the list of files into docs/DESIGN.md, from the line that every file opens with.

    files.py TOP           rewrite docs/DESIGN.md
    files.py TOP --check   exit 1 if that would change it
"""
import os
import re
import sys

BEGIN = "<!-- files: written by make docs -->\n"
END = "<!-- end of files -->\n"
ROOTS = ["include", "src", "mockbroker", "examples", "tests"]


def sentence(path):
    """What the first comment says of the file, without its name."""
    with open(path, encoding="utf-8") as file:
        head = file.read(1500)
    match = re.match(r"/\*\n \* (.*?)(?:\n \*\n|\n \*/|\.(?=\s))", head, re.S) or re.match(r"// (.*?)\n", head)
    if not match:
        return ""
    text = re.sub(r"\s+", " ", match.group(1).replace("\n * ", " "))
    text = re.sub(r"^[\w./-]+ - ", "", text)
    return "" if text.startswith("see ") else text.rstrip(".")


def listing(top):
    rows = []
    for root in ROOTS:
        for folder, folders, names in os.walk(os.path.join(top, root)):
            folders.sort()
            here = os.path.relpath(folder, top)
            stems = {}
            for name in sorted(names):
                stem, dot, end = name.rpartition(".")
                if end in ("c", "h", "cc"):
                    stems.setdefault(stem, []).append(name)
            for stem, files in stems.items():
                text = next((t for t in (sentence(os.path.join(folder, n)) for n in reversed(files)) if t), "")
                shown = stem + ".{c,h}" if len(files) > 1 else files[0]
                rows.append((here, shown, text))
    lines, last = [], None
    for here, shown, text in rows:
        if here != last:
            lines.append(f"\n**{here}**\n\n")
            last = here
        lines.append(f"- `{shown}`: {text}\n" if text else f"- `{shown}`\n")
    return "".join(lines)


def main():
    top = sys.argv[1]
    path = os.path.join(top, "docs", "DESIGN.md")
    with open(path, encoding="utf-8") as file:
        old = file.read()
    before, rest = old.split(BEGIN)
    after = rest.split(END)[1]
    new = before + BEGIN + listing(top) + "\n" + END + after
    if "--check" in sys.argv:
        if new != old:
            sys.exit("docs/DESIGN.md: the list of files is stale: run make docs")
    elif new != old:
        with open(path, "w", encoding="utf-8") as file:
            file.write(new)


main()
