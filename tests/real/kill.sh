# kill -9 of one of three real brokers in the middle of a run, each in turn, and its start: leaders
# move, replicas are cut and come back, the producer and a consumer go on by themselves, and every
# acknowledged record is there once and in order. With --full only.
. tests/lib/wire.sh
. tests/lib/java_wire.sh
[ -n "${FULL:-}" ] || skip "brokers of real Kafka are killed with --full only"
need_java "real Kafka"
PATH=$BUILD/tests/wire:$PATH

in_sync() {
    [ "$(cafka topics describe -b "$servers" numbers | grep -cE ' isr=[123],[123],[123]$')" = $partitions ]
}

each=20000 partitions=6 said=$WORK/said
rounds=${KILL_ROUNDS:-6}
total=$(((rounds + 1) * each))
start_kafka --nodes 3
cafka topics create -b "$servers" numbers --partitions $partitions --replicas 3 --config min.insync.replicas=2
mkfifo "$WORK/orders"
numbered "$servers" numbers $partitions "$WORK/acked" linger.ms=1 <"$WORK/orders" >"$said" &
producer=$!
pids+=("$producer")
exec 3>"$WORK/orders"
cafka consume -b "$servers" -t numbers -o beginning -c $total -f '%p %o %s\n' >"$WORK/live" 3>&- &
reader=$!
pids+=("$reader")
for ((round = 1; round <= rounds; round++)); do
    node=$((round % 3 + 1))
    victim=$(cat "$kafka_dir/node$node/pid")
    echo "$each $((round * 7919 % each)) $victim" >&3
    wait_until 120 "round $round: the broker's end" grep -q "^killed $victim\$" "$said"
    wait_until 60 "round $round: the broker to be gone" gone "$victim"
    "$KAFKA" restart "$kafka_dir" $node 3>&- 2>>"$WORK/kafka.log" || fail "round $round: no start"
    # Nobody else is killed before it is back in every ISR, as min.insync.replicas=2 wants.
    wait_until 120 "round $round: the replicas to come back" in_sync
done
echo "$each" >&3
exec 3>&-
wait "$producer" || fail "the producer failed: $(tail -n 1 "$said")"
wait "$reader" || fail "the consumer failed"
say "$rounds kills of real brokers: $(tail -n 1 "$said")"
"$PYTHON" tests/wire/check_numbered.py "$WORK/acked" "$WORK/live" $total $partitions || fail "what was read meanwhile"
cafka consume -b "$servers" -t numbers -o beginning -e -f '%p %o %s\n' >"$WORK/read"
"$PYTHON" tests/wire/check_numbered.py "$WORK/acked" "$WORK/read" $total $partitions || fail "what is there"
