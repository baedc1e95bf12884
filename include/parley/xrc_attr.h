/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Common parts of parley/xrc_ofed.h and parley/xrc_verbs.h: the attributes of a queue pair, and the events of the verbs. They
 * are headers only, on top of parley/xrc.h; libparley.so has no part in them.
 *
 * If <infiniband/verbs.h> was included before, the attributes are those of its struct ibv_qp_attr. */
#ifndef PARLEY_XRC_ATTR_H
#define PARLEY_XRC_ATTR_H

#include <errno.h>
#include <string.h>
#include "parley/xrc.h"

#ifdef INFINIBAND_VERBS_H
typedef struct ibv_qp_attr parley_ibv_qp_attr;
typedef struct ibv_ah_attr parley_ibv_ah_attr;
typedef enum ibv_qp_state parley_ibv_qp_state;
#else
/* As in libibverbs, reduced to the attributes of a TGT queue pair. */
struct parley_ibv_global_route {
  union {
    uint8_t raw[16];
  } dgid;
  uint32_t flow_label;
  uint8_t sgid_index, hop_limit, traffic_class;
};
struct parley_ibv_ah_attr {
  struct parley_ibv_global_route grh;
  uint16_t dlid;
  uint8_t sl, src_path_bits, static_rate, is_global, port_num;
};
struct parley_ibv_qp_attr {
  int qp_state, cur_qp_state, path_mtu;
  uint32_t rq_psn, sq_psn, dest_qp_num;
  unsigned int qp_access_flags;
  struct parley_ibv_ah_attr ah_attr;
  uint16_t pkey_index;
  uint8_t max_dest_rd_atomic, min_rnr_timer, port_num, timeout;
};
typedef struct parley_ibv_qp_attr parley_ibv_qp_attr;
typedef struct parley_ibv_ah_attr parley_ibv_ah_attr;
typedef int parley_ibv_qp_state;
#endif

/* ibv_qp_attr_mask, ibv_qp_state and ibv_event_type, with the same values. */
#define PARLEY_IBV_QP_STATE (1 << 0)
#define PARLEY_IBV_QP_ACCESS_FLAGS (1 << 3)
#define PARLEY_IBV_QP_PKEY_INDEX (1 << 4)
#define PARLEY_IBV_QP_PORT (1 << 5)
#define PARLEY_IBV_QP_AV (1 << 7)
#define PARLEY_IBV_QP_PATH_MTU (1 << 8)
#define PARLEY_IBV_QP_TIMEOUT (1 << 9)
#define PARLEY_IBV_QP_RQ_PSN (1 << 12)
#define PARLEY_IBV_QP_MIN_RNR_TIMER (1 << 15)
#define PARLEY_IBV_QP_SQ_PSN (1 << 16)
#define PARLEY_IBV_QP_MAX_DEST_RD_ATOMIC (1 << 17)
#define PARLEY_IBV_QP_DEST_QPN (1 << 20)
#define PARLEY_IBV_QPS_RESET 0
#define PARLEY_IBV_QPS_INIT 1
#define PARLEY_IBV_QPS_RTR 2
#define PARLEY_IBV_QPS_RTS 3
#define PARLEY_IBV_QPS_ERR 6
#define PARLEY_IBV_EVENT_QP_FATAL 1
#define PARLEY_IBV_EVENT_QP_REQ_ERR 2
#define PARLEY_IBV_EVENT_QP_ACCESS_ERR 3
#define PARLEY_IBV_EVENT_COMM_EST 4
#define PARLEY_IBV_EVENT_DEVICE_FATAL 8
/* Not an event of verbs: events were lost; query the queue pairs in use. */
#define PARLEY_IBV_EVENT_EVENTS_LOST 0x40000000

#if (defined(PARLEY_XRC_OFED_NAMES) || defined(PARLEY_XRC_VERBS_NAMES)) && !defined(INFINIBAND_VERBS_H)
#define ibv_context parley_xrc_opts /* replaces a device; may be null */
#define ibv_qp_attr parley_ibv_qp_attr
#define ibv_ah_attr parley_ibv_ah_attr
#define ibv_global_route parley_ibv_global_route
#define IBV_QP_STATE PARLEY_IBV_QP_STATE
#define IBV_QP_ACCESS_FLAGS PARLEY_IBV_QP_ACCESS_FLAGS
#define IBV_QP_PKEY_INDEX PARLEY_IBV_QP_PKEY_INDEX
#define IBV_QP_PORT PARLEY_IBV_QP_PORT
#define IBV_QP_AV PARLEY_IBV_QP_AV
#define IBV_QP_PATH_MTU PARLEY_IBV_QP_PATH_MTU
#define IBV_QP_TIMEOUT PARLEY_IBV_QP_TIMEOUT
#define IBV_QP_RQ_PSN PARLEY_IBV_QP_RQ_PSN
#define IBV_QP_MIN_RNR_TIMER PARLEY_IBV_QP_MIN_RNR_TIMER
#define IBV_QP_SQ_PSN PARLEY_IBV_QP_SQ_PSN
#define IBV_QP_MAX_DEST_RD_ATOMIC PARLEY_IBV_QP_MAX_DEST_RD_ATOMIC
#define IBV_QP_DEST_QPN PARLEY_IBV_QP_DEST_QPN
#define IBV_QPS_RESET PARLEY_IBV_QPS_RESET
#define IBV_QPS_INIT PARLEY_IBV_QPS_INIT
#define IBV_QPS_RTR PARLEY_IBV_QPS_RTR
#define IBV_QPS_RTS PARLEY_IBV_QPS_RTS
#define IBV_QPS_ERR PARLEY_IBV_QPS_ERR
#define IBV_EVENT_QP_FATAL PARLEY_IBV_EVENT_QP_FATAL
#define IBV_EVENT_QP_REQ_ERR PARLEY_IBV_EVENT_QP_REQ_ERR
#define IBV_EVENT_QP_ACCESS_ERR PARLEY_IBV_EVENT_QP_ACCESS_ERR
#define IBV_EVENT_COMM_EST PARLEY_IBV_EVENT_COMM_EST
#define IBV_EVENT_DEVICE_FATAL PARLEY_IBV_EVENT_DEVICE_FATAL
#endif

/* FNV-1a over the octets of a number. */
static inline uint64_t parley_ibv_mix(uint64_t digest, uint64_t value) {
  int i;
  for (i = 0; i < 8; ++i) digest = (digest ^ (value >> (8 * i) & 0xFF)) * 0x100000001B3ULL;
  return digest;
}

static inline uint64_t parley_ibv_mix_path(uint64_t d, const parley_ibv_ah_attr* ah) {
  int i;
  if (ah->is_global) {
    for (i = 0; i < 16; ++i) d = parley_ibv_mix(d, ah->grh.dgid.raw[i]);
    d = parley_ibv_mix(d, ah->grh.flow_label);
    d = parley_ibv_mix(d, ah->grh.sgid_index);
    d = parley_ibv_mix(d, ah->grh.hop_limit);
    d = parley_ibv_mix(d, ah->grh.traffic_class);
  }
  d = parley_ibv_mix(d, ah->dlid);
  d = parley_ibv_mix(d, ah->sl);
  d = parley_ibv_mix(d, ah->src_path_bits);
  d = parley_ibv_mix(d, ah->static_rate);
  return parley_ibv_mix(d, ah->port_num);
}

/* A digest of the attributes of a transition. Attributes that a TGT queue pair does not use are ignored. */
static inline uint64_t parley_ibv_attr_digest(const parley_ibv_qp_attr* a, int mask) {
  uint64_t d = 0xCBF29CE484222325ULL;
  if (mask & PARLEY_IBV_QP_ACCESS_FLAGS) d = parley_ibv_mix(parley_ibv_mix(d, 3), a->qp_access_flags);
  if (mask & PARLEY_IBV_QP_PKEY_INDEX) d = parley_ibv_mix(parley_ibv_mix(d, 4), a->pkey_index);
  if (mask & PARLEY_IBV_QP_PORT) d = parley_ibv_mix(parley_ibv_mix(d, 5), a->port_num);
  if (mask & PARLEY_IBV_QP_AV) d = parley_ibv_mix_path(parley_ibv_mix(d, 7), &a->ah_attr);
  if (mask & PARLEY_IBV_QP_PATH_MTU) d = parley_ibv_mix(parley_ibv_mix(d, 8), (uint64_t)a->path_mtu);
  if (mask & PARLEY_IBV_QP_TIMEOUT) d = parley_ibv_mix(parley_ibv_mix(d, 9), a->timeout);
  if (mask & PARLEY_IBV_QP_RQ_PSN) d = parley_ibv_mix(parley_ibv_mix(d, 12), a->rq_psn);
  if (mask & PARLEY_IBV_QP_MIN_RNR_TIMER) d = parley_ibv_mix(parley_ibv_mix(d, 15), a->min_rnr_timer);
  if (mask & PARLEY_IBV_QP_SQ_PSN) d = parley_ibv_mix(parley_ibv_mix(d, 16), a->sq_psn);
  if (mask & PARLEY_IBV_QP_MAX_DEST_RD_ATOMIC) d = parley_ibv_mix(parley_ibv_mix(d, 17), a->max_dest_rd_atomic);
  if (mask & PARLEY_IBV_QP_DEST_QPN) d = parley_ibv_mix(parley_ibv_mix(d, 20), a->dest_qp_num);
  return d;
}

/* 0, or an errno. Only the digest of the attributes is recorded; the NIC checks whether a transition has all that it needs. A
 * change without a transition (without IBV_QP_STATE) is refused: there is nothing to record. */
static inline int parley_ibv_modify_tgt(parley_xrcd* domain, uint32_t qpn, uint64_t generation,
                                        const parley_ibv_qp_attr* attr, int mask) {
  static const uint32_t states[] = {PARLEY_XRC_RESET, PARLEY_XRC_INIT, PARLEY_XRC_RTR,  PARLEY_XRC_RTS,
                                    PARLEY_XRC_GONE,  PARLEY_XRC_GONE, PARLEY_XRC_ERROR};
  int rc;
  if (attr == NULL || !(mask & PARLEY_IBV_QP_STATE) || (unsigned)attr->qp_state > PARLEY_IBV_QPS_ERR) return EINVAL;
  if (states[attr->qp_state] == PARLEY_XRC_GONE) return EINVAL; /* SQD, SQE: a TGT queue pair sends nothing */
  rc = parley_xrc_modify(domain, qpn, generation, states[attr->qp_state], parley_ibv_attr_digest(attr, mask));
  return rc < 0 ? parley_errno(rc) : 0;
}

/* ibv_qp_state for enum parley_xrc_state. */
static inline parley_ibv_qp_state parley_ibv_state_of(uint32_t state) {
  int out = PARLEY_IBV_QPS_ERR;
  if (state <= PARLEY_XRC_RESET) out = PARLEY_IBV_QPS_RESET;
  if (state == PARLEY_XRC_INIT) out = PARLEY_IBV_QPS_INIT;
  if (state == PARLEY_XRC_RTR) out = PARLEY_IBV_QPS_RTR;
  if (state == PARLEY_XRC_RTS) out = PARLEY_IBV_QPS_RTS;
  return (parley_ibv_qp_state)out;
}

/* ibv_event_type for enum parley_xrc_event_kind. Every end of a queue pair is fatal, which makes programs release it. */
static inline int parley_ibv_event_of(uint32_t kind) {
  switch (kind) {
    case PARLEY_XRC_EVENT_ESTABLISHED: return PARLEY_IBV_EVENT_COMM_EST;
    case PARLEY_XRC_EVENT_REQUEST_ERROR: return PARLEY_IBV_EVENT_QP_REQ_ERR;
    case PARLEY_XRC_EVENT_ACCESS_ERROR: return PARLEY_IBV_EVENT_QP_ACCESS_ERR;
    case PARLEY_XRC_EVENT_DEVICE_FAILED: return PARLEY_IBV_EVENT_DEVICE_FATAL;
    case PARLEY_XRC_EVENT_EVENTS_LOST: return PARLEY_IBV_EVENT_EVENTS_LOST;
    default: return PARLEY_IBV_EVENT_QP_FATAL;
  }
}

#endif
