# The same with clang: build without a warning and make check.
command -v clang >/dev/null || skip "clang not found"
build_tree "$OUT/clang" clang
check_tree "$OUT/clang"
