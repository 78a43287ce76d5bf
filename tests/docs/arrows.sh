#!/bin/sh
# A room includes what stands below it, never beside or above (docs/DESIGN.md, Rooms).
top=${top_srcdir:-.}
cd "$top" || exit 99
failed=0

# room FOLDER MAY…: its files include headers of these rooms only.
room() {
    folder=$1
    shift
    may=$(echo "$*" | tr ' ' '|')
    wrong=$(grep -rnE '#include "[a-z]+/' --include='*.[ch]' "$folder" | grep -vE "#include \"($may)/")
    [ -z "$wrong" ] || {
        echo "$wrong"
        failed=1
    }
}

room src/util util
room src/env env util
room src/net net env util
room src/protocol protocol util
room src/record record util
room src/conn conn net env protocol record util
room src/client client conn net env protocol record util
room src/producer producer client conn net env protocol record util
room src/consumer consumer client conn net env protocol record util
room src/admin admin client conn net env protocol record util
room src/sim sim net env util
room mockbroker mockbroker sim conn net env protocol record util
exit $failed
