# A broker that stops answering for longer than request.timeout.ms and then goes on: what it was
# sent before is handled late, and sent again meanwhile. Idempotence keeps every record once and in
# order; a consumer beside it reads the same. 3 pauses, with --full 20.
. tests/lib/wire.sh
PATH=$BUILD/tests/wire:$PATH

rounds=$([ -n "${FULL:-}" ] && echo 20 || echo 3) each=20000 partitions=6
total=$(((rounds + 1) * each)) said=$WORK/said
start_broker broker --brokers 3 --data-dir "$WORK/data" --topic "numbers:$partitions"
mkfifo "$WORK/orders"
numbered "$servers" numbers "$partitions" "$WORK/acked" request.timeout.ms=500 retry.backoff.ms=20 \
    reconnect.backoff.ms=20 reconnect.backoff.max.ms=100 linger.ms=1 <"$WORK/orders" >"$said" &
producer=$!
pids+=("$producer")
exec 3>"$WORK/orders"
cafka consume -b "$servers" -t numbers -o beginning -c $total -f '%p %o %s\n' -X request.timeout.ms=700 \
    -X fetch.max.wait.ms=300 >"$WORK/live" 3>&- &
reader=$!
pids+=("$reader")
for ((round = 1; round <= rounds; round++)); do
    echo "$each $((round * 7919 % each)) $broker 19" >&3 # SIGSTOP
    wait_until 60 "round $round: the pause" sh -c "test \$(grep -c '^killed' '$said') = $round"
    sleep 1.5 # the pause itself: longer than the clients' patience
    kill -CONT "$broker"
done
echo "$each" >&3
exec 3>&-
wait "$producer" || fail "the producer failed: $(tail -n 1 "$said")"
wait "$reader" || fail "the consumer failed"
say "$rounds pauses: $(tail -n 1 "$said")"
"$PYTHON" tests/wire/check_numbered.py "$WORK/acked" "$WORK/live" $total $partitions || fail "what was read meanwhile"
cafka consume -b "$servers" -t numbers -o beginning -e -f '%p %o %s\n' >"$WORK/read"
"$PYTHON" tests/wire/check_numbered.py "$WORK/acked" "$WORK/read" $total $partitions || fail "what is there"
stop_broker
