# cafka-mockbroker against the transcripts of a real broker (tests/golden/broker.sh).
. tests/stages/lib.sh
tests/golden/broker.sh --build "$PLAIN"
