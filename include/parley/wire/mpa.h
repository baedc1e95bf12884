/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* MPA wire facts: RFC 5044, RFC 6581 and the OFA 2007-10 Rtr proposal. Big-endian unless said otherwise.
 * Plain C11 so that the C++ codecs and the Wireshark plugin share one source of truth. */
#ifndef PARLEY_WIRE_MPA_H
#define PARLEY_WIRE_MPA_H

/* Startup frame, RFC 5044 §7.1.1: key(16) flags(1) rev(1) pd_length(2) private data(pd_length). */
#define PARLEY_MPA_KEY_LEN 16
#define PARLEY_MPA_KEY_REQ "MPA ID Req Frame"
#define PARLEY_MPA_KEY_REP "MPA ID Rep Frame"
#define PARLEY_MPA_KEY_RTR "MPA ID Rtr Frame"     /* OFA 2007-10 Rtr §1, the spelling in its text */
#define PARLEY_MPA_KEY_RTR_HEX "MPA ID RtR Frame" /* the spelling in its octets, 74 52 */
#define PARLEY_MPA_FLAGS_OFF 16
#define PARLEY_MPA_REV_OFF 17
#define PARLEY_MPA_PD_LENGTH_OFF 18
#define PARLEY_MPA_HEADER_LEN 20
#define PARLEY_MPA_PD_MAX 512 /* RFC 5044 §7.1.1 */
#define PARLEY_MPA_STARTUP_MAX (PARLEY_MPA_HEADER_LEN + PARLEY_MPA_PD_MAX)

/* X(name, mask, text): the flag bits of octet 16. S is RFC 6581 §6; the 2007 proposal used the same bit. */
#define PARLEY_MPA_FLAGS(X)      \
  X(M, 0x80, "markers required") \
  X(C, 0x40, "CRC preferred")    \
  X(R, 0x20, "rejected")         \
  X(S, 0x10, "enhanced set-up (RFC 6581) or Rtr frame (2007)")
#define PARLEY_MPA_FLAG_M 0x80
#define PARLEY_MPA_FLAG_C 0x40
#define PARLEY_MPA_FLAG_R 0x20
#define PARLEY_MPA_FLAG_S 0x10
#define PARLEY_MPA_RES_V1 0x1F /* reserved bits under revision 1 */
#define PARLEY_MPA_RES_V2 0x0F /* reserved bits under revision 2 */

/* Enhanced data, RFC 6581 §6: two 16-bit words at the start of the private data. */
#define PARLEY_MPA_ENH_LEN 4
#define PARLEY_MPA_ENH_A 0x8000 /* IRD word: peer-to-peer model */
#define PARLEY_MPA_ENH_B 0x4000 /* IRD word: zero-length Send as RTR */
#define PARLEY_MPA_ENH_C 0x8000 /* ORD word: zero-length RDMA Write as RTR */
#define PARLEY_MPA_ENH_D 0x4000 /* ORD word: zero-length RDMA Read as RTR */
#define PARLEY_MPA_ENH_DEPTH_MASK 0x3FFF
#define PARLEY_MPA_ENH_NOT_NEGOTIATED 0x3FFF /* RFC 6581 §9.1 */
#define PARLEY_MPA_ENH_PD_MAX (PARLEY_MPA_PD_MAX - PARLEY_MPA_ENH_LEN)

/* FPDU, RFC 5044 §4.1. The CRC is sent least significant octet first (§4.4). */
#define PARLEY_MPA_LEN_LEN 2
#define PARLEY_MPA_CRC_LEN 4
#define PARLEY_MPA_ULPDU_MAX 64768 /* RFC 5044 §3 */
#define PARLEY_MPA_MULPDU_MIN 128
#define PARLEY_MPA_MARKER_INTERVAL 512 /* RFC 5044 §4.3 */
#define PARLEY_MPA_MARKER_LEN 4

#endif
