# The records of a partition, from its beginning.
printf '%s\n' one two three | cafka produce -b "$servers" -t read-by-hello || fail "producing"
run "$servers" read-by-hello 3
prints 'read-by-hello-0@0: one' 'read-by-hello-0@1: two' 'read-by-hello-0@2: three'
