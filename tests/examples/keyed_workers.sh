# Records of one key are worked on in the order of the log, and every partition is done to its end.
cafka topics create workers -b "$servers" --partitions 3 >out || fail "creating the topic"
seq 3000 | awk '{ print "key" $1 % 17 ":" $1 }' | cafka produce -b "$servers" -t workers -k : || fail "producing"
run "$servers" workers 5
[ "$(wc -l <out)" = 3000 ] || fail "$(wc -l <out) records, not 3000"
awk '{ if ($2 <= last[$1]) { print $1, $2, "after", last[$1]; bad = 1 } last[$1] = $2 } END { exit bad }' out || fail "out of order"
[ "$(awk '{ sum += $NF } END { print sum, NR }' err)" = "3000 3" ] || fail "positions: $(cat err)"
