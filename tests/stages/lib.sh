# lib.sh - what every stage may use. A stage is a file tests/stages/NN-NAME.sh, run by test.sh in
# order of NN, in its own bash with `set -eu` from the top of the source tree, all of its output in
# a log that is shown when it fails.
#
# To add one: write the file; say in its first comment what it shows; use the words below; exit 0
# when all is well, call `skip REASON` when it can't run here (the reason must be listed in
# tests/skips.expected), else fail. test.sh prints
#     stage NAME … ok|FAILED|skipped: REASON  SECONDS s
#
# Set for a stage:
#   TOP      the source tree              OUT   where this run keeps its build trees and logs
#   PLAIN    the plain build tree         JOBS  how many at once
#   FULL     1 with --full, else empty    CAFKA_SHARED  golden data and run.sh; may not exist
# A stage whose name begins with "full-" runs with --full only.
set -euo pipefail

skip() {
    echo "skipped: $*"
    exit 77
}

say() {
    printf '%s\n' "$*"
}

# CC for a build tree: through ccache where there is one.
compiler() {
    if command -v ccache >/dev/null 2>&1; then echo "ccache $1"; else echo "$1"; fi
}

# build_tree DIR CC [configure arguments…]: configure (once) and build, tests too, with no warning.
build_tree() {
    local dir=$1 cc=$2
    shift 2
    mkdir -p "$dir"
    [ -e "$TOP/configure" ] || (cd "$TOP" && autoreconf -fi)
    if [ ! -e "$dir/config.status" ]; then
        (cd "$dir" && "$TOP/configure" --silent -C CC="$(compiler "$cc")" CFLAGS="${TREE_CFLAGS:--O2 -g}" "$@")
    fi
    # What was built before is not compiled again, so its warnings are kept in a file.
    make -C "$dir" -j"$JOBS" all 2>&1 | tee -a "$dir/make.log"
    make -C "$dir" -j"$JOBS" check TESTS= 2>&1 | tee -a "$dir/make.log"
    if grep -E ': warning: |warnings? generated' "$dir/make.log"; then
        say "the build printed warnings"
        rm -rf "$dir" # the next run starts again
        return 1
    fi
}

# The closing lines of every test program that ran in a build tree, as cmocka wrote them.
summaries() {
    find "$1/tests" -name '*.log' 2>/dev/null | sort | while read -r log; do
        grep -aE '^\[(==========|  PASSED  |  FAILED  |  SKIPPED )\]' "$log" |
            grep -av 'Running' | sed "s|$|  # $(basename "${log%.log}")|" || true
        grep -aE '^skipped: ' "$log" || true
    done
}

# check_tree DIR [make arguments…]: make check there; on failure what failed is shown.
check_tree() {
    local dir=$1 rc=0
    shift
    find "$dir/tests" \( -name '*.log' -o -name '*.trs' \) -delete 2>/dev/null || true
    make -C "$dir" -k -j"$JOBS" check "$@" || rc=$?
    summaries "$dir"
    if [ $rc != 0 ]; then
        grep -laE '^:test-result: (FAIL|ERROR)' -r "$dir" --include='*.trs' | sort |
            while read -r trs; do
                say "---- ${trs%.trs}"
                tail -n 60 "${trs%.trs}.log"
            done
    fi
    return $rc
}

# A make variable of the plain tree, such as THREAD_TESTS.
make_value() {
    make -s -C "$PLAIN" "print-$1"
}
