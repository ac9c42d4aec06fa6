/* Request and response (rr): one payload there, one payload back, one at a time. The word says the transport, and
 * "-spin" whether both ends poll a socket that does not block. "connect" opens a TCP connection for
 * each transaction. */
#include "common.h"

static int is_spinning;
static int flags;

static int is_tcp(const struct arguments *a) { return strncmp(a->word, "tcp", 3) == 0; }

/* Whether a failed call is to be made again: nothing was there yet, or the alarm came. */
static int again(void) {
    return errno == EINTR || (is_spinning && (errno == EAGAIN || errno == EWOULDBLOCK));
}

/* Sends the whole payload; 0 when the run is over or the other end has gone. */
static int send_all(int fd, const char *buffer, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(fd, buffer + done, bytes - done, flags);
        if (n > 0) done += (size_t)n;
        else if (!again()) return 0;
        else if (is_over) return 0;
    }
    return 1;
}

/* Receives the whole payload; 0 when the run is over or the other end has gone. */
static int receive_all(int fd, char *buffer, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = recv(fd, buffer + done, bytes - done, flags);
        if (n > 0) done += (size_t)n;
        else if (n == 0 || !again()) return 0;
        else if (is_over) return 0;
    }
    return 1;
}

static void ask(const struct arguments *a) {
    int fd = connected(a, is_tcp(a) ? SOCK_STREAM : SOCK_DGRAM);
    if (is_tcp(a)) set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    char *buffer = buffer_of(a->bytes);
    int64_t count = 0, began = now_ns();
    end_after(a->duration_ns);
    while (!is_over && send_all(fd, buffer, a->bytes) && receive_all(fd, buffer, a->bytes)) count++;
    report(count, count * (int64_t)a->bytes, now_ns() - began);
}

static void answer(const struct arguments *a) {
    char *buffer = buffer_of(a->bytes);
    int64_t count = 0, began;
    int fd;
    /* A datagram socket learns of no end; a connection ends itself. */
    end_after(is_tcp(a) ? 3600000000000 : 2 * a->duration_ns + 1000000000);
    if (is_tcp(a)) {
        fd = accepted(a);
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
        began = now_ns();
    } else {
        fd = bound(a, SOCK_DGRAM);
        struct sockaddr_in from;
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(fd, buffer, a->bytes, 0, (struct sockaddr *)&from, &length);
        if (n < 0) fail("recvfrom");
        if (connect(fd, (struct sockaddr *)&from, length) != 0) fail("connect");
        began = now_ns();
        send_all(fd, buffer, a->bytes);
        count++;
    }
    while (receive_all(fd, buffer, a->bytes) && send_all(fd, buffer, a->bytes)) count++;
    report(count, count * (int64_t)a->bytes, now_ns() - began);
}

static void ask_connecting(const struct arguments *a) {
    char *buffer = buffer_of(a->bytes);
    int64_t count = 0, began = now_ns(), ends = began + a->duration_ns;
    while (now_ns() < ends) {
        int fd = connected(a, SOCK_STREAM);
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
        if (!send_all(fd, buffer, a->bytes) || !receive_all(fd, buffer, a->bytes)) fail("transaction");
        /* The other end closes first, so that no port here stays in TIME_WAIT. */
        if (recv(fd, buffer, 1, 0) != 0) fail("end");
        close(fd);
        count++;
    }
    report(count, count * (int64_t)a->bytes, now_ns() - began);
}

static void answer_connecting(const struct arguments *a) {
    int listener = bound(a, SOCK_STREAM);
    char *buffer = buffer_of(a->bytes);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept");
        set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
        if (receive_all(fd, buffer, a->bytes)) send_all(fd, buffer, a->bytes);
        close(fd);
    }
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    is_spinning = strstr(a.word, "-spin") != NULL;
    flags = is_spinning ? MSG_DONTWAIT : 0;
    int is_connecting = strcmp(a.word, "connect") == 0;
    if (is(&a, "ask")) is_connecting ? ask_connecting(&a) : ask(&a);
    else if (is(&a, "answer")) is_connecting ? answer_connecting(&a) : answer(&a);
    else return fprintf(stderr, "no such mode: %s\n", a.mode), 64;
    return 0;
}
