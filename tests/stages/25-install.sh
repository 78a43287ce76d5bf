# What make install puts somewhere works from there: files, pkg-config, examples linked with the
# shared and the static libraries and run, a client and a cluster in one program, the ABI; uninstall
# leaves nothing.
root=$OUT/install
rm -rf "$root"
mkdir -p "$root/work"
make -C "$PLAIN" -s install DESTDIR="$root"
prefix=$(make_value prefix)
for file in bin/cafka include/cafka.h include/cafka/config.h lib/libcafka.so lib/libcafka.a lib/libcafka-mock.so \
    lib/libcafka-mock.a lib/pkgconfig/cafka.pc lib/pkgconfig/cafka-mock.pc lib/pkgconfig/cafka-static.pc \
    lib/pkgconfig/cafka-mock-static.pc share/man/man1/cafka.1; do
    [ -e "$root$prefix/$file" ] || {
        say "not installed: $file"
        exit 1
    }
done

export PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$root$prefix/lib
say "examples, with the shared and with the static library"
for with in shared static; do
    (cd "$root$prefix/bin" && WITH=$with CC=gcc CXX=g++ top_srcdir=$TOP sh "$TOP/tests/examples/examples.sh")
done

# linked NAME COMPILER… : the program is made and runs; with a static library none of ours is loaded.
linked() {
    local name=$1
    shift
    "$@" -o "$root/work/$name"
    "$root/work/$name"
    case $name in
    *static) ! ldd "$root/work/$name" 2>/dev/null | grep libcafka || {
        say "$name: linked with a shared library after all"
        exit 1
    } ;;
    esac
}
# shellcheck disable=SC2046 # flags are lists
{
    # A client and a cluster in one program.
    linked both.shared gcc -Wall -Wextra -Werror tests/libraries/both.c $(pkg-config --cflags --libs cafka cafka-mock)
    linked both.static gcc -Wall -Wextra -Werror tests/libraries/both.c $(pkg-config --cflags --libs cafka-static cafka-mock-static)
    cp tests/libraries/both.c "$root/work/both.c11.c"
    linked both.c11.shared gcc -std=c11 -pedantic -Wall -Wextra -Werror "$root/work/both.c11.c" $(pkg-config --cflags --libs cafka cafka-mock)
    # Nothing but static libraries, where the system has all of them.
    if echo 'int main(void) { return 0; }' | gcc -x c - -o "$root/work/try" -static \
        $(pkg-config --static --libs openssl zlib liblz4 libzstd libcjson) -lsnappy -lstdc++ 2>/dev/null; then
        linked all.static gcc -static tests/libraries/both.c $(pkg-config --static --cflags --libs cafka cafka-mock) -lstdc++ 2>/dev/null
    fi
}

/usr/bin/env python3 -B tests/libraries/abi.py nm "$root$prefix/lib/libcafka.so" gcc include >"$root/work/abi"
diff tests/libraries/abi.expected "$root/work/abi" || {
    say "the ABI changed: make abi, if that is meant"
    exit 1
}

make -C "$PLAIN" -s uninstall DESTDIR="$root"
left=$(find "$root$prefix" ! -type d)
[ -z "$left" ] || {
    say "left after uninstall: $left"
    exit 1
}
