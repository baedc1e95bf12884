/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the plugin stands beside Wireshark's dissector of InfiniBand.
 *
 * That one stays what UDP port 4791, Ethertype 0x8915 and the link types of InfiniBand lead to: other dissectors (SMB
 * Direct, NVMe, RPC over RDMA) get the payload from it and from nobody else, its filters are in use, and who disables
 * ours must find everything as before. To take its place in the tables and call it from there would change its
 * preference and its line in Decode As; a heuristic on its payload sees neither headers nor the ICRC, nor what a
 * dissector before it takes; its fields say nothing of MRA, LAP, APR and XRCETH, and asking for them would have Wireshark
 * build a tree for every frame of any capture. So a postdissector looks at each frame that it had. */
#include "parley_ib.h"

#include <epan/conversation.h>
#include <string.h>

#include "parley_mad.h"
#include "parley_text.h"

int proto_parley_ib = -1, proto_parley_ibcm = -1;

static int stock = -1, data_layer = -1, icmp = -1, icmpv6 = -1, malformed = -1;

/* Whether Wireshark took the frame for InfiniBand, and not as what an ICMP error quotes. `rest`: nobody took its payload. */
static gboolean is_infiniband(const packet_info* pinfo, gboolean* rest) {
  gboolean found = FALSE;
  for (wmem_list_frame_t* layer = wmem_list_head(pinfo->layers); layer != NULL; layer = wmem_list_frame_next(layer)) {
    const int id = GPOINTER_TO_INT(wmem_list_frame_data(layer));
    if (id == stock) {
      found = *rest = TRUE;
    } else if (found) {
      *rest = *rest && (id == data_layer || id == proto_parley_ib); /* which is a layer by now */
    } else if (id == icmp || id == icmpv6) {
      return FALSE;
    }
  }
  return found;
}

/* UDP asks who has the lower port first, and a RoCEv2 packet may come from any: from 69, TFTP takes it. The conversation is then
 * InfiniBand's, which counts before ports; the packet that shows it is handed on from here in the first pass. */
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

/* Wireshark's dissector makes the LID of a REQ the source of the packet, on RoCE too, where it says nothing. */
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

/* What Wireshark wrote behind the line of a packet that a dissector gave up; "" if none did. */
static const char* given_up(packet_info* pinfo) {
  const char* const before = col_get_text(pinfo->cinfo, COL_INFO);
  const char* const last = before == NULL ? NULL : strrchr(before, '[');
  if (last == NULL || last[strlen(last) - 1] != ']') return "";
  if (!g_str_has_prefix(last, "[Malformed Packet") && !g_str_has_prefix(last, "[Packet size limited")) return "";
  return wmem_strdup_printf(pinfo->pool, " %s", last);
}

/* Of a packet of data whose payload has no other dissector, or one that failed. */
static void write_info(packet_info* pinfo, const parley_ib_packet* p, const parley_ib_view* view, gboolean rest) {
  if (!col_get_writable(pinfo->cinfo, COL_INFO)) return;
  const char* const words = given_up(pinfo);
  if (!rest && words[0] == '\0') return;
  col_clear(pinfo->cinfo, COL_INFO); /* but for what is fenced, the words included */
  const char* const left = col_get_text(pinfo->cinfo, COL_INFO);
  const gboolean cleared = left == NULL || left[0] == '\0';
  parley_ib_info(p, pinfo, view);
  if (cleared && words[0] != '\0') col_append_str(pinfo->cinfo, COL_INFO, words);
}

/* The dissector that was asked last before this one. */
static const char* last_asked(const packet_info* pinfo) {
  const char* name = "";
  for (wmem_list_frame_t* layer = wmem_list_head(pinfo->layers); layer != NULL; layer = wmem_list_frame_next(layer)) {
    const int id = GPOINTER_TO_INT(wmem_list_frame_data(layer));
    if (id != proto_parley_ib) name = proto_get_protocol_short_name(find_protocol_by_id(id));
  }
  return name;
}

/* Wireshark calls a packet malformed whichever dissector gave up. */
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

/* IBA §13.5.1: what goes to QP0 and QP1, or comes from there, is a MAD, as for capture/read/mad. So is what another queue
 * pair gets with the Q_Key of QP1, if it looks like one: vendors' classes and redirected requests use it. Of the CM,
 * parley_ibcm_show.c shows all but ClassPortInfo. */
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
