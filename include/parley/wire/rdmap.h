/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* DDP (RFC 5041), RDMAP (RFC 5040) and its extensions (RFC 7306): wire facts. All fields big-endian. */
#ifndef PARLEY_WIRE_RDMAP_H
#define PARLEY_WIRE_RDMAP_H

/* DDP control octet, RFC 5041 §4.1. */
#define PARLEY_DDP_T 0x80
#define PARLEY_DDP_L 0x40
#define PARLEY_DDP_RSVD 0x3C
#define PARLEY_DDP_DV_MASK 0x03
#define PARLEY_DDP_DV 1
#define PARLEY_DDP_TAGGED_LEN 14   /* ctl ctl STag(4) TO(8) */
#define PARLEY_DDP_UNTAGGED_LEN 18 /* ctl ctl RsvdULP(4) QN(4) MSN(4) MO(4) */
#define PARLEY_DDP_QN_SEND 0
#define PARLEY_DDP_QN_READ 1
#define PARLEY_DDP_QN_TERMINATE 2
#define PARLEY_DDP_QN_ATOMIC_RESPONSE 3 /* RFC 7306 §5.2 */

/* RDMAP control octet, RFC 5040 §4.1. */
#define PARLEY_RDMAP_RV_MASK 0xC0
#define PARLEY_RDMAP_RV 0x40
#define PARLEY_RDMAP_OPCODE_MASK 0x0F

/* X(name, opcode, tagged, queue number, text). */
#define PARLEY_RDMAP_OPCODES(X)                                                          \
  X(rdma_write, 0x0, 1, 0, "RDMA Write")                                                 \
  X(read_request, 0x1, 0, PARLEY_DDP_QN_READ, "RDMA Read Request")                       \
  X(read_response, 0x2, 1, 0, "RDMA Read Response")                                      \
  X(send, 0x3, 0, PARLEY_DDP_QN_SEND, "Send")                                            \
  X(send_inv, 0x4, 0, PARLEY_DDP_QN_SEND, "Send with Invalidate")                        \
  X(send_se, 0x5, 0, PARLEY_DDP_QN_SEND, "Send with Solicited Event")                    \
  X(send_se_inv, 0x6, 0, PARLEY_DDP_QN_SEND, "Send with Solicited Event and Invalidate") \
  X(terminate, 0x7, 0, PARLEY_DDP_QN_TERMINATE, "Terminate")                             \
  X(immediate, 0x8, 0, PARLEY_DDP_QN_SEND, "Immediate Data")                             \
  X(immediate_se, 0x9, 0, PARLEY_DDP_QN_SEND, "Immediate Data with Solicited Event")     \
  X(atomic_request, 0xA, 0, PARLEY_DDP_QN_READ, "Atomic Request")                        \
  X(atomic_response, 0xB, 0, PARLEY_DDP_QN_ATOMIC_RESPONSE, "Atomic Response")

/* X(opcode, text). F: RFC 6580 §3.1. */
#define PARLEY_RDMAP_UNASSIGNED(X) \
  X(0xC, "unassigned opcode 0xC")  \
  X(0xD, "unassigned opcode 0xD")  \
  X(0xE, "unassigned opcode 0xE")  \
  X(0xF, "experimental opcode 0xF")

#define PARLEY_RDMAP_READ_REQUEST_LEN 28   /* SinkSTag SinkTO(8) RDMARDSZ SrcSTag SrcTO(8) */
#define PARLEY_RDMAP_IMMEDIATE_LEN 8       /* RFC 7306 §6.1 */
#define PARLEY_RDMAP_ATOMIC_REQUEST_LEN 52 /* RFC 7306 §5.2.1 */
#define PARLEY_RDMAP_ATOMIC_RESPONSE_LEN 12
#define PARLEY_RDMAP_ATOMIC_FETCH_ADD 0
#define PARLEY_RDMAP_ATOMIC_CMP_SWAP 2

/* Terminate control, RFC 5040 §4.8: octet 0 layer<<4|etype, octet 1 code, octet 2 M D R. */
#define PARLEY_RDMAP_TERM_CTRL_LEN 4
#define PARLEY_RDMAP_TERM_M 0x80
#define PARLEY_RDMAP_TERM_D 0x40
#define PARLEY_RDMAP_TERM_R 0x20
/* M, D and R as Linux siw encodes them: it puts host bit-fields on the wire. */
#define PARLEY_RDMAP_TERM_SIW_M 0x01
#define PARLEY_RDMAP_TERM_SIW_D 0x02
#define PARLEY_RDMAP_TERM_SIW_R 0x04
#define PARLEY_RDMAP_LAYER_RDMAP 0
#define PARLEY_RDMAP_LAYER_DDP 1
#define PARLEY_RDMAP_LAYER_LLP 2

/* X(layer, etype, code, text): every code that RFC 5040 §4.8, RFC 5041 §7 and RFC 5044 §8 assign. */
#define PARLEY_RDMAP_TERM_CODES(X)                                    \
  X(0, 1, 0x00, "remote protection: invalid STag")                    \
  X(0, 1, 0x01, "remote protection: base or bounds violation")        \
  X(0, 1, 0x02, "remote protection: access rights violation")         \
  X(0, 1, 0x03, "remote protection: STag not associated with stream") \
  X(0, 1, 0x04, "remote protection: TO wrap")                         \
  X(0, 1, 0x09, "remote protection: STag cannot be invalidated")      \
  X(0, 1, 0xFF, "remote protection: unspecified")                     \
  X(0, 2, 0x05, "remote operation: invalid RDMAP version")            \
  X(0, 2, 0x06, "remote operation: unexpected opcode")                \
  X(0, 2, 0x07, "remote operation: catastrophic for the stream")      \
  X(0, 2, 0x08, "remote operation: catastrophic for the RNIC")        \
  X(0, 2, 0x09, "remote operation: STag cannot be invalidated")       \
  X(0, 2, 0xFF, "remote operation: unspecified")                      \
  X(1, 0, 0x00, "DDP local catastrophic")                             \
  X(1, 1, 0x00, "tagged: invalid STag")                               \
  X(1, 1, 0x01, "tagged: base or bounds violation")                   \
  X(1, 1, 0x02, "tagged: STag not associated with stream")            \
  X(1, 1, 0x03, "tagged: TO wrap")                                    \
  X(1, 1, 0x04, "tagged: invalid DDP version")                        \
  X(1, 2, 0x01, "untagged: invalid QN")                               \
  X(1, 2, 0x02, "untagged: invalid MSN, no buffer available")         \
  X(1, 2, 0x03, "untagged: invalid MSN, out of range")                \
  X(1, 2, 0x04, "untagged: invalid MO")                               \
  X(1, 2, 0x05, "untagged: message too long for the buffer")          \
  X(1, 2, 0x06, "untagged: invalid DDP version")                      \
  X(2, 0, 0x01, "MPA: TCP connection lost")                           \
  X(2, 0, 0x02, "MPA: CRC error")                                     \
  X(2, 0, 0x03, "MPA: marker and ULPDU_Length do not agree")          \
  X(2, 0, 0x04, "MPA: invalid Request or Reply frame")                \
  X(2, 0, 0x05, "MPA: local catastrophic error")                      \
  X(2, 0, 0x06, "MPA: insufficient IRD resources")                    \
  X(2, 0, 0x07, "MPA: no matching RTR option")

#endif
