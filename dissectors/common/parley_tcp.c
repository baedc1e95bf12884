/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_tcp.h"

#include "parley_ip.h"

static gboolean header_in(tvbuff_t* tvb, packet_info* pinfo, parley_tcp_header* out) {
  enum { TCP = 6 };
  parley_ip_packet ip;
  if (!parley_ip_in(tvb, pinfo, TCP, &ip)) return FALSE;
  const gint tcp = ip.payload;
  if (tvb_captured_length_remaining(tvb, tcp) < 20) return FALSE;
  if (tvb_get_ntohs(tvb, tcp) != pinfo->srcport || tvb_get_ntohs(tvb, tcp + 2) != pinfo->destport) return FALSE;
  const guint32 head = (guint32)(tvb_get_guint8(tvb, tcp + 12) >> 4) * 4;
  if (head < 20 || head > ip.length || (guint32)tvb_captured_length_remaining(tvb, tcp) < head) return FALSE;
  out->seq = tvb_get_ntohl(tvb, tcp + 4);
  out->ack = tvb_get_ntohl(tvb, tcp + 8);
  out->flags = tvb_get_guint8(tvb, tcp + 13);
  out->tvb = tvb;
  out->payload = tcp + (gint)head;
  out->length = ip.length - head;
  return TRUE;
}

gboolean parley_tcp_find(packet_info* pinfo, parley_tcp_header* out) {
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

/* Wireshark's TCP analysis is indexed by frame and by the shown sequence numbers, which may be relative. */
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
