/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first pass over one TCP connection: startup frames, the agreement, and each FPDU's meaning for the set-up.
 *
 *   phase of a direction    octets seen                        next
 *   startup                 whole Request                      after_request
 *   startup                 whole Reply, R=0                   fpdus; the initiator: rtr_or_fpdu or fpdus
 *   startup                 whole Reply, R=1                   startup (both directions; RFC 5044 §7.1.2 rule 3)
 *   after_request           any                                kept until the Reply is known
 *   rtr_or_fpdu             Rtr frame of 2007, or anything     fpdus
 *   startup                 no startup frame                   over; after a lost one: fpdus
 *
 * parley_setup.c implements each of these, with and without a startup frame. */
#include "parley_mpa.h"

#include <epan/proto_data.h>

parley_preferences parley_prefs = {.heuristic_fpdu = TRUE};

static guint32 connections;

guint32 parley_conn_number(void) { return ++connections; }
guint32 parley_conn_count(void) { return connections; }
void parley_conn_forget(void) { connections = 0; }

/* ------------------------------------------------------------------ items */

parley_frame* parley_frame_of(packet_info* pinfo) {
  return (parley_frame*)p_get_proto_data(wmem_file_scope(), pinfo, proto_parley, 0);
}

parley_item* parley_item_add(parley_half* half, parley_item_kind kind, gsize size) {
  packet_info* const pinfo = half->tcp->pinfo;
  parley_frame* frame = parley_frame_of(pinfo);
  if (frame == NULL) {
    frame = wmem_new0(wmem_file_scope(), parley_frame);
    p_add_proto_data(wmem_file_scope(), pinfo, proto_parley, 0, frame);
  }
  parley_item* const item = (parley_item*)wmem_alloc0(wmem_file_scope(), size);
  item->kind = (guint8)kind;
  item->conn = half->tcp->conn;
  item->from = half->side;
  item->frame = pinfo->num;
  if (frame->last != NULL)
    frame->last->next = item;
  else
    frame->first = item;
  frame->last = item;
  return item;
}

void parley_mpa_note(parley_half* half, parley_note note, guint32 value, guint32 seq) {
  parley_item* const item = parley_item_add(half, PARLEY_ITEM_NOTE, sizeof *item);
  item->note = (guint8)note;
  item->value = value;
  item->seq = seq;
}

/* ------------------------------------------------------------------ octets in order */

static void keep_early(parley_half* half, const parley_tcp_segment* part) {
  if (half->pending_length == 0) half->pending_at = parley_stream_position_of(&half->stream, part->seq);
  if (half->pending_length + part->captured > PARLEY_EARLY_MAX) {
    half->hole_in_kept = TRUE;
    return;
  }
  parley_pending_add(half, part, half->pending_length * 2);
  half->kept_has_ack = part->has_ack;
  half->kept_ack = part->ack;
}

/* RFC 5044 §7.1.2 rule 3: the initiator validates the Reply before it sends anything more. If the initiator's
 * acknowledgment shows that it has received something, the capture only lacks the Reply. Only the responder's SYN shows
 * where its octets begin. */
static void before_reply(parley_half* half, const parley_tcp_segment* part) {
  parley_half* const responder = parley_peer_of(half);
  const guint64 received = part->has_ack ? parley_stream_position_of(&responder->stream, part->ack) : 0;
  const gboolean proven = responder->from_syn && part->has_ack && !part->again && received == responder->base;
  if (proven && half->early == 0) parley_mpa_note(half, PARLEY_NOTE_EARLY, part->captured, part->seq);
  if (proven) half->early += part->captured;
  keep_early(half, part);
  const gboolean heard = received >= responder->base + PARLEY_MPA_HEADER_LEN || !responder->from_syn;
  const gboolean silent = responder->stream.position == responder->base || responder->phase == PARLEY_PHASE_OVER;
  if (heard && ++half->kept_after_reply > 2 && silent) parley_reply_is_lost(half->tcp);
}

static void on_octets(void* context, const parley_tcp_segment* whole_part) {
  parley_half* const half = (parley_half*)context;
  parley_tcp_segment part = *whole_part;
  half->tcp->conn->side[half->side].octets += part.length;
  half->tcp->heard = part.has_ack ? parley_stream_position_of(&parley_peer_of(half)->stream, part.ack) : 0;
  parley_startup_announced(half, &part);
  while (part.captured > 0) {
    switch ((parley_phase)half->phase) {
      case PARLEY_PHASE_STARTUP:
        parley_startup_add(half, &part);
        parley_startup_announced(half, &part);
        break;
      case PARLEY_PHASE_AFTER_REQUEST: before_reply(half, &part); return;
      case PARLEY_PHASE_RTR_OR_FPDU:
        if (half->pending_length == 0 && !parley_begins_like_key(part.data, part.captured)) {
          parley_initiator_goes_on(half, &part);
          break;
        }
        keep_early(half, &part);
        parley_rtr_or_fpdu(half);
        return;
      case PARLEY_PHASE_FPDUS:
        if (parley_startup_again(half, &part)) break;
        parley_fpdus_add(half, &part);
        return;
      case PARLEY_PHASE_OVER: return;
    }
  }
}

static void on_hole(void* context, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by) {
  parley_half* const half = (parley_half*)context;
  half->any_gap = TRUE;
  half->tcp->conn->side[half->side].missing += octets;
  if (half->startup_due > 0 || half->phase == PARLEY_PHASE_STARTUP)
    octets = parley_startup_hole(half, octets, cut, shown_by);
  if (octets == 0) return;
  switch ((parley_phase)half->phase) {
    case PARLEY_PHASE_AFTER_REQUEST: half->hole_in_kept = TRUE; return;
    case PARLEY_PHASE_RTR_OR_FPDU:
      half->hole_in_kept = TRUE;
      parley_rtr_or_fpdu(half);
      return;
    case PARLEY_PHASE_FPDUS: parley_fpdus_hole(half, octets); return;
    case PARLEY_PHASE_STARTUP:
    case PARLEY_PHASE_OVER: return;
  }
}

/* ------------------------------------------------------------------ segments */

/* Records the octets of an incomplete FPDU or startup frame, so that this frame can later name the frame that completes
 * it. */
static void note_part(parley_half* half, const parley_tcp_segment* segment) {
  if (half->pending_length == 0 || segment->captured == 0 || segment->held) return;
  if (half->phase != PARLEY_PHASE_FPDUS && half->phase != PARLEY_PHASE_STARTUP) return;
  const guint64 from = MAX(half->pending_at, parley_stream_position_of(&half->stream, segment->seq));
  const guint64 to = half->pending_at + half->pending_length;
  if (from >= to) return;
  parley_part* const part = (parley_part*)parley_item_add(half, PARLEY_ITEM_PART, sizeof *part);
  part->item.seq = parley_stream_seq_of(&half->stream, from);
  part->item.octets = part->item.known = (guint32)(to - from);
  part->startup = half->phase == PARLEY_PHASE_STARTUP;
  part->next = half->parts;
  half->parts = part;
}

void parley_mpa_segment(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* tvb, guint side,
                        const parley_tcp_segment* segment, guint16 flags) {
  parley_half *const half = &tcp->half[side], *const peer = &tcp->half[1 - side];
  parley_conn* c = tcp->conn;
  tcp->pinfo = pinfo;
  tcp->tvb = tvb;
  const parley_stream_sink mine = {on_octets, on_hole, half}, theirs = {on_octets, on_hole, peer};
  if (segment->has_ack) parley_stream_acked(&peer->stream, segment->ack, segment, &theirs);
  if (half->phase == PARLEY_PHASE_RTR_OR_FPDU) parley_request_after_reply(half, segment);
  const parley_tcp_class class = parley_stream_add(&half->stream, segment, &mine);
  c = tcp->conn;
  c->last_frame = pinfo->num;
  c->last_at = pinfo->abs_ts;
  if (class == PARLEY_SEGMENT_REPEATED) c->side[side].retransmissions++;
  if (class == PARLEY_SEGMENT_AHEAD) c->side[side].out_of_order++;
  const gboolean fin = (flags & PARLEY_TCP_FIN) != 0 && c->side[side].fin_frame == 0 &&
                       segment->seq + segment->length == half->stream.next_seq;
  const gboolean rst = (flags & PARLEY_TCP_RST) != 0 && c->side[side].rst_frame == 0;
  if (fin || rst) parley_mpa_ended(half, rst);
  c = tcp->conn;
  if ((flags & PARLEY_TCP_FIN) != 0 && c->side[side].fin_frame == 0) c->side[side].fin_frame = pinfo->num;
  if ((flags & PARLEY_TCP_RST) != 0 && c->side[side].rst_frame == 0) c->side[side].rst_frame = pinfo->num;
  /* The segment does not wait if it made the stream give up the hole in front of it and pass it on. */
  const gboolean waits = class == PARLEY_SEGMENT_AHEAD && (gint32)(segment->seq - half->stream.next_seq) > 0;
  if (waits && segment->captured > 0) parley_fpdus_peek(half, segment);
  if (class == PARLEY_SEGMENT_IN_ORDER) note_part(half, segment);
  tcp->pinfo = NULL;
  tcp->tvb = NULL;
}

parley_tcp* parley_tcp_new(void) {
  parley_tcp* const tcp = wmem_new0(wmem_file_scope(), parley_tcp);
  tcp->versions = 1;
  tcp->conn = wmem_new0(wmem_file_scope(), parley_conn);
  for (guint i = 0; i < 2; i++) {
    tcp->half[i].tcp = tcp;
    tcp->half[i].side = (guint8)i;
    tcp->conn->side[i].reads_max = -1;
    tcp->conn->side[i].stream = &tcp->half[i];
  }
  return tcp;
}

/* Begins to follow a connection whose startup frames precede the capture. */
void parley_mpa_midstream(parley_tcp* tcp) {
  const gint wanted = parley_prefs.markers;
  parley_agree(tcp);
  tcp->conn->outcome = PARLEY_ESTABLISHED;
  for (guint i = 0; i < 2; i++) {
    parley_half* const half = &tcp->half[i];
    const gint only = i == PARLEY_INITIATOR ? PARLEY_MARKERS_TO_RESPONDER : PARLEY_MARKERS_TO_INITIATOR;
    half->phase = PARLEY_PHASE_FPDUS;
    half->lost = half->gap = half->any_gap = TRUE;
    half->markers = wanted == PARLEY_MARKERS_AUTO                     ? PARLEY_UNKNOWN
                    : wanted == PARLEY_MARKERS_BOTH || wanted == only ? PARLEY_YES
                                                                      : PARLEY_NO;
  }
}

gboolean parley_mpa_follows(const parley_tcp* tcp) {
  for (guint i = 0; i < 2; i++) {
    const parley_half* const half = &tcp->half[i];
    if (half->phase != PARLEY_PHASE_OVER && !(half->phase == PARLEY_PHASE_FPDUS && half->lost)) return TRUE;
  }
  return FALSE;
}
