/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How TCP's octets get here, and who else might want them.
 *
 * Beside the built-in dissector. "iwarp_mpa" is a heuristic on TCP that knows a connection by its Request. Wireshark
 * asks the newest entry of that list first, and plugins register after what is built in; so ours sees the Request
 * first, takes it, and sets itself as the connection's dissector: the built-in one is not asked again. It stays usable:
 * with --disable-protocol parley, --disable-heuristic parley_tcp, or the same in the GUI, every frame goes to it as if
 * this plugin did not exist, and its fields and filters are never touched. Its heuristic is not switched off, because
 * Wireshark would write that into the user's profile, where it outlives the plugin. Wireshark moves the entry that was
 * right last to the front, so after a time without us the built-in one may be asked first: then it has the frame of the
 * Request, and the postdissector (see watch()) takes the connection over from there.
 *
 * Segments that TCP hands on to nobody. With default preferences TCP gives no subdissector a segment that it calls out
 * of order or a retransmission, nor pure acknowledgments, FIN or RST. Asking for reassembly would not change that,
 * and would only work for segments in order. A postdissector therefore looks at each frame of a known connection that
 * did not come through the front door. It finds the TCP header by way of the network address, which points into the
 * frame's octets, and believes it only if version, protocol and both ports agree; taps would be the other source, but
 * they are idle in the first of two passes. */
#include <epan/conversation.h>
#include <epan/dissectors/packet-tcp.h>
#include <epan/prefs.h>
#include <epan/proto_data.h>
#include <epan/tap.h>
#include <string.h>
#include <ws_version.h>

#include "parley_mpa.h"

#ifndef PARLEY_PLUGIN_VERSION
#define PARLEY_PLUGIN_VERSION "0"
#endif

/* Wireshark compares the two numbers and refuses a plugin for another version in words of its own. */
WS_DLL_PUBLIC_DEF const gchar plugin_version[] = PARLEY_PLUGIN_VERSION;
WS_DLL_PUBLIC_DEF const int plugin_want_major = WIRESHARK_VERSION_MAJOR;
WS_DLL_PUBLIC_DEF const int plugin_want_minor = WIRESHARK_VERSION_MINOR;
WS_DLL_PUBLIC void plugin_register(void);

int proto_parley = -1;
int parley_tap;
parley_preferences parley_prefs = {.heuristic_fpdu = TRUE};

static dissector_handle_t parley_handle;
static const heur_dtbl_entry_t* heuristic;
static guint32 connections;
static guint32 heads;            /* connections of which a few octets of a startup frame are kept */
static guint32 front_door_frame; /* the frame that TCP handed on to us, while its dissection is under way */

guint32 parley_conn_number(void) { return ++connections; }

static void forget_file(void) {
  connections = 0;
  heads = 0;
  front_door_frame = 0;
}

/* ------------------------------------------------------------------ the TCP header */

typedef struct tcp_header {
  guint32 seq, ack;
  guint16 flags;
  tvbuff_t* tvb;  /* that holds it */
  gint payload;   /* offset in tvb */
  guint32 length; /* of the payload, on the wire */
} tcp_header;

/* Where the segment begins behind an IP header, and how long it is; false if this is no whole TCP segment. */
static gboolean behind_ipv4(tvbuff_t* tvb, gint ip, gint* tcp, guint32* length) {
  if (ip < 0 || tvb_captured_length_remaining(tvb, ip) < 20) return FALSE;
  const guint head = (tvb_get_guint8(tvb, ip) & 0x0Fu) * 4;
  const guint total = tvb_get_ntohs(tvb, ip + 2);
  if (tvb_get_guint8(tvb, ip) >> 4 != 4 || head < 20 || tvb_get_guint8(tvb, ip + 9) != 6) return FALSE;
  if ((tvb_get_ntohs(tvb, ip + 6) & 0x3FFF) != 0) return FALSE; /* a fragment */
  *tcp = ip + (gint)head;
  /* A total length of 0 is what offloading leaves. */
  *length = total > head ? total - head : total == 0 ? (guint32)tvb_reported_length_remaining(tvb, *tcp) : 0;
  return *length > 0;
}

static gboolean behind_ipv6(tvbuff_t* tvb, gint ip, gint* tcp, guint32* length) {
  enum { HOP_BY_HOP = 0, TCP = 6, ROUTING = 43, DESTINATION = 60 };
  if (ip < 0 || tvb_captured_length_remaining(tvb, ip) < 40 || tvb_get_guint8(tvb, ip) >> 4 != 6) return FALSE;
  guint32 left = tvb_get_ntohs(tvb, ip + 4);
  guint8 next = tvb_get_guint8(tvb, ip + 6);
  gint at = ip + 40;
  if (left == 0) left = (guint32)tvb_reported_length_remaining(tvb, at);
  while (next == HOP_BY_HOP || next == ROUTING || next == DESTINATION) {
    if (tvb_captured_length_remaining(tvb, at) < 8) return FALSE;
    const guint32 octets = (tvb_get_guint8(tvb, at + 1) + 1u) * 8;
    if (octets > left) return FALSE;
    next = tvb_get_guint8(tvb, at);
    at += (gint)octets;
    left -= octets;
  }
  *tcp = at;
  *length = left;
  return next == TCP;
}

/* Where the source address stands, with the destination behind it; -1: nowhere. IPv4's address points there; that of
 * IPv6 may be a copy, so that it is looked for, as far as headers below it can reach. */
static gint addresses_in(tvbuff_t* tvb, const packet_info* pinfo) {
  enum { REACH = 256 };
  const gint captured = (gint)tvb_captured_length(tvb), each = pinfo->net_src.len;
  if (captured == 0) return -1;
  const guint8 *const octets = tvb_get_ptr(tvb, 0, captured), *const source = (const guint8*)pinfo->net_src.data;
  if (source >= octets && source < octets + captured) return (gint)(source - octets);
  if (pinfo->net_src.type != AT_IPv6 || pinfo->net_dst.len != each || pinfo->net_dst.data == NULL) return -1;
  for (gint at = 8; at <= REACH && at + 2 * each <= captured; at++)
    if (memcmp(octets + at, source, (size_t)each) == 0 &&
        memcmp(octets + at + each, pinfo->net_dst.data, (size_t)each) == 0)
      return at;
  return -1;
}

static gboolean header_in(tvbuff_t* tvb, packet_info* pinfo, tcp_header* out) {
  const gint at = addresses_in(tvb, pinfo);
  if (at < 0) return FALSE;
  gint tcp = 0;
  guint32 length = 0;
  if (pinfo->net_src.type == AT_IPv4 ? !behind_ipv4(tvb, at - 12, &tcp, &length)
                                     : !behind_ipv6(tvb, at - 8, &tcp, &length))
    return FALSE;
  if (tvb_captured_length_remaining(tvb, tcp) < 20) return FALSE;
  if (tvb_get_ntohs(tvb, tcp) != pinfo->srcport || tvb_get_ntohs(tvb, tcp + 2) != pinfo->destport) return FALSE;
  const guint32 head = (guint32)(tvb_get_guint8(tvb, tcp + 12) >> 4) * 4;
  if (head < 20 || head > length || (guint32)tvb_captured_length_remaining(tvb, tcp) < head) return FALSE;
  out->seq = tvb_get_ntohl(tvb, tcp + 4);
  out->ack = tvb_get_ntohl(tvb, tcp + 8);
  out->flags = tvb_get_guint8(tvb, tcp + 13);
  out->tvb = tvb;
  out->payload = tcp + (gint)head;
  out->length = length - head;
  return TRUE;
}

static gboolean find_header(packet_info* pinfo, tcp_header* out) {
  if (pinfo->net_src.data == NULL || (pinfo->net_src.type != AT_IPv4 && pinfo->net_src.type != AT_IPv6)) return FALSE;
  for (GSList* source = pinfo->data_src; source != NULL; source = source->next)
    if (header_in(get_data_source_tvb((const struct data_source*)source->data), pinfo, out)) return TRUE;
  return FALSE;
}

/* ------------------------------------------------------------------ connections */

/* What hangs on a TCP conversation. Before a connection is known to carry MPA, only the first octets of a Request that
 * came in tiny pieces are kept. */
enum { ENOUGH = 10 }; /* octets of a startup frame that tell what it is: "MPA ID Re", and q or p */

typedef struct entry {
  parley_tcp* tcp;
  guint8 head[ENOUGH];
  guint32 head_length, head_seq;
  guint16 head_port; /* of the sender */
  guint32 head_frame;
  parley_tcp_segment* second_half; /* see keep_second_half() */
  guint16 second_port;
} entry;

static entry* entry_of(conversation_t* conversation) {
  return conversation == NULL ? NULL : (entry*)conversation_get_proto_data(conversation, proto_parley);
}

static parley_tcp* tcp_of(conversation_t* conversation) {
  const entry* const e = entry_of(conversation);
  return e == NULL ? NULL : e->tcp;
}

static entry* entry_made(conversation_t* conversation) {
  entry* e = entry_of(conversation);
  if (e != NULL) return e;
  e = wmem_new0(wmem_file_scope(), entry);
  conversation_add_proto_data(conversation, proto_parley, e);
  return e;
}

static guint side_of(const parley_tcp* tcp, const packet_info* pinfo) {
  const parley_conn* const c = tcp->conn;
  return c->port[0] == pinfo->srcport && c->port[1] == pinfo->destport && addresses_equal(&c->addr[0], &pinfo->src) ? 0
                                                                                                                    : 1;
}

/* Who began, where no startup frame tells. */
static gboolean sender_is_initiator(const packet_info* pinfo, const struct tcp_analysis* analysis) {
  const gboolean low = pinfo->srcport < pinfo->destport;
  if (parley_prefs.role == PARLEY_ROLE_LOW_PORT) return low;
  if (parley_prefs.role == PARLEY_ROLE_HIGH_PORT) return !low;
  /* The side that opened TCP mostly is the initiator (RFC 5044 §7.1.2 rule 1 does not demand it). */
  if (analysis != NULL && analysis->server_port != 0 && pinfo->srcport != pinfo->destport)
    return pinfo->destport == analysis->server_port;
  return !low;
}

typedef enum { BEGINS_NOTHING, BEGINS_PERHAPS, BEGINS_REQUEST, BEGINS_REPLY } beginning;

static beginning startup_begins(const guint8* octets, guint32 length) {
  static const guint8 head[] = "MPA ID Re";
  if (length == 0 || memcmp(octets, head, MIN(length, sizeof head - 1)) != 0) return BEGINS_NOTHING;
  if (length < ENOUGH) return BEGINS_PERHAPS;
  return octets[ENOUGH - 1] == 'q' ? BEGINS_REQUEST : BEGINS_REPLY;
}

static beginning tvb_begins(tvbuff_t* tvb) {
  const gint length = (gint)MIN(tvb_captured_length(tvb), ENOUGH);
  return length == 0 ? BEGINS_NOTHING : startup_begins(tvb_get_ptr(tvb, 0, length), (guint32)length);
}

/* A Reply to a side that has sent nothing, as both SYNs and its acknowledgment show: its sender claims the wrong role.
 */
static gboolean reply_to_nothing(packet_info* pinfo, const struct tcp_analysis* analysis) {
  enum { SYN_AND_SYN_ACK = 0x03 };
  tcp_header h;
  return analysis != NULL && (analysis->conversation_completeness & SYN_AND_SYN_ACK) == SYN_AND_SYN_ACK &&
         find_header(pinfo, &h) && h.ack == analysis->rev->base_seq + 1;
}

/* Whether TCP says that octets before this segment have not come. Its remarks go by frame and by the numbers that it
 * shows, which are relative or not. */
static gboolean behind_a_hole(struct tcp_analysis* analysis, guint32 frame, const tcp_header* h) {
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

/* A Request in two segments, of which the second came first: it is kept until the first shows what this is. What TCP
 * says keeps this to segments behind a hole, and the distance from the SYN to the first of a direction. */
static void keep_second_half(conversation_t* conversation, packet_info* pinfo, tvbuff_t* payload, const tcp_header* h) {
  enum { SYN_SEEN = 0x01 };
  struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  if (analysis == NULL) return;
  const guint32 before = h->seq - (analysis->fwd->base_seq + 1);
  if ((analysis->conversation_completeness & SYN_SEEN) == 0 || before == 0 || before >= PARLEY_MPA_STARTUP_MAX) return;
  if (h->length > PARLEY_MPA_STARTUP_MAX - before || tvb_captured_length(payload) < h->length) return;
  if (!behind_a_hole(analysis, pinfo->num, h)) return;
  entry* const e = entry_made(conversation);
  if (e->second_half != NULL) return;
  parley_tcp_segment* const kept = wmem_new0(wmem_file_scope(), parley_tcp_segment);
  kept->frame = pinfo->num;
  kept->seq = h->seq;
  kept->length = kept->captured = h->length;
  kept->data = (const guint8*)tvb_memdup(wmem_file_scope(), payload, 0, h->length);
  kept->held = TRUE;
  e->second_half = kept;
  e->second_port = (guint16)pinfo->srcport;
}

/* What a short first half and the second one behind it begin with together. */
static beginning with_second_half(const entry* e, const packet_info* pinfo, tvbuff_t* payload, const tcp_header* h) {
  const parley_tcp_segment* const second = e->second_half;
  const guint32 length = tvb_captured_length(payload);
  if (second == NULL || e->second_port != pinfo->srcport || length >= ENOUGH || h->seq + length != second->seq)
    return BEGINS_NOTHING;
  guint8 head[ENOUGH];
  const guint32 more = MIN(second->length, ENOUGH - length);
  tvb_memcpy(payload, head, 0, length);
  memcpy(head + length, second->data, more);
  return startup_begins(head, length + more);
}

static parley_tcp* tcp_begin(conversation_t* conversation, packet_info* pinfo, beginning how) {
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  const gboolean known = how == BEGINS_REQUEST || how == BEGINS_REPLY;
  const gboolean initiator =
      known ? how == BEGINS_REQUEST || reply_to_nothing(pinfo, analysis) : sender_is_initiator(pinfo, analysis);
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
  c->roles_known = known || parley_prefs.role != PARLEY_ROLE_AUTO;
  entry* const e = entry_made(conversation);
  e->tcp = tcp;
  /* Who sends a Reply first has the octets behind its Request, not these. */
  if (how == BEGINS_REQUEST && e->second_port == pinfo->srcport) tcp->second_half = e->second_half;
  conversation_set_dissector_from_frame_number(conversation, pinfo->num, parley_handle);
  if (!known) parley_mpa_midstream(tcp);
  return tcp;
}

/* ------------------------------------------------------------------ segments */

static void feed(parley_tcp* tcp, packet_info* pinfo, tvbuff_t* payload, const tcp_header* h) {
  const guint32 captured = tvb_captured_length(payload);
  const parley_tcp_segment segment = {.frame = pinfo->num,
                                      .seq = h->seq,
                                      .length = h->length,
                                      .captured = MIN(captured, h->length),
                                      .data = captured > 0 ? tvb_get_ptr(payload, 0, (gint)captured) : NULL,
                                      .ack = h->ack,
                                      .has_ack = (h->flags & PARLEY_TCP_ACK) != 0,
                                      .start = TRUE};
  if (tcp->second_half != NULL) {
    const parley_tcp_segment* const second = tcp->second_half;
    tcp->second_half = NULL;
    if (!tcp->half[PARLEY_INITIATOR].stream.synced) parley_stream_sync(&tcp->half[PARLEY_INITIATOR].stream, h->seq);
    parley_mpa_segment(tcp, pinfo, payload, PARLEY_INITIATOR, second, 0);
  }
  parley_mpa_segment(tcp, pinfo, payload, side_of(tcp, pinfo), &segment, h->flags);
}

/* The pieces of a Request (or Reply) that came before it could be told. */
static void feed_head(const entry* e, packet_info* pinfo, tvbuff_t* payload) {
  const parley_tcp_segment segment = {.frame = e->head_frame,
                                      .seq = e->head_seq,
                                      .length = e->head_length,
                                      .captured = e->head_length,
                                      .data = e->head,
                                      .start = TRUE,
                                      .held = TRUE};
  parley_mpa_segment(e->tcp, pinfo, payload, side_of(e->tcp, pinfo), &segment, 0);
}

/* TCP's numbers are relative or not, by preference. `info` speaks of the octets that it handed on, which are those of
 * this segment or, if the user has TCP put segments in order, more. */
static void header_of(packet_info* pinfo, conversation_t* conversation, const struct tcpinfo* info, tvbuff_t* tvb,
                      tcp_header* out) {
  tcp_header seen = {0};
  const struct tcp_analysis* const analysis = get_tcp_conversation_data(conversation, pinfo);
  guint32 seq_base = analysis->fwd->base_seq, ack_base = analysis->rev->base_seq;
  if (find_header(pinfo, &seen)) {
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

/* The tap gets the connections of what the frame brought. On later passes the TCP connection's present one is its last,
 * which need not be the frame's: a second Request after a reject begins another. */
static void tap_frame(const parley_tcp* tcp, packet_info* pinfo) {
  const parley_frame* const frame = parley_frame_of(pinfo);
  if (frame == NULL) tap_queue_packet(parley_tap, pinfo, tcp->conn);
  const parley_conn* before = NULL;
  for (const parley_item* item = frame == NULL ? NULL : frame->first; item != NULL; item = item->next) {
    if (item->conn != before) tap_queue_packet(parley_tap, pinfo, item->conn);
    before = item->conn;
  }
}

static int dissect_known(parley_tcp* tcp, tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, const tcp_header* h) {
  if (!pinfo->fd->visited) feed(tcp, pinfo, tvb, h);
  front_door_frame = pinfo->num;
  if (parley_frame_of(pinfo) == NULL) /* nothing new, or no MPA any more: then others may have it */
    return parley_mpa_follows(tcp) ? (int)tvb_captured_length(tvb) : 0;
  if (parley_fills_columns(pinfo)) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_clear(pinfo->cinfo, COL_INFO);
  }
  parley_show(tvb, h->seq, pinfo, tree, tcp);
  tap_frame(tcp, pinfo);
  return (int)tvb_captured_length(tvb);
}

/* As the connection's dissector, or by Decode As. */
static int dissect_parley(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* data) {
  const struct tcpinfo* const info = (const struct tcpinfo*)data;
  if (info == NULL || pinfo->ptype != PT_TCP || pinfo->flags.in_error_pkt) return 0;
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  parley_tcp* tcp = tcp_of(conversation);
  if (tcp == NULL) {
    if (pinfo->fd->visited) return 0;
    const beginning how = tvb_begins(tvb);
    if (how == BEGINS_PERHAPS) return 0; /* see watch() */
    tcp = tcp_begin(conversation, pinfo, how);
    tcp->forced = how == BEGINS_NOTHING;
  }
  tcp_header h;
  header_of(pinfo, conversation, info, tvb, &h);
  return dissect_known(tcp, tvb, pinfo, tree, &h);
}

static gboolean dissect_heuristic(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, void* data) {
  const struct tcpinfo* const info = (const struct tcpinfo*)data;
  if (info == NULL || pinfo->flags.in_error_pkt || tvb_captured_length(tvb) < ENOUGH) return FALSE;
  const beginning how = tvb_begins(tvb);
  if (how == BEGINS_NOTHING) {
    /* A connection whose beginning is not in the capture: a good CRC over a plausible DDP segment is no accident. */
    if (!parley_prefs.heuristic_fpdu || pinfo->fd->visited) return FALSE;
    const gint captured = (gint)tvb_captured_length(tvb);
    if (!parley_looks_like_fpdu(tvb_get_ptr(tvb, 0, captured), (guint32)captured)) return FALSE;
  }
  conversation_t* const conversation = find_or_create_conversation(pinfo);
  parley_tcp* tcp = tcp_of(conversation);
  if (tcp == NULL && pinfo->fd->visited) return FALSE;
  if (tcp == NULL) tcp = tcp_begin(conversation, pinfo, how);
  tcp_header h;
  header_of(pinfo, conversation, info, tvb, &h);
  return dissect_known(tcp, tvb, pinfo, tree, &h) != 0;
}

/* Looks for the beginning of a connection where the front door is shut: another dissector is registered for its port
 * (4420, 5445), TCP calls the segment a retransmission, or a startup frame comes octet by octet. First pass only. */
static parley_tcp* watch(packet_info* pinfo, tvbuff_t* payload, const tcp_header* h) {
  beginning how = tvb_begins(payload);
  const gboolean fits = h->length < PARLEY_MPA_STARTUP_MAX; /* into a startup frame, with octets before it */
  if (how == BEGINS_NOTHING && heads == 0 && !fits) return NULL;
  if (heuristic == NULL || !heuristic->enabled) return NULL; /* who disabled it wants nothing recognised */
  conversation_t* const conversation = find_conversation_pinfo(pinfo, 0);
  if (conversation == NULL) return NULL;
  if (how == BEGINS_NOTHING && fits) keep_second_half(conversation, pinfo, payload, h);
  if (how == BEGINS_REQUEST || how == BEGINS_REPLY) return tcp_begin(conversation, pinfo, how);
  entry* e = entry_of(conversation);
  if (how == BEGINS_PERHAPS && e != NULL && with_second_half(e, pinfo, payload, h) == BEGINS_REQUEST)
    return tcp_begin(conversation, pinfo, BEGINS_REQUEST);
  if (e == NULL || e->head_length == 0) {
    if (how != BEGINS_PERHAPS) return NULL;
    e = entry_made(conversation);
    e->head_port = (guint16)pinfo->srcport;
    e->head_seq = h->seq;
    e->head_frame = pinfo->num;
    heads++;
  }
  if (e->head_port != pinfo->srcport || h->seq != e->head_seq + e->head_length) return NULL;
  guint8 head[ENOUGH];
  const guint32 more = MIN(tvb_captured_length(payload), ENOUGH - e->head_length);
  memcpy(head, e->head, e->head_length);
  tvb_memcpy(payload, head + e->head_length, 0, more);
  how = startup_begins(head, e->head_length + more);
  if (how == BEGINS_PERHAPS) {
    memcpy(e->head, head, ENOUGH);
    e->head_length += more;
    return NULL;
  }
  if (how == BEGINS_NOTHING) {
    e->head_length = 0;
    heads--;
    return NULL;
  }
  parley_tcp* const tcp = tcp_begin(conversation, pinfo, how);
  feed_head(e, pinfo, payload);
  heads--;
  return tcp;
}

/* What TCP handed on to others, or to nobody. */
static int dissect_post(tvbuff_t* tvb _U_, packet_info* pinfo, proto_tree* tree, void* data _U_) {
  if (pinfo->ptype != PT_TCP) return 0;
  if (front_door_frame == pinfo->num) {
    front_door_frame = 0;
    return 0;
  }
  if (pinfo->fd->visited && parley_frame_of(pinfo) == NULL) return 0;
  tcp_header h;
  if (!find_header(pinfo, &h) || (connections == 0 && h.length == 0)) return 0;
  tvbuff_t* const payload = tvb_new_subset_length(h.tvb, h.payload, (gint)h.length);
  conversation_t* const conversation = connections == 0 ? NULL : find_conversation_pinfo(pinfo, 0);
  parley_tcp* tcp = tcp_of(conversation);
  if (tcp == NULL && !pinfo->fd->visited && h.length > 0) tcp = watch(pinfo, payload, &h);
  if (tcp == NULL) return 0;
  if (!pinfo->fd->visited) feed(tcp, pinfo, payload, &h);
  tap_frame(tcp, pinfo);
  if (parley_frame_of(pinfo) == NULL) return 0;
  if (parley_fills_columns(pinfo)) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "iWARP");
    col_clear(pinfo->cinfo, COL_INFO); /* TCP fences what it says of the segment's order, and that stays */
  }
  parley_show(payload, h.seq, pinfo, tree, tcp);
  return 1;
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
  module_t* const module = prefs_register_protocol(proto_parley, NULL);
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
}

static void handoff_parley(void) {
  heur_dissector_add("tcp", dissect_heuristic, "iWARP over TCP (Parley)", "parley_tcp", proto_parley, HEURISTIC_ENABLE);
  heuristic = find_heur_dissector_by_unique_short_name("parley_tcp");
  dissector_add_for_decode_as_with_preference("tcp.port", parley_handle);
}

void plugin_register(void) {
  static proto_plugin plugin;
  plugin.register_protoinfo = register_parley;
  plugin.register_handoff = handoff_parley;
  proto_register_plugin(&plugin);
}
