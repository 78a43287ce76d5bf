# A real Apache Kafka broker (run.sh beside the golden data, jars from Maven Central): every
# tests/real/*.sh is one case, as in 80-wire.sh, with KAFKA set to run.sh.
. tests/stages/cases.sh
ls tests/real/*.sh >/dev/null 2>&1 || skip "no case in tests/real"
export KAFKA=$CAFKA_SHARED/realkafka/run.sh
[ -x "$KAFKA" ] || skip "real Kafka: run.sh not found"
command -v java >/dev/null || skip "real Kafka: java not found"
. tests/packages.sh
have_kafka_jars || skip "real Kafka: the jars cannot be fetched"
run_cases tests/real
