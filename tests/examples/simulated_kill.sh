# Nothing that was acknowledged is missing after the kill; the same seed takes the same course.
run 7
[ -s out ] || fail "prints nothing"
mv out first
run 7
cmp first out || fail "the same seed took another course"
run 8
