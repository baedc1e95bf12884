/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The nodes of an InfiniBand subnet, found from one port of it by directed routes, over libparley.so.
 *
 *   c_mad WHERE       "ibsim:sim/H00001", a node of a simulated subnet; "umad:mlx5_0/1", a port of this machine
 *   c_mad             simulates a small subnet for it: PARLEY_PROGRAM or PATH has the program `parley`
 *
 * Breadth first, with as many requests under way as the port's window has room for: NodeInfo says what a node is, and
 * PortInfo of each of a switch's ports whether there is somebody behind it. Answers come in any order. */
#include <errno.h>
#include <parley/mad.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODES_MAX = 4096, ROUTE_MAX = 64 * 4 };

/* What is known of a request that is under way, and where it went. */
struct visit {
  int is_port; /* PortInfo of one of a switch's ports; else NodeInfo */
  unsigned port;
  char route[ROUTE_MAX]; /* "0,1,3" */
};

static parley_mad* port;
static uint64_t guids[NODES_MAX];
static unsigned nodes, switches, adapters, lost, under_way;

static int check(int rc, const char* what) {
  if (rc >= 0) return rc;
  fprintf(stderr, "c_mad: %s: %s: %s\n", what, parley_strerror(rc), parley_last_error());
  exit(1);
}

/* Asks what is at the end of a route, or one port of it. */
static void visit(const char* route, int is_port, unsigned number) {
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct visit* v = malloc(sizeof *v);
  if (v == NULL) exit(1);
  v->is_port = is_port;
  v->port = number;
  snprintf(v->route, sizeof v->route, "%s", route);
  request.method = "SubnGet";
  request.attribute = is_port ? "PortInfo" : "NodeInfo";
  request.path = v->route;
  request.modifier = number;
  request.user = v;
  check(parley_mad_post(port, &request, NULL), "post");
  ++under_way;
}

static uint64_t number_in(const struct parley_mad_reply* reply, const char* member) {
  uint64_t out = 0;
  check(parley_mad_get(reply->structure, reply->records, reply->stride, member, &out), member);
  return out;
}

static int is_new(uint64_t guid) {
  for (unsigned i = 0; i < nodes; ++i)
    if (guids[i] == guid) return 0;
  if (nodes == NODES_MAX) return 0;
  guids[nodes++] = guid;
  return 1;
}

/* The description is one request more, and this one waits for its answer: those that were posted go on meanwhile. */
static void show_node(const struct visit* v, uint64_t guid, unsigned ports, const char* type) {
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  char name[64] = "?";
  request.method = "SubnGet";
  request.attribute = "NodeDescription";
  request.path = v->route;
  if (parley_mad_call(port, &request, &reply) == 0)
    check(parley_mad_text(reply.structure, reply.records, reply.stride, "node_string", name, sizeof name), "name");
  printf("%-20s 0x%016llx  %3u ports  %-12s %s\n", type, (unsigned long long)guid, ports, v->route, name);
}

static void handle_node(const struct visit* v, const struct parley_mad_reply* reply) {
  const uint64_t guid = number_in(reply, "node_guid");
  const unsigned ports = (unsigned)number_in(reply, "num_ports");
  const unsigned own = (unsigned)number_in(reply, "local_port_num");
  char type[32];
  check(parley_mad_text(reply->structure, reply->records, reply->stride, "node_type", type, sizeof type), "type");
  const int is_switch = number_in(reply, "node_type") == 2;
  if (!is_new(guid)) return;
  *(is_switch ? &switches : &adapters) += 1;
  show_node(v, guid, ports, type);
  if (is_switch)
    for (unsigned i = 1; i <= ports; ++i) visit(v->route, 1, i);
  else if (strcmp(v->route, "0,") == 0) /* we look behind the port that we are at, and not through other adapters */
    visit(v->route, 1, own);
}

static void handle_port(const struct visit* v, const struct parley_mad_reply* reply) {
  char next[ROUTE_MAX];
  const int is_self = strcmp(v->route, "0,") == 0;
  if (number_in(reply, "port_state") == 1) return; /* down: nobody is there */
  const int length = snprintf(next, sizeof next, "%s%s%u", v->route, is_self ? "" : ",", v->port);
  if (length > 0 && (size_t)length < sizeof next) visit(next, 0, 0);
}

static void handle_replies(void) {
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  while (check(parley_mad_poll(port, &reply), "poll") == 1) {
    struct visit* v = reply.user;
    --under_way;
    if (reply.status != 0) {
      printf("# %s\n", reply.error);
      ++lost;
    } else if (v->is_port) {
      handle_port(v, &reply);
    } else {
      handle_node(v, &reply);
    }
    free(v);
  }
}

static void discover(void) {
  visit("0,", 0, 0);
  while (under_way > 0) {
    struct pollfd wait = {.fd = check(parley_mad_fd(port), "fd"), .events = POLLIN};
    if (poll(&wait, 1, -1) < 0 && errno != EINTR) exit(1);
    check(parley_mad_progress(port), "progress");
    handle_replies();
  }
  printf("%u switches, %u channel adapters and routers, %u unanswered\n", switches, adapters, lost);
}

/* ---- a subnet to look at, for who names none ---------------------------------------------------------------------- */

static pid_t simulator = -1;

static void end_simulator(void) {
  if (simulator <= 0) return;
  kill(simulator, SIGTERM);
  waitpid(simulator, NULL, 0);
}

static void start_simulator(char* where, size_t size) {
  char name[32];
  const char* program = getenv("PARLEY_PROGRAM");
  snprintf(name, sizeof name, "c_mad.%d", (int)getpid());
  snprintf(where, size, "ibsim:%s/H00001", name);
  simulator = fork();
  if (simulator == 0) {
    if (freopen("/dev/null", "w", stdout) == NULL) _exit(127);
    execlp(program != NULL ? program : "parley", "parley", "fabric", "--fat-tree", "2,4,4,2", "--name", name,
           (char*)NULL);
    _exit(127);
  }
  atexit(end_simulator);
}

int main(int argc, char** argv) {
  char where[128] = "";
  int rc;
  if (argc > 1)
    snprintf(where, sizeof where, "%s", argv[1]);
  else
    start_simulator(where, sizeof where);
  for (int i = 0; (rc = parley_mad_open(&port, where, NULL)) == -PARLEY_E_UNREACHABLE && simulator > 0 && i < 200;
       ++i) {
    if (waitpid(simulator, NULL, WNOHANG) != 0) {
      fprintf(stderr, "c_mad: the simulator has ended: is the program parley in PATH?\n");
      return 1;
    }
    poll(NULL, 0, 50); /* it is about to begin */
  }
  check(rc, where);
  discover();
  check(parley_mad_close(port), "close");
  return argc > 1 || (switches == 6 && adapters == 8 && lost == 0) ? 0 : 1;
}
