/* Departures at a fixed rate: sleeps until each with clock_nanosleep, sends a datagram to whom it may
 * concern, and prints by how much departures came too late. The word is the rate per second. */
#include "common.h"
#include <sys/prctl.h>

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    struct arguments a = arguments(count, words);
    double rate = strtod(a.word, NULL);
    if (!(rate > 0)) return fprintf(stderr, "no rate: %s\n", a.word), 64;
    /* The shortest timer slack that there is: a bound on what sleeping can do (prctl(2)). */
    if (prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) != 0) fail("PR_SET_TIMERSLACK");
    int fd = connected(&a, SOCK_DGRAM);
    char *buffer = buffer_of(a.bytes);
    size_t departures = (size_t)((double)a.duration_ns / 1e9 * rate);
    uint32_t *slips = buffer_of(departures * sizeof *slips);
    int64_t began = now_ns() + 1000000;
    for (size_t i = 0; i < departures; i++) {
        int64_t due = began + (int64_t)((double)i * 1e9 / rate);
        int64_t now = now_ns();
        if (now < due) {
            struct timespec at = {.tv_sec = due / 1000000000, .tv_nsec = due % 1000000000};
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {}
            now = now_ns();
        }
        int64_t slip = now - due;
        slips[i] = slip > UINT32_MAX ? UINT32_MAX : (uint32_t)slip;
        if (send(fd, buffer, a.bytes, 0) < 0 && errno != ECONNREFUSED && errno != ENOBUFS)
            fail("send");
    }
    if (departures == 0) return fprintf(stderr, "no departure within the time\n"), 64;
    qsort(slips, departures, sizeof *slips, by_size);
    printf("{\"count\": %zu, \"p50_ns\": %u, \"p99_ns\": %u}\n", departures,
           slips[departures / 2], slips[departures * 99 / 100]);
    return 0;
}
