# Numbers go out and come back in one thread; they are in the topic in their order.
run "$servers" numbers-epoll 1000
prints "1000 sent, 1000 delivered, 1000 received"
holds numbers-epoll '%s' $(seq 0 999)
