/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the plugin works next to Wireshark's InfiniBand dissector.
 *
 * UDP port 4791, Ethertype 0x8915 and the link types of InfiniBand still lead to Wireshark's dissector. Other
 * dissectors (SMB Direct, NVMe, RPC over RDMA) get the payload only from it; its filters are in use; and a user who
 * disables the plugin must find everything as before. There are three alternatives, and none works. If the plugin took
 * the dissector's place in the tables and called it from there, its preference and its entry in Decode As would change.
 * A heuristic on its payload would see neither the headers nor the ICRC, nor a payload that an earlier dissector takes.
 * Its fields do not cover MRA, LAP, APR and XRCETH, and requesting them would make Wireshark build a tree for every
 * frame of any capture. So a postdissector examines each frame that Wireshark's dissector had. */
#include "parley_ib.h"

#include <epan/conversation.h>
#include <string.h>

#include "parley_mad.h"
#include "parley_text.h"

int proto_parley_ib = -1, proto_parley_ibcm = -1;

static int stock = -1, data_layer = -1, icmp = -1, icmpv6 = -1, malformed = -1;

/* Whether Wireshark dissected the frame as InfiniBand, outside an ICMP error's quotation. `rest`: no dissector took its
 * payload. */
static gboolean is_infiniband(const packet_info* pinfo, gboolean* rest) {
  gboolean found = FALSE;
  for (wmem_list_frame_t* layer = wmem_list_head(pinfo->layers); layer != NULL; layer = wmem_list_frame_next(layer)) {
    const int id = GPOINTER_TO_INT(wmem_list_frame_data(layer));
    if (id == stock) {
      found = *rest = TRUE;
    } else if (found) {
      *rest = *rest && (id == data_layer || id == proto_parley_ib); /* our own layer, which was already added */
    } else if (id == icmp || id == icmpv6) {
      return FALSE;
    }
  }
  return found;
}

/* Wireshark's UDP dissector tries the lower port first, and a RoCEv2 source port may be any: from port 69, TFTP takes
 * the packet. So this assigns the conversation to InfiniBand, which has priority over ports. In the first pass it also
 * passes on the packet that revealed this. */
static gboolean hand_over(packet_info* pinfo, proto_tree* top) {
  parley_ib_packet p;
  if (pinfo->ptype != PT_UDP || pinfo->destport != PARLEY_ROCE_UDP_PORT || pinfo->srcport >= pinfo->destport)
    return FALSE;
  for (wmem_list_frame_t* layer = wmem_list_head(pinfo->layers); layer != NULL; layer = wmem_list_frame_next(layer)) {
    const int id = GPOINTER_TO_INT(wmem_list_frame_data(layer));
    if (id == icmp || id == icmpv6) return FALSE;
  }
  const dissector_handle_t handle = dissector_get_uint_handle(find_dissector_table("udp.port"),
                                                              PARLEY_ROCE_UDP_PORT); /* Decode As may have changed it */
  if (handle == NULL || dissector_handle_get_protocol_index(handle) != stock) return FALSE;
  if (!parley_ib_find(pinfo, &p) || p.operation == NULL || p.payload_length < 0) return FALSE;
  if ((tvb_get_guint8(p.tvb, p.bth + 1) & PARLEY_IB_BTH_TVER) != 0) return FALSE;
  conversation_set_dissector(find_or_create_conversation(pinfo), handle);
  col_clear_fence(pinfo->cinfo, COL_INFO);
  col_clear(pinfo->cinfo, COL_INFO);
  const gint captured = MIN(p.end, (gint)tvb_captured_length(p.tvb)) - p.bth;
  return call_dissector_only(handle, tvb_new_subset_length_caplen(p.tvb, p.bth, captured, p.end - p.bth), pinfo, top,
                             NULL) > 0;
}

/* Wireshark's dissector uses the LID of a REQ as the packet's source, even on RoCE, where it has no meaning. */
static void restore_source(packet_info* pinfo, const parley_ib_packet* p) {
  enum { LID_LEN = 2 };
  switch (p->carriage) {
    case PARLEY_ENGINE_ROCE_V2_IPV4:
    case PARLEY_ENGINE_ROCE_V2_IPV6:
      if (pinfo->src.type != pinfo->net_src.type) copy_address_shallow(&pinfo->src, &pinfo->net_src);
      break;
    case PARLEY_ENGINE_ROCE_V1:
      if (pinfo->src.type == pinfo->dst.type && pinfo->src.len == LID_LEN && pinfo->dst.len == PARLEY_GID_LEN)
        set_address(&pinfo->src, pinfo->dst.type, PARLEY_GID_LEN,
                    wmem_memdup(pinfo->pool, p->source.octets, PARLEY_GID_LEN));
      break;
    case PARLEY_ENGINE_LINK: break;
  }
}

/* The text that Wireshark appended to the info column because a dissector gave up; "" if none did. */
static const char* given_up(packet_info* pinfo) {
  const char* const before = col_get_text(pinfo->cinfo, COL_INFO);
  const char* const last = before == NULL ? NULL : strrchr(before, '[');
  if (last == NULL || last[strlen(last) - 1] != ']') return "";
  if (!g_str_has_prefix(last, "[Malformed Packet") && !g_str_has_prefix(last, "[Packet size limited")) return "";
  return wmem_strdup_printf(pinfo->pool, " %s", last);
}

/* Writes the info column of a data packet whose payload no dissector took, or whose dissector gave up. */
static void write_info(packet_info* pinfo, const parley_ib_packet* p, const parley_ib_view* view, gboolean rest) {
  if (!col_get_writable(pinfo->cinfo, COL_INFO)) return;
  const char* const words = given_up(pinfo);
  if (!rest && words[0] == '\0') return;
  col_clear(pinfo->cinfo, COL_INFO); /* keeps fenced text, with `words` if they are in it */
  const char* const left = col_get_text(pinfo->cinfo, COL_INFO);
  const gboolean cleared = left == NULL || left[0] == '\0';
  parley_ib_info(p, pinfo, view);
  if (cleared && words[0] != '\0') col_append_str(pinfo->cinfo, COL_INFO, words);
}

/* The dissector that Wireshark called last before this one. */
static const char* last_asked(const packet_info* pinfo) {
  const char* name = "";
  for (wmem_list_frame_t* layer = wmem_list_head(pinfo->layers); layer != NULL; layer = wmem_list_frame_next(layer)) {
    const int id = GPOINTER_TO_INT(wmem_list_frame_data(layer));
    if (id != proto_parley_ib) name = proto_get_protocol_short_name(find_protocol_by_id(id));
  }
  return name;
}

/* Wireshark calls a packet malformed without naming the dissector that gave up. This names it. */
static void name_who_gave_up(packet_info* pinfo, const parley_ib_packet* p, proto_tree* top, proto_tree* tree) {
  if (top == NULL || (gint)tvb_captured_length(p->tvb) < p->end) return;
  for (const proto_node* node = top->first_child; node != NULL; node = node->next) {
    const field_info* const field = PNODE_FINFO(node);
    if (field == NULL || field->hfinfo->id != malformed) continue;
    parley_ib_remark_on(pinfo, proto_tree_get_parent(tree), PARLEY_IB_REMARK_GAVE_UP,
                        "The dissector of %s could not read the payload to its end", last_asked(pinfo));
    return;
  }
}

/* IBA §13.5.1: a packet to or from QP0 or QP1 is a MAD, as in capture/read/mad. A packet to another queue pair with the
 * Q_Key of QP1 is one, too, if it looks like one: vendor classes and redirected requests use that. CM messages are
 * shown by parley_ibcm_show.c, except ClassPortInfo. */
static gboolean is_mad(const parley_ib_packet* p, gboolean cm) {
  enum { CLASS_PORT_INFO = 0x0001 };
  if (p->opcode != PARLEY_IB_OPCODE_UD_SEND_ONLY || p->payload_length < 0) return FALSE;
  if (cm) return parley_ib_carries(p, 16, 2) && tvb_get_ntohs(p->tvb, p->payload + 16) == CLASS_PORT_INFO;
  if (p->qpn <= PARLEY_IB_GSI_QPN) return TRUE;
  const gint deth = parley_ib_header_at(p, PARLEY_IB_DETH);
  if (!tvb_bytes_exist(p->tvb, deth, 8)) return FALSE;
  if (tvb_get_ntoh24(p->tvb, deth + 5) <= PARLEY_IB_GSI_QPN) return TRUE;
  return p->payload_length == PARLEY_IB_MAD_LEN && parley_ib_carries(p, 0, 1) &&
         tvb_get_ntohl(p->tvb, deth) == PARLEY_IB_GSI_Q_KEY &&
         tvb_get_guint8(p->tvb, p->payload) == PARLEY_IB_MAD_BASE_VERSION;
}

static void show_mad(const parley_ib_packet* p, packet_info* pinfo, proto_tree* top) {
  const gint captured = (gint)tvb_captured_length(p->tvb) - p->payload;
  parley_mad_show(
      tvb_new_subset_length_caplen(p->tvb, p->payload, CLAMP(captured, 0, p->payload_length), p->payload_length), pinfo,
      top);
}

static int dissect_post(tvbuff_t* tvb _U_, packet_info* pinfo, proto_tree* top, void* data _U_) {
  gboolean rest = FALSE;
  parley_ib_packet p;
  if (!is_infiniband(pinfo, &rest) && !(hand_over(pinfo, top) && is_infiniband(pinfo, &rest))) return 0;
  if (!parley_ib_find(pinfo, &p)) return 0;
  const gboolean cm = parley_ibcm_is(&p);
  parley_ib_view view;
  parley_ib_place_of(pinfo, &p, &view);
  proto_tree* const tree = parley_ib_show(&p, pinfo, top);
  const gboolean good = parley_ib_show_icrc(&p, pinfo, tree, &view);
  if (tree != NULL && view.connection != NULL && view.message == NULL) parley_ib_show_end(pinfo, p.tvb, tree, &view);
  if (!parley_ib_show_findings(pinfo, p.tvb, tree, &view)) parley_ib_show_nak(&p, pinfo);
  restore_source(pinfo, &p);
  parley_ib_tap(pinfo, &view);
  if (cm) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "IBCM");
    col_clear(pinfo->cinfo, COL_INFO);
    parley_ibcm_show(&p, pinfo, top, &view);
  } else if (p.qpn > PARLEY_IB_GSI_QPN) {
    write_info(pinfo, &p, &view, rest);
    if (!rest) name_who_gave_up(pinfo, &p, top, tree);
  }
  if (is_mad(&p, cm)) show_mad(&p, pinfo, top);
  if (!good) col_append_str(pinfo->cinfo, COL_INFO, " [wrong ICRC]");
  return 1;
}

void parley_ib_register(void) {
  proto_parley_ib = proto_register_protocol("InfiniBand transport (Parley)", "ParleyIB", "parley.ib");
  proto_parley_ibcm = proto_register_protocol("InfiniBand CM (Parley)", "ParleyIBCM", "parley.ibcm");
  parley_ib_show_register();
  parley_ibcm_show_register();
  parley_mad_register();
  parley_ib_stat_register();
  register_postdissector(create_dissector_handle(dissect_post, proto_parley_ib));
}

void parley_ib_handoff(void) {
  stock = proto_get_id_by_filter_name("infiniband");
  data_layer = proto_get_id_by_filter_name("data");
  malformed = proto_get_id_by_filter_name("_ws.malformed");
  icmp = proto_get_id_by_filter_name("icmp");
  icmpv6 = proto_get_id_by_filter_name("icmpv6");
}
