# wire.sh - what the cases of tests/wire and tests/real share; sourced by them. Set by whoever runs
# a case (tests/stages/cases.sh): BUILD, the build tree; WORK, an empty directory.
#
# Whatever is started through start_broker or `background` is stopped when the case ends, however
# it ends, by its process id. Nothing waits for luck: every wait looks for a line or a state, and
# has a deadline.
set -euo pipefail
export LC_ALL=C PATH=$BUILD:$PATH
PYTHON=/usr/bin/python3 # Debian's, which has Debian's Python clients
[ -x "$PYTHON" ] || PYTHON=python3
pids=()

stop_all() {
    local pid
    for pid in "${pids[@]:-}"; do
        [ -n "$pid" ] || continue
        kill -CONT "$pid" 2>/dev/null || true
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}
trap stop_all EXIT
trap 'exit 143' TERM INT

say() {
    printf '%s\n' "$*"
}

skip() {
    say "skipped: $*"
    exit 77
}

fail() {
    say "FAILED: $*"
    exit 1
}

# wait_until SECONDS WHAT COMMAND…: until the command succeeds.
wait_until() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "$what: not within the time"
        sleep 0.02
    done
}

# gone PID: it has ended, though perhaps nobody waited for it yet.
gone() {
    local state
    state=$(sed 's/.*) \(.\).*/\1/' "/proc/$1/stat" 2>/dev/null) || return 0
    [ "$state" = Z ]
}

# background COMMAND…: started, its process id in $started; stopped at the end.
background() {
    "$@" &
    started=$!
    pids+=("$started")
}

# start_broker NAME [option…]: cafka-mockbroker; its id in $broker, its addresses in $servers, its
# output in $WORK/NAME.out and .log.
start_broker() {
    local name=$1
    shift
    : >"$WORK/$name.out"
    cafka-mockbroker "$@" >"$WORK/$name.out" 2>>"$WORK/$name.log" &
    broker=$!
    pids+=("$broker")
    wait_until 60 "cafka-mockbroker to start" broker_said "$name" "$broker"
    servers=$(sed -n 's/^bootstrap.servers=//p' "$WORK/$name.out")
    [ -n "$servers" ] || {
        cat "$WORK/$name.log"
        fail "cafka-mockbroker $* did not start"
    }
}

broker_said() {
    grep -q '^bootstrap.servers=' "$WORK/$1.out" || ! kill -0 "$2" 2>/dev/null
}

# stop_broker: SIGTERM, and it must end well.
stop_broker() {
    local rc=0
    kill "$broker"
    wait "$broker" || rc=$?
    [ $rc = 0 ] || fail "cafka-mockbroker ended with $rc on SIGTERM"
}

# free_ports N: the first of N ports in a row that nobody listens on.
free_ports() {
    "$PYTHON" - "$1" <<'PY'
import os, random, socket, sys
count = int(sys.argv[1])
dice = random.Random(os.getpid())
while True:
    first = dice.randrange(23000, 31000)
    try:
        held = []
        for port in range(first, first + count):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", port))
            held.append(s)
        print(first)
        break
    except OSError:
        continue
    finally:
        for s in held:
            s.close()
PY
}

# same EXPECTED FOUND WHAT: two files must be equal.
same() {
    cmp "$1" "$2" || {
        diff -a "$1" "$2" 2>/dev/null | cut -c 1-300 | head -n 10 || true
        fail "$3: $1 and $2 differ"
    }
}
