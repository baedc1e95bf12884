/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: headers shared by all classes, and structures used by several (IBA vol. 1 §13).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_COMMON_H
#define PARLEY_WIRE_MAD_COMMON_H

/* IBA §13.4.3. */
#define PARLEY_MAD_MAD_HEADER(F, S, R)  \
  F(base_version, 0, 0, 8, 1, number)   \
  F(mgmt_class, 1, 0, 8, 1, mgmt_class) \
  F(class_version, 2, 0, 8, 1, number)  \
  F(method, 3, 0, 8, 1, method)         \
  F(status, 4, 0, 16, 1, hex)           \
  F(class_specific, 6, 0, 16, 1, hex)   \
  F(transaction_id, 8, 0, 64, 1, hex)   \
  F(attribute_id, 16, 0, 16, 1, hex)    \
  R(18, 0, 16)                          \
  F(attribute_modifier, 20, 0, 32, 1, hex)

/* IBA §13.4.3. */
#define PARLEY_MAD_DIRECTED_MAD_HEADER(F, S, R) \
  F(base_version, 0, 0, 8, 1, number)           \
  F(mgmt_class, 1, 0, 8, 1, mgmt_class)         \
  F(class_version, 2, 0, 8, 1, number)          \
  F(method, 3, 0, 8, 1, method)                 \
  F(direction, 4, 0, 1, 1, flag)                \
  F(status, 4, 1, 15, 1, hex)                   \
  F(hop_pointer, 6, 0, 8, 1, number)            \
  F(hop_count, 7, 0, 8, 1, number)              \
  F(transaction_id, 8, 0, 64, 1, hex)           \
  F(attribute_id, 16, 0, 16, 1, hex)            \
  R(18, 0, 16)                                  \
  F(attribute_modifier, 20, 0, 32, 1, hex)

/* IBA §13.6.2.1. */
#define PARLEY_MAD_RMPP_HEADER(F, S, R)    \
  S(mad_header, 0, 1, MadHeader)           \
  F(rmpp_version, 24, 0, 8, 1, number)     \
  F(rmpp_type, 25, 0, 8, 1, rmpp_type)     \
  F(r_resp_time, 26, 0, 5, 1, exponent)    \
  F(rmpp_flags, 26, 5, 3, 1, rmpp_flags)   \
  F(rmpp_status, 27, 0, 8, 1, rmpp_status) \
  F(data1, 28, 0, 32, 1, number)           \
  F(data2, 32, 0, 32, 1, number)

/* IBA §13.4.8.1. */
#define PARLEY_MAD_CLASS_PORT_INFO(F, S, R)   \
  F(base_version, 0, 0, 8, 1, number)         \
  F(class_version, 1, 0, 8, 1, number)        \
  F(capability_mask, 2, 0, 16, 1, hex)        \
  F(capability_mask2, 4, 0, 27, 1, hex)       \
  F(resp_time_value, 7, 3, 5, 1, exponent)    \
  F(redirect_gid, 8, 0, 128, 1, gid)          \
  F(redirect_traffic_class, 24, 0, 8, 1, hex) \
  F(redirect_sl, 25, 0, 4, 1, number)         \
  F(redirect_flow_label, 25, 4, 20, 1, hex)   \
  F(redirect_lid, 28, 0, 16, 1, lid)          \
  F(redirect_p_key, 30, 0, 16, 1, hex)        \
  R(32, 0, 8)                                 \
  F(redirect_qp, 33, 0, 24, 1, number)        \
  F(redirect_q_key, 36, 0, 32, 1, hex)        \
  F(trap_gid, 40, 0, 128, 1, gid)             \
  F(trap_traffic_class, 56, 0, 8, 1, hex)     \
  F(trap_sl, 57, 0, 4, 1, number)             \
  F(trap_flow_label, 57, 4, 20, 1, hex)       \
  F(trap_lid, 60, 0, 16, 1, lid)              \
  F(trap_p_key, 62, 0, 16, 1, hex)            \
  F(trap_hop_limit, 64, 0, 8, 1, number)      \
  F(trap_qp, 65, 0, 24, 1, number)            \
  F(trap_q_key, 68, 0, 32, 1, hex)

/* IBA §13.4.8.3. */
#define PARLEY_MAD_INFORM_INFO(F, S, R)     \
  F(gid, 0, 0, 128, 1, gid)                 \
  F(lid_range_begin, 16, 0, 16, 1, lid)     \
  F(lid_range_end, 18, 0, 16, 1, lid)       \
  R(20, 0, 16)                              \
  F(is_generic, 22, 0, 8, 1, number)        \
  F(subscribe, 23, 0, 8, 1, number)         \
  F(type, 24, 0, 16, 1, number)             \
  F(trap_number, 26, 0, 16, 1, number)      \
  F(qpn, 28, 0, 24, 1, hex)                 \
  R(31, 0, 3)                               \
  F(resp_time_value, 31, 3, 5, 1, exponent) \
  R(32, 0, 8)                               \
  F(producer_type, 33, 0, 24, 1, node_type)

/* IBA §13.4.8.2. */
#define PARLEY_MAD_NOTICE(F, S, R)        \
  F(is_generic, 0, 0, 1, 1, flag)         \
  F(notice_type, 0, 1, 7, 1, notice_type) \
  F(node_type, 1, 0, 24, 1, node_type)    \
  F(trap_number, 4, 0, 16, 1, number)     \
  F(issuer_lid, 6, 0, 16, 1, lid)         \
  F(notice_toggle, 8, 0, 1, 1, flag)      \
  F(notice_count, 8, 1, 15, 1, number)    \
  F(data_details, 10, 0, 8, 54, octets)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP64_DETAILS(F, S, R) \
  R(0, 0, 48)                              \
  F(gid, 6, 0, 128, 1, gid)                \
  R(22, 0, 256)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP128_DETAILS(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                  \
  R(2, 0, 416)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP129_DETAILS(F, S, R) \
  R(0, 0, 16)                               \
  F(lid, 2, 0, 16, 1, lid)                  \
  F(port_num, 4, 0, 8, 1, number)           \
  R(5, 0, 392)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP144_DETAILS(F, S, R)        \
  R(0, 0, 16)                                      \
  F(lid, 2, 0, 16, 1, lid)                         \
  R(4, 0, 8)                                       \
  F(local_changes, 5, 0, 8, 1, number)             \
  F(capability_mask, 6, 0, 32, 1, port_capability) \
  F(change_flags, 10, 0, 16, 1, number)            \
  F(capability_mask2, 12, 0, 16, 1, hex)           \
  R(14, 0, 320)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP145_DETAILS(F, S, R) \
  R(0, 0, 16)                               \
  F(lid, 2, 0, 16, 1, lid)                  \
  R(4, 0, 16)                               \
  F(system_image_guid, 6, 0, 64, 1, guid)   \
  R(14, 0, 320)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP256_DETAILS(F, S, R) \
  R(0, 0, 16)                               \
  F(lid, 2, 0, 16, 1, lid)                  \
  F(dr_slid, 4, 0, 16, 1, lid)              \
  F(method, 6, 0, 8, 1, method)             \
  R(7, 0, 8)                                \
  F(attribute_id, 8, 0, 16, 1, hex)         \
  F(attribute_modifier, 10, 0, 32, 1, hex)  \
  F(m_key, 14, 0, 64, 1, hex)               \
  R(22, 0, 8)                               \
  F(dr_notice, 23, 0, 1, 1, flag)           \
  F(dr_path_truncated, 23, 1, 1, 1, flag)   \
  F(dr_hop_count, 23, 2, 6, 1, number)      \
  F(dr_notice_return_path, 24, 0, 8, 30, octets)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP257_DETAILS(F, S, R) \
  R(0, 0, 16)                               \
  F(lid1, 2, 0, 16, 1, lid)                 \
  F(lid2, 4, 0, 16, 1, lid)                 \
  F(key, 6, 0, 32, 1, hex)                  \
  F(sl, 10, 0, 4, 1, number)                \
  R(10, 4, 4)                               \
  F(qp1, 11, 0, 24, 1, number)              \
  R(14, 0, 8)                               \
  F(qp2, 15, 0, 24, 1, number)              \
  F(gid1, 18, 0, 128, 1, gid)               \
  F(gid2, 34, 0, 128, 1, gid)               \
  R(50, 0, 32)

/* IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP259_DETAILS(F, S, R) \
  F(data_valid, 0, 0, 16, 1, number)        \
  F(lid1, 2, 0, 16, 1, lid)                 \
  F(lid2, 4, 0, 16, 1, lid)                 \
  F(p_key, 6, 0, 16, 1, hex)                \
  F(sl, 8, 0, 4, 1, number)                 \
  R(8, 4, 4)                                \
  F(qp1, 9, 0, 24, 1, number)               \
  R(12, 0, 8)                               \
  F(qp2, 13, 0, 24, 1, number)              \
  F(gid1, 16, 0, 128, 1, gid)               \
  F(gid2, 32, 0, 128, 1, gid)               \
  F(switch_lid, 48, 0, 16, 1, lid)          \
  F(port_num, 50, 0, 8, 1, number)          \
  R(51, 0, 24)

/* X(first trap, last trap, structure): the details of a subnet management notice, IBA §14.2.5.1. */
#define PARLEY_MAD_TRAP_DETAILS(X) \
  X(64, 67, Trap64Details)         \
  X(128, 128, Trap128Details)      \
  X(129, 131, Trap129Details)      \
  X(144, 144, Trap144Details)      \
  X(145, 145, Trap145Details)      \
  X(256, 256, Trap256Details)      \
  X(257, 258, Trap257Details)      \
  X(259, 259, Trap259Details)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_COMMON_STRUCTURES(T)                                 \
  T(MadHeader, 24, 0, "13.4.3", PARLEY_MAD_MAD_HEADER)                  \
  T(DirectedMadHeader, 24, 0, "13.4.3", PARLEY_MAD_DIRECTED_MAD_HEADER) \
  T(RmppHeader, 36, 0, "13.6.2.1", PARLEY_MAD_RMPP_HEADER)              \
  T(ClassPortInfo, 72, 0x0001, "13.4.8.1", PARLEY_MAD_CLASS_PORT_INFO)  \
  T(InformInfo, 36, 0x0003, "13.4.8.3", PARLEY_MAD_INFORM_INFO)         \
  T(Notice, 64, 0x0002, "13.4.8.2", PARLEY_MAD_NOTICE)                  \
  T(Trap64Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP64_DETAILS)        \
  T(Trap128Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP128_DETAILS)      \
  T(Trap129Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP129_DETAILS)      \
  T(Trap144Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP144_DETAILS)      \
  T(Trap145Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP145_DETAILS)      \
  T(Trap256Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP256_DETAILS)      \
  T(Trap257Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP257_DETAILS)      \
  T(Trap259Details, 54, 0, "14.2.5.1", PARLEY_MAD_TRAP259_DETAILS)

#endif
