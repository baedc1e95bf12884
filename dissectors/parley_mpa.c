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

static guint16 be16(const guint8* at) { return (guint16)(at[0] << 8 | at[1]); }

static parley_half* peer_of(parley_half* half) { return &half->tcp->half[1 - half->side]; }

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
  const guint32 size = PARLEY_MPA_HEADER_LEN + (guint32)be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
  return octets[PARLEY_MPA_REV_OFF] == ERDMA_REVISION && length >= size + ERDMA_OCTETS ? size + ERDMA_OCTETS : size;
}

static gboolean enhanced(const parley_startup* s) { return s->frame != 0 && s->enhanced; }

/* RFC 6581 §9.1: what each side may have outstanding. 0x3FFF: not negotiated. */
static void agree_depths(parley_conn* c) {
  c->side[PARLEY_INITIATOR].reads_max = c->side[PARLEY_RESPONDER].reads_max = -1;
  if (!enhanced(&c->request) || !enhanced(&c->reply)) return;
  const guint none = PARLEY_MPA_ENH_NOT_NEGOTIATED;
  const guint q_ird = c->request.ird & PARLEY_MPA_ENH_DEPTH_MASK, q_ord = c->request.ord & PARLEY_MPA_ENH_DEPTH_MASK;
  const guint r_ird = c->reply.ird & PARLEY_MPA_ENH_DEPTH_MASK, r_ord = c->reply.ord & PARLEY_MPA_ENH_DEPTH_MASK;
  if (q_ord != none && r_ird != none && r_ird > 0) c->side[PARLEY_INITIATOR].reads_max = (gint32)r_ird;
  if (q_ird != none && r_ord != none) c->side[PARLEY_RESPONDER].reads_max = (gint32)r_ord;
}

/* RFC 6581 §9.2, OFA 2007-10 Rtr §2. */
static void agree_rtr(parley_conn* c) {
  const parley_startup *const q = &c->request, *const r = &c->reply;
  c->rtr_agreed = 0;
  c->peer_to_peer = FALSE;
  if (q->frame == 0 || r->frame == 0) return;
  if (q->revision <= 1 && r->revision <= 1 && (q->flags & r->flags & PARLEY_MPA_FLAG_S) != 0)
    c->rtr_agreed |= 1 << PARLEY_RTR_FRAME;
  if (!enhanced(q) || !enhanced(r) || (q->ird & r->ird & PARLEY_MPA_ENH_A) == 0) return;
  c->peer_to_peer = TRUE;
  if ((q->ird & r->ird & PARLEY_MPA_ENH_B) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_SEND;
  if ((q->ord & r->ord & PARLEY_MPA_ENH_C) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_WRITE;
  if ((q->ord & r->ord & PARLEY_MPA_ENH_D) != 0) c->rtr_agreed |= 1 << PARLEY_RTR_READ;
}

static parley_known flag_of(const parley_startup* s, guint8 flag) {
  return s->frame == 0 ? PARLEY_UNKNOWN : (s->flags & flag) != 0 ? PARLEY_YES : PARLEY_NO;
}

/* RFC 5044 §4.4, §7.1.1: CRC if either asked; markers for the one that asked. */
static void agree(parley_tcp* tcp) {
  parley_conn* const c = tcp->conn;
  const parley_known q = flag_of(&c->request, PARLEY_MPA_FLAG_C), r = flag_of(&c->reply, PARLEY_MPA_FLAG_C);
  const parley_known crc = q == PARLEY_YES || r == PARLEY_YES    ? PARLEY_YES
                           : q == PARLEY_NO && r == PARLEY_NO    ? PARLEY_NO
                           : parley_prefs.crc == PARLEY_CRC_ON   ? PARLEY_YES
                           : parley_prefs.crc == PARLEY_CRC_NONE ? PARLEY_NO
                                                                 : PARLEY_UNKNOWN;
  const parley_known markers[2] = {[PARLEY_INITIATOR] = flag_of(&c->reply, PARLEY_MPA_FLAG_M),
                                   [PARLEY_RESPONDER] = flag_of(&c->request, PARLEY_MPA_FLAG_M)};
  for (guint i = 0; i < 2; i++) {
    tcp->half[i].crc = (guint8)crc;
    tcp->half[i].markers = (guint8)markers[i];
    c->side[i].crc = crc == PARLEY_YES;
    c->side[i].markers = markers[i] == PARLEY_YES;
  }
  agree_depths(c);
  agree_rtr(c);
}

static void startup_seen(parley_half* half, const guint8* octets, parley_startup* seen) {
  packet_info* const pinfo = half->tcp->pinfo;
  memset(seen, 0, sizeof *seen);
  seen->frame = pinfo->num;
  seen->at = pinfo->abs_ts;
  seen->flags = octets[PARLEY_MPA_FLAGS_OFF];
  seen->revision = octets[PARLEY_MPA_REV_OFF];
  seen->pd_length = be16(octets + PARLEY_MPA_PD_LENGTH_OFF);
  /* RFC 6581 §6: enhanced data needs S and revision 2. */
  seen->enhanced =
      seen->revision >= 2 && (seen->flags & PARLEY_MPA_FLAG_S) != 0 && seen->pd_length >= PARLEY_MPA_ENH_LEN;
  if (!seen->enhanced) return;
  seen->ird = be16(octets + PARLEY_MPA_HEADER_LEN);
  seen->ord = be16(octets + PARLEY_MPA_HEADER_LEN + 2);
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
  parley_half* const initiator = peer_of(half);
  c->reply = *seen;
  agree(tcp);
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
  agree(half->tcp); /* captured the wrong way round */
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
    if (tcp->conn->outcome != PARLEY_REJECTED) parley_mpa_note(half, PARLEY_NOTE_NOT_STARTUP, 0, seq);
    return;
  }
  /* The Reply was among the missing octets, and an accepting one is likely: the peers go on. */
  tcp->reply_lost = TRUE;
  agree(tcp);
  tcp->conn->outcome = PARLEY_ESTABLISHED;
  half->phase = PARLEY_PHASE_FPDUS;
  half->lost = half->gap = TRUE;
  half->zero_known = half->markers == PARLEY_NO;
  begin_fpdus(peer_of(half));
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
        const guint64 received = part.has_ack ? parley_stream_position_of(&peer_of(half)->stream, part.ack) : 0;
        if (received == 0) parley_mpa_note(half, PARLEY_NOTE_EARLY, part.captured, part.seq);
        keep_early(half, &part);
        if (received >= PARLEY_MPA_HEADER_LEN && ++half->kept_after_reply > 2 && peer_of(half)->stream.position == 0) {
          half->tcp->reply_lost = TRUE;
          agree(half->tcp);
          half->tcp->conn->outcome = PARLEY_ESTABLISHED;
          peer_of(half)->any_gap = TRUE;
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

/* ------------------------------------------------------------------ FPDUs */

static guint8 rtr_form(const guint8* ulpdu, guint32 octets, guint32 length) {
  if (octets < length || octets < PARLEY_DDP_TAGGED_LEN || (ulpdu[0] & PARLEY_DDP_L) == 0) return PARLEY_RTR_NONE;
  const guint8 opcode = ulpdu[1] & PARLEY_RDMAP_OPCODE_MASK;
  if ((ulpdu[0] & PARLEY_DDP_T) != 0)
    return opcode == 0 && length == PARLEY_DDP_TAGGED_LEN ? PARLEY_RTR_WRITE : PARLEY_RTR_NONE;
  if (opcode == 3 && length == PARLEY_DDP_UNTAGGED_LEN) return PARLEY_RTR_SEND;
  if (opcode != 1 || length != PARLEY_DDP_UNTAGGED_LEN + PARLEY_RDMAP_READ_REQUEST_LEN) return PARLEY_RTR_NONE;
  static const guint8 zero[4];
  return memcmp(ulpdu + PARLEY_DDP_UNTAGGED_LEN + 12, zero, 4) == 0 ? PARLEY_RTR_READ : PARLEY_RTR_NONE;
}

static gboolean is_terminate(const guint8* ulpdu, guint32 octets) {
  return octets >= 2 && (ulpdu[0] & PARLEY_DDP_T) == 0 && (ulpdu[1] & PARLEY_RDMAP_OPCODE_MASK) == 7;
}

/* The initiator's first FPDU: is it the RTR that was agreed? RFC 6581 §9.2. */
static void first_of_initiator(parley_half* half, parley_fpdu* f, const guint8* ulpdu, guint32 octets) {
  parley_conn* const c = half->tcp->conn;
  c->first_fpdu_frame = f->item.frame;
  c->first_fpdu_at = f->pdu.at;
  if (f->crc == PARLEY_CRC_BAD || octets < f->pdu.ulpdu_length) return;
  if (is_terminate(ulpdu, octets)) {
    /* RFC 5044 §8, RFC 6581 §8: codes 4 to 7 of the LLP speak of the set-up. */
    const guint32 at = PARLEY_DDP_UNTAGGED_LEN;
    if (octets >= at + 2 && ((ulpdu[at] >> 4) == PARLEY_RDMAP_LAYER_LLP || ulpdu[at] == PARLEY_RDMAP_LAYER_LLP) &&
        ulpdu[at + 1] >= 4 && ulpdu[at + 1] <= 7 && half->tcp->half[PARLEY_RESPONDER].fpdus_seen == 0)
      c->outcome = PARLEY_FAILED;
    return;
  }
  const guint8 form = rtr_form(ulpdu, octets, f->pdu.ulpdu_length);
  const guint8 agreed = c->rtr_agreed & (guint8) ~(1 << PARLEY_RTR_FRAME);
  if (c->outcome == PARLEY_OPEN) c->outcome = PARLEY_ESTABLISHED;
  if (c->peer_to_peer) {
    f->rtr = form;
    f->rtr_wrong = (agreed & (1 << form)) == 0 || form == PARLEY_RTR_NONE;
    f->pdu.is_rtr = !f->rtr_wrong;
    if (f->rtr_wrong && half->any_gap) f->rtr_wrong = FALSE; /* the capture may lack it */
  } else if ((c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) != 0 && c->rtr_frame.frame == 0) {
    f->no_rtr_frame = !half->any_gap;
    f->rtr = form;
  } else if (c->request.frame != 0 && MIN(c->request.revision, c->reply.revision) <= 1 && c->rtr == PARLEY_RTR_NONE) {
    /* Linux's cxgb4 and irdma send one without announcing it, under revision 1. */
    f->rtr = form;
    f->pdu.is_rtr = form != PARLEY_RTR_NONE;
  }
  if (f->rtr != PARLEY_RTR_NONE) c->rtr = f->rtr;
}

/* RFC 5044 §7.1.2 rule 4: the responder receives and validates an FPDU before it sends one. Its TCP acknowledgment says
 * what it had received, whatever the capture holds; the Rtr frame of 2007 counts as well. */
static void first_of_responder(parley_half* half, parley_fpdu* f, guint64 peer_received) {
  const parley_half* const initiator = peer_of(half);
  f->too_early = initiator->startup_end != 0 && half->tcp->conn->request.frame != 0 && peer_received != 0 &&
                 peer_received <= initiator->request_end;
}

static void check_markers(parley_half* half, parley_fpdu* f, const guint8* wire, guint32 known) {
  const guint64 position = f->pdu.position;
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  const guint32 first = phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
  const guint32 header = first == 0 ? PARLEY_MPA_MARKER_LEN : 0;
  for (guint32 m = first; m + PARLEY_MPA_MARKER_LEN <= MIN(known, f->item.octets); m += PARLEY_MPA_MARKER_INTERVAL) {
    /* RFC 5044 §4.3: the low two bits of FPDUPTR are treated as 0. */
    const guint32 pointer = be16(wire + m + 2) & 0xFFFCu;
    const guint32 expected = m < header ? 0 : m - header;
    if (pointer == (expected & 0xFFFFu)) continue;
    f->marker_wrong = TRUE;
    f->marker_ptr = (guint16)pointer;
    f->marker_expected = (guint16)expected;
    f->marker_at = m;
    half->tcp->conn->side[half->side].marker_errors++;
    return;
  }
}

static tvbuff_t* ulpdu_tvb(const parley_half* half, const guint8* ulpdu, guint32 octets, guint32 length) {
  return tvb_new_child_real_data(half->tcp->tvb, ulpdu, octets, (gint)length);
}

/* One that was shown before its turn. Those in front of it were shown for nothing: the walk did not meet them. */
static parley_fpdu* take_ahead(parley_half* half, guint32 seq, guint32 octets) {
  for (parley_fpdu* f = half->ahead; f != NULL; f = f->next_ahead) {
    if (f->item.seq != seq || f->item.octets != octets) continue;
    half->ahead = f->next_ahead;
    if (half->ahead == NULL) half->ahead_last = NULL;
    return f;
  }
  return NULL;
}

static guint32 lead_of(const parley_fpdu* f) {
  return f->markers && f->pdu.position % PARLEY_MPA_MARKER_INTERVAL == 0 ? PARLEY_MPA_MARKER_LEN : 0;
}

parley_fpdu* parley_mpa_fpdu_item(parley_half* half, const guint8* wire, guint32 octets, guint64 at,
                                  parley_crc_state crc) {
  parley_tcp* const tcp = half->tcp;
  parley_direction* const side = &tcp->conn->side[half->side];
  parley_fpdu* const f = (parley_fpdu*)parley_item_add(half, PARLEY_ITEM_FPDU, sizeof *f);
  f->item.seq = parley_stream_seq_of(&half->stream, at);
  f->item.octets = f->item.known = octets;
  f->first_frame = tcp->pinfo->num;
  f->crc = (guint8)crc;
  f->pdu.bad_crc = crc == PARLEY_CRC_BAD;
  f->markers = half->markers == PARLEY_YES;
  f->pdu.conn = tcp->conn;
  f->pdu.from = half->side;
  f->pdu.frame = tcp->pinfo->num;
  f->pdu.at = tcp->pinfo->abs_ts;
  f->pdu.position = at - half->zero;
  f->pdu.ulpdu_length = be16(wire + lead_of(f));
  side->crc = half->crc == PARLEY_YES;
  side->markers = f->markers;
  side->fpdus++;
  return f;
}

void parley_mpa_fpdu(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                     guint32 first_frame, guint64 peer_received, gboolean in_payload, parley_crc_state crc) {
  parley_tcp* const tcp = half->tcp;
  parley_direction* const side = &tcp->conn->side[half->side];
  parley_fpdu* f = half->ahead == NULL ? NULL : take_ahead(half, parley_stream_seq_of(&half->stream, at), octets);
  if (f == NULL) {
    f = parley_mpa_fpdu_item(half, wire, octets, at, crc);
    f->item.known = known;
    f->first_frame = first_frame;
    if (!in_payload) /* A buffer that became whole is taken over; other octets are copied. */
      wire = f->item.copy =
          wire == half->pending ? half->pending : (guint8*)wmem_memdup(wmem_file_scope(), wire, octets);
  }
  half->fpdus_seen++;
  f->pdu.number = half->any_gap ? 0 : half->fpdus_seen;
  f->pdu.after_gap = half->gap;
  const parley_half* const other = peer_of(half);
  f->pdu.peer_behind =
      other->gap || other->lost || other->phase == PARLEY_PHASE_OVER || peer_received > other->stream.position;
  half->gap = FALSE;
  const guint32 lead = lead_of(f), length = f->pdu.ulpdu_length;
  const guint8* body = wire + lead + PARLEY_MPA_LEN_LEN;
  guint32 body_known = known > lead + PARLEY_MPA_LEN_LEN ? known - lead - PARLEY_MPA_LEN_LEN : 0;
  if (f->markers) {
    guint8* const clean = (guint8*)wmem_alloc(tcp->pinfo->pool, octets);
    body_known = parley_without_markers(body, MIN(body_known, octets - lead - PARLEY_MPA_LEN_LEN - PARLEY_MPA_CRC_LEN),
                                        f->pdu.position + lead + PARLEY_MPA_LEN_LEN, clean);
    body = clean;
    check_markers(half, f, wire, known);
  }
  if (known == octets)
    for (guint32 pad = length; ((PARLEY_MPA_LEN_LEN + pad) & 3) != 0; pad++) f->pad_not_zero |= body[pad] != 0;
  const guint32 have = MIN(length, body_known);
  if (half->fpdus_seen == 1 && half->side == PARLEY_INITIATOR) first_of_initiator(half, f, body, have);
  if (half->fpdus_seen == 1 && half->side == PARLEY_RESPONDER) first_of_responder(half, f, peer_received);
  if (crc == PARLEY_CRC_BAD) {
    /* It is shown, but what it says counts for nothing: numbers are picked up anew behind it. */
    side->crc_errors++;
    half->gap = TRUE;
    return;
  }
  parley_rdmap_track(&f->pdu, ulpdu_tvb(half, body, have, length), tcp->pinfo);
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

/* Octets that wait for the rest of their FPDU: later the frame tells where it became whole. */
static void note_part(parley_half* half, const parley_tcp_segment* segment) {
  if (half->phase != PARLEY_PHASE_FPDUS || half->pending_length == 0 || segment->captured == 0) return;
  const guint64 from = MAX(half->pending_at, parley_stream_position_of(&half->stream, segment->seq));
  const guint64 to = half->pending_at + half->pending_length;
  if (from >= to) return;
  parley_part* const part = (parley_part*)parley_item_add(half, PARLEY_ITEM_PART, sizeof *part);
  part->item.seq = parley_stream_seq_of(&half->stream, from);
  part->item.octets = part->item.known = (guint32)(to - from);
  part->next_of_fpdu = half->parts;
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
  const parley_tcp_class class = parley_stream_add(&half->stream, segment, &mine);
  c = tcp->conn;
  c->last_frame = pinfo->num;
  c->last_at = pinfo->abs_ts;
  if (class == PARLEY_SEGMENT_REPEATED) c->side[side].retransmissions++;
  if (class == PARLEY_SEGMENT_AHEAD) c->side[side].out_of_order++;
  if ((flags & PARLEY_TCP_FIN) != 0 && c->side[side].fin_frame == 0) c->side[side].fin_frame = pinfo->num;
  if ((flags & PARLEY_TCP_RST) != 0 && c->side[side].rst_frame == 0) c->side[side].rst_frame = pinfo->num;
  if (c->outcome == PARLEY_OPEN && c->request.frame != 0 && (flags & (PARLEY_TCP_FIN | PARLEY_TCP_RST)) != 0)
    c->outcome = PARLEY_FAILED;
  if (class == PARLEY_SEGMENT_AHEAD && segment->captured > 0) parley_fpdus_peek(half, segment);
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
  agree(tcp);
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
