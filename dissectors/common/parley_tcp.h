/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the TCP header in a frame's octets. With default preferences, Wireshark's TCP dissector does not pass on a
 * segment that it calls out of order or a retransmission, and does not say where it is. The sequence numbers that it
 * reports depend on preferences. */
#ifndef PARLEY_TCP_H
#define PARLEY_TCP_H

#include <epan/dissectors/packet-tcp.h>

#include "parley_compat.h"

/* RFC 9293 §3.1. */
enum { PARLEY_TCP_FIN = 0x01, PARLEY_TCP_SYN = 0x02, PARLEY_TCP_RST = 0x04, PARLEY_TCP_ACK = 0x10 };

typedef struct parley_tcp_header {
  guint32 seq, ack;
  guint16 flags;
  tvbuff_t* tvb;  /* that contains it */
  gint payload;   /* offset in tvb */
  guint32 length; /* of the payload, on the wire */
} parley_tcp_header;

/* False: the frame has no whole TCP header with the addresses and ports that Wireshark reports. */
gboolean parley_tcp_find(packet_info* pinfo, parley_tcp_header* out);

/* The first sequence numbers of both directions, as far as SYNs show them. The SYN with ACK shows both (RFC 9293
 * §3.5). */
typedef struct parley_syns {
  gboolean own, other; /* of the sender of this packet, and of its peer */
  guint32 own_first, other_first;
} parley_syns;

parley_syns parley_syns_of(const packet_info* pinfo, const struct tcp_analysis* analysis);
/* Whether Wireshark's TCP analysis reports missing octets before this segment. */
gboolean parley_tcp_behind_a_hole(struct tcp_analysis* analysis, guint32 frame, const parley_tcp_header* h);

#endif
