# Points go out as text and come back as points.
run "$servers"
prints 'x 1, y 1' 'x 2, y 4' 'x 3, y 9'
holds points '%s' 1,1 2,4 3,9
# A value that is no point: the error says where it is and why.
echo 'three,four' | cafka produce -b "$servers" -t broken 2>out || fail "producing"
timeout 60 "$program" "$servers" broken >out 2>err && fail "read what is no point"
grep -q 'broken.*points.*three,four' err || fail "does not say what is wrong: $(cat err)"
