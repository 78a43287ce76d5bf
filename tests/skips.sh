#!/usr/bin/env bash
# skips.sh LOG… - print the lines "skipped: …" that tests/skips.expected does not allow here; exit 1
# if there are any. CAFKA_SHARED and FULL as in test.sh.
#
# A line of the list is "WHEN | TEXT": TEXT is the whole line behind "skipped: ", with * for
# anything. WHEN is `always`, or a state of this machine in which the skip is honest:
#   no-shared   the golden data is not beside the source tree
#   no-java     no java command
#   no-ptrace   strace may not trace here, as in some containers
#   no-jars     Apache Kafka's jars are not here and cannot be fetched
#   no:NAME     the command NAME is not installed
#   no-pc:NAME  pkg-config knows no module NAME
#   no-py:NAME  Debian's Python has no module NAME
#   short       a run without --full
set -u
here=$(cd "$(dirname "$0")" && pwd)
shared=${CAFKA_SHARED:-$here/../../shared}
# shellcheck source=tests/packages.sh
. "$here/packages.sh"

holds() {
    case $1 in
    always) true ;;
    short) [ -z "${FULL:-}" ] ;;
    no-shared) [ ! -d "$shared/golden" ] ;;
    no-ptrace) ! strace -o /dev/null true 2>/dev/null ;;
    no-java) ! command -v java >/dev/null 2>&1 ;;
    no-jars) ! have_kafka_jars ;;
    no-pc:*) ! pkg-config --exists "${1#no-pc:}" 2>/dev/null ;;
    no-py:*) ! /usr/bin/python3 -c "import ${1#no-py:}" 2>/dev/null ;;
    no:*) ! command -v "${1#no:}" >/dev/null 2>&1 ;;
    *)
        echo "tests/skips.expected: unknown state '$1'" >&2
        false
        ;;
    esac
}

allowed=()
while IFS='|' read -r when text; do
    when=${when%% *} text=${text# }
    case $when in '' | '#'*) continue ;; esac
    holds "$when" && allowed+=("$text")
done <"$here/skips.expected"

bad=0
while IFS= read -r line; do
    ok=
    for pattern in "${allowed[@]:-}"; do
        # shellcheck disable=SC2053 # a pattern on purpose
        [[ $line == $pattern ]] && ok=1 && break
    done
    [ -n "$ok" ] || { echo "not expected to be skipped: $line" && bad=1; }
done < <(cat -- "$@" 2>/dev/null | grep -a '^skipped: ' | sed 's/^skipped: //' | sort -u)
exit $bad
