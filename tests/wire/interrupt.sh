# Ctrl-C of cafka produce and consume: they stop cleanly and say what was and was not delivered, and
# that is true.
. tests/lib/wire.sh

# With the usual SIGINT, which bash lets background jobs ignore.
interruptible() {
    exec "$PYTHON" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' "$@"
}

# ended STATUS WHAT: the program in $started ends with this status, in time.
ended() {
    local rc=0
    wait_until 20 "$2 to end" gone "$started"
    wait "$started" || rc=$?
    [ $rc = "$1" ] || fail "$2: exit status $rc; it says $(cat "$WORK/said")"
}

# It is the program, and catches SIGINT by now.
ready_for_it() {
    wait_until 20 "$1 to catch SIGINT" catches_it "/proc/$started/status"
}

catches_it() {
    grep -q '^Name:.cafka$' "$1" && grep -q '^SigCgt:.*[2367abef]$' "$1"
}

on_disk() { # TOPIC: the records that the broker has
    cafka consume -b "$servers" -t "$1" -o beginning -e | wc -l
}

start_broker broker --brokers 3 --data-dir "$WORK/data" --topic steady:3 --topic stuck:3 --topic read:3

# produce, in the middle of its input: what it had read is delivered.
mkfifo "$WORK/input"
interruptible cafka produce -b "$servers" -t steady -X linger.ms=100000 "$WORK/input" 2>"$WORK/said" &
started=$!
pids+=("$started")
exec 3>"$WORK/input"
seq 5000 >&3
ready_for_it "cafka produce"
seq 5001 10000 >&3
kill -INT "$started"
ended 1 "cafka produce"
exec 3>&-
said=$(grep -o 'interrupted: .*' "$WORK/said") || fail "cafka produce said $(cat "$WORK/said")"
read -r _ read _ _ acked _ lost _ < <(sed 's/,//g' <<<"$said")
[ "$((acked + lost))" = "$read" ] || fail "the numbers do not add up: $said"
[ "$lost" = 0 ] || fail "with its brokers there, it delivers all: $said"
[ "$(on_disk steady)" = "$acked" ] || fail "the broker has $(on_disk steady): $said"
say "produce: $said"

# produce, while its brokers do not answer: it ends all the same, and does not say that they have them.
mkfifo "$WORK/input2"
interruptible cafka produce -b "$servers" -t stuck "$WORK/input2" 2>"$WORK/said" 4>&- &
started=$!
pids+=("$started")
exec 4>"$WORK/input2"
ready_for_it "cafka produce"
echo first >&4
wait_until 20 "the first record" sh -c "test \$(cat '$WORK'/data/*/stuck-*/*.log | wc -c) -gt 0"
kill -STOP "$broker"
seq 100 >&4
kill -INT "$started"
ended 1 "cafka produce without brokers"
exec 4>&-
kill -CONT "$broker"
said=$(grep -o 'interrupted: .*' "$WORK/said") || fail "cafka produce said $(cat "$WORK/said")"
read -r _ read _ _ acked _ lost _ < <(sed 's/,//g' <<<"$said")
[ "$((acked + lost))" = "$read" ] || fail "the numbers do not add up: $said"
[ "$(on_disk stuck)" -ge "$acked" ] || fail "the broker has only $(on_disk stuck): $said"
say "produce, brokers stopped: $said"

# consume, waiting for more: it says how many it printed, and all of them are printed.
seq 3000 | cafka produce -b "$servers" -t read
interruptible cafka consume -b "$servers" -t read -o beginning >"$WORK/printed" 2>"$WORK/said" &
started=$!
pids+=("$started")
wait_until 20 "records" sh -c "test \$(wc -l <'$WORK/printed') = 3000"
kill -INT "$started"
ended 0 "cafka consume"
grep -q 'interrupted: 3000 records received' "$WORK/said" || fail "cafka consume said $(cat "$WORK/said")"
say "consume: $(cat "$WORK/said")"

# consume, before it has found its topic.
interruptible cafka consume -b "127.0.0.1:$(free_ports 1)" -t read >"$WORK/printed" 2>"$WORK/said" &
started=$!
pids+=("$started")
ready_for_it "cafka consume"
kill -INT "$started"
ended 1 "cafka consume without a broker"
grep -q 'interrupted: 0 records received' "$WORK/said" || fail "cafka consume said $(cat "$WORK/said")"

# produce and bench, before a broker was found: no send holds them until max.block.ms.
nobody=127.0.0.1:$(free_ports 1)
soon() { # STATUS WHAT: it ends long before max.block.ms and LOOKUP_MS would let it
    local began=$SECONDS
    ended "$1" "$2"
    [ $((SECONDS - began)) -le 10 ] || fail "$2: it took $((SECONDS - began)) s"
}
echo "a line" >"$WORK/line"
interruptible cafka produce -b "$nobody" -t read "$WORK/line" 2>"$WORK/said" &
started=$!
pids+=("$started")
ready_for_it "cafka produce"
kill -INT "$started"
soon 1 "cafka produce without a broker"
[ "$(cat "$WORK/said")" = "cafka: interrupted: 0 records read, 0 acknowledged, 0 not" ] || fail "it said $(cat "$WORK/said")"
for mode in produce consume; do
    interruptible cafka bench $mode -b "$nobody" -t read -n 10 2>"$WORK/said" &
    started=$!
    pids+=("$started")
    ready_for_it "cafka bench $mode"
    kill -INT "$started"
    soon 1 "cafka bench $mode without a broker"
    [ "$(cat "$WORK/said")" = "cafka: interrupted" ] || fail "it said $(cat "$WORK/said")"
done

# produce, whose input is over, while its brokers do not answer: the wait for the rest ends, too.
kill -STOP "$broker"
interruptible cafka produce -b "$servers" -t stuck -X max.block.ms=600000 "$WORK/line" 2>"$WORK/said" &
started=$!
pids+=("$started")
ready_for_it "cafka produce"
kill -INT "$started"
soon 1 "cafka produce with its brokers stopped"
kill -CONT "$broker"
grep -q 'interrupted: ' "$WORK/said" || fail "cafka produce said $(cat "$WORK/said")"
stop_broker
