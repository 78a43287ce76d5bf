#!/bin/sh
# The cafka program used wrongly: it says what is wrong, exits with 2 (usage) or 1, and never hangs.
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0

# expect STATUS TEXT ARGUMENT…: the exit status, and what standard error has to hold
expect() {
    status=$1 text=$2
    shift 2
    ./cafka "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    if [ $got != "$status" ] || ! grep -q -e "$text" "$work/err"; then
        echo "cafka $*: exit $got instead of $status, or no \"$text\" in:"
        cat "$work/err"
        failed=1
    fi
}

expect 2 'no command is called "frob"' frob
expect 2 'needs a topic' produce -b localhost:1
expect 2 'bootstrap.servers is missing' produce -t t
expect 2 'reads one file, not "b"' produce -b localhost:1 -t t a b
expect 2 'not "99999999999"' produce -b localhost:1 -t t -p 99999999999
expect 2 'wants NAME=VALUE' produce -b localhost:1 -t t -H =x
expect 2 'wants a number from 1' consume -b localhost:1 -t t -c 0
expect 2 'wants a number from 0' consume -b localhost:1 -t t -o -5
expect 2 'one mode, not "consume"' bench produce consume -b localhost:1 -t t -n 1
expect 2 'needs a mode' bench twice -b localhost:1 -t t -n 1
expect 1 'No such file' produce -b localhost:1 -t t "$work/none"

# With standard output closed, what is printed must not land in a descriptor that is something else.
if echo '{"name":"ApiVersionsRequest","version":0,"hex":""}' | ./cafka wire decode >&- 2>"$work/err"; then
    echo "cafka wire decode does not notice that its output is closed"
    failed=1
fi
exit $failed
