/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* One end of a connection for ends_test.py: it ends in one of many ways, or watches how the other end does.
 *
 * end_peer PROVIDER server|client ADDRESS up|request HOW KEEPALIVE_MS DEAD_AFTER_MS
 *
 * HOW is done once the connection is up, or while the server has not decided: disconnect, close, destroy, lost (close with a Send under
 * way that the peer has no receive for), exit, kill, stop, stop-MS (goes on after MS milliseconds, and disconnects), hold (nothing: its host or link goes), watch (nothing: its end is printed, and
 * then the program returns). A time may be NEVER.
 *
 * end_peer codes: prints the error codes of parley.h that a connection can end with, and their words. */
#define _GNU_SOURCE
#include <parley/parley.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_MS = 20, SETTLE_SLICES = 10, SEND_OCTETS = 1 << 20 };
static char memory[SEND_OCTETS];
static parley_ctx* ctx;
static const char* how;

static void must(int rc, const char* what) {
  if (rc >= 0) return;
  printf("failed %s: %s\n", what, parley_last_error());
  exit(1);
}

static int is(const char* wanted) { return strcmp(how, wanted) == 0; }

static void send_in_vain(parley_id id) {
  struct parley_mr mr = PARLEY_MR_INIT;
  must(parley_reg_mr(ctx, memory, sizeof memory, PARLEY_ACCESS_LOCAL_WRITE, &mr), "reg_mr");
  struct parley_sge piece = {mr.addr, sizeof memory, mr.lkey};
  struct parley_send_wr wr = PARLEY_SEND_WR_INIT;
  wr.opcode = PARLEY_SEND;
  wr.num_sge = 1;
  wr.sges = &piece;
  must(parley_post_send(ctx, id, &wr), "post_send");
  must(parley_progress(ctx), "progress");
}

/* NEVER, or milliseconds. */
static uint32_t time_of(const char* text) { return strcmp(text, "NEVER") == 0 ? PARLEY_NEVER : (uint32_t)atoi(text); }

/* The kernel's timer continues the stopped process. */
static void stop_for(int ms) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
  struct itimerspec due = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}};
  timer_t timer;
  must(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
  must(timer_settime(timer, 0, &due, NULL), "timer_settime");
  raise(SIGSTOP);
}

static void end_it(parley_id id) {
  if (is("lost")) send_in_vain(id);
  printf("now\n");
  if (is("close") || is("lost")) {
    must(parley_close(ctx), "close");
    pause();
  } else if (is("destroy")) {
    must(parley_destroy(ctx, id), "destroy");
  } else if (is("disconnect")) {
    must(parley_disconnect(ctx, id), "disconnect");
  } else if (is("exit")) {
    exit(0);
  } else if (is("kill")) {
    raise(SIGKILL);
  } else if (is("stop")) {
    raise(SIGSTOP);
  } else if (strncmp(how, "stop-", 5) == 0) {
    stop_for(atoi(how + 5));
    must(parley_disconnect(ctx, id), "disconnect");
  }
}

static const char* stage_name(uint32_t stage) {
  static const char* const names[] = {"resolve", "route", "transport", "request", "decision",
                                      "reply",   "ready", "data",      "closing"};
  return stage < sizeof names / sizeof *names ? names[stage] : "?";
}

static void print_end(const struct parley_event* e) {
  printf("end %s|%s|%s|%s\n", parley_event_name(e->type), e->status == 0 ? "graceful" : parley_strerror(e->status),
         e->status == 0 ? "" : stage_name(e->stage), e->reason);
}

static int print_codes(void) {
#define CODE(name) printf("%s|%s\n", #name, parley_strerror(name))
  CODE(PARLEY_E_IO);
  CODE(PARLEY_E_REFUSED);
  CODE(PARLEY_E_UNREACHABLE);
  CODE(PARLEY_E_TIMED_OUT);
  CODE(PARLEY_E_REJECTED);
  CODE(PARLEY_E_PEER_CLOSED);
  CODE(PARLEY_E_PEER_RESET);
  CODE(PARLEY_E_PROTOCOL);
  CODE(PARLEY_E_TERMINATED);
#undef CODE
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "codes") == 0) return print_codes();
  if (argc != 8) return 2;
  const int server = strcmp(argv[2], "server") == 0, early = strcmp(argv[4], "request") == 0;
  how = argv[5];
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct parley_opts opts = PARLEY_OPTS_INIT;
  opts.provider = argv[1];
  must(parley_open(&ctx, &opts), "open");
  parley_id id = 0;
  struct parley_listen_opts listen = PARLEY_LISTEN_OPTS_INIT;
  struct parley_connect_opts connect = PARLEY_CONNECT_OPTS_INIT;
  listen.keepalive_ms = connect.keepalive_ms = time_of(argv[6]);
  listen.dead_after_ms = connect.dead_after_ms = time_of(argv[7]);
  /* In the set-up the kernel's CM does not look at dead_after. */
  if (strcmp(argv[1], "rdmacm") == 0 && connect.dead_after_ms != PARLEY_NEVER)
    connect.reply_timeout_ms = connect.dead_after_ms;
  if (server)
    must(parley_listen(ctx, argv[3], &listen, &id), "listen");
  else
    must(parley_connect(ctx, argv[3], &connect, &id), "connect");
  int due = !server && early ? SETTLE_SLICES : -1; /* slices until `how` */
  for (;;) {
    must(parley_wait(ctx, SLICE_MS), "wait");
    struct parley_event e = PARLEY_EVENT_INIT;
    while (parley_next_event(ctx, &e) == 1) {
      switch (e.type) {
        case PARLEY_EVENT_LISTENING: printf("listening\n"); break;
        case PARLEY_EVENT_CONNECT_REQUEST:
          id = e.id;
          printf("request\n");
          if (early)
            due = SETTLE_SLICES;
          else
            must(parley_accept(ctx, id, NULL), "accept");
          break;
        case PARLEY_EVENT_ESTABLISHED:
          printf("established\n");
          due = SETTLE_SLICES;
          break;
        case PARLEY_EVENT_ADDRESS_CHANGED: break;
        default:
          print_end(&e);
          if (is("watch")) return 0;
      }
    }
    if (due > 0 && --due == 0 && !is("watch") && !is("hold")) end_it(id);
  }
}
