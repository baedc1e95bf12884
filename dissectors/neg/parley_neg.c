/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Recognises a negotiation, and gets the octets of its TCP connection.
 *
 * With default preferences Wireshark's TCP dissector passes on no segment that it calls out of order or a
 * retransmission. So a postdissector examines each frame and finds the octets itself, as for MPA
 * (plugin/parley_plugin.c). The dissector for segments that TCP does pass on only keeps other dissectors from taking
 * them. */
#include <epan/conversation.h>
#include <epan/expert.h>

#include "parley_neg.h"
#include "parley_tcp.h"

/* If a stream's beginning may still arrive, at most this many octets have been sent behind it. */
#define AHEAD_MAX (64u << 10)

int proto_parley_neg = -1;

static dissector_handle_t handle;
static heur_dtbl_entry_t* heuristic;
static guint32 entries;

typedef struct neg_entry {
  parley_neg_conn* conn;  /* NULL: requested with Decode As, not made yet */
  const tcp_flow_t* flow; /* of side 0 */
} neg_entry;

static void forget_file(void) { entries = 0; }

static neg_entry* entry_of(conversation_t* conversation) {
  return conversation == NULL ? NULL : (neg_entry*)conversation_get_proto_data(conversation, proto_parley_neg);
}

static neg_entry* entry_made(conversation_t* conversation) {
  neg_entry* const e = wmem_new0(wmem_file_scope(), neg_entry);
  conversation_add_proto_data(conversation, proto_parley_neg, e);
  entries++;
  return e;
}

/* Side 0 is the sender of the first examined segment. Both ends may have the same port and address. */
static void begin(neg_entry* e, conversation_t* conversation, packet_info* pinfo, gboolean confirmed, gboolean midway) {
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  const parley_syns s = parley_syns_of(pinfo, analysis);
  e->conn = parley_neg_conn_new(confirmed, midway);
  e->flow = analysis == NULL ? NULL : analysis->fwd;
  if (s.own) parley_neg_conn_sync(e->conn, 0, s.own_first);
  if (s.other) parley_neg_conn_sync(e->conn, 1, s.other_first);
  if ((s.own || s.other) && pinfo->srcport != pinfo->destport)
    parley_neg_conn_opened_by(e->conn, pinfo->destport == analysis->server_port ? 0 : 1);
}

/* Whether a negotiation begins with this segment, which has octets; with `perhaps`, whether it may begin. Octets behind
 * a SYN are the beginning of a stream. Without the SYN, a header without fault counts as the beginning. */
static gboolean may_begin(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload,
                          const parley_tcp_header* h, gboolean* midway, gboolean perhaps) {
  struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  if (analysis == NULL) return FALSE;
  const parley_syns s = parley_syns_of(pinfo, analysis);
  const guint32 captured = tvb_captured_length(payload), length = MIN(captured, PARLEY_NEG_HEADER_LEN);
  const guint8* const octets = length == 0 ? NULL : tvb_get_ptr(payload, 0, (gint)length);
  *midway = !s.own;
  if (s.own && h->seq != s.own_first)
    return perhaps && h->seq - s.own_first < AHEAD_MAX && parley_tcp_behind_a_hole(analysis, pinfo->num, h);
  if (length == 0 || !parley_neg_may_begin(octets, length)) return FALSE;
  if (length < PARLEY_NEG_HEADER_LEN) return perhaps && s.own;
  if (s.own) return parley_neg_sane(octets, FALSE);
  const dissector_handle_t others = conversation_get_dissector(conversation, pinfo->num);
  return (others == NULL || others == handle) && parley_neg_sane(octets, TRUE);
}

/* ------------------------------------------------------------------ segments from TCP */

/* Called as the connection's dissector, or because of Decode As. */
static int dissect_known(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree _U_, void* data) {
  if (data == NULL || pinfo->ptype != PT_TCP || pinfo->flags.in_error_pkt) return 0;
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  const neg_entry* e = entry_of(conversation);
  if (e == NULL && !pinfo->fd->visited) e = entry_made(conversation);
  if (e == NULL || (e->conn != NULL && parley_neg_conn_refuted(e->conn))) return 0;
  return (int)tvb_captured_length(tvb);
}

static parley_bool dissect_heuristic(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree _U_, void* data) {
  parley_tcp_header h;
  gboolean midway = FALSE;
  if (data == NULL || pinfo->flags.in_error_pkt || tvb_captured_length(tvb) < PARLEY_NEG_HEADER_LEN) return FALSE;
  if (tvb_memeql(tvb, 0, (const guint8*)PARLEY_NEG_MAGIC, PARLEY_NEG_MAGIC_LEN) != 0) return FALSE;
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  const neg_entry* const e = entry_of(conversation);
  if (e != NULL) return e->conn == NULL || !parley_neg_conn_refuted(e->conn);
  return !pinfo->fd->visited && parley_tcp_find(pinfo, &h) && may_begin(conversation, pinfo, tvb, &h, &midway, FALSE);
}

/* ------------------------------------------------------------------ each frame */

/* The negotiation of this frame's connection, or a candidate for one; NULL: neither. */
static neg_entry* look_for(packet_info* pinfo, tvbuff_t* payload, const parley_tcp_header* h) {
  enum { MAGIC = PARLEY_NEG_MAGIC_LEN };
  const guint32 head = MIN(tvb_captured_length(payload), MAGIC);
  const gboolean like = head > 0 && parley_neg_may_begin(tvb_get_ptr(payload, 0, (gint)head), head);
  if (!like && entries == 0 && (h->length == 0 || h->length > AHEAD_MAX)) return NULL;
  conversation_t* const conversation = find_conversation_pinfo(pinfo, 0);
  neg_entry* e = entry_of(conversation);
  if (conversation == NULL || (e != NULL && e->conn != NULL)) return e;
  if (h->length == 0) return NULL;
  gboolean midway = FALSE;
  if (e != NULL) { /* Decode As */
    const parley_syns s = parley_syns_of(pinfo, get_tcp_conversation_data(conversation, pinfo));
    begin(e, conversation, pinfo, TRUE, !s.own);
    return e;
  }
  if (heuristic == NULL || !heuristic->enabled) return NULL;
  if (!may_begin(conversation, pinfo, payload, h, &midway, TRUE)) return NULL;
  e = entry_made(conversation);
  begin(e, conversation, pinfo, midway, midway);
  return e;
}

static void feed(neg_entry* e, packet_info* pinfo, tvbuff_t* payload, const parley_tcp_header* h) {
  conversation_t* const conversation = find_conversation_pinfo(pinfo, 0);
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  const guint32 captured = MIN(tvb_captured_length(payload), h->length);
  const parley_tcp_segment segment = {.frame = pinfo->num,
                                      .seq = h->seq,
                                      .length = h->length,
                                      .captured = captured,
                                      .data = captured > 0 ? tvb_get_ptr(payload, 0, (gint)captured) : NULL,
                                      .ack = h->ack,
                                      .has_ack = (h->flags & PARLEY_TCP_ACK) != 0,
                                      .start = TRUE};
  const gboolean before = parley_neg_conn_confirmed(e->conn);
  parley_neg_conn_segment(e->conn, pinfo, analysis->fwd == e->flow ? 0 : 1, &segment, h->flags);
  if (parley_neg_conn_confirmed(e->conn) && (!before || conversation_get_dissector(conversation, pinfo->num) == NULL))
    conversation_set_dissector_from_frame_number(conversation, pinfo->num, handle);
}

static int dissect_post(tvbuff_t* tvb _U_, packet_info* pinfo, proto_tree* tree, void* data _U_) {
  parley_tcp_header h;
  if (pinfo->ptype != PT_TCP || (pinfo->fd->visited && parley_neg_frame_of(pinfo) == NULL)) return 0;
  if (!parley_tcp_find(pinfo, &h) || (h.flags & PARLEY_TCP_SYN) != 0) return 0;
  tvbuff_t* const payload = tvb_new_subset_length(h.tvb, h.payload, (gint)h.length);
  if (!pinfo->fd->visited) {
    neg_entry* const e = look_for(pinfo, payload, &h);
    if (e != NULL && e->conn != NULL) feed(e, pinfo, payload, &h);
  }
  const parley_neg_frame* const frame = parley_neg_frame_of(pinfo);
  if (frame == NULL || !parley_neg_conn_confirmed(frame->conn)) return 0;
  parley_neg_show(payload, h.seq, pinfo, tree);
  return 1;
}

/* ------------------------------------------------------------------ registration */

void parley_neg_register(void) {
  proto_parley_neg = proto_register_protocol("Staged QP negotiation (Parley)", "ParleyNeg", "parley_neg");
  handle = register_dissector("parley_neg", dissect_known, proto_parley_neg);
  parley_neg_show_register();
  register_init_routine(forget_file);
  register_postdissector(create_dissector_handle(dissect_post, proto_parley_neg));
}

void parley_neg_handoff(void) {
  heur_dissector_add("tcp", dissect_heuristic, "Staged QP negotiation over TCP (Parley)", "parley_neg_tcp",
                     proto_parley_neg, HEURISTIC_ENABLE);
  heuristic = find_heur_dissector_by_unique_short_name("parley_neg_tcp");
  dissector_add_for_decode_as_with_preference("tcp.port", handle);
}
