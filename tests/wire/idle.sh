# A producer with nothing to do makes no system call in ten seconds, and a consumer only those that
# the answers to its long polls need: strace counts them.
. tests/lib/wire.sh

command -v strace >/dev/null || skip "strace not found"
background sleep 20
rc=0
timeout -s INT 1 strace -qq -o "$WORK/probe" -p "$started" 2>/dev/null || rc=$?
[ $rc = 124 ] || skip "strace may not watch a process here"

SECONDS_IDLE=10

# calls_of PID: how many system calls all its threads make in ten seconds
calls_of() {
    local rc=0
    timeout -s INT $SECONDS_IDLE strace -qq -f -c -o "$WORK/calls" -p "$1" >&2 || rc=$?
    # 124: the time was up. Whatever else it ends with, it did not watch.
    [ $rc = 124 ] || fail "strace -p ended with $rc" >&2
    awk '$NF == "total" { n = $4 } END { print n + 0 }' "$WORK/calls"
}

# has_connections PID: the consumer has one to each of the three brokers
has_connections() {
    [ "$(find "/proc/$1/fd" -lname 'socket:*' | wc -l)" -ge 3 ]
}

record_is_there() {
    cafka consume -b "$servers" -t idle -o beginning -e | grep -q one
}

start_broker cluster --brokers 3 --topic idle:3:1

mkfifo "$WORK/input"
exec 9<>"$WORK/input" # both ways: neither side waits for the other
cafka produce -b "$servers" -t idle <"$WORK/input" >"$WORK/produced" 2>&1 &
producer=$!
pids+=("$producer")
echo one >&9
wait_until 20 "the record to be there" record_is_there
count=$(calls_of "$producer")
say "producer: $count system calls in $SECONDS_IDLE s"
# One that has just begun to sleep when strace comes is told so, and sleeps again.
[ "$count" -le 6 ] || fail "a producer with nothing to do: $(cat "$WORK/calls")"

background cafka consume -b "$servers" -t idle
consumer=$started
wait_until 20 "the consumer to have connections" has_connections "$consumer"
count=$(calls_of "$consumer")
# Three brokers answer twice a second: an answer is waited for, read, and followed by a request (4 calls).
say "consumer of three brokers: $count system calls in $SECONDS_IDLE s, of 60 answers"
[ "$count" -le 360 ] || fail "a consumer with nothing to do: $(cat "$WORK/calls")"
