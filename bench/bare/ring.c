/* As many.c, by one io_uring for all connections: multishot receives into provided buffers, and sends in batches. It
 * needs liburing and is not part of `make bench`: cc -O2 -o ring ring.c -luring */
#include "common.h"
#include <liburing.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { BUFFERS = 16384, ENTRIES = 8192, COMPLETIONS = 65536, EVENTS = 256 };

/* user_data of a send, which completes only if it fails. */
#define SENT (1ull << 40)

static struct io_uring ring;
static struct io_uring_buf_ring *buffers;
static char *room, *payload;
static size_t bytes;

static int done(int result, const char *doing) {
    if (result < 0) {
        errno = -result;
        fail(doing);
    }
    return result;
}

static int count_of(const struct arguments *a) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) fail("getrlimit");
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) fail("setrlimit");
    return atoi(a->word);
}

static void give(int buffer, int place) {
    io_uring_buf_ring_add(buffers, room + buffer * bytes, bytes, buffer, BUFFERS - 1, place);
}

static void begin(int flows, const struct arguments *a) {
    bytes = a->bytes;
    payload = buffer_of(bytes);
    room = buffer_of(BUFFERS * bytes);
    struct io_uring_params how = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        .cq_entries = COMPLETIONS,
    };
    done(io_uring_queue_init_params(ENTRIES, &ring, &how), "io_uring_setup");
    done(io_uring_register_files_sparse(&ring, flows), "register files");
    size_t size = BUFFERS * sizeof(struct io_uring_buf);
    buffers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffers == MAP_FAILED) fail("mmap");
    struct io_uring_buf_reg shared = {.ring_addr = (uintptr_t)buffers, .ring_entries = BUFFERS};
    done(io_uring_register_buf_ring(&ring, &shared, 0), "register buffers");
    io_uring_buf_ring_init(buffers);
    for (int i = 0; i < BUFFERS; i++) give(i, i);
    io_uring_buf_ring_advance(buffers, BUFFERS);
}

static struct io_uring_sqe *next(void) {
    struct io_uring_sqe *entry = io_uring_get_sqe(&ring);
    if (entry) return entry;
    done(io_uring_submit(&ring), "io_uring_enter");
    return io_uring_get_sqe(&ring);
}

static void receive(int flow) {
    struct io_uring_sqe *entry = next();
    io_uring_prep_recv_multishot(entry, flow, NULL, 0, 0);
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
    io_uring_sqe_set_data64(entry, flow);
}

static void send_to(int flow) {
    struct io_uring_sqe *entry = next();
    io_uring_prep_send(entry, flow, payload, bytes, 0);
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(entry, SENT);
}

static void open_flow(int flow, int fd) {
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
    if (done(io_uring_register_files_update(&ring, flow, &fd, 1), "register a file") != 1) fail("register");
    receive(flow);
}

/* Waits for arrivals and sends a payload for each; returns their number, or -1 after the end of a connection. */
static int64_t turn(void) {
    int result = io_uring_submit_and_wait(&ring, 1);
    if (result != -EINTR) done(result, "io_uring_enter");
    struct io_uring_cqe *event;
    unsigned head, seen = 0;
    int given = 0;
    int64_t count = 0;
    io_uring_for_each_cqe(&ring, head, event) {
        seen++;
        if (event->user_data >= SENT) continue;
        int flow = (int)event->user_data;
        if (event->res == -ENOBUFS) {
            receive(flow);
            continue;
        }
        if (event->res <= 0) return -1;
        give(event->flags >> IORING_CQE_BUFFER_SHIFT, given++);
        if (!(event->flags & IORING_CQE_F_MORE)) receive(flow);
        send_to(flow);
        count++;
        if (seen == EVENTS) break;
    }
    io_uring_cq_advance(&ring, seen);
    io_uring_buf_ring_advance(buffers, given);
    return count;
}

static void ask(const struct arguments *a, int flows) {
    for (int i = 0; i < flows; i++) open_flow(i, connected(a, SOCK_STREAM));
    int64_t count = 0, began = now_ns();
    end_after(a->duration_ns);
    for (int i = 0; i < flows; i++) send_to(i);
    while (!is_over) {
        int64_t more = turn();
        if (more < 0) fail("recv");
        count += more;
    }
    report(count, count * (int64_t)bytes, now_ns() - began);
}

static void answer(const struct arguments *a, int flows) {
    int listener = bound(a, SOCK_STREAM);
    for (int i = 0; i < flows; i++) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) fail("accept");
        open_flow(i, fd);
    }
    while (turn() >= 0) {}
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    int flows = count_of(&a);
    begin(flows, &a);
    if (is(&a, "ask")) ask(&a, flows);
    else if (is(&a, "answer")) answer(&a, flows);
    else return fprintf(stderr, "no such mode: %s\n", a.mode), 64;
    return 0;
}
