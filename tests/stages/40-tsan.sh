# The tests that have threads (THREAD_TESTS in Makefile.am) under ThreadSanitizer.
tests=$(make_value THREAD_TESTS)
[ -n "$tests" ] || skip "no test has threads"
TREE_CFLAGS="-O1 -g" build_tree "$OUT/tsan" gcc --enable-sanitizers=thread --disable-shared
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
check_tree "$OUT/tsan" TESTS="$tests"
