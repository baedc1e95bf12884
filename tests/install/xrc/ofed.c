/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* A program as it was written for OFED 1.5, with its names: ofed BROKER FILE. It does what lines on standard input say and prints
 * what the call returned: open OFLAGS, create, reg QPN, unreg QPN, init QPN MASK-OF-ACCESS, rtr QPN, query QPN, event, close. */
#define PARLEY_XRC_OFED_NAMES
#include <fcntl.h>
#include <parley/xrc_ofed.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct ibv_context device = PARLEY_XRC_OPTS_INIT;
static struct ibv_xrc_domain* domain;
static const char* file;

static int do_open(int oflags) {
  const int fd = file[0] == '-' ? 12345 : open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  domain = ibv_open_xrc_domain(&device, fd, oflags);
  if (fd >= 0) close(fd);
  return domain != NULL ? 0 : errno;
}

static int do_modify(uint32_t qpn, int state, unsigned access) {
  struct ibv_qp_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.qp_state = state;
  attr.qp_access_flags = access;
  attr.port_num = 1;
  attr.path_mtu = 4;
  return ibv_modify_xrc_rcv_qp(
      domain, qpn, &attr,
      state == IBV_QPS_INIT
          ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS
          : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER);
}

static void do_event(void) {
  struct ibv_async_event event;
  struct pollfd wait = {.fd = parley_ofed_async_fd(domain), .events = POLLIN};
  while (ibv_get_async_event(domain, &event) != 0)
    if (errno != EAGAIN || poll(&wait, 1, 20000) != 1) {
      printf("none\n");
      return;
    }
  printf("0x%x %u\n", event.event_type, event.event_type & IBV_XRC_QP_EVENT_FLAG ? event.element.xrc_qp_num : 0);
}

static int act(const char* word, uint32_t qpn, unsigned number) {
  struct ibv_qp_init_attr init = {.xrc_domain = domain};
  struct ibv_qp_attr attr;
  int rc = 0;
  if (strcmp(word, "open") == 0) return do_open((int)qpn);
  if (strcmp(word, "create") == 0 && (rc = ibv_create_xrc_rcv_qp(&init, &qpn)) == 0) {
    printf("qpn %u\n", qpn);
    return -1;
  }
  if (strcmp(word, "reg") == 0) return ibv_reg_xrc_rcv_qp(domain, qpn);
  if (strcmp(word, "unreg") == 0) return ibv_unreg_xrc_rcv_qp(domain, qpn);
  if (strcmp(word, "init") == 0) return do_modify(qpn, IBV_QPS_INIT, number);
  if (strcmp(word, "rtr") == 0) return do_modify(qpn, IBV_QPS_RTR, 0);
  if (strcmp(word, "close") == 0) return ibv_close_xrc_domain(domain);
  if (strcmp(word, "query") == 0 && (rc = ibv_query_xrc_rcv_qp(domain, qpn, &attr, IBV_QP_STATE, &init)) == 0) {
    printf("state %d\n", attr.qp_state);
    return -1;
  }
  return rc;
}

int main(int argc, char** argv) {
  char line[64], word[16];
  if (argc != 3) return 2;
  device.broker = argv[1];
  file = argv[2];
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof line, stdin) != NULL) {
    unsigned qpn = 0, number = 0;
    if (sscanf(line, "%15s %u %u", word, &qpn, &number) < 1) continue;
    if (strcmp(word, "event") == 0) {
      do_event();
      continue;
    }
    const int rc = act(word, qpn, number);
    if (rc >= 0) printf("%s\n", rc == 0 ? "ok" : strerrorname_np(rc));
  }
  return 0;
}
