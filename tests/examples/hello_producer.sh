# One record is in the topic that was named, and one in greetings.
run "$servers" first
holds first '%k|%s' '|hello'
run "$servers"
holds greetings '%s' hello
# Nobody there: it says so, and gives up within its deadline.
"$program" 127.0.0.1:1 >out 2>err && fail "sent a record to nobody"
grep -q '^hello_producer: .*127.0.0.1:1' err || fail "does not say why: $(cat err)"
