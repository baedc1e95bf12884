/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_tcp.h"

#include <string.h>

/* Where the segment begins behind an IP header, and how long it is; false if this is no whole TCP segment. */
static gboolean behind_ipv4(tvbuff_t* tvb, gint ip, gint* tcp, guint32* length) {
  if (ip < 0 || tvb_captured_length_remaining(tvb, ip) < 20) return FALSE;
  const guint head = (tvb_get_guint8(tvb, ip) & 0x0Fu) * 4;
  const guint total = tvb_get_ntohs(tvb, ip + 2);
  if (tvb_get_guint8(tvb, ip) >> 4 != 4 || head < 20 || tvb_get_guint8(tvb, ip + 9) != 6) return FALSE;
  if ((tvb_get_ntohs(tvb, ip + 6) & 0x3FFF) != 0) return FALSE; /* a fragment */
  *tcp = ip + (gint)head;
  /* A total length of 0 is what offloading leaves. */
  *length = total > head ? total - head : total == 0 ? (guint32)tvb_reported_length_remaining(tvb, *tcp) : 0;
  return *length > 0;
}

static gboolean behind_ipv6(tvbuff_t* tvb, gint ip, gint* tcp, guint32* length) {
  enum { HOP_BY_HOP = 0, TCP = 6, ROUTING = 43, DESTINATION = 60 };
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
  *tcp = at;
  *length = left;
  return next == TCP;
}

/* Where the source address stands, with the destination behind it; -1: nowhere. IPv4's address points there; that of
 * IPv6 may be a copy, so that it is looked for, as far as headers below it can reach. */
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

static gboolean header_in(tvbuff_t* tvb, packet_info* pinfo, parley_tcp_header* out) {
  const gint at = addresses_in(tvb, pinfo);
  if (at < 0) return FALSE;
  gint tcp = 0;
  guint32 length = 0;
  if (pinfo->net_src.type == AT_IPv4 ? !behind_ipv4(tvb, at - 12, &tcp, &length)
                                     : !behind_ipv6(tvb, at - 8, &tcp, &length))
    return FALSE;
  if (tvb_captured_length_remaining(tvb, tcp) < 20) return FALSE;
  if (tvb_get_ntohs(tvb, tcp) != pinfo->srcport || tvb_get_ntohs(tvb, tcp + 2) != pinfo->destport) return FALSE;
  const guint32 head = (guint32)(tvb_get_guint8(tvb, tcp + 12) >> 4) * 4;
  if (head < 20 || head > length || (guint32)tvb_captured_length_remaining(tvb, tcp) < head) return FALSE;
  out->seq = tvb_get_ntohl(tvb, tcp + 4);
  out->ack = tvb_get_ntohl(tvb, tcp + 8);
  out->flags = tvb_get_guint8(tvb, tcp + 13);
  out->tvb = tvb;
  out->payload = tcp + (gint)head;
  out->length = length - head;
  return TRUE;
}

gboolean parley_tcp_find(packet_info* pinfo, parley_tcp_header* out) {
  if (pinfo->net_src.data == NULL || (pinfo->net_src.type != AT_IPv4 && pinfo->net_src.type != AT_IPv6)) return FALSE;
  for (GSList* source = pinfo->data_src; source != NULL; source = source->next)
    if (header_in(get_data_source_tvb((const struct data_source*)source->data), pinfo, out)) return TRUE;
  return FALSE;
}

parley_syns parley_syns_of(const packet_info* pinfo, const struct tcp_analysis* analysis) {
  enum { SYN = 0x01, SYN_ACK = 0x02 };
  parley_syns s = {0};
  if (analysis == NULL) return s;
  const gboolean both = (analysis->conversation_completeness & SYN_ACK) != 0;
  const gboolean one = (analysis->conversation_completeness & SYN) != 0 && pinfo->srcport != pinfo->destport;
  s.own = both || (one && pinfo->destport == analysis->server_port);
  s.other = both || (one && pinfo->srcport == analysis->server_port);
  s.own_first = analysis->fwd->base_seq + 1;
  s.other_first = analysis->rev->base_seq + 1;
  return s;
}

/* TCP's remarks go by frame and by the numbers that it shows, which are relative or not. */
gboolean parley_tcp_behind_a_hole(struct tcp_analysis* analysis, guint32 frame, const parley_tcp_header* h) {
  enum { LOST_PACKET = 0x0002 }; /* TCP_A_LOST_PACKET of Wireshark's packet-tcp.c */
  for (int relative = 0; relative < 2; relative++) {
    guint32 seq = h->seq - (relative ? analysis->fwd->base_seq : 0);
    guint32 ack = h->ack - (relative ? analysis->rev->base_seq : 0);
    wmem_tree_key_t key[] = {{1, &frame}, {1, &seq}, {1, &ack}, {0, NULL}};
    const struct tcp_acked* const said = (const struct tcp_acked*)wmem_tree_lookup32_array(analysis->acked_table, key);
    if (said != NULL) return (said->flags & LOST_PACKET) != 0;
  }
  return FALSE;
}
