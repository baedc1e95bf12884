/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* The fields of the CM's messages as the CM uses them. mad_cm.h has their positions, widths and value names. Each message of
 * PARLEY_IBCM_MESSAGES is a list of rows; `S` is its structure there:
 *   F(S, member, name, filter, label, role)   a number, flag, code or GID
 *   E(S, member, name, label, shift)          part of a number, at `shift` bits above its lowest bit
 *   P(S, member, name, label)                 a path: PARLEY_IBCM_PATH in a structure CmPath
 *   L(S, name, label)                         a path whose members are those of the message, alternate_*
 *   D(S, member)                              octets
 * `name` is the name in wire/ib/cm.hpp; "parley.ibcm." and `filter` form the Wireshark plugin's field name. The role says
 * what the field may reveal about hosts or people, for anonymous captures: kept (nothing), gid, guid, flow_label, service (a
 * service ID, which contains a port), q_key. Bits without a row are reserved. */
#ifndef PARLEY_WIRE_IBCM_FIELDS_H
#define PARLEY_WIRE_IBCM_FIELDS_H

/* F(member of CmPath, name, label, role); in a LAP the member has the prefix alternate_. */
#define PARLEY_IBCM_PATH(F)                              \
  F(slid, local_lid, "Local LID", kept)                  \
  F(dlid, remote_lid, "Remote LID", kept)                \
  F(sgid, local_gid, "Local GID", gid)                   \
  F(dgid, remote_gid, "Remote GID", gid)                 \
  F(flow_label, flow_label, "Flow label", flow_label)    \
  F(packet_rate, packet_rate, "Packet rate", kept)       \
  F(traffic_class, traffic_class, "Traffic class", kept) \
  F(hop_limit, hop_limit, "Hop limit", kept)             \
  F(sl, sl, "SL", kept)                                  \
  F(subnet_local, subnet_local, "Subnet local", kept)    \
  F(local_ack_timeout, local_ack_timeout, "Local ACK timeout", kept)

#define PARLEY_IBCM_OWN_ID(S, F) F(S, local_comm_id, local_comm_id, local_comm_id, "Local communication ID", kept)
#define PARLEY_IBCM_IDS(S, F) \
  PARLEY_IBCM_OWN_ID(S, F)    \
  F(S, remote_comm_id, remote_comm_id, remote_comm_id, "Remote communication ID", kept)
#define PARLEY_IBCM_ABOUT_FIELD(S, F) F(S, message, about, about, "About the message", kept)
#define PARLEY_IBCM_INFO_FIELD(S, F) \
  F(S, info_length, info_length, info_length, "Length of the additional information", kept)

#define PARLEY_IBCM_REQ(S, F, E, P, L, D)                                                                             \
  PARLEY_IBCM_OWN_ID(S, F)                                                                                            \
  F(S, ece_vendor, ece_vendor, ece_vendor, "ECE vendor ID", kept)                                                     \
  F(S, service_id, service_id, service_id, "Service ID", service)                                                     \
  F(S, local_ca_guid, local_ca_guid, local_ca_guid, "Local CA GUID", guid)                                            \
  F(S, local_q_key, local_q_key, local_q_key, "Local Q_Key", kept)                                                    \
  F(S, local_qpn, local_qpn, local_qpn, "Local queue pair", kept)                                                     \
  F(S, responder_resources, responder_resources, responder_resources, "Responder resources", kept)                    \
  F(S, local_eecn, local_eecn, local_eecn, "Local EE context (XRC: target queue pair)", kept)                         \
  F(S, initiator_depth, initiator_depth, initiator_depth, "Initiator depth", kept)                                    \
  F(S, remote_eecn, remote_eecn, remote_eecn, "Remote EE context", kept)                                              \
  F(S, remote_response_timeout, remote_cm_response_timeout, remote_cm_response_timeout, "Remote CM response timeout", \
    kept)                                                                                                             \
  F(S, transport_service, service, service_type, "Transport service type", kept)                                      \
  F(S, flow_control, flow_control, flow_control, "End-to-end flow control", kept)                                     \
  F(S, starting_psn, starting_psn, starting_psn, "Starting PSN", kept)                                                \
  F(S, local_response_timeout, local_cm_response_timeout, local_cm_response_timeout, "Local CM response timeout",     \
    kept)                                                                                                             \
  F(S, retry_count, retry_count, retry_count, "Retry count", kept)                                                    \
  F(S, p_key, p_key, p_key, "P_Key", kept)                                                                            \
  F(S, path_packet_mtu, path_mtu, path_mtu, "Path MTU", kept)                                                         \
  F(S, rdc_exists, rdc_exists, rdc_exists, "RDC exists", kept)                                                        \
  F(S, rnr_retry_count, rnr_retry_count, rnr_retry_count, "RNR retry count", kept)                                    \
  F(S, max_cm_retries, max_cm_retries, max_cm_retries, "Max CM retries", kept)                                        \
  F(S, srq, srq, srq, "Shared receive queue", kept)                                                                   \
  F(S, extended_transport, extended_service, extended_service, "Extended transport type", kept)                       \
  P(S, primary_path, primary, "Primary path")                                                                         \
  P(S, alternate_path, alternate, "Alternate path")                                                                   \
  D(S, private_data)

#define PARLEY_IBCM_MRA(S, F, E, P, L, D)                                          \
  PARLEY_IBCM_IDS(S, F)                                                            \
  PARLEY_IBCM_ABOUT_FIELD(S, F)                                                    \
  F(S, service_timeout, service_timeout, service_timeout, "Service timeout", kept) \
  D(S, private_data)

#define PARLEY_IBCM_REJ(S, F, E, P, L, D)      \
  PARLEY_IBCM_IDS(S, F)                        \
  PARLEY_IBCM_ABOUT_FIELD(S, F)                \
  PARLEY_IBCM_INFO_FIELD(S, F)                 \
  F(S, reason, reason, reason, "Reason", kept) \
  D(S, info)                                   \
  D(S, private_data)

#define PARLEY_IBCM_REP(S, F, E, P, L, D)                                                          \
  PARLEY_IBCM_IDS(S, F)                                                                            \
  F(S, local_q_key, local_q_key, local_q_key, "Local Q_Key", kept)                                 \
  F(S, local_qpn, local_qpn, local_qpn, "Local queue pair", kept)                                  \
  E(S, ece_vendor_high, ece_vendor, "ECE vendor ID", 16)                                           \
  F(S, local_eecn, local_eecn, local_eecn, "Local EE context (XRC: target queue pair)", kept)      \
  E(S, ece_vendor_middle, ece_vendor, "ECE vendor ID", 8)                                          \
  F(S, starting_psn, starting_psn, starting_psn, "Starting PSN", kept)                             \
  E(S, ece_vendor_low, ece_vendor, "ECE vendor ID", 0)                                             \
  F(S, responder_resources, responder_resources, responder_resources, "Responder resources", kept) \
  F(S, initiator_depth, initiator_depth, initiator_depth, "Initiator depth", kept)                 \
  F(S, target_ack_delay, target_ack_delay, target_ack_delay, "Target ACK delay", kept)             \
  F(S, failover_accepted, failover_accepted, failover_accepted, "Failover accepted", kept)         \
  F(S, flow_control, flow_control, flow_control, "End-to-end flow control", kept)                  \
  F(S, rnr_retry_count, rnr_retry_count, rnr_retry_count, "RNR retry count", kept)                 \
  F(S, srq, srq, srq, "Shared receive queue", kept)                                                \
  F(S, local_ca_guid, local_ca_guid, local_ca_guid, "Local CA GUID", guid)                         \
  D(S, private_data)

#define PARLEY_IBCM_RTU(S, F, E, P, L, D) PARLEY_IBCM_IDS(S, F) D(S, private_data)

#define PARLEY_IBCM_DREQ(S, F, E, P, L, D)                            \
  PARLEY_IBCM_IDS(S, F)                                               \
  F(S, remote_qpn, remote_qpn, remote_qpn, "Remote queue pair", kept) \
  D(S, private_data)

#define PARLEY_IBCM_DREP(S, F, E, P, L, D) PARLEY_IBCM_IDS(S, F) D(S, private_data)

#define PARLEY_IBCM_SIDR_REQ(S, F, E, P, L, D)                    \
  F(S, request_id, request_id, request_id, "Request ID", kept)    \
  F(S, p_key, p_key, p_key, "P_Key", kept)                        \
  F(S, service_id, service_id, service_id, "Service ID", service) \
  D(S, private_data)

#define PARLEY_IBCM_SIDR_REP(S, F, E, P, L, D)                    \
  F(S, request_id, request_id, request_id, "Request ID", kept)    \
  F(S, status, status, sidr_status, "Status", kept)               \
  PARLEY_IBCM_INFO_FIELD(S, F)                                    \
  E(S, ece_vendor_high, ece_vendor, "ECE vendor ID", 8)           \
  F(S, qpn, qpn, qpn, "Queue pair", kept)                         \
  E(S, ece_vendor_low, ece_vendor, "ECE vendor ID", 0)            \
  F(S, service_id, service_id, service_id, "Service ID", service) \
  F(S, q_key, q_key, q_key, "Q_Key", q_key)                       \
  D(S, info)                                                      \
  D(S, private_data)

#define PARLEY_IBCM_LAP(S, F, E, P, L, D)                                                  \
  PARLEY_IBCM_IDS(S, F)                                                                    \
  F(S, remote_qpn, remote_qpn, remote_qpn, "Remote queue pair", kept)                      \
  F(S, remote_cm_response_timeout, remote_cm_response_timeout, remote_cm_response_timeout, \
    "Remote CM response timeout", kept)                                                    \
  L(S, alternate, "Alternate path")                                                        \
  D(S, private_data)

#define PARLEY_IBCM_APR(S, F, E, P, L, D)         \
  PARLEY_IBCM_IDS(S, F)                           \
  PARLEY_IBCM_INFO_FIELD(S, F)                    \
  F(S, status, status, ap_status, "Status", kept) \
  D(S, info)                                      \
  D(S, private_data)

#endif
