/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: subnet administration (IBA vol. 1 §15).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_SA_H
#define PARLEY_WIRE_MAD_SA_H

/* IBA §15.2.1.1. */
#define PARLEY_MAD_SA_HEADER(F, S, R)       \
  S(rmpp_header, 0, 1, RmppHeader)          \
  F(sm_key, 36, 0, 64, 1, hex)              \
  F(attribute_offset, 44, 0, 16, 1, number) \
  R(46, 0, 16)                              \
  F(component_mask, 48, 0, 64, 1, hex)

/* IBA §15.2.1.1. */
#define PARLEY_MAD_SA_FORMAT(F, S, R) \
  S(sa_header, 0, 1, SaHeader)        \
  F(data, 56, 0, 8, 200, octets)

/* IBA §15.2.5.18. */
#define PARLEY_MAD_GUID_INFO_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                   \
  F(block_num, 2, 0, 8, 1, number)           \
  R(3, 0, 8)                                 \
  R(4, 0, 32)                                \
  S(guid_info, 8, 1, GuidInfo)

/* IBA §15.2.5.12. */
#define PARLEY_MAD_INFORM_INFO_RECORD(F, S, R) \
  F(subscriber_gid, 0, 0, 128, 1, gid)         \
  F(enumeration, 16, 0, 16, 1, number)         \
  R(18, 0, 48)                                 \
  S(inform_info, 24, 1, InformInfo)            \
  R(60, 0, 160)

/* IBA §15.2.5.6. */
#define PARLEY_MAD_LINEAR_FORWARDING_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                                 \
  F(block_num, 2, 0, 16, 1, number)                        \
  R(4, 0, 32)                                              \
  S(linear_forwarding_table, 8, 1, LinearForwardingTable)

/* IBA §15.2.5.13. */
#define PARLEY_MAD_LINK_RECORD(F, S, R) \
  F(from_lid, 0, 0, 16, 1, lid)         \
  F(from_port, 2, 0, 8, 1, number)      \
  F(to_port, 3, 0, 8, 1, number)        \
  F(to_lid, 4, 0, 16, 1, lid)           \
  R(6, 0, 16)

/* IBA §15.2.5.17. */
#define PARLEY_MAD_MC_MEMBER_RECORD(F, S, R)          \
  F(mgid, 0, 0, 128, 1, gid)                          \
  F(port_gid, 16, 0, 128, 1, gid)                     \
  F(q_key, 32, 0, 32, 1, hex)                         \
  F(mlid, 36, 0, 16, 1, lid)                          \
  F(mtu_selector, 38, 0, 2, 1, selector)              \
  F(mtu, 38, 2, 6, 1, mtu)                            \
  F(traffic_class, 39, 0, 8, 1, hex)                  \
  F(p_key, 40, 0, 16, 1, hex)                         \
  F(rate_selector, 42, 0, 2, 1, selector)             \
  F(rate, 42, 2, 6, 1, rate)                          \
  F(packet_life_time_selector, 43, 0, 2, 1, selector) \
  F(packet_life_time, 43, 2, 6, 1, exponent)          \
  F(sl, 44, 0, 4, 1, number)                          \
  F(flow_label, 44, 4, 20, 1, hex)                    \
  F(hop_limit, 47, 0, 8, 1, number)                   \
  F(scope, 48, 0, 4, 1, mc_scope)                     \
  F(join_state, 48, 4, 4, 1, join_state)              \
  F(proxy_join, 49, 0, 1, 1, flag)                    \
  R(49, 1, 23)

/* IBA §15.2.5.20. */
#define PARLEY_MAD_MULTI_PATH_RECORD(F, S, R)         \
  F(raw_traffic, 0, 0, 1, 1, flag)                    \
  R(0, 1, 3)                                          \
  F(flow_label, 0, 4, 20, 1, hex)                     \
  F(hop_limit, 3, 0, 8, 1, number)                    \
  F(traffic_class, 4, 0, 8, 1, hex)                   \
  F(reversible, 5, 0, 1, 1, flag)                     \
  F(num_path, 5, 1, 7, 1, number)                     \
  F(p_key, 6, 0, 16, 1, hex)                          \
  R(8, 0, 12)                                         \
  F(sl, 9, 4, 4, 1, number)                           \
  F(mtu_selector, 10, 0, 2, 1, selector)              \
  F(mtu, 10, 2, 6, 1, mtu)                            \
  F(rate_selector, 11, 0, 2, 1, selector)             \
  F(rate, 11, 2, 6, 1, rate)                          \
  F(packet_life_time_selector, 12, 0, 2, 1, selector) \
  F(packet_life_time, 12, 2, 6, 1, exponent)          \
  R(13, 0, 8)                                         \
  F(independence_selector, 14, 0, 2, 1, selector)     \
  R(14, 2, 6)                                         \
  F(sgid_count, 15, 0, 8, 1, number)                  \
  F(dgid_count, 16, 0, 8, 1, number)                  \
  R(17, 0, 24)                                        \
  R(20, 0, 32)                                        \
  F(gid, 24, 0, 128, 1, gid)

/* IBA §15.2.5.8. */
#define PARLEY_MAD_MULTICAST_FORWARDING_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                                    \
  R(2, 0, 2)                                                  \
  F(position, 2, 2, 4, 1, number)                             \
  F(block_num, 2, 6, 10, 1, number)                           \
  R(4, 0, 32)                                                 \
  S(multicast_forwarding_table, 8, 1, MulticastForwardingTable)

/* IBA §15.2.5.2. */
#define PARLEY_MAD_NODE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)              \
  R(2, 0, 16)                           \
  S(node_info, 4, 1, NodeInfo)          \
  S(node_description, 44, 1, NodeDescription)

/* IBA §15.2.5.11. */
#define PARLEY_MAD_P_KEY_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                     \
  F(block_num, 2, 0, 16, 1, number)            \
  F(port_num, 4, 0, 8, 1, number)              \
  R(5, 0, 24)                                  \
  S(p_key_table, 8, 1, PKeyTable)

/* IBA §15.2.5.16. */
#define PARLEY_MAD_PATH_RECORD(F, S, R)               \
  F(service_id, 0, 0, 64, 1, path_service_id)         \
  F(dgid, 8, 0, 128, 1, gid)                          \
  F(sgid, 24, 0, 128, 1, gid)                         \
  F(dlid, 40, 0, 16, 1, lid)                          \
  F(slid, 42, 0, 16, 1, lid)                          \
  F(raw_traffic, 44, 0, 1, 1, flag)                   \
  R(44, 1, 3)                                         \
  F(flow_label, 44, 4, 20, 1, hex)                    \
  F(hop_limit, 47, 0, 8, 1, number)                   \
  F(traffic_class, 48, 0, 8, 1, hex)                  \
  F(reversible, 49, 0, 1, 1, flag)                    \
  F(num_path, 49, 1, 7, 1, number)                    \
  F(p_key, 50, 0, 16, 1, hex)                         \
  F(qos_class, 52, 0, 12, 1, number)                  \
  F(sl, 53, 4, 4, 1, number)                          \
  F(mtu_selector, 54, 0, 2, 1, selector)              \
  F(mtu, 54, 2, 6, 1, mtu)                            \
  F(rate_selector, 55, 0, 2, 1, selector)             \
  F(rate, 55, 2, 6, 1, rate)                          \
  F(packet_life_time_selector, 56, 0, 2, 1, selector) \
  F(packet_life_time, 56, 2, 6, 1, exponent)          \
  F(preference, 57, 0, 8, 1, number)                  \
  F(reverse_path_p_key_member_bit, 58, 0, 2, 1, hex)  \
  R(58, 2, 14)                                        \
  R(60, 0, 32)

/* IBA §15.2.5.3. */
#define PARLEY_MAD_PORT_INFO_RECORD(F, S, R) \
  F(endport_lid, 0, 0, 16, 1, lid)           \
  F(port_num, 2, 0, 8, 1, number)            \
  R(3, 0, 8)                                 \
  S(port_info, 4, 1, PortInfo)

/* IBA §15.2.5.7. */
#define PARLEY_MAD_RANDOM_FORWARDING_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                                 \
  F(block_num, 2, 0, 16, 1, number)                        \
  R(4, 0, 32)                                              \
  S(random_forwarding_table, 8, 1, RandomForwardingTable)

/* IBA §15.2.5.4. */
#define PARLEY_MAD_SL_TO_VL_MAPPING_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                                \
  F(input_port_num, 2, 0, 8, 1, number)                   \
  F(output_port_num, 3, 0, 8, 1, number)                  \
  R(4, 0, 32)                                             \
  S(sl_to_vl_mapping_table, 8, 1, SlToVlMappingTable)

/* IBA §15.2.5.10. */
#define PARLEY_MAD_SM_INFO_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                 \
  R(2, 0, 16)                              \
  S(sm_info, 4, 1, SmInfo)

/* IBA §15.2.5.15. */
#define PARLEY_MAD_SERVICE_ASSOCIATION_RECORD(F, S, R) \
  F(service_key, 0, 0, 8, 16, octets)                  \
  F(service_name, 16, 0, 8, 64, text)

/* IBA §15.2.5.14. */
#define PARLEY_MAD_SERVICE_RECORD(F, S, R)       \
  F(service_id, 0, 0, 64, 1, hex)                \
  F(service_gid, 8, 0, 128, 1, gid)              \
  F(service_p_key, 24, 0, 16, 1, hex)            \
  R(26, 0, 16)                                   \
  F(service_lease, 28, 0, 32, 1, seconds)        \
  F(service_key, 32, 0, 8, 16, octets)           \
  F(service_name, 48, 0, 8, 64, text)            \
  F(service_data8, 112, 0, 8, 16, service_data)  \
  F(service_data16, 128, 0, 16, 8, service_data) \
  F(service_data32, 144, 0, 32, 4, service_data) \
  F(service_data64, 160, 0, 64, 2, service_data)

/* IBA §15.2.5.5. */
#define PARLEY_MAD_SWITCH_INFO_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                     \
  R(2, 0, 16)                                  \
  S(switch_info, 4, 1, SwitchInfo)

/* IBA §15.2.5.19. */
#define PARLEY_MAD_TRACE_RECORD(F, S, R) \
  F(gid_prefix, 0, 0, 64, 1, hex)        \
  F(id_generation, 8, 0, 16, 1, hex)     \
  R(10, 0, 8)                            \
  F(node_type, 11, 0, 8, 1, node_type)   \
  F(node_id, 12, 0, 64, 1, hex)          \
  F(chassis_id, 20, 0, 64, 1, hex)       \
  F(entry_port_id, 28, 0, 64, 1, hex)    \
  F(exit_port_id, 36, 0, 64, 1, hex)     \
  F(entry_port, 44, 0, 8, 1, number)     \
  F(exit_port, 45, 0, 8, 1, number)      \
  R(46, 0, 16)

/* IBA §15.2.5.9. */
#define PARLEY_MAD_VL_ARBITRATION_TABLE_RECORD(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                              \
  F(output_port_num, 2, 0, 8, 1, number)                \
  F(block_num, 3, 0, 8, 1, number)                      \
  R(4, 0, 32)                                           \
  S(vl_arbitration_table, 8, 1, VlArbitrationTable)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_SA_STRUCTURES(T)                                                                       \
  T(SaHeader, 56, 0, "15.2.1.1", PARLEY_MAD_SA_HEADER)                                                    \
  T(SaFormat, 256, 0, "15.2.1.1", PARLEY_MAD_SA_FORMAT)                                                   \
  T(GuidInfoRecord, 72, 0x0030, "15.2.5.18", PARLEY_MAD_GUID_INFO_RECORD)                                 \
  T(InformInfoRecord, 80, 0x00F3, "15.2.5.12", PARLEY_MAD_INFORM_INFO_RECORD)                             \
  T(LinearForwardingTableRecord, 72, 0x0015, "15.2.5.6", PARLEY_MAD_LINEAR_FORWARDING_TABLE_RECORD)       \
  T(LinkRecord, 8, 0x0020, "15.2.5.13", PARLEY_MAD_LINK_RECORD)                                           \
  T(McMemberRecord, 52, 0x0038, "15.2.5.17", PARLEY_MAD_MC_MEMBER_RECORD)                                 \
  T(MultiPathRecord, 40, 0x003A, "15.2.5.20", PARLEY_MAD_MULTI_PATH_RECORD)                               \
  T(MulticastForwardingTableRecord, 72, 0x0017, "15.2.5.8", PARLEY_MAD_MULTICAST_FORWARDING_TABLE_RECORD) \
  T(NodeRecord, 108, 0x0011, "15.2.5.2", PARLEY_MAD_NODE_RECORD)                                          \
  T(PKeyTableRecord, 72, 0x0033, "15.2.5.11", PARLEY_MAD_P_KEY_TABLE_RECORD)                              \
  T(PathRecord, 64, 0x0035, "15.2.5.16", PARLEY_MAD_PATH_RECORD)                                          \
  T(PortInfoRecord, 68, 0x0012, "15.2.5.3", PARLEY_MAD_PORT_INFO_RECORD)                                  \
  T(RandomForwardingTableRecord, 72, 0x0016, "15.2.5.7", PARLEY_MAD_RANDOM_FORWARDING_TABLE_RECORD)       \
  T(SlToVlMappingTableRecord, 16, 0x0013, "15.2.5.4", PARLEY_MAD_SL_TO_VL_MAPPING_TABLE_RECORD)           \
  T(SmInfoRecord, 28, 0x0018, "15.2.5.10", PARLEY_MAD_SM_INFO_RECORD)                                     \
  T(ServiceAssociationRecord, 80, 0x003B, "15.2.5.15", PARLEY_MAD_SERVICE_ASSOCIATION_RECORD)             \
  T(ServiceRecord, 176, 0x0031, "15.2.5.14", PARLEY_MAD_SERVICE_RECORD)                                   \
  T(SwitchInfoRecord, 24, 0x0014, "15.2.5.5", PARLEY_MAD_SWITCH_INFO_RECORD)                              \
  T(TraceRecord, 48, 0x0039, "15.2.5.19", PARLEY_MAD_TRACE_RECORD)                                        \
  T(VlArbitrationTableRecord, 72, 0x0036, "15.2.5.9", PARLEY_MAD_VL_ARBITRATION_TABLE_RECORD)

#endif
