# Every fuzz target for a short while, from its seeds (tests/fuzz/README).
command -v clang >/dev/null || skip "clang not found"
targets=$(make_value FUZZERS)
[ -n "$targets" ] || skip "no fuzz target"
mkdir -p "$OUT/fuzz"
if [ ! -e "$OUT/fuzz/config.status" ]; then
    (cd "$OUT/fuzz" && "$TOP/configure" --silent CC=clang CFLAGS="-O1 -g -fsanitize=fuzzer-no-link" --enable-sanitizers=address,undefined --disable-shared)
fi
make -C "$OUT/fuzz" -j"$JOBS" fuzzers
for target in $targets; do
    (cd "$OUT/fuzz" && mkdir -p corpus && timeout -k 10 300 "./$target" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 corpus 2>&1 | tail -n 25)
done
