/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where each field of the CM's messages stands: IBA §12.6 to §12.11. The names are those of wire/ib/cm.hpp. */
#include "parley_ib.h"
#include "parley_text.h"

/* The fields of a body by themselves: X(name, label, type, base, strings, mask). */
#define FIELDS(X)                                                                                   \
  X(local_comm_id, "Local communication ID", FT_UINT32, BASE_HEX, NULL, 0)                          \
  X(remote_comm_id, "Remote communication ID", FT_UINT32, BASE_HEX, NULL, 0)                        \
  X(request_id, "Request ID", FT_UINT32, BASE_HEX, NULL, 0)                                         \
  X(ece_vendor, "ECE vendor ID", FT_UINT24, BASE_HEX, NULL, 0)                                      \
  X(service_id, "Service ID", FT_UINT64, BASE_HEX, NULL, 0)                                         \
  X(local_ca_guid, "Local CA GUID", FT_UINT64, BASE_HEX, NULL, 0)                                   \
  X(local_q_key, "Local Q_Key", FT_UINT32, BASE_HEX, NULL, 0)                                       \
  X(q_key, "Q_Key", FT_UINT32, BASE_HEX, NULL, 0)                                                   \
  X(local_qpn, "Local queue pair", FT_UINT24, BASE_HEX, NULL, 0)                                    \
  X(remote_qpn, "Remote queue pair", FT_UINT24, BASE_HEX, NULL, 0)                                  \
  X(qpn, "Queue pair", FT_UINT24, BASE_HEX, NULL, 0)                                                \
  X(responder_resources, "Responder resources", FT_UINT8, BASE_DEC, NULL, 0)                        \
  X(initiator_depth, "Initiator depth", FT_UINT8, BASE_DEC, NULL, 0)                                \
  X(local_eecn, "Local EE context (XRC: target queue pair)", FT_UINT24, BASE_HEX, NULL, 0)          \
  X(remote_eecn, "Remote EE context", FT_UINT24, BASE_HEX, NULL, 0)                                 \
  X(remote_cm_response_timeout, "Remote CM response timeout", FT_UINT8, BASE_CUSTOM, TIMEOUT, 0xF8) \
  X(service_type, "Transport service type", FT_UINT8, BASE_DEC, VALS(service_texts), 0x06)          \
  X(flow_control, "End-to-end flow control", FT_BOOLEAN, 8, NULL, 0x01)                             \
  X(starting_psn, "Starting PSN", FT_UINT24, BASE_DEC, NULL, 0)                                     \
  X(local_cm_response_timeout, "Local CM response timeout", FT_UINT8, BASE_CUSTOM, TIMEOUT, 0xF8)   \
  X(retry_count, "Retry count", FT_UINT8, BASE_DEC, NULL, 0x07)                                     \
  X(p_key, "P_Key", FT_UINT16, BASE_HEX, NULL, 0)                                                   \
  X(path_mtu, "Path MTU", FT_UINT8, BASE_DEC, VALS(mtu_texts), 0xF0)                                \
  X(rdc_exists, "RDC exists", FT_BOOLEAN, 8, NULL, 0x08)                                            \
  X(rnr_retry_count, "RNR retry count", FT_UINT8, BASE_DEC, NULL, 0x07)                             \
  X(max_cm_retries, "Max CM retries", FT_UINT8, BASE_DEC, NULL, 0xF0)                               \
  X(srq, "Shared receive queue", FT_BOOLEAN, 8, NULL, 0x08)                                         \
  X(extended_service, "Extended transport type", FT_UINT8, BASE_DEC, VALS(extended_texts), 0x07)    \
  X(about, "About the message", FT_UINT8, BASE_DEC, VALS(about_texts), 0xC0)                        \
  X(service_timeout, "Service timeout", FT_UINT8, BASE_CUSTOM, TIMEOUT, 0xF8)                       \
  X(reason, "Reason", FT_UINT16, BASE_DEC, VALS(reject_texts), 0)                                   \
  X(target_ack_delay, "Target ACK delay", FT_UINT8, BASE_CUSTOM, TIMEOUT, 0xF8)                     \
  X(failover_accepted, "Failover accepted", FT_UINT8, BASE_DEC, NULL, 0x06)                         \
  X(sidr_status, "Status", FT_UINT8, BASE_DEC, VALS(sidr_texts), 0)                                 \
  X(ap_status, "Status", FT_UINT8, BASE_DEC, VALS(ap_texts), 0)                                     \
  X(info_length, "Length of the additional information", FT_UINT8, BASE_DEC, NULL, 0)

/* Of a path: X(name, label, type, base, strings, mask, octets, where in a REQ, where in a LAP). */
#define PATH_FIELDS(X)                                                                 \
  X(local_lid, "Local LID", FT_UINT16, BASE_DEC, NULL, 0, 2, 0, 0)                     \
  X(remote_lid, "Remote LID", FT_UINT16, BASE_DEC, NULL, 0, 2, 2, 2)                   \
  X(local_gid, "Local GID", FT_IPv6, BASE_NONE, NULL, 0, 16, 4, 4)                     \
  X(remote_gid, "Remote GID", FT_IPv6, BASE_NONE, NULL, 0, 16, 20, 20)                 \
  X(flow_label, "Flow label", FT_UINT24, BASE_HEX, NULL, 0xFFFFF0, 3, 36, 36)          \
  X(packet_rate, "Packet rate", FT_UINT8, BASE_DEC, VALS(rate_texts), 0x3F, 1, 39, 41) \
  X(traffic_class, "Traffic class", FT_UINT8, BASE_HEX, NULL, 0, 1, 40, 39)            \
  X(hop_limit, "Hop limit", FT_UINT8, BASE_DEC, NULL, 0, 1, 41, 40)                    \
  X(sl, "SL", FT_UINT8, BASE_DEC, NULL, 0xF0, 1, 42, 42)                               \
  X(subnet_local, "Subnet local", FT_BOOLEAN, 8, NULL, 0x08, 1, 42, 42)                \
  X(local_ack_timeout, "Local ACK timeout", FT_UINT8, BASE_CUSTOM, TIMEOUT, 0xF8, 1, 43, 43)

#define TIMEOUT CF_FUNC(parley_timeout_label)

#define PARLEY_X(name, label, type, base, strings, mask) static int hf_##name = -1;
FIELDS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, label, type, base, strings, mask, octets, in_req, in_lap) \
  static int hf_primary_##name = -1, hf_alternate_##name = -1;
PATH_FIELDS(PARLEY_X)
#undef PARLEY_X
/* The same fields under other masks, and what is put together. */
static int hf_rep_rnr_retry_count = -1, hf_rep_srq = -1, hf_rej_info_length = -1, hf_primary = -1, hf_alternate = -1;
static gint ett_path = -1;

#define TEXT(name, value, text) {value, text},
static const value_string service_texts[] = {PARLEY_IBCM_SERVICES(TEXT){0, NULL}};
static const value_string about_texts[] = {PARLEY_IBCM_ABOUT(TEXT){0, NULL}};
static const value_string reject_texts[] = {PARLEY_IBCM_REJECTS(TEXT){0, NULL}};
static const value_string sidr_texts[] = {PARLEY_IBCM_SIDR_STATUS(TEXT){0, NULL}};
static const value_string ap_texts[] = {PARLEY_IBCM_AP_STATUS(TEXT){0, NULL}};
static const value_string extended_texts[] = {{0, "none"}, {PARLEY_IBCM_EXTENDED_XRC, "XRC"}, {0, NULL}};
/* IBA §9.2 and §12.6.5 */
static const value_string mtu_texts[] = {{1, "256 octets"},  {2, "512 octets"},  {3, "1024 octets"},
                                         {4, "2048 octets"}, {5, "4096 octets"}, {0, NULL}};
static const value_string rate_texts[] = {
    {0, "the port's own"}, {2, "2.5 Gbit/s"},  {3, "10 Gbit/s"},   {4, "30 Gbit/s"},   {5, "5 Gbit/s"},
    {6, "20 Gbit/s"},      {7, "40 Gbit/s"},   {8, "60 Gbit/s"},   {9, "80 Gbit/s"},   {10, "120 Gbit/s"},
    {11, "14 Gbit/s"},     {12, "56 Gbit/s"},  {13, "112 Gbit/s"}, {14, "168 Gbit/s"}, {15, "25 Gbit/s"},
    {16, "100 Gbit/s"},    {17, "200 Gbit/s"}, {18, "300 Gbit/s"}, {0, NULL}};
/* Where the fields of each message stand. */
typedef struct place {
  const int* field;
  guint8 at, octets;
} place;

static const place req_places[] = {{&hf_local_comm_id, 0, 4},
                                   {&hf_ece_vendor, 5, 3},
                                   {&hf_service_id, 8, 8},
                                   {&hf_local_ca_guid, 16, 8},
                                   {&hf_local_q_key, 28, 4},
                                   {&hf_local_qpn, 32, 3},
                                   {&hf_responder_resources, 35, 1},
                                   {&hf_local_eecn, 36, 3},
                                   {&hf_initiator_depth, 39, 1},
                                   {&hf_remote_eecn, 40, 3},
                                   {&hf_remote_cm_response_timeout, 43, 1},
                                   {&hf_service_type, 43, 1},
                                   {&hf_flow_control, 43, 1},
                                   {&hf_starting_psn, 44, 3},
                                   {&hf_local_cm_response_timeout, 47, 1},
                                   {&hf_retry_count, 47, 1},
                                   {&hf_p_key, 48, 2},
                                   {&hf_path_mtu, 50, 1},
                                   {&hf_rdc_exists, 50, 1},
                                   {&hf_rnr_retry_count, 50, 1},
                                   {&hf_max_cm_retries, 51, 1},
                                   {&hf_srq, 51, 1},
                                   {&hf_extended_service, 51, 1}};
static const place mra_places[] = {
    {&hf_local_comm_id, 0, 4}, {&hf_remote_comm_id, 4, 4}, {&hf_about, 8, 1}, {&hf_service_timeout, 9, 1}};
static const place rej_places[] = {{&hf_local_comm_id, 0, 4},
                                   {&hf_remote_comm_id, 4, 4},
                                   {&hf_about, 8, 1},
                                   {&hf_rej_info_length, 9, 1},
                                   {&hf_reason, 10, 2}};
static const place rep_places[] = {{&hf_local_comm_id, 0, 4},
                                   {&hf_remote_comm_id, 4, 4},
                                   {&hf_local_q_key, 8, 4},
                                   {&hf_local_qpn, 12, 3},
                                   {&hf_local_eecn, 16, 3},
                                   {&hf_starting_psn, 20, 3},
                                   {&hf_responder_resources, 24, 1},
                                   {&hf_initiator_depth, 25, 1},
                                   {&hf_target_ack_delay, 26, 1},
                                   {&hf_failover_accepted, 26, 1},
                                   {&hf_flow_control, 26, 1},
                                   {&hf_rep_rnr_retry_count, 27, 1},
                                   {&hf_rep_srq, 27, 1},
                                   {&hf_local_ca_guid, 28, 8}};
static const place id_places[] = {{&hf_local_comm_id, 0, 4}, {&hf_remote_comm_id, 4, 4}};
static const place dreq_places[] = {{&hf_local_comm_id, 0, 4}, {&hf_remote_comm_id, 4, 4}, {&hf_remote_qpn, 8, 3}};
static const place lap_places[] = {{&hf_local_comm_id, 0, 4},
                                   {&hf_remote_comm_id, 4, 4},
                                   {&hf_remote_qpn, 12, 3},
                                   {&hf_remote_cm_response_timeout, 15, 1}};
static const place apr_places[] = {
    {&hf_local_comm_id, 0, 4}, {&hf_remote_comm_id, 4, 4}, {&hf_info_length, 8, 1}, {&hf_ap_status, 9, 1}};
static const place sidr_req_places[] = {{&hf_request_id, 0, 4}, {&hf_p_key, 4, 2}, {&hf_service_id, 8, 8}};
static const place sidr_rep_places[] = {{&hf_request_id, 0, 4}, {&hf_sidr_status, 4, 1}, {&hf_info_length, 5, 1},
                                        {&hf_qpn, 8, 3},        {&hf_service_id, 12, 8}, {&hf_q_key, 20, 4}};

static const place* places_of(guint16 attribute, guint* count) {
#define CASE(name, places) \
  case PARLEY_IBCM_##name: *count = G_N_ELEMENTS(places); return places
  switch (attribute) {
    CASE(req, req_places);
    CASE(mra, mra_places);
    CASE(rej, rej_places);
    CASE(rep, rep_places);
    CASE(rtu, id_places);
    CASE(dreq, dreq_places);
    CASE(drep, id_places);
    CASE(lap, lap_places);
    CASE(apr, apr_places);
    CASE(sidr_req, sidr_req_places);
    CASE(sidr_rep, sidr_rep_places);
    default: *count = 0; return NULL;
  }
#undef CASE
}

/* `at`: in the body. */
static gboolean has(const parley_ib_packet* p, gint at, gint octets) {
  return at + octets <= PARLEY_IBCM_LEN && parley_ib_carries(p, PARLEY_IB_MAD_HEADER_LEN + at, octets);
}

static void show_path(const parley_ib_packet* p, proto_tree* top, gint in_body, gboolean alternate, gboolean lap) {
  static const struct {
    const int* field[2];
    guint8 octets, at[2]; /* in a REQ, in a LAP */
  } fields[] = {
#define PARLEY_X(name, label, type, base, strings, mask, octets, in_req, in_lap) \
  {{&hf_primary_##name, &hf_alternate_##name}, octets, {in_req, in_lap}},
      PATH_FIELDS(PARLEY_X)
#undef PARLEY_X
  };
  enum { LENGTH = 44 };
  const gint at = p->payload + PARLEY_IB_MAD_HEADER_LEN + in_body;
  if (!has(p, in_body, LENGTH)) return;
  const guint8* const octets = tvb_get_ptr(p->tvb, at, LENGTH);
  guint8 any = 0;
  for (gint i = 0; i < LENGTH; i++) any |= octets[i];
  if (alternate && !any) return; /* there is none */
  proto_tree* const tree = proto_item_add_subtree(
      proto_tree_add_item(top, alternate ? hf_alternate : hf_primary, p->tvb, at, LENGTH, ENC_NA), ett_path);
  for (guint i = 0; i < G_N_ELEMENTS(fields); i++)
    proto_tree_add_item(tree, *fields[i].field[alternate], p->tvb, at + fields[i].at[lap], fields[i].octets,
                        fields[i].octets > 4 ? ENC_NA : ENC_BIG_ENDIAN);
}

/* Three octets that were reserved, in three places or in two. */
static void show_split_vendor(const parley_ib_packet* p, proto_tree* tree, guint16 attribute, gint at) {
  guint32 vendor = 0;
  if (attribute == PARLEY_IBCM_rep && has(p, 0, 24)) {
    vendor = (guint32)tvb_get_guint8(p->tvb, at + 15) << 16 | (guint32)tvb_get_guint8(p->tvb, at + 19) << 8 |
             tvb_get_guint8(p->tvb, at + 23);
    proto_tree_add_uint(tree, hf_ece_vendor, p->tvb, at + 15, 9, vendor);
  } else if (attribute == PARLEY_IBCM_sidr_rep && has(p, 0, 12)) {
    vendor = (guint32)tvb_get_ntohs(p->tvb, at + 6) << 8 | tvb_get_guint8(p->tvb, at + 11);
    proto_tree_add_uint(tree, hf_ece_vendor, p->tvb, at + 6, 6, vendor);
  }
}

void parley_ibcm_show_fields(const parley_ib_packet* p, proto_tree* tree, guint16 attribute) {
  enum { PRIMARY = 52, ALTERNATE = 96, OF_LAP = 20 };
  const gint at = p->payload + PARLEY_IB_MAD_HEADER_LEN;
  guint count = 0;
  const place* const places = places_of(attribute, &count);
  for (guint i = 0; i < count; i++)
    if (has(p, places[i].at, places[i].octets))
      proto_tree_add_item(tree, *places[i].field, p->tvb, at + places[i].at, places[i].octets, ENC_BIG_ENDIAN);
  show_split_vendor(p, tree, attribute, at);
  if (attribute == PARLEY_IBCM_req) {
    show_path(p, tree, PRIMARY, FALSE, FALSE);
    show_path(p, tree, ALTERNATE, TRUE, FALSE);
  } else if (attribute == PARLEY_IBCM_lap) {
    show_path(p, tree, OF_LAP, TRUE, TRUE);
  }
}

void parley_ibcm_fields_register(void) {
#define FIELD(var, label, filter, type, base, strings, mask)                       \
  {                                                                                \
    &var, { label, "parley.ibcm." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
#define PARLEY_X(name, label, type, base, strings, mask) FIELD(hf_##name, label, #name, type, base, strings, mask),
      FIELDS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, label, type, base, strings, mask, octets, in_req, in_lap) \
  FIELD(hf_primary_##name, label, "primary." #name, type, base, strings, mask),  \
      FIELD(hf_alternate_##name, label, "alternate." #name, type, base, strings, mask),
          PATH_FIELDS(PARLEY_X)
#undef PARLEY_X
              FIELD(hf_rep_rnr_retry_count, "RNR retry count", "rnr_retry_count", FT_UINT8, BASE_DEC, NULL, 0xE0),
      FIELD(hf_rep_srq, "Shared receive queue", "srq", FT_BOOLEAN, 8, NULL, 0x10),
      FIELD(hf_rej_info_length, "Length of the additional information", "info_length", FT_UINT8, BASE_DEC, NULL, 0xFE),
      FIELD(hf_primary, "Primary path", "primary", FT_NONE, BASE_NONE, NULL, 0),
      FIELD(hf_alternate, "Alternate path", "alternate", FT_NONE, BASE_NONE, NULL, 0),
  };
#undef FIELD
  static gint* ett[] = {&ett_path};
  proto_register_field_array(proto_parley_ibcm, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
}
