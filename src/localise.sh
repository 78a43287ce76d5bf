#!/bin/sh
# localise.sh OUT.a PATTERN ARCHIVE… - one archive with one object, in which only the symbols that
# match PATTERN are global: the short names of the library's insides cannot meet those of a program.
# LD, OBJCOPY and AR are taken from the environment.
set -e
out=$1 pattern=$2
shift 2
object=$(basename "$out" .a).o
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${LD:-ld} -r -o "$work/all.o" --whole-archive "$@"
${OBJCOPY:-objcopy} --wildcard --keep-global-symbol="$pattern" "$work/all.o" "$work/$object"
rm -f "$out"
${AR:-ar} rc "$out" "$work/$object"
${RANLIB:-ranlib} "$out"
