#!/bin/sh
# The examples in the comments of public headers compile without a warning, and no call in them that
# can fail is left unchecked. A block of code is what is indented by four more columns and has a line
# that ends in a semicolon; a function in it stands first. What an example takes for granted is
# declared below.
headers="admin config consumer memory plugin producer"
top=$(cd "${top_srcdir:-.}" && pwd)
work=$(mktemp -d) || exit 99
trap 'rm -rf "$work"' EXIT
cat >"$work/known.h" <<'END'
#include <cafka.h>
#include <stdio.h>
#include <string.h>

extern cafka_config *config;
extern cafka_consumer *c;
extern cafka_fetch *fetch;
extern cafka_record_view record;
extern cafka_producer *producer;
extern cafka_error err;
extern const void *image;
extern size_t count, most_bytes;
extern int rc, stopped;
int die(const cafka_error *error);
void use(const void *value, size_t size);
void work_on(const char *topic, int32_t partition, const cafka_record_view *views, size_t count);
size_t encode(const void *from, void *to, size_t most);
END
failed=0
for name in $headers; do
    header=$top/include/cafka/$name.h
    awk -v out="$work/$name" '
        function finish() {
            if (code ~ /;\n/) {
                n++
                file = out "_" n ".c"
                print "#include \"known.h\"" >file
                body = code
                if (code ~ /^static /) { # functions first
                    end = match(code, /\n}\n/)
                    print substr(code, 1, end + 2) >file
                    body = substr(code, end + 3)
                }
                printf "int example(void);\nint example(void)\n{\n%s\n    return 0;\n}\n", body >file
                close(file)
            }
            code = ""
        }
        /^ \*     / { code = code substr($0, 8) "\n"; next }
        /^ \*$/ && code != "" { next }
        { finish() }' "$header"
    [ -e "$work/${name}_1.c" ] || {
        echo "$name.h: no example was found"
        failed=1
    }
done
for example in "$work"/*_*.c; do
    name=$(basename "$example" .c)
    ${CC:-cc} -std=gnu99 -Wall -Wextra -Werror -Wno-misleading-indentation \
        -I"$top/include" -I"$work" -c "$example" -o "$work/example.o" || {
        echo "${name%_*}.h: example ${name##*_} does not compile"
        failed=1
    }
    # A statement that is nothing but a call whose last argument is &err throws the result away.
    if grep -nE '^ *cafka_[a-z_]+\(.*&err\);' "$example"; then
        echo "${name%_*}.h: example ${name##*_} leaves a result unchecked"
        failed=1
    fi
done
exit $failed
