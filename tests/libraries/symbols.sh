#!/bin/sh
# Only cafka_* leaves libcafka and only cafka_mock_* leaves libcafka-mock, shared and static; a
# static archive is one object.
nm=${NM:-nm}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# exports NAME PATTERN COMMAND…: every name that nm prints must match, and there must be one.
exports() {
    name=$1 pattern=$2
    shift 2
    "$@" | awk '$2 ~ /^[A-Z]$/ { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/names"
    if [ ! -s "$work/names" ] || grep -vE "$pattern" "$work/names" >"$work/others"; then
        echo "$name lets out what it should not, or nothing:"
        head -n 20 "$work/others" 2>/dev/null
        failed=1
    fi
}

# shellcheck disable=SC2086 # NM may be more than one word
{
    if [ -e .libs/libcafka.so ]; then
        exports libcafka.so '^(cafka_.*|CAFKA_0\.1)$' $nm -D --defined-only .libs/libcafka.so
        exports libcafka-mock.so '^(cafka_mock_.*|CAFKA_MOCK_0\.1)$' $nm -D --defined-only .libs/libcafka-mock.so
    fi
    if [ -e libcafka.a ]; then
        exports libcafka.a '^cafka_' $nm -g --defined-only libcafka.a
        exports libcafka-mock.a '^cafka_mock_' $nm -g --defined-only libcafka-mock.a
        for archive in libcafka.a libcafka-mock.a; do
            [ "$(ar t $archive | wc -l)" = 1 ] || {
                echo "$archive holds more than one object"
                failed=1
            }
        done
    fi
}
exit $failed
