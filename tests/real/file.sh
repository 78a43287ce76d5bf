# A file goes line by line through a real Apache Kafka and back: 12 partitions, the same lines; one
# partition, the same file. 20 MB with lz4; with --full 100 MB in every codec.
. tests/lib/wire.sh
. tests/lib/java_wire.sh
need_java "real Kafka"

size=${FILE_BYTES:-$([ -n "${FULL:-}" ] && echo 100000000 || echo 20000000)}
"$PYTHON" tests/wire/lines.py "$size" >"$WORK/in"
sort "$WORK/in" >"$WORK/in.sorted"
start_kafka
for codec in $([ -n "${FULL:-}" ] && echo none gzip snappy zstd) lz4; do
    cafka topics create -b "$servers" "spread-$codec" --partitions 12
    cafka topics create -b "$servers" "ordered-$codec" --partitions 1
    begin=$SECONDS
    for topic in spread ordered; do
        cafka produce -b "$servers" -t "$topic-$codec" -X "compression.type=$codec" "$WORK/in"
        cafka consume -b "$servers" -t "$topic-$codec" -o beginning -e >"$WORK/$topic"
    done
    sort "$WORK/spread" | cmp - "$WORK/in.sorted" || fail "$codec, 12 partitions: other lines came back"
    cmp "$WORK/ordered" "$WORK/in" || fail "$codec, 1 partition: the file changed"
    say "$codec: $(wc -c <"$WORK/in") bytes, twice, in $((SECONDS - begin)) s"
    cafka topics delete -b "$servers" "spread-$codec" "ordered-$codec"
done
