/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A client and a server in C, over libparley.so.
 *
 *   c_echo                        both, in this process: the server is a child
 *   c_echo server ADDRESS         echoes what each client sends, until it is interrupted
 *   c_echo client ADDRESS TEXT    sends TEXT and prints what comes back
 *
 * ADDRESS is 127.0.0.1:7471 or [::1]:7471. The server waits in poll(2), on one descriptor; the client in parley_wait(). */
#include <errno.h>
#include <parley/parley.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGE_MAX = 1024, MESSAGES = 4 };

/* One connection, and its memory. The server receives into each message and sends it back from there. */
struct connection {
  struct message {
    struct connection* of;
    char text[MESSAGE_MAX];
  } messages[MESSAGES];
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

/* Null: there is no room for another. */
static struct connection* make_connection(parley_ctx* ctx) {
  struct connection* c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  c->mr.size = sizeof c->mr;
  for (int i = 0; i < MESSAGES; ++i) c->messages[i].of = c;
  if (parley_reg_mr(ctx, c->messages, sizeof c->messages, PARLEY_ACCESS_LOCAL_WRITE, &c->mr) == 0) return c;
  free(c);
  return NULL;
}

static void destroy_connection(parley_ctx* ctx, struct connection* c) {
  check(parley_destroy(ctx, c->id), "destroy");
  check(parley_dereg_mr(ctx, c->mr.lkey), "dereg_mr");
  free(c);
}

static struct parley_sge piece(const struct message* m, uint32_t length) {
  const uint64_t offset = (uint64_t)(m->text - (const char*)m->of->messages);
  const struct parley_sge sge = {m->of->mr.addr + offset, length, m->of->mr.lkey};
  return sge;
}

static int post_receive(parley_ctx* ctx, struct message* m) {
  const struct parley_sge sge = piece(m, MESSAGE_MAX);
  const struct parley_recv_wr wr = {.size = sizeof wr, .wr_id = (uintptr_t)m, .sges = &sge, .num_sge = 1};
  return parley_post_recv(ctx, m->of->id, &wr);
}

static int post_message(parley_ctx* ctx, struct message* m, uint32_t length) {
  const struct parley_sge sge = piece(m, length);
  const struct parley_send_wr wr = {
      .size = sizeof wr, .opcode = PARLEY_SEND, .wr_id = (uintptr_t)m, .sges = &sge, .num_sge = 1};
  return parley_post_send(ctx, m->of->id, &wr);
}

/* ---- server */

/* All connections share the context's own completion queue; wr_id says whose a completion is. What is flushed at the end of
 * a connection may be told after it is gone, so its wr_id is not looked at. A connection that has ended meanwhile takes no
 * more work; its event says why. */
static void echo_all(parley_ctx* ctx) {
  struct parley_wc wc;
  while (check(parley_poll_cq(ctx, 0, &wc, 1, sizeof wc), "poll_cq") == 1) {
    struct message* m = (struct message*)(uintptr_t)wc.wr_id;
    int rc;
    if (wc.status != 0) continue;
    rc = wc.opcode == PARLEY_WC_RECV ? post_message(ctx, m, wc.byte_len) : post_receive(ctx, m);
    if (rc != -PARLEY_E_WRONG_STATE) check(rc, "post");
  }
}

/* Whatever one client does, or there is no room for, the server goes on for the others. */
static void serve_request(parley_ctx* ctx, const struct parley_event* event) {
  struct parley_accept_opts opts = PARLEY_ACCEPT_OPTS_INIT;
  struct connection* c = make_connection(ctx);
  int rc = -PARLEY_E_NO_SPACE;
  if (c != NULL) {
    c->id = event->id;
    opts.user = c;
    rc = parley_create_qp(ctx, c->id, NULL);
    for (int i = 0; i < MESSAGES && rc == 0; ++i)
      rc = post_receive(ctx, &c->messages[i]); /* before the peer may send */
    if (rc == 0) rc = parley_accept(ctx, c->id, &opts);
  }
  if (rc == 0) return;
  fprintf(stderr, "c_echo: %s is not served: %s\n", event->peer, parley_strerror(rc));
  parley_reject(ctx, event->id, NULL, 0); /* unless it has gone away by itself */
  if (c != NULL)
    destroy_connection(ctx, c);
  else
    check(parley_destroy(ctx, event->id), "destroy");
}

static void serve_event(parley_ctx* ctx, parley_id listener, const struct parley_event* event, int tell) {
  struct connection* c = event->user;
  switch (event->type) {
    case PARLEY_EVENT_LISTENING: {
      char line[PARLEY_ADDRSTRLEN + 1];
      snprintf(line, sizeof line, "%s\n", event->local);
      if (write(tell, line, strlen(line)) < 0) exit(1);
      break;
    }
    case PARLEY_EVENT_CONNECT_REQUEST: serve_request(ctx, event); break;
    case PARLEY_EVENT_CONNECT_FAILED:
      if (event->id == listener) check_event(event);
      fprintf(stderr, "c_echo: %s\n", event->reason);
      if (c != NULL) destroy_connection(ctx, c); /* null: it never asked for anything, as in a scan of ports */
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
    if (poll(&wait, 1, -1) < 0 && errno != EINTR) return 1;
    check(parley_progress(ctx), "progress");
    echo_all(ctx); /* before the events, which may end connections */
    while (check(parley_next_event(ctx, &event), "next_event") == 1) serve_event(ctx, listener, &event, tell);
  }
}

/* ---- client */

static void await_event(parley_ctx* ctx, uint32_t type, struct parley_event* event) {
  do {
    while (check(parley_next_event(ctx, event), "next_event") == 0) check(parley_wait(ctx, -1), "wait");
    if (event->type != PARLEY_EVENT_RETRYING) check_event(event);
  } while (event->type != type);
}

static int ask(const char* address, const char* text) {
  struct parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  struct parley_event event = PARLEY_EVENT_INIT;
  struct parley_wc wc = {0};
  struct connection* c;
  parley_ctx* ctx = NULL;
  uint32_t length;
  check(parley_open(&ctx, NULL), "open");
  if ((c = make_connection(ctx)) == NULL) return 1;
  opts.retry_rounds = 5; /* the server may still be starting */
  check(parley_connect(ctx, address, &opts, &c->id), "connect");
  check(post_receive(ctx, &c->messages[0]), "post_recv");
  await_event(ctx, PARLEY_EVENT_ESTABLISHED, &event);
  printf("connected to %s in %.3f ms: MPA revision %u, IRD %u, ORD %u\n", event.peer,
         (double)event.established_ns / 1e6, event.mpa_revision, event.ird, event.ord);
  length = (uint32_t)strnlen(text, MESSAGE_MAX);
  memcpy(c->messages[1].text, text, length);
  check(post_message(ctx, &c->messages[1], length), "post_send");
  do {
    while (check(parley_poll_cq(ctx, 0, &wc, 1, sizeof wc), "poll_cq") == 0) check(parley_wait(ctx, -1), "wait");
    if (wc.status != 0) {
      fprintf(stderr, "c_echo: %s\n", parley_wc_status_str(wc.status));
      return 1;
    }
  } while (wc.opcode != PARLEY_WC_RECV);
  printf("echoed: %.*s\n", (int)wc.byte_len, c->messages[0].text);
  check(parley_disconnect(ctx, c->id), "disconnect");
  await_event(ctx, PARLEY_EVENT_DISCONNECTED, &event);
  return check(parley_close(ctx), "close");
}

static pid_t server;

static void stop_server(void) {
  kill(server, SIGTERM);
  waitpid(server, NULL, 0);
}

static int both(void) {
  char address[PARLEY_ADDRSTRLEN] = {0};
  int tell[2];
  if (pipe(tell) != 0 || (server = fork()) < 0) return 1;
  if (server == 0) return serve("127.0.0.1:0", tell[1]);
  atexit(stop_server); /* however the client ends */
  close(tell[1]);
  if (read(tell[0], address, sizeof address - 1) <= 0) return 1;
  address[strcspn(address, "\n")] = '\0';
  return ask(address, "hello from C");
}

int main(int argc, char** argv) {
  if (argc == 1) return both();
  if (argc == 3 && strcmp(argv[1], "server") == 0) return serve(argv[2], STDOUT_FILENO);
  if (argc == 4 && strcmp(argv[1], "client") == 0) return ask(argv[2], argv[3]);
  fprintf(stderr, "usage: c_echo [server ADDRESS | client ADDRESS TEXT]\n");
  return 2;
}
