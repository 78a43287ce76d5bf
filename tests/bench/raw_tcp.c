/*
 * raw_tcp.c - what a plain TCP stream over loopback carries in pieces of 64 KiB.
 *
 *     raw_tcp BYTES
 *
 * The measure that throughput with large records is compared with.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

static char piece[PIECE];

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void send_bytes(const struct sockaddr_in *to, long long bytes)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)to, sizeof *to))
        fail("raw_tcp: connect");
    while (bytes > 0) {
        ssize_t n = write(fd, piece, bytes < PIECE ? (size_t)bytes : PIECE);
        if (n < 0)
            fail("raw_tcp: write");
        bytes -= n;
    }
    close(fd);
}

int main(int argc, char **argv)
{
    long long bytes = argc > 1 ? atoll(argv[1]) : 1LL << 30, received = 0;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &size))
        fail("raw_tcp: listen");
    pid_t sender = fork();
    if (sender < 0)
        fail("raw_tcp: fork");
    if (!sender) {
        send_bytes(&address, bytes);
        _exit(0);
    }
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("raw_tcp: accept");
    double began = now_s();
    ssize_t n;
    while ((n = read(fd, piece, PIECE)) > 0)
        received += n;
    double wall_s = now_s() - began;
    waitpid(sender, NULL, 0);
    if (received != bytes) {
        fprintf(stderr, "raw_tcp: %lld bytes of %lld arrived\n", received, bytes);
        return 1;
    }
    printf("bench mode=tcp bytes=%lld wall_s=%.3f MBps=%.1f\n", bytes, wall_s,
           (double)bytes / wall_s / 1e6);
    return 0;
}
