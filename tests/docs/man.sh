#!/bin/sh
# The man pages have a part for every command, and in it a line for every option, that the programs'
# own help names; and every option in a man page is in that help.
top=${top_srcdir:-.}
failed=0

# Plain text of options: without backslashes and fonts.
plain() {
    sed 's/\\-/-/g; s/\\f[BRI]//g'
}

# options_of TEXT: the options that a help text names, one a line
options_of() {
    printf '%s\n' "$1" | grep -oE '(^|[[( |])--?[a-zA-Z][a-z-]*' | tr -d '[( |' | sort -u
}

# lines_of PART: the options that have a line of their own (below a .TP)
lines_of() {
    printf '%s\n' "$1" | plain | awk '/^\.TP/ { tagged = 1; next } tagged { print; tagged = 0 }' |
        grep -oE -- '--?[a-zA-Z][a-z-]*' | sort -u
}

# agree WHAT PART HELP: both name the same options
agree() {
    options_of "$3" >"$work/help"
    lines_of "$2" >"$work/page"
    if ! diff "$work/help" "$work/page" >"$work/diff"; then
        echo "$1: options of the help (<) and of the man page (>) differ:"
        grep '^[<>]' "$work/diff"
        failed=1
    fi
}

work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
page=$top/docs/man/cafka.1
commands=$(./cafka help | awk '/^  [a-z]/ { print $1 }')
[ -n "$commands" ] || {
    echo "cafka help names no command"
    exit 1
}
for command in $commands; do
    part=$(awk -v start=".SS cafka $command" '/^\.S[SH] / { inside = index($0, start) == 1 } inside' "$page")
    [ -n "$part" ] || {
        echo "$page has no part about cafka $command"
        failed=1
    }
    agree "cafka $command" "$part" "$(./cafka "$command" --help 2>&1)"
done
if [ -x ./cafka-mockbroker ]; then
    part=$(awk '/^\.S[SH] / { inside = $0 == ".SH OPTIONS" } inside' "$top/docs/man/cafka-mockbroker.1")
    agree cafka-mockbroker "$part" "$(./cafka-mockbroker --help 2>&1)"
fi
exit $failed
