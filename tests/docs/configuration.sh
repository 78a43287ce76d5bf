#!/bin/sh
# docs/CONFIGURATION.md says what the table of properties says.
top=${top_srcdir:-.}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
./cafka config --markdown >"$work/CONFIGURATION.md" || exit 1
if ! diff "$top/docs/CONFIGURATION.md" "$work/CONFIGURATION.md" >"$work/diff"; then
    head -n 20 "$work/diff"
    echo "docs/CONFIGURATION.md is stale: run make docs"
    exit 1
fi
