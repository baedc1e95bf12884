/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A client and a server in C, over libparley.so.
 *
 *   c_echo                        both, in this process: the server is a child
 *   c_echo server ADDRESS         echoes what each client sends, until it is interrupted
 *   c_echo client ADDRESS TEXT    sends TEXT and prints what comes back
 *
 * ADDRESS is 127.0.0.1:7471 or [::1]:7471. The server waits in poll(2), on one descriptor; the client in parley_wait(). */
#include <parley/parley.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE_MAX = 1024 };

/* One connection, and its memory: a message in, a message out. */
struct connection {
  char in[MESSAGE_MAX], out[MESSAGE_MAX];
  struct parley_mr mr;
  parley_id id;
};

static int check(int rc, const char* what) {
  if (rc >= 0) return rc;
  fprintf(stderr, "c_echo: %s: %s: %s\n", what, parley_strerror(rc), parley_last_error());
  exit(1);
}

static void check_event(const struct parley_event* event) {
  if (event->status == 0) return;
  fprintf(stderr, "c_echo: %s: %s\n", parley_event_name(event->type), event->reason);
  exit(1);
}

static struct connection* make_connection(parley_ctx* ctx) {
  struct connection* c = calloc(1, sizeof *c);
  if (c == NULL) exit(1);
  check(parley_reg_mr(ctx, c->in, sizeof c->in + sizeof c->out, PARLEY_ACCESS_LOCAL_WRITE, &c->mr), "reg_mr");
  return c;
}

static void destroy_connection(parley_ctx* ctx, struct connection* c) {
  check(parley_destroy(ctx, c->id), "destroy");
  check(parley_dereg_mr(ctx, c->mr.lkey), "dereg_mr");
  free(c);
}

static void post_receive(parley_ctx* ctx, struct connection* c) {
  const struct parley_sge sge = {c->mr.addr, MESSAGE_MAX, c->mr.lkey};
  const struct parley_recv_wr wr = {.wr_id = (uintptr_t)c, .sges = &sge, .num_sge = 1};
  check(parley_post_recv(ctx, c->id, &wr), "post_recv");
}

static void post_message(parley_ctx* ctx, struct connection* c, const char* text, uint32_t length) {
  const struct parley_sge sge = {c->mr.addr + MESSAGE_MAX, length, c->mr.lkey};
  const struct parley_send_wr wr = {.wr_id = (uintptr_t)c, .opcode = PARLEY_SEND, .sges = &sge, .num_sge = 1};
  memcpy(c->out, text, length);
  check(parley_post_send(ctx, c->id, &wr), "post_send");
}

/* ---- server */

/* All connections share the context's own completion queue; wr_id says whose a completion is. What is flushed at the end of
 * a connection may be told after it is gone, so its wr_id is not looked at. */
static void echo_all(parley_ctx* ctx) {
  struct parley_wc wc;
  while (check(parley_poll_cq(ctx, 0, &wc, 1), "poll_cq") == 1) {
    struct connection* c = (struct connection*)(uintptr_t)wc.wr_id;
    if (wc.status != 0 || wc.opcode != PARLEY_WC_RECV) continue;
    post_message(ctx, c, c->in, wc.byte_len);
    post_receive(ctx, c);
  }
}

static void serve_event(parley_ctx* ctx, const struct parley_event* event, int tell) {
  struct connection* c = event->user;
  switch (event->type) {
    case PARLEY_EVENT_LISTENING: {
      char line[PARLEY_ADDRSTRLEN + 1];
      snprintf(line, sizeof line, "%s\n", event->local);
      if (write(tell, line, strlen(line)) < 0) exit(1);
      break;
    }
    case PARLEY_EVENT_CONNECT_REQUEST: {
      struct parley_accept_opts opts = PARLEY_ACCEPT_OPTS_INIT;
      c = make_connection(ctx);
      c->id = event->id;
      check(parley_create_qp(ctx, c->id, NULL), "create_qp");
      post_receive(ctx, c); /* before the peer may send */
      opts.user = c;
      check(parley_accept(ctx, c->id, &opts), "accept");
      break;
    }
    case PARLEY_EVENT_CONNECT_FAILED:
      if (c == NULL) check_event(event); /* the listener's */
      fprintf(stderr, "c_echo: %s\n", event->reason);
      destroy_connection(ctx, c);
      break;
    case PARLEY_EVENT_DISCONNECTED: destroy_connection(ctx, c); break;
    default: break;
  }
}

static int serve(const char* address, int tell) {
  parley_ctx* ctx = NULL;
  parley_id listener = 0;
  check(parley_open(&ctx, NULL), "open");
  check(parley_listen(ctx, address, NULL, &listener), "listen");
  for (;;) {
    struct pollfd wait = {.fd = check(parley_fd(ctx), "fd"), .events = POLLIN};
    struct parley_event event = PARLEY_EVENT_INIT;
    if (poll(&wait, 1, -1) < 0) return 1;
    check(parley_progress(ctx), "progress");
    echo_all(ctx); /* before the events, which may end connections */
    while (check(parley_next_event(ctx, &event), "next_event") == 1) serve_event(ctx, &event, tell);
  }
}

/* ---- client */

static void await_event(parley_ctx* ctx, uint32_t type, struct parley_event* event) {
  do {
    while (check(parley_next_event(ctx, event), "next_event") == 0) check(parley_wait(ctx, -1), "wait");
    check_event(event);
  } while (event->type != type);
}

static int ask(const char* address, const char* text) {
  struct parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  struct parley_event event = PARLEY_EVENT_INIT;
  struct parley_wc wc = {0};
  struct connection* c;
  parley_ctx* ctx = NULL;
  check(parley_open(&ctx, NULL), "open");
  c = make_connection(ctx);
  opts.retry_rounds = 5; /* the server may still be starting */
  check(parley_connect(ctx, address, &opts, &c->id), "connect");
  post_receive(ctx, c);
  await_event(ctx, PARLEY_EVENT_ESTABLISHED, &event);
  printf("connected to %s in %.3f ms: MPA revision %u, IRD %u, ORD %u\n", event.peer,
         (double)event.established_ns / 1e6, event.mpa_revision, event.ird, event.ord);
  post_message(ctx, c, text, (uint32_t)strnlen(text, MESSAGE_MAX));
  do {
    while (check(parley_poll_cq(ctx, 0, &wc, 1), "poll_cq") == 0) check(parley_wait(ctx, -1), "wait");
    if (wc.status != 0) {
      fprintf(stderr, "c_echo: %s\n", parley_wc_status_str(wc.status));
      return 1;
    }
  } while (wc.opcode != PARLEY_WC_RECV);
  printf("echoed: %.*s\n", (int)wc.byte_len, c->in);
  check(parley_disconnect(ctx, c->id), "disconnect");
  await_event(ctx, PARLEY_EVENT_DISCONNECTED, &event);
  return check(parley_close(ctx), "close");
}

static int both(void) {
  char address[PARLEY_ADDRSTRLEN] = {0};
  int tell[2];
  pid_t server;
  int rc;
  if (pipe(tell) != 0 || (server = fork()) < 0) return 1;
  if (server == 0) return serve("127.0.0.1:0", tell[1]);
  if (read(tell[0], address, sizeof address - 1) <= 0) return 1;
  address[strcspn(address, "\n")] = '\0';
  rc = ask(address, "hello from C");
  kill(server, SIGTERM);
  waitpid(server, NULL, 0);
  return rc;
}

int main(int argc, char** argv) {
  if (argc == 1) return both();
  if (argc == 3 && strcmp(argv[1], "server") == 0) return serve(argv[2], STDOUT_FILENO);
  if (argc == 4 && strcmp(argv[1], "client") == 0) return ask(argv[2], argv[3]);
  fprintf(stderr, "usage: c_echo [server ADDRESS | client ADDRESS TEXT]\n");
  return 2;
}
