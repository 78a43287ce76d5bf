# The tests against data that Apache Kafka wrote (GOLDEN_TESTS in Makefile.am).
tests=$(make_value GOLDEN_TESTS)
[ -n "$tests" ] || skip "no golden test"
[ -d "$CAFKA_SHARED/golden" ] || skip "golden data not found"
check_tree "$PLAIN" TESTS="$tests"
