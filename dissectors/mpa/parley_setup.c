/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The set-up on the first pass: where startup frames end, which of them arrived, and the consequences of one that is
 * not in the capture. RFC 5044 §7.1, RFC 6581 §6, OFA 2007-10 Rtr. */
#include <epan/expert.h>
#include <string.h>

#include "parley_mpa.h"
#include "parley_rdmap.h"

/* ------------------------------------------------------------------ the next phase */

static void begin_half(parley_half* half, parley_phase phase) {
  half->phase = (guint8)phase;
  half->zero = half->startup_end;
  half->zero_known = TRUE;
}

/* RFC 5044 §4.3: positions count from the end of the last startup frame. If that is among the octets that the capture
 * lacks, it is unknown. */
static void forget_zero(parley_half* half) {
  if (half->markers == PARLEY_NO) return;
  half->zero_known = FALSE;
  half->lost = half->gap = half->any_gap = TRUE;
}

/* OFA 2007-10 Rtr §2: the initiator may send the Rtr frame, or may have sent it where the capture lacks octets. */
static gboolean rtr_frame_may_come(const parley_half* half) {
  const parley_conn* const c = half->tcp->conn;
  if (half->side != PARLEY_INITIATOR || c->rtr_frame.frame != 0) return FALSE;
  if (c->request.frame == 0) return c->reply.frame == 0 || c->reply.revision <= 1;
  if (c->reply.frame == 0) return c->request.revision <= 1 && (c->request.flags & PARLEY_MPA_FLAG_S) != 0;
  return (c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) != 0;
}

/* Processes the kept octets as if they arrived now. */
static void replay(parley_half* half) {
  if (half->pending_length == 0) return;
  guint8* const kept = half->pending;
  const parley_tcp_segment part = {.frame = half->pending_frame,
                                   .seq = parley_stream_seq_of(&half->stream, half->pending_at),
                                   .length = half->pending_length,
                                   .captured = half->pending_length,
                                   .data = kept,
                                   .ack = half->kept_ack,
                                   .has_ack = half->kept_has_ack,
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
    if (rtr_frame_may_come(half)) forget_zero(half);
    parley_pending_drop(half);
  }
  replay(half);
}

/* The pending octets begin with a whole startup frame. */
static void startup_of_pending(parley_half* half) {
  guint8* const kept = half->pending;
  const guint32 length = half->pending_length;
  parley_tcp_segment rest = {.frame = half->pending_frame,
                             .seq = parley_stream_seq_of(&half->stream, half->pending_at),
                             .length = length,
                             .captured = length,
                             .data = kept,
                             .ack = half->kept_ack,
                             .has_ack = half->kept_has_ack,
                             .held = TRUE};
  half->pending = NULL;
  half->pending_length = half->pending_room = 0;
  parley_startup_add(half, &rest);
  /* More octets may follow a Request whose Reply is lost. */
  const gboolean more = rest.captured > 0 && half->phase == PARLEY_PHASE_RTR_OR_FPDU;
  const gboolean startup = more && parley_begins_like_key(rest.data, rest.captured);
  if (more && !startup) parley_initiator_goes_on(half, &rest);
  if (rest.captured > 0 && half->phase == PARLEY_PHASE_FPDUS) parley_fpdus_add(half, &rest);
  if (startup) {
    half->pending_at = parley_stream_position_of(&half->stream, rest.seq);
    parley_pending_add(half, &rest, rest.captured);
  }
  wmem_free(wmem_file_scope(), kept);
  if (startup) parley_rtr_or_fpdu(half);
}

void parley_rtr_or_fpdu(parley_half* half) {
  if (half->hole_in_kept) {
    begin_fpdus(half);
    return;
  }
  if (half->pending_length == 0) return;
  if (!parley_begins_like_key(half->pending, half->pending_length)) {
    begin_fpdus(half);
    return;
  }
  if (half->pending_length < parley_startup_size(half->pending, half->pending_length) ||
      half->pending_length < PARLEY_MPA_HEADER_LEN)
    return;
  startup_of_pending(half);
}

/* The initiator goes on after the Request and Reply, whether captured or not. A lost Reply may have been a reject, so
 * that another Request follows. */
static void begin_initiator(parley_half* half) {
  if (!rtr_frame_may_come(half) && half->tcp->conn->request.revision > 1 && !half->tcp->reply_lost) {
    begin_fpdus(half);
    return;
  }
  begin_half(half, PARLEY_PHASE_RTR_OR_FPDU);
  parley_rtr_or_fpdu(half);
}

/* Octets in order that are not an Rtr frame. */
void parley_initiator_goes_on(parley_half* half, const parley_tcp_segment* part) {
  if (half->tcp->conn->request.frame == 0) forget_zero(half); /* its length is unknown */
  if (!half->zero_known && half->markers == PARLEY_NO) {
    half->zero = parley_stream_position_of(&half->stream, part->seq);
    half->zero_known = TRUE;
  }
  half->phase = PARLEY_PHASE_FPDUS;
}

/* ------------------------------------------------------------------ Request and Reply */

static void set_outcome(parley_conn* c) {
  const parley_startup* const r = &c->reply;
  c->outcome = r->key != PARLEY_KEY_REP                ? PARLEY_FAILED
               : c->peer_to_peer || c->rtr_agreed != 0 ? PARLEY_OPEN
                                                       : PARLEY_ESTABLISHED;
}

/* Part of the Request is there and the responder has acknowledged more: the capture has the rest out of order. */
static gboolean request_still_comes(const parley_half* initiator) {
  return initiator->phase == PARLEY_PHASE_STARTUP && initiator->pending_length > 0 &&
         (initiator->stream.first != NULL || initiator->stream.acked > initiator->stream.position);
}

/* RFC 5044 §7.1.2 rule 9: compares PD_Length with the octets that arrived. */
static void answered_too_soon(parley_startup_item* item, parley_half* initiator) {
  const guint32 came = initiator->startup_due > 0
                           ? PARLEY_MPA_HEADER_LEN + initiator->tcp->conn->request.pd_length - initiator->startup_due
                           : initiator->pending_length;
  guint32 due = PARLEY_MPA_HEADER_LEN;
  if (initiator->startup_due > 0)
    due = came + initiator->startup_due;
  else if (came >= PARLEY_MPA_HEADER_LEN)
    due = parley_promised_size(initiator->pending);
  if (came == 0 || !initiator->from_syn || initiator->any_gap || initiator->stream.first != NULL ||
      initiator->tcp->heard > initiator->stream.position)
    return;
  parley_startup_say(item, PI_ERROR,
                     "the responder answered a Request when only %u of %u octets had arrived [RFC 5044 §7.1.2]", came,
                     due);
  initiator->startup_due = due - came;
  if (due > PARLEY_MPA_HEADER_LEN || came >= PARLEY_MPA_HEADER_LEN) return;
  initiator->startup_due = 0; /* how many more octets are due is unknown */
  initiator->lost = TRUE;
}

/* The capture lacks what the initiator has sent so far, which may be more than the Request. */
static void request_is_lost(parley_half* initiator) {
  initiator->gap = initiator->any_gap = TRUE;
  parley_forget(initiator->tcp->conn, PARLEY_INITIATOR);
  if (initiator->phase == PARLEY_PHASE_AFTER_REQUEST && initiator->pending_length > 0) initiator->lost = TRUE;
  parley_pending_drop(initiator);
  parley_stream_skip_acked(&initiator->stream);
  if (initiator->stream.synced) initiator->startup_end = initiator->stream.position;
  begin_half(initiator, PARLEY_PHASE_RTR_OR_FPDU);
  initiator->zero_known = initiator->stream.synced;
}

/* RFC 5044 §7.1.2 rule 3: no octets are allowed between Request and Reply, and the responder cannot use them. */
static void accepted_early_octets(parley_startup_item* item, const parley_half* initiator) {
  if (initiator->early == 0 || initiator->startup_end == 0) return;
  if (initiator->tcp->heard < initiator->startup_end + initiator->early) return;
  parley_startup_say(item, PI_WARN,
                     "the responder accepted although %u octets had followed the Request by then [RFC 5044 §7.1.2]",
                     initiator->early);
}

/* The octets kept behind a rejected Request are a second Request. */
static void startup_of_kept(parley_half* half) {
  guint8* const kept = half->pending;
  parley_tcp_segment part = {.frame = half->pending_frame,
                             .seq = parley_stream_seq_of(&half->stream, half->pending_at),
                             .length = half->pending_length,
                             .captured = half->pending_length,
                             .data = kept,
                             .held = TRUE};
  half->pending = NULL;
  half->pending_length = half->pending_room = 0;
  if (!half->hole_in_kept)
    while (part.captured > 0 && half->phase == PARLEY_PHASE_STARTUP) parley_startup_add(half, &part);
  if (part.captured > 0 && half->phase == PARLEY_PHASE_AFTER_REQUEST) { /* another Request, whose Reply is due next */
    half->pending_at = parley_stream_position_of(&half->stream, part.seq);
    parley_pending_add(half, &part, part.captured);
  }
  half->hole_in_kept = FALSE;
  wmem_free(wmem_file_scope(), kept);
}

/* A Reply acknowledges the Request that it answers. If octets are missing, that may be a later Request than the known
 * one. The exception is when both are first in their streams: then a retransmitted Reply may also acknowledge FPDUs. */
static gboolean answers_another(const parley_half* half, const parley_half* initiator, guint64 at) {
  const gboolean missing = half->any_gap || initiator->any_gap || initiator->stream.first != NULL ||
                           half->tcp->heard > initiator->stream.position;
  const gboolean both_first =
      half->from_syn && at == half->base && initiator->from_syn && initiator->request_at == initiator->base;
  return missing && !both_first && half->tcp->conn->request.frame != 0 && half->tcp->heard > initiator->request_end;
}

/* The Reply answered an earlier Request, which the capture lacks, and was captured late. */
static gboolean answers_one_before(const parley_half* half, const parley_half* initiator) {
  const parley_conn* const c = half->tcp->conn;
  const gboolean all_seen = half->from_syn && initiator->from_syn && !half->any_gap && !initiator->any_gap;
  return c->request.frame != 0 && !all_seen && half->tcp->heard != 0 && half->tcp->heard <= initiator->request_at;
}

static gboolean keeps_a_request(const parley_half* initiator) {
  return !initiator->hole_in_kept && initiator->pending_at == initiator->request_end &&
         initiator->pending_length >= PARLEY_MPA_HEADER_LEN && parley_key_of(initiator->pending) == PARLEY_KEY_REQ &&
         parley_whole_startup(initiator->pending, initiator->pending_length);
}

/* The octets kept behind the known Request may contain the one that was answered. */
static void find_answered_request(parley_half* initiator, guint64 heard) {
  parley_conn* const c = initiator->tcp->conn;
  initiator->early = 0;
  while (initiator->request_end < heard && keeps_a_request(initiator)) {
    memset(&c->request, 0, sizeof c->request);
    initiator->phase = PARLEY_PHASE_STARTUP;
    startup_of_kept(initiator);
  }
  if (initiator->request_end != heard) memset(&c->request, 0, sizeof c->request);
}

static void reply_seen(parley_half* half, parley_startup_item* item) {
  parley_tcp* const tcp = half->tcp;
  parley_conn* const c = tcp->conn;
  parley_half* const initiator = parley_peer_of(half);
  const gboolean lost_before = tcp->reply_lost;
  const guint64 at = half->startup_end - item->item.octets;
  if (answers_another(half, initiator, at)) find_answered_request(initiator, tcp->heard);
  tcp->reply_heard = tcp->heard;
  c->reply = item->seen;
  parley_agree(tcp);
  parley_startup_judge(item);
  const gboolean request_comes = request_still_comes(initiator);
  const gboolean kept = initiator->phase == PARLEY_PHASE_AFTER_REQUEST;
  if (!request_comes && (c->request.frame == 0 ? !kept : initiator->startup_due > 0))
    answered_too_soon(item, initiator);
  if ((c->reply.flags & PARLEY_MPA_FLAG_R) != 0) {
    /* The ULP keeps the TCP connection and may try again on it. */
    c->outcome = PARLEY_REJECTED;
    half->phase = initiator->phase = PARLEY_PHASE_STARTUP;
    if (c->request.frame == 0 && kept) parley_pending_drop(initiator);
    startup_of_kept(initiator);
    return;
  }
  if (c->request.frame != 0) accepted_early_octets(item, initiator);
  if (c->reply.revision == 0) tcp->versions = 0;
  set_outcome(c);
  begin_half(half, PARLEY_PHASE_FPDUS);
  if (c->request.frame != 0) {
    if (!lost_before || initiator->phase != PARLEY_PHASE_FPDUS) begin_initiator(initiator);
  } else if (!request_comes) {
    request_is_lost(initiator);
  }
}

static void request_seen(parley_half* half, parley_startup_item* item) {
  parley_tcp* const tcp = half->tcp;
  tcp->conn->request = item->seen;
  half->request_end = half->startup_end;
  half->request_at = half->startup_end - item->item.octets;
  half->phase = PARLEY_PHASE_AFTER_REQUEST;
  if (tcp->conn->reply.frame != 0 || tcp->reply_lost) parley_agree(tcp);
  parley_startup_judge(item);
  if (tcp->conn->outcome == PARLEY_REJECTED) {
    half->phase = PARLEY_PHASE_STARTUP;
    return;
  }
  if (tcp->conn->reply.frame != 0) set_outcome(tcp->conn); /* captured in the wrong order */
  if (tcp->conn->reply.frame != 0 || tcp->reply_lost) begin_initiator(half);
}

/* A second attempt on the same TCP connection. */
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
    c->side[i].stream = old->side[i].stream;
  }
  c->roles_known = TRUE;
  return c;
}

/* `at`: stream position of the new attempt's first startup frame, from this side. */
static void begin_again(parley_half* half, guint64 at) {
  parley_half* const peer = parley_peer_of(half);
  half->tcp->conn = conn_again(half->tcp->conn);
  half->tcp->half[PARLEY_INITIATOR].early = 0;
  half->tcp->reply_lost = half->tcp->request_lost = FALSE;
  half->base = at;
  peer->base = peer->startup_end;
}

/* A part of a second Request arrived, and the rest will not come. */
void parley_startup_broken_off(parley_half* half) {
  const guint32 begin = 7; /* "MPA ID " */
  const gboolean rejected = half->tcp->conn->outcome == PARLEY_REJECTED && half->phase == PARLEY_PHASE_STARTUP;
  if (rejected && half->side == PARLEY_INITIATOR && half->pending_length >= begin) begin_again(half, half->pending_at);
}

static void rtr_frame_seen(parley_half* half, parley_startup_item* item, gboolean all_seen) {
  parley_conn* const c = half->tcp->conn;
  item->is_rtr_frame = item->seen.key == PARLEY_KEY_RTR || item->seen.key == PARLEY_KEY_RTR_HEX;
  item->second = !item->is_rtr_frame;
  if (item->is_rtr_frame || all_seen) parley_startup_judge(item);
  if (item->is_rtr_frame) {
    c->rtr_frame = item->seen;
    c->rtr = PARLEY_RTR_FRAME;
    c->outcome = PARLEY_ESTABLISHED;
    if (c->first_fpdu_frame == 0) c->first_fpdu_at = item->seen.at;
  }
  begin_half(half, PARLEY_PHASE_FPDUS);
}

/* A startup frame in the place of an FPDU. No RFC says which Terminate this requires. */
static void second_startup(parley_half* half, parley_startup_item* item) {
  parley_conn* const c = half->tcp->conn;
  const parley_fault fault = {TRUE, TRUE, PARLEY_RDMAP_LAYER_LLP, 0, 3, half->tcp->pinfo->num};
  if (parley_track_of(c, half->side)->fault_count > 0) return; /* after a fault the octets have no meaning */
  parley_startup_judge(item);
  parley_blame_at(c, half->side, &fault, half->startup_end);
}

/* A whole startup frame. */
static void startup_whole(parley_half* half, const guint8* octets, guint32 size, guint8* copy, guint32 seq) {
  parley_tcp* const tcp = half->tcp;
  const guint key = parley_key_of(octets);
  /* The capture may have the Reply to a second Request before the Request, or without it. If the initiator is known to
   * have sent nothing more, that Reply is surplus. */
  const parley_half* const peer = parley_peer_of(half);
  const guint64 at = parley_stream_position_of(&half->stream, seq);
  const gboolean asked = half->side == PARLEY_INITIATOR
                             ? tcp->conn->request.frame != 0 || at >= tcp->reply_heard
                             : tcp->heard > (peer->startup_end != 0 ? peer->startup_end : peer->stream.position);
  const gboolean all_seen = half->from_syn && peer->from_syn && !half->any_gap && !peer->any_gap && !tcp->reply_lost;
  const gboolean again =
      tcp->conn->outcome == PARLEY_REJECTED && (asked || (half->side == PARLEY_RESPONDER && !all_seen));
  const guint32 known = MIN(half->pending_known, size);
  if (again) begin_again(half, at);
  parley_startup_item* const item = (parley_startup_item*)parley_item_add(half, PARLEY_ITEM_STARTUP, sizeof *item);
  item->item.seq = seq;
  item->item.octets = size;
  item->item.known = known;
  item->item.copy = copy;
  item->again = again;
  parley_startup_read(half, octets, known, &item->seen);
  half->startup_end = at + size;
  const gboolean too_long = parley_promised_size(octets) > PARLEY_MPA_STARTUP_MAX;
  half->startup_due = too_long ? parley_promised_size(octets) - size : 0;
  if (half->side == PARLEY_INITIATOR) {
    const gboolean request =
        half->phase == PARLEY_PHASE_STARTUP ||
        (half->phase == PARLEY_PHASE_RTR_OR_FPDU && key == PARLEY_KEY_REQ &&
         (tcp->conn->request.frame == 0 || tcp->reply_lost)); /* or the lost Reply may have been a reject */
    const gboolean rtr = key == PARLEY_KEY_RTR || key == PARLEY_KEY_RTR_HEX;
    if (request && tcp->conn->request.frame == 0 && half->startup_end < tcp->reply_heard) {
      /* The known Reply answered a later Request: this one is from an earlier set-up and was captured late. */
    } else if (request && (!rtr || (half->from_syn && !half->any_gap))) {
      request_seen(half, item);
    } else if (half->fpdus_seen > 0) {
      item->is_rtr_frame = rtr;
      item->second = !item->is_rtr_frame;
      if (all_seen) second_startup(half, item);
      begin_half(half, PARLEY_PHASE_FPDUS);
    } else
      rtr_frame_seen(half, item, all_seen);
  } else if (tcp->conn->reply.frame == 0) {
    /* A Reply of an earlier set-up that was captured late is only shown. */
    if (!answers_one_before(half, peer)) reply_seen(half, item);
  } else {
    item->second = TRUE;
    if (all_seen) second_startup(half, item);
    if (half->phase == PARLEY_PHASE_FPDUS) begin_half(half, PARLEY_PHASE_FPDUS);
  }
}

/* ------------------------------------------------------------------ missing startup frames */

/* The capture lacks the Request. It may lack the Reply, too. */
static void no_request(parley_half* half) {
  parley_tcp* const tcp = half->tcp;
  half->phase = PARLEY_PHASE_FPDUS;
  half->lost = half->gap = TRUE;
  parley_agree(tcp);
  half->zero_known = half->markers == PARLEY_NO;
  tcp->conn->outcome = PARLEY_ESTABLISHED;
}

/* RFC 5044 §7.1.2 rule 2: the lost Reply may have been a reject, followed by another Request, if the capture lacks the
 * octets right behind the known Request or these begin like a startup frame. */
static gboolean request_among_kept(const parley_half* initiator) {
  return initiator->hole_in_kept && (initiator->pending_length == 0 || initiator->pending_at > initiator->request_end ||
                                     parley_begins_like_key(initiator->pending, initiator->pending_length));
}

static gboolean request_may_be_lost(const parley_half* initiator) {
  return initiator->phase == PARLEY_PHASE_RTR_OR_FPDU && initiator->pending_length == 0 &&
         initiator->stream.acked > initiator->startup_end;
}

/* The lost Reply probably accepted, because the peers go on. */
void parley_reply_is_lost(parley_tcp* tcp) {
  parley_half *const initiator = &tcp->half[PARLEY_INITIATOR], *const responder = &tcp->half[PARLEY_RESPONDER];
  responder->any_gap = TRUE;
  if (tcp->reply_lost) return; /* keep what was found since then */
  tcp->reply_lost = TRUE;
  parley_agree(tcp);
  tcp->conn->outcome = PARLEY_ESTABLISHED;
  if (initiator->phase != PARLEY_PHASE_AFTER_REQUEST) return;
  const gboolean kept = request_among_kept(initiator);
  begin_initiator(initiator);
  tcp->request_lost = kept || request_may_be_lost(initiator);
  if (tcp->request_lost) forget_zero(initiator);
}

/* The FPDUs of the responder, whose Reply is not in the capture. */
static void begin_responder(parley_half* half, guint64 at) {
  half->phase = PARLEY_PHASE_FPDUS;
  half->lost = half->gap = TRUE;
  parley_reply_is_lost(half->tcp);
  /* There is room for two Replies, so the known Request may have been rejected and its markers may not apply. */
  if (half->tcp->request_lost && at >= half->base + 2 * PARLEY_MPA_HEADER_LEN) half->markers = PARLEY_UNKNOWN;
  half->zero_known = half->markers == PARLEY_NO;
}

/* Other octets are in the place of a startup frame. */
static void no_startup(parley_half* half, guint32 seq) {
  parley_tcp* const tcp = half->tcp;
  if (tcp->conn->outcome == PARLEY_REJECTED) { /* after a reject the ULP may use TCP for anything */
    half->phase = parley_peer_of(half)->phase = PARLEY_PHASE_OVER;
    return;
  }
  if (!half->any_gap && half->from_syn) {
    half->phase = PARLEY_PHASE_OVER;
    parley_mpa_note(half, PARLEY_NOTE_NOT_STARTUP, 0, seq);
    return;
  }
  if (half->side == PARLEY_INITIATOR) {
    no_request(half);
    return;
  }
  begin_responder(half, parley_stream_position_of(&half->stream, seq));
}

/* ------------------------------------------------------------------ octets */

static void take(parley_tcp_segment* part, guint32 octets) {
  part->seq += octets;
  part->data += octets;
  part->captured -= octets;
  part->start = FALSE;
}

/* Skips octets that a wrong PD_Length announced. */
void parley_startup_announced(parley_half* half, parley_tcp_segment* part) {
  const guint32 more = MIN(half->startup_due, part->captured);
  if (more == 0) return;
  half->startup_due -= more;
  half->startup_end += more;
  if (half->side == PARLEY_INITIATOR) half->request_end = half->startup_end;
  if (half->phase == PARLEY_PHASE_RTR_OR_FPDU || half->phase == PARLEY_PHASE_FPDUS) half->zero = half->startup_end;
  take(part, more);
}

/* Takes the octets of a startup frame from the part; the rest of the part follows the frame. */
void parley_startup_add(parley_half* half, parley_tcp_segment* part) {
  if (half->pending_length == 0) {
    half->pending_at = parley_stream_position_of(&half->stream, part->seq);
    const guint32 size = parley_startup_size(part->data, part->captured);
    if (!part->held && part->captured >= size && parley_may_be_startup(half, part->data, part->captured)) {
      const parley_tcp_segment frame = *part;
      take(part, size);
      half->pending_known = size;
      startup_whole(half, frame.data, size, NULL, frame.seq);
      return;
    }
  }
  while (part->captured > 0) {
    const guint32 size = parley_startup_size(half->pending, half->pending_length);
    parley_tcp_segment head = *part;
    head.captured = MIN(part->captured, size - half->pending_length);
    parley_pending_add(half, &head, size);
    take(part, head.captured);
    if (!parley_may_be_startup(half, half->pending, half->pending_length)) {
      const guint32 seq = parley_stream_seq_of(&half->stream, half->pending_at);
      no_startup(half, seq);
      if (half->phase == PARLEY_PHASE_FPDUS) replay(half);
      parley_pending_drop(half);
      return;
    }
    if (half->pending_length < PARLEY_MPA_HEADER_LEN ||
        half->pending_length < parley_startup_size(half->pending, half->pending_length))
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

/* A startup frame in the place of an FPDU; it may arrive in pieces. Only its own octets are kept. */
gboolean parley_startup_again(parley_half* half, parley_tcp_segment* part) {
  if (half->pending_length == 0) half->startup_kept = FALSE;
  if (half->lost || half->tcp->conn->reply.frame == 0 || (half->pending_length > 0 && !half->startup_kept))
    return FALSE;
  if (half->pending_length == 0) {
    if (!parley_begins_like_startup(part->data, part->captured)) return FALSE;
    if (parley_whole_startup(part->data, part->captured)) {
      parley_startup_add(half, part);
      return TRUE;
    }
    half->startup_kept = TRUE;
    half->pending_at = parley_stream_position_of(&half->stream, part->seq);
  }
  parley_pending_add(half, part, PARLEY_MPA_STARTUP_MAX);
  half->kept_has_ack = part->has_ack;
  half->kept_ack = part->ack;
  take(part, part->captured);
  if (!parley_begins_like_startup(half->pending, half->pending_length)) {
    half->startup_kept = FALSE;
    replay(half);
  } else if (parley_whole_startup(half->pending, half->pending_length)) {
    half->startup_kept = FALSE;
    startup_of_pending(half);
  }
  return TRUE;
}

/* Octets are missing inside a startup frame. Returns how many of them are behind it. */
guint32 parley_startup_hole(parley_half* half, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by) {
  if (half->startup_due > 0) {
    const guint32 announced = MIN(half->startup_due, octets);
    half->startup_due -= announced;
    half->startup_end += announced;
    return octets - announced;
  }
  if (half->pending_length == 0 && !cut) return 0; /* perhaps a whole startup frame; later octets show it */
  if (half->pending_length < PARLEY_MPA_HEADER_LEN) {
    parley_mpa_note(half, PARLEY_NOTE_STARTUP_CUT, octets, half->stream.next_seq);
    half->phase = PARLEY_PHASE_OVER;
    parley_pending_drop(half);
    return 0;
  }
  /* Only private data is missing. */
  const guint32 due = parley_startup_size(half->pending, half->pending_length) - half->pending_length;
  const guint32 fill = MIN(octets, due), known = MIN(half->pending_known, half->pending_length);
  parley_tcp_segment zeros = *shown_by;
  zeros.seq = half->stream.next_seq - octets;
  zeros.data = (guint8*)wmem_alloc0(half->tcp->pinfo->pool, fill);
  zeros.captured = zeros.length = fill;
  zeros.held = TRUE;
  half->tcp->heard = half->pending_peer;
  half->pending_known = known;
  parley_startup_add(half, &zeros);
  return octets - fill;
}

/* A capture may have the Reply before the Request. The Request is then before the position that the Reply's
 * acknowledgment gives. */
void parley_request_after_reply(parley_half* half, const parley_tcp_segment* segment) {
  const parley_conn* const c = half->tcp->conn;
  parley_stream* const stream = &half->stream;
  if (half->side != PARLEY_INITIATOR || half->phase != PARLEY_PHASE_RTR_OR_FPDU || c->request.frame != 0) return;
  const guint32 back = stream->next_seq - segment->seq;
  if (stream->position != half->startup_end || (gint32)back <= 0 || half->pending_length > 0) return;
  if (segment->captured < PARLEY_MPA_HEADER_LEN || parley_key_of(segment->data) != PARLEY_KEY_REQ) return;
  if (parley_promised_size(segment->data) < back) return; /* it belongs to an earlier set-up */
  parley_stream_rewind(stream, back);
  half->startup_end = stream->position + back; /* unchanged until the whole Request is there */
}
