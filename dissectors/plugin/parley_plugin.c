/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the plugin gets the octets of TCP, and how it coexists with other dissectors.
 *
 * Next to the built-in dissector. "iwarp_mpa" is a heuristic on TCP that recognises a connection by its Request.
 * Wireshark calls the newest entry of the heuristic list first, and plugins register after the built-in dissectors. So
 * the plugin sees the Request first, takes it, and makes itself the connection's dissector; Wireshark does not call the
 * built-in one again. That one remains usable: with --disable-protocol parley, --disable-heuristic parley_tcp, or the
 * same in the GUI, it gets every frame as if this plugin did not exist, and its fields and filters are never changed.
 * The plugin does not disable its heuristic, because Wireshark would write that into the user's profile, where it
 * outlives the plugin. Wireshark moves the entry that last succeeded to the front. So after a time without the plugin
 * it may call the built-in heuristic first. That one then has the frame of the Request, and the postdissector (see
 * watch()) takes the connection over from there.
 *
 * Segments that TCP does not pass on. With default preferences TCP passes no subdissector a segment that it calls out
 * of order or a retransmission, nor pure acknowledgments, FIN or RST. Requesting reassembly would not change that, and
 * would only work for segments in order. Therefore a postdissector examines each frame of a known connection that TCP
 * did not pass on. It finds the TCP header from the network address, which points into the frame's octets, and accepts
 * it only if version, protocol and both ports agree. Taps would be another source, but they are inactive in the first
 * of two passes. */
#include <epan/prefs.h>
#include <epan/proto_data.h>
#include <epan/tap.h>
#include <string.h>
#include <ws_version.h>

#include "parley_begin.h"
#include "parley_ib.h"
#include "parley_neg.h"
#include "parley_rdmap.h"

#ifndef PARLEY_PLUGIN_VERSION
#define PARLEY_PLUGIN_VERSION "0"
#endif

/* Wireshark compares the two numbers and refuses a plugin for another version with a message. */
WS_DLL_PUBLIC_DEF const gchar plugin_version[] = PARLEY_PLUGIN_VERSION;
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;
WS_DLL_PUBLIC void plugin_register(void);
#if PARLEY_WIRESHARK_SINCE(4, 4)
WS_DLL_PUBLIC uint32_t plugin_describe(void);
uint32_t plugin_describe(void) { return WS_PLUGIN_DESC_DISSECTOR; }
#endif

static dissector_handle_t parley_handle;
static int parley_tap; /* gets a parley_conn for each of its frames, in the first pass, too */
static const heur_dtbl_entry_t* heuristic;
static guint32 heads;            /* number of connections with a few kept octets of a startup frame */
static guint32 front_door_frame; /* the frame that TCP passed on to the plugin, during its dissection */

static void forget_file(void) {
  parley_conn_forget();
  heads = 0;
  front_door_frame = 0;
}

/* ------------------------------------------------------------------ connections */

static guint side_of(const parley_tcp* tcp, const packet_info* pinfo) {
  const parley_conn* const c = tcp->conn;
  return c->port[0] == pinfo->srcport && c->port[1] == pinfo->destport && addresses_equal(&c->addr[0], &pinfo->src) ? 0
                                                                                                                    : 1;
}

/* Guesses the initiator if no startup frame shows it. */
static gboolean sender_is_initiator(const packet_info* pinfo, const struct tcp_analysis* analysis) {
  const gboolean low = pinfo->srcport < pinfo->destport;
  if (parley_prefs.role == PARLEY_ROLE_LOW_PORT) return low;
  if (parley_prefs.role == PARLEY_ROLE_HIGH_PORT) return !low;
  /* The side that opened TCP is usually the initiator (RFC 5044 §7.1.2 rule 1 does not require it). */
  if (analysis != NULL && analysis->server_port != 0 && pinfo->srcport != pinfo->destport)
    return pinfo->destport == analysis->server_port;
  return !low;
}

/* Whether the initiator sent the startup frame with which a connection begins. A Reply comes first if the capture lacks
 * its Request, and so may any other frame. But a side that has received nothing and sends one considers itself the
 * initiator. */
static gboolean startup_is_initiators(parley_beginning how, packet_info* pinfo, const struct tcp_analysis* analysis) {
  if (how == PARLEY_BEGINS_REQUEST || parley_peer_sent_nothing(pinfo, analysis)) return TRUE;
  return how == PARLEY_BEGINS_OTHER &&
         (parley_syns_of(pinfo, analysis).own == FALSE || sender_is_initiator(pinfo, analysis));
}

/* If a side's SYN is known, its positions count from there, whether this frame has its first octets or the capture
 * lacks earlier ones. */
static void sync_to_syns(parley_tcp* tcp, const parley_syns* s, guint sender, guint32 first_seq,
                         const parley_tcp_header* h) {
  parley_half *const own = &tcp->half[sender], *const other = &tcp->half[1 - sender];
  const guint32 heard = h->ack - s->other_first, before = first_seq - s->own_first;
  if (s->own && before < PARLEY_HELD_OCTETS_MAX) {
    own->from_syn = before == 0;
    parley_stream_sync_behind(&own->stream, first_seq, before);
  }
  if (s->other && (h->flags & PARLEY_TCP_ACK) != 0 && heard < PARLEY_HELD_OCTETS_MAX) {
    other->from_syn = TRUE;
    parley_stream_sync(&other->stream, s->other_first);
  }
}

static parley_tcp* tcp_begin(conversation_t* conversation, packet_info* pinfo, parley_beginning how) {
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  const gboolean known = parley_begins_startup(how);
  const gboolean initiator = known ? startup_is_initiators(how, pinfo, analysis) : sender_is_initiator(pinfo, analysis);
  const guint sender = initiator ? PARLEY_INITIATOR : PARLEY_RESPONDER;
  parley_tcp* const tcp = parley_tcp_new();
  parley_conn* const c = tcp->conn;
  copy_address_wmem(wmem_file_scope(), &c->addr[sender], &pinfo->src);
  copy_address_wmem(wmem_file_scope(), &c->addr[1 - sender], &pinfo->dst);
  c->port[sender] = (guint16)pinfo->srcport;
  c->port[1 - sender] = (guint16)pinfo->destport;
  c->number = parley_conn_number();
  c->first_frame = conversation->setup_frame;
  c->first_at = analysis != NULL ? analysis->ts_first : pinfo->abs_ts;
  const parley_entry* const before = parley_entry_of(conversation);
  if (before != NULL && before->syn_frame != 0 && before->syn_ack_frame != 0) {
    c->syns_seen = TRUE;
    c->syn_at = before->syn_at;
    c->syn_ack_at = before->syn_ack_at;
  }
  c->roles_known = known || parley_prefs.role != PARLEY_ROLE_AUTO;
  parley_entry* const e = parley_entry_made(conversation);
  e->tcp = tcp;
  /* If a Reply comes first, the kept octets are not from behind its Request. */
  if (initiator && e->second_flow == parley_flow_of(conversation, pinfo)) tcp->second_half = e->second_half;
  conversation_set_dissector_from_frame_number(conversation, pinfo->num, parley_handle);
  parley_tcp_header h;
  const parley_syns s = parley_syns_of(pinfo, analysis);
  const gboolean in_pieces = e->head_length > 0 && e->head_flow == parley_flow_of(conversation, pinfo);
  if (known && parley_tcp_find(pinfo, &h)) sync_to_syns(tcp, &s, sender, in_pieces ? e->head_seq : h.seq, &h);
  if (!initiator && e->head_length > 0 && !in_pieces) tcp->first_piece = parley_head_of(e);
  if (!known) parley_mpa_midstream(tcp);
  return tcp;
}

/* ------------------------------------------------------------------ segments */

static void feed(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* payload, const parley_tcp_header* h) {
  const guint32 captured = tvb_captured_length(payload);
  const parley_tcp_segment segment = {.frame = pinfo->num,
                                      .seq = h->seq,
                                      .length = h->length,
                                      .captured = MIN(captured, h->length),
                                      .data = captured > 0 ? tvb_get_ptr(payload, 0, (gint)captured) : NULL,
                                      .ack = h->ack,
                                      .has_ack = (h->flags & PARLEY_TCP_ACK) != 0,
                                      .start = TRUE};
  if (tcp->first_piece != NULL) {
    const parley_tcp_segment* const piece = tcp->first_piece;
    tcp->first_piece = NULL;
    parley_mpa_segment(tcp, pinfo, payload, PARLEY_INITIATOR, piece, 0);
  }
  if (tcp->second_half != NULL) {
    const parley_tcp_segment* const second = tcp->second_half;
    tcp->second_half = NULL;
    if (!tcp->half[PARLEY_INITIATOR].stream.synced) parley_stream_sync(&tcp->half[PARLEY_INITIATOR].stream, h->seq);
    parley_mpa_segment(tcp, pinfo, payload, PARLEY_INITIATOR, second, 0);
  }
  parley_mpa_segment(tcp, pinfo, payload, side_of(tcp, pinfo), &segment, h->flags);
}

/* TCP's sequence numbers are relative or not, depending on a preference. `info` describes the octets that TCP passed
 * on: those of this segment or, if the user lets TCP reorder segments, more. */
static void header_of(packet_info* pinfo, conversation_t* conversation, const struct tcpinfo* info, tvbuff_t* tvb,
                      parley_tcp_header* out) {
  parley_tcp_header seen = {0};
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  guint32 seq_base = analysis->fwd->base_seq, ack_base = analysis->rev->base_seq;
  if (parley_tcp_find(pinfo, &seen)) {
    seq_base = seen.seq + seen.length - info->nxtseq;
    ack_base = seen.ack - info->lastackseq;
  }
  out->seq = info->seq + seq_base;
  out->ack = info->lastackseq + ack_base;
  out->flags = (guint16)(info->flags & 0xFF);
  out->tvb = tvb;
  out->payload = 0;
  out->length = tvb_reported_length(tvb);
}

/* The tap gets the connections of the frame's items. On later passes the TCP connection's present parley_conn is the
 * last one, which may not be the frame's: a second Request after a reject begins another. */
static void tap_frame(const parley_tcp* tcp, packet_info* pinfo) {
  const parley_frame* const frame = parley_frame_of(pinfo);
  if (frame == NULL) tap_queue_packet(parley_tap, pinfo, tcp->conn);
  const parley_conn* before = NULL;
  for (const parley_item* item = frame == NULL ? NULL : frame->first; item != NULL; item = item->next) {
    if (item->conn != before) tap_queue_packet(parley_tap, pinfo, item->conn);
    before = item->conn;
  }
}

static int dissect_known(parley_tcp* tcp, tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree,
                         const parley_tcp_header* h) {
  if (!pinfo->fd->visited) feed(tcp, pinfo, tvb, h);
  front_door_frame = pinfo->num;
  if (parley_frame_of(pinfo) == NULL) /* nothing new, or no longer MPA: other dissectors may take it */
    return parley_mpa_follows(tcp) ? (int)tvb_captured_length(tvb) : 0;
  if (parley_fills_columns(pinfo)) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_clear(pinfo->cinfo, COL_INFO);
  }
  parley_show(tvb, h->seq, pinfo, tree, tcp);
  tap_frame(tcp, pinfo);
  return (int)tvb_captured_length(tvb);
}

/* Called as the connection's dissector, or because of Decode As. */
static int dissect_parley(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* data) {
  const struct tcpinfo* const info = (const struct tcpinfo*)data;
  if (info == NULL || pinfo->ptype != PT_TCP || pinfo->flags.in_error_pkt) return 0;
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  parley_tcp* tcp = parley_tcp_of(conversation);
  if (tcp == NULL) {
    if (pinfo->fd->visited) return 0;
    const parley_beginning how = parley_believed(parley_tvb_begins(tvb), conversation, pinfo, tvb);
    if (how == PARLEY_BEGINS_PERHAPS) return 0; /* see watch() */
    tcp = tcp_begin(conversation, pinfo, how);
    tcp->forced = how == PARLEY_BEGINS_NOTHING;
  }
  parley_tcp_header h;
  header_of(pinfo, conversation, info, tvb, &h);
  return dissect_known(tcp, tvb, pinfo, tree, &h);
}

static parley_bool dissect_heuristic(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* data) {
  const struct tcpinfo* const info = (const struct tcpinfo*)data;
  if (info == NULL || pinfo->flags.in_error_pkt || tvb_captured_length(tvb) < PARLEY_BEGIN_TELLS) return FALSE;
  parley_beginning how = parley_tvb_begins(tvb);
  if (how == PARLEY_BEGINS_PERHAPS) return FALSE; /* see watch() */
  if (how != PARLEY_BEGINS_NOTHING) how = parley_believed(how, find_or_create_conversation(pinfo), pinfo, tvb);
  if (how == PARLEY_BEGINS_NOTHING) {
    /* The capture may lack the connection's beginning. A good CRC over a plausible DDP segment is not an accident. */
    if (!parley_prefs.heuristic_fpdu || pinfo->fd->visited) return FALSE;
    const gint captured = (gint)tvb_captured_length(tvb);
    if (!parley_looks_like_fpdu(tvb_get_ptr(tvb, 0, captured), (guint32)captured)) return FALSE;
  }
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  parley_tcp* tcp = parley_tcp_of(conversation);
  if (tcp == NULL && pinfo->fd->visited) return FALSE;
  if (tcp == NULL) tcp = tcp_begin(conversation, pinfo, how);
  parley_tcp_header h;
  header_of(pinfo, conversation, info, tvb, &h);
  return dissect_known(tcp, tvb, pinfo, tree, &h) != 0;
}

/* Looks for the beginning of a connection in frames that TCP does not pass on to the plugin: another dissector is
 * registered for the port (4420, 5445), TCP calls the segment a retransmission, or a startup frame arrives octet by
 * octet. First pass only. */
static parley_tcp* watch(packet_info* pinfo, tvbuff_t* payload, const parley_tcp_header* h) {
  parley_beginning how = parley_tvb_begins(payload);
  const gboolean fits = h->length < PARLEY_MPA_STARTUP_MAX; /* fits into a startup frame, with octets before it */
  if (how == PARLEY_BEGINS_NOTHING && heads == 0 && !fits) return NULL;
  if (heuristic == NULL || !heuristic->enabled) return NULL; /* the user disabled recognition */
  conversation_t* const conversation = find_conversation_pinfo(pinfo, 0);
  if (conversation == NULL) return NULL;
  if (how == PARLEY_BEGINS_NOTHING && fits) parley_keep_second_half(conversation, pinfo, payload, h);
  how = parley_believed(how, conversation, pinfo, payload);
  if (parley_begins_startup(how)) return tcp_begin(conversation, pinfo, how);
  parley_entry* e = parley_entry_of(conversation);
  if (how == PARLEY_BEGINS_PERHAPS && parley_with_second_half(conversation, pinfo, payload, h) == PARLEY_BEGINS_REQUEST)
    return tcp_begin(conversation, pinfo, PARLEY_BEGINS_REQUEST);
  if (e == NULL || e->head_length == 0) {
    if (how != PARLEY_BEGINS_PERHAPS) return NULL;
    e = parley_entry_made(conversation);
    e->head_flow = parley_flow_of(conversation, pinfo);
    e->head_seq = h->seq;
    e->head_frame = pinfo->num;
    heads++;
  }
  if (e->head_flow != parley_flow_of(conversation, pinfo) || h->seq != e->head_seq + e->head_length) return NULL;
  guint8 head[PARLEY_BEGIN_ENOUGH];
  const guint32 more = MIN(tvb_captured_length(payload), PARLEY_BEGIN_ENOUGH - e->head_length);
  memcpy(head, e->head, e->head_length);
  tvb_memcpy(payload, head + e->head_length, 0, more);
  how = parley_startup_begins(head, e->head_length + more);
  if (how == PARLEY_BEGINS_PERHAPS) {
    memcpy(e->head, head, PARLEY_BEGIN_ENOUGH);
    e->head_length += more;
    return NULL;
  }
  if (how == PARLEY_BEGINS_NOTHING) {
    e->head_length = 0;
    heads--;
    return NULL;
  }
  heads--;
  how = parley_believed(how, conversation, pinfo, payload);
  if (!parley_begins_startup(how)) return NULL;
  parley_tcp* const tcp = tcp_begin(conversation, pinfo, how);
  parley_mpa_segment(tcp, pinfo, payload, side_of(tcp, pinfo), parley_head_of(e), 0);
  return tcp;
}

/* Records the SYNs of a TCP connection that may turn out to carry MPA. */
static void note_syn(packet_info* pinfo, const parley_tcp_header* h) {
  conversation_t* const conversation = find_conversation_pinfo(pinfo, 0);
  if (conversation == NULL || pinfo->fd->visited) return;
  parley_entry* const e = parley_entry_made(conversation);
  const gboolean answer = (h->flags & PARLEY_TCP_ACK) != 0;
  guint32* const frame = answer ? &e->syn_ack_frame : &e->syn_frame;
  if (*frame != 0) return;
  *frame = pinfo->num;
  *(answer ? &e->syn_ack_at : &e->syn_at) = pinfo->abs_ts;
}

static int dissect_passed_by(packet_info* pinfo, proto_tree* tree) {
  if (front_door_frame == pinfo->num) {
    front_door_frame = 0;
    return 0;
  }
  if (pinfo->fd->visited && parley_frame_of(pinfo) == NULL) return 0;
  parley_tcp_header h;
  if (!parley_tcp_find(pinfo, &h)) return 0;
  if ((h.flags & PARLEY_TCP_SYN) != 0) note_syn(pinfo, &h);
  if (parley_conn_count() == 0 && h.length == 0) return 0;
  tvbuff_t* const payload = tvb_new_subset_length(h.tvb, h.payload, (gint)h.length);
  conversation_t* const conversation = parley_conn_count() == 0 ? NULL : find_conversation_pinfo(pinfo, 0);
  parley_tcp* tcp = parley_tcp_of(conversation);
  if (tcp == NULL && !pinfo->fd->visited && h.length > 0) tcp = watch(pinfo, payload, &h);
  if (tcp == NULL) return 0;
  if (!pinfo->fd->visited) feed(tcp, pinfo, payload, &h);
  tap_frame(tcp, pinfo);
  if (parley_frame_of(pinfo) == NULL) return 0;
  if (parley_fills_columns(pinfo)) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_clear(pinfo->cinfo, COL_INFO); /* keeps the fenced text of TCP's analysis of the segment */
  }
  parley_show(payload, h.seq, pinfo, tree, tcp);
  return 1;
}

/* Frames that TCP passed on to other dissectors, or to none. The built-in dissector leaves its own port type in
 * `pinfo`, with which no TCP conversation can be found. */
static int dissect_post(tvbuff_t* tvb _U_, packet_info* pinfo, proto_tree* tree, void* data _U_) {
  const port_type left = pinfo->ptype;
  if (left != PT_TCP && left != PT_IWARP_MPA) return 0;
  pinfo->ptype = PT_TCP;
  const int taken = dissect_passed_by(pinfo, tree);
  pinfo->ptype = left;
  return taken;
}

/* ------------------------------------------------------------------ registration */

static void register_preferences(void) {
  static const enum_val_t roles[] = {{"auto", "Side that opened TCP, else the higher port", PARLEY_ROLE_AUTO},
                                     {"low_port", "Lower port", PARLEY_ROLE_LOW_PORT},
                                     {"high_port", "Higher port", PARLEY_ROLE_HIGH_PORT},
                                     {NULL, NULL, 0}};
  static const enum_val_t markers[] = {{"auto", "Find out", PARLEY_MARKERS_AUTO},
                                       {"none", "None", PARLEY_MARKERS_NONE},
                                       {"both", "Both directions", PARLEY_MARKERS_BOTH},
                                       {"to_responder", "Initiator to responder", PARLEY_MARKERS_TO_RESPONDER},
                                       {"to_initiator", "Responder to initiator", PARLEY_MARKERS_TO_INITIATOR},
                                       {NULL, NULL, 0}};
  static const enum_val_t crcs[] = {{"auto", "Find out", PARLEY_CRC_AUTO},
                                    {"on", "On", PARLEY_CRC_ON},
                                    {"off", "Off", PARLEY_CRC_NONE},
                                    {NULL, NULL, 0}};
  module_t* const module = parley_module();
  prefs_register_static_text_preference(module, "lost_startup", "Where the startup frames are not in the capture:",
                                        "With Decode As, and for connections found by the CRC of an FPDU");
  prefs_register_enum_preference(module, "role", "Initiator", "Who is the initiator", &parley_prefs.role, roles, FALSE);
  prefs_register_enum_preference(module, "markers", "Markers", "Which direction has markers (RFC 5044 §4.3)",
                                 &parley_prefs.markers, markers, FALSE);
  prefs_register_enum_preference(module, "crc", "CRC", "Whether FPDUs carry a CRC (RFC 5044 §4.4)", &parley_prefs.crc,
                                 crcs, FALSE);
  prefs_register_bool_preference(module, "heuristic_fpdu", "Recognise connections by their FPDUs",
                                 "Take up a connection in its middle when a segment begins with an FPDU whose CRC is "
                                 "right",
                                 &parley_prefs.heuristic_fpdu);
}

static void register_parley(void) {
  proto_parley = proto_register_protocol("iWARP (Parley)", "Parley", "parley");
  parley_handle = register_dissector("parley", dissect_parley, proto_parley);
  parley_tap = register_tap("parley");
  parley_mpa_register();
  parley_rdmap_register();
  parley_track_register();
  parley_private_register();
  parley_stat_register();
  register_preferences();
  register_init_routine(forget_file);
  register_postdissector(create_dissector_handle(dissect_post, proto_parley));
  parley_neg_register();
  parley_ib_register();
}

static void handoff_parley(void) {
  heur_dissector_add("tcp", dissect_heuristic, "iWARP over TCP (Parley)", "parley_tcp", proto_parley, HEURISTIC_ENABLE);
  heuristic = find_heur_dissector_by_unique_short_name("parley_tcp");
  dissector_add_for_decode_as_with_preference("tcp.port", parley_handle);
  parley_neg_handoff();
  parley_ib_handoff();
}

void plugin_register(void) {
  static proto_plugin plugin;
  plugin.register_protoinfo = register_parley;
  plugin.register_handoff = handoff_parley;
  proto_register_plugin(&plugin);
}
