/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parley_begin.h"

#include <string.h>

parley_entry* parley_entry_of(conversation_t* conversation) {
  return conversation == NULL ? NULL : (parley_entry*)conversation_get_proto_data(conversation, proto_parley);
}

parley_tcp* parley_tcp_of(conversation_t* conversation) {
  const parley_entry* const e = parley_entry_of(conversation);
  return e == NULL ? NULL : e->tcp;
}

parley_entry* parley_entry_made(conversation_t* conversation) {
  parley_entry* e = parley_entry_of(conversation);
  if (e != NULL) return e;
  e = wmem_new0(wmem_file_scope(), parley_entry);
  conversation_add_proto_data(conversation, proto_parley, e);
  return e;
}

const tcp_flow_t* parley_flow_of(conversation_t* conversation, packet_info* pinfo) {
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  return analysis == NULL ? NULL : analysis->fwd;
}

parley_beginning parley_startup_begins(const guint8* octets, guint32 length) {
  const guint32 have = MIN(length, PARLEY_BEGIN_ENOUGH);
  if (length == 0 || !parley_begins_like_key(octets, length)) return PARLEY_BEGINS_NOTHING;
  if (have >= PARLEY_BEGIN_TELLS && memcmp(octets, PARLEY_MPA_KEY_REQ, have) == 0) return PARLEY_BEGINS_REQUEST;
  if (have >= PARLEY_BEGIN_TELLS && memcmp(octets, PARLEY_MPA_KEY_REP, have) == 0) return PARLEY_BEGINS_REPLY;
  if (have < PARLEY_BEGIN_ENOUGH) return PARLEY_BEGINS_PERHAPS;
  const guint key = parley_key_of(octets);
  return key == PARLEY_KEY_RTR || key == PARLEY_KEY_RTR_HEX ? PARLEY_BEGINS_RTR : PARLEY_BEGINS_OTHER;
}

gboolean parley_begins_startup(parley_beginning how) {
  return how == PARLEY_BEGINS_REQUEST || how == PARLEY_BEGINS_REPLY || how == PARLEY_BEGINS_OTHER;
}

parley_beginning parley_tvb_begins(tvbuff_t* tvb) {
  const gint length = (gint)MIN(tvb_captured_length(tvb), PARLEY_BEGIN_ENOUGH);
  return length == 0 ? PARLEY_BEGINS_NOTHING : parley_startup_begins(tvb_get_ptr(tvb, 0, length), (guint32)length);
}

/* Whether the peer of a startup frame's sender has sent nothing, as both SYNs and the acknowledgment show. */
gboolean parley_peer_sent_nothing(packet_info* pinfo, const struct tcp_analysis* analysis) {
  const parley_syns s = parley_syns_of(pinfo, analysis);
  parley_tcp_header h;
  return s.own && s.other && parley_tcp_find(pinfo, &h) && h.ack == s.other_first;
}

/* Keeps the second segment of a Request if it arrived before the first, until the first shows that it is a Request.
 * Wireshark's TCP analysis limits this to segments behind a hole, and the distance from the SYN limits it to the
 * beginning of a direction. */
void parley_keep_second_half(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload,
                             const parley_tcp_header* h) {
  enum { SYN_SEEN = 0x01 };
  struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  if (analysis == NULL) return;
  const guint32 before = h->seq - (analysis->fwd->base_seq + 1);
  if ((analysis->conversation_completeness & SYN_SEEN) == 0 || before == 0 || before >= PARLEY_MPA_STARTUP_MAX) return;
  if (h->length > PARLEY_MPA_STARTUP_MAX - before || tvb_captured_length(payload) < h->length) return;
  if (!parley_tcp_behind_a_hole(analysis, pinfo->num, h)) return;
  parley_entry* const e = parley_entry_made(conversation);
  if (e->second_half != NULL) return;
  parley_tcp_segment* const kept = wmem_new0(wmem_file_scope(), parley_tcp_segment);
  kept->frame = pinfo->num;
  kept->seq = h->seq;
  kept->length = kept->captured = h->length;
  kept->data = (const guint8*)tvb_memdup(wmem_file_scope(), payload, 0, h->length);
  kept->ack = h->ack;
  kept->has_ack = (h->flags & PARLEY_TCP_ACK) != 0;
  kept->held = TRUE;
  e->second_half = kept;
  e->second_flow = analysis->fwd;
}

/* What a short first half together with the second half begins with. */
parley_beginning parley_with_second_half(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload,
                                         const parley_tcp_header* h) {
  const parley_entry* const e = parley_entry_of(conversation);
  const parley_tcp_segment* const second = e == NULL ? NULL : e->second_half;
  const guint32 length = tvb_captured_length(payload);
  if (second == NULL || e->second_flow != parley_flow_of(conversation, pinfo) || length >= PARLEY_BEGIN_ENOUGH ||
      h->seq + length != second->seq)
    return PARLEY_BEGINS_NOTHING;
  guint8 head[PARLEY_BEGIN_ENOUGH];
  const guint32 more = MIN(second->length, PARLEY_BEGIN_ENOUGH - length);
  tvb_memcpy(payload, head, 0, length);
  memcpy(head + length, second->data, more);
  return parley_startup_begins(head, length + more);
}

/* Whether octets that begin like a startup frame are one. Payload may look like that, too. So octets that are not the
 * first behind their side's SYN must look right, and behind a hole the key must be spelt right. The Rtr frame of 2007
 * follows two other startup frames. If nothing else can have been sent, it is a Request with another key. */
parley_beginning parley_believed(parley_beginning how, conversation_t* conversation, packet_info* pinfo,
                                 tvbuff_t* payload) {
  const parley_entry* const e = parley_entry_of(conversation);
  const gboolean in_pieces = e != NULL && e->head_length > 0 && e->head_flow == parley_flow_of(conversation, pinfo);
  if (how == PARLEY_BEGINS_NOTHING || how == PARLEY_BEGINS_PERHAPS) return how;
  struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  if (how == PARLEY_BEGINS_RTR)
    return parley_peer_sent_nothing(pinfo, analysis) ? PARLEY_BEGINS_OTHER : PARLEY_BEGINS_NOTHING;
  const parley_syns s = parley_syns_of(pinfo, analysis);
  parley_tcp_header h;
  if (!parley_tcp_find(pinfo, &h) || (s.own && (in_pieces ? e->head_seq : h.seq) == s.own_first)) return how;
  if (in_pieces) return PARLEY_BEGINS_NOTHING;
  if (how == PARLEY_BEGINS_OTHER && s.own && parley_tcp_behind_a_hole(analysis, pinfo->num, &h))
    return PARLEY_BEGINS_NOTHING;
  if (tvb_captured_length(payload) < PARLEY_MPA_HEADER_LEN) return s.own ? how : PARLEY_BEGINS_NOTHING;
  const guint8 revision = tvb_get_guint8(payload, PARLEY_MPA_REV_OFF), erdma = 129;
  const gboolean right =
      (revision <= 2 || revision == erdma) && tvb_get_ntohs(payload, PARLEY_MPA_PD_LENGTH_OFF) <= PARLEY_MPA_PD_MAX;
  return right ? how : PARLEY_BEGINS_NOTHING;
}

/* The first pieces of a startup frame, which arrived before it could be recognised. */
parley_tcp_segment* parley_head_of(const parley_entry* e) {
  parley_tcp_segment* const head = wmem_new0(wmem_file_scope(), parley_tcp_segment);
  head->frame = e->head_frame;
  head->seq = e->head_seq;
  head->length = head->captured = e->head_length;
  head->data = e->head;
  head->start = head->held = TRUE;
  return head;
}
