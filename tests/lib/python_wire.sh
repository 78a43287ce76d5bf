# python_wire.sh - one Python client library and cafka, both ways; for the cases confluent and
# kafka_python of tests/wire.

# both_ways LIBRARY [option of cafka-mockbroker…]
both_ways() {
    local library=$1 codec codecs
    shift
    "$PYTHON" -c "import $library" 2>/dev/null || skip "Python's $library not found"
    for i in $(seq 2000); do
        printf 'key %d\tvälue %d %0*d\n' $((i % 97)) "$i" $((i % 300 + 1)) "$i"
    done >"$WORK/in"
    "$PYTHON" tests/wire/lines.py 2000000 7 | tr -d '\t\000' | sed 's/^/k\t/' >>"$WORK/in"
    sed $'s/$/\tcolour=blue,empty=/' "$WORK/in" | sort >"$WORK/sorted"
    start_broker broker --brokers 3 --set num.partitions=3 "$@"

    codecs=" $("$PYTHON" tests/wire/py_client.py "$library" codecs) "
    for codec in none gzip snappy lz4 zstd; do
        [[ $codecs == *" $codec "* ]] || {
            say "skipped: Python's $library without $codec"
            continue
        }
        "$PYTHON" tests/wire/py_client.py "$library" produce "$servers" "python-$codec" "$codec" <"$WORK/in"
        cafka consume -b "$servers" -t "python-$codec" -o beginning -e -f '%k\t%s\t%h\n' | sort >"$WORK/out"
        same "$WORK/sorted" "$WORK/out" "$library to cafka, $codec"
        cafka consume -b "$servers" -t "python-$codec" -o beginning -e -f '%T\n' | sort -n | uniq >"$WORK/out"
        seq 1600000000000 $((1600000000000 + $(wc -l <"$WORK/in") - 1)) >"$WORK/expected"
        same "$WORK/expected" "$WORK/out" "timestamps of $library, $codec"

        cafka produce -b "$servers" -t "cafka-$codec" -k $'\t' -H colour=blue -H empty= \
            -X compression.type="$codec" "$WORK/in"
        "$PYTHON" tests/wire/py_client.py "$library" consume "$servers" "cafka-$codec" | sort >"$WORK/out"
        same "$WORK/sorted" "$WORK/out" "cafka to $library, $codec"
        say "$library, $codec: $(wc -l <"$WORK/in") records both ways"
    done
    stop_broker
}
