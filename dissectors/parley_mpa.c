/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first pass over one TCP connection: startup frames, what was agreed, and what each FPDU means for the set-up.
 *
 *   phase of a direction    octets seen                        next
 *   startup                 whole Request                      after_request
 *   startup                 whole Reply, R=0                   fpdus; the initiator: rtr_or_fpdu or fpdus
 *   startup                 whole Reply, R=1                   startup (both directions; RFC 5044 §7.1.2 rule 3)
 *   after_request           any                                kept until the Reply is known
 *   rtr_or_fpdu             Rtr frame of 2007, or anything     fpdus
 *   startup                 no startup frame                   over; after a lost Reply: fpdus
 */
#include "parley_mpa.h"

#include <epan/proto_data.h>
#include <string.h>

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

/* ------------------------------------------------------------------ startup frames */

guint parley_key_of(const guint8* key) {
  static const char* const keys[] = {PARLEY_MPA_KEY_REQ, PARLEY_MPA_KEY_REP, PARLEY_MPA_KEY_RTR,
                                     PARLEY_MPA_KEY_RTR_HEX};
  for (guint i = 0; i < G_N_ELEMENTS(keys); i++)
    if (memcmp(key, keys[i], PARLEY_MPA_KEY_LEN) == 0) return i;
  return PARLEY_KEY_OTHER;
}

/* All keys begin so, and a misspelt one is still worth showing. */
static const char key_head[] = "MPA ID ";

static gboolean begins_like_key(const guint8* octets, guint32 length) {
  return memcmp(octets, key_head, MIN(length, sizeof key_head - 1)) == 0;
}

/* Alibaba's erdma puts 8 octets before the private data and does not count them; others use its revision without. */
enum { ERDMA_REVISION = 129, ERDMA_OCTETS = 8 };

static guint32 startup_size(const guint8* octets, guint32 length) {
  if (length < PARLEY_MPA_HEADER_LEN) return PARLEY_MPA_HEADER_LEN;
  const guint32 size = PARLEY_MPA_HEADER_LEN + (guint32)parley_be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
  return octets[PARLEY_MPA_REV_OFF] == ERDMA_REVISION && length >= size + ERDMA_OCTETS ? size + ERDMA_OCTETS : size;
}

static void startup_seen(parley_half* half, const guint8* octets, parley_startup* seen) {
  packet_info* const pinfo = half->tcp->pinfo;
  memset(seen, 0, sizeof *seen);
  seen->frame = pinfo->num;
  seen->at = pinfo->abs_ts;
  seen->flags = octets[PARLEY_MPA_FLAGS_OFF];
  seen->revision = octets[PARLEY_MPA_REV_OFF];
  seen->pd_length = parley_be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
  /* RFC 6581 §6: enhanced data needs S and revision 2. */
  seen->enhanced =
      seen->revision >= 2 && (seen->flags & PARLEY_MPA_FLAG_S) != 0 && seen->pd_length >= PARLEY_MPA_ENH_LEN;
  if (!seen->enhanced) return;
  seen->ird = parley_be16(octets + PARLEY_MPA_HEADER_LEN);
  seen->ord = parley_be16(octets + PARLEY_MPA_HEADER_LEN + 2);
}

static void begin_half(parley_half* half, parley_phase phase) {
  half->phase = (guint8)phase;
  half->zero = half->startup_end;
  half->zero_known = TRUE;
}

/* Octets that were kept go on as if they came now. */
static void replay(parley_half* half) {
  if (half->pending_length == 0) return;
  guint8* const kept = half->pending;
  const parley_tcp_segment part = {.frame = half->pending_frame,
                                   .seq = parley_stream_seq_of(&half->stream, half->pending_at),
                                   .length = half->pending_length,
                                   .captured = half->pending_length,
                                   .data = kept,
                                   .start = TRUE,
                                   .held = TRUE};
  half->pending = NULL;
  half->pending_length = half->pending_room = 0;
  parley_fpdus_add(half, &part);
  wmem_free(wmem_file_scope(), kept);
}

static void begin_fpdus(parley_half* half) {
  begin_half(half, PARLEY_PHASE_FPDUS);
  if (half->hole_in_kept) {
    half->lost = half->gap = half->any_gap = TRUE;
    parley_pending_drop(half);
  }
  replay(half);
}

static void rtr_or_fpdu(parley_half* half);

static void reply_seen(parley_half* half, const parley_startup* seen, guint key) {
  parley_tcp* const tcp = half->tcp;
  parley_conn* const c = tcp->conn;
  parley_half* const initiator = parley_peer_of(half);
  c->reply = *seen;
  parley_agree(tcp);
  if ((seen->flags & PARLEY_MPA_FLAG_R) != 0) {
    /* TCP is left to the ULP, which may try again on it. */
    c->outcome = PARLEY_REJECTED;
    half->phase = initiator->phase = PARLEY_PHASE_STARTUP;
    parley_pending_drop(initiator);
    return;
  }
  if (seen->revision == 0) tcp->versions = 0;
  c->outcome = key != PARLEY_KEY_REP                   ? PARLEY_FAILED
               : c->peer_to_peer || c->rtr_agreed != 0 ? PARLEY_OPEN
                                                       : PARLEY_ESTABLISHED;
  begin_half(half, PARLEY_PHASE_FPDUS);
  if (c->request.frame == 0) {
    /* What the initiator sent before is not in the capture. */
    parley_pending_drop(initiator);
    parley_stream_skip_acked(&initiator->stream);
    if (initiator->stream.synced) initiator->startup_end = initiator->stream.position;
    begin_half(initiator, PARLEY_PHASE_RTR_OR_FPDU);
    initiator->zero_known = initiator->stream.synced;
    return;
  }
  if (c->request.revision > 1 && seen->revision > 1) {
    begin_fpdus(initiator);
    return;
  }
  begin_half(initiator, PARLEY_PHASE_RTR_OR_FPDU);
  rtr_or_fpdu(initiator);
}

static void request_seen(parley_half* half, const parley_startup* seen) {
  half->tcp->conn->request = *seen;
  half->request_end = half->startup_end;
  half->phase = PARLEY_PHASE_AFTER_REQUEST;
  if (half->tcp->conn->reply.frame == 0) return;
  parley_agree(half->tcp); /* captured the wrong way round */
  begin_half(half, PARLEY_PHASE_RTR_OR_FPDU);
}

static parley_conn* conn_again(const parley_conn* old);

/* A whole startup frame. */
static void startup_whole(parley_half* half, const guint8* octets, guint32 size, guint8* copy, guint32 seq) {
  parley_tcp* const tcp = half->tcp;
  const guint key = parley_key_of(octets);
  const gboolean again = half->side == PARLEY_INITIATOR && tcp->conn->outcome == PARLEY_REJECTED;
  if (again) tcp->conn = conn_again(tcp->conn);
  parley_startup_item* const item = (parley_startup_item*)parley_item_add(half, PARLEY_ITEM_STARTUP, sizeof *item);
  item->item.seq = seq;
  item->item.octets = size;
  item->item.known = MIN(half->pending_known, size);
  item->item.copy = copy;
  item->key = (guint8)key;
  item->again = again;
  startup_seen(half, octets, &item->seen);
  half->startup_end = parley_stream_position_of(&half->stream, seq) + size;
  if (half->side == PARLEY_INITIATOR && half->phase == PARLEY_PHASE_RTR_OR_FPDU && key != PARLEY_KEY_REQ) {
    item->is_rtr_frame = TRUE;
    tcp->conn->rtr_frame = item->seen;
    tcp->conn->rtr = PARLEY_RTR_FRAME;
    tcp->conn->outcome = PARLEY_ESTABLISHED;
    begin_half(half, PARLEY_PHASE_FPDUS);
  } else if (half->side == PARLEY_INITIATOR) {
    request_seen(half, &item->seen);
  } else {
    reply_seen(half, &item->seen, key);
  }
}

/* Octets that are no startup frame where one is due. */
static void no_startup(parley_half* half, guint32 seq) {
  parley_tcp* const tcp = half->tcp;
  half->phase = PARLEY_PHASE_OVER;
  if (half->side == PARLEY_INITIATOR || tcp->conn->request.frame == 0 || !half->any_gap) {
    /* After a reject the ULP may use TCP for what it likes. */
    if (tcp->conn->outcome == PARLEY_REJECTED)
      parley_peer_of(half)->phase = PARLEY_PHASE_OVER;
    else
      parley_mpa_note(half, PARLEY_NOTE_NOT_STARTUP, 0, seq);
    return;
  }
  /* The Reply was among the missing octets, and an accepting one is likely: the peers go on. */
  tcp->reply_lost = TRUE;
  parley_agree(tcp);
  tcp->conn->outcome = PARLEY_ESTABLISHED;
  half->phase = PARLEY_PHASE_FPDUS;
  half->lost = half->gap = TRUE;
  half->zero_known = half->markers == PARLEY_NO;
  begin_fpdus(parley_peer_of(half));
}

/* Takes what belongs to a startup frame from the part; what is left stands behind it. */
static void startup_add(parley_half* half, parley_tcp_segment* part) {
  if (half->pending_length == 0) {
    half->pending_at = parley_stream_position_of(&half->stream, part->seq);
    const guint32 size = startup_size(part->data, part->captured);
    if (!part->held && begins_like_key(part->data, part->captured) && part->captured >= size) {
      const parley_tcp_segment frame = *part;
      part->seq += size;
      part->data += size;
      part->captured -= size;
      part->start = FALSE;
      half->pending_known = size;
      startup_whole(half, frame.data, size, NULL, frame.seq);
      return;
    }
  }
  while (part->captured > 0) {
    const guint32 size = startup_size(half->pending, half->pending_length);
    parley_tcp_segment head = *part;
    head.captured = MIN(part->captured, size - half->pending_length);
    parley_pending_add(half, &head, size);
    part->seq += head.captured;
    part->data += head.captured;
    part->captured -= head.captured;
    part->start = FALSE;
    if (!begins_like_key(half->pending, half->pending_length)) {
      const guint32 seq = parley_stream_seq_of(&half->stream, half->pending_at);
      no_startup(half, seq);
      if (half->phase == PARLEY_PHASE_FPDUS) replay(half);
      parley_pending_drop(half);
      return;
    }
    if (half->pending_length < PARLEY_MPA_HEADER_LEN ||
        half->pending_length < startup_size(half->pending, half->pending_length))
      continue;
    guint8* const octets = half->pending;
    const guint32 length = half->pending_length, seq = parley_stream_seq_of(&half->stream, half->pending_at);
    parley_parts_whole(half);
    half->pending = NULL;
    half->pending_length = half->pending_room = 0;
    startup_whole(half, octets, length, octets, seq);
    return;
  }
}

static void rtr_or_fpdu(parley_half* half) {
  if (half->pending_length == 0) return;
  if (begins_like_key(half->pending, half->pending_length) && !half->hole_in_kept) {
    if (half->pending_length < startup_size(half->pending, half->pending_length) ||
        half->pending_length < PARLEY_MPA_HEADER_LEN)
      return;
    guint8* const kept = half->pending;
    const guint32 length = half->pending_length;
    parley_tcp_segment rest = {.frame = half->pending_frame,
                               .seq = parley_stream_seq_of(&half->stream, half->pending_at),
                               .length = length,
                               .captured = length,
                               .data = kept,
                               .held = TRUE};
    half->pending = NULL;
    half->pending_length = half->pending_room = 0;
    startup_add(half, &rest);
    if (rest.captured > 0 && half->phase == PARLEY_PHASE_FPDUS) parley_fpdus_add(half, &rest);
    wmem_free(wmem_file_scope(), kept);
    return;
  }
  begin_fpdus(half);
}

/* ------------------------------------------------------------------ octets in order */

static void keep_early(parley_half* half, const parley_tcp_segment* part) {
  if (half->pending_length == 0) half->pending_at = parley_stream_position_of(&half->stream, part->seq);
  if (half->pending_length + part->captured > PARLEY_EARLY_MAX) {
    half->hole_in_kept = TRUE;
    return;
  }
  parley_pending_add(half, part, half->pending_length * 2);
}

static void on_octets(void* context, const parley_tcp_segment* whole_part) {
  parley_half* const half = (parley_half*)context;
  parley_tcp_segment part = *whole_part;
  half->tcp->conn->side[half->side].octets += part.length;
  while (part.captured > 0) {
    switch ((parley_phase)half->phase) {
      case PARLEY_PHASE_STARTUP: startup_add(half, &part); break;
      case PARLEY_PHASE_AFTER_REQUEST: {
        /* RFC 5044 §7.1.2 rule 3: the initiator validates the Reply before it sends anything more. If it has received
         * something by then, the capture only lacks that. */
        const guint64 received = part.has_ack ? parley_stream_position_of(&parley_peer_of(half)->stream, part.ack) : 0;
        if (received == 0) parley_mpa_note(half, PARLEY_NOTE_EARLY, part.captured, part.seq);
        keep_early(half, &part);
        if (received >= PARLEY_MPA_HEADER_LEN && ++half->kept_after_reply > 2 &&
            parley_peer_of(half)->stream.position == 0) {
          half->tcp->reply_lost = TRUE;
          parley_agree(half->tcp);
          half->tcp->conn->outcome = PARLEY_ESTABLISHED;
          parley_peer_of(half)->any_gap = TRUE;
          begin_fpdus(half);
        }
        return;
      }
      case PARLEY_PHASE_RTR_OR_FPDU:
        if (half->pending_length == 0 && !begins_like_key(part.data, part.captured)) {
          if (!half->zero_known) half->zero = parley_stream_position_of(&half->stream, part.seq);
          half->zero_known = TRUE;
          half->phase = PARLEY_PHASE_FPDUS;
          break;
        }
        keep_early(half, &part);
        rtr_or_fpdu(half);
        return;
      case PARLEY_PHASE_FPDUS: parley_fpdus_add(half, &part); return;
      case PARLEY_PHASE_OVER: return;
    }
  }
}

static void on_hole(void* context, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by) {
  parley_half* const half = (parley_half*)context;
  half->any_gap = TRUE;
  switch ((parley_phase)half->phase) {
    case PARLEY_PHASE_STARTUP:
      if (half->pending_length == 0 && !cut) return; /* perhaps a whole startup frame; what follows will show */
      if (half->pending_length >= PARLEY_MPA_HEADER_LEN &&
          half->pending_length + octets <= startup_size(half->pending, half->pending_length)) {
        /* Only private data is missing. */
        const guint32 known = MIN(half->pending_known, half->pending_length);
        parley_tcp_segment zeros = *shown_by;
        guint8* const nothing = (guint8*)wmem_alloc0(half->tcp->pinfo->pool, octets);
        zeros.data = nothing;
        zeros.captured = zeros.length = octets;
        zeros.held = TRUE;
        half->pending_known = known;
        startup_add(half, &zeros);
        return;
      }
      if (half->pending_length > 0 || cut) {
        parley_mpa_note(half, PARLEY_NOTE_STARTUP_CUT, octets, half->stream.next_seq);
        half->phase = PARLEY_PHASE_OVER;
        parley_pending_drop(half);
      }
      return;
    case PARLEY_PHASE_AFTER_REQUEST:
    case PARLEY_PHASE_RTR_OR_FPDU:
      half->hole_in_kept = TRUE;
      if (half->phase == PARLEY_PHASE_RTR_OR_FPDU) begin_fpdus(half);
      return;
    case PARLEY_PHASE_FPDUS: parley_fpdus_hole(half, octets); return;
    case PARLEY_PHASE_OVER: return;
  }
}

/* ------------------------------------------------------------------ segments */

static parley_conn* conn_again(const parley_conn* old) {
  parley_conn* const c = wmem_new0(wmem_file_scope(), parley_conn);
  c->number = parley_conn_number();
  c->first_frame = old->last_frame;
  c->first_at = old->last_at;
  c->last_frame = old->last_frame;
  c->last_at = old->last_at;
  for (guint i = 0; i < 2; i++) {
    c->addr[i] = old->addr[i];
    c->port[i] = old->port[i];
    c->side[i].reads_max = -1;
  }
  c->roles_known = TRUE;
  return c;
}

/* Octets that wait for the rest of their FPDU or startup frame: later the frame tells where it became whole. */
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

/* A capture may have the Reply in front of the Request, which then lies before the point where the Reply's
 * acknowledgment puts the stream. */
static void request_after_reply(parley_half* half, const parley_tcp_segment* segment) {
  const parley_conn* const c = half->tcp->conn;
  if (half->side != PARLEY_INITIATOR || half->phase != PARLEY_PHASE_RTR_OR_FPDU || c->request.frame != 0) return;
  if (half->stream.position != 0 || (gint32)(segment->seq - half->stream.next_seq) >= 0) return;
  if (segment->captured < PARLEY_MPA_HEADER_LEN || parley_key_of(segment->data) != PARLEY_KEY_REQ) return;
  parley_stream_sync(&half->stream, segment->seq);
}

void parley_mpa_segment(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* tvb, guint side,
                        const parley_tcp_segment* segment, guint16 flags) {
  parley_half *const half = &tcp->half[side], *const peer = &tcp->half[1 - side];
  parley_conn* c = tcp->conn;
  tcp->pinfo = pinfo;
  tcp->tvb = tvb;
  const parley_stream_sink mine = {on_octets, on_hole, half}, theirs = {on_octets, on_hole, peer};
  if (segment->has_ack) parley_stream_acked(&peer->stream, segment->ack, segment, &theirs);
  if (half->phase == PARLEY_PHASE_RTR_OR_FPDU) request_after_reply(half, segment);
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
  if ((flags & PARLEY_TCP_FIN) != 0 && c->side[side].fin_frame == 0) c->side[side].fin_frame = pinfo->num;
  if ((flags & PARLEY_TCP_RST) != 0 && c->side[side].rst_frame == 0) c->side[side].rst_frame = pinfo->num;
  if (c->outcome == PARLEY_OPEN && c->request.frame != 0 && (flags & (PARLEY_TCP_FIN | PARLEY_TCP_RST)) != 0)
    c->outcome = PARLEY_FAILED;
  /* Unless it made the stream give up the hole in front of it, which handed it on. */
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

/* The capture begins behind the startup frames. */
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
