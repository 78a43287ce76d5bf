# All records come through, the backlog keeps its bound, and it was paused and resumed for that.
cafka topics create backlog -b "$servers" --partitions 2 >out || fail "creating the topic"
seq 2000 | cafka produce -b "$servers" -t backlog || fail "producing"
run "$servers" backlog 150
awk '$1 == 2000 && $2 == "records," && $3 <= 250 { good = 1 } END { exit !good }' out || fail "$(cat out)"
grep -q '^paused: ' err && grep -q '^resumed: ' err || fail "never paused: $(cat err)"
