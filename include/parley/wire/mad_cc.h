/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: congestion control (IBA vol. 1 Annex A10).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_CC_H
#define PARLEY_WIRE_MAD_CC_H

/* IBA §A10.4. */
#define PARLEY_MAD_CC_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)      \
  F(cc_key, 24, 0, 64, 1, hex)        \
  F(log_data, 32, 0, 8, 32, octets)   \
  F(data, 64, 0, 8, 192, octets)

/* IBA §A10.4. */
#define PARLEY_MAD_CONGESTION_INFO(F, S, R) \
  F(congestion_info, 0, 0, 16, 1, hex)      \
  F(control_table_cap, 2, 0, 8, 1, number)  \
  R(3, 0, 8)

/* IBA §A10.4. */
#define PARLEY_MAD_CONGESTION_KEY_INFO(F, S, R) \
  F(cc_key, 0, 0, 64, 1, hex)                   \
  F(cc_key_protect_bit, 8, 0, 1, 1, flag)       \
  R(8, 1, 15)                                   \
  F(cc_key_lease_period, 10, 0, 16, 1, seconds) \
  F(cc_key_violations, 12, 0, 16, 1, number)    \
  R(14, 0, 16)

/* IBA §A10.4. */
#define PARLEY_MAD_SWITCH_CONGESTION_LOG_EVENT(F, S, R) \
  F(slid, 0, 0, 16, 1, lid)                             \
  F(dlid, 2, 0, 16, 1, lid)                             \
  F(sl, 4, 0, 4, 1, number)                             \
  R(4, 4, 28)                                           \
  F(timestamp, 8, 0, 32, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_SWITCH_CONGESTION_LOG(F, S, R) \
  F(log_type, 0, 0, 8, 1, number)                 \
  F(congestion_flags, 1, 0, 8, 1, number)         \
  F(log_events_counter, 2, 0, 16, 1, number)      \
  F(current_time_stamp, 4, 0, 32, 1, number)      \
  F(port_map, 8, 0, 8, 32, octets)

/* IBA §A10.4. */
#define PARLEY_MAD_CA_CONGESTION_LOG_EVENT(F, S, R) \
  F(local_qp, 0, 0, 24, 1, number)                  \
  F(sl, 3, 0, 4, 1, number)                         \
  F(service_type, 3, 4, 4, 1, number)               \
  F(remote_qp, 4, 0, 24, 1, number)                 \
  R(7, 0, 8)                                        \
  F(local_lid, 8, 0, 16, 1, lid)                    \
  F(remote_lid, 10, 0, 16, 1, lid)                  \
  F(timestamp, 12, 0, 32, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_CA_CONGESTION_LOG(F, S, R)         \
  F(log_type, 0, 0, 8, 1, number)                     \
  F(congestion_flags, 1, 0, 8, 1, number)             \
  F(threshold_event_counter, 2, 0, 16, 1, number)     \
  F(threshold_congestion_event_map, 4, 0, 16, 1, hex) \
  R(6, 0, 16)                                         \
  F(current_time_stamp, 8, 0, 32, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_SWITCH_CONGESTION_SETTING(F, S, R) \
  F(control_map, 0, 0, 32, 1, hex)                    \
  F(victim_mask, 4, 0, 8, 32, octets)                 \
  F(credit_mask, 36, 0, 8, 32, octets)                \
  F(threshold, 68, 0, 4, 1, number)                   \
  R(68, 4, 4)                                         \
  F(packet_size, 69, 0, 8, 1, number)                 \
  F(cs_threshold, 70, 0, 4, 1, number)                \
  R(70, 4, 12)                                        \
  F(cs_return_delay, 72, 0, 16, 1, number)            \
  F(marking_rate, 74, 0, 16, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_SWITCH_PORT_CONGESTION_SETTING_ELEMENT(F, S, R) \
  F(valid, 0, 0, 1, 1, flag)                                       \
  F(control_type, 0, 1, 1, 1, flag)                                \
  R(0, 2, 2)                                                       \
  F(threshold, 0, 4, 4, 1, number)                                 \
  F(packet_size, 1, 0, 8, 1, number)                               \
  F(cong_parm_marking_rate, 2, 0, 16, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_SWITCH_PORT_CONGESTION_SETTING(F, S, R) S(element, 0, 32, SwitchPortCongestionSettingElement)

/* IBA §A10.4. */
#define PARLEY_MAD_CA_CONGESTION_ENTRY(F, S, R) \
  F(ccti_timer, 0, 0, 16, 1, number)            \
  F(ccti_increase, 2, 0, 8, 1, number)          \
  F(trigger_threshold, 3, 0, 8, 1, number)      \
  F(ccti_min, 4, 0, 8, 1, number)               \
  R(5, 0, 24)

/* IBA §A10.4. */
#define PARLEY_MAD_CA_CONGESTION_SETTING(F, S, R) \
  F(port_control, 0, 0, 16, 1, number)            \
  F(control_map, 2, 0, 16, 1, hex)                \
  S(entry, 4, 16, CaCongestionEntry)

/* IBA §A10.4. */
#define PARLEY_MAD_CONGESTION_CONTROL_TABLE_ENTRY(F, S, R) \
  F(cct_shift, 0, 0, 2, 1, number)                         \
  F(cct_multiplier, 0, 2, 14, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_CONGESTION_CONTROL_TABLE(F, S, R) \
  F(ccti_limit, 0, 0, 16, 1, number)                 \
  R(2, 0, 16)                                        \
  S(entry, 4, 64, CongestionControlTableEntry)

/* IBA §A10.4. */
#define PARLEY_MAD_TIMESTAMP(F, S, R) F(timestamp, 0, 0, 32, 1, number)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_CC_STRUCTURES(T)                                                                       \
  T(CcFormat, 256, 0, "A10.4", PARLEY_MAD_CC_FORMAT)                                                      \
  T(CongestionInfo, 4, 0x0011, "A10.4", PARLEY_MAD_CONGESTION_INFO)                                       \
  T(CongestionKeyInfo, 16, 0x0012, "A10.4", PARLEY_MAD_CONGESTION_KEY_INFO)                               \
  T(SwitchCongestionLogEvent, 12, 0, "A10.4", PARLEY_MAD_SWITCH_CONGESTION_LOG_EVENT)                     \
  T(SwitchCongestionLog, 40, 0x0013, "A10.4", PARLEY_MAD_SWITCH_CONGESTION_LOG)                           \
  T(CaCongestionLogEvent, 16, 0, "A10.4", PARLEY_MAD_CA_CONGESTION_LOG_EVENT)                             \
  T(CaCongestionLog, 12, 0, "A10.4", PARLEY_MAD_CA_CONGESTION_LOG)                                        \
  T(SwitchCongestionSetting, 76, 0x0014, "A10.4", PARLEY_MAD_SWITCH_CONGESTION_SETTING)                   \
  T(SwitchPortCongestionSettingElement, 4, 0, "A10.4", PARLEY_MAD_SWITCH_PORT_CONGESTION_SETTING_ELEMENT) \
  T(SwitchPortCongestionSetting, 128, 0x0015, "A10.4", PARLEY_MAD_SWITCH_PORT_CONGESTION_SETTING)         \
  T(CaCongestionEntry, 8, 0, "A10.4", PARLEY_MAD_CA_CONGESTION_ENTRY)                                     \
  T(CaCongestionSetting, 132, 0x0016, "A10.4", PARLEY_MAD_CA_CONGESTION_SETTING)                          \
  T(CongestionControlTableEntry, 2, 0, "A10.4", PARLEY_MAD_CONGESTION_CONTROL_TABLE_ENTRY)                \
  T(CongestionControlTable, 132, 0x0017, "A10.4", PARLEY_MAD_CONGESTION_CONTROL_TABLE)                    \
  T(Timestamp, 4, 0x0018, "A10.4", PARLEY_MAD_TIMESTAMP)

#endif
