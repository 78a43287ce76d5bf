# kcat produces what cafka consumes and consumes what cafka produced, in every codec that it
# knows, with keys and headers.
. tests/lib/wire.sh
command -v kcat >/dev/null || skip "kcat not found"

codecs="none gzip snappy lz4 zstd"
start_broker broker --brokers 3 --set num.partitions=3
for i in $(seq 3000); do
    printf 'key %d\tvälue %d %0*d\n' $((i % 97)) "$i" $((i % 300 + 1)) "$i"
done >"$WORK/in"
"$PYTHON" tests/wire/lines.py 3000000 7 | tr -d '\t\000' | sed 's/^/k\t/' >>"$WORK/in"
sort "$WORK/in" >"$WORK/sorted"
sed $'s/$/\tcolour=blue,empty=/' "$WORK/in" | sort >"$WORK/sorted.headers"

for codec in $codecs; do
    kcat -P -b "$servers" -t "kcat-$codec" -K '\t' -H colour=blue -H empty= -z "$codec" -l "$WORK/in" \
        -X queue.buffering.max.kbytes=100000 -X message.max.bytes=1000000
    cafka consume -b "$servers" -t "kcat-$codec" -o beginning -e -f '%k\t%s\t%h\n' | sort >"$WORK/out"
    same "$WORK/sorted.headers" "$WORK/out" "kcat to cafka, $codec"

    cafka produce -b "$servers" -t "cafka-$codec" -k $'\t' -H colour=blue -H empty= -X compression.type="$codec" "$WORK/in"
    kcat -C -q -b "$servers" -t "cafka-$codec" -o beginning -e -f '%k\t%s\t%h\n' -X check.crcs=true | sort >"$WORK/out"
    same "$WORK/sorted.headers" "$WORK/out" "cafka to kcat, $codec"
    say "$codec: $(wc -l <"$WORK/in") records both ways"
done

# Both send a key to the same partition, if kcat is told to use Java's partitioner.
kcat -P -b "$servers" -t keys-kcat -K '\t' -X partitioner=murmur2_random -l "$WORK/in"
cafka produce -b "$servers" -t keys-cafka -k $'\t' "$WORK/in"
for who in kcat cafka; do
    cafka consume -b "$servers" -t "keys-$who" -o beginning -e -f '%k in %p\n' | sort -u >"$WORK/keys-$who"
done
same "$WORK/keys-kcat" "$WORK/keys-cafka" "partitions of keys"

# Null keys and values, a header without a value, timestamps and offsets as kcat sees them.
printf '\tempty key\nkey only\t\n' | kcat -P -b "$servers" -t nulls -p 0 -K '\t' -Z
cafka consume -b "$servers" -t nulls -o beginning -e -f '[%k][%s] %o %p\n' >"$WORK/out"
printf '[][empty key] 0 0\n[key only][] 1 0\n' >"$WORK/expected"
same "$WORK/expected" "$WORK/out" "nulls"
cafka consume -b "$servers" -t nulls -o beginning -e -f '%T %p %o\n' >"$WORK/out"
kcat -C -q -b "$servers" -t nulls -o beginning -e -f '%T %p %o\n' >"$WORK/expected"
same "$WORK/expected" "$WORK/out" "timestamps"

# What kcat makes of the cluster.
kcat -L -b "$servers" >"$WORK/list"
grep -q '3 brokers' "$WORK/list" && grep -q 'topic "kcat-zstd" with 3 partitions' "$WORK/list" || fail "kcat -L: $(cat "$WORK/list")"
kcat -Q -b "$servers" -t nulls:0:-1 | grep -q 'nulls \[0\] offset 2' || fail "kcat -Q"
stop_broker
