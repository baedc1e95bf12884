/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The meaning of an FPDU for its connection, on the first pass: whether it is the agreed RTR (RFC 6581 §9.2), whether
 * the responder waited for its turn (RFC 5044 §7.1.2), and whether its markers and pad are right (RFC 5044 §4.1,
 * §4.3). */
#include <string.h>

#include "parley_mpa.h"
#include "parley_rdmap.h"

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

/* RFC 5040 §4.8: a local catastrophic error is not a reaction to received octets. */
static gboolean is_local(const guint8* ulpdu, guint32 octets) {
  return octets > PARLEY_DDP_UNTAGGED_LEN && ulpdu[PARLEY_DDP_UNTAGGED_LEN] == PARLEY_RDMAP_LAYER_RDMAP << 4;
}

/* RFC 5044 §8, RFC 6581 §8: codes 4 to 7 of the LLP refer to the set-up. The responder sent nothing that another layer
 * could complain about. */
static void first_is_terminate(parley_half* half, parley_fpdu* f, const guint8* ulpdu, guint32 octets) {
  const guint8* const control = ulpdu + PARLEY_DDP_UNTAGGED_LEN;
  if (octets < PARLEY_DDP_UNTAGGED_LEN + PARLEY_RDMAP_TERM_CTRL_LEN) return;
  const gboolean llp = control[0] >> 4 == PARLEY_RDMAP_LAYER_LLP || control[0] == PARLEY_RDMAP_LAYER_LLP;
  const gboolean set_up =
      llp && control[1] >= 4 && control[1] <= 7 && half->tcp->half[PARLEY_RESPONDER].fpdus_seen == 0;
  if (set_up) half->tcp->conn->outcome = PARLEY_FAILED;
  parley_set_up_terminated(&f->pdu, set_up ? control[1] : 0);
}

/* The initiator's first FPDU: checks whether it is the agreed RTR (RFC 6581 §9.2). */
static void first_of_initiator(parley_half* half, parley_fpdu* f, const guint8* ulpdu, guint32 octets) {
  parley_conn* const c = half->tcp->conn;
  c->first_fpdu_frame = f->item.frame;
  if (c->rtr_frame.frame == 0) c->first_fpdu_at = f->pdu.at;
  const char* const unproven = half->any_gap ? NULL : parley_rtr_frame_unproven(c);
  if (unproven != NULL) parley_find(&f->pdu, PARLEY_FINDING_set_up_warning, PARLEY_AT_SEGMENT, "%s", unproven);
  if (is_terminate(ulpdu, octets)) {
    first_is_terminate(half, f, ulpdu, octets);
    return;
  }
  if (!half->any_gap) parley_after_reply(&f->pdu);
  if (f->crc == PARLEY_CRC_BAD || octets < f->pdu.ulpdu_length) return;
  const guint8 form = rtr_form(ulpdu, octets, f->pdu.ulpdu_length);
  const guint8 agreed = c->rtr_agreed & (guint8) ~(1 << PARLEY_RTR_FRAME);
  if (c->outcome == PARLEY_OPEN) c->outcome = PARLEY_ESTABLISHED;
  if (c->peer_to_peer) {
    f->rtr = form;
    f->rtr_wrong = (agreed & (1 << form)) == 0 || form == PARLEY_RTR_NONE;
    f->pdu.is_rtr = !f->rtr_wrong;
    if (f->rtr_wrong && half->any_gap) f->rtr_wrong = FALSE; /* the capture may lack the RTR */
  } else if ((c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) != 0 && c->rtr_frame.frame == 0) {
    f->no_rtr_frame = !half->any_gap;
    f->rtr = form;
  } else if (c->request.frame != 0 && c->reply.frame != 0 && MIN(c->request.revision, c->reply.revision) <= 1 &&
             c->rtr == PARLEY_RTR_NONE) {
    /* Linux's cxgb4 and irdma send an RTR under revision 1 without announcing it. */
    f->rtr = form;
    f->pdu.is_rtr = form != PARLEY_RTR_NONE;
  }
  if (f->rtr != PARLEY_RTR_NONE) c->rtr = f->rtr;
}

/* RFC 5044 §7.1.2 rule 4: the responder receives and validates an FPDU before it sends one. Its TCP acknowledgment
 * shows what it had received, even if the capture lacks it. The Rtr frame of 2007 counts as an FPDU, too. */
static void first_of_responder(parley_half* half, parley_fpdu* f, guint64 peer_received) {
  const parley_half* const initiator = parley_peer_of(half);
  f->too_early = initiator->startup_end != 0 && half->tcp->conn->request.frame != 0 && peer_received != 0 &&
                 peer_received <= initiator->request_end;
}

static void check_markers(parley_half* half, parley_fpdu* f, const guint8* wire, guint32 known, gboolean* bits) {
  const guint64 position = f->pdu.position;
  const guint32 phase = (guint32)(position % PARLEY_MPA_MARKER_INTERVAL);
  const guint32 first = phase == 0 ? 0 : PARLEY_MPA_MARKER_INTERVAL - phase;
  const guint32 header = first == 0 ? PARLEY_MPA_MARKER_LEN : 0;
  for (guint32 m = first; m + PARLEY_MPA_MARKER_LEN <= MIN(known, f->item.octets); m += PARLEY_MPA_MARKER_INTERVAL) {
    /* RFC 5044 §4.3: the low two bits of FPDUPTR are treated as 0. */
    const guint16 sent = parley_be16(wire + m + 2);
    const guint32 pointer = sent & 0xFFFCu;
    if (parley_be16(wire + m) != 0 || pointer != sent) *bits = TRUE;
    const guint32 expected = m < header ? 0 : m - header;
    if (pointer == (expected & 0xFFFFu) || f->marker_wrong) continue;
    f->marker_wrong = TRUE;
    f->marker_ptr = (guint16)pointer;
    f->marker_expected = (guint16)expected;
    f->marker_at = m;
    half->tcp->conn->side[half->side].marker_errors++;
  }
}

/* Markers and pad of an FPDU whose CRC is right, or not used. */
static void check_frame(parley_half* half, parley_fpdu* f, const guint8* wire, guint32 known, const guint8* body) {
  gboolean bits = FALSE;
  if (f->markers) check_markers(half, f, wire, known, &bits);
  if (f->marker_wrong) parley_blame(&f->pdu, PARLEY_RDMAP_LAYER_LLP, 0, 3, PARLEY_BLAME);
  if (bits) /* Receivers treat these bits as 0, so that this harms no receiver. */
    parley_find(&f->pdu, PARLEY_FINDING_marker_bits, PARLEY_AT_SEGMENT,
                "the %s set bits of a marker that are 0 (its first half, or the low two of FPDUPTR) [RFC 5044 §4.3]",
                parley_side_name(half->side));
  if (known < f->item.octets) return;
  for (guint32 pad = f->pdu.ulpdu_length; ((PARLEY_MPA_LEN_LEN + pad) & 3) != 0; pad++)
    f->pad_not_zero |= body[pad] != 0;
}

void parley_mpa_wrong(parley_half* half, parley_note note, guint32 value, guint64 at) {
  parley_conn* const c = half->tcp->conn;
  const parley_fault length = {TRUE, TRUE, PARLEY_RDMAP_LAYER_DDP, 2, 6, half->tcp->pinfo->num},
                     marker = {TRUE, TRUE, PARLEY_RDMAP_LAYER_LLP, 0, 3, half->tcp->pinfo->num};
  const gboolean of_length = note == PARLEY_NOTE_BAD_LENGTH;
  /* RFC 5044 §8: after an earlier fault the octets have no meaning. */
  if (!of_length || parley_track_of(c, half->side)->fault_count == 0)
    parley_mpa_note(half, note, value, parley_stream_seq_of(&half->stream, at));
  parley_blame_at(c, half->side, of_length ? &length : &marker, at + PARLEY_MPA_LEN_LEN);
  if (of_length) parley_forget(c, half->side);
}

static tvbuff_t* ulpdu_tvb(const parley_half* half, const guint8* ulpdu, guint32 octets, guint32 length) {
  return tvb_new_child_real_data(half->tcp->tvb, ulpdu, octets, (gint)length);
}

static parley_fpdu* fpdu_item(parley_half* half, const guint8* wire, guint32 octets, guint64 at, parley_crc_state crc) {
  parley_tcp* const tcp = half->tcp;
  parley_direction* const side = &tcp->conn->side[half->side];
  parley_fpdu* const f = (parley_fpdu*)parley_item_add(half, PARLEY_ITEM_FPDU, sizeof *f);
  f->item.seq = parley_stream_seq_of(&half->stream, at);
  f->item.octets = f->item.known = octets;
  f->at = at;
  f->first_frame = tcp->pinfo->num;
  f->crc = (guint8)crc;
  f->pdu.bad_crc = crc == PARLEY_CRC_BAD;
  f->markers = half->markers == PARLEY_YES;
  f->pdu.conn = tcp->conn;
  f->pdu.from = half->side;
  f->pdu.frame = tcp->pinfo->num;
  f->pdu.at = tcp->pinfo->abs_ts;
  f->pdu.position = at - half->zero;
  f->pdu.ulpdu_length = parley_be16(wire + parley_lead_of(f));
  side->crc = half->crc == PARLEY_YES;
  side->markers = f->markers;
  side->fpdus++;
  return f;
}

/* The link to the first FPDU ahead that is not before the position. Held segments mostly arrive in order, so the search
 * begins at the FPDU that was inserted last. */
static parley_fpdu** ahead_from(parley_half* half, guint64 at) {
  parley_fpdu* const recent = half->ahead_recent;
  parley_fpdu** link = recent != NULL && recent->at < at ? &recent->next_ahead : &half->ahead;
  while (*link != NULL && (*link)->at < at) link = &(*link)->next_ahead;
  return link;
}

void parley_mpa_show_ahead(parley_half* half, const guint8* wire, guint32 octets, guint64 at, parley_crc_state crc) {
  parley_fpdu** const link = ahead_from(half, at);
  if (*link != NULL && (*link)->at == at) return;
  parley_fpdu* const f = fpdu_item(half, wire, octets, at, crc);
  f->next_ahead = *link;
  *link = f;
  half->ahead_recent = f;
}

/* Removes and returns an FPDU that was shown before its turn. FPDUs before it were shown by mistake: the walk did not
 * find them. */
static parley_fpdu* take_ahead(parley_half* half, guint64 at, guint32 octets) {
  parley_fpdu* f = half->ahead;
  while (f != NULL && f->at < at) f = f->next_ahead;
  const gboolean found = f != NULL && f->at == at && f->item.octets == octets;
  half->ahead = found ? f->next_ahead : f;
  /* The FPDU that was inserted last is still in the list if it is behind the head. */
  if (half->ahead == NULL || (half->ahead_recent != NULL && half->ahead_recent->at < half->ahead->at))
    half->ahead_recent = NULL;
  return found ? f : NULL;
}

void parley_mpa_fpdu(parley_half* half, const guint8* wire, guint32 octets, guint32 known, guint64 at,
                     guint32 first_frame, guint64 peer_received, gboolean in_payload, parley_crc_state crc) {
  parley_tcp* const tcp = half->tcp;
  parley_direction* const side = &tcp->conn->side[half->side];
  parley_fpdu* f = half->ahead == NULL ? NULL : take_ahead(half, at, octets);
  if (f == NULL) {
    f = fpdu_item(half, wire, octets, at, crc);
    f->item.known = known;
    f->first_frame = first_frame;
    if (!in_payload) /* A completed buffer is taken over; other octets are copied. */
      wire = f->item.copy =
          wire == half->pending ? half->pending : (guint8*)wmem_memdup(wmem_file_scope(), wire, octets);
  }
  half->fpdus_seen++;
  f->pdu.number = half->any_gap ? 0 : half->fpdus_seen;
  f->pdu.after_gap = half->gap;
  f->pdu.end = at + octets;
  f->pdu.heard = peer_received;
  f->pdu.proving = half->unproven > 0;
  f->pdu.unproven = half->unproven > 0 && crc != PARLEY_CRC_GOOD;
  const parley_half* const other = parley_peer_of(half);
  f->pdu.peer_behind =
      other->gap || other->lost || other->phase == PARLEY_PHASE_OVER || peer_received > other->stream.position;
  const guint32 lead = parley_lead_of(f), length = f->pdu.ulpdu_length;
  const guint8* body = wire + lead + PARLEY_MPA_LEN_LEN;
  guint32 body_known = known > lead + PARLEY_MPA_LEN_LEN ? known - lead - PARLEY_MPA_LEN_LEN : 0;
  if (f->markers) {
    guint8* const clean = (guint8*)wmem_alloc(tcp->pinfo->pool, octets);
    body_known = parley_without_markers(body, MIN(body_known, octets - lead - PARLEY_MPA_LEN_LEN - PARLEY_MPA_CRC_LEN),
                                        f->pdu.position + lead + PARLEY_MPA_LEN_LEN, clean);
    body = clean;
  }
  const guint32 have = MIN(length, body_known);
  if (f->pdu.unproven) {
    parley_rdmap_count(&f->pdu, body, have);
    half->gap = TRUE;
    return;
  }
  half->gap = FALSE;
  if (crc == PARLEY_CRC_BAD)
    parley_blame(&f->pdu, PARLEY_RDMAP_LAYER_LLP, 0, 2, PARLEY_BLAME);
  else
    check_frame(half, f, wire, known, body);
  if (half->fpdus_seen == 1 && half->side == PARLEY_INITIATOR) first_of_initiator(half, f, body, have);
  if (half->fpdus_seen == 1 && half->side == PARLEY_RESPONDER) {
    first_of_responder(half, f, peer_received);
    const gboolean heard_rtr_alone = tcp->conn->rtr_frame.frame != 0 && other->fpdus_seen == 0 && !other->any_gap &&
                                     peer_received <= other->stream.position;
    const gboolean agreed = (tcp->conn->rtr_agreed & (1 << PARLEY_RTR_FRAME)) != 0;
    if (heard_rtr_alone && !half->any_gap && is_terminate(body, have) && !(agreed && is_local(body, have))) {
      /* OFA 2007-10 Rtr §2: S in its Reply announced that the responder knows the Rtr frame. */
      f->took_rtr_for_fpdu = agreed;
      tcp->conn->outcome = PARLEY_FAILED;
    }
  }
  if (crc == PARLEY_CRC_BAD) {
    /* It is shown, but its content is ignored. Tracking restarts behind it. */
    side->crc_errors++;
    half->gap = TRUE;
    return;
  }
  parley_rdmap_track(&f->pdu, ulpdu_tvb(half, body, have, length), tcp->pinfo);
  if (!f->pdu.refuted) return;
  /* A payload may contain many FPDUs with right CRCs. Their numbers do not fit together. */
  half->gap = half->refuted = TRUE;
}
