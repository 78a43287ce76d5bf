# Apache Kafka's DumpLogSegments reads the log, index and time index files of cafka-mockbroker
# without complaint and finds in them what was sent: after a clean stop, and after kill -9 and a
# start.
. tests/lib/wire.sh
. tests/lib/java_wire.sh
need_java "Java clients"

partitions=3
begin() {
    start_broker broker --data-dir "$WORK/data" --topic "dumped:$partitions" --set log.segment.bytes=1048576 \
        --set log.index.interval.bytes=512
}

# Each file once; what it says in $WORK/dump. Complaints are lines of their own.
dump() {
    local logs indexes
    logs=$(find "$WORK/data" -path '*/dumped-*' -name '*.log' | sort | paste -sd,)
    indexes=$(find "$WORK/data" -path '*/dumped-*' \( -name '*.index' -o -name '*.timeindex' \) | sort | paste -sd,)
    java_tool "$(dump_class)" --deep-iteration --files "$logs" >"$WORK/dump"
    java_tool "$(dump_class)" --verify-index-only --files "$indexes" >"$WORK/dump.indexes"
    java_tool "$(dump_class)" --index-sanity-check --files "$indexes" >"$WORK/dump.sanity"
    grep -aiE 'mismatch|out of order|non-(con)?secutive|isvalid: false|exception|corrupt|error' \
        "$WORK/dump" "$WORK/dump.indexes" "$WORK/dump.sanity" |
        grep -avE 'offset of -1 is followed|:\|' >"$WORK/complaints" || true
    [ ! -s "$WORK/complaints" ] || fail "$1: DumpLogSegments says: $(head -n 20 "$WORK/complaints")"
    local files passed
    files=$(tr , '\n' <<<"$indexes" | wc -l)
    passed=$(grep -cE 'passed sanity check|is empty' "$WORK/dump.sanity")
    [ "$passed" = "$files" ] || fail "$1: of $files indexes $passed are sane the check: $(cat "$WORK/dump.sanity")"
    [ "$(grep -c '^Dumping' "$WORK/dump.indexes")" = "$files" ] || fail "$1: $(cat "$WORK/dump.indexes")"
    say "$1: $(tr , '\n' <<<"$logs" | wc -l) segments, $(grep -ac '^baseOffset' "$WORK/dump") batches," \
        "$(grep -ac '^| offset' "$WORK/dump") records"
}

"$PYTHON" tests/wire/lines.py 4000000 3 >"$WORK/in"
lines=$(wc -l <"$WORK/in")
begin
for codec in none gzip snappy lz4 zstd; do
    cafka produce -b "$servers" -t dumped -X "compression.type=$codec" "$WORK/in"
done
stop_broker
dump "after a clean stop"
[ "$(grep -ac '^| offset' "$WORK/dump")" = $((5 * lines)) ] || fail "records are missing"
for codec in none gzip snappy lz4 zstd; do
    grep -aq "compresscodec: $codec " "$WORK/dump" || fail "no batch in $codec"
done

begin
cafka produce -b "$servers" -t dumped -X compression.type=lz4 "$WORK/in"
kill -KILL "$broker"
wait "$broker" 2>/dev/null || true
begin
cafka produce -b "$servers" -t dumped "$WORK/in"
stop_broker
dump "after kill -9 and a start"
[ "$(grep -ac '^| offset' "$WORK/dump")" = $((7 * lines)) ] || fail "records are missing"
