/* Transactions over many TCP connections, one at a time on each; epoll says once per arrival which of them have one. The
 * word is their number, or with a second one after a slash that of those that have transactions: 10000/100. */
#include "common.h"
#include <sys/epoll.h>
#include <sys/resource.h>

#define EVENTS 256

static int count_of(const struct arguments *a) {
    int flows = atoi(a->word);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) fail("getrlimit");
    rlim_t needed = (rlim_t)flows + 16;
    if (files.rlim_cur < needed) {
        files.rlim_cur = needed;
        if (files.rlim_max < needed) files.rlim_max = needed;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    }
    return flows;
}

static void add(int epoll, int fd) {
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

/* Waits for arrivals; 0 after a signal. */
static int wait_for(int epoll, struct epoll_event *events) {
    int n = epoll_wait(epoll, events, EVENTS, -1);
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    return n < 0 ? 0 : n;
}

static void ask(const struct arguments *a) {
    int flows = count_of(a), epoll = epoll_create1(0);
    int *fds = buffer_of((size_t)flows * sizeof *fds);
    char *buffer = buffer_of(a->bytes);
    struct epoll_event events[EVENTS];
    for (int i = 0; i < flows; i++) {
        fds[i] = connected(a, SOCK_STREAM);
        add(epoll, fds[i]);
    }
    int64_t count = 0, began = now_ns();
    end_after(a->duration_ns);
    const char *slash = strchr(a->word, '/');
    int active = slash ? atoi(slash + 1) : flows;
    for (int i = 0; i < active; i++) send(fds[(size_t)i * (flows / active)], buffer, a->bytes, 0);
    while (!is_over) {
        int n = wait_for(epoll, events);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (recv(fd, buffer, a->bytes, 0) != (ssize_t)a->bytes) fail("recv");
            if (send(fd, buffer, a->bytes, 0) != (ssize_t)a->bytes) fail("send");
            count++;
        }
    }
    report(count, count * (int64_t)a->bytes, now_ns() - began);
}

static void answer(const struct arguments *a) {
    int flows = count_of(a), epoll = epoll_create1(0), listener = bound(a, SOCK_STREAM);
    char *buffer = buffer_of(a->bytes);
    struct epoll_event events[EVENTS];
    for (int i = 0; i < flows; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept");
        add(epoll, fd);
    }
    for (;;) {
        int n = wait_for(epoll, events);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (recv(fd, buffer, a->bytes, 0) != (ssize_t)a->bytes) return;
            send(fd, buffer, a->bytes, 0);
        }
    }
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    if (is(&a, "ask")) ask(&a);
    else if (is(&a, "answer")) answer(&a);
    else return fprintf(stderr, "no such mode: %s\n", a.mode), 64;
    return 0;
}
