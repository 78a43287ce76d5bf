# cafka-mockbroker opens log directories that Apache Kafka 4.3.1 wrote, one stopped cleanly and one
# left by kill -9 and damaged, and serves them to cafka and kcat: exactly the records that Kafka's own
# dump tells of (of the second: its batches after Kafka's own recovery).
. tests/lib/wire.sh
golden=$CAFKA_SHARED/golden/logdir
[ -d "$golden" ] || skip "golden data not found"
command -v kcat >/dev/null || skip "kcat not found"

offset_of() { # LINES: the log start offset of a topic, from the checkpoint
    awk -v topic="$1" -v p="$2" '$1 == topic && $2 == p { at = $3 } END { print at + 0 }' \
        "$WORK/clean/log-start-offset-checkpoint"
}

mkdir "$WORK/clean" "$WORK/unclean"
tar xzf "$golden/clean.tar.gz" -C "$WORK/clean"
tar xzf "$golden/unclean-before.tar.gz" -C "$WORK/unclean"

start_broker clean --data-dir "$WORK/clean"
for dump in "$golden"/clean-dump/[a-z]*-*.txt; do
    name=$(basename "$dump" .txt) topic=${name%-*} partition=${name##*-}
    "$PYTHON" tests/wire/dumped.py "$(offset_of "$topic" "$partition")" "$dump" >"$WORK/expected"
    cafka consume -b "$servers" -t "$topic" -o beginning -e -f '%p\t%o\t%T\t%k\t%s\t%h\n' |
        sed -n "s/^$partition\t//p" >"$WORK/records"
    awk -F '\t' -v OFS='\t' '{ gsub(/=[^,]*/, "", $5); print }' "$WORK/records" >"$WORK/cafka"
    same "$WORK/expected" "$WORK/cafka" "$name as cafka reads it"
    cut -f 1-4 "$WORK/expected" >"$WORK/expected.kcat"
    kcat -C -q -b "$servers" -t "$topic" -p "$partition" -o beginning -e -f '%o\t%T\t%k\t%s\n' \
        -X check.crcs=true -X isolation.level=read_uncommitted >"$WORK/kcat"
    same "$WORK/expected.kcat" "$WORK/kcat" "$name as kcat reads it"
    say "clean $name: $(wc -l <"$WORK/expected") records"
done
# What was aborted is not there for a reader of committed records; kcat agrees.
for reader in cafka kcat; do
    if [ $reader = cafka ]; then
        cafka consume -b "$servers" -t txn -o beginning -e -f '%o\n' -X isolation.level=read_committed
    else
        kcat -C -q -b "$servers" -t txn -o beginning -e -f '%o\n' -X isolation.level=read_committed
    fi >"$WORK/committed-$reader"
done
same "$WORK/committed-kcat" "$WORK/committed-cafka" "committed records"
say "clean txn: $(wc -l <"$WORK/committed-cafka") committed"
cafka produce -b "$servers" -t plain -p 1 <<<"one more"
[ "$(cafka consume -b "$servers" -t plain -o beginning -e | grep -c '^one more$')" = 1 ] || fail "it takes no record"
stop_broker

# The unclean one. Its damage is told in unclean-damage.txt; torn-9 stays damaged, by Kafka too.
offsets_of() { # DUMP: the offsets that it tells of, control batches left out
    awk '/^baseOffset/ && !/isControl: true/ { for (o = $2; o <= $4; o++) print o }' "$1"
}

start_broker unclean --data-dir "$WORK/unclean"
for dump in "$golden"/unclean-after-dump/[a-z]*-*.txt; do
    name=$(basename "$dump" .txt) topic=${name%-*} partition=${name##*-}
    offsets_of "$dump" >"$WORK/expected"
    kcat -C -q -b "$servers" -t "$topic" -p "$partition" -o beginning -e -f '%o\n' \
        -X isolation.level=read_uncommitted >"$WORK/kcat"
    same "$WORK/expected" "$WORK/kcat" "unclean $name as kcat reads it"
    if [ "$topic" != torn ]; then
        cafka consume -b "$servers" -t "$topic" -o beginning -e -f '%p %o\n' | sed -n "s/^$partition //p" >"$WORK/cafka"
        same "$WORK/expected" "$WORK/cafka" "unclean $name as cafka reads it"
    fi
    say "unclean $name: $(wc -l <"$WORK/expected") records"
done
rc=0
cafka consume -b "$servers" -t torn -o beginning -e >/dev/null 2>"$WORK/error" || rc=$?
[ $rc = 1 ] || fail "the damaged batch of torn-9: exit status $rc"
grep -q 'torn-9 at offset 9.*corrupt' "$WORK/error" || fail "the damaged batch of torn-9: $(cat "$WORK/error")"
stop_broker
