#!/usr/bin/env bash
# lint.sh CLANG-FORMAT CLANG-TIDY CPPCHECK: run by make lint from the build tree, with the compiler's
# flags in CPPFLAGS_OF_BUILD and the number of jobs in JOBS. Each tool may be `-`: not run.
set -uo pipefail
format=$1 tidy=$2 check=$3
top=${top_srcdir:-.} jobs=${JOBS:-2} failed=0
cd "$top" || exit 1
build=$OLDPWD
mapfile -t sources < <(git ls-files 'src/*.c' 'mockbroker/*.c' 'examples/*.c')
mapfile -t all < <(git ls-files '*.c' '*.h')
# Paths of the build tree are relative to it.
read -ra flags <<<"${CPPFLAGS_OF_BUILD:-}"
for i in "${!flags[@]}"; do
    case ${flags[i]} in
    -I/*) ;;
    -I*) flags[i]=-I$(cd "$build" && realpath -m "${flags[i]#-I}") ;;
    esac
done

python3 -B docs/files.py . --check || failed=1

section() {
    printf '== %s\n' "$1"
}

if [ "$format" != - ]; then
    section "$format"
    "$format" --dry-run -Werror "${all[@]}" || failed=1
    awk 'length > 130 { print FILENAME ":" FNR ": longer than 130 columns"; bad = 1 } END { exit bad }' "${all[@]}" || failed=1
fi
if [ "$check" != - ]; then
    section "$check"
    "$check" --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
        --suppressions-list=tests/lint/cppcheck.suppressions --error-exitcode=1 -j "$jobs" \
        -D__x86_64__ -D__BYTE_ORDER__=1234 -D__ORDER_LITTLE_ENDIAN__=1234 \
        "${flags[@]/#-D*/}" "${sources[@]}" || failed=1
fi
if [ "$tidy" != - ]; then
    section "$tidy"
    printf '%s\n' "${sources[@]}" |
        xargs -P "$jobs" -I{} "$tidy" --quiet {} -- -std=gnu11 "${flags[@]}" 2>&1 |
        { grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -header-filter|^$' || true; }
    [ "${PIPESTATUS[1]}" = 0 ] || failed=1
fi
exit $failed
