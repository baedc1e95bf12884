/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Rules of MPA (mpa.), and one of the TCP under it. Rows as in parley/wire/rules.h, which includes this. */
#ifndef PARLEY_WIRE_RULES_MPA_H
#define PARLEY_WIRE_RULES_MPA_H

/* RFC 5044 §7 and §8: Request and Reply. */
#define PARLEY_MPA_SETUP_RULES(X)                                                                             \
  X(mpa_startup_frame, "mpa.startup-frame", "RFC 5044 §7.1.1", error, side,                                   \
    "The first octets of each side are a startup frame.")                                                     \
  X(mpa_startup_cut, "mpa.startup-cut", "RFC 5044 §7.1.2", note, end,                                         \
    "A startup frame is sent whole before a side ends.")                                                      \
  X(mpa_request_key, "mpa.request-key", "RFC 5044 §7.1.1", error, headers,                                    \
    "A Request begins with the key \"MPA ID Req Frame\".")                                                    \
  X(mpa_initiator_reply, "mpa.initiator-reply", "RFC 5044 §7.1.2", error, headers,                            \
    "The initiator begins with a Request, not with a Reply.")                                                 \
  X(mpa_reply_key, "mpa.reply-key", "RFC 5044 §7.1.1", error, headers,                                        \
    "A Reply begins with the key \"MPA ID Rep Frame\".")                                                      \
  X(mpa_two_initiators, "mpa.two-initiators", "RFC 5044 §7.1.2", error, both,                                 \
    "A Request is answered with a Reply; two Requests end the connection (rule 8).")                          \
  X(mpa_reserved, "mpa.reserved", "RFC 5044 §7.1.1", error, headers,                                          \
    "Reserved bits of a startup frame are 0, also where the Request has set them.")                           \
  X(mpa_request_r, "mpa.request-r", "RFC 5044 §7.1.1", error, headers, "R is 0 in a Request.")                \
  X(mpa_reply_r_echoed, "mpa.reply-r-echoed", "RFC 5044 §7.1.1", warning, both,                               \
    "R in a Reply means a reject, and is not an echo of the Request's bits.")                                 \
  X(mpa_s_unasked, "mpa.s-unasked", "RFC 5044 §7.1.1", error, both,                                           \
    "Under revision 1, a Reply sets S only if the Request did.")                                              \
  X(mpa_s_echoed, "mpa.s-echoed", "RFC 5044 §7.1.1", error, both,                                             \
    "S in a Reply means the Rtr frame, and is not an echo of the Request's bits.")                            \
  X(mpa_pd_length, "mpa.pd-length", "RFC 5044 §7.1.1", error, headers, "PD_Length is at most 512.")           \
  X(mpa_pd_missing, "mpa.pd-missing", "RFC 5044 §7.1.1", error, end,                                          \
    "As many octets of private data follow as PD_Length announces.")                                          \
  X(mpa_revision, "mpa.revision", "RFC 6581 §6", error, headers,                                              \
    "The revision is 0, 1 or 2; no RFC defines another one.")                                                 \
  X(mpa_revision_0, "mpa.revision-0", "RFC 5044 Appendix C", note, headers,                                   \
    "Revision 0 is that of the RDMA Consortium.")                                                             \
  X(mpa_revision_0_flags, "mpa.revision-0-flags", "RFC 5044 Appendix C", warning, headers,                    \
    "Under revision 0, markers and CRC are always on.")                                                       \
  X(mpa_revision_0_answer, "mpa.revision-0-answer", "RFC 5044 Appendix C", note, both,                        \
    "A responder without revision 0 answers with revision 1, and the connection ends.")                       \
  X(mpa_crc_not_asked, "mpa.crc-not-asked", "RFC 5044 §4.4", warning, headers,                                \
    "CRC is the default (C=1), unless an administrator has switched it off.")                                 \
  X(mpa_markers_refused, "mpa.markers-refused", "RFC 5044 §4.3", warning, both,                               \
    "Every sender can insert markers, so that M=1 is not a reason to refuse a connection.")                   \
  X(mpa_improper_accepted, "mpa.improper-accepted", "RFC 5044 §7.1.2", error, both,                           \
    "An invalid Request is not accepted; the responder closes (rule 2).")                                     \
  X(mpa_improper_rejected, "mpa.improper-rejected", "RFC 5044 §7.1.2", warning, both,                         \
    "An invalid Request gets no Reply, not even a reject; the responder closes (rule 2).")                    \
  X(mpa_reply_early, "mpa.reply-early", "RFC 5044 §7.1.2", error, both,                                       \
    "The responder replies when the whole Request has arrived (rule 9).")                                     \
  X(mpa_request_unanswered, "mpa.request-unanswered", "RFC 5044 §7.1.2", warning, end,                        \
    "A valid Request is answered, if only with a reject.")                                                    \
  X(mpa_no_reply, "mpa.no-reply", "RFC 5044 §7.1.2", note, end,                                               \
    "An initiator without a Reply gives up after a time of its own (rule 10).")                               \
  X(mpa_rejected, "mpa.rejected", "RFC 5044 §7.1.2", note, headers, "R=1 in a Reply rejects the connection.") \
  X(mpa_second_startup, "mpa.second-startup", "RFC 5044 §7.1.2", error, both,                                 \
    "Each side sends one startup frame, and then FPDUs.")                                                     \
  X(mpa_second_reply, "mpa.second-reply", "RFC 5044 §7.1.2", error, both, "Each Request gets one Reply.")     \
  X(mpa_request_again, "mpa.request-again", "RFC 5044 §7.1.2", note, both,                                    \
    "Another Request on the same TCP connection after a reject begins another set-up.")                       \
  X(mpa_octets_before_reply, "mpa.octets-before-reply", "RFC 5044 §7.1.2", error, both,                       \
    "The initiator sends nothing between its Request and the Reply (rule 3).")                                \
  X(mpa_extra_accepted, "mpa.extra-accepted", "RFC 5044 §7.1.2", warning, both,                               \
    "A responder does not accept a Request that other octets have followed (rule 3).")                        \
  X(mpa_after_invalid_reply, "mpa.after-invalid-reply", "RFC 5044 §7.1.2", error, both,                       \
    "The initiator closes after an invalid Reply, and sends no FPDU.")                                        \
  X(mpa_invalid_reply_terminate, "mpa.invalid-reply-terminate", "RFC 5044 §8", error, both,                   \
    "The initiator answers an invalid Reply by closing, not with a Terminate.")                               \
  X(mpa_reply_called_invalid, "mpa.reply-called-invalid", "RFC 5044 §8", warning, both,                       \
    "A Terminate that calls the Reply invalid follows an invalid Reply.")                                     \
  X(mpa_fence, "mpa.fence", "RFC 5044 §7.1.2", error, both,                                                   \
    "The responder sends no FPDU before it has received one (rule 4).")                                       \
  X(mpa_silent_after_fpdu, "mpa.silent-after-fpdu", "RFC 5044 §7.1.2", note, end,                             \
    "A responder reads the FPDU that comes right after its Reply; Linux siw may miss it.")

/* RFC 6581, and the Rtr frame of 2007. */
#define PARLEY_MPA_ENHANCED_RULES(X)                                                                                   \
  X(mpa_enhanced_room, "mpa.enhanced-room", "RFC 6581 §6", error, headers,                                             \
    "PD_Length has room for the 4 octets of enhanced data that S announces.")                                          \
  X(mpa_reply_revision, "mpa.reply-revision", "RFC 6581 §10", error, both,                                             \
    "A Reply has no higher revision than its Request.")                                                                \
  X(mpa_reply_revision_lower, "mpa.reply-revision-lower", "RFC 6581 §10", warning, both,                               \
    "A responder without the Request's revision closes; it sends no Reply of a lower one.")                            \
  X(mpa_revision_2_unanswered, "mpa.revision-2-unanswered", "RFC 6581 §10", note, end,                                 \
    "A responder that does not know revision 2 closes without a Reply.")                                               \
  X(mpa_enhanced_unanswered, "mpa.enhanced-unanswered", "RFC 6581 §10", warning, both,                                 \
    "A Request with enhanced data is answered with enhanced data.")                                                    \
  X(mpa_enhanced_unasked, "mpa.enhanced-unasked", "RFC 6581 §10", error, both,                                         \
    "A Reply has enhanced data only if the Request has some.")                                                         \
  X(mpa_reply_refused, "mpa.reply-refused", "RFC 6581 §10", note, end,                                                 \
    "The initiator may close after a Reply that does not fit its Request.")                                            \
  X(mpa_kinds_without_a, "mpa.kinds-without-a", "RFC 6581 §9.2", error, headers, "B, C and D are 0 if A is 0.")        \
  X(mpa_a_without_kinds, "mpa.a-without-kinds", "RFC 6581 §9.2", error, headers,                                       \
    "With A, at least one of B, C and D is set.")                                                                      \
  X(mpa_a_answer, "mpa.a-answer", "RFC 6581 §9.2", error, both, "The Reply has the A of the Request.")                 \
  X(mpa_no_common_rtr, "mpa.no-common-rtr", "RFC 6581 §9.2", warning, both,                                            \
    "With A, Request and Reply have an RTR kind in common; else the initiator must terminate.")                        \
  X(mpa_no_rtr_terminate, "mpa.no-rtr-terminate", "RFC 6581 §9.2", warning, end,                                       \
    "Without a common RTR kind, the initiator sends a Terminate (layer 2, code 7) before it closes.")                  \
  X(mpa_rtr_match_denied, "mpa.rtr-match-denied", "RFC 6581 §9.2", error, both,                                        \
    "A Terminate for want of a matching RTR (code 7) follows a Reply without a common kind.")                          \
  X(mpa_went_on_without_a, "mpa.went-on-without-a", "RFC 6581 §9.2", warning, both,                                    \
    "An initiator that asked for A terminates after a Reply with A=0.")                                                \
  X(mpa_rtr_kind, "mpa.rtr-kind", "RFC 6581 §9.2", error, both,                                                        \
    "With A, the initiator's first FPDU is an RTR of an agreed kind.")                                                 \
  X(mpa_rtr_missing, "mpa.rtr-missing", "RFC 6581 §9.2", note, end,                                                    \
    "The initiator sends the agreed RTR before the connection ends.")                                                  \
  X(mpa_depth_unnegotiated, "mpa.depth-unnegotiated", "RFC 6581 §9.1", error, both,                                    \
    "A depth of 0x3fff, which asks not to negotiate, is answered with 0x3fff.")                                        \
  X(mpa_ord_above_ird, "mpa.ord-above-ird", "RFC 6581 §9.1", warning, both,                                            \
    "The responder's ORD is at most the initiator's IRD.")                                                             \
  X(mpa_ord_lowered, "mpa.ord-lowered", "RFC 6581 §9.1", note, both,                                                   \
    "The responder's IRD may lower the initiator's ORD.")                                                              \
  X(mpa_read_rtr_ird, "mpa.read-rtr-ird", "RFC 6581 §9.1", warning, both,                                              \
    "A responder that agrees to a Read as RTR has an IRD of 1 at least.")                                              \
  X(mpa_ird_denied, "mpa.ird-denied", "RFC 6581 §9.1", warning, both,                                                  \
    "A Terminate for lack of IRD (code 6) follows a Reply that asks for more than the Request offers.")                \
  X(mpa_s_offered, "mpa.s-offered", "OFA 2007-10 Rtr §2", note, headers,                                               \
    "S under revision 1 offers the Rtr frame of 2007.")                                                                \
  X(mpa_s_unproven, "mpa.s-unproven", "OFA 2007-10 Rtr §2", warning, end,                                              \
    "S in a Reply under revision 1 is a promise to take the Rtr frame; until it is sent, nothing shows that it is no " \
    "echo.")                                                                                                           \
  X(mpa_rtr_frame, "mpa.rtr-frame", "OFA 2007-10 Rtr §2", note, headers, "The Rtr frame may be spelt in two ways.")    \
  X(mpa_rtr_frame_unasked, "mpa.rtr-frame-unasked", "OFA 2007-10 Rtr §2", error, both,                                 \
    "The initiator sends an Rtr frame only if both sides have set S.")                                                 \
  X(mpa_rtr_frame_omitted, "mpa.rtr-frame-omitted", "OFA 2007-10 Rtr §2", error, both,                                 \
    "With S on both sides, the initiator's Rtr frame comes before its first FPDU.")                                    \
  X(mpa_rtr_frame_missing, "mpa.rtr-frame-missing", "OFA 2007-10 Rtr §2", note, end,                                   \
    "The initiator sends the agreed Rtr frame before the connection ends.")                                            \
  X(mpa_rtr_frame_reset, "mpa.rtr-frame-reset", "OFA 2007-10 Rtr §2", warning, end,                                    \
    "A responder that agreed to the Rtr frame does not reset the connection when it comes.")                           \
  X(mpa_rtr_frame_as_fpdu, "mpa.rtr-frame-as-fpdu", "RFC 5044 §7.1.1", error, both,                                    \
    "A responder that answers S with S takes the Rtr frame for what it is, not for an FPDU.")

/* RFC 5044 §4 to §6: FPDUs, markers and CRCs. */
#define PARLEY_MPA_FRAMING_RULES(X)                                                                    \
  X(mpa_crc, "mpa.crc", "RFC 5044 §4.4", error, payload,                                               \
    "The CRC32c of an FPDU is that of its octets, unless neither side asked for CRCs.")                \
  X(mpa_crc_complaint, "mpa.crc-complaint", "RFC 5044 §4.4", error, both,                              \
    "A side complains of a CRC only if one of the two asked for CRCs.")                                \
  X(mpa_pad, "mpa.pad", "RFC 5044 §4.1", error, payload, "Pad octets of an FPDU are 0.")               \
  X(mpa_ulpdu_length, "mpa.ulpdu-length", "RFC 5044 §4.1", error, side, "ULPDU_Length is 1 to 64768.") \
  X(mpa_fpdu_size, "mpa.fpdu-size", "RFC 5044 §4.5", note, side,                                       \
    "An FPDU fits into one TCP segment; the path's real MSS may differ from the announced one.")       \
  X(mpa_marker_missing, "mpa.marker-missing", "RFC 5044 §4.3", error, side,                            \
    "There is a marker at every 512th octet of a stream with markers.")                                \
  X(mpa_marker_pointer, "mpa.marker-pointer", "RFC 5044 §4.3", error, side,                            \
    "FPDUPTR of a marker is the distance from the beginning of its FPDU.")                             \
  X(mpa_marker_bits, "mpa.marker-bits", "RFC 5044 §4.3", warning, side,                                \
    "The reserved half of a marker and the low two bits of FPDUPTR are 0.")                            \
  X(mpa_markers_unasked, "mpa.markers-unasked", "RFC 5044 §4.3", error, both,                          \
    "A side inserts markers only if its peer asked for them (M).")                                     \
  X(mpa_markers_left_out, "mpa.markers-left-out", "RFC 5044 §4.3", error, both,                        \
    "A side inserts markers if its peer asked for them (M).")                                          \
  X(mpa_found_again, "mpa.found-again", "RFC 5044 §6", note, side,                                     \
    "FPDU boundaries that were lost can be found again.")                                              \
  X(mpa_cut_fpdu, "mpa.cut-fpdu", "RFC 5044 §7.2", note, end, "A stream ends between two FPDUs.")      \
  X(tcp_changed, "tcp.changed", "RFC 9293 §3.4", warning, side,                                        \
    "A TCP retransmission holds the octets of the first copy.")

#endif
