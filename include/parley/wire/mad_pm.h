/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: performance management (IBA vol. 1 §16.1) and what Annex A10 added to it.
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_PM_H
#define PARLEY_WIRE_MAD_PM_H

/* IBA §16.1.1. */
#define PARLEY_MAD_PM_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)      \
  R(24, 0, 320)                       \
  F(data, 64, 0, 8, 192, octets)

/* IBA §16.1.3.5. */
#define PARLEY_MAD_PORT_COUNTERS(F, S, R)                  \
  R(0, 0, 8)                                               \
  F(port_select, 1, 0, 8, 1, number)                       \
  F(counter_select, 2, 0, 16, 1, hex)                      \
  F(symbol_error_counter, 4, 0, 16, 1, number)             \
  F(link_error_recovery_counter, 6, 0, 8, 1, number)       \
  F(link_downed_counter, 7, 0, 8, 1, number)               \
  F(port_rcv_errors, 8, 0, 16, 1, number)                  \
  F(port_rcv_remote_physical_errors, 10, 0, 16, 1, number) \
  F(port_rcv_switch_relay_errors, 12, 0, 16, 1, number)    \
  F(port_xmit_discards, 14, 0, 16, 1, number)              \
  F(port_xmit_constraint_errors, 16, 0, 8, 1, number)      \
  F(port_rcv_constraint_errors, 17, 0, 8, 1, number)       \
  F(counter_select2, 18, 0, 8, 1, hex)                     \
  F(local_link_integrity_errors, 19, 0, 4, 1, number)      \
  F(excessive_buffer_overrun_errors, 19, 4, 4, 1, number)  \
  F(qp1_dropped, 20, 0, 16, 1, number)                     \
  F(vl15_dropped, 22, 0, 16, 1, number)                    \
  F(port_xmit_data, 24, 0, 32, 1, words)                   \
  F(port_rcv_data, 28, 0, 32, 1, words)                    \
  F(port_xmit_pkts, 32, 0, 32, 1, number)                  \
  F(port_rcv_pkts, 36, 0, 32, 1, number)                   \
  F(port_xmit_wait, 40, 0, 32, 1, number)

/* IBA §16.1.4.11. */
#define PARLEY_MAD_PORT_COUNTERS_EXTENDED(F, S, R)          \
  R(0, 0, 8)                                                \
  F(port_select, 1, 0, 8, 1, number)                        \
  F(counter_select, 2, 0, 16, 1, hex)                       \
  F(counter_select2, 4, 0, 32, 1, hex)                      \
  F(port_xmit_data, 8, 0, 64, 1, words)                     \
  F(port_rcv_data, 16, 0, 64, 1, words)                     \
  F(port_xmit_pkts, 24, 0, 64, 1, number)                   \
  F(port_rcv_pkts, 32, 0, 64, 1, number)                    \
  F(port_unicast_xmit_pkts, 40, 0, 64, 1, number)           \
  F(port_unicast_rcv_pkts, 48, 0, 64, 1, number)            \
  F(port_multicast_xmit_pkts, 56, 0, 64, 1, number)         \
  F(port_multicast_rcv_pkts, 64, 0, 64, 1, number)          \
  F(symbol_error_counter, 72, 0, 64, 1, number)             \
  F(link_error_recovery_counter, 80, 0, 64, 1, number)      \
  F(link_downed_counter, 88, 0, 64, 1, number)              \
  F(port_rcv_errors, 96, 0, 64, 1, number)                  \
  F(port_rcv_remote_physical_errors, 104, 0, 64, 1, number) \
  F(port_rcv_switch_relay_errors, 112, 0, 64, 1, number)    \
  F(port_xmit_discards, 120, 0, 64, 1, number)              \
  F(port_xmit_constraint_errors, 128, 0, 64, 1, number)     \
  F(port_rcv_constraint_errors, 136, 0, 64, 1, number)      \
  F(local_link_integrity_errors, 144, 0, 64, 1, number)     \
  F(excessive_buffer_overrun_errors, 152, 0, 64, 1, number) \
  F(vl15_dropped, 160, 0, 64, 1, number)                    \
  F(port_xmit_wait, 168, 0, 64, 1, number)                  \
  F(qp1_dropped, 176, 0, 64, 1, number)

/* IBA §16.1.4.4. */
#define PARLEY_MAD_PORT_FLOW_CTL_COUNTERS(F, S, R) \
  R(0, 0, 8)                                       \
  F(port_select, 1, 0, 8, 1, number)               \
  F(counter_select, 2, 0, 16, 1, hex)              \
  F(port_xmit_flow_pkts, 4, 0, 32, 1, number)      \
  F(port_rcv_flow_pkts, 8, 0, 32, 1, number)

/* IBA §16.1.4.3. */
#define PARLEY_MAD_PORT_OP_RCV_COUNTERS(F, S, R) \
  F(op_code, 0, 0, 8, 1, hex)                    \
  F(port_select, 1, 0, 8, 1, number)             \
  F(counter_select, 2, 0, 16, 1, hex)            \
  F(port_op_rcv_pkts, 4, 0, 32, 1, number)       \
  F(port_op_rcv_data, 8, 0, 32, 1, words)

/* IBA §A13.6.5. */
#define PARLEY_MAD_PORT_RCV_DATA_SL(F, S, R) \
  R(0, 0, 8)                                 \
  F(port_select, 1, 0, 8, 1, number)         \
  F(counter_select, 2, 0, 16, 1, hex)        \
  F(port_rcv_data_sl, 4, 0, 32, 16, words)

/* IBA §16.1.4.1. */
#define PARLEY_MAD_PORT_RCV_ERROR_DETAILS(F, S, R)     \
  R(0, 0, 8)                                           \
  F(port_select, 1, 0, 8, 1, number)                   \
  F(counter_select, 2, 0, 16, 1, hex)                  \
  F(port_local_physical_errors, 4, 0, 16, 1, number)   \
  F(port_malformed_packet_errors, 6, 0, 16, 1, number) \
  F(port_buffer_overrun_errors, 8, 0, 16, 1, number)   \
  F(port_dlid_mapping_errors, 10, 0, 16, 1, number)    \
  F(port_vl_mapping_errors, 12, 0, 16, 1, number)      \
  F(port_looping_errors, 14, 0, 16, 1, number)

/* IBA §16.1.3.2. */
#define PARLEY_MAD_PORT_SAMPLES_CONTROL(F, S, R) \
  F(op_code, 0, 0, 8, 1, hex)                    \
  F(port_select, 1, 0, 8, 1, number)             \
  F(tick, 2, 0, 8, 1, number)                    \
  R(3, 0, 5)                                     \
  F(counter_width, 3, 5, 3, 1, number)           \
  R(4, 0, 2)                                     \
  F(counter_mask0, 4, 2, 3, 1, hex)              \
  F(counter_mask1, 4, 5, 3, 1, hex)              \
  F(counter_mask2, 5, 0, 3, 1, hex)              \
  F(counter_mask3, 5, 3, 3, 1, hex)              \
  F(counter_mask4, 5, 6, 3, 1, hex)              \
  F(counter_mask5, 6, 1, 3, 1, hex)              \
  F(counter_mask6, 6, 4, 3, 1, hex)              \
  F(counter_mask7, 6, 7, 3, 1, hex)              \
  F(counter_mask8, 7, 2, 3, 1, hex)              \
  F(counter_mask9, 7, 5, 3, 1, hex)              \
  R(8, 0, 1)                                     \
  F(counter_mask10, 8, 1, 3, 1, hex)             \
  F(counter_mask11, 8, 4, 3, 1, hex)             \
  F(counter_mask12, 8, 7, 3, 1, hex)             \
  F(counter_mask13, 9, 2, 3, 1, hex)             \
  F(counter_mask14, 9, 5, 3, 1, hex)             \
  F(sample_mechanisms, 10, 0, 8, 1, number)      \
  R(11, 0, 6)                                    \
  F(sample_status, 11, 6, 2, 1, hex)             \
  F(option_mask, 12, 0, 64, 1, hex)              \
  F(vendor_mask, 20, 0, 64, 1, hex)              \
  F(sample_start, 28, 0, 32, 1, number)          \
  F(sample_interval, 32, 0, 32, 1, number)       \
  F(tag, 36, 0, 16, 1, number)                   \
  F(counter_select0, 38, 0, 16, 1, hex)          \
  F(counter_select1, 40, 0, 16, 1, hex)          \
  F(counter_select2, 42, 0, 16, 1, hex)          \
  F(counter_select3, 44, 0, 16, 1, hex)          \
  F(counter_select4, 46, 0, 16, 1, hex)          \
  F(counter_select5, 48, 0, 16, 1, hex)          \
  F(counter_select6, 50, 0, 16, 1, hex)          \
  F(counter_select7, 52, 0, 16, 1, hex)          \
  F(counter_select8, 54, 0, 16, 1, hex)          \
  F(counter_select9, 56, 0, 16, 1, hex)          \
  F(counter_select10, 58, 0, 16, 1, hex)         \
  F(counter_select11, 60, 0, 16, 1, hex)         \
  F(counter_select12, 62, 0, 16, 1, hex)         \
  F(counter_select13, 64, 0, 16, 1, hex)         \
  F(counter_select14, 66, 0, 16, 1, hex)         \
  R(68, 0, 32)                                   \
  F(samples_only_option_mask, 72, 0, 64, 1, hex) \
  R(80, 0, 896)

/* IBA §16.1.3.4. */
#define PARLEY_MAD_PORT_SAMPLES_RESULT(F, S, R) \
  F(tag, 0, 0, 16, 1, number)                   \
  R(2, 0, 14)                                   \
  F(sample_status, 3, 6, 2, 1, hex)             \
  F(counter, 4, 0, 32, 15, number)

/* IBA §16.1.4.10. */
#define PARLEY_MAD_PORT_SAMPLES_RESULT_EXTENDED(F, S, R) \
  F(tag, 0, 0, 16, 1, number)                            \
  R(2, 0, 14)                                            \
  F(sample_status, 3, 6, 2, 1, hex)                      \
  F(extended_width, 4, 0, 2, 1, number)                  \
  R(4, 2, 30)                                            \
  F(counter, 8, 0, 64, 15, number)

/* IBA §16.1.4.6. */
#define PARLEY_MAD_PORT_VL_OP_DATA(F, S, R) \
  F(op_code, 0, 0, 8, 1, hex)               \
  F(port_select, 1, 0, 8, 1, number)        \
  F(counter_select, 2, 0, 16, 1, hex)       \
  F(port_vl_op_data, 4, 0, 32, 16, words)

/* IBA §16.1.4.5. */
#define PARLEY_MAD_PORT_VL_OP_PACKETS(F, S, R) \
  F(op_code, 0, 0, 8, 1, hex)                  \
  F(port_select, 1, 0, 8, 1, number)           \
  F(counter_select, 2, 0, 16, 1, hex)          \
  F(port_vl_op_packets, 4, 0, 16, 16, number)

/* IBA §16.1.4.7. */
#define PARLEY_MAD_PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS(F, S, R) \
  R(0, 0, 8)                                                    \
  F(port_select, 1, 0, 8, 1, number)                            \
  F(counter_select, 2, 0, 16, 1, hex)                           \
  F(port_vl_xmit_flow_ctl_update_errors, 4, 0, 2, 16, number)

/* IBA §16.1.4.8. */
#define PARLEY_MAD_PORT_VL_XMIT_WAIT_COUNTERS(F, S, R) \
  R(0, 0, 8)                                           \
  F(port_select, 1, 0, 8, 1, number)                   \
  F(counter_select, 2, 0, 16, 1, hex)                  \
  F(port_vl_xmit_wait, 4, 0, 16, 16, number)

/* IBA §A13.6.5. */
#define PARLEY_MAD_PORT_XMIT_DATA_SL(F, S, R) \
  R(0, 0, 8)                                  \
  F(port_select, 1, 0, 8, 1, number)          \
  F(counter_select, 2, 0, 16, 1, hex)         \
  F(port_xmit_data_sl, 4, 0, 32, 16, words)

/* IBA §16.1.4.2. */
#define PARLEY_MAD_PORT_XMIT_DISCARD_DETAILS(F, S, R)     \
  R(0, 0, 8)                                              \
  F(port_select, 1, 0, 8, 1, number)                      \
  F(counter_select, 2, 0, 16, 1, hex)                     \
  F(port_inactive_discards, 4, 0, 16, 1, number)          \
  F(port_neighbor_mtu_discards, 6, 0, 16, 1, number)      \
  F(port_sw_lifetime_limit_discards, 8, 0, 16, 1, number) \
  F(port_sw_hoq_limit_discards, 10, 0, 16, 1, number)

/* IBA §16.1.4.9. */
#define PARLEY_MAD_SW_PORT_VL_CONGESTION(F, S, R) \
  R(0, 0, 8)                                      \
  F(port_select, 1, 0, 8, 1, number)              \
  F(counter_select, 2, 0, 16, 1, hex)             \
  F(sw_port_vl_congestion, 4, 0, 16, 16, number)

/* IBA §A10.4. */
#define PARLEY_MAD_PORT_RCV_CON_CTRL(F, S, R) \
  R(0, 0, 8)                                  \
  F(port_select, 1, 0, 8, 1, number)          \
  F(counter_select, 2, 0, 16, 1, hex)         \
  F(port_pkt_rcv_fecn, 4, 0, 32, 1, number)   \
  F(port_pkt_rcv_becn, 8, 0, 32, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_PORT_SL_RCV_FECN(F, S, R) \
  R(0, 0, 8)                                 \
  F(port_select, 1, 0, 8, 1, number)         \
  F(counter_select, 2, 0, 16, 1, hex)        \
  F(port_sl_rcv_fecn, 4, 0, 32, 16, number)

/* IBA §A10.4. */
#define PARLEY_MAD_PORT_SL_RCV_BECN(F, S, R) \
  R(0, 0, 8)                                 \
  F(port_select, 1, 0, 8, 1, number)         \
  F(counter_select, 2, 0, 16, 1, hex)        \
  F(port_sl_rcv_becn, 4, 0, 32, 16, number)

/* IBA §A10.4. */
#define PARLEY_MAD_PORT_XMIT_CON_CTRL(F, S, R) \
  R(0, 0, 8)                                   \
  F(port_select, 1, 0, 8, 1, number)           \
  F(counter_select, 2, 0, 16, 1, hex)          \
  F(port_xmit_time_cong, 4, 0, 32, 1, number)

/* IBA §A10.4. */
#define PARLEY_MAD_PORT_VL_XMIT_TIME_CONG(F, S, R) \
  R(0, 0, 8)                                       \
  F(port_select, 1, 0, 8, 1, number)               \
  F(counter_select, 2, 0, 16, 1, hex)              \
  F(port_vl_xmit_time_cong, 4, 0, 32, 15, number)

/* IBA §16.1.4. */
#define PARLEY_MAD_PORT_EXTENDED_SPEEDS_COUNTERS(F, S, R)    \
  R(0, 0, 8)                                                 \
  F(port_select, 1, 0, 8, 1, number)                         \
  R(2, 0, 48)                                                \
  F(counter_select, 8, 0, 64, 1, hex)                        \
  F(sync_header_error_counter, 16, 0, 16, 1, number)         \
  F(unknown_block_counter, 18, 0, 16, 1, number)             \
  F(error_detection_counter_lane, 20, 0, 16, 12, number)     \
  F(fec_correctable_block_ctr_lane, 44, 0, 32, 12, number)   \
  F(fec_uncorrectable_block_ctr_lane, 92, 0, 32, 12, number) \
  F(port_fec_correctable_block_ctr, 140, 0, 32, 1, number)   \
  F(port_fec_uncorrectable_block_ctr, 144, 0, 32, 1, number) \
  F(port_fec_corrected_symbol_ctr, 148, 0, 32, 1, number)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_PM_STRUCTURES(T)                                                                       \
  T(PmFormat, 256, 0, "16.1.1", PARLEY_MAD_PM_FORMAT)                                                     \
  T(PortCounters, 44, 0x0012, "16.1.3.5", PARLEY_MAD_PORT_COUNTERS)                                       \
  T(PortCountersExtended, 184, 0x001D, "16.1.4.11", PARLEY_MAD_PORT_COUNTERS_EXTENDED)                    \
  T(PortFlowCtlCounters, 12, 0x0018, "16.1.4.4", PARLEY_MAD_PORT_FLOW_CTL_COUNTERS)                       \
  T(PortOpRcvCounters, 12, 0x0017, "16.1.4.3", PARLEY_MAD_PORT_OP_RCV_COUNTERS)                           \
  T(PortRcvDataSl, 68, 0x0037, "A13.6.5", PARLEY_MAD_PORT_RCV_DATA_SL)                                    \
  T(PortRcvErrorDetails, 16, 0x0015, "16.1.4.1", PARLEY_MAD_PORT_RCV_ERROR_DETAILS)                       \
  T(PortSamplesControl, 192, 0x0010, "16.1.3.2", PARLEY_MAD_PORT_SAMPLES_CONTROL)                         \
  T(PortSamplesResult, 64, 0x0011, "16.1.3.4", PARLEY_MAD_PORT_SAMPLES_RESULT)                            \
  T(PortSamplesResultExtended, 128, 0x001E, "16.1.4.10", PARLEY_MAD_PORT_SAMPLES_RESULT_EXTENDED)         \
  T(PortVlOpData, 68, 0x001A, "16.1.4.6", PARLEY_MAD_PORT_VL_OP_DATA)                                     \
  T(PortVlOpPackets, 36, 0x0019, "16.1.4.5", PARLEY_MAD_PORT_VL_OP_PACKETS)                               \
  T(PortVlXmitFlowCtlUpdateErrors, 8, 0x001B, "16.1.4.7", PARLEY_MAD_PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS) \
  T(PortVlXmitWaitCounters, 36, 0x001C, "16.1.4.8", PARLEY_MAD_PORT_VL_XMIT_WAIT_COUNTERS)                \
  T(PortXmitDataSl, 68, 0x0036, "A13.6.5", PARLEY_MAD_PORT_XMIT_DATA_SL)                                  \
  T(PortXmitDiscardDetails, 12, 0x0016, "16.1.4.2", PARLEY_MAD_PORT_XMIT_DISCARD_DETAILS)                 \
  T(SwPortVlCongestion, 36, 0x0030, "16.1.4.9", PARLEY_MAD_SW_PORT_VL_CONGESTION)                         \
  T(PortRcvConCtrl, 12, 0x0031, "A10.4", PARLEY_MAD_PORT_RCV_CON_CTRL)                                    \
  T(PortSlRcvFecn, 68, 0x0032, "A10.4", PARLEY_MAD_PORT_SL_RCV_FECN)                                      \
  T(PortSlRcvBecn, 68, 0x0033, "A10.4", PARLEY_MAD_PORT_SL_RCV_BECN)                                      \
  T(PortXmitConCtrl, 8, 0x0034, "A10.4", PARLEY_MAD_PORT_XMIT_CON_CTRL)                                   \
  T(PortVlXmitTimeCong, 64, 0x0035, "A10.4", PARLEY_MAD_PORT_VL_XMIT_TIME_CONG)                           \
  T(PortExtendedSpeedsCounters, 152, 0x001F, "16.1.4", PARLEY_MAD_PORT_EXTENDED_SPEEDS_COUNTERS)

#endif
