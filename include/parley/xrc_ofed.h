/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* XRC as in OFED 1.3 to 1.5: reg, unreg, create, modify and query of XRC receive queue pairs by (domain, number), on top of
 * parley/xrc.h. If PARLEY_XRC_OFED_NAMES is defined before the inclusion, the calls also have their historic names.
 *
 *   OFED                                Here
 *   ibv_open_xrc_domain(context, ...)   parley_ofed_open_xrc_domain(); the context is a parley_xrc_opts or null
 *   ibv_close_xrc_domain()              parley_ofed_close_xrc_domain()
 *   ibv_create_xrc_rcv_qp()             parley_ofed_create_xrc_rcv_qp()
 *   ibv_modify_xrc_rcv_qp(), ibv_query_xrc_rcv_qp(), ibv_reg_xrc_rcv_qp(), ibv_unreg_xrc_rcv_qp(): likewise
 *   ibv_get_async_event(context, ...)   parley_ofed_get_async_event(domain, ...), and parley_ofed_async_fd(domain)
 *
 * Results are 0 or an errno, as in OFED: EINVAL (unknown, ended, another domain's, not registered, wrong state), EBUSY
 * (close with registrations), EAGAIN (no O_CREAT, and no process has the domain open), EBADF (not a file), ENOMEM; open
 * returns null and sets errno. parley_last_error() returns the cause of each EINVAL.
 *
 * Differences from OFED: registrations are counted per opened domain instead of per context, so OFED's bug with a number
 * registered over two domains cannot occur; modify requires a registration; a number in quarantine is refused, and never
 * refers to another queue pair; after unreg returns, no event of that queue pair arrives. Threads: as parley/xrc.h. */
#ifndef PARLEY_XRC_OFED_H
#define PARLEY_XRC_OFED_H

#include "parley/xrc_attr.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PARLEY_OFED_XRC_QP_EVENT_FLAG 0x80000000U

/* Its address is a handle of parley/xrc.h, and is never dereferenced. */
struct parley_ofed_xrc_domain;

struct parley_ofed_qp_init_attr {
  void* qp_context;
  struct parley_ofed_xrc_domain* xrc_domain;
};

struct parley_ofed_async_event {
  union {
    uint32_t xrc_qp_num; /* of events with the flag */
  } element;
  unsigned int event_type; /* enum ibv_event_type | PARLEY_OFED_XRC_QP_EVENT_FLAG */
};

static inline parley_xrcd* parley_ofed_handle(struct parley_ofed_xrc_domain* domain) { return (parley_xrcd*)domain; }
static inline int parley_ofed_result(int rc) { return rc < 0 ? parley_errno(rc) : 0; }

static inline struct parley_ofed_xrc_domain* parley_ofed_open_xrc_domain(const struct parley_xrc_opts* context, int fd,
                                                                         int oflag) {
  parley_xrcd* domain = NULL;
  const int rc = parley_xrc_open(&domain, fd, oflag, context);
  if (rc < 0) errno = parley_errno(rc);
  return (struct parley_ofed_xrc_domain*)domain;
}

static inline int parley_ofed_close_xrc_domain(struct parley_ofed_xrc_domain* domain) {
  return parley_ofed_result(parley_xrc_close(parley_ofed_handle(domain), 0));
}

static inline int parley_ofed_create_xrc_rcv_qp(const struct parley_ofed_qp_init_attr* init_attr,
                                                uint32_t* xrc_rcv_qpn) {
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  int rc;
  if (init_attr == NULL || xrc_rcv_qpn == NULL) return EINVAL;
  rc = parley_xrc_create(parley_ofed_handle(init_attr->xrc_domain), NULL, &tgt);
  if (rc >= 0) *xrc_rcv_qpn = tgt.qpn;
  return parley_ofed_result(rc);
}

static inline int parley_ofed_modify_xrc_rcv_qp(struct parley_ofed_xrc_domain* domain, uint32_t xrc_qp_num,
                                                const parley_ibv_qp_attr* attr, int attr_mask) {
  return parley_ibv_modify_tgt(parley_ofed_handle(domain), xrc_qp_num, 0, attr, attr_mask);
}

/* The state is the only known attribute here; `init_attr` may be null. */
static inline int parley_ofed_query_xrc_rcv_qp(struct parley_ofed_xrc_domain* domain, uint32_t xrc_qp_num,
                                               parley_ibv_qp_attr* attr, int attr_mask,
                                               struct parley_ofed_qp_init_attr* init_attr) {
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  const int rc = parley_xrc_query(parley_ofed_handle(domain), xrc_qp_num, 0, &tgt);
  (void)attr_mask;
  if (attr == NULL) return EINVAL;
  if (rc < 0) return parley_errno(rc);
  memset(attr, 0, sizeof *attr);
  attr->qp_state = attr->cur_qp_state = parley_ibv_state_of(tgt.state);
  if (init_attr != NULL) {
    init_attr->qp_context = NULL;
    init_attr->xrc_domain = domain;
  }
  return 0;
}

static inline int parley_ofed_reg_xrc_rcv_qp(struct parley_ofed_xrc_domain* domain, uint32_t xrc_qp_num) {
  return parley_ofed_result(parley_xrc_register(parley_ofed_handle(domain), xrc_qp_num, 0, NULL));
}

static inline int parley_ofed_unreg_xrc_rcv_qp(struct parley_ofed_xrc_domain* domain, uint32_t xrc_qp_num) {
  return parley_ofed_result(parley_xrc_unregister(parley_ofed_handle(domain), xrc_qp_num, 0));
}

/* For poll(2), like ibv_context's async_fd; below 0: errno is set. */
static inline int parley_ofed_async_fd(struct parley_ofed_xrc_domain* domain) {
  const int fd = parley_xrc_fd(parley_ofed_handle(domain));
  if (fd < 0) errno = parley_errno(fd);
  return fd < 0 ? -1 : fd;
}

/* 0, or -1 with errno set; EAGAIN: no event is pending. Events need no acknowledgement. */
static inline int parley_ofed_get_async_event(struct parley_ofed_xrc_domain* domain,
                                              struct parley_ofed_async_event* event) {
  struct parley_xrc_event told = PARLEY_XRC_EVENT_INIT;
  const int rc = event == NULL ? -PARLEY_E_INVALID_ARGUMENT : parley_xrc_poll_event(parley_ofed_handle(domain), &told);
  if (rc <= 0) {
    errno = rc < 0 ? parley_errno(rc) : EAGAIN;
    return -1;
  }
  event->element.xrc_qp_num = told.qpn;
  event->event_type = (unsigned)parley_ibv_event_of(told.kind);
  if (told.generation != 0) event->event_type |= PARLEY_OFED_XRC_QP_EVENT_FLAG;
  return 0;
}

#ifdef PARLEY_XRC_OFED_NAMES
#define ibv_xrc_domain parley_ofed_xrc_domain
#define ibv_open_xrc_domain parley_ofed_open_xrc_domain
#define ibv_close_xrc_domain parley_ofed_close_xrc_domain
#define ibv_create_xrc_rcv_qp parley_ofed_create_xrc_rcv_qp
#define ibv_modify_xrc_rcv_qp parley_ofed_modify_xrc_rcv_qp
#define ibv_query_xrc_rcv_qp parley_ofed_query_xrc_rcv_qp
#define ibv_reg_xrc_rcv_qp parley_ofed_reg_xrc_rcv_qp
#define ibv_unreg_xrc_rcv_qp parley_ofed_unreg_xrc_rcv_qp
#define IBV_XRC_QP_EVENT_FLAG PARLEY_OFED_XRC_QP_EVENT_FLAG
#ifndef INFINIBAND_VERBS_H /* which has others with these names */
#define ibv_qp_init_attr parley_ofed_qp_init_attr
#define ibv_async_event parley_ofed_async_event
#define ibv_get_async_event parley_ofed_get_async_event
#endif
#endif

#ifdef __cplusplus
}
#endif

#endif
