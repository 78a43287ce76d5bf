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
expect 2 'no command is called "frob"' help frob
expect 2 'usage: cafka COMMAND'
expect 2 'takes host:port' produce -b :::: -t t
expect 2 '-t stands twice' produce -b localhost:1 -t t -t u
expect 2 '-b stands twice' consume -b localhost:1 -b localhost:2 -t t
expect 2 '-f stands twice' consume -b localhost:1 -t t -f %s -f %k
expect 2 '-e stands twice' consume -b localhost:1 -t t -e -e
expect 2 'topic t is named twice' consume -b localhost:1 -t t t
expect 2 '-n stands twice' bench produce -b localhost:1 -t t -n 1 -n2
expect 2 '--partitions stands twice' topics create t -b localhost:1 --partitions 1 --partitions=2
expect 2 'alter wants --config NAME=VALUE' topics alter t -b localhost:1
expect 2 'wants the name of a topic' topics delete -b localhost:1
expect 2 '-e has no value' consume -b localhost:1 -t t -ex
expect 2 '--latency has no value' bench produce -b localhost:1 -t t -n 1 --latency=yes
expect 2 'has no option --frob' consume -b localhost:1 -t t --frob=1
expect 2 'has no option -z' produce -b localhost:1 -t t -z
expect 2 'option -t needs a value' produce -b localhost:1 -t
expect 2 '%q stands for nothing' consume -b localhost:1 -t t -f '%s %q'
expect 2 '\\q stands for nothing' consume -b localhost:1 -t t -f '%s\q'
expect 2 'nothing follows the last %' consume -b localhost:1 -t t -f '%s%'
expect 2 'a delimiter that is not empty' produce -b localhost:1 -t t -k ''
expect 2 'usage: cafka log dump' log
expect 2 'usage: cafka log dump' log dump --frob
expect 2 'usage: cafka wire' wire
expect 2 'usage: cafka config' config --frob
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

# Help that was asked for goes to standard output, and is no error.
for command in bench config consume log produce topics wire; do
    for words in "help $command" "$command --help"; do
        # shellcheck disable=SC2086 # two words
        if ! ./cafka $words >"$work/out" 2>"$work/err" || [ -s "$work/err" ] ||
            ! grep -q "^usage: cafka $command" "$work/out"; then
            echo "cafka $words does not print how $command is used"
            failed=1
        fi
    done
done
./cafka --version | grep -q '^cafka [0-9]' || {
    echo "cafka --version does not say the release"
    failed=1
}

# With standard output closed, what is printed must not land in a descriptor that is something else.
if echo '{"name":"ApiVersionsRequest","version":0,"hex":""}' | ./cafka wire decode >&- 2>"$work/err"; then
    echo "cafka wire decode does not notice that its output is closed"
    failed=1
fi
exit $failed
