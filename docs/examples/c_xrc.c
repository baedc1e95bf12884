/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The ranks of a node share one XRC TGT queue pair for each peer, over libparley.so; and it outlives the rank that made it.
 *
 *   c_xrc
 *
 * What an MPI runtime does with it: whichever rank is asked first makes the queue pair, all that are asked for the same peer get
 * the same one, and it ends with the last rank that lets go of it, or is killed. The broker, `parley xrcd`, is started by the first
 * rank; here it has a socket of its own, which PARLEY_XRCD_PROGRAM or PATH finds a program for. */
#include <errno.h>
#include <fcntl.h>
#include <parley/xrc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3 };

/* What the launcher tells a rank, one at a time, and what it answers. */
enum order { SET_UP = 1, JOIN, LOOK, REPORT_PEER_GONE, LET_GO };
struct message {
  int order, rc; /* rc: 1 is "it was there already" */
  uint32_t qpn, state;
  uint64_t generation; /* of a TGT queue pair: its number may come again, its generation never */
};

struct rank {
  pid_t pid;
  int channel;
} ranks[RANKS] = {{0, -1}, {0, -1}, {0, -1}};

static char folder[] = "/tmp/c_xrc.XXXXXX", domain_file[64], broker_socket[64];

static int check(int rc, const char* what) {
  if (rc >= 0) return rc;
  fprintf(stderr, "c_xrc: %s: %s: %s\n", what, parley_strerror(rc), parley_last_error());
  exit(1);
}

static void expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "c_xrc: not so: %s\n", what);
  exit(1);
}

/* ---- a rank ------------------------------------------------------------------------------------------------------ */

static parley_xrcd* open_domain(void) {
  struct parley_xrc_opts opts = PARLEY_XRC_OPTS_INIT;
  parley_xrcd* domain = NULL;
  const int fd = open(domain_file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  expect(fd >= 0, "the domain's file can be opened");
  opts.broker = broker_socket;
  check(parley_xrc_open(&domain, fd, O_CREAT, &opts), "open the domain");
  close(fd); /* the domain stays open */
  return domain;
}

/* The real queue pair is made and modified beside this, with the number that comes out: ibv_create_qp_ex() by who made it, and
 * ibv_open_qp() by the others. `digest` stands for the attributes, so that two ranks that differ are told. */
static int set_up(parley_xrcd* domain, struct parley_xrc_tgt* tgt) {
  const struct parley_xrc_peer peer = {0x0002c90300001234, 0x4a, 0}; /* of the connection request */
  const uint64_t digest = 42;
  const int there = check(parley_xrc_create(domain, &peer, tgt), "create");
  check(parley_xrc_modify(domain, tgt->qpn, tgt->generation, PARLEY_XRC_INIT, digest), "modify to INIT");
  check(parley_xrc_modify(domain, tgt->qpn, tgt->generation, PARLEY_XRC_RTR, digest), "modify to RTR");
  return there;
}

/* Waits in poll(2), as a runtime's own loop would, among its other descriptors. */
static void wait_for_the_end(parley_xrcd* domain, const struct parley_xrc_tgt* tgt) {
  struct pollfd wait = {.fd = check(parley_xrc_fd(domain), "fd"), .events = POLLIN};
  struct parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
  while (check(parley_xrc_poll_event(domain, &event), "poll_event") == 0) poll(&wait, 1, -1);
  expect(event.kind == PARLEY_XRC_EVENT_PEER_GONE && event.generation == tgt->generation, "the peer has gone");
  printf("  rank %d: %s; lets go\n", (int)getpid(), parley_xrc_event_name(event.kind));
  check(parley_xrc_unregister(domain, tgt->qpn, tgt->generation), "unregister");
}

static void rank_main(int channel) {
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  struct message m;
  parley_xrcd* domain = open_domain();
  while (read(channel, &m, sizeof m) == (ssize_t)sizeof m) {
    switch (m.order) {
      case SET_UP: m.rc = set_up(domain, &tgt); break;
      case JOIN: m.rc = parley_xrc_register(domain, m.qpn, m.generation, &tgt); break;
      case LOOK: m.rc = parley_xrc_query(domain, m.qpn, m.generation, &tgt); break;
      case REPORT_PEER_GONE:
        m.rc = parley_xrc_report(domain, tgt.qpn, tgt.generation, PARLEY_XRC_EVENT_PEER_GONE, 0);
        break;
      default:
        wait_for_the_end(domain, &tgt);
        fflush(stdout);
        m.rc = parley_xrc_register(domain, tgt.qpn, tgt.generation, NULL); /* and there is no way back */
    }
    m.qpn = tgt.qpn;
    m.generation = tgt.generation;
    m.state = tgt.state;
    expect(write(channel, &m, sizeof m) == (ssize_t)sizeof m, "the launcher listens");
  }
  exit(parley_xrc_close(domain, 1) == 0 ? 0 : 1);
}

/* ---- the launcher -------------------------------------------------------------------------------------------------- */

/* It opens no domain itself: memberships do not survive fork(2). */
static struct rank start_rank(void) {
  struct rank r;
  int ends[2];
  expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
  fflush(stdout);
  r.pid = fork();
  if (r.pid == 0) {
    close(ends[0]);
    for (int i = 0; i < RANKS; ++i) /* so that each rank sees the launcher end */
      if (ranks[i].channel >= 0) close(ranks[i].channel);
    rank_main(ends[1]);
  }
  close(ends[1]);
  r.channel = ends[0];
  return r;
}

static void tell(struct rank r, enum order order, const struct message* about) {
  struct message m = {0};
  if (about != NULL) m = *about;
  m.order = (int)order;
  expect(write(r.channel, &m, sizeof m) == (ssize_t)sizeof m, "the rank listens");
}
static struct message hear(struct rank r) {
  struct message m = {0};
  expect(read(r.channel, &m, sizeof m) == (ssize_t)sizeof m, "the rank answers");
  return m;
}

static void run(void) {
  struct message tgt = {0}, m;
  int made = -1, makers = 0, reporter;
  for (int i = 0; i < RANKS; ++i) ranks[i] = start_rank();
  for (int i = 0; i < RANKS; ++i) tell(ranks[i], SET_UP, NULL); /* all at once */
  for (int i = 0; i < RANKS; ++i) {
    m = hear(ranks[i]);
    expect(i == 0 || m.generation == tgt.generation, "all ranks have the same queue pair");
    tgt = m;
    if (m.rc == 0) made = i;
    makers += m.rc == 0;
  }
  expect(makers == 1, "one rank made it");
  printf("TGT queue pair 0x%06x: rank %d made it, %d share it\n", (unsigned)tgt.qpn, (int)ranks[made].pid, RANKS);

  kill(ranks[made].pid, SIGKILL);
  waitpid(ranks[made].pid, NULL, 0);
  close(ranks[made].channel);
  ranks[made].channel = -1;
  printf("rank %d is killed\n", (int)ranks[made].pid);
  ranks[made] = start_rank(); /* in its place a newcomer, which was told the name */
  tell(ranks[made], JOIN, &tgt);
  expect(hear(ranks[made]).rc == 0, "a newcomer may register");
  for (int i = 0; i < RANKS; ++i) {
    tell(ranks[i], LOOK, &tgt);
    m = hear(ranks[i]);
    expect(m.rc == 0 && m.state == PARLEY_XRC_RTR, "it receives still");
  }
  printf("it is in %s still, for two survivors and a newcomer\n", parley_xrc_state_name(m.state));

  reporter = (made + 1) % RANKS;
  printf("the peer goes, and rank %d reports it\n", (int)ranks[reporter].pid);
  tell(ranks[reporter], REPORT_PEER_GONE, NULL);
  expect(hear(ranks[reporter]).rc == 0, "it may be reported");
  for (int i = 0; i < RANKS; ++i) {
    tell(ranks[i], LET_GO, NULL);
    expect(hear(ranks[i]).rc == -PARLEY_E_XRC_GONE, "nobody gets it back");
  }
  printf("and it has ended\n");
  for (int i = 0; i < RANKS; ++i) {
    int status = 1;
    close(ranks[i].channel);
    expect(waitpid(ranks[i].pid, &status, 0) == ranks[i].pid && status == 0, "the rank ends well");
  }
}

static pid_t launcher;
static void remove_files(void) {
  char lock[80];
  if (getpid() != launcher) return; /* a rank ends */
  snprintf(lock, sizeof lock, "%s.lock", broker_socket);
  unlink(domain_file);
  unlink(broker_socket);
  unlink(lock);
  rmdir(folder);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  setvbuf(stdout, NULL, _IOLBF, 0);
  expect(mkdtemp(folder) != NULL, "there is room in /tmp");
  snprintf(domain_file, sizeof domain_file, "%s/domain", folder);
  snprintf(broker_socket, sizeof broker_socket, "%s/broker", folder);
  launcher = getpid();
  atexit(remove_files);
  run(); /* the broker ends by itself, 10 s after the last rank */
  return 0;
}
