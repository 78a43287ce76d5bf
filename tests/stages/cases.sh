# cases.sh - run every script of a directory as one case each; all run, then any failure fails.

run_cases() {
    local case name rc failed=0 start
    ls "$1"/*.sh >/dev/null 2>&1 || skip "no case in $1"
    for case in "$1"/*.sh; do
        name=$(basename "$case" .sh)
        export BUILD=$PLAIN WORK=$OUT/work/$name
        rm -rf "$WORK"
        mkdir -p "$WORK"
        start=$SECONDS rc=0
        timeout -k 10 "${CASE_TIMEOUT:-600}" bash -eu "$case" >"$WORK.log" 2>&1 </dev/null || rc=$?
        case $rc in
        0)
            say "case $name … ok  $((SECONDS - start)) s"
            grep -a '^skipped: ' "$WORK.log" || true
            ;;
        77) grep -a '^skipped: ' "$WORK.log" || say "skipped: $name" ;;
        *)
            failed=1
            say "case $name … FAILED (exit $rc)  $((SECONDS - start)) s"
            tail -n 60 "$WORK.log"
            ;;
        esac
        [ $rc = 0 ] && rm -rf "$WORK"
    done
    return $failed
}
