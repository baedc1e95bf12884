/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: subnet management, by LID and by directed route (IBA vol. 1 §14).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_SMP_H
#define PARLEY_WIRE_MAD_SMP_H

/* IBA §14.2.1.1. */
#define PARLEY_MAD_SMP_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)       \
  F(m_key, 24, 0, 64, 1, hex)          \
  R(32, 0, 256)                        \
  F(data, 64, 0, 8, 64, octets)        \
  R(128, 0, 1024)

/* IBA §14.2.1.2. */
#define PARLEY_MAD_DIRECTED_SMP_FORMAT(F, S, R) \
  S(mad_header, 0, 1, DirectedMadHeader)        \
  F(m_key, 24, 0, 64, 1, hex)                   \
  F(dr_slid, 32, 0, 16, 1, lid)                 \
  F(dr_dlid, 34, 0, 16, 1, lid)                 \
  R(36, 0, 224)                                 \
  F(data, 64, 0, 8, 64, octets)                 \
  F(initial_path, 128, 0, 8, 64, octets)        \
  F(return_path, 192, 0, 8, 64, octets)

/* IBA §14.2.5.5. */
#define PARLEY_MAD_GUID_INFO(F, S, R) F(guid_block, 0, 0, 64, 8, guid)

/* IBA §14.2.5.11. */
#define PARLEY_MAD_LID_PORT_BLOCK(F, S, R) \
  F(lid, 0, 0, 16, 1, lid)                 \
  F(valid, 2, 0, 1, 1, flag)               \
  F(lmc, 2, 1, 3, 1, number)               \
  R(2, 4, 4)                               \
  F(port, 3, 0, 8, 1, number)

/* IBA §14.2.5.15. */
#define PARLEY_MAD_LED_INFO(F, S, R) \
  F(led_mask, 0, 0, 1, 1, flag)      \
  R(0, 1, 31)

/* IBA §14.2.5.10. */
#define PARLEY_MAD_LINEAR_FORWARDING_TABLE(F, S, R) F(port_block, 0, 0, 8, 64, number)

/* IBA §14.2.5.12. */
#define PARLEY_MAD_MULTICAST_FORWARDING_TABLE(F, S, R) F(port_mask_block, 0, 0, 16, 32, hex)

/* IBA §14.2.5.2. */
#define PARLEY_MAD_NODE_DESCRIPTION(F, S, R) F(node_string, 0, 0, 8, 64, text)

/* IBA §14.2.5.3. */
#define PARLEY_MAD_NODE_INFO(F, S, R)     \
  F(base_version, 0, 0, 8, 1, number)     \
  F(class_version, 1, 0, 8, 1, number)    \
  F(node_type, 2, 0, 8, 1, node_type)     \
  F(num_ports, 3, 0, 8, 1, number)        \
  F(system_image_guid, 4, 0, 64, 1, guid) \
  F(node_guid, 12, 0, 64, 1, guid)        \
  F(port_guid, 20, 0, 64, 1, guid)        \
  F(partition_cap, 28, 0, 16, 1, number)  \
  F(device_id, 30, 0, 16, 1, hex)         \
  F(revision, 32, 0, 32, 1, hex)          \
  F(local_port_num, 36, 0, 8, 1, number)  \
  F(vendor_id, 37, 0, 24, 1, hex)

/* IBA §14.2.5.7. */
#define PARLEY_MAD_P_KEY_TABLE(F, S, R) F(p_key_block, 0, 0, 16, 32, hex)

/* IBA §14.2.5.6. */
#define PARLEY_MAD_PORT_INFO(F, S, R)                              \
  F(m_key, 0, 0, 64, 1, hex)                                       \
  F(gid_prefix, 8, 0, 64, 1, hex)                                  \
  F(lid, 16, 0, 16, 1, lid)                                        \
  F(master_sm_lid, 18, 0, 16, 1, lid)                              \
  F(capability_mask, 20, 0, 32, 1, port_capability)                \
  F(diag_code, 24, 0, 16, 1, hex)                                  \
  F(m_key_lease_period, 26, 0, 16, 1, seconds)                     \
  F(local_port_num, 28, 0, 8, 1, number)                           \
  F(link_width_enabled, 29, 0, 8, 1, link_width)                   \
  F(link_width_supported, 30, 0, 8, 1, link_width)                 \
  F(link_width_active, 31, 0, 8, 1, link_width)                    \
  F(link_speed_supported, 32, 0, 4, 1, link_speed)                 \
  F(port_state, 32, 4, 4, 1, port_state)                           \
  F(port_physical_state, 33, 0, 4, 1, port_physical_state)         \
  F(link_down_default_state, 33, 4, 4, 1, link_down_state)         \
  F(m_key_protect_bits, 34, 0, 2, 1, number)                       \
  R(34, 2, 3)                                                      \
  F(lmc, 34, 5, 3, 1, number)                                      \
  F(link_speed_active, 35, 0, 4, 1, link_speed)                    \
  F(link_speed_enabled, 35, 4, 4, 1, link_speed)                   \
  F(neighbor_mtu, 36, 0, 4, 1, mtu)                                \
  F(master_sm_sl, 36, 4, 4, 1, number)                             \
  F(vl_cap, 37, 0, 4, 1, vl_cap)                                   \
  F(init_type, 37, 4, 4, 1, hex)                                   \
  F(vl_high_limit, 38, 0, 8, 1, number)                            \
  F(vl_arbitration_high_cap, 39, 0, 8, 1, number)                  \
  F(vl_arbitration_low_cap, 40, 0, 8, 1, number)                   \
  F(init_type_reply, 41, 0, 4, 1, hex)                             \
  F(mtu_cap, 41, 4, 4, 1, mtu)                                     \
  F(vl_stall_count, 42, 0, 3, 1, number)                           \
  F(hoq_life, 42, 3, 5, 1, exponent)                               \
  F(operational_vls, 43, 0, 4, 1, vl_cap)                          \
  F(partition_enforcement_inbound, 43, 4, 1, 1, flag)              \
  F(partition_enforcement_outbound, 43, 5, 1, 1, flag)             \
  F(filter_raw_inbound, 43, 6, 1, 1, flag)                         \
  F(filter_raw_outbound, 43, 7, 1, 1, flag)                        \
  F(m_key_violations, 44, 0, 16, 1, number)                        \
  F(p_key_violations, 46, 0, 16, 1, number)                        \
  F(q_key_violations, 48, 0, 16, 1, number)                        \
  F(guid_cap, 50, 0, 8, 1, number)                                 \
  F(client_reregister, 51, 0, 1, 1, flag)                          \
  F(multicast_p_key_trap_suppression_enabled, 51, 1, 2, 1, number) \
  F(subnet_time_out, 51, 3, 5, 1, exponent)                        \
  R(52, 0, 3)                                                      \
  F(resp_time_value, 52, 3, 5, 1, exponent)                        \
  F(local_phy_errors, 53, 0, 4, 1, number)                         \
  F(overrun_errors, 53, 4, 4, 1, number)                           \
  F(max_credit_hint, 54, 0, 16, 1, number)                         \
  R(56, 0, 1)                                                      \
  F(link_speed_ext_active2, 56, 1, 2, 1, link_speed_ext2)          \
  F(link_speed_ext_supported2, 56, 3, 2, 1, link_speed_ext2)       \
  F(link_speed_ext_enabled2, 56, 5, 3, 1, link_speed_ext2)         \
  F(link_round_trip_latency, 57, 0, 24, 1, number)                 \
  F(capability_mask2, 60, 0, 16, 1, hex)                           \
  F(link_speed_ext_active, 62, 0, 4, 1, link_speed_ext)            \
  F(link_speed_ext_supported, 62, 4, 4, 1, link_speed_ext)         \
  R(63, 0, 3)                                                      \
  F(link_speed_ext_enabled, 63, 3, 5, 1, link_speed_ext)

/* IBA §14.2.5.11. */
#define PARLEY_MAD_RANDOM_FORWARDING_TABLE(F, S, R) S(lid_port_block, 0, 16, LidPortBlock)

/* IBA §14.2.5.8. */
#define PARLEY_MAD_SL_TO_VL_MAPPING_TABLE(F, S, R) F(sl_to_vl, 0, 0, 4, 16, number)

/* IBA §14.2.5.13. */
#define PARLEY_MAD_SM_INFO(F, S, R)  \
  F(guid, 0, 0, 64, 1, guid)         \
  F(sm_key, 8, 0, 64, 1, hex)        \
  F(act_count, 16, 0, 32, 1, number) \
  F(priority, 20, 0, 4, 1, number)   \
  F(sm_state, 20, 4, 4, 1, sm_state) \
  R(21, 0, 24)

/* IBA §14.2.5.4. */
#define PARLEY_MAD_SWITCH_INFO(F, S, R)                          \
  F(linear_fdb_cap, 0, 0, 16, 1, number)                         \
  F(random_fdb_cap, 2, 0, 16, 1, number)                         \
  F(multicast_fdb_cap, 4, 0, 16, 1, number)                      \
  F(linear_fdb_top, 6, 0, 16, 1, number)                         \
  F(default_port, 8, 0, 8, 1, number)                            \
  F(default_multicast_primary_port, 9, 0, 8, 1, number)          \
  F(default_multicast_not_primary_port, 10, 0, 8, 1, number)     \
  F(life_time_value, 11, 0, 5, 1, exponent)                      \
  F(port_state_change, 11, 5, 1, 1, flag)                        \
  F(optimized_sl_to_vl_mapping_programming, 11, 6, 2, 1, number) \
  F(lids_per_port, 12, 0, 16, 1, number)                         \
  F(partition_enforcement_cap, 14, 0, 16, 1, number)             \
  F(inbound_enforcement_cap, 16, 0, 1, 1, flag)                  \
  F(outbound_enforcement_cap, 16, 1, 1, 1, flag)                 \
  F(filter_raw_inbound_cap, 16, 2, 1, 1, flag)                   \
  F(filter_raw_outbound_cap, 16, 3, 1, 1, flag)                  \
  F(enhanced_port0, 16, 4, 1, 1, flag)                           \
  R(16, 5, 3)                                                    \
  R(17, 0, 8)                                                    \
  F(multicast_fdb_top, 18, 0, 16, 1, number)

/* IBA §14.2.5.9. */
#define PARLEY_MAD_VL_ARBITRATION_TABLE(F, S, R) F(vl_weight_block, 0, 0, 16, 32, number)

/* IBA §14.2.5.14. */
#define PARLEY_MAD_VENDOR_DIAG(F, S, R) \
  F(next_index, 0, 0, 16, 1, number)    \
  R(2, 0, 16)                           \
  F(diag_data, 4, 0, 8, 60, octets)

/* IBA §14.2.5. */
#define PARLEY_MAD_PORT_INFO_EXTENDED(F, S, R) \
  F(capability_mask, 0, 0, 32, 1, hex)         \
  F(fec_mode_active, 4, 0, 16, 1, hex)         \
  F(fdrfec_mode_supported, 6, 0, 16, 1, hex)   \
  F(fdrfec_mode_enabled, 8, 0, 16, 1, hex)     \
  F(edrfec_mode_supported, 10, 0, 16, 1, hex)  \
  F(edrfec_mode_enabled, 12, 0, 16, 1, hex)    \
  F(hdrfec_mode_supported, 14, 0, 16, 1, hex)  \
  F(hdrfec_mode_enabled, 16, 0, 16, 1, hex)    \
  F(ndrfec_mode_supported, 18, 0, 16, 1, hex)  \
  F(ndrfec_mode_enabled, 20, 0, 16, 1, hex)    \
  R(22, 0, 336)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_SMP_STRUCTURES(T)                                                          \
  T(SmpFormat, 256, 0, "14.2.1.1", PARLEY_MAD_SMP_FORMAT)                                     \
  T(DirectedSmpFormat, 256, 0, "14.2.1.2", PARLEY_MAD_DIRECTED_SMP_FORMAT)                    \
  T(GuidInfo, 64, 0x0014, "14.2.5.5", PARLEY_MAD_GUID_INFO)                                   \
  T(LidPortBlock, 4, 0, "14.2.5.11", PARLEY_MAD_LID_PORT_BLOCK)                               \
  T(LedInfo, 4, 0x0031, "14.2.5.15", PARLEY_MAD_LED_INFO)                                     \
  T(LinearForwardingTable, 64, 0x0019, "14.2.5.10", PARLEY_MAD_LINEAR_FORWARDING_TABLE)       \
  T(MulticastForwardingTable, 64, 0x001B, "14.2.5.12", PARLEY_MAD_MULTICAST_FORWARDING_TABLE) \
  T(NodeDescription, 64, 0x0010, "14.2.5.2", PARLEY_MAD_NODE_DESCRIPTION)                     \
  T(NodeInfo, 40, 0x0011, "14.2.5.3", PARLEY_MAD_NODE_INFO)                                   \
  T(PKeyTable, 64, 0x0016, "14.2.5.7", PARLEY_MAD_P_KEY_TABLE)                                \
  T(PortInfo, 64, 0x0015, "14.2.5.6", PARLEY_MAD_PORT_INFO)                                   \
  T(RandomForwardingTable, 64, 0x001A, "14.2.5.11", PARLEY_MAD_RANDOM_FORWARDING_TABLE)       \
  T(SlToVlMappingTable, 8, 0x0017, "14.2.5.8", PARLEY_MAD_SL_TO_VL_MAPPING_TABLE)             \
  T(SmInfo, 24, 0x0020, "14.2.5.13", PARLEY_MAD_SM_INFO)                                      \
  T(SwitchInfo, 20, 0x0012, "14.2.5.4", PARLEY_MAD_SWITCH_INFO)                               \
  T(VlArbitrationTable, 64, 0x0018, "14.2.5.9", PARLEY_MAD_VL_ARBITRATION_TABLE)              \
  T(VendorDiag, 64, 0x0030, "14.2.5.14", PARLEY_MAD_VENDOR_DIAG)                              \
  T(PortInfoExtended, 64, 0x0033, "14.2.5", PARLEY_MAD_PORT_INFO_EXTENDED)

#endif
