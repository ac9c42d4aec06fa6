/* The bare relay: epoll, read, write, and nothing else. RELAY LISTEN_PORT TARGET_PORT BYTES, over loopback. One
 * thread, one buffer; a byte that cannot be sent at once is waited for. */
#include "common.h"
#include <sys/epoll.h>

#define MAX 65536

static int other[MAX];

static int to_target(uint16_t port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) fail("socket");
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0) fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void add(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s LISTEN_PORT TARGET_PORT BYTES\n", words[0]);
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    size_t bytes = (size_t)atoi(words[3]);
    char *buffer = malloc(bytes);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) < 0) fail("bind");
    if (listen(listener, 4096) < 0) fail("listen");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    add(epoll, listener);
    for (;;) {
        struct epoll_event events[256];
        int ready = epoll_wait(epoll, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
                if (client < 0 || client >= MAX) fail("accept");
                setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                int target = to_target((uint16_t)atoi(words[2]));
                if (target >= MAX) fail("socket");
                other[client] = target, other[target] = client;
                add(epoll, client), add(epoll, target);
                continue;
            }
            if (other[fd] == 0) continue;
            ssize_t got = recv(fd, buffer, bytes, 0);
            if (got <= 0) {
                /* The load never uses half of a connection: both ends at once. */
                close(other[fd]), close(fd);
                other[other[fd]] = 0, other[fd] = 0;
                continue;
            }
            for (ssize_t sent = 0; sent < got;) {
                ssize_t n = send(other[fd], buffer + sent, (size_t)(got - sent), 0);
                if (n < 0) break;
                sent += n;
            }
        }
    }
}
