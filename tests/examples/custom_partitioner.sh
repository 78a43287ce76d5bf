# Large customers are alone in partition 0; the others are behind it, each in its own partition.
cafka topics create orders -b "$servers" --partitions 4 >out || fail "creating the topic"
run "$servers"
cp out said
cafka consume -b "$servers" -t orders -o beginning -e -f '%k: partition %p\n' >out || fail "reading"
sort said >expected
sort out | cmp -s expected - || fail "said one thing and did another: $(cat said out)"
[ "$(grep -c 'large-.: partition 0$' out)" = 2 ] || fail "large customers: $(cat out)"
grep -q 'small-.: partition 0$' out && fail "a small customer in partition 0"
# One partition is all there is: everybody goes there.
run "$servers" single
[ "$(grep -c 'partition 0$' out)" = 5 ] || fail "one partition: $(cat out)"
