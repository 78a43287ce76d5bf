#!/usr/bin/env python3
"""Print the ABI of libcafka: exported symbols, and size and offsets of every public struct.

    abi.py NM LIBRARY CC INCLUDE_DIRECTORY

The structs are found in the headers and measured by the compiler, so that no list is kept by hand.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile


def symbols(nm, library):
    out = subprocess.run(nm.split() + ["-D", "--defined-only", library], check=True, capture_output=True, text=True)
    return sorted(line.split()[-1] for line in out.stdout.splitlines() if " A " not in line)


def structs(include):
    found = []
    for path in sorted(glob.glob(os.path.join(include, "cafka", "*.h"))):
        if path.endswith("mock.h"):
            continue
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for match in re.finditer(r"(?:typedef )?struct (cafka_\w+) \{(.*?)\n\}", text, re.S):
            fields = []
            for declaration in match.group(2).split(";"):
                declaration = " ".join(declaration.split())
                pointer = re.match(r".*?\(\*(\w+)\)\(", declaration)
                if pointer:
                    fields.append(pointer.group(1))
                elif declaration:
                    first, *rest = declaration.split(",")
                    for part in [first] + rest:
                        fields.append(re.search(r"(\w+)(?:\[[^]]*\])*$", part.strip()).group(1))
            found.append((match.group(1), fields))
    return found


def measure(cc, include, found):
    lines = ["#include <cafka.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for name, fields in found:
        lines.append(f'printf("struct {name} size %zu\\n", sizeof(struct {name}));')
        for field in fields:
            lines.append(f'printf("    {field} at %zu\\n", offsetof(struct {name}, {field}));')
    lines.append("return 0; }")
    with tempfile.TemporaryDirectory() as work:
        source, program = os.path.join(work, "abi.c"), os.path.join(work, "abi")
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
        subprocess.run(cc.split() + ["-I", include, source, "-o", program], check=True)
        return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def main():
    nm, library, cc, include = sys.argv[1:]
    for symbol in symbols(nm, library):
        print(symbol)
    print(measure(cc, include, structs(include)), end="")


main()
