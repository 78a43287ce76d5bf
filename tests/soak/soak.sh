#!/usr/bin/env bash
# soak.sh [option…] - long runs that `make soak` starts; not part of ./test.sh.
#
#   --build DIR        the build tree (default: the current directory)
#   --only real|mock   one of the two parts
#   --bootstrap LIST   a running Kafka instead of one of its own; nothing is restarted then
#   --nodes 1|3        brokers of the Kafka that is started (1)
#   --records N        of 100 bytes, for each codec (10000000)
#   --codecs "NAME…"   (none gzip snappy lz4 zstd)
#   --seconds S        of the second part (600)
#   --rate R           records a second there (20000)
#   --samples DIR      where its samples are kept, line by line (they are thrown away)
#
# real: a real Apache Kafka gets N records in each codec from one program while another reads them, and
# midway its only broker is stopped and started, or one of three is killed and started. Nothing may be
# missing, doubled, out of order or changed, by the number in each record.
# mock: cafka-mockbroker, a producer and a consumer at a steady rate; the memory of all three must be flat.
#
# One line a measure, on standard output; exit status 0 if all is well, 77 if a part cannot run here.
set -u
cd "$(dirname "$0")/../.." || exit 99
build=$OLDPWD only='' bootstrap='' nodes=1 records=10000000 codecs='none gzip snappy lz4 zstd' seconds=600 rate=20000
samples=''
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$(cd "$OLDPWD" && cd "$2" && pwd) ;;
    --only) only=$2 ;;
    --bootstrap) bootstrap=$2 ;;
    --nodes) nodes=$2 ;;
    --records) records=$2 ;;
    --codecs) codecs=$2 ;;
    --seconds) seconds=$2 ;;
    --rate) rate=$2 ;;
    --samples) samples=$(cd "$OLDPWD" && cd "$2" && pwd) ;;
    *)
        sed -n '2,21s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
    esac
    shift 2
done
export CAFKA_SHARED=${CAFKA_SHARED:-$(dirname "$PWD")/shared}
WORK=$(mktemp -d) || exit 99
BUILD=$build
export BUILD WORK
# shellcheck source=tests/lib/wire.sh
. tests/lib/wire.sh
# shellcheck source=tests/lib/java_wire.sh
. tests/lib/java_wire.sh
PATH=$BUILD/tests/soak:$PATH
kafka_dir=$WORK/kafka
trap 'stop_kafka >/dev/null 2>&1; stop_all; rm -rf "$WORK"' EXIT
samples=${samples:-$WORK}
partitions=6 failed=0

# --- a real Kafka ---

# disturb CODEC: the broker goes away and comes back, as soon as half is acknowledged
disturb() {
    [ -z "$bootstrap" ] || return 0
    wait_until 3600 "half of $1" grep -q '^half$' "$WORK/wrote"
    if [ "$nodes" = 1 ]; then
        "$KAFKA" kill "$kafka_dir" 1 TERM && wait_until 120 "the broker's end" gone "$(cat "$kafka_dir/node1/pid")"
        "$KAFKA" restart "$kafka_dir" 1
    else
        "$KAFKA" kill "$kafka_dir" 2 && "$KAFKA" restart "$kafka_dir" 2
    fi >>"$WORK/kafka.log" 2>&1 || fail "the broker did not come back: $(tail -n 3 "$WORK/kafka.log")"
}

through() { # CODEC
    local topic=soak-$1 reader writer began=$SECONDS rc=0
    cafka topics create "$topic" -b "$servers" --partitions $partitions --replicas "$nodes" >"$WORK/topic" 2>&1 ||
        fail "the topic: $(cat "$WORK/topic")"
    soak read "$servers" "$topic" records="$records" partitions=$partitions >"$WORK/read" 2>"$WORK/read.err" &
    reader=$!
    soak write "$servers" "$topic" records="$records" partitions=$partitions compression.type="$1" linger.ms=5 \
        delivery.timeout.ms=600000 >"$WORK/wrote" 2>"$WORK/wrote.err" &
    writer=$!
    pids+=("$reader" "$writer")
    disturb "$1"
    wait "$writer" || rc=1
    [ $rc = 0 ] || kill "$reader" # what it waits for does not come
    wait "$reader" || rc=1
    say "soak $1: $(tail -n 1 "$WORK/wrote"), $(tail -n 1 "$WORK/read"), $((SECONDS - began)) s $([ $rc = 0 ] && echo ok || echo FAILED)"
    cat "$WORK/wrote.err" "$WORK/read.err"
    cafka topics delete "$topic" -b "$servers" >"$WORK/topic" 2>&1 || true
    return $rc
}

real() {
    local codec
    servers=$bootstrap
    if [ -z "$bootstrap" ]; then
        need_java "soak with a real Kafka"
        start_kafka --nodes "$nodes"
        trap 'stop_kafka >/dev/null 2>&1; stop_all; rm -rf "$WORK"' EXIT
    fi
    for codec in $codecs; do
        through "$codec" || failed=1
    done
    [ -n "$bootstrap" ] || stop_kafka
}

# --- the mock cluster ---

# The same line as soak.c's, of the broker, until it is told to end.
watch() {
    local at=0
    while sleep 1; do
        at=$((at + 1))
        sed -n "s/^RssAnon:[^0-9]*\([0-9]*\).*/sample $at 0 \1/p" "/proc/$1/status" 2>/dev/null || return 0
    done
}

mock() {
    local records=$((rate * seconds)) reader writer watcher who rc=0
    start_broker mock --brokers 3 --data-dir "$WORK/data" --topic "soak:$partitions:3" --set log.segment.bytes=8388608 \
        --set log.retention.bytes=33554432 --set log.retention.check.interval.ms=5000
    watch "$broker" >"$samples/broker.samples" &
    watcher=$!
    soak read "$servers" soak records="$records" partitions=$partitions >"$samples/consumer.samples" &
    reader=$!
    soak write "$servers" soak records="$records" partitions=$partitions rate="$rate" compression.type=lz4 \
        >"$samples/producer.samples" &
    writer=$!
    pids+=("$watcher" "$reader" "$writer")
    wait "$writer" || rc=1
    [ $rc = 0 ] || kill "$reader"
    wait "$reader" || rc=1
    kill "$watcher"
    wait "$watcher" 2>/dev/null
    say "soak mock: $(tail -n 1 "$samples/producer.samples"), $(tail -n 1 "$samples/consumer.samples") $([ $rc = 0 ] && echo ok || echo FAILED)"
    for who in producer consumer broker; do
        "$PYTHON" -B tests/soak/flat.py $who "$samples/$who.samples" || rc=1
    done
    stop_broker
    return $rc
}

set +e
[ "$only" = mock ] || real
[ "$only" = real ] || mock || failed=1
exit $failed
