# Records with one key are in one partition, in the order they were sent in.
cafka topics create keyed -b "$servers" --partitions 4 >out || fail "creating the topic"
run "$servers" keyed
cafka consume -b "$servers" -t keyed -o beginning -e -f '%k %p %s %h\n' >out || fail "reading"
[ "$(wc -l <out)" = 100 ] || fail "$(wc -l <out) records, not 100"
for i in 0 3 9; do
    awk -v key="customer-$i" '$1 == key { print $3, $4, $5 }' out >found
    for n in 0 1 2 3 4 5 6 7 8 9; do echo "order $((n * 10 + i)) source=keyed.cc"; done >expected
    cmp -s expected found || fail "records of customer-$i: $(cat found)"
    [ "$(awk -v key="customer-$i" '$1 == key { print $2 }' out | sort -u | wc -l)" = 1 ] || fail "customer-$i is in several partitions"
done
