/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* XRC as in libibverbs since 1.2: open_xrcd, create_qp_ex, open_qp, destroy_qp, close_xrcd, on top of parley/xrc.h. If
 * PARLEY_XRC_VERBS_NAMES is defined before the inclusion, the calls also have their names in libibverbs; not in a file that
 * includes <infiniband/verbs.h>, which declares these calls.
 *
 *   libibverbs                          Here
 *   ibv_open_xrcd(context, attr)        parley_ibv_open_xrcd(); the context is a parley_xrc_opts or null
 *   ibv_close_xrcd()                    parley_ibv_close_xrcd()
 *   ibv_create_qp_ex(context, attr)     parley_ibv_create_qp_ex(): XRC_RECV only
 *   ibv_open_qp(context, attr)          parley_ibv_open_qp()
 *   ibv_modify_qp(), ibv_query_qp(), ibv_destroy_qp(): likewise
 *   ibv_get_async_event(context, ...)   parley_ibv_get_async_event(xrcd, ...), and parley_ibv_async_fd(xrcd)
 *
 * Calls that return an object return null and set errno; the others return 0 or an errno (parley/xrc_ofed.h lists them). A
 * reference is an object, as in libibverbs: a process may open one TGT queue pair several times. Each event is reported once
 * per object, and destroying the last object ends the registration. `generation` of parley_ibv_qp_open_attr, which libibverbs
 * does not have, selects a queue pair with that number; 0: the current one.
 *
 * The objects are the caller's memory: do not use one after it is destroyed. One thread at a time may use an xrcd. */
#ifndef PARLEY_XRC_VERBS_H
#define PARLEY_XRC_VERBS_H

#include <stdlib.h>
#include "parley/xrc_attr.h"

#if defined(PARLEY_XRC_VERBS_NAMES) && defined(INFINIBAND_VERBS_H)
#error "<infiniband/verbs.h> has these names: leave PARLEY_XRC_VERBS_NAMES out, and call parley_ibv_...()"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PARLEY_IBV_XRCD_INIT_ATTR_FD (1 << 0)
#define PARLEY_IBV_XRCD_INIT_ATTR_OFLAGS (1 << 1)
#define PARLEY_IBV_QP_INIT_ATTR_XRCD (1 << 1)
#define PARLEY_IBV_QP_OPEN_ATTR_NUM (1 << 0)
#define PARLEY_IBV_QP_OPEN_ATTR_XRCD (1 << 1)
#define PARLEY_IBV_QP_OPEN_ATTR_CONTEXT (1 << 2)
#define PARLEY_IBV_QP_OPEN_ATTR_TYPE (1 << 3)
#define PARLEY_IBV_QPT_XRC_RECV 10

struct parley_ibv_xrcd_init_attr {
  uint32_t comp_mask; /* both values of PARLEY_IBV_XRCD_INIT_ATTR_... */
  int fd;             /* -1: a private domain */
  int oflags;
};

struct parley_ibv_qp {
  struct parley_ibv_xrcd* xrcd;
  struct parley_ibv_qp* next; /* in the xrcd's list */
  void* qp_context;
  uint64_t generation;
  uint32_t qp_num;
};

struct parley_ibv_xrcd {
  parley_xrcd* domain;
  struct parley_ibv_qp* qps;
  struct parley_xrc_event event;   /* the event being reported */
  struct parley_ibv_qp* next_told; /* the next queue pair to report it to; null: none */
};

struct parley_ibv_qp_init_attr_ex {
  void* qp_context;
  int qp_type; /* PARLEY_IBV_QPT_XRC_RECV */
  uint32_t comp_mask;
  struct parley_ibv_xrcd* xrcd;
};

struct parley_ibv_qp_open_attr {
  uint32_t comp_mask;
  uint32_t qp_num;
  struct parley_ibv_xrcd* xrcd;
  void* qp_context;
  int qp_type;
  uint64_t generation; /* not in libibverbs */
};

struct parley_ibv_async_event {
  union {
    struct parley_ibv_qp* qp; /* null: an event of the device, or EVENTS_LOST */
  } element;
  int event_type; /* enum ibv_event_type */
};

static inline struct parley_ibv_xrcd* parley_ibv_open_xrcd(const struct parley_xrc_opts* context,
                                                           const struct parley_ibv_xrcd_init_attr* attr) {
  const uint32_t both = PARLEY_IBV_XRCD_INIT_ATTR_FD | PARLEY_IBV_XRCD_INIT_ATTR_OFLAGS;
  struct parley_ibv_xrcd* xrcd = NULL;
  int rc = -PARLEY_E_INVALID_ARGUMENT;
  if (attr != NULL && attr->comp_mask == both) {
    xrcd = (struct parley_ibv_xrcd*)calloc(1, sizeof *xrcd);
    rc = xrcd == NULL ? -PARLEY_E_NO_MEMORY : parley_xrc_open(&xrcd->domain, attr->fd, attr->oflags, context);
  }
  if (rc == 0) return xrcd;
  free(xrcd);
  errno = parley_errno(rc);
  return NULL;
}

static inline int parley_ibv_close_xrcd(struct parley_ibv_xrcd* xrcd) {
  const int rc = xrcd->qps != NULL ? -PARLEY_E_XRC_BUSY : parley_xrc_close(xrcd->domain, 0);
  if (rc == 0) free(xrcd);
  return parley_errno(rc);
}

/* Moves the xrcd's registration into a new object; null if that fails. */
static inline struct parley_ibv_qp* parley_ibv_add_qp(struct parley_ibv_xrcd* xrcd, void* context, int rc,
                                                      struct parley_ibv_qp* qp, const struct parley_xrc_tgt* tgt) {
  if (rc < 0) {
    free(qp);
    errno = parley_errno(rc);
    return NULL;
  }
  qp->xrcd = xrcd;
  qp->qp_context = context;
  qp->qp_num = tgt->qpn;
  qp->generation = tgt->generation;
  qp->next = xrcd->qps;
  xrcd->qps = qp;
  return qp;
}

static inline struct parley_ibv_qp* parley_ibv_create_qp_ex(const struct parley_xrc_opts* context,
                                                            const struct parley_ibv_qp_init_attr_ex* attr) {
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  struct parley_ibv_qp* qp;
  (void)context;
  if (attr == NULL || attr->qp_type != PARLEY_IBV_QPT_XRC_RECV || !(attr->comp_mask & PARLEY_IBV_QP_INIT_ATTR_XRCD)) {
    errno = EINVAL;
    return NULL;
  }
  qp = (struct parley_ibv_qp*)calloc(1, sizeof *qp);
  return parley_ibv_add_qp(attr->xrcd, attr->qp_context,
                           qp == NULL ? -PARLEY_E_NO_MEMORY : parley_xrc_create(attr->xrcd->domain, NULL, &tgt), qp,
                           &tgt);
}

static inline struct parley_ibv_qp* parley_ibv_open_qp(const struct parley_xrc_opts* context,
                                                       const struct parley_ibv_qp_open_attr* attr) {
  const uint32_t needed = PARLEY_IBV_QP_OPEN_ATTR_NUM | PARLEY_IBV_QP_OPEN_ATTR_XRCD | PARLEY_IBV_QP_OPEN_ATTR_TYPE;
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  struct parley_ibv_qp* qp;
  (void)context;
  if (attr == NULL || (attr->comp_mask & needed) != needed || attr->qp_type != PARLEY_IBV_QPT_XRC_RECV) {
    errno = EINVAL;
    return NULL;
  }
  qp = (struct parley_ibv_qp*)calloc(1, sizeof *qp);
  return parley_ibv_add_qp(
      attr->xrcd, attr->qp_context,
      qp == NULL ? -PARLEY_E_NO_MEMORY : parley_xrc_register(attr->xrcd->domain, attr->qp_num, attr->generation, &tgt),
      qp, &tgt);
}

static inline int parley_ibv_modify_qp(struct parley_ibv_qp* qp, const parley_ibv_qp_attr* attr, int attr_mask) {
  return parley_ibv_modify_tgt(qp->xrcd->domain, qp->qp_num, qp->generation, attr, attr_mask);
}

/* The state is the only known attribute here; `init_attr` may be null. */
static inline int parley_ibv_query_qp(struct parley_ibv_qp* qp, parley_ibv_qp_attr* attr, int attr_mask,
                                      struct parley_ibv_qp_init_attr_ex* init_attr) {
  struct parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  const int rc = parley_xrc_query(qp->xrcd->domain, qp->qp_num, qp->generation, &tgt);
  (void)attr_mask;
  if (rc < 0 || attr == NULL) return rc < 0 ? parley_errno(rc) : EINVAL;
  memset(attr, 0, sizeof *attr);
  attr->qp_state = attr->cur_qp_state = parley_ibv_state_of(tgt.state);
  if (init_attr != NULL) {
    memset(init_attr, 0, sizeof *init_attr);
    init_attr->qp_context = qp->qp_context;
    init_attr->qp_type = PARLEY_IBV_QPT_XRC_RECV;
    init_attr->comp_mask = PARLEY_IBV_QP_INIT_ATTR_XRCD;
    init_attr->xrcd = qp->xrcd;
  }
  return 0;
}

/* The first object in the list for the same queue pair. */
static inline struct parley_ibv_qp* parley_ibv_find_qp(struct parley_ibv_qp* list, uint64_t generation) {
  while (list != NULL && list->generation != generation) list = list->next;
  return list;
}

static inline int parley_ibv_destroy_qp(struct parley_ibv_qp* qp) {
  struct parley_ibv_xrcd* const xrcd = qp->xrcd;
  struct parley_ibv_qp** at = &xrcd->qps;
  struct parley_ibv_qp* const first = parley_ibv_find_qp(xrcd->qps, qp->generation);
  int rc = 0;
  if (first == qp && parley_ibv_find_qp(qp->next, qp->generation) == NULL)
    rc = parley_xrc_unregister(xrcd->domain, qp->qp_num, qp->generation);
  /* A queue pair that has already ended needs no further call. */
  if (rc < 0 && rc != -PARLEY_E_XRC_GONE && rc != -PARLEY_E_XRC_NOT_REGISTERED) return parley_errno(rc);
  if (xrcd->next_told == qp) xrcd->next_told = parley_ibv_find_qp(qp->next, qp->generation);
  while (*at != qp) at = &(*at)->next;
  *at = qp->next;
  free(qp);
  return 0;
}

/* For poll(2), like ibv_context's async_fd; below 0: errno is set. When it is readable, call parley_ibv_get_async_event()
 * until no event is pending. */
static inline int parley_ibv_async_fd(struct parley_ibv_xrcd* xrcd) {
  const int fd = parley_xrc_fd(xrcd->domain);
  if (fd < 0) errno = parley_errno(fd);
  return fd < 0 ? -1 : fd;
}

/* 0, or -1 with errno set; EAGAIN: no event is pending; EINVAL: event is null. Events need no acknowledgement. */
static inline int parley_ibv_get_async_event(struct parley_ibv_xrcd* xrcd, struct parley_ibv_async_event* event) {
  if (event == NULL) {
    errno = EINVAL;
    return -1;
  }
  while (xrcd->next_told == NULL) {
    int rc;
    xrcd->event.size = sizeof xrcd->event;
    rc = parley_xrc_poll_event(xrcd->domain, &xrcd->event);
    if (rc <= 0) {
      errno = rc < 0 ? parley_errno(rc) : EAGAIN;
      return -1;
    }
    event->element.qp = NULL;
    event->event_type = parley_ibv_event_of(xrcd->event.kind);
    if (xrcd->event.generation == 0) return 0;
    xrcd->next_told = parley_ibv_find_qp(xrcd->qps, xrcd->event.generation);
  }
  event->element.qp = xrcd->next_told;
  event->event_type = parley_ibv_event_of(xrcd->event.kind);
  xrcd->next_told = parley_ibv_find_qp(xrcd->next_told->next, xrcd->event.generation);
  return 0;
}

#ifdef PARLEY_XRC_VERBS_NAMES
#define ibv_xrcd parley_ibv_xrcd
#define ibv_xrcd_init_attr parley_ibv_xrcd_init_attr
#define ibv_qp parley_ibv_qp
#define ibv_qp_init_attr_ex parley_ibv_qp_init_attr_ex
#define ibv_qp_open_attr parley_ibv_qp_open_attr
#define ibv_async_event parley_ibv_async_event
#define ibv_open_xrcd parley_ibv_open_xrcd
#define ibv_close_xrcd parley_ibv_close_xrcd
#define ibv_create_qp_ex parley_ibv_create_qp_ex
#define ibv_open_qp parley_ibv_open_qp
#define ibv_modify_qp parley_ibv_modify_qp
#define ibv_query_qp parley_ibv_query_qp
#define ibv_destroy_qp parley_ibv_destroy_qp
#define ibv_get_async_event parley_ibv_get_async_event
#define IBV_XRCD_INIT_ATTR_FD PARLEY_IBV_XRCD_INIT_ATTR_FD
#define IBV_XRCD_INIT_ATTR_OFLAGS PARLEY_IBV_XRCD_INIT_ATTR_OFLAGS
#define IBV_QP_INIT_ATTR_XRCD PARLEY_IBV_QP_INIT_ATTR_XRCD
#define IBV_QP_OPEN_ATTR_NUM PARLEY_IBV_QP_OPEN_ATTR_NUM
#define IBV_QP_OPEN_ATTR_XRCD PARLEY_IBV_QP_OPEN_ATTR_XRCD
#define IBV_QP_OPEN_ATTR_CONTEXT PARLEY_IBV_QP_OPEN_ATTR_CONTEXT
#define IBV_QP_OPEN_ATTR_TYPE PARLEY_IBV_QP_OPEN_ATTR_TYPE
#define IBV_QPT_XRC_RECV PARLEY_IBV_QPT_XRC_RECV
#endif

#ifdef __cplusplus
}
#endif

#endif
