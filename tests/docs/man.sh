#!/bin/sh
# The man pages name every command and every option that the programs' own help names.
top=${top_srcdir:-.}
failed=0

# covered PAGE TEXT: every option in the help text stands in the page.
covered() {
    for option in $(printf '%s\n' "$2" | grep -oE '(^|[[( ])--?[a-zA-Z][a-z-]*' | tr -d '[( ' | sort -u); do
        sed 's/\\-/-/g; s/\\f[BRI]//g' "$1" | grep -qE -- "(^|[^a-zA-Z-])$option([^a-zA-Z-]|$)" || {
            echo "$1 does not name $option"
            failed=1
        }
    done
}

page=$top/docs/man/cafka.1
for command in $(./cafka help | awk 'NF > 1 && $1 != "usage:" { print $1 }'); do
    grep -qE "^\.SS cafka $command" "$page" || {
        echo "$page has no part about cafka $command"
        failed=1
    }
    covered "$page" "$(./cafka "$command" --help 2>&1)"
done
if [ -x ./cafka-mockbroker ]; then
    covered "$top/docs/man/cafka-mockbroker.1" "$(./cafka-mockbroker --help 2>&1)"
fi
exit $failed
