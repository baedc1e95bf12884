/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The IP header of a frame as it stands in its octets: who is not handed the segment or datagram finds it by this. */
#ifndef PARLEY_IP_H
#define PARLEY_IP_H

#include "parley_compat.h"

typedef struct parley_ip_packet {
  gint ip;        /* offset of the header */
  gint payload;   /* offset of what it carries */
  guint32 length; /* of that, on the wire */
  guint8 version; /* 4 or 6 */
} parley_ip_packet;

/* False: the addresses that Wireshark tells are not in `tvb`, in front of a whole datagram of that protocol. */
gboolean parley_ip_in(tvbuff_t* tvb, const packet_info* pinfo, guint8 protocol, parley_ip_packet* out);

#endif
