# java_wire.sh - programs of Apache Kafka for the cases of tests/wire and tests/real: run.sh beside
# the golden data knows where the jars are.
# shellcheck source=tests/packages.sh
. tests/packages.sh
KAFKA=${KAFKA:-${CAFKA_SHARED:-../shared}/realkafka/run.sh}

# need_java WHAT: skip where it cannot run.
need_java() {
    [ -x "$KAFKA" ] || skip "$1: run.sh not found"
    command -v java >/dev/null || skip "$1: java not found"
    have_kafka_jars || skip "$1: the jars of Kafka are not here"
}

# java_tool CLASS [argument…]: what it says on stderr is shown when it fails.
java_tool() {
    "$KAFKA" tool "$@" 2>"$WORK/tool.log" || {
        tail -n 40 "$WORK/tool.log"
        fail "$1 failed"
    }
}

# start_kafka [option of run.sh…]: a real broker on a free port; its address in $servers. Stopped
# when the case ends.
start_kafka() {
    kafka_dir=$WORK/kafka
    trap 'stop_kafka; stop_all' EXIT
    servers=$("$KAFKA" start "$kafka_dir" --port "$(free_ports 5)" "$@" 2>"$WORK/kafka.log") || {
        tail -n 40 "$WORK/kafka.log"
        fail "Apache Kafka did not start"
    }
}

stop_kafka() {
    [ ! -d "$kafka_dir" ] || "$KAFKA" stop "$kafka_dir"
    rm -rf "$kafka_dir"
}

# Where this Kafka keeps its dump program.
dump_class() {
    if "$KAFKA" tool org.apache.kafka.tools.DumpLogSegments --version >/dev/null 2>&1; then
        echo org.apache.kafka.tools.DumpLogSegments
    else
        echo kafka.tools.DumpLogSegments
    fi
}
