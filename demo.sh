#!/usr/bin/env bash
# demo.sh [FILE] - install what is missing, build, start a mock cluster of three brokers, send a
# file through it line by line and back, and compare.
#
# Without FILE it takes this project's own text, over and over up to 100 MB. Nothing is left behind but the build in build/demo.
set -u
export LC_ALL=C
cd "$(dirname "$0")" || exit 1
top=$PWD build=$PWD/build/demo file=${1:-}

# shellcheck source=tests/packages.sh
. tests/packages.sh
need_packages "$build_packages" || exit 1

step() {
    printf '\n== %s\n' "$*"
}

die() {
    printf 'demo.sh: %s\n' "$*" >&2
    exit 1
}

work=$(mktemp -d) || exit 1
broker=
cleanup() {
    [ -z "$broker" ] || { kill "$broker" && wait "$broker"; } 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

step "build (the log is $build/build.log)"
mkdir -p "$build"
(
    set -e
    [ -e configure ] || autoreconf -fi
    cd "$build"
    [ -e config.status ] || "$top/configure" --silent --disable-shared CFLAGS="-O2 -g"
    make -j"$(nproc 2>/dev/null || echo 2)" all
) >"$build/build.log" 2>&1 || {
    tail -n 30 "$build/build.log"
    die "the build failed"
}
export PATH="$build:$PATH"

if [ -z "$file" ]; then
    file=$work/text
    find src mockbroker include docs tests -type f \( -name '*.[ch]' -o -name '*.txt' -o -name '*.md' \) |
        sort | xargs cat >"$work/once"
    while [ "$(stat -c %s "$file" 2>/dev/null || echo 0)" -lt 100000000 ]; do
        cat "$work/once"
    done >>"$file"
fi
[ -r "$file" ] || die "$file cannot be read"
if [ -n "$(tail -c 1 "$file")" ]; then # a record is a line, so what comes back ends with one
    { cat "$file" && echo; } >"$work/whole"
    file=$work/whole
fi
lines=$(wc -l <"$file") bytes=$(wc -c <"$file")

step "cafka-mockbroker: three brokers"
mkfifo "$work/out"
cafka-mockbroker --brokers 3 --data-dir "$work/data" --topic ordered:1 --topic spread:12 \
    >"$work/out" 2>"$work/broker.log" &
broker=$!
servers=
while read -r line; do
    case $line in bootstrap.servers=*) servers=${line#*=} && break ;; esac
done <"$work/out"
[ -n "$servers" ] || {
    cat "$work/broker.log"
    die "cafka-mockbroker did not start"
}
echo "they listen on $servers"

# through TOPIC [produce options…]: the file goes in and what comes back is in $work/TOPIC
through() {
    local topic=$1 begin=$EPOCHREALTIME middle end
    shift
    cafka produce -b "$servers" -t "$topic" "$@" "$file" || die "cafka produce failed"
    middle=$EPOCHREALTIME
    cafka consume -b "$servers" -t "$topic" -o beginning -e >"$work/$topic" || die "cafka consume failed"
    end=$EPOCHREALTIME
    awk -v a="$begin" -v b="$middle" -v c="$end" -v n="$lines" -v s="$bytes" 'BEGIN {
        printf "%d records, %.1f MB: produced in %.2f s, consumed in %.2f s\n", n, s / 1e6, b - a, c - b }'
}

step "topic \"ordered\", 1 partition: the file must come back as it was"
through ordered
cmp "$file" "$work/ordered" || die "what came back differs"
echo "identical, byte by byte"

step "topic \"spread\", 12 partitions on three brokers, zstd: the same lines must come back"
through spread -X compression.type=zstd
sort "$file" >"$work/sent"
sort "$work/spread" | cmp "$work/sent" - || die "what came back differs"
echo "the same $lines lines"

step "clean shutdown"
kill "$broker"
wait "$broker"
status=$?
broker=
[ $status = 0 ] || die "cafka-mockbroker ended with status $status"
echo "all well"
