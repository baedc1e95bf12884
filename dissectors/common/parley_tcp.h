/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TCP header of a frame as it stands in its octets. With default preferences TCP hands no segment on that it calls
 * out of order or a retransmission, nor says where one is; and what it says of numbers goes by preferences. */
#ifndef PARLEY_TCP_H
#define PARLEY_TCP_H

#include <epan/packet.h>

typedef struct parley_tcp_header {
  guint32 seq, ack;
  guint16 flags;
  tvbuff_t* tvb;  /* that holds it */
  gint payload;   /* offset in tvb */
  guint32 length; /* of the payload, on the wire */
} parley_tcp_header;

/* False: the frame has no whole TCP header whose addresses and ports are those that Wireshark tells. */
gboolean parley_tcp_find(packet_info* pinfo, parley_tcp_header* out);

#endif
