/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A progress thread owns a context and sleeps in parley_wait(). The other threads put what they want sent into a queue and call
 * parley_wake(), the one function that any thread may call. Here the program is connected to itself over 127.0.0.1:
 *
 *     c_progress
 *
 * It ends with 0 when each message of each thread has come back. */
#include <parley/parley.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, MESSAGES = 250, SLOTS = 16, TOTAL = THREADS * MESSAGES };

struct message {
  uint32_t thread, number;
};

/* What threads share: messages that wait to be sent, and how many came back to each thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct message waiting[TOTAL];
static uint32_t queued, taken, came_back[THREADS];

/* What only the progress thread touches after the start. */
static parley_ctx* ctx;
static parley_id client, server;
static int ends_up;
static struct parley_mr mr = PARLEY_MR_INIT;
static struct message slots[2 * SLOTS]; /* what is sent, then what is received */
static int on_the_way;                  /* messages; never more than receives are posted */

static int check(int rc, const char* what) {
  if (rc >= 0) return rc;
  fprintf(stderr, "%s: %s\n", what, parley_last_error());
  exit(1);
}

static struct parley_sge piece(struct message* slot) {
  const struct parley_sge sge = {(uint64_t)(uintptr_t)slot, sizeof *slot, mr.lkey};
  return sge;
}

static void post_recv(uint64_t slot) {
  const struct parley_sge sge = piece(&slots[SLOTS + slot]);
  struct parley_recv_wr wr = PARLEY_RECV_WR_INIT;
  wr.wr_id = slot;
  wr.sges = &sge;
  wr.num_sge = 1;
  check(parley_post_recv(ctx, server, &wr), "parley_post_recv");
}

/* Sends what other threads have queued, as far as there is room. */
static void send_waiting(void) {
  pthread_mutex_lock(&lock);
  while (ends_up == 2 && on_the_way < SLOTS && taken < queued) {
    struct message* slot = &slots[taken % SLOTS];
    *slot = waiting[taken++];
    ++on_the_way;
    const struct parley_sge sge = piece(slot);
    struct parley_send_wr wr = PARLEY_SEND_WR_INIT;
    wr.opcode = PARLEY_SEND;
    wr.sges = &sge;
    wr.num_sge = 1;
    check(parley_post_send(ctx, client, &wr), "parley_post_send");
  }
  pthread_mutex_unlock(&lock);
}

static void complete(const struct parley_wc* wc) {
  if (wc->status != 0) {
    fprintf(stderr, "a request failed: %s\n", parley_wc_status_str(wc->status));
    exit(1);
  }
  if (wc->opcode == PARLEY_WC_SEND) return;
  const struct message got = slots[SLOTS + wc->wr_id];
  post_recv(wc->wr_id);
  --on_the_way;
  pthread_mutex_lock(&lock);
  if (got.number == came_back[got.thread]) ++came_back[got.thread]; /* messages of a thread stay in order */
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static void handle(const struct parley_event* event) {
  if (event->type == PARLEY_EVENT_LISTENING) {
    check(parley_connect(ctx, event->local, NULL, &client), "parley_connect");
  } else if (event->type == PARLEY_EVENT_CONNECT_REQUEST) {
    server = event->id;
    check(parley_create_qp(ctx, server, NULL), "parley_create_qp");
    for (uint64_t slot = 0; slot < SLOTS; ++slot) post_recv(slot);
    check(parley_accept(ctx, server, NULL), "parley_accept");
  } else if (event->type == PARLEY_EVENT_ESTABLISHED) {
    ++ends_up;
  } else {
    fprintf(stderr, "%s: %s\n", parley_event_name(event->type), event->reason);
    exit(1);
  }
}

static int all_came_back(void) {
  pthread_mutex_lock(&lock);
  uint32_t sum = 0;
  for (int i = 0; i < THREADS; ++i) sum += came_back[i];
  pthread_mutex_unlock(&lock);
  return sum == TOTAL;
}

static void* progress(void* unused) {
  (void)unused;
  struct parley_event event = PARLEY_EVENT_INIT;
  struct parley_wc wc[SLOTS];
  while (!all_came_back()) {
    send_waiting();
    check(parley_wait(ctx, -1),
          "parley_wait"); /* sleeps until something arrives, or another thread calls parley_wake() */
    int n;
    while ((n = check(parley_poll_cq(ctx, 0, wc, SLOTS, sizeof wc[0]), "parley_poll_cq")) > 0)
      for (int i = 0; i < n; ++i) complete(&wc[i]);
    while (parley_next_event(ctx, &event) == 1) handle(&event);
  }
  return NULL;
}

/* One of the program's own threads: queues its messages and waits until all have come back. */
static void* work(void* number) {
  const uint32_t thread = (uint32_t)(uintptr_t)number;
  for (uint32_t i = 0; i < MESSAGES; ++i) {
    pthread_mutex_lock(&lock);
    waiting[queued++] = (struct message){thread, i};
    pthread_mutex_unlock(&lock);
    check(parley_wake(ctx), "parley_wake");
  }
  pthread_mutex_lock(&lock);
  while (came_back[thread] < MESSAGES) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
  return NULL;
}

int main(void) {
  pthread_t driver, workers[THREADS];
  parley_id listener;
  struct parley_opts opts = PARLEY_OPTS_INIT;
  opts.provider = "iwarp";
  check(parley_open(&ctx, &opts), "parley_open");
  check(parley_reg_mr(ctx, slots, sizeof slots, PARLEY_ACCESS_LOCAL_WRITE, &mr), "parley_reg_mr");
  check(parley_listen(ctx, "127.0.0.1:0", NULL, &listener), "parley_listen");
  pthread_create(&driver, NULL, progress, NULL);
  for (uintptr_t i = 0; i < THREADS; ++i) pthread_create(&workers[i], NULL, work, (void*)i);
  for (int i = 0; i < THREADS; ++i) pthread_join(workers[i], NULL);
  pthread_join(driver, NULL);
  check(parley_close(ctx), "parley_close");
  printf("%d threads sent %d messages each through one progress thread; all came back in order\n", THREADS, MESSAGES);
  return 0;
}
