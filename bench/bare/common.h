/* What the bare loops share: arguments, sockets, the clock. Any failure ends the program with a line
 * on standard error. A loop prints one line of JSON. */
#ifndef BARE_COMMON_H
#define BARE_COMMON_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* linux/udp.h; absent from the headers of older C libraries. */
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

static inline void fail(const char *doing) {
    fprintf(stderr, "%s: %s\n", doing, strerror(errno));
    exit(1);
}

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* PROGRAM MODE ADDRESS PORT BYTES SECONDS CPU, and a word of the mode's own. */
struct arguments {
    const char *mode;
    struct sockaddr_in address;
    size_t bytes;
    int64_t duration_ns;
    const char *word;
};

static inline struct arguments arguments(int count, char **words) {
    if (count < 7) {
        fprintf(stderr, "usage: %s MODE ADDRESS PORT BYTES SECONDS CPU [WORD]\n", words[0]);
        exit(64);
    }
    struct arguments a = {.mode = words[1], .word = count > 7 ? words[7] : ""};
    a.address.sin_family = AF_INET;
    a.address.sin_port = htons((uint16_t)atoi(words[3]));
    if (inet_pton(AF_INET, words[2], &a.address.sin_addr) != 1) {
        fprintf(stderr, "not an IPv4 address: %s\n", words[2]);
        exit(64);
    }
    a.bytes = strtoull(words[4], NULL, 10);
    a.duration_ns = (int64_t)(strtod(words[5], NULL) * 1e9);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(words[6]), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
    signal(SIGPIPE, SIG_IGN);
    return a;
}

static inline int is(const struct arguments *a, const char *mode) {
    return strcmp(a->mode, mode) == 0;
}

static inline void set(int fd, int level, int option, int value, const char *name) {
    if (setsockopt(fd, level, option, &value, sizeof value) != 0) fail(name);
}

/* A blocked receive returns with EAGAIN after this time. */
static inline void receive_within(int fd, int64_t ns) {
    struct timeval t = {.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000};
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) != 0) fail("SO_RCVTIMEO");
}

static inline int open_socket(int kind) {
    int fd = socket(AF_INET, kind, 0);
    if (fd < 0) fail("socket");
    return fd;
}

static inline int bound(const struct arguments *a, int kind) {
    int fd = open_socket(kind);
    if (kind == SOCK_STREAM) set(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
    if (bind(fd, (const struct sockaddr *)&a->address, sizeof a->address) != 0) fail("bind");
    if (kind == SOCK_STREAM && listen(fd, 128) != 0) fail("listen");
    return fd;
}

static inline int connected(const struct arguments *a, int kind) {
    int fd = open_socket(kind);
    if (connect(fd, (const struct sockaddr *)&a->address, sizeof a->address) != 0) fail("connect");
    return fd;
}

/* A listening socket whose one connection is awaited. */
static inline int accepted(const struct arguments *a) {
    int listener = bound(a, SOCK_STREAM);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) fail("accept");
    close(listener);
    return fd;
}

/* At a page boundary, as in fabricmark. */
static inline void *buffer_of(size_t bytes) {
    size_t room = (bytes / 4096 + 1) * 4096;
    void *buffer = aligned_alloc(4096, room);
    if (!buffer) fail("aligned_alloc");
    return memset(buffer, 0, room);
}

/* Set by SIGALRM, so that a loop reads a flag and no clock. */
static volatile sig_atomic_t is_over = 0;

static inline void on_alarm(int signal_number) {
    (void)signal_number;
    is_over = 1;
}

/* Ends the loop after `ns`; repeated, in case the first signal falls between the look at the flag and
 * a call that blocks. */
static inline void end_after(int64_t ns) {
    struct sigaction action = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {
        .it_value = {.tv_sec = ns / 1000000000, .tv_usec = ns % 1000000000 / 1000},
        .it_interval = {.tv_usec = 10000},
    };
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) fail("setitimer");
}

static inline void report(int64_t count, int64_t bytes, int64_t elapsed_ns) {
    printf("{\"count\": %lld, \"bytes\": %lld, \"elapsed_ns\": %lld}\n", (long long)count,
           (long long)bytes, (long long)elapsed_ns);
}

#endif
