/* A bare loop of MPI operations, without anything between them: mpi PATTERN BYTES SECONDS. Prints nanoseconds per
 * operation (of PingPong half the round trip) as the longest over the ranks. Buffers stay the same. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *sent, *received;
static int bytes, rank, ranks;

static void ping_pong(long count) {
    for (long i = 0; i < count; i++) {
        if (rank == 0) {
            MPI_Send(sent, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(received, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(received, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(sent, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
    }
}

static void allreduce(long count) {
    for (long i = 0; i < count; i++)
        MPI_Allreduce(sent, received, bytes / (int)sizeof(float), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(long count) {
    for (long i = 0; i < count; i++)
        MPI_Alltoall(sent, bytes, MPI_BYTE, received, bytes, MPI_BYTE, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) return 64;
    bytes = atoi(argv[2]);
    double seconds = atof(argv[3]);
    void (*run)(long) = strcmp(argv[1], "PingPong") == 0 ? ping_pong
                        : strcmp(argv[1], "Allreduce") == 0 ? allreduce : alltoall;
    size_t room = (size_t)bytes * ranks + 64;
    if (posix_memalign((void **)&sent, 4096, room) || posix_memalign((void **)&received, 4096, room)) return 67;
    memset(sent, 0, room);
    memset(received, 0, room);
    double took = 0, longest;
    long count = 1;
    for (;;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        run(count);
        took = MPI_Wtime() - start;
        MPI_Allreduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (longest > seconds / 2) break;
        double grown = count * (seconds / longest) * 0.9;
        count = grown < 10.0 * count ? (long)grown + 1 : 10 * count;
    }
    if (rank == 0) printf("%.3f\n", longest / count * 1e9 / (run == ping_pong ? 2 : 1));
    MPI_Finalize();
    return 0;
}
