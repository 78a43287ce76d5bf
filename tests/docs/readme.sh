#!/bin/sh
# README's programs compile as they stand, in C99 without a warning, and do what it says with the
# commands that it shows; and every file that it links to is there.
top=$(cd "${top_srcdir:-.}" && pwd)
work=$(mktemp -d) || exit 99
PATH=$PWD:$PATH
broker= reader=
trap 'kill $broker $reader 2>/dev/null; rm -rf "$work"' EXIT
fail() {
    echo "$*"
    exit 1
}

for file in $(grep -oE '\]\([a-z][^)]*\)' "$top/README.md" | tr -d ']()'); do
    [ -e "$top/$file" ] || fail "README.md: there is no $file"
done

# Each ```c block opens with the name of its file.
awk -v work="$work/" '/^```c$/ { inside = 1; file = ""; next } /^```/ { inside = 0 }
    inside && !file { file = work $2 } inside { print >file }' "$top/README.md"
[ -e "$work/greet.c" ] && [ -e "$work/listen.c" ] || fail "README.md has no greet.c or no listen.c"

# A port that README's is replaced by; the broker of this test takes a free one.
mkfifo "$work/ready" || exit 99
cafka-mockbroker --topic greetings:1 >"$work/ready" 2>"$work/log" &
broker=$!
read -r line <"$work/ready"
servers=${line#bootstrap.servers=}
[ -n "$servers" ] || fail "cafka-mockbroker did not start: $(cat "$work/log")"

if [ -e libcafka.a ]; then
    library="$PWD/libcafka.a ${EXTERNAL_LIBS:-}"
else
    library="-L$PWD/.libs -lcafka -Wl,-rpath,$PWD/.libs"
fi
for program in greet listen; do
    sed "s/localhost:9092/$servers/" "$work/$program.c" >"$work/here.c"
    # shellcheck disable=SC2086 # lists of flags
    ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror ${TREE_FLAGS:-} -I"$top/include" "$work/here.c" \
        -o "$work/$program" $library || fail "$program.c does not compile"
done

"$work/greet" || fail "greet failed"
"$work/listen" >"$work/heard" 2>&1 &
reader=$!
tries=0
until [ -s "$work/heard" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] && kill -0 $reader 2>/dev/null || fail "listen heard nothing: $(cat "$work/heard")"
    sleep 0.05
done
[ "$(cat "$work/heard")" = hello ] || fail "listen heard: $(cat "$work/heard")"

# The two commands, as they are written there.
grep '^    echo hello | cafka produce\|^    cafka consume' "$top/README.md" | sed "s/localhost:9092/$servers/" >"$work/commands"
[ "$(sh -eu "$work/commands")" = "0 0 hello
0 1 hello" ] || fail "README's commands print something else"
