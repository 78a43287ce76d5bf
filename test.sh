#!/usr/bin/env bash
# test.sh - install what is missing, build, and run the tests of docs/TESTING.md.
#
#   ./test.sh               at most 30 minutes on 2 cores
#   ./test.sh --full        both compilers, every switch of configure, lint, distcheck, more seeds, fuzzing
#   ./test.sh STAGE…        only these (build is always run first), e.g. ./test.sh check asan
#   ./test.sh --list        the stages
#   ./test.sh --no-install  install nothing
#
# A stage is a file in tests/stages (how to add one: tests/stages/lib.sh). Everything that is built
# or written is under build/test. Exit 0 if no stage failed and nothing was skipped that
# tests/skips.expected does not list.
set -u
cd "$(dirname "$0")" || exit 1
TOP=$PWD OUT=${OUT:-$PWD/build/test} FULL='' install=1 only=()
export TOP OUT

for argument in "$@"; do
    case $argument in
    --full) FULL=1 ;;
    --no-install) install= ;;
    --list)
        ls tests/stages | sed -n 's/^[0-9][0-9]-\(.*\)\.sh$/\1/p'
        exit 0
        ;;
    -h | --help)
        sed -n '2,13s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    -*)
        echo "test.sh: unknown option $argument (see --help)" >&2
        exit 2
        ;;
    *)
        ls tests/stages/[0-9][0-9]-"$argument".sh >/dev/null 2>&1 || {
            echo "test.sh: no stage $argument (see --list)" >&2
            exit 2
        }
        only+=("$argument")
        ;;
    esac
done

export FULL PLAIN=$OUT/plain JOBS=${JOBS:-$(nproc 2>/dev/null || echo 2)}
export CAFKA_SHARED=${CAFKA_SHARED:-$(dirname "$TOP")/shared}
unset MAKEFLAGS MAKELEVEL
mkdir -p "$OUT/logs" || exit 1
begin=$SECONDS

# shellcheck source=tests/packages.sh
. tests/packages.sh
if [ -n "$install" ]; then
    need_packages "$build_packages" || exit 1
    # What only some stages use: without it they are skipped, and the skip is judged at the end.
    need_packages "$test_packages" || echo "some test programs could not be installed"
    [ -z "$FULL" ] || need_packages "$full_packages" || echo "some checkers could not be installed"
    need_kafka_jars "$CAFKA_SHARED/realkafka/run.sh" "$OUT/logs/jars.log" || echo "Apache Kafka's jars could not be fetched"
fi

wanted() {
    local name
    [ ${#only[@]} -gt 0 ] || { [ -n "$FULL" ] || [ "${1#full-}" = "$1" ]; } && [ ${#only[@]} = 0 ] && return 0
    for name in "${only[@]:-}"; do
        [ "$name" = "$1" ] && return 0
    done
    [ "$1" = build ]
}

failed=() logs=() count=0 skipped=0
for stage in tests/stages/[0-9][0-9]-*.sh; do
    name=$(basename "$stage" .sh)
    name=${name#[0-9][0-9]-}
    wanted "$name" || continue
    log=$OUT/logs/$name.log start=$SECONDS rc=0
    logs+=("$log")
    timeout -k 30 "${STAGE_TIMEOUT:-1500}" bash -c '. tests/stages/lib.sh; . "$0"' "$stage" \
        >"$log" 2>&1 </dev/null || rc=$?
    count=$((count + 1))
    case $rc in
    0) result=ok ;;
    77) result=$(grep -a '^skipped: ' "$log" | tail -n 1) skipped=$((skipped + 1)) ;;
    124 | 137) result="FAILED (took too long)" failed+=("$name") ;;
    *) result=FAILED failed+=("$name") ;;
    esac
    grep -aE '^\[(==========|  PASSED  |  FAILED  |  SKIPPED )\]|^case ' "$log"
    [ $rc = 0 ] || [ $rc = 77 ] || tail -n 80 "$log" | sed 's/^/    /'
    echo "stage $name … $result  $((SECONDS - start)) s"
    [ "$name" = build ] && [ $rc != 0 ] && break
done

# Every skip, of stages and of single tests, must be one that is known.
unexpected=$(bash tests/skips.sh "${logs[@]}") || failed+=(skips)
[ -z "$unexpected" ] || echo "$unexpected"

echo "whole run: $((SECONDS - begin)) s"
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    echo "$((count - skipped)) stages run, ${#failed[@]} failed; logs in $OUT/logs"
    exit 1
fi
echo "all well: $count stages, $skipped of them skipped"
