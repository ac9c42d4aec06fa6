/* A flat layer over MPI: libraries differ in the types of their handles (pointers in Open MPI, integers in MPICH), so
 * handles stay here, and Rust sees only integers and addresses. `sys.rs` declares these functions. Each returns an error
 * code of MPI, 0 for success. The process has one thread. */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Datatypes, in the order of `Datatype` in sys.rs. */
static MPI_Datatype type_of(int type) {
    switch (type) {
    case 0: return MPI_BYTE;
    case 1: return MPI_UINT8_T;
    case 2: return MPI_INT32_T;
    case 3: return MPI_FLOAT;
    default: return MPI_DOUBLE;
    }
}

/* Collective operations, in the order of `Collective` in sys.rs. */
enum {
    BARRIER, BCAST, REDUCE, ALLREDUCE, REDUCE_SCATTER, REDUCE_SCATTER_BLOCK, GATHER, GATHERV, SCATTER, SCATTERV,
    ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV
};

static const int TAG = 7;

/* The world, and the group of ranks that runs a benchmark. */
static MPI_Comm world = MPI_COMM_NULL, group = MPI_COMM_NULL;
static int group_ranks = 0;

/* Counts and displacements of the vector variants: `count` elements for each rank. */
static int *counts = NULL, *places = NULL, vector_count = -1;

static MPI_Win window = MPI_WIN_NULL;
static void *window_memory = NULL;
static MPI_Request pending = MPI_REQUEST_NULL;
static MPI_Request *requests = NULL;
static int requests_len = 0;

/* Ends the job if an operation fails while others are pending: MPI could still write to buffers that the caller frees. */
static int ended(int code) {
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length;
    if (code == 0) return 0;
    MPI_Error_string(code, text, &length);
    fprintf(stderr, "fabricmark-mpi: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 67);
    return code;
}

static MPI_Comm comm_of(int is_group) { return is_group ? group : world; }

/* Without threads: with MPI_THREAD_FUNNELED, Open MPI 4.1 takes locks, and a message of 8 bytes in shared memory takes 150
 * instead of 100 ns. */
int fm_init(int *rank, int *ranks) {
    int code;
    if ((code = MPI_Init(NULL, NULL)) != 0) return code;
    world = MPI_COMM_WORLD;
    if ((code = MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN)) != 0) return code;
    if ((code = MPI_Comm_rank(world, rank)) != 0) return code;
    return MPI_Comm_size(world, ranks);
}

int fm_finalize(void) { return MPI_Finalize(); }

void fm_abort(int code) { MPI_Abort(MPI_COMM_WORLD, code); }

/* `text` has room for MPI_MAX_LIBRARY_VERSION_STRING or more; `room` says how many bytes. */
int fm_library(char *text, int room, int *major, int *minor) {
    char long_text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, code;
    if ((code = MPI_Get_library_version(long_text, &length)) != 0) return code;
    int i;
    for (i = 0; i < length && i < room - 1; i++) text[i] = long_text[i];
    text[i] = 0;
    return MPI_Get_version(major, minor);
}

void fm_error(int error, char *text, int room) {
    char long_text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    if (MPI_Error_string(error, long_text, &length) != 0) length = 0;
    int i;
    for (i = 0; i < length && i < room - 1; i++) text[i] = long_text[i];
    text[i] = 0;
}

/* Makes the first `ranks` ranks of the world the group. Collective over the world. */
int fm_group(int ranks) {
    int rank, code;
    if (group != MPI_COMM_NULL && (code = MPI_Comm_free(&group)) != 0) return code;
    if ((code = MPI_Comm_rank(world, &rank)) != 0) return code;
    if ((code = MPI_Comm_split(world, rank < ranks ? 0 : MPI_UNDEFINED, rank, &group)) != 0) return code;
    if (group != MPI_COMM_NULL && (code = MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN)) != 0) return code;
    free(counts); free(places);
    group_ranks = ranks;
    counts = calloc(ranks, sizeof(int));
    places = calloc(ranks, sizeof(int));
    if (!counts || !places) return MPI_ERR_NO_MEM;
    vector_count = -1;
    return 0;
}

int fm_send(const void *data, int count, int type, int to) {
    return MPI_Send(data, count, type_of(type), to, TAG, group);
}

int fm_receive(void *data, int count, int type, int from) {
    return MPI_Recv(data, count, type_of(type), from, TAG, group, MPI_STATUS_IGNORE);
}

int fm_sendrecv(const void *sent, void *received, int count, int type, int to, int from) {
    return MPI_Sendrecv(sent, count, type_of(type), to, TAG, received, count, type_of(type), from, TAG, group,
                        MPI_STATUS_IGNORE);
}

/* IMB's PingPing: MPI_Isend, MPI_Recv, MPI_Wait. */
int fm_ping_ping(const void *sent, void *received, int count, int type, int peer) {
    MPI_Request request;
    int code;
    if ((code = MPI_Isend(sent, count, type_of(type), peer, TAG, group, &request)) != 0) return code;
    code = MPI_Recv(received, count, type_of(type), peer, TAG, group, MPI_STATUS_IGNORE);
    return ended(code != 0 ? code : MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* IMB's Exchange: MPI_Isend to both neighbours, MPI_Recv from both, MPI_Waitall. `received_left` and `received_right`
 * have `count` elements each. */
int fm_exchange(const void *sent, void *received_left, void *received_right, int count, int type, int left, int right) {
    MPI_Request both[2];
    int code;
    /* Tags tell the two messages apart if both neighbours are the same rank. */
    if ((code = MPI_Isend(sent, count, type_of(type), right, TAG, group, &both[0])) != 0) return code;
    if ((code = MPI_Isend(sent, count, type_of(type), left, TAG + 1, group, &both[1])) != 0) return ended(code);
    if ((code = MPI_Recv(received_left, count, type_of(type), left, TAG, group, MPI_STATUS_IGNORE)) != 0)
        return ended(code);
    if ((code = MPI_Recv(received_right, count, type_of(type), right, TAG + 1, group, MPI_STATUS_IGNORE)) != 0)
        return ended(code);
    return ended(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
}

/* `messages` payloads to a peer, from it, or both, at once, receives first. Received payloads overwrite each other, as in
 * IMB. */
int fm_burst(const void *sent, void *received, int count, int type, int peer, int messages, int sends, int receives) {
    int code, used = 0, needed = 2 * messages;
    if (requests_len < needed) {
        MPI_Request *larger = realloc(requests, needed * sizeof(MPI_Request));
        if (!larger) return MPI_ERR_NO_MEM;
        requests = larger;
        requests_len = needed;
    }
    for (int i = 0; receives && i < messages; i++)
        if ((code = MPI_Irecv(received, count, type_of(type), peer, TAG, group, &requests[used++])) != 0)
            return ended(code);
    for (int i = 0; sends && i < messages; i++)
        if ((code = MPI_Isend(sent, count, type_of(type), peer, TAG, group, &requests[used++])) != 0)
            return ended(code);
    return ended(MPI_Waitall(used, requests, MPI_STATUSES_IGNORE));
}

static void fill(int count) {
    if (vector_count == count) return;
    for (int i = 0; i < group_ranks; i++) {
        counts[i] = count;
        places[i] = i * count;
    }
    vector_count = count;
}

/* A collective operation over the group, or over the world. `count` is that of one payload. */
int fm_collective(int operation, const void *sent, void *received, int count, int type, int root, int in_place,
                  int is_group) {
    MPI_Comm comm = comm_of(is_group);
    MPI_Datatype t = type_of(type);
    int rank = -1;
    if (in_place) MPI_Comm_rank(comm, &rank);
    const void *s = in_place ? MPI_IN_PLACE : sent;
    int is_root_in_place = in_place && rank == root;
    switch (operation) {
    case BARRIER: return MPI_Barrier(comm);
    case BCAST: return MPI_Bcast(received, count, t, root, comm);
    case REDUCE: return MPI_Reduce(is_root_in_place ? MPI_IN_PLACE : sent, received, count, t, MPI_SUM, root, comm);
    case ALLREDUCE: return MPI_Allreduce(s, received, count, t, MPI_SUM, comm);
    case REDUCE_SCATTER: fill(count); return MPI_Reduce_scatter(s, received, counts, t, MPI_SUM, comm);
    case REDUCE_SCATTER_BLOCK: return MPI_Reduce_scatter_block(s, received, count, t, MPI_SUM, comm);
    case GATHER:
        return MPI_Gather(is_root_in_place ? MPI_IN_PLACE : sent, count, t, received, count, t, root, comm);
    case GATHERV:
        fill(count);
        return MPI_Gatherv(is_root_in_place ? MPI_IN_PLACE : sent, count, t, received, counts, places, t, root, comm);
    case SCATTER:
        return MPI_Scatter(sent, count, t, is_root_in_place ? MPI_IN_PLACE : received, count, t, root, comm);
    case SCATTERV:
        fill(count);
        return MPI_Scatterv(sent, counts, places, t, is_root_in_place ? MPI_IN_PLACE : received, count, t, root, comm);
    case ALLGATHER: return MPI_Allgather(s, count, t, received, count, t, comm);
    case ALLGATHERV: fill(count); return MPI_Allgatherv(s, count, t, received, counts, places, t, comm);
    case ALLTOALL: return MPI_Alltoall(s, count, t, received, count, t, comm);
    case ALLTOALLV:
        fill(count);
        return MPI_Alltoallv(s, counts, places, t, received, counts, places, t, comm);
    default: return MPI_ERR_ARG;
    }
}

/* Starts a collective operation over the group. fm_wait must follow before any other call of this function. */
int fm_start(int operation, const void *sent, void *received, int count, int type, int root, int in_place) {
    MPI_Datatype t = type_of(type);
    int rank = -1;
    if (in_place) MPI_Comm_rank(group, &rank);
    const void *s = in_place ? MPI_IN_PLACE : sent;
    int is_root_in_place = in_place && rank == root;
    const void *own = is_root_in_place ? MPI_IN_PLACE : sent;
    switch (operation) {
    case BARRIER: return MPI_Ibarrier(group, &pending);
    case BCAST: return MPI_Ibcast(received, count, t, root, group, &pending);
    case REDUCE: return MPI_Ireduce(own, received, count, t, MPI_SUM, root, group, &pending);
    case ALLREDUCE: return MPI_Iallreduce(s, received, count, t, MPI_SUM, group, &pending);
    case REDUCE_SCATTER: fill(count); return MPI_Ireduce_scatter(s, received, counts, t, MPI_SUM, group, &pending);
    case REDUCE_SCATTER_BLOCK: return MPI_Ireduce_scatter_block(s, received, count, t, MPI_SUM, group, &pending);
    case GATHER: return MPI_Igather(own, count, t, received, count, t, root, group, &pending);
    case GATHERV: fill(count); return MPI_Igatherv(own, count, t, received, counts, places, t, root, group, &pending);
    case SCATTER:
        return MPI_Iscatter(sent, count, t, is_root_in_place ? MPI_IN_PLACE : received, count, t, root, group, &pending);
    case SCATTERV:
        fill(count);
        return MPI_Iscatterv(sent, counts, places, t, is_root_in_place ? MPI_IN_PLACE : received, count, t, root, group,
                             &pending);
    case ALLGATHER: return MPI_Iallgather(s, count, t, received, count, t, group, &pending);
    case ALLGATHERV: fill(count); return MPI_Iallgatherv(s, count, t, received, counts, places, t, group, &pending);
    case ALLTOALL: return MPI_Ialltoall(s, count, t, received, count, t, group, &pending);
    case ALLTOALLV:
        fill(count);
        return MPI_Ialltoallv(s, counts, places, t, received, counts, places, t, group, &pending);
    default: return MPI_ERR_ARG;
    }
}

int fm_wait(void) { return MPI_Wait(&pending, MPI_STATUS_IGNORE); }

/* Opens a window of `bytes` bytes, set to 0, at each rank of the group, to which all ranks have access until it is
 * closed. `memory` is set to that of this rank. Not by MPI_Win_allocate: with MPICH 4.0.2 (Debian 12) between two ranks of
 * a host, MPI_Put into such a window has not arrived after MPI_Win_flush and a barrier. */
int fm_window_open(int64_t bytes, void **memory) {
    int code;
    if (posix_memalign(&window_memory, 4096, (size_t)bytes) != 0) return MPI_ERR_NO_MEM;
    memset(window_memory, 0, (size_t)bytes);
    *memory = window_memory;
    if ((code = MPI_Win_create(window_memory, (MPI_Aint)bytes, 1, MPI_INFO_NULL, group, &window)) != 0) return code;
    if ((code = MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN)) != 0) return code;
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
}

int fm_window_close(void) {
    int code;
    if ((code = MPI_Win_unlock_all(window)) != 0) return code;
    if ((code = MPI_Win_free(&window)) != 0) return code;
    free(window_memory);
    window_memory = NULL;
    return 0;
}

/* Makes writes of other ranks to this rank's memory visible to it, and the reverse. */
int fm_window_sync(void) { return MPI_Win_sync(window); }

/* Operations of one-sided communication at the start of a rank's window; they are complete at both ends. */
int fm_put(const void *data, int count, int type, int to) {
    int code = MPI_Put(data, count, type_of(type), to, 0, count, type_of(type), window);
    return code != 0 ? code : MPI_Win_flush(to, window);
}

int fm_get(void *data, int count, int type, int from) {
    int code = MPI_Get(data, count, type_of(type), from, 0, count, type_of(type), window);
    return code != 0 ? code : MPI_Win_flush(from, window);
}

int fm_accumulate(const void *data, int count, int type, int to) {
    int code = MPI_Accumulate(data, count, type_of(type), to, 0, count, type_of(type), MPI_SUM, window);
    return code != 0 ? code : MPI_Win_flush(to, window);
}
