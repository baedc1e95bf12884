/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Rules of InfiniBand's transport (ib.) and of its CM (cm.). Rows as in parley/wire/rules.h, which includes this. */
#ifndef PARLEY_WIRE_RULES_IB_H
#define PARLEY_WIRE_RULES_IB_H

/* IBA, volume 1. */
#define PARLEY_IB_RULES(X)                                                                                             \
  X(cm_mad_header, "cm.mad-header", "IBA §13.4.2", error, headers,                                                     \
    "A MAD of the CM has base version 1, class version 2, method 3 (Send) and status 0.")                              \
  X(cm_q_key, "cm.q-key", "IBA §9.6", error, headers, "A packet to QP 1 has the Q_Key of the GSI, 0x80010000.")        \
  X(cm_p_key, "cm.p-key", "IBA §9.6", error, headers, "A packet's P_Key is valid: not 0 in its low 15 bits.")          \
  X(cm_reserved, "cm.reserved", "IBA §12.6", warning, headers,                                                         \
    "Reserved bits of a CM message are 0, and so is the attribute modifier where it carries no ECE (all but REQ, "     \
    "REP and SIDR_REP).")                                                                                              \
  X(cm_req_changed, "cm.req-changed", "IBA §12.6.5", error, side,                                                      \
    "A REQ sent again is the same one; so is a SIDR_REQ with the same request ID.")                                    \
  X(cm_rep_changed, "cm.rep-changed", "IBA §12.6.8", error, side, "A REP sent again is the same one.")                 \
  X(cm_comm_id, "cm.comm-id", "IBA §12.6", error, set_up,                                                              \
    "A message has the communication IDs that its sender and receiver chose.")                                         \
  X(cm_null_id, "cm.null-id", "IBA §12.6", warning, headers,                                                           \
    "The communication IDs of a REQ, REP, RTU or DREQ are not 0, which means none; a side repeats that of its peer.")  \
  X(cm_transaction, "cm.transaction", "IBA §12.6.4", warning, both,                                                    \
    "An answer has the transaction ID of the message that it answers.")                                                \
  X(cm_restarted, "cm.restarted", "IBA §12.9", warning, both,                                                          \
    "A repeated REQ is answered as the first one was; another answer shows a restart, or that the answer was "         \
    "forgotten.")                                                                                                      \
  X(cm_role, "cm.role", "IBA §12.9", error, set_up, "Only the initiator sends an RTU, and only the responder a REP.")  \
  X(cm_rtu_before_rep, "cm.rtu-before-rep", "IBA §12.9", error, both, "An RTU is sent after the REP that it answers.") \
  X(cm_rtu_unasked, "cm.rtu-unasked", "IBA §12.9", warning, both,                                                      \
    "After a REJ of its REQ, an initiator sends an RTU only if a REP came.")                                           \
  X(cm_after_rej, "cm.after-rej", "IBA §12.9", warning, side,                                                          \
    "No REP follows a REJ of the same REQ, and no RTU a REJ of the REP.")                                              \
  X(cm_rej_about, "cm.rej-about", "IBA §12.6.7", error, set_up, "A side rejects only messages of its peer.")           \
  X(cm_rej_reason, "cm.rej-reason", "IBA §12.6.7.2", error, headers,                                                   \
    "A REJ of a REP has no reason that only a REQ can give (8, 9, 12 to 23, 26, 32, 33).")                             \
  X(cm_rej_unknown_id, "cm.rej-unknown-id", "IBA §12.6.7.2", error, headers,                                           \
    "A REJ of a REQ does not have reason 6 (invalid communication ID): a REQ names no ID of its receiver.")            \
  X(cm_rej_late, "cm.rej-late", "IBA §12.9", warning, both,                                                            \
    "After its REP, the responder does not reject the REQ, nor the initiator the REP after its RTU, except "           \
    "for reasons 4 (timeout) and 10 (stale connection).")                                                              \
  X(cm_rej_unassigned, "cm.rej-unassigned", "IBA §12.6.7.2", warning, headers,                                         \
    "The reason of a REJ is an assigned one.")                                                                         \
  X(cm_rej_info, "cm.rej-info", "IBA §12.6.7", error, headers,                                                         \
    "A REJ, APR or SIDR_REP announces at most 72 octets of additional information.")                                   \
  X(cm_dreq_qpn, "cm.dreq-qpn", "IBA §12.6.10", error, set_up,                                                         \
    "A DREQ or LAP names the QPN that its receiver gave in its REQ or REP.")                                           \
  X(cm_mra_about, "cm.mra-about", "IBA §12.6.6", error, set_up, "A side sends an MRA only for a message of its peer.") \
  X(cm_path_mtu, "cm.path-mtu", "IBA §12.6.5", error, headers,                                                         \
    "The path MTU of a REQ is 1 to 5 (256 to 4096 octets).")                                                           \
  X(cm_service, "cm.service", "IBA §12.6.5", error, headers,                                                           \
    "The only extended transport type that a REQ may ask for is 1 (XRC).")                                             \
  X(cm_req_qpn, "cm.req-qpn", "IBA §12.6.5", error, headers,                                                           \
    "The QPN of a REQ is one that a connection can have: not 0, 1 or 0xffffff.")                                       \
  X(cm_req_p_key, "cm.req-p-key", "IBA §12.6.5", error, headers,                                                       \
    "The P_Key that a REQ or SIDR_REQ names is valid: not 0 in its low 15 bits.")                                      \
  X(cm_rep_qpn, "cm.rep-qpn", "IBA §12.6.8", error, headers,                                                           \
    "The QPN of a REP, or its TGT QPN, is one that a connection can have.")                                            \
  X(cm_gid, "cm.gid", "IBA §12.6.5", warning, headers,                                                                 \
    "The GIDs of a REQ are the addresses that it comes from and goes to.")                                             \
  X(cm_cma_header, "cm.cma-header", "IBA Annex A11", warning, headers,                                                 \
    "A REQ for a service of RDMA IP CM (service IDs of TCP and UDP ports) has that header with its version and IP "    \
    "version, and reserved bits of 0.")                                                                                \
  X(cm_cma_address, "cm.cma-address", "IBA Annex A11", warning, headers,                                               \
    "The addresses in the header of RDMA IP CM are those that the REQ comes from and goes to.")                        \
  X(cm_early, "cm.early", "IBA §12.9", warning, both,                                                                  \
    "A REQ, REP or DREQ is sent again only after the time that its peer has to answer (15/16 of it count).")           \
  X(cm_retries, "cm.retries", "IBA §12.6.5", error, side,                                                              \
    "A REQ, REP or DREQ is sent again at most as often as the REQ announced.")                                         \
  X(cm_rep_depths, "cm.rep-depths", "IBA §12.6.8", error, set_up,                                                      \
    "The initiator depth of a REP is at most the responder resources of the REQ.")                                     \
  X(cm_after_drep, "cm.after-drep", "IBA §12.9", warning, side, "A side sends no REP and no RTU after its DREP.")      \
  X(cm_mad_packet, "cm.mad-packet", "IBA §13.5.1", error, headers,                                                     \
    "A MAD of the CM has 256 octets, in a UD SEND Only from QP 1, and ClassSpecific is 0.")                            \
  X(cm_unassigned, "cm.unassigned", "IBA §12.6", warning, headers,                                                     \
    "Message numbers and statuses of a CM message (REJ, MRA, SIDR_REP, APR) are assigned ones.")                       \
  X(cm_sidr_service, "cm.sidr-service", "IBA §12.11.2", error, set_up,                                                 \
    "A SIDR_REP is about the service that the SIDR_REQ asked for.")                                                    \
  X(cm_sidr_changed, "cm.sidr-changed", "IBA §12.11", warning, side,                                                   \
    "A repeated SIDR_REQ gets the same answer again; a different one shows that the first was forgotten.")             \
  X(cm_dropped, "cm.dropped", "IBA §9.6", warning, both,                                                               \
    "A REQ or SIDR_REQ that its receiver must drop gets no answer: one with a wrong Q_Key or ICRC, an invalid "        \
    "P_Key, another transport version, base version or method, or not in a UD SEND Only of 256 octets.")               \
  X(cm_sidr_qpn, "cm.sidr-qpn", "IBA §12.11.2", error, headers,                                                        \
    "The QPN of a SIDR_REP is one that a service can have.")                                                           \
  X(ib_malformed, "ib.malformed", "IBA §9.2", error, headers,                                                          \
    "A packet has the headers that its opcode calls for. Where no connection has it, that is a note about the file.")  \
  X(ib_icrc, "ib.icrc", "IBA §7.8.1", error, payload,                                                                  \
    "The ICRC is that of the packet's octets; nothing else of a packet with a wrong one counts.")                      \
  X(ib_icrc_unmade, "ib.icrc-unmade", "IBA §7.8.1", warning, both,                                                     \
    "A sender's packets have an ICRC, and its peer answers no packet without the right one; a capture on the sender "  \
    "may be ahead of its adapter.")                                                                                    \
  X(ib_tver, "ib.tver", "IBA §9.2", error, headers, "The transport version of the BTH is 0.")                          \
  X(ib_reserved, "ib.reserved", "IBA §9.2", warning, headers, "Reserved bits of the BTH are 0.")                       \
  X(ib_eth_reserved, "ib.eth-reserved", "IBA §9.3", warning, headers, "Reserved bits of a DETH or XRCETH are 0.")      \
  X(ib_opcode, "ib.opcode", "IBA §9.2.1", error, headers, "The opcode of the BTH is an assigned one.")                 \
  X(ib_service, "ib.service", "IBA §9.6", error, set_up,                                                               \
    "The opcode belongs to the transport service of the queue pair (RC, UC, UD, XRC).")                                \
  X(ib_target_request, "ib.target-request", "IBA Annex A14", error, set_up,                                            \
    "The target queue pair of an XRC connection, which is the responder's, sends no requests.")                        \
  X(ib_p_key, "ib.p-key", "IBA §9.6", error, set_up,                                                                   \
    "Packets have the P_Key of their connection, in its low 15 bits.")                                                 \
  X(ib_ud_q_key, "ib.ud-q-key", "IBA §9.6", warning, set_up, "Datagrams have the Q_Key that the SIDR_REP gave.")       \
  X(ib_pad, "ib.pad", "IBA §9.4", error, headers, "Payload and pad are a number of words of 4 octets together.")       \
  X(ib_pad_octets, "ib.pad-octets", "IBA §9.4", warning, payload, "Pad octets are 0.")                                 \
  X(ib_length, "ib.length", "IBA §9.7.4", error, set_up,                                                               \
    "First and Middle packets are full, no packet is longer than the path MTU, a Last is not empty, and a Read "       \
    "Request or an Atomic has no payload.")                                                                            \
  X(ib_sequence, "ib.sequence", "IBA §9.7.4", error, side,                                                             \
    "The packets of a message follow one another: First, Middle, Last; a message begins with a First or an Only.")     \
  X(ib_psn_start, "ib.psn-start", "IBA §9.7.3", error, set_up, "No PSN is before the starting PSN.")                   \
  X(ib_psn_reused, "ib.psn-reused", "IBA §9.7.3", error, side, "A PSN sent again has the same operation as before.")   \
  X(ib_payload_changed, "ib.payload-changed", "IBA §9.7.3", warning, side,                                             \
    "A PSN sent again has the same payload as before.")                                                                \
  X(ib_read_psn, "ib.read-psn", "IBA §9.7.3", error, side,                                                             \
    "No other request has one of the PSNs that a Read's responses take.")                                              \
  X(ib_dma_length, "ib.dma-length", "IBA §9.7.4", error, side,                                                         \
    "An RDMA Write has as many octets as its RETH announces.")                                                         \
  X(ib_atomic_address, "ib.atomic-address", "IBA §9.4.5", error, headers,                                              \
    "The address of an Atomic is a multiple of 8.")                                                                    \
  X(ib_message_size, "ib.message-size", "IBA §9.7.4", error, headers, "No message is longer than 2^31 octets.")        \
  X(ib_outstanding, "ib.outstanding", "IBA §9.7.3", error, set_up,                                                     \
    "No more Reads and Atomics are outstanding than the peer has responder resources for.")                            \
  X(ib_rnr_wait, "ib.rnr-wait", "IBA §9.7.5.2.8", error, both,                                                         \
    "A request is sent again only after the time that an RNR NAK asks for.")                                           \
  X(ib_rnr_retries, "ib.rnr-retries", "IBA §9.7.5.2.8", error, both,                                                   \
    "A request is sent again after RNR NAKs at most as often as the peer's RNR retry count says (7: without end).")    \
  X(ib_retries, "ib.retries", "IBA §9.9.2.1.2", warning, both,                                                         \
    "A request without an answer is sent again at most as often as the retry count says.")                             \
  X(ib_nak_ignored, "ib.nak-ignored", "IBA §9.7.5.2.1", error, both,                                                   \
    "A requester goes back to the PSN that a NAK (PSN sequence error) asks for.")                                      \
  X(ib_nak_again, "ib.nak-again", "IBA §9.7.5.2.1", warning, both,                                                     \
    "A responder reports a missing PSN once, until the requester sends it again.")                                     \
  X(ib_ack_form, "ib.ack-form", "IBA §9.7.5.1", error, headers,                                                        \
    "An Acknowledge consists of its BTH and AETH, and asks neither for an acknowledgment nor for a solicited event.")  \
  X(ib_syndrome, "ib.syndrome", "IBA §9.7.5.1", error, headers,                                                        \
    "The syndrome of an AETH is an assigned one, and that of a NAK is only in an Acknowledge.")                        \
  X(ib_msn, "ib.msn", "IBA §9.7.7.1", error, both,                                                                     \
    "The MSN of a response is the number of messages completed up to its PSN, and never more than the peer had sent.") \
  X(ib_credits, "ib.credits", "IBA §9.7.7.2", warning, set_up,                                                         \
    "A side that said that it has no end-to-end flow control, or that has a shared receive queue (SRQ, XRC), gives "   \
    "no credits.")                                                                                                     \
  X(ib_credit_limit, "ib.credit-limit", "IBA §9.7.7.2", warning, both,                                                 \
    "A requester sends at most one message beyond the receives that it has credits for.")                              \
  X(ib_ack_unsent, "ib.ack-unsent", "IBA §9.7.5", error, both,                                                         \
    "A side answers only PSNs that its peer has sent, from the starting PSN on.")                                      \
  X(ib_ack_dropped, "ib.ack-dropped", "IBA §9.6", warning, both,                                                       \
    "A request that its receiver must drop is not acknowledged: one with a wrong ICRC, another transport "             \
    "version, the P_Key of another partition, or an opcode that is unassigned or of another service.")                 \
  X(ib_read_response, "ib.read-response", "IBA §9.7.5", error, both,                                                   \
    "The packets that answer a Read are as many, as long and in the order that the request calls for.")                \
  X(ib_response_kind, "ib.response-kind", "IBA §9.7.5", error, both,                                                   \
    "A response is of the kind that its request calls for.")                                                           \
  X(ib_atomic_response, "ib.atomic-response", "IBA §9.7.5", error, both,                                               \
    "A repeated Atomic is answered with the same value.")                                                              \
  X(ib_early, "ib.early", "IBA §12.9", warning, both,                                                                  \
    "The responder sends no data before the initiator's RTU or data.")                                                 \
  X(ib_after_end, "ib.after-end", "IBA §12.9", warning, side, "A side sends no data after its DREQ or DREP.")          \
  X(ib_ack_after_end, "ib.ack-after-end", "IBA §12.9", warning, side, "A side acknowledges nothing after its DREP.")

#endif
