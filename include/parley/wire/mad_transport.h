/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: packet headers, described in the same way (IBA vol. 1 §7 to §9).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_TRANSPORT_H
#define PARLEY_WIRE_MAD_TRANSPORT_H

/* IBA §9.3.5. */
#define PARLEY_MAD_AETH(F, S, R)  \
  F(syndrome, 0, 0, 8, 1, number) \
  F(msn, 1, 0, 24, 1, number)

/* IBA §9.5.3. */
#define PARLEY_MAD_ATOMIC_ACK_ETH(F, S, R) F(orig_r_data, 0, 0, 64, 1, hex)

/* IBA §9.3.4. */
#define PARLEY_MAD_ATOMIC_ETH(F, S, R) \
  F(va, 0, 0, 64, 1, hex)              \
  F(r_key, 8, 0, 32, 1, hex)           \
  F(swap_data, 12, 0, 64, 1, hex)      \
  F(cmp_data, 20, 0, 64, 1, hex)

/* IBA §9.2. */
#define PARLEY_MAD_BTH(F, S, R)            \
  F(service, 0, 0, 3, 1, number)           \
  F(function, 0, 3, 5, 1, number)          \
  F(solicited_event, 1, 0, 1, 1, flag)     \
  F(migration_request, 1, 1, 1, 1, flag)   \
  F(pad_count, 1, 2, 2, 1, number)         \
  F(transport_version, 1, 4, 4, 1, number) \
  F(p_key, 2, 0, 16, 1, hex)               \
  R(4, 0, 8)                               \
  F(dest_qp, 5, 0, 24, 1, number)          \
  F(ack_request, 8, 0, 1, 1, flag)         \
  R(8, 1, 7)                               \
  F(psn, 9, 0, 24, 1, number)

/* IBA §9.3.2. */
#define PARLEY_MAD_DETH(F, S, R) \
  F(q_key, 0, 0, 32, 1, hex)     \
  R(4, 0, 8)                     \
  F(source_qp, 5, 0, 24, 1, number)

/* IBA §7.9.4. */
#define PARLEY_MAD_FLOW_CONTROL(F, S, R) \
  F(operation, 0, 0, 4, 1, number)       \
  F(fctbs, 0, 4, 12, 1, number)          \
  F(vl, 2, 0, 4, 1, number)              \
  F(fccl, 2, 4, 12, 1, number)

/* IBA §8.3. */
#define PARLEY_MAD_GRH(F, S, R)          \
  F(ip_version, 0, 0, 4, 1, number)      \
  F(traffic_class, 0, 4, 8, 1, hex)      \
  F(flow_label, 1, 4, 20, 1, hex)        \
  F(payload_length, 4, 0, 16, 1, number) \
  F(next_header, 6, 0, 8, 1, number)     \
  F(hop_limit, 7, 0, 8, 1, number)       \
  F(sgid, 8, 0, 128, 1, gid)             \
  F(dgid, 24, 0, 128, 1, gid)

/* IBA §9.3.7. */
#define PARLEY_MAD_IETH(F, S, R) F(r_key, 0, 0, 32, 1, hex)

/* IBA §9.3.6. */
#define PARLEY_MAD_IMM_DT(F, S, R) F(immediate_data, 0, 0, 32, 1, hex)

/* IBA §7.7. */
#define PARLEY_MAD_LRH(F, S, R)         \
  F(vl, 0, 0, 4, 1, number)             \
  F(link_version, 0, 4, 4, 1, number)   \
  F(sl, 1, 0, 4, 1, number)             \
  R(1, 4, 2)                            \
  F(lnh, 1, 6, 2, 1, number)            \
  F(dlid, 2, 0, 16, 1, lid)             \
  R(4, 0, 5)                            \
  F(packet_length, 4, 5, 11, 1, number) \
  F(slid, 6, 0, 16, 1, lid)

/* IBA §9.3.1. */
#define PARLEY_MAD_RDETH(F, S, R) \
  R(0, 0, 8)                      \
  F(eec, 1, 0, 24, 1, number)

/* IBA §9.3.3. */
#define PARLEY_MAD_RETH(F, S, R) \
  F(va, 0, 0, 64, 1, hex)        \
  F(r_key, 8, 0, 32, 1, hex)     \
  F(dma_length, 12, 0, 32, 1, number)

/* IBA §5.3. */
#define PARLEY_MAD_RWH(F, S, R) \
  R(0, 0, 16)                   \
  F(ether_type, 2, 0, 16, 1, hex)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_TRANSPORT_STRUCTURES(T)                  \
  T(Aeth, 4, 0, "9.3.5", PARLEY_MAD_AETH)                   \
  T(AtomicAckEth, 8, 0, "9.5.3", PARLEY_MAD_ATOMIC_ACK_ETH) \
  T(AtomicEth, 28, 0, "9.3.4", PARLEY_MAD_ATOMIC_ETH)       \
  T(Bth, 12, 0, "9.2", PARLEY_MAD_BTH)                      \
  T(Deth, 8, 0, "9.3.2", PARLEY_MAD_DETH)                   \
  T(FlowControl, 4, 0, "7.9.4", PARLEY_MAD_FLOW_CONTROL)    \
  T(Grh, 40, 0, "8.3", PARLEY_MAD_GRH)                      \
  T(Ieth, 4, 0, "9.3.7", PARLEY_MAD_IETH)                   \
  T(ImmDt, 4, 0, "9.3.6", PARLEY_MAD_IMM_DT)                \
  T(Lrh, 8, 0, "7.7", PARLEY_MAD_LRH)                       \
  T(Rdeth, 4, 0, "9.3.1", PARLEY_MAD_RDETH)                 \
  T(Reth, 16, 0, "9.3.3", PARLEY_MAD_RETH)                  \
  T(Rwh, 4, 0, "5.3", PARLEY_MAD_RWH)

#endif
