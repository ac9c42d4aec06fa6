/* A UDP stream: one end sends without pause, the other counts what arrives. The word "gso" lets the
 * kernel cut super-packets and join them again (UDP_SEGMENT, UDP_GRO), "mmsg" moves several datagrams by
 * each call. The receiver counts from the end of the first twentieth of the run to the last arrival. */
#include "common.h"

/* UDP_MAX_SEGMENTS was 64 until Linux 6.9 (linux/udp.h); a super-packet is at most 65,507 bytes. */
enum { SEGMENTS_MAX = 64, BATCH = 64, UDP_PAYLOAD_MAX = 65507, SILENCE_NS = 200000000 };

static int is_gso, is_batch;
static struct mmsghdr headers[BATCH];
static struct iovec parts[BATCH];

/* All datagrams of a batch have one buffer. */
static void make_headers(char *buffer, size_t length) {
    for (int i = 0; i < BATCH; i++) {
        parts[i] = (struct iovec){.iov_base = buffer, .iov_len = length};
        headers[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    }
}

/* Bytes that one call sent. */
static ssize_t send_some(int fd, const char *buffer, size_t length) {
    if (!is_batch) return send(fd, buffer, length, 0);
    int n = sendmmsg(fd, headers, BATCH, 0);
    return n < 0 ? n : n * (ssize_t)length;
}

/* Bytes that one call received. */
static ssize_t receive_some(int fd, char *buffer, size_t length) {
    if (!is_batch) return recv(fd, buffer, length, 0);
    int n = recvmmsg(fd, headers, BATCH, MSG_WAITFORONE, NULL);
    ssize_t bytes = n < 0 ? n : 0;
    for (int i = 0; i < n; i++) bytes += headers[i].msg_len;
    return bytes;
}

static void send_datagrams(const struct arguments *a) {
    int fd = connected(a, SOCK_DGRAM);
    size_t segments = 1;
    if (is_gso) {
        segments = UDP_PAYLOAD_MAX / a->bytes;
        if (segments > SEGMENTS_MAX) segments = SEGMENTS_MAX;
        set(fd, IPPROTO_UDP, UDP_SEGMENT, (int)a->bytes, "UDP_SEGMENT");
    }
    size_t length = segments * a->bytes;
    char *buffer = buffer_of(length);
    make_headers(buffer, length);
    end_after(a->duration_ns);
    int64_t bytes = 0, began = now_ns();
    while (!is_over) {
        ssize_t n = send_some(fd, buffer, length);
        if (n < 0 && errno != EINTR && errno != ENOBUFS) fail("send");
        if (n > 0) bytes += n;
    }
    report(bytes / (int64_t)a->bytes, bytes, now_ns() - began);
}

static void receive_datagrams(const struct arguments *a) {
    int fd = bound(a, SOCK_DGRAM);
    if (is_gso) set(fd, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO");
    size_t length = is_gso ? 65536 : a->bytes;
    char *buffer = buffer_of(length);
    make_headers(buffer, length);
    /* The first datagram is awaited for as long as it takes; then silence ends the run. */
    ssize_t n = recv(fd, buffer, length, 0);
    if (n < 0) fail("recv");
    receive_within(fd, SILENCE_NS);
    int64_t last = now_ns(), ramp_ends = last + a->duration_ns / 20, opened = 0, bytes = 0;
    while ((n = receive_some(fd, buffer, length)) > 0) {
        last = now_ns();
        if (opened != 0) bytes += n;
        else if (last >= ramp_ends) opened = last;
    }
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) fail("recv");
    report(bytes / (int64_t)a->bytes, bytes, opened ? last - opened : 0);
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    is_gso = strcmp(a.word, "gso") == 0;
    is_batch = strcmp(a.word, "mmsg") == 0;
    if (is(&a, "send")) send_datagrams(&a);
    else if (is(&a, "receive")) receive_datagrams(&a);
    else return fprintf(stderr, "no such mode: %s\n", a.mode), 64;
    return 0;
}
