/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The InfiniBand transport as carried by RoCE (IBA vol. 1 §9, Annexes A16 and A17): wire facts. All fields are big-endian,
 * except the ICRC. */
#ifndef PARLEY_WIRE_IB_H
#define PARLEY_WIRE_IB_H

#include "parley/wire/ib_codes.h"

#define PARLEY_ROCE_ETHERTYPE 0x8915 /* RoCEv1, IBA Annex A16 */
#define PARLEY_ROCE_UDP_PORT 4791    /* RoCEv2, IBA Annex A17 */
#define PARLEY_ROCE_GRH_LEN 40
#define PARLEY_ROCE_GRH_NEXT_HEADER 0x1B

#define PARLEY_IB_BTH_LEN 12
#define PARLEY_IB_ICRC_LEN 4
#define PARLEY_IB_P_KEY_DEFAULT 0xFFFF
#define PARLEY_IB_QPN_MAX 0xFFFFFF
#define PARLEY_IB_QPN_MULTICAST 0xFFFFFF
#define PARLEY_IB_GSI_QPN 1
#define PARLEY_IB_GSI_Q_KEY 0x80010000
#define PARLEY_IB_MTU_MAX 4096

/* BTH, IBA §9.2. */
#define PARLEY_IB_BTH_SE 0x80 /* octet 1 */
#define PARLEY_IB_BTH_M 0x40
#define PARLEY_IB_BTH_PAD 0x30
#define PARLEY_IB_BTH_TVER 0x0F
#define PARLEY_IB_BTH_FECN 0x80 /* octet 4 */
#define PARLEY_IB_BTH_BECN 0x40
#define PARLEY_IB_BTH_ACK_REQ 0x80 /* octet 8 */

/* X(name, value, text): bits 7 to 5 of the opcode. */
#define PARLEY_IB_SERVICES(X) \
  X(rc, 0x00, "RC")           \
  X(uc, 0x20, "UC")           \
  X(rd, 0x40, "RD")           \
  X(ud, 0x60, "UD")           \
  X(cnp, 0x80, "CNP")         \
  X(xrc, 0xA0, "XRC")         \
  X(manufacturer, 0xE0, "manufacturer")
#define PARLEY_IB_SERVICE_MASK 0xE0
#define PARLEY_IB_OPERATION_MASK 0x1F
#define PARLEY_IB_OPCODE_CNP 0x81 /* IBA A17.9.3; it has 16 reserved octets of payload */
#define PARLEY_IB_CNP_PAYLOAD_LEN 16

/* X(name, mask, length): headers after the BTH, in their order in a packet (IBA §9.3). */
#define PARLEY_IB_HEADERS(X)  \
  X(deth, 0x001, 8)           \
  X(xrceth, 0x002, 4)         \
  X(reth, 0x004, 16)          \
  X(atomic_eth, 0x008, 28)    \
  X(aeth, 0x010, 4)           \
  X(atomic_ack_eth, 0x020, 8) \
  X(imm, 0x040, 4)            \
  X(ieth, 0x080, 4)
#define PARLEY_IB_DETH 0x001
#define PARLEY_IB_XRCETH 0x002
#define PARLEY_IB_RETH 0x004
#define PARLEY_IB_ATOMIC_ETH 0x008
#define PARLEY_IB_AETH 0x010
#define PARLEY_IB_ATOMIC_ACK_ETH 0x020
#define PARLEY_IB_IMM 0x040
#define PARLEY_IB_IETH 0x080

/* The services that support an operation. */
#define PARLEY_IB_ON_RC 1
#define PARLEY_IB_ON_UC 2
#define PARLEY_IB_ON_UD 4
#define PARLEY_IB_ON_XRC 8
#define PARLEY_IB_ON_RELIABLE (PARLEY_IB_ON_RC | PARLEY_IB_ON_XRC)
#define PARLEY_IB_ON_CONNECTED (PARLEY_IB_ON_RELIABLE | PARLEY_IB_ON_UC)
#define PARLEY_IB_ON_ALL (PARLEY_IB_ON_CONNECTED | PARLEY_IB_ON_UD)

/* X(name, value, services, headers, response, text): bits 4 to 0 of the opcode, IBA §9.2.1. Requests on XRC also have an
 * XRCETH, and those on UD a DETH; responses have neither. */
#define PARLEY_IB_OPERATIONS(X)                                                                                        \
  X(send_first, 0x00, PARLEY_IB_ON_CONNECTED, 0, 0, "SEND First")                                                      \
  X(send_middle, 0x01, PARLEY_IB_ON_CONNECTED, 0, 0, "SEND Middle")                                                    \
  X(send_last, 0x02, PARLEY_IB_ON_CONNECTED, 0, 0, "SEND Last")                                                        \
  X(send_last_imm, 0x03, PARLEY_IB_ON_CONNECTED, PARLEY_IB_IMM, 0, "SEND Last with Immediate")                         \
  X(send_only, 0x04, PARLEY_IB_ON_ALL, 0, 0, "SEND Only")                                                              \
  X(send_only_imm, 0x05, PARLEY_IB_ON_ALL, PARLEY_IB_IMM, 0, "SEND Only with Immediate")                               \
  X(write_first, 0x06, PARLEY_IB_ON_CONNECTED, PARLEY_IB_RETH, 0, "RDMA WRITE First")                                  \
  X(write_middle, 0x07, PARLEY_IB_ON_CONNECTED, 0, 0, "RDMA WRITE Middle")                                             \
  X(write_last, 0x08, PARLEY_IB_ON_CONNECTED, 0, 0, "RDMA WRITE Last")                                                 \
  X(write_last_imm, 0x09, PARLEY_IB_ON_CONNECTED, PARLEY_IB_IMM, 0, "RDMA WRITE Last with Immediate")                  \
  X(write_only, 0x0A, PARLEY_IB_ON_CONNECTED, PARLEY_IB_RETH, 0, "RDMA WRITE Only")                                    \
  X(write_only_imm, 0x0B, PARLEY_IB_ON_CONNECTED, PARLEY_IB_RETH | PARLEY_IB_IMM, 0, "RDMA WRITE Only with Immediate") \
  X(read_request, 0x0C, PARLEY_IB_ON_RELIABLE, PARLEY_IB_RETH, 0, "RDMA READ Request")                                 \
  X(read_response_first, 0x0D, PARLEY_IB_ON_RELIABLE, PARLEY_IB_AETH, 1, "RDMA READ Response First")                   \
  X(read_response_middle, 0x0E, PARLEY_IB_ON_RELIABLE, 0, 1, "RDMA READ Response Middle")                              \
  X(read_response_last, 0x0F, PARLEY_IB_ON_RELIABLE, PARLEY_IB_AETH, 1, "RDMA READ Response Last")                     \
  X(read_response_only, 0x10, PARLEY_IB_ON_RELIABLE, PARLEY_IB_AETH, 1, "RDMA READ Response Only")                     \
  X(acknowledge, 0x11, PARLEY_IB_ON_RELIABLE, PARLEY_IB_AETH, 1, "Acknowledge")                                        \
  X(atomic_acknowledge, 0x12, PARLEY_IB_ON_RELIABLE, PARLEY_IB_AETH | PARLEY_IB_ATOMIC_ACK_ETH, 1,                     \
    "ATOMIC Acknowledge")                                                                                              \
  X(cmp_swap, 0x13, PARLEY_IB_ON_RELIABLE, PARLEY_IB_ATOMIC_ETH, 0, "CmpSwap")                                         \
  X(fetch_add, 0x14, PARLEY_IB_ON_RELIABLE, PARLEY_IB_ATOMIC_ETH, 0, "FetchAdd")                                       \
  X(send_last_inv, 0x16, PARLEY_IB_ON_RELIABLE, PARLEY_IB_IETH, 0, "SEND Last with Invalidate")                        \
  X(send_only_inv, 0x17, PARLEY_IB_ON_RELIABLE, PARLEY_IB_IETH, 0, "SEND Only with Invalidate")

/* AETH syndrome, IBA §9.7.5.1: bits 6 and 5 the kind, bits 4 to 0 credits, RNR timer or NAK code. Bit 7 is 0. */
#define PARLEY_IB_SYNDROME_KIND 0x60
#define PARLEY_IB_SYNDROME_ACK 0x00
#define PARLEY_IB_SYNDROME_RNR_NAK 0x20
#define PARLEY_IB_SYNDROME_NAK 0x60
#define PARLEY_IB_SYNDROME_VALUE 0x1F
#define PARLEY_IB_CREDITS_NONE 0x1F /* the sender has no end-to-end flow control */

/* X(name, code, text). */
#define PARLEY_IB_NAKS(X)                                    \
  X(psn_sequence_error, 0, "PSN sequence error")             \
  X(invalid_request, 1, "invalid request")                   \
  X(remote_access_error, 2, "remote access error")           \
  X(remote_operational_error, 3, "remote operational error") \
  X(invalid_rd_request, 4, "invalid RD request")

/* MAD header, IBA §13.4.2. */
#define PARLEY_IB_MAD_LEN 256
#define PARLEY_IB_MAD_HEADER_LEN 24
#define PARLEY_IB_MAD_BASE_VERSION 1
#define PARLEY_IB_MAD_RESPONSE 0x80 /* bit of the method */
#define PARLEY_IB_MAD_METHOD_SEND 0x03
#define PARLEY_IB_CLASS_CM 0x07
#define PARLEY_IB_CLASS_CM_VERSION 2

#endif
