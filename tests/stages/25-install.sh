# What make install puts somewhere works from there: files, pkg-config, programs linked with the
# shared and the static libraries (both static ones in one program), the ABI; uninstall leaves nothing.
root=$OUT/install
rm -rf "$root"
mkdir -p "$root/work"
make -C "$PLAIN" -s install DESTDIR="$root"
prefix=$(make_value prefix)
for file in bin/cafka include/cafka.h include/cafka/config.h lib/libcafka.so lib/libcafka.a lib/libcafka-mock.so \
    lib/libcafka-mock.a lib/pkgconfig/cafka.pc lib/pkgconfig/cafka-mock.pc share/man/man1/cafka.1; do
    [ -e "$root$prefix/$file" ] || {
        say "not installed: $file"
        exit 1
    }
done

export PKG_CONFIG_PATH=$root$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$root$prefix/lib
cflags=$(pkg-config --cflags cafka) libs=$(pkg-config --libs cafka)
private=$(pkg-config --static --libs cafka cafka-mock | sed 's/-lcafka-mock//g; s/-lcafka//g')
# shellcheck disable=SC2086 # flags are lists
for example in examples/*.c examples/*.cc; do
    name=$(basename "$example") cc=gcc shared=$libs static=-lcafka
    [ "${example##*.}" = cc ] && cc=g++
    if grep -q 'cafka/mock.h' "$example"; then
        shared=$(pkg-config --libs cafka cafka-mock) static="-lcafka -lcafka-mock"
    fi
    $cc -Wall -Wextra -Werror -O1 $cflags "$example" $shared -o "$root/work/$name.shared"
    $cc -Wall -Wextra -Werror -O1 $cflags "$example" -Wl,-Bstatic $static -Wl,-Bdynamic $private -o "$root/work/$name.static"
    ldd "$root/work/$name.static" | grep -q libcafka && {
        say "$name: linked with the shared library after all"
        exit 1
    }
done
"$root/work/simulated_kill.c.shared"
"$root/work/simulated_kill.c.static"
# shellcheck disable=SC2086
gcc -Wall -Wextra -Werror $cflags tests/libraries/both.c -Wl,-Bstatic -lcafka -lcafka-mock -Wl,-Bdynamic $private \
    -o "$root/work/both"
"$root/work/both"
# shellcheck disable=SC2086
gcc -Wall -Wextra -Werror $cflags tests/libraries/both.c $(pkg-config --libs cafka cafka-mock) -o "$root/work/both.shared"
"$root/work/both.shared"

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
