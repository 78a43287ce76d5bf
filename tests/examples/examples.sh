#!/bin/sh
# Every program of examples/ compiles without a warning, as an application's would, and does what it
# says: against a running cafka-mockbroker, with its output checked.
#
# An example NAME.c or NAME.cc is run by its case tests/examples/NAME.sh, which must be there; it is
# sourced in an empty directory with the words below. An example that includes <cafka/mock.h> is linked
# with that library too; one that needs more says so in its opening comment, in a line
# "pkg-config: MODULE…" (such as libuv), and is left out with a plain line where a module is missing.
#
# Run in a build tree it takes the libraries of the tree. ./test.sh runs it again for what is installed:
# WITH=shared or WITH=static takes the flags from pkg-config.
top=$(cd "${top_srcdir:-.}" && pwd)
work=$(mktemp -d) || exit 99
PATH=$PWD:$PATH
broker=
trap '[ -z "$broker" ] || kill "$broker"; rm -rf "$work"' EXIT
trap 'exit 143' INT TERM
fail() {
    echo "$name: $*"
    exit 1
}

# --- building ---

modules_of() {
    sed -n '1,15s/.*pkg-config: //p' "$1"
    ! grep -q '^#include <cafka/mock.h>' "$1" || echo cafka-mock
}

# flags MODULE…: what a compiler needs to link a program with cafka and these modules
flags() {
    case ${WITH:-tree} in
    shared) ${PKG_CONFIG:-pkg-config} --cflags --libs cafka "$@" ;;
    static)
        for module in cafka "$@"; do
            case $module in
            cafka | cafka-mock) ${PKG_CONFIG:-pkg-config} --cflags --libs "$module-static" ;;
            *) ${PKG_CONFIG:-pkg-config} --cflags --libs "$module" ;;
            esac
        done
        ;;
    tree)
        echo "-I$top/include ${TREE_FLAGS:-}"
        for module in cafka "$@"; do
            case $module in
            cafka | cafka-mock)
                if [ -e lib$module.a ]; then
                    echo "$PWD/lib$module.a"
                else
                    echo "-L$PWD/.libs -l$module -Wl,-rpath,$PWD/.libs"
                fi
                ;;
            *) ${PKG_CONFIG:-pkg-config} --cflags --libs "$module" ;;
            esac
        done
        [ ! -e libcafka.a ] || echo "${EXTERNAL_LIBS:-}"
        ;;
    esac
}

# build SOURCE: into $work/bin; 77 where a module is missing
build() {
    modules=$(modules_of "$1")
    for module in $modules; do
        [ "$module" = cafka-mock ] || ${PKG_CONFIG:-pkg-config} --exists "$module" 2>/dev/null || {
            echo "skipped: example $name: $module not found"
            return 77
        }
    done
    # Where poll() is used instead of epoll, a loop has no descriptor that could be put into another poll.
    if grep -q cafka_loop_fd "$1" && grep -q 'undef HAVE_EPOLL' config.h 2>/dev/null; then
        echo "skipped: example $name: this build has no epoll"
        return 77
    fi
    case $1 in
    *.cc) compiler="${CXX:-c++} -std=c++11" ;;
    *) compiler="${CC:-cc} -std=gnu99" ;;
    esac
    # shellcheck disable=SC2046,SC2086 # lists of flags
    $compiler -O1 -Wall -Wextra -pedantic -Werror "$1" -o "$work/bin/$name" $(flags $modules) || fail "does not compile"
}

# --- words of the cases ---

# run [ARGUMENT…]: the example, which must end well within a minute; its output is in ./out
run() {
    timeout -k 5 60 "$program" "$@" >out 2>err </dev/null || {
        status=$?
        cat out err
        fail "ended with $status: $name $*"
    }
}

# prints LINE…: the output of the last run, whole
prints() {
    printf '%s\n' "$@" >expected
    cmp -s expected out || {
        diff expected out
        fail "printed something else"
    }
}

# holds TOPIC FORMAT LINE…: the records of the topic in order, as cafka consume prints them
holds() {
    topic=$1 format=$2
    shift 2
    cafka consume -b "$servers" -t "$topic" -o beginning -e -f "$format\n" >out || fail "reading $topic"
    prints "$@"
}

# --- all of them ---

mkdir "$work/bin" && mkfifo "$work/ready" || exit 99
name=cafka-mockbroker
cafka-mockbroker --brokers 3 --set num.partitions=1 >"$work/ready" 2>"$work/log" &
broker=$!
read -r line <"$work/ready"
servers=${line#bootstrap.servers=}
[ -n "$servers" ] || {
    cat "$work/log"
    exit 1
}
failed=0
for source in "$top"/examples/*.c "$top"/examples/*.cc; do
    [ -e "$source" ] || continue
    name=$(basename "${source%.*}")
    (
        rc=0
        build "$source" || rc=$?
        [ $rc != 77 ] || exit 0
        [ $rc = 0 ] || exit 1
        case=$top/tests/examples/$name.sh program=$work/bin/$name
        [ -e "$case" ] || fail "nobody runs it: tests/examples/$name.sh is missing"
        mkdir "$work/$name" && cd "$work/$name" || exit 99
        . "$case"
        echo "ok: $name"
    ) || failed=1
done
exit $failed
