# python3-kafka, which knows the protocol as it was before Kafka 4: the broker offers what 3.9 did.
. tests/lib/wire.sh
. tests/lib/python_wire.sh
both_ways kafka --api-versions 3.9
