#!/bin/sh
# Every public header compiles by itself, as C99 and as C++, without a warning; <cafka.h> includes
# all of them but the mock's.
top=${top_srcdir:-.}
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
failed=0
for path in "$top"/include/cafka.h "$top"/include/cafka/*.h; do
    header=${path#"$top"/include/}
    printf '#include <%s>\nint main(void)\n{\n    return 0;\n}\n' "$header" >"$work/header.c"
    cp "$work/header.c" "$work/header.cc"
    ${CC:-cc} -std=c99 -Wall -Wextra -pedantic -Werror -I"$top/include" -c "$work/header.c" \
        -o "$work/header.o" || failed=1
    if [ -n "${CXX:-}" ]; then
        $CXX -Wall -Wextra -pedantic -Werror -I"$top/include" -c "$work/header.cc" \
            -o "$work/header.o" || failed=1
    fi
    case $header in
    cafka.h | cafka/mock.h) ;;
    *) grep -q "#include <$header>" "$top/include/cafka.h" || {
        echo "cafka.h does not include $header"
        failed=1
    } ;;
    esac
done
[ -n "${CXX:-}" ] || echo "skipped: no C++ compiler for the headers"
exit $failed
