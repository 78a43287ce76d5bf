#!/usr/bin/env bash
# compare.sh [--build DIR] [--quick] [--only WORD] - cafka beside librdkafka: the same work, in turn, in one run.
#
# Both clients produce to and consume from one cafka-mockbroker whose data is in memory (tmpfs).
# Every measure is the median of three runs (--quick: one), printed as one line
#     measure NAME cafka=X peer=Y ratio=X/Y target=T ok|short
# and each run's own `bench …` line goes to stderr with --verbose. The targets are those of
# docs/TESTING.md; what is short is told and is no failure, since the machine may be busy.
# --only takes start, records, latency, allocations, copies or idle.
#
# DIR holds the programs (default: build, or the current directory). librdkafka is Debian's, and is
# installed if it can be; otherwise it says `skipped: …` and exits with 77.
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
build= records=4000000 large=400000 repeat=3 idle=10 verbose= only=
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2 && shift ;;
    --quick) records=2000000 large=200000 repeat=1 idle=5 ;;
    --only) only=$2 && shift ;;
    --verbose) verbose=1 ;;
    *) echo "usage: compare.sh [--build DIR] [--quick] [--only WORD] [--verbose]" >&2 && exit 2 ;;
    esac
    shift
done
skip() {
    echo "skipped: $*"
    exit 77
}
for dir in "$build" "$PWD" "$top/build"; do
    if [ -n "$dir" ] && [ -x "$dir/cafka" ] && [ -x "$dir/cafka-mockbroker" ]; then
        programs=$(cd "$dir" && pwd)
        break
    fi
done
[ -n "${programs:-}" ] || {
    echo "compare.sh: cafka is not built" >&2
    exit 1
}
cc=${CC:-cc}
# shellcheck source=tests/packages.sh
. "$top/tests/packages.sh"
need_packages 'librdkafka/rdkafka.h librdkafka-dev' >&2 || true
echo '#include <librdkafka/rdkafka.h>' | $cc -E -x c - >/dev/null 2>&1 ||
    skip "comparison: librdkafka (librdkafka-dev) is not installed"

memory=/dev/shm
[ -d $memory ] && [ -w $memory ] || memory=${TMPDIR:-/tmp}
work=$(mktemp -d "$memory/cafka-bench.XXXXXX")
broker=
stop() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    [ -z "$broker" ] || wait "$broker" 2>/dev/null || true
    broker=
}
trap 'stop; rm -rf "$work"' EXIT

$cc -O2 -o "$work/peer" "$top/tests/bench/peer_rdkafka.c" -lrdkafka -lpthread
$cc -O2 -DPEER -o "$work/peer_idle" "$top/tests/bench/idle.c" -lrdkafka
$cc -O2 -o "$work/raw_tcp" "$top/tests/bench/raw_tcp.c"
$cc -O2 -fPIC -shared -o "$work/count_alloc.so" "$top/tests/bench/count_alloc.c" -ldl

# --- the broker ---

# start OPTION…: sets broker, servers, and the milliseconds that it took
start() {
    local began line
    rm -f "$work/ready"
    mkfifo "$work/ready"
    began=$(date +%s%N)
    "$programs/cafka-mockbroker" "$@" >"$work/ready" 2>>"$work/broker.log" &
    broker=$!
    read -r line <"$work/ready" || {
        cat "$work/broker.log" >&2
        exit 1
    }
    start_ms=$((($(date +%s%N) - began) / 1000000))
    servers=${line#bootstrap.servers=}
}

# Nanoseconds of CPU that the broker has used: all its threads.
broker_cpu_ns() {
    cat /proc/"$broker"/task/*/schedstat | awk '{sum += $1} END {printf "%.0f\n", sum}'
}

# A machine that has just been started gives a page several times slower when it is touched for the
# first time; that would be paid by whoever runs first. So what the brokers will write to is touched
# before, and each topic gives its pages to the next.
touch_memory() {
    head -c 1G /dev/zero >"$work/touched" || true
    rm -f "$work/touched"
}
drop_topic() {
    "$programs/cafka" topics delete -b "$servers" "$1" >/dev/null
    local end=$((SECONDS + 10))
    while compgen -G "$work/data/*/$1-*" >/dev/null && [ $SECONDS -lt $end ]; do sleep 0.05; done
}

# --- one run ---

# client cafka|peer ARGUMENT…: its bench line, with the broker's CPU per record
client() {
    local who=$1 before after line
    shift
    before=$(broker_cpu_ns)
    if [ "$who" = cafka ]; then
        line=$(timeout 120 "$programs/cafka" bench "$@" -b "$servers" | tail -1)
    else
        line=$(timeout 120 "$work/peer" "$@" -b "$servers" 2>>"$work/peer.log" | tail -1)
    fi
    after=$(broker_cpu_ns)
    line="$line broker_ns_per_record=$(awk -v ns=$((after - before)) -v n="$(value records "$line")" 'BEGIN {printf "%.1f", ns / n}')"
    [ -z "$verbose" ] || echo "$who $line $*" >&2
    echo "$line"
}

# value KEY LINE
value() {
    printf '%s\n' "$2" | tr ' ' '\n' | sed -n "s/^$1=//p"
}

# median FILE KEY: of all bench lines in FILE
median() {
    sed -n "s/.* $2=\([^ ]*\).*/\1/p" "$1" | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

# measure NAME CAFKA PEER [most|least TARGET]: a line, with the ratio and whether it meets the target
measure() {
    awk -v name="$1" -v a="$2" -v b="$3" -v how="${4:-}" -v target="${5:-0}" 'BEGIN {
        ratio = b ? a / b : 0
        printf "measure %s cafka=%s peer=%s ratio=%.3f", name, a, b, ratio
        if (how)
            printf " target=%s%.3f %s", how == "most" ? "<=" : ">=", target,
                   (how == "most" ? ratio <= target : ratio >= target) ? "ok" : "short"
        printf "\n"
    }'
}

# limit NAME CAFKA MOST [PEER]: a line, for what has a limit of its own
limit() {
    echo "measure $1 cafka=$2${4:+ peer=$4} target=<=$3 $(awk -v a="${2:-x}" -v most="$3" 'BEGIN {print (a + 0 == a && a <= most ? "ok" : "short")}')"
}

# --- records of a size, with a codec ---

compare() { # SIZE CODEC COUNT
    local size=$1 codec=$2 count=$3 name=$1B-$2 i who
    rm -f "$work"/run.*
    for i in $(seq "$repeat"); do
        for who in cafka peer; do
            local topic=$who-$size-$codec-$i
            if [ $who = cafka ]; then
                client cafka produce -t "$topic" -n "$count" -s "$size" -X linger.ms=5 -X compression.type="$codec" \
                    >>"$work/run.cafka.produce"
                client cafka consume -t "$topic" -n "$count" >>"$work/run.cafka.consume"
            else
                client peer produce -t "$topic" -n "$count" -s "$size" -X compression.type="$codec" \
                    >>"$work/run.peer.produce"
                client peer consume -t "$topic" -n "$count" >>"$work/run.peer.consume"
            fi
            drop_topic "$topic"
        done
        "$work/raw_tcp" $((count * size)) >>"$work/run.tcp"
    done
    local mode cpu_target rate_target
    for mode in produce consume; do
        local a=$work/run.cafka.$mode b=$work/run.peer.$mode
        cpu_target= rate_target= # large records are mostly the kernel's copies
        [ "$size" != 100 ] || rate_target="least 3"
        [ "$size" != 100 ] || cpu_target="most $([ $mode = produce ] && echo 0.2 || echo 0.25)"
        measure "$name-$mode-ns_cpu_per_record" "$(median "$a" ns_cpu_per_record)" "$(median "$b" ns_cpu_per_record)" $cpu_target
        measure "$name-$mode-records_per_s" "$(median "$a" records_per_s)" "$(median "$b" records_per_s)" $rate_target
        measure "$name-$mode-broker_ns_per_record" "$(median "$a" broker_ns_per_record)" "$(median "$b" broker_ns_per_record)"
    done
}

# --- the parts ---

run_start() {
    start --brokers 3 --data-dir "$work/three"
    local rss_kb
    rss_kb=$(awk '/^VmRSS/ {print $2}' /proc/"$broker"/status)
    limit mockbroker-3-brokers-start_ms "$start_ms" 50
    limit mockbroker-3-brokers-rss_kb "$rss_kb" 20480
    stop
}

run_records() {
    touch_memory
    compare 100 none "$records"
    compare 100 lz4 "$records"
    compare 100 zstd "$records"
    compare 1000 none "$large"
    for mode in produce consume; do
        awk -v a="$(median "$work/run.cafka.$mode" MBps)" -v b="$(median "$work/run.tcp" MBps)" -v mode=$mode 'BEGIN {
            printf "measure 1000B-%s-MBps cafka=%s raw_tcp=%s ratio=%.3f target=>=0.400 %s\n", mode, a, b, a / b,
                   (a / b >= 0.4 ? "ok" : "short")}'
    done
    compare 1000 lz4 "$large"
}

# 10 000 records a second, each sent at once
run_latency() {
    local i who
    rm -f "$work"/run.*
    for i in $(seq "$repeat"); do
        for who in cafka peer; do
            client $who produce -t "latency-$who" -n 30000 --rate 10000 --latency -X linger.ms=0 >>"$work/run.$who"
        done
    done
    measure latency-p99_us "$(median "$work/run.cafka" p99_us)" "$(median "$work/run.peer" p99_us)" most 1
    measure latency-ns_cpu_per_record "$(median "$work/run.cafka" ns_cpu_per_record)" \
        "$(median "$work/run.peer" ns_cpu_per_record)" most 0.25
}

# Heap allocations of the whole process, after a million records of 100 bytes
warm=1000000
allocations() { # cafka|peer MODE: one line a run
    local command=$work/peer small=
    [ "$1" = peer ] || command="$programs/cafka bench"
    # Or the buffer might grow to its limit only while we count.
    [ "$1-$2" != cafka-produce ] || small="-X buffer.memory=4000000"
    rm -f "$work/allocations"
    COUNT_ALLOC_AFTER=$((warm * 107)) COUNT_ALLOC_FILE=$work/allocations LD_PRELOAD=$work/count_alloc.so \
        $command "$2" -b "$servers" -t "allocations-$1" -n "$records" -s 100 $small >/dev/null 2>&1
    sed -n 's/^/bench /p' "$work/allocations"
}
run_allocations() {
    local mode i who
    for mode in produce consume; do
        rm -f "$work"/run.*
        for i in $(seq "$repeat"); do
            for who in cafka peer; do
                allocations $who $mode >>"$work/run.$who"
            done
        done
        awk -v a="$(median "$work/run.cafka" allocations)" -v b="$(median "$work/run.peer" allocations)" \
            -v n=$((records - warm)) -v mode=$mode 'BEGIN {
            printf "measure 100B-%s-allocations_per_10000 cafka=%.3f peer=%.1f target=<=1 %s\n", mode, a * 10000 / n,
                   b * 10000 / n, (a * 10000 / n <= 1 ? "ok" : "short")}'
    done
}

# A payload is copied once when it leaves and not at all when it comes: looked for in all memory.
run_copies() {
    local test=$programs/tests/mock/test_copies rc=0
    [ -x "$test" ] || make -s -C "$programs" tests/mock/test_copies >/dev/null 2>&1
    "$test" >"$work/copies" 2>&1 || rc=1
    awk -v ok=$rc '/ of .* records were copied/ {
        printf "measure payload-copies produce=1 consume=%.4f target==1,<=0.01 %s\n", $1 / $3, ok ? "short" : "ok"}' "$work/copies"
}

# 10 000 partitions, and nothing to do
run_idle() {
    local mode who line
    stop
    start --data-dir "$work/idle" --topic idle:10000
    for mode in produce consume; do
        for who in cafka peer; do
            local program=$work/peer_idle
            [ $who = peer ] || program=$programs/tests/bench/idle
            line=$(timeout 200 "$program" $mode "$servers" idle 10000 "$idle" 2>>"$work/peer.log") || line=
            echo "$line" >"$work/idle.$who"
            [ -z "$verbose" ] || echo "$who $line" >&2
        done
        limit idle-10000-partitions-$mode-heap_kb "$(median "$work/idle.cafka" heap_kb)" 5120 "$(median "$work/idle.peer" heap_kb)"
        # "No CPU": a thousandth of a core.
        limit idle-10000-partitions-$mode-cpu_us_per_s "$(median "$work/idle.cafka" cpu_us_per_s)" 1000 "$(median "$work/idle.peer" cpu_us_per_s)"
    done
    stop
}

# --- the run ---

for part in start records latency allocations copies idle; do
    [ -z "$only" ] || [ "$only" = $part ] || continue
    case $part in records | latency | allocations)
        [ -n "$broker" ] || start --data-dir "$work/data" --set num.partitions=1 --set auto.create.topics.enable=true \
            --set log.segment.delete.delay.ms=0 ;;
    esac
    run_$part
done
