/* A TCP stream: one end writes without pause, the other reads; the receiver counts what arrived from
 * the end of the first twentieth of the run to the last arrival. The word, if there is one, is the number
 * of bytes that wake it up. */
#include "common.h"

/* The receiver's buffer of the usual size, 128 KiB. */
enum { RECEIVE_BYTES = 128 << 10 };

static void send_stream(const struct arguments *a) {
    int fd = connected(a, SOCK_STREAM);
    char *buffer = buffer_of(a->bytes);
    end_after(a->duration_ns);
    int64_t bytes = 0, count = 0, began = now_ns();
    while (!is_over) {
        ssize_t n = send(fd, buffer, a->bytes, 0);
        if (n < 0 && errno != EINTR) fail("send");
        if (n > 0) bytes += n, count++;
    }
    report(count, bytes, now_ns() - began);
}

static void receive_stream(const struct arguments *a) {
    int fd = accepted(a);
    if (*a->word) set(fd, SOL_SOCKET, SO_RCVLOWAT, atoi(a->word), "SO_RCVLOWAT");
    char *buffer = buffer_of(RECEIVE_BYTES);
    int64_t bytes = 0, count = 0, ramp_ends = 0, opened = 0, last = 0;
    ssize_t n;
    while ((n = recv(fd, buffer, RECEIVE_BYTES, 0)) > 0) {
        last = now_ns();
        if (ramp_ends == 0) ramp_ends = last + a->duration_ns / 20;
        if (opened != 0) {
            bytes += n, count++;
        } else if (last >= ramp_ends) {
            opened = last;
        }
    }
    if (n < 0) fail("recv");
    report(count, bytes, opened ? last - opened : 0);
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    if (is(&a, "send")) send_stream(&a);
    else if (is(&a, "receive")) receive_stream(&a);
    else return fprintf(stderr, "no such mode: %s\n", a.mode), 64;
    return 0;
}
