#!/usr/bin/env bash
# broker.sh [--build DIR] [SCRIPT…] - does cafka-mockbroker answer as a real broker did?
#
# Plays the scenarios of $CAFKA_SHARED/golden/broker (default: ../shared beside the source tree)
# and of tests/golden/broker (odd-*, recorded in the same way) against cafka-mockbroker, as record.sh
# did against Apache Kafka 4.3.1, and compares the transcripts. SCRIPT is a name such as wire; without one all that this project answers for so far.
# A scenario may differ only if tests/golden/broker.differs lists it, with the reason; one that is
# listed and agrees fails the run too, so that the list stays true.
#
# DIR holds the program (default: build, or the current directory). Needs java and Kafka's jars
# (realkafka/run.sh fetch); without them it says `skipped: …` and exits with 77.
set -euo pipefail

top=$(cd "$(dirname "$0")/../.." && pwd)
shared=${CAFKA_SHARED:-$top/../shared}
golden=$shared/golden/broker
run=$shared/realkafka/run.sh
differs=$top/tests/golden/broker.differs
build=
if [ "${1:-}" = --build ]; then
    build=$2
    shift 2
fi
for dir in "$build" "$PWD" "$top/build"; do
    if [ -n "$dir" ] && [ -x "$dir/cafka-mockbroker" ]; then
        program=$dir/cafka-mockbroker
        break
    fi
done
scripts=("$@")
[ $# -gt 0 ] || scripts=(wire metadata topics configs produce idempotence fetch
    odd-fetch odd-produce odd-idempotence odd-topics odd-batches odd-configs odd-create odd-metadata
    odd-records odd-wire)

skip() {
    echo "skipped: $*"
    exit 77
}
[ -d "$golden" ] || skip "golden data not found"
[ -x "$run" ] || skip "broker transcripts: run.sh not found"
command -v java >/dev/null 2>&1 || skip "broker transcripts: java not found"
ls "${KAFKA_LIBS:-${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/realkafka}/${KAFKA_VERSION:-4.3.1}/libs}"/kafka_*.jar \
    >/dev/null 2>&1 || skip "broker transcripts: the jars of Kafka are not here"
[ -n "${program:-}" ] || {
    echo "broker.sh: cafka-mockbroker is not built" >&2
    exit 1
}

work=$(mktemp -d)
pid=
stop() { # SIGTERM is a clean stop, with exit status 0
    local status=0
    [ -n "$pid" ] || return 0
    kill "$pid" 2>/dev/null || true
    wait "$pid" || status=$?
    pid=
    [ $status = 0 ] || {
        cat "$work/broker.log" >&2
        echo "broker.sh: cafka-mockbroker ended with $status" >&2
        return 1
    }
}
trap 'stop || true; rm -rf "$work"' EXIT

# The properties that the recorded brokers had, but for what only they could use.
sed -e '/^#BEGIN SECURE/,/^#END SECURE/d' -e '/^#BEGIN ACL/,/^#END ACL/d' \
    -e 's/@RF@/1/' -e 's/@MIN_ISR@/1/' -e '/@[A-Z_]*@/d' \
    "$shared/realkafka/server.properties" >"$work/server.properties"

where_is() { # the folder of a script and of its transcript
    if [ -f "$golden/$1.jsonl" ]; then echo "$golden"; else echo "$top/tests/golden/broker"; fi
}

# The first line of a script: nodes, and options such as --set KEY=VALUE.
head_of() {
    python3 -c 'import json, sys; h = json.loads(sys.stdin.readline()); print(h["nodes"], h["options"])' \
        <"$(where_is "$1")/$1.jsonl"
}

start() { # NODES OPTIONS…
    local nodes=$1
    shift
    "$program" --brokers "$nodes" --config "$work/server.properties" "$@" \
        >"$work/out" 2>"$work/broker.log" &
    pid=$!
    for _ in $(seq 100); do
        bootstrap=$(sed -n 's/^bootstrap.servers=//p' "$work/out")
        [ -z "$bootstrap" ] || return 0
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/broker.log" >&2
    echo "broker.sh: cafka-mockbroker did not start" >&2
    exit 1
}

mkdir "$work/played" "$work/expected"
for script in "${scripts[@]}"; do
    head_of "$script" | sed "s|^|$script |"
done | sort -k2 >"$work/heads"
cut -d' ' -f2- "$work/heads" | sort -u >"$work/groups"
while read -r nodes options; do
    files=()
    while read -r script n o; do
        [ "$n $o" = "$nodes $options" ] || continue
        files+=("$(where_is "$script")/$script.jsonl")
        cp "$(where_is "$script")/$script.out.jsonl" "$work/expected"
    done <"$work/heads"
    # shellcheck disable=SC2086  # options is a list of words
    start "$nodes" $options
    "$run" probe "$bootstrap" "${files[@]}" --out "$work/played" </dev/null >"$work/probe.log" 2>&1 || {
        tail -n 20 "$work/probe.log" >&2
        exit 1
    }
    stop
done <"$work/groups"

# A step that the probe could not even take counts as a difference of its scenario.
python3 - "$work/played"/*.out.jsonl <<'EOF'
import json, sys
for name in sys.argv[1:]:
    lines = [json.loads(l) for l in open(name, encoding="utf-8")]
    with open(name, "w", encoding="utf-8") as out:
        for d in lines:
            if "scenario" not in d and "step" not in d:
                d = {"step": "probe line %s" % d.get("line"), "probe": d}
            out.write(json.dumps(d) + "\n")
EOF

"$golden/compare.py" "$work/expected" "$work/played" >"$work/report" || true
python3 - "$work/report" "$differs" "$work/expected" <<'EOF'
import os, sys
report, listed_file, expected = sys.argv[1:]
listed = {}
for line in open(listed_file, encoding="utf-8"):
    line = line.strip()
    if line and not line.startswith("#"):
        name, _, reason = line.partition("  ")
        listed[name] = reason.strip()
agree, differ, details, current = [], [], {}, None
for line in open(report, encoding="utf-8"):
    words = line.split()
    if line.startswith(("ok ", "differs ", "missing ")):
        current = words[1]
        (agree if words[0] == "ok" else differ).append(current)
        details[current] = []
    elif current and line.startswith("  "):
        details[current].append(line.rstrip("\n"))
bad = 0
for name in differ:
    if name in listed:
        print("may differ %s: %s" % (name, listed[name]))
    else:
        bad += 1
        print("DIFFERS %s" % name)
        print("\n".join(details[name]))
for name in agree:
    if name in listed:
        bad += 1
        print("AGREES %s: take it off tests/golden/broker.differs" % name)
for name, reason in listed.items():
    if not reason:
        bad += 1
        print("NO REASON is given for %s in tests/golden/broker.differs" % name)
print("broker transcripts: %d of %d scenarios agree, %d may differ" %
      (len(agree), len(agree) + len(differ), len([n for n in differ if n in listed])))
sys.exit(1 if bad else 0)
EOF
