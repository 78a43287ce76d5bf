# The plain tree builds: library, programs and tests, without a warning.
build_tree "$PLAIN" gcc
