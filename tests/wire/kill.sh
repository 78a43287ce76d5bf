# kill -9 of cafka-mockbroker in the middle of a run, again and again, and a start on the same
# directory and ports: the producer and a consumer go on by themselves, every acknowledged record is
# there, and within a partition nothing is lost, doubled or out of order. 5 rounds, with --full 30.
. tests/lib/wire.sh

rounds=${KILL_ROUNDS:-$([ -n "${FULL:-}" ] && echo 30 || echo 5)} each=20000 partitions=6
port=$(free_ports 3)

begin() { # the broker, on the same ports and directory each time
    start_broker broker --brokers 3 --port "$port" --data-dir "$WORK/data" --topic "numbers:$partitions:$replicas" \
        --set log.segment.bytes=1048576 3>&-
}

# numbers CODEC REPLICAS: one producer through all the rounds
numbers() {
    local codec=$1 replicas=$2 total=$(((rounds + 1) * each)) round after producer reader
    local said=$WORK/said-$codec
    rm -rf "$WORK/data"
    begin
    mkfifo "$WORK/orders-$codec"
    numbered "$servers" numbers "$partitions" "$WORK/acked-$codec" "compression.type=$codec" \
        <"$WORK/orders-$codec" >"$said" &
    producer=$!
    pids+=("$producer")
    exec 3>"$WORK/orders-$codec"
    cafka consume -b "$servers" -t numbers -o beginning -c $total -f '%p %o %s\n' >"$WORK/live-$codec" 3>&- &
    reader=$!
    pids+=("$reader")

    for ((round = 1; round <= rounds; round++)); do
        after=$((round * 7919 % each))
        echo "$each $after $broker" >&3
        wait_until 60 "round $round ($codec): the broker's end" grep -q "^killed $broker\$" "$said"
        wait "$broker" 2>/dev/null || true
        begin
    done
    echo "$each" >&3
    exec 3>&-
    wait "$producer" || fail "$codec: the producer failed: $(tail -n 1 "$said")"
    say "$codec, $replicas replicas, $rounds kills: $(tail -n 1 "$said")"
    wait "$reader" || fail "$codec: the consumer that ran all the time failed"
    "$PYTHON" tests/wire/check_numbered.py "$WORK/acked-$codec" "$WORK/live-$codec" $total $partitions ||
        fail "$codec: what the consumer that ran all the time got"

    kill -KILL "$broker"
    wait "$broker" 2>/dev/null || true
    begin
    cafka consume -b "$servers" -t numbers -o beginning -e -f '%p %o %s\n' >"$WORK/read-$codec"
    "$PYTHON" tests/wire/check_numbered.py "$WORK/acked-$codec" "$WORK/read-$codec" $total $partitions ||
        fail "$codec: what is there after one more kill"
    stop_broker
}

PATH=$BUILD/tests/wire:$PATH
numbers none 1
numbers lz4 3
