/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later */
/* Parley's own messages of a staged QP negotiation (docs/negotiation.md). Big-endian.
 * Plain C11 so that the C++ codec and the Wireshark plugin share one source of truth. */
#ifndef PARLEY_WIRE_NEG_H
#define PARLEY_WIRE_NEG_H

/* Header: magic(4) version(1) type(1) stage(1) flags(1) round(2) reserved(2) length(4), then `length` octets. */
#define PARLEY_NEG_HEADER_LEN 16
#define PARLEY_NEG_MAGIC "QPng"
#define PARLEY_NEG_MAGIC_LEN 4
#define PARLEY_NEG_VERSION 1
#define PARLEY_NEG_LENGTH_MAX 0x100000 /* of the octets after a header; a session may allow less */

/* X(name, value, text) */
#define PARLEY_NEG_TYPES(X)                          \
  X(hello, 1, "Hello: what the initiator asks for")  \
  X(welcome, 2, "Welcome: the responder agrees")     \
  X(turn, 3, "Turn: what a variant says in a stage") \
  X(abort, 4, "Abort: the session has failed")

#define PARLEY_NEG_STAGES(X) \
  X(none, 0, "no stage")     \
  X(info, 1, "info")         \
  X(ready, 2, "ready")       \
  X(done, 3, "done")

/* X(name, mask, text): flags of a Turn. */
#define PARLEY_NEG_FLAGS(X) X(last, 0x80, "the sender's part of the stage is over")
#define PARLEY_NEG_FLAG_LAST 0x80

/* Hello, Welcome and Abort hold items: type(2) length(2) value. An unknown type is skipped, unless its top bit is set.
 * error: 2 octets, one of PARLEY_NEG_ERRORS. */
#define PARLEY_NEG_ITEM_LEN 4
#define PARLEY_NEG_ITEM_CRITICAL 0x8000
#define PARLEY_NEG_ITEMS(X)                       \
  X(plugin, 0x8001, "plug-in")                    \
  X(variant, 0x8002, "variant")                   \
  X(done_stage, 0x8003, "the done stage follows") \
  X(label, 0x0004, "label of the session")        \
  X(error, 0x8010, "error")                       \
  X(text, 0x0011, "what happened")                \
  X(advice, 0x0012, "what to try")

/* The Turns of verbs-rc, verbs-uc, verbs-ud, verbs-xrc and manual.
 * info: version(1) transport(1) reserved(2), then items as above. ready: one octet, PARLEY_NEG_READY. done: nothing. */
#define PARLEY_NEG_QP_HEADER_LEN 4
#define PARLEY_NEG_QP_VERSION 1
#define PARLEY_NEG_TRANSPORTS(X) \
  X(rc, 1, "RC")                 \
  X(uc, 2, "UC")                 \
  X(ud, 3, "UD")                 \
  X(xrc, 4, "XRC")
/* X(name, type, octets, text) */
#define PARLEY_NEG_QP_ITEMS(X)                                         \
  X(qpn, 0x8001, 4, "queue pair number")                               \
  X(psn, 0x8002, 4, "first packet sequence number")                    \
  X(lid, 0x0003, 2, "LID")                                             \
  X(gid, 0x0004, 16, "GID")                                            \
  X(mtu, 0x0005, 4, "path MTU in octets")                              \
  X(ird, 0x0006, 1, "RDMA Reads and Atomics that it answers at once")  \
  X(ord, 0x0007, 1, "RDMA Reads and Atomics that it begins at once")   \
  X(qkey, 0x8008, 4, "Q_Key")                                          \
  X(srqn, 0x8009, 4, "number of the shared receive queue")             \
  X(ini_qpn, 0x800A, 4, "queue pair number of the sending end")        \
  X(memory, 0x000B, 20, "R_Key, virtual address and length of memory") \
  X(tests, 0x000C, 0, "it can send and receive a test message")
/* X(name, value, text) */
#define PARLEY_NEG_READY(X)                      \
  X(ready, 1, "the queue pair is in RTS")        \
  X(seen, 2, "the peer's test message has come") \
  X(waiting, 3, "the peer's test message has not come yet")
/* The test message: magic(4) qpn(4) psn(4), from the sender's attributes. */
#define PARLEY_NEG_TEST_MAGIC "QPtm"
#define PARLEY_NEG_TEST_LEN 12

/* X(name, value, layer, text): why a session failed. The layers and names are those of the framework's design. */
#define PARLEY_NEG_ERRORS(X)                                                      \
  X(connection_timeout, 0x0101, transport, "the peer did not answer in time")     \
  X(server_unreachable, 0x0102, transport, "the server cannot be reached")        \
  X(connection_lost, 0x0103, transport, "the peer closed the connection")         \
  X(protocol_violation, 0x0104, transport, "the peer does not keep the protocol") \
  X(serialization_failure, 0x0201, plugin, "the local data cannot be written")    \
  X(invalid_peer_data, 0x0202, plugin, "the peer's data cannot be used")          \
  X(resource_exhaustion, 0x0203, plugin, "a resource has run out")                \
  X(vendor_library_error, 0x0204, plugin, "the vendor's library failed")          \
  X(configuration_error, 0x0205, plugin, "the configuration is wrong")            \
  X(plugin_not_found, 0x0301, framework, "there is no such plug-in")              \
  X(variant_not_available, 0x0302, framework, "the plug-in has no such variant")  \
  X(session_timeout, 0x0303, framework, "the session took too long")              \
  X(unexpected_exception, 0x0304, framework, "the plug-in threw an exception")    \
  X(plugin_refused, 0x0305, framework, "the plug-in does not meet its interface") \
  X(too_many_rounds, 0x0306, framework, "the plug-in does not come to an end")

#endif
