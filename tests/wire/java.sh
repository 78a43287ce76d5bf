# The console producer and consumer of Apache Kafka produce what cafka consumes and consume what
# cafka produced, in every codec, with keys and headers.
. tests/lib/wire.sh
. tests/lib/java_wire.sh
need_java "Java clients"

start_broker broker --brokers 3 --topic cafka:1 --set num.partitions=3
for i in $(seq 3000); do
    printf 'key %d\tvälue %d %0*d\n' $((i % 97)) "$i" $((i % 300 + 1)) "$i"
done >"$WORK/in"
sed 's/$/\tcolour:blue,empty:/' "$WORK/in" >"$WORK/cafka"
: >"$WORK/expected"

# What cafka sends, one codec after the other, is read in one go.
for codec in none gzip snappy lz4 zstd; do
    cafka produce -b "$servers" -t cafka -k $'\t' -H colour=blue -H empty= -X compression.type=$codec "$WORK/in"
    cat "$WORK/cafka" >>"$WORK/expected"
done
java_tool org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server "$servers" --topic cafka \
    --partition 0 --offset earliest --max-messages 15000 --timeout-ms 60000 \
    --formatter-property print.key=true --formatter-property print.headers=true >"$WORK/printed"
# It prints headers, key, value.
awk -F '\t' -v OFS='\t' '{ print $2, $3, $1 }' "$WORK/printed" >"$WORK/out"
same "$WORK/expected" "$WORK/out" "cafka to Java"
say "cafka to Java: 15000 records in all codecs"

sed 's/^/colour:blue,empty:\t/' "$WORK/in" >"$WORK/java"
sed $'s/$/\tcolour=blue,empty=/' "$WORK/in" | sort >"$WORK/sorted"
for codec in none gzip snappy lz4 zstd; do
    java_tool org.apache.kafka.tools.ConsoleProducer --bootstrap-server "$servers" --topic "java-$codec" \
        --compression-codec "$codec" --reader-property parse.key=true --reader-property parse.headers=true \
        <"$WORK/java"
    cafka consume -b "$servers" -t "java-$codec" -o beginning -e -f '%k\t%s\t%h\n' | sort >"$WORK/out"
    same "$WORK/sorted" "$WORK/out" "Java to cafka, $codec"
    say "Java to cafka, $codec: 3000 records"
done
stop_broker
