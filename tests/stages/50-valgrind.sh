# The unit tests under valgrind: no error and no leak.
command -v valgrind >/dev/null || skip "valgrind not found"
failed=0
for test in $(make_value check_PROGRAMS); do
    case $test in tests/unit/*) ;; *) continue ;; esac
    log=$OUT/valgrind/$(basename "$test").log
    mkdir -p "$OUT/valgrind"
    if (cd "$PLAIN" && ./libtool --mode=execute valgrind -q --error-exitcode=99 \
        --leak-check=full --errors-for-leak-kinds=definite,indirect,possible \
        --suppressions="$TOP/tests/stages/valgrind.supp" "./$test") >"$log" 2>&1; then
        grep -aE '^\[(  PASSED  )\]' "$log" | sed "s|$|  # $(basename "$test")|" || true
        grep -aE '^skipped: ' "$log" || true
    else
        failed=1
        say "---- $test"
        tail -n 60 "$log"
    fi
done
[ $failed = 0 ]
