# What is wrong is said, in one sentence that names it, within the time and in little memory: wrong
# options and properties, topics and messages that brokers refuse, servers that are no brokers,
# batches that are damaged.
. tests/lib/wire.sh

# refused STATUS PATTERN SECONDS COMMAND…: it ends with this status within the time, says on stderr
# what the pattern matches, and never used more than 64 MB.
refused() {
    local status=$1 pattern=$2 seconds=$3
    shift 3
    "$PYTHON" tests/wire/measured.py "$seconds" 64 "$status" "$@" <"$WORK/stdin" >"$WORK/stdout" 2>"$WORK/stderr" || {
        tail -n 5 "$WORK/stderr"
        fail "$*"
    }
    grep -qE -e "$pattern" "$WORK/stderr" || fail "$*: it says $(cat "$WORK/stderr")"
    say "ok: $(grep -E -e "$pattern" "$WORK/stderr" | head -n 1 | cut -c 1-220)"
}
echo "a line" >"$WORK/stdin"
start_broker broker --brokers 2 --data-dir "$WORK/data" --topic small:1:1:max.message.bytes=2000 --topic damaged:1 --topic partly:2 \
    --set auto.create.topics.enable=false

# Options and properties.
there=(-b "$servers" -t small)
refused 2 'property is called nosuch.property' 5 cafka produce "${there[@]}" -X nosuch.property=1
refused 2 'did you mean compression.type' 5 cafka produce "${there[@]}" -X compresion.type=lz4
refused 2 'linger.ms=soon: not a whole number' 5 cafka produce "${there[@]}" -X linger.ms=soon
refused 2 'acks=7: not one of all' 5 cafka produce "${there[@]}" -X acks=7
refused 2 'fetch.max.bytes=-5: out of range' 5 cafka consume "${there[@]}" -X fetch.max.bytes=-5
refused 2 'bootstrap.servers is missing' 5 cafka produce -t small
refused 2 'needs a topic' 5 cafka consume -b "$servers"
refused 2 'takes host:port' 5 cafka produce -b : -t small
refused 2 'takes host:port' 5 cafka produce -b :::: -t small
refused 2 'no option --nosuch' 5 cafka consume "${there[@]}" --nosuch
refused 2 'needs a value' 5 cafka consume "${there[@]}" -o
refused 2 '-c wants a number' 5 cafka consume "${there[@]}" -c many
refused 1 'nosuchfile: No such file' 5 cafka produce "${there[@]}" "$WORK/nosuchfile"

# Topics and partitions that are not there, messages that are too large.
refused 1 'sending to nosuch: .*(UNKNOWN_TOPIC|not known|does not exist)' 20 \
    cafka produce -b "$servers" -t nosuch -X max.block.ms=2000
refused 1 'nosuch.*(UNKNOWN_TOPIC|not known|does not exist)' 20 cafka consume -b "$servers" -t nosuch -e
refused 1 'bad topic' 20 cafka produce -b "$servers" -t 'bad topic'
refused 1 'only 1 partitions' 20 cafka produce "${there[@]}" -p 7 -X max.block.ms=1000
head -c 3000000 /dev/zero | tr '\0' x >"$WORK/stdin"
refused 1 'line 1: a record of 30000[0-9]* bytes .*max.request.size.*TOO_LARGE' 20 cafka produce "${there[@]}"
head -c 100000 /dev/zero | tr '\0' x >"$WORK/stdin"
refused 1 'small-0.*(MESSAGE_TOO_LARGE|TOO_LARGE|too large)' 20 cafka produce "${there[@]}"
grep -q '1 records read, 0 acknowledged, 1 not' "$WORK/stderr" || fail "it does not count what was refused"

# Servers that are no brokers. They are asked again until the time is over, and then it is said why.
liar() { # KIND PATTERN
    : >"$WORK/port"
    background "$PYTHON" tests/wire/liar.py "$1" >"$WORK/port"
    wait_until 20 "the server" grep -q . "$WORK/port"
    echo "a line" >"$WORK/stdin"
    refused 1 "$2" 20 cafka produce -b "127.0.0.1:$(cat "$WORK/port")" -t x -X max.block.ms=1500
    refused 1 "$2" 20 cafka consume -b "127.0.0.1:$(cat "$WORK/port")" -t x -e -X default.api.timeout.ms=3000 -X socket.connection.setup.timeout.ms=2000
    kill -KILL "$started"
    wait "$started" 2>/dev/null || true
}
liar http 'looks like HTTP'
liar huge 'message of 2147483647 bytes was announced'
liar negative 'message of -1 bytes was announced'
liar garbage 'does not speak the protocol.*correlation id'
liar closing 'closed by the peer'
liar silent 'not known (after|within)'
nobody=127.0.0.1:$(free_ports 1)
refused 1 "connection to $nobody refused" 20 cafka produce -b "$nobody" -t x -X max.block.ms=1500
refused 1 "connection to $nobody refused" 20 cafka consume -b "$nobody" -t x -X default.api.timeout.ms=1500
refused 1 'no host is called nosuchhost.invalid|nosuchhost.invalid: the name server' 20 \
    cafka produce -b nosuchhost.invalid:9092 -t x -X max.block.ms=4000

# Batches that are damaged: the broker sends what its file holds.
for i in 1 2 3; do
    cafka produce -b "$servers" -t damaged <<<"line $i"
done
file=$(find "$WORK/data" -path '*/damaged-0/*.log')
cp "$file" "$WORK/whole"
second=$(cafka log dump "$file" | sed -n '1s/.*"sizeInBytes":\([0-9]*\).*/\1/p')
damage() { # BATCH OFFSET HEX: bytes of a batch that is there are overwritten
    cp "$WORK/whole" "$WORK/broken"
    printf '%b' "$(sed 's/../\\x&/g' <<<"$3")" | dd of="$WORK/broken" bs=1 seek=$(($1 + $2)) conv=notrunc 2>/dev/null
    cat "$WORK/broken" >"$file"
}
at='damaged-0 at offset 1: .*'
damage "$second" 17 00000000 # its CRC
refused 1 "$at(CRC|corrupt)" 20 cafka consume -b "$servers" -t damaged -o beginning -e
[ "$(cat "$WORK/stdout")" = "line 1" ] || fail "what came before the damage: $(cat "$WORK/stdout")"
damage "$second" 8 00000005 # a length that no batch has
refused 1 "$at(length|corrupt)" 20 cafka consume -b "$servers" -t damaged -o beginning -e
damage "$second" 16 09 # a magic that is not known
refused 1 "$at(magic|version|format|corrupt)" 20 cafka consume -b "$servers" -t damaged -o beginning -e
cat "$WORK/whole" >"$file"
[ "$(cafka consume -b "$servers" -t damaged -o beginning -e | wc -l)" = 3 ] || fail "the file as it was"

# An offset that is not there yet, though with -e nothing is to be waited for.
beyond=(-b "$servers" -t damaged -o 99999 -e)
refused 1 'damaged-0 at offset 99999: .*OFFSET_OUT_OF_RANGE' 20 cafka consume "${beyond[@]}" -X auto.offset.reset=none
[ "$(cafka consume "${beyond[@]}" -X auto.offset.reset=earliest | wc -l)" = 3 ] || fail "reset to the beginning"
[ "$(cafka consume "${beyond[@]}" | wc -l)" = 0 ] || fail "reset to the end"

# One damaged partition does not keep the others back: it is told once, left out, and read again from
# behind the damage by whoever asks for that.
for partition in 0 1; do
    for i in 1 2 3; do
        cafka produce -b "$servers" -t partly -p $partition <<<"line $i"
    done
done
file=$(find "$WORK/data" -path '*/partly-1/*.log')
cp "$file" "$WORK/whole"
damage "$(cafka log dump "$file" | sed -n '1s/.*"sizeInBytes":\([0-9]*\).*/\1/p')" 17 00000000
refused 1 'partly-1 at offset 1: .*(CRC|corrupt)' 20 cafka consume -b "$servers" -t partly -o beginning -e -f '%p %o %s\n'
[ "$(grep -c 'partly-1 at offset 1' "$WORK/stderr")" = 1 ] || fail "it is told more than once"
grep -q 'partly-1 is left out from offset 1 on' "$WORK/stderr" || fail "it does not say what is left out"
printf '%s\n' '0 0 line 1' '0 1 line 2' '0 2 line 3' '1 0 line 1' >"$WORK/expected"
sort "$WORK/stdout" >"$WORK/sorted"
same "$WORK/expected" "$WORK/sorted" "what the other partition and the part before the damage hold"
refused 1 'there is no 2' 20 cafka consume -b "$servers" -t partly -p 2 -e
[ "$(cafka consume -b "$servers" -t partly -p 1 -o 2 -e)" = "line 3" ] || fail "what stands behind the damage"
stop_broker

# Batches that are damaged on the way: the broker says that it is at 127.0.0.2, where a proxy is.
port=$(free_ports 1)
start_broker behind --port "$port" --advertised-host 127.0.0.2 --topic far-cut:1 --topic far-flip:1
for kind in cut flip; do
    : >"$WORK/ready"
    background "$PYTHON" tests/wire/bad_proxy.py $kind "127.0.0.2:$port" "127.0.0.1:$port" >"$WORK/ready"
    wait_until 20 "the proxy" grep -q ready "$WORK/ready"
    cafka produce -b "127.0.0.2:$port" -t "far-$kind" <<<"a line that arrives"
    refused 1 "far-$kind-0 at offset 0: .*(corrupt|cut off)" 20 cafka consume -b "127.0.0.2:$port" -t "far-$kind" -o beginning -e
    kill -KILL "$started"
    wait "$started" 2>/dev/null || true
done

# A request that names one topic very often costs a broker memory in proportion to its size.
start_broker named --topic named:1
answer=$("$PYTHON" tests/wire/many_names.py "$servers" named 30000) || fail "a request with many names"
[ "$answer" -gt 180000 ] || fail "$answer bytes answer 30000 names"
peak=$(awk '$1 == "VmHWM:" { print $2 }' "/proc/$broker/status")
[ "$peak" -lt 65536 ] || fail "a request of 400 KB took $peak KB"
stop_broker
