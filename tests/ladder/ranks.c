/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* An MPI program for the ladder: messages around a ring, an all-to-all and one-sided accesses, with every octet checked. Rank 0 prints
 * "N ranks: ring, all-to-all, RMA: ok". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { largest = 1 << 20 };

static int rank, ranks;

static void fail(const char* what) {
  fprintf(stderr, "rank %d: %s: wrong octets\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void fill(unsigned char* octets, int n, int seed) {
  for (int i = 0; i < n; ++i) octets[i] = (unsigned char)(seed * 31 + i * 7);
}

static void check(const unsigned char* octets, int n, int seed, const char* what) {
  for (int i = 0; i < n; ++i)
    if (octets[i] != (unsigned char)(seed * 31 + i * 7)) fail(what);
}

static void ring(void) {
  unsigned char *out = malloc(largest), *in = malloc(largest);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (int n = 1; n <= largest; n *= 16) {
    fill(out, n, rank + n);
    memset(in, 0, (size_t)n);
    MPI_Sendrecv(out, n, MPI_BYTE, next, 1, in, n, MPI_BYTE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(in, n, previous + n, "ring");
  }
  free(out);
  free(in);
}

static void all_to_all(void) {
  enum { part = 4096 };
  unsigned char *out = malloc((size_t)ranks * part), *in = malloc((size_t)ranks * part);
  for (int i = 0; i < ranks; ++i) fill(out + i * part, part, rank * 64 + i);
  MPI_Alltoall(out, part, MPI_BYTE, in, part, MPI_BYTE, MPI_COMM_WORLD);
  for (int i = 0; i < ranks; ++i) check(in + i * part, part, i * 64 + rank, "all-to-all");
  free(out);
  free(in);
}

static void one_sided(void) {
  enum { part = 65536 };
  unsigned char *shared = NULL, *out = malloc(part), *in = malloc(part);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  MPI_Win window;
  MPI_Win_allocate(part, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
  fill(out, part, rank);
  MPI_Win_fence(0, window);
  MPI_Put(out, part, MPI_BYTE, next, 0, part, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(shared, part, previous, "put");
  MPI_Get(in, part, MPI_BYTE, next, 0, part, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  check(in, part, rank, "get");
  MPI_Win_free(&window);
  free(out);
  free(in);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ring();
  all_to_all();
  one_sided();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: ring, all-to-all, RMA: ok\n", ranks);
  MPI_Finalize();
  return 0;
}
