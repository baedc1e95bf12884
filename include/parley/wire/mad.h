/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Management datagrams (IBA vol. 1 §13): classes, methods, names of values, and the methods of each attribute. The structures
 * are in mad_common.h, mad_smp.h, mad_sa.h, mad_cm.h, mad_pm.h, mad_cc.h, mad_gs.h, mad_ssa.h and mad_transport.h. All fields are
 * big-endian.
 *
 * PARLEY_MAD_<STRUCTURE>(F, S, R) lists the members of a structure in order, without gaps:
 *   F(name, octet, bit, width, count, kind)   a number, or an array of `count`; bit 0 is the most significant of its octet
 *   S(name, octet, count, structure)          a structure in the structure, or an array of them
 *   R(octet, bit, width)                      reserved bits
 * PARLEY_MAD_<FILE>_STRUCTURES(T) lists the structures of a file. */
#ifndef PARLEY_WIRE_MAD_H
#define PARLEY_WIRE_MAD_H

#include "parley/wire/ib_codes.h"
#include "parley/wire/ibcm.h"
#include "parley/wire/mad_cc.h"
#include "parley/wire/mad_cm.h"
#include "parley/wire/mad_common.h"
#include "parley/wire/mad_gs.h"
#include "parley/wire/mad_pm.h"
#include "parley/wire/mad_sa.h"
#include "parley/wire/mad_smp.h"
#include "parley/wire/mad_ssa.h"
#include "parley/wire/mad_transport.h"

#define PARLEY_MAD_STRUCTURES(T)  \
  PARLEY_MAD_COMMON_STRUCTURES(T) \
  PARLEY_MAD_SMP_STRUCTURES(T)    \
  PARLEY_MAD_SA_STRUCTURES(T)     \
  PARLEY_MAD_CM_STRUCTURES(T)     \
  PARLEY_MAD_PM_STRUCTURES(T)     \
  PARLEY_MAD_CC_STRUCTURES(T)     \
  PARLEY_MAD_GS_STRUCTURES(T)     \
  PARLEY_MAD_SSA_STRUCTURES(T)    \
  PARLEY_MAD_TRANSPORT_STRUCTURES(T)

/* X(name, value, text): IBA §13.4.5 and §15.2.2. A response also has bit 7: PARLEY_IB_MAD_RESPONSE. */
#define PARLEY_MAD_METHODS(X)               \
  X(get, 0x01, "Get")                       \
  X(set, 0x02, "Set")                       \
  X(send, 0x03, "Send")                     \
  X(trap, 0x05, "Trap")                     \
  X(report, 0x06, "Report")                 \
  X(trap_repress, 0x07, "TrapRepress")      \
  X(get_table, 0x12, "GetTable")            \
  X(get_trace_table, 0x13, "GetTraceTable") \
  X(get_multi, 0x14, "GetMulti")            \
  X(delete_, 0x15, "Delete")                \
  X(get_resp, 0x81, "GetResp")              \
  X(report_resp, 0x86, "ReportResp")        \
  X(get_table_resp, 0x92, "GetTableResp")   \
  X(get_trace_resp, 0x93, "GetTraceResp")   \
  X(get_multi_resp, 0x94, "GetMultiResp")   \
  X(delete_resp, 0x95, "DeleteResp")

/* Bits of PARLEY_MAD_LEGAL. */
#define PARLEY_MAD_GET (1U << 0x01)
#define PARLEY_MAD_SET (1U << 0x02)
#define PARLEY_MAD_SEND (1U << 0x03)
#define PARLEY_MAD_TRAP (1U << 0x05)
#define PARLEY_MAD_REPORT (1U << 0x06)
#define PARLEY_MAD_TRAP_REPRESS (1U << 0x07)
#define PARLEY_MAD_GET_TABLE (1U << 0x12)
#define PARLEY_MAD_GET_TRACE_TABLE (1U << 0x13)
#define PARLEY_MAD_GET_MULTI (1U << 0x14)
#define PARLEY_MAD_DELETE (1U << 0x15)

/* X(name, first class, last class, class version, format, octets before the attribute, 1: with RMPP, prefix of its method
 * names): IBA §13.4.4, §13.6.2. A class in the range of another row (CC among the applications, Annex A10) is in a row before
 * it. Class version 0: each application chooses its own. */
#define PARLEY_MAD_CLASSES(X)                                            \
  X(subn, 0x01, 0x01, 1, SmpFormat, 64, 0, "Subn")                       \
  X(subn_directed, 0x81, 0x81, 1, DirectedSmpFormat, 64, 0, "Subn")      \
  X(subn_adm, 0x03, 0x03, 2, SaFormat, 56, 1, "SubnAdm")                 \
  X(perf, 0x04, 0x04, 1, PmFormat, 64, 0, "Performance")                 \
  X(bm, 0x05, 0x05, 1, BmFormat, 64, 0, "BM")                            \
  X(dev_mgt, 0x06, 0x06, 1, DmFormat, 64, 0, "DevMgt")                   \
  X(comm_mgt, 0x07, 0x07, 2, CmFormat, 24, 0, "CommMgt")                 \
  X(snmp, 0x08, 0x08, 1, SnmpFormat, 64, 0, "SNMP")                      \
  X(vendor, 0x09, 0x0F, 1, VendorFormat, 24, 0, "Vend")                  \
  X(cc, 0x21, 0x21, 2, CcFormat, 64, 0, "CC")                            \
  X(ssa, 0x2C, 0x2C, 1, ApplicationFormat, 24, 0, "Ssa")                 \
  X(application, 0x10, 0x2F, 0, ApplicationFormat, 24, 0, "Application") \
  X(vendor_oui, 0x30, 0x4F, 1, VendorOuiFormat, 40, 1, "Vend")
#define PARLEY_MAD_COMMON_ATTRIBUTE_LAST 0x000F /* those of a class of its own begin after it: IBA §13.4.8 */
#define PARLEY_MAD_PATH_MAX 64 /* octets of a directed route, including its unused first one: IBA §14.2.1.2 */
#define PARLEY_MAD_PERMISSIVE_LID 0xFFFF

/* Status of a response, IBA §13.4.7. */
#define PARLEY_MAD_STATUS_BUSY 0x0001
#define PARLEY_MAD_STATUS_REDIRECT 0x0002
#define PARLEY_MAD_STATUS_CODE 0x001C /* X(name, the three bits in place, text) */
#define PARLEY_MAD_STATUSES(X)                                        \
  X(bad_version, 0x04, "class or base version not supported")         \
  X(unsupported_method, 0x08, "method not supported")                 \
  X(unsupported_combination, 0x0C, "attribute without such a method") \
  X(invalid_value, 0x1C, "invalid attribute, modifier or field")
/* X(name, upper octet of the status, text): subnet administration, IBA §15.2.4. */
#define PARLEY_MAD_SA_STATUSES(X)                          \
  X(no_resources, 1, "no resources")                       \
  X(request_invalid, 2, "request invalid")                 \
  X(no_records, 3, "no records")                           \
  X(too_many_records, 4, "too many records")               \
  X(invalid_gid, 5, "invalid GID")                         \
  X(insufficient_components, 6, "insufficient components") \
  X(denied, 7, "request denied")

/* X(kind, text of its unit, factor): kinds of members that are numbers with a unit. The factor is the value of 1. */
#define PARLEY_MAD_UNITS(X) \
  X(seconds, "s", 1)        \
  X(milliseconds, "ms", 1)  \
  X(words, "octets", 4)

/* X(kind, type, list): kinds whose values have names, each list X(name, value, text). */
#define PARLEY_MAD_ENUMERATIONS(X)                                           \
  X(node_type, NodeType, PARLEY_MAD_NODE_TYPES)                              \
  X(port_state, PortState, PARLEY_MAD_PORT_STATES)                           \
  X(port_physical_state, PortPhysicalState, PARLEY_MAD_PORT_PHYSICAL_STATES) \
  X(link_down_state, LinkDownState, PARLEY_MAD_LINK_DOWN_STATES)             \
  X(mtu, Mtu, PARLEY_IB_MTUS)                                                \
  X(rate, Rate, PARLEY_IB_RATES)                                             \
  X(selector, Selector, PARLEY_MAD_SELECTORS)                                \
  X(vl_cap, VlCap, PARLEY_MAD_VL_CAPS)                                       \
  X(sm_state, SmState, PARLEY_MAD_SM_STATES)                                 \
  X(notice_type, NoticeType, PARLEY_MAD_NOTICE_TYPES)                        \
  X(mc_scope, McScope, PARLEY_MAD_MC_SCOPES)                                 \
  X(rmpp_type, RmppType, PARLEY_MAD_RMPP_TYPES)                              \
  X(rmpp_status, RmppStatus, PARLEY_MAD_RMPP_STATUSES)                       \
  X(mgmt_class, MgmtClass, PARLEY_MAD_CLASS_NAMES)                           \
  X(method, Method, PARLEY_MAD_METHODS)                                      \
  X(cm_service, CmService, PARLEY_IBCM_SERVICES)                             \
  X(cm_extended, CmExtended, PARLEY_IBCM_EXTENDED)                           \
  X(cm_rate, CmRate, PARLEY_IBCM_RATES)                                      \
  X(cm_about, CmSubject, PARLEY_IBCM_ABOUT)                                  \
  X(cm_reject, CmReject, PARLEY_IBCM_REJECTS)                                \
  X(cm_ap_status, CmApStatus, PARLEY_IBCM_AP_STATUS)                         \
  X(cm_sidr_status, CmSidrStatus, PARLEY_IBCM_SIDR_STATUS)

/* X(kind, list): kinds whose bits have names, each list X(name, value of the bit, text). */
#define PARLEY_MAD_MASKS(X)                        \
  X(link_width, PARLEY_MAD_LINK_WIDTHS)            \
  X(link_speed, PARLEY_MAD_LINK_SPEEDS)            \
  X(link_speed_ext, PARLEY_MAD_LINK_SPEEDS_EXT)    \
  X(link_speed_ext2, PARLEY_MAD_LINK_SPEEDS_EXT2)  \
  X(port_capability, PARLEY_MAD_PORT_CAPABILITIES) \
  X(join_state, PARLEY_MAD_JOIN_STATES)            \
  X(rmpp_flags, PARLEY_MAD_RMPP_FLAGS)             \
  X(ssa_roles, PARLEY_SSA_ROLES)                   \
  X(ssa_node_flags, PARLEY_SSA_NODE_FLAGS)

#define PARLEY_MAD_NODE_TYPES(X) X(channel_adapter, 1, "channel adapter") X(switch_, 2, "switch") X(router, 3, "router")
#define PARLEY_MAD_PORT_STATES(X) \
  X(no_change, 0, "no change")    \
  X(down, 1, "down") X(initialize, 2, "initialize") X(armed, 3, "armed") X(active, 4, "active")
#define PARLEY_MAD_PORT_PHYSICAL_STATES(X)                         \
  X(no_change, 0, "no change")                                     \
  X(sleep, 1, "sleep")                                             \
  X(polling, 2, "polling")                                         \
  X(disabled, 3, "disabled")                                       \
  X(port_configuration_training, 4, "port configuration training") \
  X(link_up, 5, "link up")                                         \
  X(link_error_recovery, 6, "link error recovery")                 \
  X(phy_test, 7, "phy test")
#define PARLEY_MAD_LINK_DOWN_STATES(X) X(no_change, 0, "no change") X(sleep, 1, "sleep") X(polling, 2, "polling")
#define PARLEY_MAD_SELECTORS(X)      \
  X(greater_than, 0, "greater than") \
  X(less_than, 1, "less than") X(exactly, 2, "exactly") X(largest, 3, "largest available")
#define PARLEY_MAD_VL_CAPS(X) \
  X(vl0, 1, "VL0") X(vl0_1, 2, "VL0-1") X(vl0_3, 3, "VL0-3") X(vl0_7, 4, "VL0-7") X(vl0_14, 5, "VL0-14")
#define PARLEY_MAD_SM_STATES(X) \
  X(not_active, 0, "not active") X(discovering, 1, "discovering") X(standby, 2, "standby") X(master, 3, "master")
#define PARLEY_MAD_NOTICE_TYPES(X) \
  X(fatal, 0, "fatal")             \
  X(urgent, 1, "urgent")           \
  X(security, 2, "security")       \
  X(subnet_management, 3, "subnet management") X(informational, 4, "informational") X(empty, 0x7F, "empty")
#define PARLEY_MAD_MC_SCOPES(X)  \
  X(link_local, 2, "link local") \
  X(site_local, 5, "site local") X(organization_local, 8, "organization local") X(global, 14, "global")
#define PARLEY_MAD_RMPP_TYPES(X) \
  X(none, 0, "none") X(data, 1, "DATA") X(ack, 2, "ACK") X(stop, 3, "STOP") X(abort, 4, "ABORT")
/* IBA §13.6.2.1. */
#define PARLEY_MAD_RMPP_STATUSES(X)                     \
  X(normal, 0, "normal")                                \
  X(resources_exhausted, 1, "resources exhausted")      \
  X(total_time_too_long, 118, "total time too long")    \
  X(inconsistent_length, 119, "inconsistent length")    \
  X(inconsistent_first, 120, "inconsistent first flag") \
  X(bad_type, 121, "bad type")                          \
  X(window_too_small, 122, "NewWindowLast too small")   \
  X(segment_too_big, 123, "segment number too big")     \
  X(illegal_status, 124, "illegal status")              \
  X(unsupported_version, 125, "version not supported")  \
  X(too_many_retries, 126, "too many retries")          \
  X(unspecified, 127, "unspecified")
#define PARLEY_MAD_RMPP_FLAGS(X) X(active, 1, "active") X(first, 2, "first") X(last, 4, "last")
#define PARLEY_MAD_CLASS_NAMES(X)                             \
  X(subn, 0x01, "subnet management")                          \
  X(subn_directed, 0x81, "subnet management, directed route") \
  X(subn_adm, 0x03, "subnet administration")                  \
  X(perf, 0x04, "performance")                                \
  X(bm, 0x05, "baseboard management")                         \
  X(dev_mgt, 0x06, "device management")                       \
  X(comm_mgt, 0x07, "communication management")               \
  X(snmp, 0x08, "SNMP tunneling")                             \
  X(vendor, 0x09, "vendor")                                   \
  X(application, 0x10, "application")                         \
  X(ssa, 0x2C, "scalable subnet administration")              \
  X(cc, 0x21, "congestion control")                           \
  X(vendor_oui, 0x30, "vendor with OUI")
#define PARLEY_MAD_LINK_WIDTHS(X) X(x1, 1, "1x") X(x4, 2, "4x") X(x8, 4, "8x") X(x12, 8, "12x") X(x2, 16, "2x")
#define PARLEY_MAD_LINK_SPEEDS(X) X(sdr, 1, "2.5 Gb/s") X(ddr, 2, "5 Gb/s") X(qdr, 4, "10 Gb/s")
#define PARLEY_MAD_LINK_SPEEDS_EXT(X) \
  X(fdr, 1, "14.0625 Gb/s") X(edr, 2, "25.78125 Gb/s") X(hdr, 4, "53.125 Gb/s") X(ndr, 8, "106.25 Gb/s")
#define PARLEY_MAD_LINK_SPEEDS_EXT2(X) X(xdr, 1, "212.5 Gb/s")
/* IBA §14.2.5.6. */
#define PARLEY_MAD_PORT_CAPABILITIES(X)                               \
  X(is_sm, 1U << 1, "IsSM")                                           \
  X(notice, 1U << 2, "Notice")                                        \
  X(trap, 1U << 3, "Trap")                                            \
  X(optional_ipd, 1U << 4, "OptionalIPD")                             \
  X(automatic_migration, 1U << 5, "AutomaticMigration")               \
  X(sl_mapping, 1U << 6, "SLMapping")                                 \
  X(m_key_nvram, 1U << 7, "MKeyNVRAM")                                \
  X(p_key_nvram, 1U << 8, "PKeyNVRAM")                                \
  X(led_info, 1U << 9, "LedInfo")                                     \
  X(sm_disabled, 1U << 10, "SMdisabled")                              \
  X(system_image_guid, 1U << 11, "SystemImageGUID")                   \
  X(p_key_external_port_trap, 1U << 12, "PKeySwitchExternalPortTrap") \
  X(extended_speeds, 1U << 14, "ExtendedSpeeds")                      \
  X(capability_mask2, 1U << 15, "CapabilityMask2")                    \
  X(communication_management, 1U << 16, "CommunicationManagement")    \
  X(snmp_tunneling, 1U << 17, "SNMPTunneling")                        \
  X(reinit, 1U << 18, "Reinit")                                       \
  X(device_management, 1U << 19, "DeviceManagement")                  \
  X(vendor_class, 1U << 20, "VendorClass")                            \
  X(dr_notice, 1U << 21, "DRNotice")                                  \
  X(capability_mask_notice, 1U << 22, "CapabilityMaskNotice")         \
  X(boot_management, 1U << 23, "BootManagement")                      \
  X(link_round_trip_latency, 1U << 24, "LinkRoundTripLatency")        \
  X(client_reregistration, 1U << 25, "ClientReregistration")          \
  X(other_local_changes_notice, 1U << 26, "OtherLocalChangesNotice")  \
  X(link_speed_width_pairs, 1U << 27, "LinkSpeedWidthPairsTable")     \
  X(vendor_specific_mads, 1U << 28, "VendorSpecificMadsTable")        \
  X(m_key_trap_suppression, 1U << 29, "MKeyTrapSuppression")          \
  X(multicast_fdb_top, 1U << 30, "MulticastFDBTop")                   \
  X(hierarchy_info, 1U << 31, "HierarchyInfo")
#define PARLEY_MAD_JOIN_STATES(X) \
  X(full, 1, "full")              \
  X(non_member, 2, "non-member") X(send_only, 4, "send-only non-member") X(send_only_full, 8, "send-only full member")

/* L(structure, class, methods): the existing RPCs. The directed route class has the same ones as the class by LID. */
#define PARLEY_MAD_LEGAL(L)                                                                               \
  L(ClassPortInfo, comm_mgt, PARLEY_MAD_GET | PARLEY_MAD_SET)                                             \
  L(ClassPortInfo, perf, PARLEY_MAD_GET)                                                                  \
  L(ClassPortInfo, bm, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                   \
  L(ClassPortInfo, dev_mgt, PARLEY_MAD_GET | PARLEY_MAD_SET)                                              \
  L(ClassPortInfo, snmp, PARLEY_MAD_GET)                                                                  \
  L(ClassPortInfo, subn_adm, PARLEY_MAD_GET)                                                              \
  L(ClassPortInfo, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                   \
  L(ClassPortInfo, vendor, PARLEY_MAD_GET | PARLEY_MAD_SET)                                               \
  L(ClassPortInfo, application, PARLEY_MAD_GET | PARLEY_MAD_SET)                                          \
  L(ClassPortInfo, ssa, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                  \
  L(InformInfo, subn_adm, PARLEY_MAD_SET)                                                                 \
  L(Notice, subn, PARLEY_MAD_TRAP | PARLEY_MAD_TRAP_REPRESS)                                              \
  L(Notice, subn_adm, PARLEY_MAD_REPORT)                                                                  \
  L(Notice, perf, PARLEY_MAD_TRAP | PARLEY_MAD_TRAP_REPRESS)                                              \
  L(Notice, cc, PARLEY_MAD_TRAP | PARLEY_MAD_TRAP_REPRESS)                                                \
  L(GuidInfo, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                      \
  L(LedInfo, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                       \
  L(LinearForwardingTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                         \
  L(MulticastForwardingTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                      \
  L(NodeDescription, subn, PARLEY_MAD_GET)                                                                \
  L(NodeInfo, subn, PARLEY_MAD_GET)                                                                       \
  L(PKeyTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                     \
  L(PortInfo, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                      \
  L(RandomForwardingTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                         \
  L(SlToVlMappingTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                            \
  L(SmInfo, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                        \
  L(SwitchInfo, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                    \
  L(VlArbitrationTable, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                            \
  L(VendorDiag, subn, PARLEY_MAD_GET)                                                                     \
  L(PortInfoExtended, subn, PARLEY_MAD_GET | PARLEY_MAD_SET)                                              \
  L(GuidInfoRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE | PARLEY_MAD_SET | PARLEY_MAD_DELETE) \
  L(InformInfoRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                    \
  L(LinearForwardingTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                         \
  L(LinkRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                          \
  L(McMemberRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_SET | PARLEY_MAD_GET_TABLE | PARLEY_MAD_DELETE) \
  L(MultiPathRecord, subn_adm, PARLEY_MAD_GET_MULTI)                                                      \
  L(MulticastForwardingTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                      \
  L(NodeRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                          \
  L(PKeyTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                     \
  L(PathRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                          \
  L(PortInfoRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                      \
  L(RandomForwardingTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                         \
  L(SlToVlMappingTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                            \
  L(SmInfoRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                        \
  L(ServiceAssociationRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                            \
  L(ServiceRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_SET | PARLEY_MAD_GET_TABLE | PARLEY_MAD_DELETE)  \
  L(SwitchInfoRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                                    \
  L(TraceRecord, subn_adm, PARLEY_MAD_GET_TRACE_TABLE)                                                    \
  L(VlArbitrationTableRecord, subn_adm, PARLEY_MAD_GET | PARLEY_MAD_GET_TABLE)                            \
  L(CmApr, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmDrep, comm_mgt, PARLEY_MAD_SEND)                                                                    \
  L(CmDreq, comm_mgt, PARLEY_MAD_SEND)                                                                    \
  L(CmLap, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmMra, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmRej, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmRep, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmReq, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmRtu, comm_mgt, PARLEY_MAD_SEND)                                                                     \
  L(CmSidrRep, comm_mgt, PARLEY_MAD_SEND)                                                                 \
  L(CmSidrReq, comm_mgt, PARLEY_MAD_SEND)                                                                 \
  L(PortCounters, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                  \
  L(PortCountersExtended, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                          \
  L(PortFlowCtlCounters, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                           \
  L(PortOpRcvCounters, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                             \
  L(PortRcvDataSl, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                 \
  L(PortRcvErrorDetails, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                           \
  L(PortSamplesControl, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                            \
  L(PortSamplesResult, perf, PARLEY_MAD_GET)                                                              \
  L(PortSamplesResultExtended, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                     \
  L(PortVlOpData, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                  \
  L(PortVlOpPackets, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                               \
  L(PortVlXmitFlowCtlUpdateErrors, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                 \
  L(PortVlXmitWaitCounters, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                        \
  L(PortXmitDataSl, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                \
  L(PortXmitDiscardDetails, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                        \
  L(SwPortVlCongestion, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                            \
  L(PortRcvConCtrl, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                \
  L(PortSlRcvFecn, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                 \
  L(PortSlRcvBecn, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                 \
  L(PortXmitConCtrl, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                               \
  L(PortVlXmitTimeCong, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                            \
  L(PortExtendedSpeedsCounters, perf, PARLEY_MAD_GET | PARLEY_MAD_SET)                                    \
  L(CongestionInfo, cc, PARLEY_MAD_GET)                                                                   \
  L(CongestionKeyInfo, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                               \
  L(SwitchCongestionLog, cc, PARLEY_MAD_GET)                                                              \
  L(SwitchCongestionSetting, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                         \
  L(SwitchPortCongestionSetting, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                     \
  L(CaCongestionSetting, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                             \
  L(CongestionControlTable, cc, PARLEY_MAD_GET | PARLEY_MAD_SET)                                          \
  L(Timestamp, cc, PARLEY_MAD_GET)                                                                        \
  L(DiagCode, dev_mgt, PARLEY_MAD_GET)                                                                    \
  L(DiagnosticTimeout, dev_mgt, PARLEY_MAD_GET)                                                           \
  L(IoControllerProfile, dev_mgt, PARLEY_MAD_GET)                                                         \
  L(IoUnitInfo, dev_mgt, PARLEY_MAD_GET)                                                                  \
  L(PrepareToTest, dev_mgt, PARLEY_MAD_GET | PARLEY_MAD_SET)                                              \
  L(ServiceEntries, dev_mgt, PARLEY_MAD_GET)                                                              \
  L(TestDeviceLoop, dev_mgt, PARLEY_MAD_SET)                                                              \
  L(TestDeviceOnce, dev_mgt, PARLEY_MAD_SET)                                                              \
  L(SnmpCommunityInfo, snmp, PARLEY_MAD_SEND)                                                             \
  L(SnmpPduInfo, snmp, PARLEY_MAD_SEND)                                                                   \
  L(BKeyInfo, bm, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                        \
  L(SsaHello, ssa, PARLEY_MAD_SET)                                                                        \
  L(SsaParent, ssa, PARLEY_MAD_GET | PARLEY_MAD_SET)                                                      \
  L(SsaHookup, ssa, PARLEY_MAD_GET | PARLEY_MAD_SET | PARLEY_MAD_SEND | PARLEY_MAD_DELETE)                \
  L(SsaChildLost, ssa, PARLEY_MAD_REPORT)                                                                 \
  L(SsaLeave, ssa, PARLEY_MAD_DELETE)                                                                     \
  L(MlxGeneralInfo, vendor, PARLEY_MAD_GET)                                                               \
  L(OfaSysStatPing, vendor, PARLEY_MAD_GET)                                                               \
  L(OfaSysStatHostInfo, vendor, PARLEY_MAD_GET)                                                           \
  L(OfaSysStatCpuInfo, vendor, PARLEY_MAD_GET)

#endif
