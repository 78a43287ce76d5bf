# All of make check under AddressSanitizer (with leaks) and UndefinedBehaviorSanitizer.
TREE_CFLAGS="-O1 -g" build_tree "$OUT/asan" gcc --enable-sanitizers=address,undefined --disable-shared
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
check_tree "$OUT/asan"
