/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A small MPI-like runtime over libparley.so: N ranks exchange their addresses through a key-value space, connect, pass a
 * token round the ring twice, and then send each other a message of which every octet is verified.
 *
 *   c_ranks [--ranks N] [--provider iwarp|roce|rdmacm|sim] [--address ADDRESS] [--connect all|demand] [--loss PPM]
 *           [--kvs DIR --here RANK,...]
 *
 * With iwarp each rank is a process and talks over TCP sockets, with roce over UDP sockets, with rdmacm over the machine's RDMA devices.
 * With sim all ranks are in this process, each on a host of a simulated network, which may lose frames. The code of a rank is the
 * same.
 *
 * With --here this run has some of the ranks, and others have the rest: on other machines, over another provider that they
 * understand. All have the same folder for the key-value space. */
#include <errno.h>
#include <parley/parley.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 256, PAYLOAD = 512, RECEIVES = 4, LAPS = 2 };
enum kind { TOKEN, DATA, KINDS };
enum link_state { IDLE, CONNECTING, UP, DOWN };

struct message {
  uint32_t kind, from;
  uint64_t value;
  unsigned char payload[PAYLOAD];
};

/* What a rank knows of another. */
struct link {
  parley_id id;
  enum link_state state;
  int queued[KINDS], sent[KINDS]; /* messages */
  int got_data, leaving, failures;
  struct message in[RECEIVES], out[KINDS];
};

struct rank {
  parley_ctx* ctx;
  parley_id listener;
  struct parley_mr mr;
  struct link* links; /* one for each rank, its own unused */
  int me, n, published, ring_done, started, received, completed, connections, over;
  const char* kvs;
};

static struct {
  int ranks, on_demand;
  unsigned loss_ppm;
  const char* provider;
  /* Of this machine, where ranks listen. rdmacm: of an RDMA device's interface. roce: of the first rank here, those of the
   * next ones follow; each rank has its own. */
  const char* address;
  const char* kvs; /* null: a temporary folder */
  int some;        /* not all ranks are here */
  char here[RANKS_MAX];
} options = {8, 0, 0, "iwarp", NULL, NULL, 0, {0}};

static int is_here(int rank) { return !options.some || options.here[rank]; }

static void die(const struct rank* r, const char* what, const char* why) {
  fprintf(stderr, "c_ranks: rank %d: %s: %s\n", r == NULL ? -1 : r->me, what, why);
  exit(1);
}
static int check(const struct rank* r, int rc, const char* what) {
  if (rc < 0) die(r, what, parley_last_error());
  return rc;
}

/* ---- the key-value space: a file for each rank, which appears whole. It goes with the process that made it, however that
 * ends; interrupted processes end by die(). */

static char kvs_path[256];
static pid_t kvs_owner;
static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal) { interrupted = signal; }

static void remove_kvs(void) {
  char name[300];
  if (getpid() != kvs_owner) return; /* of a rank that is a process of its own */
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (!is_here(rank)) continue;
    snprintf(name, sizeof name, "%s/rank.%d", kvs_path, rank);
    unlink(name);
    snprintf(name, sizeof name, "%s/rank.%d.new", kvs_path, rank);
    unlink(name);
  }
  rmdir(kvs_path);
}

static const char* make_kvs(void) {
  const struct sigaction note = {.sa_handler = note_interrupt}; /* wait(2) is to return for it */
  const char* below = getenv("TMPDIR");
  if (options.kvs != NULL)
    snprintf(kvs_path, sizeof kvs_path, "%s", options.kvs);
  else
    snprintf(kvs_path, sizeof kvs_path - 16, "%s/c_ranks.XXXXXX", below != NULL && *below != '\0' ? below : "/tmp");
  sigaction(SIGINT, &note, NULL);
  sigaction(SIGTERM, &note, NULL);
  sigaction(SIGHUP, &note, NULL);
  if (options.kvs != NULL ? mkdir(kvs_path, 0777) < 0 && errno != EEXIST : mkdtemp(kvs_path) == NULL)
    die(NULL, kvs_path, strerror(errno));
  kvs_owner = getpid();
  atexit(remove_kvs);
  return kvs_path;
}

static void put(const struct rank* r, const char* value) {
  char name[288], temporary[304];
  FILE* file;
  snprintf(name, sizeof name, "%s/rank.%d", r->kvs, r->me);
  snprintf(temporary, sizeof temporary, "%s.new", name);
  if ((file = fopen(temporary, "w")) == NULL || fputs(value, file) < 0 || fclose(file) != 0 ||
      rename(temporary, name) != 0)
    die(r, name, strerror(errno));
}

static int get(const struct rank* r, int rank, char value[PARLEY_ADDRSTRLEN]) {
  char name[288];
  FILE* file;
  snprintf(name, sizeof name, "%s/rank.%d", r->kvs, rank);
  if ((file = fopen(name, "r")) == NULL) return 0; /* not yet */
  if (fgets(value, PARLEY_ADDRSTRLEN, file) == NULL) die(r, name, "empty");
  fclose(file);
  return 1;
}

/* ---- messages */

/* wr_id: which link, and which slot of it; of a receive, KINDS and up. */
static uint64_t wr_id(int peer, int slot) { return (uint64_t)peer << 8 | (uint64_t)slot; }

static void fill(struct message* m, int kind, int from, int to, uint64_t value) {
  m->kind = (uint32_t)kind;
  m->from = (uint32_t)from;
  m->value = value;
  for (int i = 0; i < PAYLOAD; ++i) m->payload[i] = (unsigned char)(from * 31 + to * 17 + i);
}

static void verify(const struct rank* r, const struct message* m, uint32_t length) {
  struct message wanted;
  fill(&wanted, (int)m->kind, (int)m->from, r->me, m->value);
  if (length != sizeof *m || memcmp(&wanted, m, sizeof *m) != 0)
    die(r, "a message", "its octets are not those that were sent");
}

static struct parley_sge piece(const struct rank* r, const struct message* m) {
  const uint64_t offset = (uint64_t)((const char*)m - (const char*)r->links);
  const struct parley_sge sge = {r->mr.addr + offset, sizeof *m, r->mr.lkey};
  return sge;
}

static void post_receive(struct rank* r, int peer, int slot) {
  struct link* l = &r->links[peer];
  const struct parley_sge sge = piece(r, &l->in[slot]);
  const struct parley_recv_wr wr = {.size = sizeof wr, .wr_id = wr_id(peer, KINDS + slot), .sges = &sge, .num_sge = 1};
  const int rc = parley_post_recv(r->ctx, l->id, &wr);
  if (rc != -PARLEY_E_WRONG_STATE) check(r, rc, "post_recv"); /* the peer may have left already */
}

/* What is queued for a peer leaves once its connection stands; a slot for each kind, which the ring never needs twice at a
 * time. */
static void flush(struct rank* r, int peer) {
  struct link* l = &r->links[peer];
  if (l->state != UP) return;
  for (int kind = 0; kind < KINDS; ++kind) {
    const struct parley_sge sge = piece(r, &l->out[kind]);
    const struct parley_send_wr wr = {
        .size = sizeof wr, .opcode = PARLEY_SEND, .wr_id = wr_id(peer, kind), .sges = &sge, .num_sge = 1};
    if (!l->queued[kind]) continue;
    check(r, parley_post_send(r->ctx, l->id, &wr), "post_send");
    l->queued[kind] = 0;
  }
}

/* ---- addresses */

/* The place of a rank among those of this run. */
static int place_of(int me) {
  int place = 0;
  for (int rank = 0; rank < me; ++rank) place += is_here(rank);
  return place;
}

/* Where a rank is, with port 0. Over roce there is one UDP port for all: each process needs an address of its own. */
static void own_address(int me, char out[PARLEY_ADDRSTRLEN + 8]) {
  const char* address = options.address != NULL ? options.address : "127.0.0.1";
  const char* last = strrchr(address, '.');
  if (strcmp(options.provider, "roce") != 0 || (options.address != NULL && last == NULL))
    snprintf(out, PARLEY_ADDRSTRLEN + 8, "%.*s:0", PARLEY_ADDRSTRLEN, address);
  else if (options.address == NULL)
    snprintf(out, PARLEY_ADDRSTRLEN + 8, "127.0.%d.%d:0", 1 + me / 128, 1 + me % 128);
  else
    snprintf(out, PARLEY_ADDRSTRLEN + 8, "%.*s.%d:0", (int)(last - address), address, atoi(last + 1) + place_of(me));
}

/* ---- connections */

static void start_connect(struct rank* r, int peer) {
  struct link* l = &r->links[peer];
  struct parley_connect_opts opts = PARLEY_CONNECT_OPTS_INIT;
  char address[PARLEY_ADDRSTRLEN], own[PARLEY_ADDRSTRLEN + 8];
  if (l->state != IDLE || !get(r, peer, address)) return;
  own_address(r->me, own);
  if (strcmp(options.provider, "roce") == 0 && options.address != NULL) opts.local = own;
  opts.private_data = &r->me;
  opts.private_data_len = sizeof r->me;
  opts.retry_rounds = 5;
  opts.user = l;
  check(r, parley_connect(r->ctx, address, &opts, &l->id), "connect");
  l->state = CONNECTING;
  for (int slot = 0; slot < RECEIVES; ++slot) post_receive(r, peer, slot);
}

static void queue(struct rank* r, int peer, int kind, uint64_t value) {
  fill(&r->links[peer].out[kind], kind, r->me, peer, value);
  r->links[peer].queued[kind] = 1;
  flush(r, peer);
}

static int accept_from(struct rank* r, int peer) {
  struct parley_accept_opts opts = PARLEY_ACCEPT_OPTS_INIT;
  struct link* l = &r->links[peer];
  int rc = parley_create_qp(r->ctx, l->id, NULL);
  opts.user = l;
  if (rc < 0) return rc;
  for (int slot = 0; slot < RECEIVES; ++slot) post_receive(r, peer, slot);
  return parley_accept(r->ctx, l->id, &opts);
}

/* Both ends may have asked for the same connection. The one of the lower rank stands; the other is rejected. A peer that gave
 * up while its request waited here gives PARLEY_E_WRONG_STATE. */
static void answer(struct rank* r, const struct parley_event* event) {
  struct link* l;
  int peer = -1, rc;
  /* At least so long: RoCE fills private data up with zeros. */
  if (event->private_data_len >= sizeof peer) memcpy(&peer, event->private_data, sizeof peer);
  if (peer < 0 || peer >= r->n || peer == r->me || r->links[peer].state == UP ||
      (r->links[peer].state == CONNECTING && r->me < peer)) {
    rc = parley_reject(r->ctx, event->id, NULL, 0);
    if (rc != -PARLEY_E_WRONG_STATE) check(r, rc, "reject");
    check(r, parley_destroy(r->ctx, event->id), "destroy");
    return;
  }
  l = &r->links[peer];
  if (l->state == CONNECTING) check(r, parley_destroy(r->ctx, l->id), "destroy");
  l->id = event->id;
  l->state = CONNECTING;
  if ((rc = accept_from(r, peer)) == 0) return;
  if (rc != -PARLEY_E_WRONG_STATE) check(r, rc, "accept");
  check(r, parley_destroy(r->ctx, l->id), "destroy");
  l->state = IDLE;
}

static void handle(struct rank* r, const struct parley_event* event) {
  struct link* l = event->user;
  const int peer = l == NULL ? -1 : (int)(l - r->links);
  switch (event->type) {
    case PARLEY_EVENT_LISTENING:
      put(r, event->local);
      r->published = 1;
      break;
    case PARLEY_EVENT_CONNECT_REQUEST: answer(r, event); break;
    case PARLEY_EVENT_ESTABLISHED:
      l->state = UP;
      ++r->connections;
      flush(r, peer);
      break;
    case PARLEY_EVENT_REJECTED: /* the peer's own connect is under way */
      check(r, parley_destroy(r->ctx, event->id), "destroy");
      l->state = IDLE;
      break;
    case PARLEY_EVENT_RETRYING: break;
    case PARLEY_EVENT_TURNED_AWAY: break; /* they come again */
    case PARLEY_EVENT_DISCONNECTED:
      if (event->status != 0) die(r, "disconnected", event->reason);
      l->state = DOWN;
      break;
    case PARLEY_EVENT_CONNECT_FAILED:
      if (l == NULL && event->id != r->listener) break; /* it never said who it is, as in a scan of ports */
      if (l == NULL || ++l->failures > 5) die(r, l == NULL ? "listen" : "connect", event->reason);
      check(r, parley_destroy(r->ctx, event->id), "destroy");
      l->state = IDLE; /* what is queued asks for another */
      break;
    default: die(r, parley_event_name(event->type), event->reason);
  }
}

/* ---- a rank */

static void take(struct rank* r, int peer, const struct message* m) {
  const int next = (r->me + 1) % r->n;
  if (m->kind == DATA) {
    if (r->links[peer].got_data++) die(r, "a message", "came twice");
    ++r->received;
    return;
  }
  if (r->me != 0) { /* the token: each adds itself */
    queue(r, next, TOKEN, m->value + (uint64_t)r->me);
    ++r->ring_done;
    return;
  }
  if (m->value != (uint64_t)(r->ring_done + 1) * (uint64_t)r->n * (uint64_t)(r->n - 1) / 2)
    die(r, "the token", "wrong sum");
  if (++r->ring_done < LAPS) queue(r, next, TOKEN, m->value);
}

static void poll_completions(struct rank* r) {
  struct parley_wc wc[16];
  int n;
  while ((n = check(r, parley_poll_cq(r->ctx, 0, wc, 16, sizeof wc[0]), "poll_cq")) > 0)
    for (int i = 0; i < n; ++i) {
      const int peer = (int)(wc[i].wr_id >> 8), slot = (int)(wc[i].wr_id & 0xFF);
      struct link* l = &r->links[peer];
      if (wc[i].status != 0) continue; /* flushed: of a connect that lost, or at the end */
      if (slot < KINDS) {
        ++l->sent[slot];
        ++r->completed;
        continue;
      }
      verify(r, &l->in[slot - KINDS], wc[i].byte_len);
      if (l->in[slot - KINDS].from != (uint32_t)peer) die(r, "a message", "from another rank");
      take(r, peer, &l->in[slot - KINDS]);
      post_receive(r, peer, slot - KINDS);
    }
}

/* Connects what is to be connected; returns whether the work may begin. */
static int connected(struct rank* r) {
  int missing = 0;
  for (int peer = 0; peer < r->n; ++peer) {
    struct link* l = &r->links[peer];
    const int wanted = l->queued[TOKEN] || l->queued[DATA] || (!options.on_demand && peer > r->me);
    if (peer == r->me || l->state == UP || l->state == DOWN) continue;
    if (wanted) start_connect(r, peer);
    ++missing;
  }
  return options.on_demand || missing == 0 || r->started;
}

/* Everybody has said all and heard all: a connection ends when this side needs it no more, gracefully. */
static void leave(struct rank* r) {
  int left = 0;
  for (int peer = 0; peer < r->n; ++peer) {
    struct link* l = &r->links[peer];
    if (peer == r->me || l->state != UP) continue;
    ++left;
    if (!l->leaving) l->leaving = parley_disconnect(r->ctx, l->id) == 0;
  }
  r->over = left == 0;
}

/* One turn; never waits. */
static void step(struct rank* r) {
  struct parley_event event = PARLEY_EVENT_INIT;
  check(r, parley_progress(r->ctx), "progress");
  poll_completions(r);
  while (check(r, parley_next_event(r->ctx, &event), "next_event") == 1) handle(r, &event);
  if (!r->published || !connected(r)) return;
  if (!r->started) {
    r->started = 1;
    if (r->me == 0) queue(r, 1, TOKEN, 0);
    return;
  }
  if (r->started == 1 && r->ring_done == LAPS) {
    r->started = 2;
    for (int i = 1; i < r->n; ++i) queue(r, (r->me + i) % r->n, DATA, 0);
  }
  if (r->received == r->n - 1 && r->completed == LAPS + r->n - 1) leave(r);
}

static void open_rank(struct rank* r, int me, int n, const char* kvs, parley_world* world) {
  struct parley_opts opts = PARLEY_OPTS_INIT;
  const size_t size = (size_t)n * sizeof *r->links;
  memset(r, 0, sizeof *r);
  r->mr.size = sizeof r->mr;
  r->me = me;
  r->n = n;
  r->kvs = kvs;
  if ((r->links = calloc(1, size)) == NULL) die(r, "memory", "has run out");
  opts.provider = options.provider;
  opts.world = world;
  check(r, parley_open(&r->ctx, &opts), "open");
  check(r, parley_reg_mr(r->ctx, r->links, size, PARLEY_ACCESS_LOCAL_WRITE, &r->mr), "reg_mr");
}

static void listen_rank(struct rank* r) {
  char address[PARLEY_ADDRSTRLEN + 8];
  own_address(r->me, address);
  if (parley_host_address(r->ctx, 4, address) == 0) strcpy(strchr(address, ':'), ":7471"); /* in a world */
  check(r, parley_listen(r->ctx, address, NULL, &r->listener), "listen");
}

static void close_rank(struct rank* r) {
  check(r, parley_close(r->ctx), "close");
  free(r->links);
}

/* A process of its own, which sleeps while it has nothing to do. The addresses of others appear without notice, so it
 * looks for them from time to time. */
static int run_process(int me, const char* kvs) {
  struct rank r;
  open_rank(&r, me, options.ranks, kvs, NULL);
  listen_rank(&r);
  while (!r.over) {
    struct pollfd wait = {.fd = check(&r, parley_fd(r.ctx), "fd"), .events = POLLIN};
    if (interrupted) die(&r, "the run", "interrupted");
    poll(&wait, 1, 5); /* if a signal comes, a turn is taken too early, which does no harm */
    step(&r);
  }
  if (!options.on_demand && r.connections != r.n - 1) die(&r, "connections", "not one to each other rank");
  close_rank(&r);
  return 0;
}

/* A rank that fails takes the others with it: they would wait for it for ever. */
static int run_processes(const char* kvs) {
  pid_t ranks[RANKS_MAX] = {0};
  int failed = 0, left = 0, stopped = 0, status;
  for (int me = 0; me < options.ranks; ++me) {
    if (!is_here(me)) continue;
    if ((ranks[me] = fork()) == 0) exit(run_process(me, kvs));
    if (ranks[me] < 0) {
      fprintf(stderr, "c_ranks: fork: %s\n", strerror(errno));
      ranks[me] = 0;
      failed = 1;
      break;
    }
    ++left;
  }
  while (left > 0) {
    if ((failed || interrupted) && !stopped++)
      for (int me = 0; me < options.ranks; ++me)
        if (ranks[me] != 0) kill(ranks[me], SIGTERM);
    const pid_t ended = wait(&status);
    if (ended < 0) continue; /* EINTR */
    failed |= status;
    --left;
    for (int me = 0; me < options.ranks; ++me)
      if (ranks[me] == ended) ranks[me] = 0;
  }
  return failed != 0 || interrupted;
}

static int run_world(const char* kvs) {
  struct parley_world_opts opts = PARLEY_WORLD_OPTS_INIT;
  struct rank* ranks = calloc((size_t)options.ranks, sizeof *ranks);
  parley_world* world;
  int over = 0;
  if (ranks == NULL) die(NULL, "memory", "has run out");
  opts.seed = 1;
  opts.loss_ppm = options.loss_ppm;
  check(NULL, parley_world_open(&world, &opts), "world_open");
  for (int me = 0; me < options.ranks; ++me) open_rank(&ranks[me], me, options.ranks, kvs, world);
  for (int me = 0; me < options.ranks; ++me) listen_rank(&ranks[me]);
  while (over < options.ranks) {
    if (interrupted) die(NULL, "the run", "interrupted");
    over = 0;
    for (int me = 0; me < options.ranks; ++me) {
      if (!ranks[me].over)
        step(&ranks[me]);
      else
        check(&ranks[me], parley_progress(ranks[me].ctx), "progress");
      over += ranks[me].over;
    }
  }
  printf("%.3f ms of virtual time\n", (double)parley_now_ns(ranks[0].ctx) / 1e6);
  for (int me = 0; me < options.ranks; ++me) close_rank(&ranks[me]);
  free(ranks);
  return check(NULL, parley_world_close(world), "world_close");
}

static int take_here(const char* list) {
  char* end;
  options.some = 1;
  for (;; list = end + 1) {
    const long rank = strtol(list, &end, 10);
    if (end == list || rank < 0 || rank >= RANKS_MAX) return 0;
    options.here[rank] = 1;
    if (*end == '\0') return 1;
    if (*end != ',') return 0;
  }
}

static int usage(void) {
  fprintf(stderr,
          "usage: c_ranks [--ranks 2..%d] [--provider iwarp|roce|rdmacm|sim] [--address ADDRESS]\n"
          "               [--connect all|demand] [--loss PPM] [--kvs DIR --here RANK,...]\n",
          RANKS_MAX);
  return 2;
}

int main(int argc, char** argv) {
  const char* kvs;
  struct timespec begin, end;
  int failed;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return usage();
    if (strcmp(argv[i], "--ranks") == 0)
      options.ranks = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--provider") == 0)
      options.provider = argv[i + 1];
    else if (strcmp(argv[i], "--address") == 0)
      options.address = argv[i + 1];
    else if (strcmp(argv[i], "--connect") == 0)
      options.on_demand = strcmp(argv[i + 1], "demand") == 0;
    else if (strcmp(argv[i], "--loss") == 0)
      options.loss_ppm = (unsigned)atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--kvs") == 0)
      options.kvs = argv[i + 1];
    else if (strcmp(argv[i], "--here") == 0 ? !take_here(argv[i + 1]) : 1)
      return usage();
  }
  if (options.ranks < 2 || options.ranks > RANKS_MAX) return usage();
  if (options.some && (options.kvs == NULL || strcmp(options.provider, "sim") == 0)) return usage();
  kvs = make_kvs();
  clock_gettime(CLOCK_MONOTONIC, &begin);
  failed = strcmp(options.provider, "sim") == 0 ? run_world(kvs) : run_processes(kvs);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (failed) return 1;
  printf("%d ranks over %s, connected %s: %d laps of the ring and %d messages verified in %.2f s\n", options.ranks,
         options.provider, options.on_demand ? "on demand" : "all to all", LAPS, options.ranks * (options.ranks - 1),
         (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
  return 0;
}
