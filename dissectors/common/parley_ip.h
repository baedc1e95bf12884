/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the IP header in a frame's octets. A dissector that does not get the segment or datagram from Wireshark finds
 * it with this. */
#ifndef PARLEY_IP_H
#define PARLEY_IP_H

#include "parley_compat.h"

typedef struct parley_ip_packet {
  gint ip;        /* offset of the header */
  gint payload;   /* offset of the payload */
  guint32 length; /* of the payload, on the wire */
  guint8 version; /* 4 or 6 */
} parley_ip_packet;

/* False: `tvb` does not have the addresses that Wireshark reports, followed by a whole datagram of that protocol. */
gboolean parley_ip_in(tvbuff_t* tvb, const packet_info* pinfo, guint8 protocol, parley_ip_packet* out);

#endif
