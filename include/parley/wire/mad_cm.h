/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: communication management (IBA vol. 1 §12).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_CM_H
#define PARLEY_WIRE_MAD_CM_H

/* IBA §16.7.1. */
#define PARLEY_MAD_CM_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)      \
  F(data, 24, 0, 8, 232, octets)

/* IBA §12.6. */
#define PARLEY_MAD_CM_PATH(F, S, R)           \
  F(slid, 0, 0, 16, 1, lid)                   \
  F(dlid, 2, 0, 16, 1, lid)                   \
  F(sgid, 4, 0, 128, 1, gid)                  \
  F(dgid, 20, 0, 128, 1, gid)                 \
  F(flow_label, 36, 0, 20, 1, hex)            \
  R(38, 4, 4)                                 \
  R(39, 0, 2)                                 \
  F(packet_rate, 39, 2, 6, 1, cm_rate)        \
  F(traffic_class, 40, 0, 8, 1, hex)          \
  F(hop_limit, 41, 0, 8, 1, number)           \
  F(sl, 42, 0, 4, 1, number)                  \
  F(subnet_local, 42, 4, 1, 1, flag)          \
  R(42, 5, 3)                                 \
  F(local_ack_timeout, 43, 0, 5, 1, exponent) \
  R(43, 5, 3)

/* IBA §12.8.2. */
#define PARLEY_MAD_CM_APR(F, S, R)    \
  F(local_comm_id, 0, 0, 32, 1, hex)  \
  F(remote_comm_id, 4, 0, 32, 1, hex) \
  F(info_length, 8, 0, 8, 1, number)  \
  F(status, 9, 0, 8, 1, cm_ap_status) \
  R(10, 0, 16)                        \
  F(info, 12, 0, 8, 72, octets)       \
  F(private_data, 84, 0, 8, 148, octets)

/* IBA §12.6.11. */
#define PARLEY_MAD_CM_DREP(F, S, R)   \
  F(local_comm_id, 0, 0, 32, 1, hex)  \
  F(remote_comm_id, 4, 0, 32, 1, hex) \
  F(private_data, 8, 0, 8, 224, octets)

/* IBA §12.6.10. */
#define PARLEY_MAD_CM_DREQ(F, S, R)   \
  F(local_comm_id, 0, 0, 32, 1, hex)  \
  F(remote_comm_id, 4, 0, 32, 1, hex) \
  F(remote_qpn, 8, 0, 24, 1, hex)     \
  R(11, 0, 8)                         \
  F(private_data, 12, 0, 8, 220, octets)

/* IBA §12.8.1. */
#define PARLEY_MAD_CM_LAP(F, S, R)                      \
  F(local_comm_id, 0, 0, 32, 1, hex)                    \
  F(remote_comm_id, 4, 0, 32, 1, hex)                   \
  F(q_key, 8, 0, 32, 1, hex)                            \
  F(remote_qpn, 12, 0, 24, 1, hex)                      \
  F(remote_cm_response_timeout, 15, 0, 5, 1, exponent)  \
  R(15, 5, 3)                                           \
  R(16, 0, 32)                                          \
  F(alternate_slid, 20, 0, 16, 1, lid)                  \
  F(alternate_dlid, 22, 0, 16, 1, lid)                  \
  F(alternate_sgid, 24, 0, 128, 1, gid)                 \
  F(alternate_dgid, 40, 0, 128, 1, gid)                 \
  F(alternate_flow_label, 56, 0, 20, 1, hex)            \
  R(58, 4, 4)                                           \
  F(alternate_traffic_class, 59, 0, 8, 1, hex)          \
  F(alternate_hop_limit, 60, 0, 8, 1, number)           \
  R(61, 0, 2)                                           \
  F(alternate_packet_rate, 61, 2, 6, 1, cm_rate)        \
  F(alternate_sl, 62, 0, 4, 1, number)                  \
  F(alternate_subnet_local, 62, 4, 1, 1, flag)          \
  R(62, 5, 3)                                           \
  F(alternate_local_ack_timeout, 63, 0, 5, 1, exponent) \
  R(63, 5, 3)                                           \
  F(private_data, 64, 0, 8, 168, octets)

/* IBA §12.6.6. */
#define PARLEY_MAD_CM_MRA(F, S, R)         \
  F(local_comm_id, 0, 0, 32, 1, hex)       \
  F(remote_comm_id, 4, 0, 32, 1, hex)      \
  F(message, 8, 0, 2, 1, cm_about)         \
  R(8, 2, 6)                               \
  F(service_timeout, 9, 0, 5, 1, exponent) \
  R(9, 5, 3)                               \
  F(private_data, 10, 0, 8, 222, octets)

/* IBA §12.6.7. */
#define PARLEY_MAD_CM_REJ(F, S, R)    \
  F(local_comm_id, 0, 0, 32, 1, hex)  \
  F(remote_comm_id, 4, 0, 32, 1, hex) \
  F(message, 8, 0, 2, 1, cm_about)    \
  R(8, 2, 6)                          \
  F(info_length, 9, 0, 7, 1, number)  \
  R(9, 7, 1)                          \
  F(reason, 10, 0, 16, 1, cm_reject)  \
  F(info, 12, 0, 8, 72, octets)       \
  F(private_data, 84, 0, 8, 148, octets)

/* IBA §12.6.8. */
#define PARLEY_MAD_CM_REP(F, S, R)            \
  F(local_comm_id, 0, 0, 32, 1, hex)          \
  F(remote_comm_id, 4, 0, 32, 1, hex)         \
  F(local_q_key, 8, 0, 32, 1, hex)            \
  F(local_qpn, 12, 0, 24, 1, hex)             \
  F(ece_vendor_high, 15, 0, 8, 1, hex)        \
  F(local_eecn, 16, 0, 24, 1, hex)            \
  F(ece_vendor_middle, 19, 0, 8, 1, hex)      \
  F(starting_psn, 20, 0, 24, 1, number)       \
  F(ece_vendor_low, 23, 0, 8, 1, hex)         \
  F(responder_resources, 24, 0, 8, 1, number) \
  F(initiator_depth, 25, 0, 8, 1, number)     \
  F(target_ack_delay, 26, 0, 5, 1, exponent)  \
  F(failover_accepted, 26, 5, 2, 1, number)   \
  F(flow_control, 26, 7, 1, 1, flag)          \
  F(rnr_retry_count, 27, 0, 3, 1, number)     \
  F(srq, 27, 3, 1, 1, flag)                   \
  R(27, 4, 4)                                 \
  F(local_ca_guid, 28, 0, 64, 1, guid)        \
  F(private_data, 36, 0, 8, 196, octets)

/* IBA §12.6.5. */
#define PARLEY_MAD_CM_REQ(F, S, R)                  \
  F(local_comm_id, 0, 0, 32, 1, hex)                \
  R(4, 0, 8)                                        \
  F(ece_vendor, 5, 0, 24, 1, hex)                   \
  F(service_id, 8, 0, 64, 1, hex)                   \
  F(local_ca_guid, 16, 0, 64, 1, guid)              \
  F(local_cm_q_key, 24, 0, 32, 1, hex)              \
  F(local_q_key, 28, 0, 32, 1, hex)                 \
  F(local_qpn, 32, 0, 24, 1, hex)                   \
  F(responder_resources, 35, 0, 8, 1, number)       \
  F(local_eecn, 36, 0, 24, 1, hex)                  \
  F(initiator_depth, 39, 0, 8, 1, number)           \
  F(remote_eecn, 40, 0, 24, 1, hex)                 \
  F(remote_response_timeout, 43, 0, 5, 1, exponent) \
  F(transport_service, 43, 5, 2, 1, cm_service)     \
  F(flow_control, 43, 7, 1, 1, flag)                \
  F(starting_psn, 44, 0, 24, 1, number)             \
  F(local_response_timeout, 47, 0, 5, 1, exponent)  \
  F(retry_count, 47, 5, 3, 1, number)               \
  F(p_key, 48, 0, 16, 1, hex)                       \
  F(path_packet_mtu, 50, 0, 4, 1, mtu)              \
  F(rdc_exists, 50, 4, 1, 1, flag)                  \
  F(rnr_retry_count, 50, 5, 3, 1, number)           \
  F(max_cm_retries, 51, 0, 4, 1, number)            \
  F(srq, 51, 4, 1, 1, flag)                         \
  F(extended_transport, 51, 5, 3, 1, cm_extended)   \
  S(primary_path, 52, 1, CmPath)                    \
  S(alternate_path, 96, 1, CmPath)                  \
  F(private_data, 140, 0, 8, 92, octets)

/* IBA §12.6.9. */
#define PARLEY_MAD_CM_RTU(F, S, R)    \
  F(local_comm_id, 0, 0, 32, 1, hex)  \
  F(remote_comm_id, 4, 0, 32, 1, hex) \
  F(private_data, 8, 0, 8, 224, octets)

/* IBA §12.11.2. */
#define PARLEY_MAD_CM_SIDR_REP(F, S, R) \
  F(request_id, 0, 0, 32, 1, hex)       \
  F(status, 4, 0, 8, 1, cm_sidr_status) \
  F(info_length, 5, 0, 8, 1, number)    \
  F(ece_vendor_high, 6, 0, 16, 1, hex)  \
  F(qpn, 8, 0, 24, 1, hex)              \
  F(ece_vendor_low, 11, 0, 8, 1, hex)   \
  F(service_id, 12, 0, 64, 1, hex)      \
  F(q_key, 20, 0, 32, 1, hex)           \
  F(info, 24, 0, 8, 72, octets)         \
  F(private_data, 96, 0, 8, 136, octets)

/* IBA §12.11.1. */
#define PARLEY_MAD_CM_SIDR_REQ(F, S, R) \
  F(request_id, 0, 0, 32, 1, hex)       \
  F(p_key, 4, 0, 16, 1, hex)            \
  R(6, 0, 16)                           \
  F(service_id, 8, 0, 64, 1, hex)       \
  F(private_data, 16, 0, 8, 216, octets)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_CM_STRUCTURES(T)                            \
  T(CmFormat, 256, 0, "16.7.1", PARLEY_MAD_CM_FORMAT)          \
  T(CmPath, 44, 0, "12.6", PARLEY_MAD_CM_PATH)                 \
  T(CmApr, 232, 0x001A, "12.8.2", PARLEY_MAD_CM_APR)           \
  T(CmDrep, 232, 0x0016, "12.6.11", PARLEY_MAD_CM_DREP)        \
  T(CmDreq, 232, 0x0015, "12.6.10", PARLEY_MAD_CM_DREQ)        \
  T(CmLap, 232, 0x0019, "12.8.1", PARLEY_MAD_CM_LAP)           \
  T(CmMra, 232, 0x0011, "12.6.6", PARLEY_MAD_CM_MRA)           \
  T(CmRej, 232, 0x0012, "12.6.7", PARLEY_MAD_CM_REJ)           \
  T(CmRep, 232, 0x0013, "12.6.8", PARLEY_MAD_CM_REP)           \
  T(CmReq, 232, 0x0010, "12.6.5", PARLEY_MAD_CM_REQ)           \
  T(CmRtu, 232, 0x0014, "12.6.9", PARLEY_MAD_CM_RTU)           \
  T(CmSidrRep, 232, 0x0018, "12.11.2", PARLEY_MAD_CM_SIDR_REP) \
  T(CmSidrReq, 232, 0x0017, "12.11.1", PARLEY_MAD_CM_SIDR_REQ)

#endif
