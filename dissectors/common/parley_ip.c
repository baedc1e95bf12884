/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_ip.h"

#include <string.h>

/* False: not a whole datagram of the protocol. */
static gboolean behind_ipv4(tvbuff_t* tvb, gint ip, guint8 protocol, parley_ip_packet* out) {
  if (ip < 0 || tvb_captured_length_remaining(tvb, ip) < 20) return FALSE;
  const guint head = (tvb_get_guint8(tvb, ip) & 0x0Fu) * 4;
  const guint total = tvb_get_ntohs(tvb, ip + 2);
  if (tvb_get_guint8(tvb, ip) >> 4 != 4 || head < 20 || tvb_get_guint8(tvb, ip + 9) != protocol) return FALSE;
  if ((tvb_get_ntohs(tvb, ip + 6) & 0x3FFF) != 0) return FALSE; /* a fragment */
  out->ip = ip;
  out->version = 4;
  out->payload = ip + (gint)head;
  /* Segmentation offload leaves a total length of 0. */
  out->length = total > head ? total - head
                : total == 0 ? (guint32)tvb_reported_length_remaining(tvb, out->payload)
                             : 0;
  return out->length > 0;
}

static gboolean behind_ipv6(tvbuff_t* tvb, gint ip, guint8 protocol, parley_ip_packet* out) {
  enum { HOP_BY_HOP = 0, ROUTING = 43, DESTINATION = 60 };
  if (ip < 0 || tvb_captured_length_remaining(tvb, ip) < 40 || tvb_get_guint8(tvb, ip) >> 4 != 6) return FALSE;
  guint32 left = tvb_get_ntohs(tvb, ip + 4);
  guint8 next = tvb_get_guint8(tvb, ip + 6);
  gint at = ip + 40;
  if (left == 0) left = (guint32)tvb_reported_length_remaining(tvb, at);
  while (next == HOP_BY_HOP || next == ROUTING || next == DESTINATION) {
    if (tvb_captured_length_remaining(tvb, at) < 8) return FALSE;
    const guint32 octets = (tvb_get_guint8(tvb, at + 1) + 1u) * 8;
    if (octets > left) return FALSE;
    next = tvb_get_guint8(tvb, at);
    at += (gint)octets;
    left -= octets;
  }
  out->ip = ip;
  out->version = 6;
  out->payload = at;
  out->length = left;
  return next == protocol;
}

/* Offset of the source address, which the destination address follows; -1: not found. For IPv4, Wireshark's address
 * points into the frame. For IPv6 it may be a copy, so this searches the octets in which the header can be. */
static gint addresses_in(tvbuff_t* tvb, const packet_info* pinfo) {
  enum { REACH = 256 };
  const gint captured = (gint)tvb_captured_length(tvb), each = pinfo->net_src.len;
  if (captured == 0) return -1;
  const guint8 *const octets = tvb_get_ptr(tvb, 0, captured), *const source = (const guint8*)pinfo->net_src.data;
  if (source >= octets && source < octets + captured) return (gint)(source - octets);
  if (pinfo->net_src.type != AT_IPv6 || pinfo->net_dst.len != each || pinfo->net_dst.data == NULL) return -1;
  for (gint at = 8; at <= REACH && at + 2 * each <= captured; at++)
    if (memcmp(octets + at, source, (size_t)each) == 0 &&
        memcmp(octets + at + each, pinfo->net_dst.data, (size_t)each) == 0)
      return at;
  return -1;
}

gboolean parley_ip_in(tvbuff_t* tvb, const packet_info* pinfo, guint8 protocol, parley_ip_packet* out) {
  if (pinfo->net_src.data == NULL || (pinfo->net_src.type != AT_IPv4 && pinfo->net_src.type != AT_IPv6)) return FALSE;
  const gint at = addresses_in(tvb, pinfo);
  if (at < 0) return FALSE;
  return pinfo->net_src.type == AT_IPv4 ? behind_ipv4(tvb, at - 12, protocol, out)
                                        : behind_ipv6(tvb, at - 8, protocol, out);
}
