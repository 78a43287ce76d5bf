# All records of all partitions, and then it stops by itself.
cafka topics create to-end -b "$servers" --partitions 3 >out || fail "creating the topic"
seq 1000 | cafka produce -b "$servers" -t to-end || fail "producing"
run "$servers" to-end
prints '1000 records in 3 partitions'
