# make check in the plain tree.
check_tree "$PLAIN"
