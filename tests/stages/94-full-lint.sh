# make lint: clang-format, clang-tidy, cppcheck.
command -v clang-tidy >/dev/null && command -v cppcheck >/dev/null || skip "lint tools not found"
make -C "$PLAIN" lint
