/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The first pass over one TCP connection: extracts the messages of each direction and checks that they follow a
 * session's order. Each rule uses earlier messages of its own direction. If it depends on what the sender had received,
 * the sender's TCP acknowledgment must prove that. No rule assumes anything about octets that the capture lacks.
 *
 *   state of a direction   octets seen                         next
 *   follow                 whole message                       follow
 *   follow                 no magic, or a header of another    over
 *                          version or of no length
 *   follow                 octets are missing                  lost
 *   lost                   a segment that begins with a right  follow; the order check restarts
 *                          header */
#include "parley_neg.h"

#include <epan/proto_data.h>
#include <stdio.h>
#include <string.h>

#include "parley_tcp.h"

/* Until a connection is known to carry a negotiation, at most this many octets are held behind a hole. */
#define PERHAPS_HELD_MAX (64u << 10)

typedef enum { half_follow, half_lost, half_over } half_state;
typedef enum { no, yes, unknown } known;

typedef struct neg_half {
  parley_neg_conn* conn;
  parley_stream stream;
  guint8 side;
  guint8 state;    /* half_state */
  guint8* pending; /* at most the size that a header may announce, plus a segment */
  guint32 pending_length, pending_room;
  guint32 pending_seq, pending_frame; /* of the first octet */
  parley_neg_item* parts;             /* of the pending message */
  /* Its messages so far. */
  guint8 begun;   /* `known`: whether its Hello or Welcome was seen */
  gboolean gap;   /* stage and round are unknown until the next message */
  gboolean holes; /* it has had a gap: its record of messages is incomplete */
  guint8 stage;
  guint16 round;
  gboolean last;
  guint64 last_end[PARLEY_NEG_STAGE_done + 1]; /* position behind its last Turn of a stage; 0: not sent yet */
  guint32 abort_frame;
  gboolean told, ended;
} neg_half;

struct parley_neg_conn {
  neg_half half[2];
  gboolean confirmed, refuted;
  gint8 initiator, opener; /* side; -1: unknown */
  guint8 qp;               /* parley_neg_qp */
  guint8 done;             /* `known`: whether the stage done follows */
  packet_info* pinfo;      /* while a segment is processed */
};

static neg_half* peer_of(const neg_half* half) { return &half->conn->half[1 - half->side]; }

parley_neg_frame* parley_neg_frame_of(packet_info* pinfo) {
  return (parley_neg_frame*)p_get_proto_data(wmem_file_scope(), pinfo, proto_parley_neg, 0);
}

gboolean parley_neg_conn_confirmed(const parley_neg_conn* conn) { return conn->confirmed; }
gboolean parley_neg_conn_refuted(const parley_neg_conn* conn) { return conn->refuted; }

static parley_neg_item* add_item(neg_half* half, parley_neg_kind kind) {
  parley_neg_conn* const conn = half->conn;
  parley_neg_frame* frame = parley_neg_frame_of(conn->pinfo);
  if (frame == NULL) {
    frame = wmem_new0(wmem_file_scope(), parley_neg_frame);
    frame->conn = conn;
    p_add_proto_data(wmem_file_scope(), conn->pinfo, proto_parley_neg, 0, frame);
  }
  parley_neg_item* const item = wmem_new0(wmem_file_scope(), parley_neg_item);
  item->kind = (guint8)kind;
  item->from = conn->initiator < 0             ? PARLEY_NEG_FROM_UNKNOWN
               : conn->initiator == half->side ? PARLEY_NEG_FROM_INITIATOR
                                               : PARLEY_NEG_FROM_RESPONDER;
  item->qp = conn->qp;
  item->remarks.scope = wmem_file_scope();
  if (frame->last != NULL)
    frame->last->next = item;
  else
    frame->first = item;
  frame->last = item;
  return item;
}

/* ------------------------------------------------------------------ the order of messages */

static const char* stage_name(guint8 stage) {
  switch (stage) {
#define PARLEY_X(name, value, text) \
  case value: return #name;
    PARLEY_NEG_STAGES(PARLEY_X)
#undef PARLEY_X
    default: return "unknown";
  }
}

/* The position in the peer's stream up to which the sender of this part had received it. False: not all of that was
 * followed. */
static gboolean heard_of_peer(const neg_half* half, const parley_tcp_segment* part, guint64* heard) {
  const neg_half* const peer = peer_of(half);
  if (!part->has_ack || !peer->stream.synced || peer->holes || peer->state != half_follow) return FALSE;
  *heard = parley_stream_position_of(&peer->stream, part->ack);
  return *heard <= peer->stream.position;
}

/* Whether the sender knew that the stage of its previous Turn was over when it sent this one. */
static gboolean stage_was_over(const neg_half* half, const parley_tcp_segment* part) {
  guint64 heard = 0;
  const guint64 end = peer_of(half)->last_end[half->stage];
  return half->last && end != 0 && heard_of_peer(half, part, &heard) && heard >= end;
}

/* Whether the sender went on to the next stage before it received the peer's last Turn of this stage. */
static gboolean went_on_alone(const neg_half* half, const parley_tcp_segment* part) {
  guint64 heard = 0;
  const guint64 end = peer_of(half)->last_end[half->stage];
  return heard_of_peer(half, part, &heard) && (end == 0 || end > heard);
}

/* False: the Turn is of a wrong stage, which has been reported. */
static gboolean judge_stage(neg_half* half, const parley_neg_header* h, const parley_tcp_segment* part,
                            parley_neg_item* item) {
  const parley_neg_conn* const conn = half->conn;
  const gboolean over = stage_was_over(half, part);
  if (h->stage == half->stage && !over) return TRUE;
  if (h->stage == half->stage + 1 && half->last && !went_on_alone(half, part)) {
    if (h->stage != PARLEY_NEG_STAGE_done || conn->done != no) return TRUE;
    parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_STAGE_ORDER,
                   "a Turn of the stage done; the Hello announced no such stage");
    return FALSE;
  }
  const gboolean ended =
      over && (half->stage == PARLEY_NEG_STAGE_done || (half->stage == PARLEY_NEG_STAGE_ready && conn->done == no));
  if (ended)
    parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_STAGE_ORDER, "a Turn of the stage %s after the end of the session",
                   stage_name(h->stage));
  else
    parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_STAGE_ORDER, "a Turn of the stage %s; the stage is %s",
                   stage_name(h->stage), stage_name((guint8)(half->stage + over)));
  return FALSE;
}

static void take_over(neg_half* half, const parley_neg_header* h) {
  half->stage = h->stage;
  half->round = h->round;
  half->last = (h->flags & PARLEY_NEG_FLAG_LAST) != 0;
  half->gap = FALSE;
}

static void judge_turn(neg_half* half, const parley_neg_header* h, const parley_tcp_segment* part,
                       parley_neg_item* item) {
  const gboolean last = (h->flags & PARLEY_NEG_FLAG_LAST) != 0;
  if (half->begun == no) {
    parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_EARLY_TURN, "a Turn before the Welcome");
    half->begun = unknown;
    take_over(half, h);
  } else if (half->gap) {
    take_over(half, h);
  } else if (!judge_stage(half, h, part, item)) {
    if (h->stage > half->stage) take_over(half, h);
    return;
  } else {
    const guint16 before = h->stage == half->stage ? half->round : 0;
    if (h->round != before + 1)
      parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_ROUND, "round %u follows round %u", h->round, before);
    else if (h->stage == half->stage && half->last && (!last || h->length > 0))
      parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_AFTER_LAST, "a Turn with data after the peer's last one");
    take_over(half, h);
  }
  if (last && half->last_end[half->stage] == 0)
    half->last_end[half->stage] = half->stream.position - (half->pending_length - PARLEY_NEG_HEADER_LEN - h->length);
}

static void take_hello(neg_half* half, const parley_neg_header* h, const guint8* body, parley_neg_item* item) {
  parley_neg_conn* const conn = half->conn;
  if (conn->initiator != half->side || half->begun == yes || (half->begun == unknown && !half->gap)) {
    parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_HELLO, "a Hello where none is expected");
    return;
  }
  static const char* const variants[] = {"verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc", "manual"};
  guint16 plugin_length = 0, length = 0;
  const guint8* const plugin = parley_neg_find_item(body, h->length, PARLEY_NEG_ITEM_plugin, &plugin_length);
  const guint8* const variant = parley_neg_find_item(body, h->length, PARLEY_NEG_ITEM_variant, &length);
  conn->qp = PARLEY_NEG_QP_NO;
  if (plugin != NULL && variant != NULL && plugin_length == 6 && memcmp(plugin, "parley", 6) == 0)
    for (guint i = 0; i < G_N_ELEMENTS(variants); i++)
      if (length == strlen(variants[i]) && memcmp(variant, variants[i], length) == 0) conn->qp = PARLEY_NEG_QP_YES;
  conn->done = parley_neg_find_item(body, h->length, PARLEY_NEG_ITEM_done_stage, &length) != NULL ? yes : no;
  half->begun = yes;
}

static void judge_order(neg_half* half, const parley_neg_header* h, const guint8* body, const parley_tcp_segment* part,
                        parley_neg_item* item) {
  parley_neg_conn* const conn = half->conn;
  if (half->abort_frame != 0) {
    if (!half->told)
      parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_AFTER_ABORT, "a message after its sender's Abort in frame %u",
                     half->abort_frame);
    half->told = TRUE;
    return;
  }
  switch (h->type) {
    case PARLEY_NEG_TYPE_hello: take_hello(half, h, body, item); break;
    case PARLEY_NEG_TYPE_welcome:
      if (conn->initiator == half->side || half->begun == yes || (half->begun == unknown && !half->gap))
        parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_WELCOME, "a Welcome where none is expected");
      else
        half->begun = yes;
      break;
    case PARLEY_NEG_TYPE_turn: judge_turn(half, h, part, item); break;
    case PARLEY_NEG_TYPE_abort: half->abort_frame = conn->pinfo->num; break;
    default: break;
  }
}

/* Finds the initiator from the first message, or from TCP's opener. */
static void learn_roles(neg_half* half, const parley_neg_header* h) {
  parley_neg_conn* const conn = half->conn;
  if (conn->initiator >= 0) return;
  if (h->type == PARLEY_NEG_TYPE_hello)
    conn->initiator = (gint8)half->side;
  else if (conn->opener >= 0)
    conn->initiator = conn->opener;
  else if (h->type == PARLEY_NEG_TYPE_welcome)
    conn->initiator = (gint8)(1 - half->side);
}

/* ------------------------------------------------------------------ from octets to messages */

/* Makes an item of `octets` of the pending octets, and records this frame in its parts as the one that completes it.
 * `before`: octets that were pending before this part of the stream arrived. */
static parley_neg_item* item_of_pending(neg_half* half, parley_neg_kind kind, guint32 at, guint32 octets,
                                        guint32 before, const parley_tcp_segment* part) {
  parley_neg_item* const item = add_item(half, kind);
  item->seq = half->pending_seq + at;
  item->octets = octets;
  item->first_frame = at < before ? half->pending_frame : part->frame;
  if (at < before || part->held) item->copy = (const guint8*)wmem_memdup(wmem_file_scope(), half->pending + at, octets);
  if (at == 0) {
    for (parley_neg_item* p = half->parts; p != NULL; p = p->next_part) p->whole_in = half->conn->pinfo->num;
    half->parts = NULL;
  }
  return item;
}

static void say_other_protocol(parley_neg_item* item, const guint8* octets, guint32 length) {
  enum { SHOWN = 16 };
  char hex[3 * SHOWN + 1] = "", text[SHOWN + 1] = "";
  for (guint32 i = 0; i < MIN(length, SHOWN); i++) {
    snprintf(hex + (i == 0 ? 0 : 3 * i - 1), 4, i == 0 ? "%02x" : " %02x", octets[i]);
    text[i] = octets[i] >= 0x20 && octets[i] < 0x7F ? (char)octets[i] : '.';
  }
  parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_PROTOCOL, "the peer speaks another protocol: %s ('%s')", hex, text);
}

/* Whether octets at the beginning of a stream may be a negotiation. Decides it when there are enough octets. */
static gboolean believe(neg_half* half) {
  parley_neg_conn* const conn = half->conn;
  if (conn->confirmed) return TRUE;
  if (!parley_neg_may_begin(half->pending, half->pending_length))
    conn->refuted = TRUE;
  else if (half->pending_length >= PARLEY_NEG_HEADER_LEN)
    *(parley_neg_sane(half->pending, FALSE) ? &conn->confirmed : &conn->refuted) = TRUE;
  return conn->confirmed;
}

/* Takes one message at `at` of the pending octets and returns its size. 0: it is not whole yet, or no further messages
 * can be found. */
static guint32 take_message(neg_half* half, guint32 at, guint32 before, const parley_tcp_segment* part) {
  const guint8* const octets = half->pending + at;
  const guint32 left = half->pending_length - at;
  if (left == 0) return 0;
  if (!parley_neg_may_begin(octets, left)) {
    say_other_protocol(item_of_pending(half, PARLEY_NEG_STRANGE, at, left, before, part), octets, left);
    half->state = half_over;
    return 0;
  }
  if (left < PARLEY_NEG_HEADER_LEN) return 0;
  const parley_neg_header h = parley_neg_header_of(octets);
  parley_neg_remarks remarks = {.scope = wmem_file_scope()};
  const gboolean goes_on = parley_neg_check_header(&h, &remarks);
  if (goes_on && left - PARLEY_NEG_HEADER_LEN < h.length) return 0;
  const guint32 whole = goes_on ? PARLEY_NEG_HEADER_LEN + h.length : left;
  learn_roles(half, &h);
  if (half->conn->qp == PARLEY_NEG_QP_UNKNOWN && goes_on && h.type == PARLEY_NEG_TYPE_turn &&
      parley_neg_like_qp(octets + PARLEY_NEG_HEADER_LEN, h.length))
    half->conn->qp = PARLEY_NEG_QP_LIKELY;
  parley_neg_item* const item = item_of_pending(half, PARLEY_NEG_MESSAGE, at, whole, before, part);
  item->remarks = remarks;
  if (!goes_on) {
    half->state = half_over;
    return 0;
  }
  const guint8* const body = octets + PARLEY_NEG_HEADER_LEN;
  if (remarks.first == NULL || remarks.first->kind == PARLEY_NEG_REMARK_LONG) {
    half->pending_length -= at; /* judge_turn() counts from it */
    judge_order(half, &h, body, part, item);
    if (item->remarks.last != remarks.last) half->holes = TRUE; /* a faulty order proves nothing about the peer */
    half->pending_length += at;
    item->qp = half->conn->qp;
    if (item->remarks.first == NULL) parley_neg_check_body(&h, body, (parley_neg_qp)item->qp, &item->remarks);
  } else {
    half->gap = half->holes = TRUE; /* it ends the session; later messages are shown, but their order is not judged */
    if (half->begun == no) half->begun = unknown;
  }
  return whole;
}

static void take_messages(neg_half* half, guint32 before, const parley_tcp_segment* part) {
  guint32 at = 0;
  while (half->state == half_follow) {
    const guint32 taken = take_message(half, at, before, part);
    if (taken == 0) break;
    at += taken;
  }
  if (half->state != half_follow) at = half->pending_length;
  if (at == 0) return;
  if (at >= before) half->pending_frame = part->frame;
  half->pending_seq += at;
  half->pending_length -= at;
  memmove(half->pending, half->pending + at, half->pending_length);
  if (half->pending_length == 0) half->parts = NULL;
}

static void append(neg_half* half, const parley_tcp_segment* part) {
  const guint32 need = half->pending_length + part->captured;
  if (need > half->pending_room) {
    half->pending_room = MAX(need, 2 * half->pending_room);
    half->pending = (guint8*)wmem_realloc(wmem_file_scope(), half->pending, half->pending_room);
  }
  if (half->pending_length == 0) {
    half->pending_seq = part->seq;
    half->pending_frame = part->frame;
  }
  memcpy(half->pending + half->pending_length, part->data, part->captured);
  half->pending_length = need;
}

/* Records the octets of an incomplete message, so that this frame can later name the frame that completes it. */
static void note_part(neg_half* half, const parley_tcp_segment* part) {
  if (half->pending_length == 0 || part->held || half->state != half_follow) return;
  const guint32 octets = MIN(half->pending_length, part->captured);
  parley_neg_item* const item = add_item(half, PARLEY_NEG_PART);
  item->seq = part->seq + part->captured - octets;
  item->octets = octets;
  item->next_part = half->parts;
  half->parts = item;
}

static void on_octets(void* context, const parley_tcp_segment* part) {
  neg_half* const half = (neg_half*)context;
  if (half->conn->refuted || half->state == half_over) return;
  if (half->state == half_lost) {
    if (!part->start || part->captured < PARLEY_NEG_HEADER_LEN || !parley_neg_sane(part->data, TRUE)) return;
    half->state = half_follow;
  }
  const guint32 before = half->pending_length;
  append(half, part);
  if (believe(half)) take_messages(half, before, part);
  if (!half->conn->refuted) note_part(half, part);
}

static void on_hole(void* context, guint32 octets, gboolean cut, const parley_tcp_segment* shown_by) {
  neg_half* const half = (neg_half*)context;
  (void)cut;
  (void)shown_by;
  if (half->conn->refuted || half->state == half_over) return;
  if (!half->conn->confirmed) {
    half->conn->refuted = TRUE;
    return;
  }
  parley_neg_item* const item = add_item(half, PARLEY_NEG_NOTE);
  parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_MISSING, "%u octet%s of the %s are not in the capture", octets,
                 octets == 1 ? "" : "s",
                 item->from == PARLEY_NEG_FROM_INITIATOR   ? "initiator"
                 : item->from == PARLEY_NEG_FROM_RESPONDER ? "responder"
                                                           : "sender");
  half->pending_length = 0;
  half->parts = NULL;
  half->state = half_lost;
  half->gap = half->holes = TRUE;
  half->begun = unknown;
}

/* ------------------------------------------------------------------ segments */

parley_neg_conn* parley_neg_conn_new(gboolean confirmed, gboolean midway) {
  parley_neg_conn* const conn = wmem_new0(wmem_file_scope(), parley_neg_conn);
  conn->confirmed = confirmed;
  conn->initiator = conn->opener = -1;
  conn->done = unknown;
  for (guint i = 0; i < 2; i++) {
    neg_half* const half = &conn->half[i];
    half->conn = conn;
    half->side = (guint8)i;
    half->stage = PARLEY_NEG_STAGE_info;
    half->begun = midway ? unknown : no;
    half->gap = half->holes = midway;
    half->state = midway ? half_lost : half_follow;
  }
  return conn;
}

void parley_neg_conn_sync(parley_neg_conn* conn, guint side, guint32 seq) {
  parley_stream_sync(&conn->half[side].stream, seq);
}

void parley_neg_conn_opened_by(parley_neg_conn* conn, guint side) { conn->opener = (gint8)side; }

static void note_end(neg_half* half, gboolean reset) {
  half->ended = TRUE;
  if (!half->conn->confirmed || half->pending_length == 0 || half->state != half_follow) return;
  parley_neg_item* const item = add_item(half, PARLEY_NEG_NOTE);
  parley_neg_say(&item->remarks, PARLEY_NEG_REMARK_HALF, "%s after %u octet%s of a message", reset ? "RST" : "FIN",
                 half->pending_length, half->pending_length == 1 ? "" : "s");
}

void parley_neg_conn_segment(parley_neg_conn* conn, packet_info* pinfo, guint side, const parley_tcp_segment* segment,
                             guint16 flags) {
  if (conn->refuted) return;
  neg_half *const half = &conn->half[side], *const peer = &conn->half[1 - side];
  const parley_stream_sink mine = {on_octets, on_hole, half}, theirs = {on_octets, on_hole, peer};
  conn->pinfo = pinfo;
  if (segment->has_ack) parley_stream_acked(&peer->stream, segment->ack, segment, &theirs);
  parley_stream_add(&half->stream, segment, &mine);
  if (!conn->confirmed && half->stream.held_octets > PERHAPS_HELD_MAX) conn->refuted = TRUE;
  const gboolean fin = (flags & PARLEY_TCP_FIN) != 0 && segment->seq + segment->length == half->stream.next_seq;
  const gboolean rst = (flags & PARLEY_TCP_RST) != 0;
  if ((fin || rst) && !half->ended) note_end(half, rst);
  conn->pinfo = NULL;
}
