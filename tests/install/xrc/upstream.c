/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A program as it is written for libibverbs, with its names, shares TGT queue pairs with one written for OFED (ofed.c), which it
 * starts: upstream BROKER FILE OFED. Row 36 of docs/xrc.md, and rows 5 to 9 with the errors of old programs. */
#define PARLEY_XRC_VERBS_NAMES
#include <fcntl.h>
#include <parley/xrc_verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct program {
  pid_t pid;
  FILE *to, *from;
};

static const char *broker, *file, *ofed;
static int failed;

#define EXPECT(condition) expect(condition, #condition, __LINE__)
static void expect(int condition, const char* text, int line) {
  if (condition) return;
  printf("upstream.c:%d: not so: %s (errno %d)\n", line, text, errno);
  failed = 1;
}

static struct program start(const char* domain_file) {
  struct program p = {0, NULL, NULL};
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) exit(2);
  fflush(stdout);
  p.pid = fork();
  if (p.pid == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    execl(ofed, ofed, broker, domain_file, (char*)NULL);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  p.to = fdopen(in[1], "w");
  p.from = fdopen(out[0], "r");
  return p;
}
static void end(struct program* p, int number) {
  if (number != 0) kill(p->pid, number);
  fclose(p->to);
  fclose(p->from);
  waitpid(p->pid, NULL, 0);
}

/* What the other answers to a line. The text lasts until the next call. */
static const char* say(struct program* p, const char* format, ...) {
  static char answer[64];
  va_list values;
  va_start(values, format);
  vfprintf(p->to, format, values);
  va_end(values);
  fputc('\n', p->to);
  fflush(p->to);
  if (fgets(answer, sizeof answer, p->from) == NULL) return "it has ended";
  answer[strcspn(answer, "\n")] = '\0';
  return answer;
}
static int said(struct program* p, const char* expected, const char* word, uint32_t qpn) {
  const char* answer = say(p, "%s %u", word, (unsigned)qpn);
  if (strcmp(answer, expected) == 0) return 1;
  printf("%s %u: %s\n", word, (unsigned)qpn, answer);
  return 0;
}
static uint32_t created(struct program* p) {
  unsigned qpn = 0;
  EXPECT(sscanf(say(p, "create"), "qpn %u", &qpn) == 1);
  return qpn;
}

static struct ibv_xrcd* open_xrcd(const char* path, int oflags) {
  struct ibv_context device = PARLEY_XRC_OPTS_INIT;
  struct ibv_xrcd_init_attr init = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = oflags};
  struct ibv_xrcd* xrcd;
  device.broker = broker;
  init.fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  xrcd = ibv_open_xrcd(&device, &init);
  if (init.fd >= 0) close(init.fd);
  return xrcd;
}
static struct ibv_qp* open_qp(struct ibv_xrcd* xrcd, uint32_t qpn) {
  struct ibv_qp_open_attr attr = {
      .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
      .qp_num = qpn,
      .xrcd = xrcd,
      .qp_type = IBV_QPT_XRC_RECV};
  return ibv_open_qp(NULL, &attr);
}
static int state_of(struct ibv_qp* qp) {
  struct ibv_qp_attr attr;
  return ibv_query_qp(qp, &attr, IBV_QP_STATE, NULL) == 0 ? attr.qp_state : -1;
}
static int next_event(struct ibv_xrcd* xrcd, struct ibv_async_event* event) {
  struct pollfd wait = {.fd = parley_ibv_async_fd(xrcd), .events = POLLIN};
  while (ibv_get_async_event(xrcd, event) != 0)
    if (errno != EAGAIN || poll(&wait, 1, 20000) != 1) return -1;
  return event->event_type;
}

/* The one of OFED makes it and is killed; the one of libibverbs goes on with it, and a second one of OFED joins. */
static void row_36(struct ibv_xrcd* xrcd) {
  struct program maker = start(file), joiner = start(file);
  struct ibv_qp_attr attr;
  struct ibv_async_event event;
  struct ibv_qp *one, *two;
  uint32_t t;
  EXPECT(said(&maker, "ok", "open", O_CREAT) && said(&joiner, "ok", "open", 0));
  t = created(&maker);
  EXPECT(strcmp(say(&maker, "init %u 7", (unsigned)t), "ok") == 0);
  one = open_qp(xrcd, t);
  two = open_qp(xrcd, t); /* another reference, in the same process */
  if (one == NULL || two == NULL) exit(1);
  EXPECT(one->qp_num == t && one != two && state_of(one) == IBV_QPS_INIT);
  memset(&attr, 0, sizeof attr);
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = 7;
  EXPECT(ibv_modify_qp(one, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
  attr.qp_access_flags = 6; /* not what the other has set */
  EXPECT(ibv_modify_qp(one, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == EINVAL);
  EXPECT(said(&maker, "ok", "rtr", t));
  EXPECT(said(&joiner, "ok", "reg", t));
  end(&maker, SIGKILL);
  EXPECT(state_of(two) == IBV_QPS_RTR && said(&joiner, "state 2", "query", t));
  EXPECT(parley_xrc_report(xrcd->domain, one->qp_num, one->generation, PARLEY_XRC_EVENT_FATAL, 0) == 0);
  EXPECT(strncmp(say(&joiner, "event"), "0x80000001 ", 11) == 0); /* IBV_EVENT_QP_FATAL, with OFED's flag */
  EXPECT(next_event(xrcd, &event) == IBV_EVENT_QP_FATAL && event.element.qp == two);
  EXPECT(next_event(xrcd, &event) == IBV_EVENT_QP_FATAL && event.element.qp == one); /* each reference is told */
  EXPECT(ibv_get_async_event(xrcd, &event) == -1 && errno == EAGAIN);
  EXPECT(ibv_close_xrcd(xrcd) == EBUSY);
  EXPECT(said(&joiner, "EBUSY", "close", 0));
  EXPECT(said(&joiner, "ok", "unreg", t));
  EXPECT(ibv_destroy_qp(one) == 0 && state_of(two) == IBV_QPS_ERR); /* there is another reference */
  EXPECT(ibv_destroy_qp(two) == 0);                                 /* the last reference of the last process */
  EXPECT(said(&joiner, "EINVAL", "query", t) && open_qp(xrcd, t) == NULL && errno == EINVAL);
  EXPECT(said(&joiner, "ok", "close", 0));
  end(&joiner, 0);
}

static void rows_5_to_9(struct ibv_xrcd* xrcd) {
  char other[256];
  struct program p = start(file), elsewhere, nowhere = start("-");
  struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
  struct ibv_qp* made = ibv_create_qp_ex(NULL, &init);
  uint32_t t;
  if (made == NULL) exit(1);
  t = made->qp_num;
  snprintf(other, sizeof other, "%s.other", file);
  elsewhere = start(other);
  EXPECT(said(&nowhere, "EBADF", "open", O_CREAT));
  EXPECT(said(&elsewhere, "EAGAIN", "open", 0) && said(&elsewhere, "ok", "open", O_CREAT));
  EXPECT(said(&p, "EINVAL", "open", O_CREAT | O_EXCL) && said(&p, "ok", "open", O_CREAT));
  EXPECT(said(&p, "ok", "reg", t) && said(&p, "ok", "reg", t)); /* row 5: counts once */
  EXPECT(said(&p, "ok", "unreg", t) && said(&p, "EINVAL", "unreg", t));
  EXPECT(said(&elsewhere, "EINVAL", "unreg", t) && said(&elsewhere, "EINVAL", "reg", t));
  EXPECT(said(&p, "EINVAL", "reg", 12345));
  EXPECT(parley_xrc_note_other(xrcd->domain, 77) == 0 && said(&p, "EINVAL", "reg", 77));
  EXPECT(state_of(made) == IBV_QPS_RESET && ibv_destroy_qp(made) == 0);
  EXPECT(said(&p, "EINVAL", "reg", t)); /* row 9 */
  EXPECT(said(&p, "ok", "close", 0) && said(&p, "EINVAL", "close", 0));
  end(&p, 0);
  end(&elsewhere, 0);
  end(&nowhere, 0);
  unlink(other);
}

int main(int argc, char** argv) {
  struct ibv_xrcd* xrcd;
  if (argc != 4) return 2;
  broker = argv[1];
  file = argv[2];
  ofed = argv[3];
  signal(SIGPIPE, SIG_IGN);
  xrcd = open_xrcd(file, O_CREAT);
  if (xrcd == NULL) {
    printf("open: %s\n", parley_last_error());
    return 1;
  }
  row_36(xrcd);
  rows_5_to_9(xrcd);
  EXPECT(ibv_close_xrcd(xrcd) == 0);
  return failed;
}
