# python3-confluent-kafka produces what cafka consumes and consumes what cafka produced.
. tests/lib/wire.sh
. tests/lib/python_wire.sh
both_ways confluent_kafka
