/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Messages of the InfiniBand Communication Manager (IBA vol. 1 §12), and of the RDMA IP CM service on top of it (Annex A11):
 * wire facts. */
#ifndef PARLEY_WIRE_IBCM_H
#define PARLEY_WIRE_IBCM_H

#include "parley/wire/ib_codes.h"

#define PARLEY_IBCM_LEN 232 /* octets after the MAD header */

/* X(name, attribute, structure in mad_cm.h, fields in ibcm_fields.h, text). */
#define PARLEY_IBCM_MESSAGES(X)                                    \
  X(req, 0x0010, CmReq, PARLEY_IBCM_REQ, "REQ")                    \
  X(mra, 0x0011, CmMra, PARLEY_IBCM_MRA, "MRA")                    \
  X(rej, 0x0012, CmRej, PARLEY_IBCM_REJ, "REJ")                    \
  X(rep, 0x0013, CmRep, PARLEY_IBCM_REP, "REP")                    \
  X(rtu, 0x0014, CmRtu, PARLEY_IBCM_RTU, "RTU")                    \
  X(dreq, 0x0015, CmDreq, PARLEY_IBCM_DREQ, "DREQ")                \
  X(drep, 0x0016, CmDrep, PARLEY_IBCM_DREP, "DREP")                \
  X(sidr_req, 0x0017, CmSidrReq, PARLEY_IBCM_SIDR_REQ, "SIDR_REQ") \
  X(sidr_rep, 0x0018, CmSidrRep, PARLEY_IBCM_SIDR_REP, "SIDR_REP") \
  X(lap, 0x0019, CmLap, PARLEY_IBCM_LAP, "LAP")                    \
  X(apr, 0x001A, CmApr, PARLEY_IBCM_APR, "APR")

#define PARLEY_IBCM_INFO_LEN 72 /* additional information of REJ, APR and SIDR_REP */

/* X(name, value, text): transport service of a REQ; XRC is type 3 with extended type 1. */
#define PARLEY_IBCM_SERVICES(X) X(rc, 0, "RC") X(uc, 1, "UC") X(rd, 2, "RD") X(extended, 3, "extended")
/* X(name, value, text): extended transport type of a REQ (Annex A14). */
#define PARLEY_IBCM_EXTENDED(X) X(none, 0, "none") X(xrc, PARLEY_IBCM_EXTENDED_XRC, "XRC")
#define PARLEY_IBCM_EXTENDED_XRC 1

/* X(name, value, text): packet rate of a path (IBA §12.7.11). */
#define PARLEY_IBCM_RATES(X) X(of_the_port, 0, "the port's own") PARLEY_IB_RATES(X)

/* X(name, value, text): the message that an MRA or a REJ refers to. */
#define PARLEY_IBCM_ABOUT(X) X(req, 0, "REQ") X(rep, 1, "REP") X(other, 2, "no message of the set-up")

/* X(name, code, text): IBA §12.6.7.2. */
#define PARLEY_IBCM_REJECTS(X)                                                             \
  X(no_qp, 1, "no queue pair available")                                                   \
  X(no_eec, 2, "no EE context available")                                                  \
  X(no_resources, 3, "no resources available")                                             \
  X(timeout, 4, "timeout: the sender gave up waiting")                                     \
  X(unsupported_request, 5, "unsupported request")                                         \
  X(invalid_comm_id, 6, "invalid communication ID")                                        \
  X(invalid_comm_instance, 7, "invalid communication instance")                            \
  X(invalid_service_id, 8, "invalid service ID: there is no listener there")               \
  X(invalid_transport_service, 9, "invalid transport service type")                        \
  X(stale_connection, 10, "stale connection: the peer still has one with this queue pair") \
  X(no_rdc, 11, "RDC does not exist")                                                      \
  X(primary_gid, 12, "primary remote port GID rejected")                                   \
  X(primary_lid, 13, "primary remote port LID rejected")                                   \
  X(primary_sl, 14, "invalid primary SL")                                                  \
  X(primary_traffic_class, 15, "invalid primary traffic class")                            \
  X(primary_hop_limit, 16, "invalid primary hop limit")                                    \
  X(primary_packet_rate, 17, "invalid primary packet rate")                                \
  X(alternate_gid, 18, "alternate remote port GID rejected")                               \
  X(alternate_lid, 19, "alternate remote port LID rejected")                               \
  X(alternate_sl, 20, "invalid alternate SL")                                              \
  X(alternate_traffic_class, 21, "invalid alternate traffic class")                        \
  X(alternate_hop_limit, 22, "invalid alternate hop limit")                                \
  X(alternate_packet_rate, 23, "invalid alternate packet rate")                            \
  X(port_and_cm_redirect, 24, "port and CM redirection")                                   \
  X(port_redirect, 25, "port redirection")                                                 \
  X(invalid_path_mtu, 26, "invalid path MTU")                                              \
  X(insufficient_responder_resources, 27, "insufficient responder resources")              \
  X(consumer, 28, "consumer reject: the peer's program said no")                           \
  X(rnr_retry_count, 29, "RNR retry count rejected")                                       \
  X(duplicate_local_comm_id, 30, "duplicate local communication ID")                       \
  X(unsupported_class_version, 31, "unsupported class version")                            \
  X(primary_flow_label, 32, "invalid primary flow label")                                  \
  X(alternate_flow_label, 33, "invalid alternate flow label")                              \
  X(vendor_option, 35, "vendor option (ECE) not supported")

/* X(name, code, text): status of a SIDR_REP, IBA §12.11.2. */
#define PARLEY_IBCM_SIDR_STATUS(X)                         \
  X(valid, 0, "valid QPN and Q_Key")                       \
  X(unsupported_service_id, 1, "service ID not supported") \
  X(rejected, 2, "rejected by the service")                \
  X(no_qp, 3, "no queue pair available")                   \
  X(redirect, 4, "redirection")                            \
  X(unsupported_version, 5, "version not supported")

/* X(name, code, text): status of an APR, IBA §12.8.2. */
#define PARLEY_IBCM_AP_STATUS(X)                     \
  X(accepted, 0, "alternate path loaded")            \
  X(invalid_comm_id, 1, "invalid communication ID")  \
  X(unsupported, 2, "alternate paths not supported") \
  X(rejected, 3, "rejected")                         \
  X(redirect, 4, "redirection")                      \
  X(duplicate, 5, "it is the current path")          \
  X(invalid_qpn, 6, "QPN or EECN mismatch")          \
  X(lid, 7, "LID rejected")                          \
  X(gid, 8, "GID rejected")                          \
  X(flow_label, 9, "invalid flow label")             \
  X(traffic_class, 10, "invalid traffic class")      \
  X(hop_limit, 11, "invalid hop limit")              \
  X(packet_rate, 12, "invalid packet rate")          \
  X(sl, 13, "invalid SL")

/* RDMA IP CM service, Annex A11: service ID 0x0000000001PPNNNN, PP is the IP protocol, NNNN the port. The private data of its
 * REQ and SIDR_REQ starts with version(1) IP version(high half of 1) source port(2) source(16) destination(16). */
#define PARLEY_CMA_SERVICE_PREFIX 0x0000000001000000
#define PARLEY_CMA_SERVICE_MASK 0xFFFFFFFFFF000000
#define PARLEY_CMA_HEADER_LEN 36
#define PARLEY_CMA_VERSION 0
/* X(name, value, text): port spaces of rdma_cm. */
#define PARLEY_CMA_PORT_SPACES(X) \
  X(ipoib, 0x0002, "IPOIB")       \
  X(tcp, 0x0106, "TCP")           \
  X(udp, 0x0111, "UDP")           \
  X(ib, 0x013F, "IB")

#endif
