# A file goes line by line through three brokers and back, in every codec: through 12 partitions
# the same lines come back, through one partition the same file. 20 MB, with --full 100 MB.
. tests/lib/wire.sh

size=${FILE_BYTES:-$([ -n "${FULL:-}" ] && echo 100000000 || echo 20000000)}
"$PYTHON" tests/wire/lines.py "$size" >"$WORK/in"
sort "$WORK/in" >"$WORK/in.sorted"
say "$(wc -l <"$WORK/in") lines, $(wc -c <"$WORK/in") bytes"

topics=()
for codec in none gzip snappy lz4 zstd; do
    topics+=(--topic "spread-$codec:12" --topic "ordered-$codec:1")
done
start_broker broker --brokers 3 --data-dir "$WORK/data" "${topics[@]}"

# There and back; the output is $WORK/out.
through() { # TOPIC CODEC
    local begin=$SECONDS
    cafka produce -b "$servers" -t "$1" -X "compression.type=$2" "$WORK/in"
    cafka consume -b "$servers" -t "$1" -o beginning -e >"$WORK/out"
    say "$1: $((SECONDS - begin)) s, $(du -ck "$WORK"/data/*/"$1"-* | tail -n 1 | cut -f 1) KB on disk"
}

for codec in none gzip snappy lz4 zstd; do
    through "spread-$codec" "$codec"
    sort "$WORK/out" | cmp - "$WORK/in.sorted" || fail "$codec, 12 partitions: other lines came back"
    leaders=$(find "$WORK"/data/[123] -path "*/spread-$codec-*" -name '*.log' -size +0 | cut -d/ -f "$(($(tr -cd / <<<"$WORK/data" | wc -c) + 2))" | sort -u | wc -l)
    [ "$leaders" = 3 ] || fail "the partitions are on $leaders brokers"
    through "ordered-$codec" "$codec"
    cmp "$WORK/out" "$WORK/in" || fail "$codec, 1 partition: the file changed"
done
stop_broker
