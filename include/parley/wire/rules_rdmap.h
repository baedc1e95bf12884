/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Rules of DDP (ddp.) and of RDMAP (rdmap.). Rows as in parley/wire/rules.h, which includes this. */
#ifndef PARLEY_WIRE_RULES_RDMAP_H
#define PARLEY_WIRE_RULES_RDMAP_H

/* RFC 5041. */
#define PARLEY_DDP_RULES(X)                                                                                         \
  X(ddp_header, "ddp.header", "RFC 5041 §4", error, headers, "A ULPDU has room for a DDP header.")                  \
  X(ddp_version, "ddp.version", "RFC 5041 §4.1", error, headers,                                                    \
    "The DDP version is 1 (0 for peers of the RDMA Consortium).")                                                   \
  X(ddp_reserved, "ddp.reserved", "RFC 5041 §4.1", error, headers, "Reserved bits of the DDP control field are 0.") \
  X(ddp_msn, "ddp.msn", "RFC 5041 §4.3", error, side, "MSNs of a queue begin at 1 and grow by 1.")                  \
  X(ddp_opcode_changed, "ddp.opcode-changed", "RFC 5041 §4.3", error, side,                                         \
    "All segments of a message have one opcode.")                                                                   \
  X(ddp_stag_changed, "ddp.stag-changed", "RFC 5041 §4.3", error, side,                                             \
    "All segments of a message have one Invalidate STag.")                                                          \
  X(ddp_message_open, "ddp.message-open", "RFC 5041 §5.2", error, side,                                             \
    "A message ends with a last segment before the next one of its queue begins.")                                  \
  X(ddp_mo_begin, "ddp.mo-begin", "RFC 5041 §5.2", error, side, "A message begins at MO 0.")                        \
  X(ddp_mo, "ddp.mo", "RFC 5041 §5.2", error, side,                                                                 \
    "MO of a segment is where the one before ended; nothing follows the last segment.")                             \
  X(ddp_octets_missing, "ddp.octets-missing", "RFC 5041 §5.2", error, side,                                         \
    "Each octet of a message is sent before the message is over.")                                                  \
  X(ddp_write_place, "ddp.write-place", "RFC 5041 §5.2", error, side,                                               \
    "A segment of an RDMA Write has the STag of the one before, and its TO follows.")                               \
  X(ddp_no_last, "ddp.no-last", "RFC 5041 §5.2", note, end, "The last message of a side has a last segment.")       \
  X(ddp_order, "ddp.order", "RFC 5041 §5.3", warning, side,                                                         \
    "Segments of a message are sent in the order of their MO or TO.")                                               \
  X(ddp_to_wrap, "ddp.to-wrap", "RFC 5041 §7.1", error, headers, "TO of a tagged segment does not wrap.")           \
  X(ddp_empty_refused, "ddp.empty-refused", "RFC 5041 §5.1", error, both,                                           \
    "STag and TO of a message without octets are not looked at.")

/* RFC 5040, RFC 6580 and RFC 7306. */
#define PARLEY_RDMAP_RULES(X)                                                                                          \
  X(rdmap_version, "rdmap.version", "RFC 5040 §4.1", error, headers,                                                   \
    "The RDMAP version is 1 (0 for peers of the RDMA Consortium).")                                                    \
  X(rdmap_reserved, "rdmap.reserved", "RFC 5040 §4.1", error, headers,                                                 \
    "Reserved bits of the RDMAP control field are 0.")                                                                 \
  X(rdmap_opcode, "rdmap.opcode", "RFC 5040 §4.1", error, headers, "The opcode is an assigned one.")                   \
  X(rdmap_stag_word, "rdmap.stag-word", "RFC 5040 §4.1", warning, headers,                                             \
    "The Invalidate STag word is 0, except in a Send with Invalidate.")                                                \
  X(rdmap_tagged, "rdmap.tagged", "RFC 5040 §4.2", error, headers,                                                     \
    "Writes and Read Responses are tagged messages, all others untagged.")                                             \
  X(rdmap_queue, "rdmap.queue", "RFC 5040 §4.2", error, headers,                                                       \
    "Each untagged message is on the queue of its opcode.")                                                            \
  X(rdmap_one_segment, "rdmap.one-segment", "RFC 5040 §4.2", error, headers,                                           \
    "Untagged messages other than Sends have one segment.")                                                            \
  X(rdmap_read_request_length, "rdmap.read-request-length", "RFC 5040 §4.4", error, headers,                           \
    "A Read Request has 28 octets.")                                                                                   \
  X(rdmap_read_wrap, "rdmap.read-wrap", "RFC 5040 §4.8", warning, payload,                                             \
    "Neither source nor sink of a Read Request wraps: TO and size end within 64 bits.")                                \
  X(rdmap_read_sink, "rdmap.read-sink", "RFC 5040 §4.5", error, both,                                                  \
    "A Read Response goes to the sink of its request, from there on without a gap.")                                   \
  X(rdmap_read_gap, "rdmap.read-gap", "RFC 5040 §4.5", error, both,                                                    \
    "Each octet that a Read asked for is sent before the response is over.")                                           \
  X(rdmap_read_length, "rdmap.read-length", "RFC 5040 §5.2", error, both,                                              \
    "A Read Response has as many octets as its request asked for.")                                                    \
  X(rdmap_read_unasked, "rdmap.read-unasked", "RFC 5040 §5.2", error, both,                                            \
    "A Read Response answers an outstanding Read Request.")                                                            \
  X(rdmap_read_unanswered, "rdmap.read-unanswered", "RFC 5040 §5.2", note, end,                                        \
    "Each Read Request gets a whole answer.")                                                                          \
  X(rdmap_empty_read_refused, "rdmap.empty-read-refused", "RFC 5040 §5.2", error, both,                                \
    "The source of a zero-length Read is not checked.")                                                                \
  X(rdmap_read_limit, "rdmap.read-limit", "RFC 5040 §5.2.1", error, both,                                              \
    "A side has no more Reads and Atomics outstanding than were agreed.")                                              \
  X(rdmap_terminated, "rdmap.terminated", "RFC 5040 §5.4", note, headers, "A Terminate ends the stream.")              \
  X(rdmap_after_terminate, "rdmap.after-terminate", "RFC 5040 §5.4", error, side,                                      \
    "A side sends nothing after its Terminate.")                                                                       \
  X(rdmap_no_cause, "rdmap.no-cause", "RFC 5040 §5.4", warning, both,                                                  \
    "A Terminate answers something that the other side sent.")                                                         \
  X(rdmap_no_terminate, "rdmap.no-terminate", "RFC 5040 §7.2", warning, end,                                           \
    "A side that receives a fault sends a Terminate before it ends.")                                                  \
  X(rdmap_other_terminate, "rdmap.other-terminate", "RFC 5040 §7.2", warning, both,                                    \
    "A Terminate names the fault that it answers.")                                                                    \
  X(rdmap_reset_early, "rdmap.reset-early", "RFC 5040 §6.2.1", warning, both,                                          \
    "A side does not reset the connection before its Terminate is acknowledged.")                                      \
  X(rdmap_terminate_length, "rdmap.terminate-length", "RFC 5040 §4.8", error, headers,                                 \
    "A Terminate has its control word and what M, D and R announce, and nothing after that.")                          \
  X(rdmap_terminate_reserved, "rdmap.terminate-reserved", "RFC 5040 §4.8", error, headers,                             \
    "Reserved bits of a Terminate are 0.")                                                                             \
  X(rdmap_terminate_bits, "rdmap.terminate-bits", "RFC 5040 §4.8", error, headers,                                     \
    "M and D are set together, and R only with them.")                                                                 \
  X(rdmap_terminate_order, "rdmap.terminate-order", "RFC 5040 §4.8", error, both,                                      \
    "Layer and error type are in the upper and the lower half of a Terminate's first octet (Linux siw exchanges "      \
    "them).")                                                                                                          \
  X(rdmap_terminate_meaning, "rdmap.terminate-meaning", "RFC 5040 §4.8", warning, headers,                             \
    "Layer, error type and code of a Terminate are registered.")                                                       \
  X(rdmap_terminate_parts, "rdmap.terminate-parts", "RFC 5040 §4.8", warning, headers,                                 \
    "A Terminate has the headers that its error calls for, and no others.")                                            \
  X(rdmap_terminate_read, "rdmap.terminate-read", "RFC 5040 §4.8", error, headers,                                     \
    "R is set only in a Terminate that concerns a Read Request.")                                                      \
  X(rdmap_terminate_header, "rdmap.terminate-header", "RFC 5040 §4.8", error, both,                                    \
    "The DDP header in a Terminate is one that the other side sent.")                                                  \
  X(rdmap_terminate_segment, "rdmap.terminate-segment", "RFC 5040 §4.8", error, both,                                  \
    "The segment length in a Terminate is that of the terminated segment, header and payload.")                        \
  X(rdmap_terminate_type, "rdmap.terminate-type", "RFC 6580 §3.3", warning, headers,                                   \
    "An MPA error has error type 0 (hardware of Chelsio and Intel sends 3).")                                          \
  X(rdmap_immediate_length, "rdmap.immediate-length", "RFC 7306 §6.3", error, headers, "Immediate Data has 8 octets.") \
  X(rdmap_atomic_length, "rdmap.atomic-length", "RFC 7306 §5.2", error, headers,                                       \
    "An Atomic Request has 52 octets, and an Atomic Response 12.")                                                     \
  X(rdmap_atomic_reserved, "rdmap.atomic-reserved", "RFC 7306 §5.2.1", error, headers,                                 \
    "Reserved bits next to the AOpCode are 0.")                                                                        \
  X(rdmap_atomic_opcode, "rdmap.atomic-opcode", "RFC 7306 §5.2.1", error, headers,                                     \
    "The AOpCode is an assigned one: FetchAdd or CmpSwap.")                                                            \
  X(rdmap_atomic_address, "rdmap.atomic-address", "RFC 7306 §5.1", error, headers,                                     \
    "TO of an Atomic is a multiple of 8.")                                                                             \
  X(rdmap_answer_order, "rdmap.answer-order", "RFC 7306 §5.1", error, both,                                            \
    "Reads and Atomics are answered in the order of their requests.")                                                  \
  X(rdmap_atomic_unasked, "rdmap.atomic-unasked", "RFC 7306 §5.2.2", error, both,                                      \
    "An Atomic Response answers an outstanding request.")                                                              \
  X(rdmap_atomic_order, "rdmap.atomic-order", "RFC 7306 §5.2.2", error, both,                                          \
    "Atomics are answered in the order of their requests.")

#endif
