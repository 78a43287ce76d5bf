/*
 * cafka/env.h - the world as a struct of functions: clock, chance, sockets, files, names, waiting.
 *
 * Nothing in the library asks the operating system past an env. cafka_env_real() is the real one;
 * the simulated one of libcafka-mock has a virtual clock, seeded chance, links in memory and a
 * disk that knows what was synced. An application needs none of this unless it brings a world of
 * its own with cafka_config_set_env().
 *
 * Every function gets the env first; `state` is the maker's. Functions return 0 or a value, or
 * minus an errno value on failure. Handles are small numbers of the env (in the real world file
 * descriptors). Times are nanoseconds of the monotonic clock unless the name says _ms; wall_ms is
 * Unix time. A deadline of CAFKA_NEVER does not come.
 *
 * Thread: the functions of one env may be called on any thread, for one handle by one thread at a
 * time; event_signal and poller_wake on any thread and in signal handlers.
 */
#ifndef CAFKA_ENV_H
#define CAFKA_ENV_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cafka/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAFKA_NEVER INT64_MAX

typedef struct cafka_env cafka_env;
typedef struct cafka_env_file cafka_env_file;

/* An IP address and port. */
typedef struct cafka_address {
    uint8_t ip[16]; /* 4 bytes used if family is 4 */
    uint8_t family; /* 4 or 6; 0: none */
    uint16_t port;  /* host byte order */
    uint32_t scope; /* IPv6 scope id */
} cafka_address;

/* What a poller saw. */
enum {
    CAFKA_READABLE = 1u << 0,
    CAFKA_WRITABLE = 1u << 1,
    CAFKA_HANGUP = 1u << 2 /* error or hang-up; read to learn which */
};

typedef struct cafka_poll_event {
    void *user;
    unsigned events;
} cafka_poll_event;

/*
 * Something that runs beside the application: a loop. The real env starts a thread that calls
 * main(arg); a simulated env starts none and calls step(arg) when the poller has something ready
 * or deadline(arg) has come. runner_stop() returns after main has ended (it was told before to
 * end), or when step will not be called again.
 */
typedef struct cafka_runner {
    void (*main)(void *arg);
    void (*step)(void *arg);
    int64_t (*deadline)(void *arg);
    void *arg;
    int poller;
    const char *name; /* of the thread; 15 bytes at most */
    void *state;      /* the env's */
} cafka_runner;

/* What a connection asks of its socket. */
typedef struct cafka_dial_options {
    size_t size;                  /* sizeof(cafka_dial_options) of the library */
    int32_t send_buffer_bytes;    /* 0: the system's default */
    int32_t receive_buffer_bytes; /* 0: the system's default */
} cafka_dial_options;

typedef void cafka_resolved_fn(void *user, int error /* 0, or minus errno */,
                               const cafka_address *addresses, size_t count);

/* File open flags. */
enum {
    CAFKA_FILE_READ = 1u << 0,
    CAFKA_FILE_WRITE = 1u << 1,
    CAFKA_FILE_CREATE = 1u << 2,   /* make it if it is not there */
    CAFKA_FILE_TRUNCATE = 1u << 3, /* drop what it holds */
    CAFKA_FILE_EXCLUSIVE = 1u << 4 /* fail with -EEXIST if it is there */
};

typedef struct cafka_file_info {
    int64_t size;
    int64_t mtime_ms; /* Unix time */
    int is_directory;
} cafka_file_info;

struct cafka_env {
    size_t size;   /* sizeof(cafka_env) of the maker */
    int simulated; /* 1: virtual time, one thread, runners are stepped */
    void *state;

    /* clock and chance */
    int64_t (*now)(const cafka_env *env);     /* monotonic ns */
    int64_t (*wall_ms)(const cafka_env *env); /* Unix time in ms */
    uint64_t (*random)(const cafka_env *env); /* 64 random bits */

    /* sockets: never blocking; -EAGAIN when it would */
    int (*dial)(const cafka_env *env, const cafka_address *to); /* handle; connecting */
    int (*dial_result)(const cafka_env *env, int handle);       /* 0 once connected; -EINPROGRESS */
    int (*listen)(const cafka_env *env, const cafka_address *on, int backlog, cafka_address *bound);
    int (*accept)(const cafka_env *env, int listener, cafka_address *from);
    ssize_t (*recv)(const cafka_env *env, int handle, void *into, size_t size); /* 0: end of stream */
    ssize_t (*send)(const cafka_env *env, int handle, const struct iovec *pieces, int count);
    /* From a file to a socket without passing through this process. */
    ssize_t (*send_file)(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset,
                         size_t size);
    int (*peer)(const cafka_env *env, int handle, cafka_address *out);
    void (*reset)(const cafka_env *env, int handle); /* close with RST, unsent bytes are dropped */
    void (*close)(const cafka_env *env, int handle);

    /* readiness: level triggered */
    int (*poller_open)(const cafka_env *env);
    void (*poller_close)(const cafka_env *env, int poller);
    /* events 0 takes the handle out; the first non-zero puts it in */
    int (*poller_set)(const cafka_env *env, int poller, int handle, unsigned events, void *user);
    /* Up to `max` events; waits until the deadline (a past one does not wait). A wake ends the wait. */
    int (*poller_wait)(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                       int64_t deadline);
    void (*poller_wake)(const cafka_env *env, int poller);
    int (*poller_fd)(const cafka_env *env, int poller); /* to be put into another poll; -1: none */

    /* one-bit events for threads that wait: signal sets it, wait takes it */
    int (*event_open)(const cafka_env *env);
    void (*event_close)(const cafka_env *env, int event);
    void (*event_signal)(const cafka_env *env, int event);
    int (*event_wait)(const cafka_env *env, int event,
                      int64_t deadline);                 /* 1 it was set, 0 deadline */
    int (*event_clear)(const cafka_env *env, int event); /* was it set? */

    /* things that run beside */
    int (*runner_start)(const cafka_env *env, cafka_runner *runner);
    void (*runner_stop)(const cafka_env *env, cafka_runner *runner);

    /*
     * Names to addresses. `done` is called once, on a thread of the env's choice, perhaps before
     * resolve() returns (it is so for text that is an address). Not cancellable.
     */
    void (*resolve)(const cafka_env *env, const char *host, uint16_t port, cafka_resolved_fn *done,
                    void *user);

    /* files: paths are '/'-separated */
    int (*file_open)(const cafka_env *env, const char *path, unsigned flags, cafka_env_file **out);
    void (*file_close)(const cafka_env *env, cafka_env_file *file);
    ssize_t (*file_read)(const cafka_env *env, cafka_env_file *file, void *into, size_t size,
                         int64_t offset);
    ssize_t (*file_write)(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces,
                          int count, int64_t offset);
    int64_t (*file_size)(const cafka_env *env, cafka_env_file *file);
    int (*file_truncate)(const cafka_env *env, cafka_env_file *file,
                         int64_t size); /* or extend with zeros */
    int (*file_allocate)(const cafka_env *env, cafka_env_file *file,
                         int64_t size); /* reserve, size unchanged */
    int (*file_sync)(const cafka_env *env, cafka_env_file *file);
    /* Shared mapping, readable and writable; stays valid after file_truncate to a size not below. */
    void *(*file_map)(const cafka_env *env, cafka_env_file *file, size_t size); /* NULL on failure */
    void (*file_unmap)(const cafka_env *env, cafka_env_file *file, void *memory, size_t size);
    int (*file_lock)(const cafka_env *env,
                     cafka_env_file *file); /* exclusive, not waiting; gone with close */
    int (*file_set_mtime)(const cafka_env *env, cafka_env_file *file, int64_t mtime_ms);
    int (*path_info)(const cafka_env *env, const char *path, cafka_file_info *out); /* -ENOENT */
    int (*path_rename)(const cafka_env *env, const char *from, const char *to);
    int (*path_remove)(const cafka_env *env, const char *path); /* a file or an empty directory */
    int (*path_mkdir)(const cafka_env *env, const char *path);
    int (*path_sync)(const cafka_env *env, const char *directory); /* makes names durable */
    /* Calls each(user, name) for every entry but . and .., in order of name; stops when it returns non-zero. */
    int (*path_list)(const cafka_env *env, const char *directory,
                     int (*each)(void *user, const char *name), void *user);

    /* --- since 0.1.0, each optional: NULL, or beyond `size`, where a world does without --- */

    /* As dial, with sizes for the socket's buffers; without it they are left to the system. */
    int (*dial_with)(const cafka_env *env, const cafka_address *to,
                     const cafka_dial_options *options);
    /* As event_wait, for two events: 1 or 2 was set (and was taken), 0 deadline. */
    int (*event_wait_either)(const cafka_env *env, int event, int other, int64_t deadline);
    /*
     * In a forked child, for a poller of the parent: close this process's descriptors of it and of the
     * sockets that were put into it. The parent's go on.
     */
    void (*poller_abandon)(const cafka_env *env, int poller);
    /* A descriptor that is readable while the event is signalled, for an application's poll; -1: none. */
    int (*event_fd)(const cafka_env *env, int event);
};

/* The real world. Never NULL, never freed. */
CAFKA_API const cafka_env *cafka_env_real(void);

#ifdef __cplusplus
}
#endif

#endif
