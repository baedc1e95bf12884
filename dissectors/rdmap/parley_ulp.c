/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Passes payload to Wireshark's dissectors of protocols over iWARP (RPC-over-RDMA, SMB Direct). They register in the
 * heuristic table "iwarp_ddp_rdmap". They are enabled unless the preference disables them, because users who analyse
 * NFS or SMB want them. They guess, and some read beyond a short message. So they get only whole messages, and no Sends
 * under 16 octets, which cannot contain their headers. If one gives up, a note names it. The message is called malformed
 * only on a port that is registered for the protocol: elsewhere the dissector may have guessed wrong. */
#include "parley_ulp.h"

#include <epan/dissectors/packet-iwarp-ddp-rdmap.h>
#include <epan/exceptions.h>
#include <epan/expert.h>
#include <epan/prefs.h>
#include <epan/show_exception.h>

/* RPC-over-RDMA's fixed header; that of SMB Direct is longer. */
enum { shortest_message = 16 };
/* TCP ports that IANA has registered for protocols over iWARP: nfsrdma and smbdirect. */
enum { nfs_port = 20049, smb_direct_port = 5445 };

static parley_bool try_stock = TRUE;
static heur_dissector_list_t ulps;
static int hf_gave_up;
static expert_field ei_gave_up = EI_INIT;

static void describe(rdmap_info_t* info, rdmap_request_t* request, tvbuff_t* tvb, const parley_segment* s) {
  info->opcode = s->opcode;
  info->last_flag = s->last;
  info->is_tagged = s->tagged;
  if (s->tagged) {
    info->steering_tag = s->stag;
    info->tagged_offset = s->to;
  } else {
    info->queue_number = s->qn;
    info->message_seq_num = s->msn;
    info->message_offset = s->mo;
  }
  if (s->opcode != RDMA_READ_REQUEST) return;
  const gint at = (gint)s->head;
  request->sink_stag = tvb_get_ntohl(tvb, at);
  request->sink_toffset = tvb_get_ntoh64(tvb, at + 4);
  request->message_size = tvb_get_ntohl(tvb, at + 12);
  request->source_stag = tvb_get_ntohl(tvb, at + 16);
  request->source_toffset = tvb_get_ntoh64(tvb, at + 20);
  info->read_request = request;
}

/* The dissector that gave up is the last layer. */
static const char* last_asked(const packet_info* pinfo) {
  const int id = GPOINTER_TO_INT(wmem_list_frame_data(wmem_list_tail(pinfo->layers)));
  return proto_get_protocol_short_name(find_protocol_by_id(id));
}

static gboolean on_registered_port(const packet_info* pinfo) {
  return pinfo->srcport == nfs_port || pinfo->destport == nfs_port || pinfo->srcport == smb_direct_port ||
         pinfo->destport == smb_direct_port;
}

/* Removes the leftovers of a dissector that gave up. */
static void tidy_up(packet_info* pinfo, guint layers) {
  while (wmem_list_count(pinfo->layers) > layers) {
    wmem_list_remove_frame(pinfo->layers, wmem_list_tail(pinfo->layers));
    --pinfo->curr_layer_num;
  }
}

static void offer(tvbuff_t* tvb, packet_info* pinfo, proto_tree* top, rdmap_info_t* info) {
  heur_dtbl_entry_t* entry = NULL;
  const char *protocol = pinfo->current_proto, *list = pinfo->heur_list_name;
  if (ulps == NULL) ulps = find_heur_dissector_list("iwarp_ddp_rdmap");
  if (ulps == NULL) return;
  const guint layers = wmem_list_count(pinfo->layers);
  const guint16 can_desegment = pinfo->can_desegment;
  const char* const name = wmem_strdup(pinfo->pool, col_get_text(pinfo->cinfo, COL_PROTOCOL));
  const char* words = wmem_strdup(pinfo->pool, col_get_text(pinfo->cinfo, COL_INFO));
  volatile unsigned long error = 0;
  const char* volatile message = NULL;
  TRY { dissector_try_heuristic(ulps, tvb, pinfo, top, &entry, info); }
  CATCH_BOUNDS_ERRORS {
    error = EXCEPT_CODE;
    message = wmem_strdup(pinfo->pool, GET_MESSAGE);
  }
  CATCH(ReassemblyError) {
    error = EXCEPT_CODE;
    message = wmem_strdup(pinfo->pool, GET_MESSAGE);
  }
  ENDTRY;
  if (error == 0) return;
  const char* const who = last_asked(pinfo);
  if (on_registered_port(pinfo)) {
    show_exception(tvb, pinfo, top, error, message);
    words = wmem_strdup_printf(pinfo->pool, "%s [Malformed Packet: %s]", words == NULL ? "" : words, who);
  }
  tidy_up(pinfo, layers);
  pinfo->current_proto = protocol;
  pinfo->heur_list_name = list;
  pinfo->can_desegment = can_desegment;
  if (name != NULL) col_add_str(pinfo->cinfo, COL_PROTOCOL, name);
  if (words != NULL) col_add_str(pinfo->cinfo, COL_INFO, words);
  proto_item* const item = proto_tree_add_boolean(top, hf_gave_up, tvb, 0, 0, TRUE);
  proto_item_set_generated(item);
  expert_add_info_format(pinfo, item, &ei_gave_up, "The dissector of %s could not read this message to its end", who);
}

void parley_ulp_try(const parley_pdu* pdu, tvbuff_t* tvb, tvbuff_t* message, packet_info* pinfo, proto_tree* top,
                    const parley_segment* s) {
  const guint captured = (guint)tvb_captured_length_remaining(tvb, (gint)s->head);
  if (!try_stock || pdu->is_rtr || pdu->bad_crc || captured < s->payload) return;
  gboolean tagged;
  guint32 qn;
  if (!parley_opcode_rule(s->opcode, &tagged, &qn) || tagged != s->tagged || (!tagged && qn != s->qn)) return;
  tvbuff_t* payload;
  if (parley_opcode_is_send(s->opcode)) {
    if (!s->last || (s->mo != 0 && message == NULL)) return;
    payload = message != NULL ? message : tvb_new_subset_length(tvb, (gint)s->head, (gint)s->payload);
    if (tvb_captured_length(payload) < shortest_message) return;
  } else if (s->opcode == RDMA_READ_REQUEST) {
    /* Nothing follows its header, which shows RPC-over-RDMA where a chunk will be placed. */
    if (s->payload != PARLEY_RDMAP_READ_REQUEST_LEN) return;
    payload = tvb_new_subset_length(tvb, (gint)(s->head + s->payload), 0);
  } else if (s->tagged && s->payload > 0) {
    payload = tvb_new_subset_length(tvb, (gint)s->head, (gint)s->payload);
  } else {
    return;
  }
  rdmap_request_t request = {0};
  rdmap_info_t info = {0};
  describe(&info, &request, tvb, s);
  if (message != NULL) info.message_offset = 0;
  offer(payload, pinfo, top, &info);
}

void parley_ulp_register(void) {
  static hf_register_info hf[] = {
      {&hf_gave_up,
       {"A dissector of Wireshark could not read this message to its end", "parley.rdmap.ulp_gave_up", FT_BOOLEAN,
        BASE_NONE, NULL, 0, NULL, HFILL}},
  };
  static ei_register_info ei[] = {
      {&ei_gave_up,
       {"parley.rdmap.ulp_gave_up.by", PI_UNDECODED, PI_NOTE, "A dissector of Wireshark gave up", EXPFILL}},
  };
  proto_register_field_array(proto_parley, hf, array_length(hf));
  expert_register_field_array(expert_register_protocol(proto_parley), ei, array_length(ei));
  module_t* module = parley_module();
  prefs_register_bool_preference(module, "reassemble", "Put Sends of several DDP segments together",
                                 "Whether the payload of a Send of several DDP segments is shown as one message",
                                 &parley_reassemble);
  prefs_register_bool_preference(
      module, "try_stock_ulps", "Try Wireshark's dissectors on messages",
      "Whether whole messages are offered to RPC-over-RDMA, SMB Direct and whatever else is in the heuristic table "
      "iwarp_ddp_rdmap. Sends under 16 octets never are.",
      &try_stock);
}
