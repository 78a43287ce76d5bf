# The first records of a topic, in their order.
printf '%s\n' one two three four | cafka produce -b "$servers" -t numbers-libuv -p 0 || fail "producing"
run "$servers" numbers-libuv 3
prints one two three
