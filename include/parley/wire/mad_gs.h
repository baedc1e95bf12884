/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Structures of management datagrams: baseboard and device management, SNMP tunneling, vendors, applications (IBA vol. 1 §16.2 to §16.6).
 * mad.h explains the lists. */
#ifndef PARLEY_WIRE_MAD_GS_H
#define PARLEY_WIRE_MAD_GS_H

/* IBA §16.3.3.10. */
#define PARLEY_MAD_DIAG_CODE(F, S, R) \
  F(diag_code, 0, 0, 16, 1, hex)      \
  R(2, 0, 16)

/* IBA §16.3.3.6. */
#define PARLEY_MAD_DIAGNOSTIC_TIMEOUT(F, S, R) F(max_diag_time, 0, 0, 32, 1, milliseconds)

/* IBA §16.3.1. */
#define PARLEY_MAD_DM_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)      \
  R(24, 0, 320)                       \
  F(data, 64, 0, 8, 192, octets)

/* IBA §16.3.3.4. */
#define PARLEY_MAD_IO_CONTROLLER_PROFILE(F, S, R) \
  F(guid, 0, 0, 64, 1, guid)                      \
  F(vendor_id, 8, 0, 24, 1, hex)                  \
  R(11, 0, 8)                                     \
  F(device_id, 12, 0, 32, 1, hex)                 \
  F(device_version, 16, 0, 16, 1, number)         \
  R(18, 0, 16)                                    \
  F(subsystem_vendor_id, 20, 0, 24, 1, hex)       \
  R(23, 0, 8)                                     \
  F(subsystem_id, 24, 0, 32, 1, hex)              \
  F(io_class, 28, 0, 16, 1, hex)                  \
  F(io_subclass, 30, 0, 16, 1, hex)               \
  F(protocol, 32, 0, 16, 1, hex)                  \
  F(protocol_version, 34, 0, 16, 1, hex)          \
  R(36, 0, 16)                                    \
  R(38, 0, 16)                                    \
  F(send_message_depth, 40, 0, 16, 1, number)     \
  R(42, 0, 8)                                     \
  F(rdma_read_depth, 43, 0, 8, 1, number)         \
  F(send_message_size, 44, 0, 32, 1, number)      \
  F(rdma_transfer_size, 48, 0, 32, 1, number)     \
  F(controller_operations_mask, 52, 0, 8, 1, hex) \
  R(53, 0, 8)                                     \
  F(service_entries, 54, 0, 8, 1, number)         \
  R(55, 0, 8)                                     \
  R(56, 0, 64)                                    \
  F(id_string, 64, 0, 8, 64, text)

/* IBA §16.3.3.3. */
#define PARLEY_MAD_IO_UNIT_INFO(F, S, R) \
  F(change_id, 0, 0, 16, 1, number)      \
  F(max_controllers, 2, 0, 8, 1, number) \
  R(3, 0, 6)                             \
  F(diag_device_id, 3, 6, 1, 1, flag)    \
  F(option_rom, 3, 7, 1, 1, flag)        \
  F(controller_list, 4, 0, 8, 128, octets)

/* IBA §16.3.3.7: an attribute without data. */
#define PARLEY_MAD_PREPARE_TO_TEST(F, S, R)

/* IBA §16.3.3. */
#define PARLEY_MAD_SERVICE_ENTRY(F, S, R) \
  F(service_name, 0, 0, 8, 40, text)      \
  F(service_id, 40, 0, 64, 1, hex)

/* IBA §16.3.3.5. */
#define PARLEY_MAD_SERVICE_ENTRIES(F, S, R) S(service_entry, 0, 4, ServiceEntry)

/* IBA §16.3.3.9: an attribute without data. */
#define PARLEY_MAD_TEST_DEVICE_LOOP(F, S, R)

/* IBA §16.3.3.8: an attribute without data. */
#define PARLEY_MAD_TEST_DEVICE_ONCE(F, S, R)

/* IBA §16.4.3.2. */
#define PARLEY_MAD_SNMP_COMMUNITY_INFO(F, S, R) F(community_name, 0, 0, 8, 64, text)

/* IBA §16.4.1. */
#define PARLEY_MAD_SNMP_FORMAT(F, S, R)  \
  S(mad_header, 0, 1, MadHeader)         \
  R(24, 0, 256)                          \
  F(r_address, 56, 0, 32, 1, number)     \
  F(payload_length, 60, 0, 8, 1, number) \
  F(segment_number, 61, 0, 8, 1, number) \
  F(source_lid, 62, 0, 16, 1, lid)       \
  F(data, 64, 0, 8, 192, octets)

/* IBA §16.4.3.3. */
#define PARLEY_MAD_SNMP_PDU_INFO(F, S, R) F(pdu_data, 0, 0, 8, 192, octets)

/* IBA §16.5.1. */
#define PARLEY_MAD_VENDOR_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)          \
  F(data, 24, 0, 8, 232, octets)

/* IBA §16.6.1. */
#define PARLEY_MAD_APPLICATION_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)               \
  F(data, 24, 0, 8, 232, octets)

/* IBA §16.5.1. */
#define PARLEY_MAD_VENDOR_OUI_FORMAT(F, S, R) \
  S(rmpp_header, 0, 1, RmppHeader)            \
  R(36, 0, 8)                                 \
  F(oui, 37, 0, 24, 1, hex)                   \
  F(data, 40, 0, 8, 216, octets)

/* IBA §16.2.1. */
#define PARLEY_MAD_BM_FORMAT(F, S, R) \
  S(mad_header, 0, 1, MadHeader)      \
  F(b_key, 24, 0, 64, 1, hex)         \
  R(32, 0, 256)                       \
  F(data, 64, 0, 8, 192, octets)

/* IBA §16.2.3. */
#define PARLEY_MAD_B_KEY_INFO(F, S, R)         \
  F(b_key, 0, 0, 64, 1, hex)                   \
  F(b_key_protect_bit, 8, 0, 1, 1, flag)       \
  R(8, 1, 15)                                  \
  F(b_key_lease_period, 10, 0, 16, 1, seconds) \
  F(b_key_violations, 12, 0, 16, 1, number)    \
  R(14, 0, 16)

/* Vendor-specific. */
#define PARLEY_MAD_MLX_GENERAL_INFO(F, S, R)    \
  R(0, 0, 64)                                   \
  F(hw_revision, 8, 0, 16, 1, hex)              \
  F(device_id, 10, 0, 16, 1, hex)               \
  R(12, 0, 192)                                 \
  F(uptime, 36, 0, 32, 1, seconds)              \
  R(40, 0, 8)                                   \
  F(fw_major, 41, 0, 8, 1, number)              \
  F(fw_minor, 42, 0, 8, 1, number)              \
  F(fw_sub_minor, 43, 0, 8, 1, number)          \
  F(fw_build_id, 44, 0, 32, 1, hex)             \
  F(fw_month, 48, 0, 8, 1, number)              \
  F(fw_day, 49, 0, 8, 1, number)                \
  F(fw_year, 50, 0, 16, 1, number)              \
  R(52, 0, 16)                                  \
  F(fw_hour, 54, 0, 16, 1, number)              \
  F(fw_psid, 56, 0, 8, 16, text)                \
  F(fw_init_file_version, 72, 0, 32, 1, number) \
  R(76, 0, 8)                                   \
  F(sw_major, 77, 0, 8, 1, number)              \
  F(sw_minor, 78, 0, 8, 1, number)              \
  F(sw_sub_minor, 79, 0, 8, 1, number)          \
  R(80, 0, 224)

/* Vendor-specific. */
#define PARLEY_MAD_OFA_SYS_STAT_PING(F, S, R) \
  F(cookie, 0, 0, 64, 1, hex)                 \
  R(8, 0, 448)

/* Vendor-specific. */
#define PARLEY_MAD_OFA_SYS_STAT_HOST_INFO(F, S, R) F(data_string, 0, 0, 8, 216, text)

/* Vendor-specific. */
#define PARLEY_MAD_OFA_SYS_STAT_CPU_INFO(F, S, R) F(data_string, 0, 0, 8, 216, text)

/* T(name, octets, attribute or 0, section, list). */
#define PARLEY_MAD_GS_STRUCTURES(T)                                                 \
  T(DiagCode, 4, 0x0024, "16.3.3.10", PARLEY_MAD_DIAG_CODE)                         \
  T(DiagnosticTimeout, 4, 0x0020, "16.3.3.6", PARLEY_MAD_DIAGNOSTIC_TIMEOUT)        \
  T(DmFormat, 256, 0, "16.3.1", PARLEY_MAD_DM_FORMAT)                               \
  T(IoControllerProfile, 128, 0x0011, "16.3.3.4", PARLEY_MAD_IO_CONTROLLER_PROFILE) \
  T(IoUnitInfo, 132, 0x0010, "16.3.3.3", PARLEY_MAD_IO_UNIT_INFO)                   \
  T(PrepareToTest, 0, 0x0021, "16.3.3.7", PARLEY_MAD_PREPARE_TO_TEST)               \
  T(ServiceEntry, 48, 0, "16.3.3", PARLEY_MAD_SERVICE_ENTRY)                        \
  T(ServiceEntries, 192, 0x0012, "16.3.3.5", PARLEY_MAD_SERVICE_ENTRIES)            \
  T(TestDeviceLoop, 0, 0x0023, "16.3.3.9", PARLEY_MAD_TEST_DEVICE_LOOP)             \
  T(TestDeviceOnce, 0, 0x0022, "16.3.3.8", PARLEY_MAD_TEST_DEVICE_ONCE)             \
  T(SnmpCommunityInfo, 64, 0x0010, "16.4.3.2", PARLEY_MAD_SNMP_COMMUNITY_INFO)      \
  T(SnmpFormat, 256, 0, "16.4.1", PARLEY_MAD_SNMP_FORMAT)                           \
  T(SnmpPduInfo, 192, 0x0011, "16.4.3.3", PARLEY_MAD_SNMP_PDU_INFO)                 \
  T(VendorFormat, 256, 0, "16.5.1", PARLEY_MAD_VENDOR_FORMAT)                       \
  T(VendorOuiFormat, 256, 0, "16.5.1", PARLEY_MAD_VENDOR_OUI_FORMAT)                \
  T(ApplicationFormat, 256, 0, "16.6.1", PARLEY_MAD_APPLICATION_FORMAT)             \
  T(BmFormat, 256, 0, "16.2.1", PARLEY_MAD_BM_FORMAT)                               \
  T(BKeyInfo, 16, 0x0010, "16.2.3", PARLEY_MAD_B_KEY_INFO)                          \
  T(MlxGeneralInfo, 108, 0x0017, "vendor", PARLEY_MAD_MLX_GENERAL_INFO)             \
  T(OfaSysStatPing, 64, 0x0010, "vendor", PARLEY_MAD_OFA_SYS_STAT_PING)             \
  T(OfaSysStatHostInfo, 216, 0x0011, "vendor", PARLEY_MAD_OFA_SYS_STAT_HOST_INFO)   \
  T(OfaSysStatCpuInfo, 216, 0x0112, "vendor", PARLEY_MAD_OFA_SYS_STAT_CPU_INFO)

#endif
