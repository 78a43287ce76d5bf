# Simulations from seeds (SEED_TESTS in Makefile.am): each program takes CAFKA_SEEDS, how many to
# run, and CAFKA_SEED, the first one, and prints the seed that fails.
tests=$(make_value SEED_TESTS)
[ -n "$tests" ] || skip "no simulation"
export CAFKA_SEEDS=${CAFKA_SEEDS:-${FULL:+3000}}
export CAFKA_SEEDS=${CAFKA_SEEDS:-300}
check_tree "$PLAIN" TESTS="$tests"
