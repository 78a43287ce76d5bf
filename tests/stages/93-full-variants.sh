# The switches of configure: poll instead of epoll, no snappy, one kind of library only.
for variant in --disable-epoll --without-snappy --disable-shared --disable-static; do
    say "== $variant"
    build_tree "$OUT/variant$variant" gcc "$variant"
    check_tree "$OUT/variant$variant"
done
