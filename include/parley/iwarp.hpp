// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is specific to iWARP: Terminate, 64-bit Immediate Data and RDMAP's own queue pair states. Also the settings of the
// iWARP provider, which docs/cm.md explains.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parley/time.hpp"
#include "parley/verbs.hpp"

namespace parley::iwarp {

/// RDMAP's states of a queue pair. QueuePair::state() maps them to the verbs' states (docs/verbs.md).
enum class QpState : std::uint8_t { idle, rts, closing, terminate, error };
std::string_view to_string(QpState state);

/// A Terminate (RFC 5040 §4.8), as events and tools report it.
struct TerminateInfo {
  std::uint8_t layer = 0, etype = 0, code = 0;
  bool sent = false;             ///< sent by this side; false: by the peer
  bool nibbles_swapped = false;  ///< the peer encoded octet 0 in the order of Linux siw
  std::string text;              ///< the registered meaning; both readings if swapped
};

/// RFC 7306 §6: 8 octets that go into the peer's completion instead of its memory.
struct ImmediateWr {
  std::uint64_t wr_id = 0;
  std::uint64_t data = 0;  ///< the 8 octets as a big-endian number
  bool signaled = true;
  bool solicited = false;  ///< Immediate Data with Solicited Event
  bool fence = false;      ///< wait for all earlier Reads and Atomics
};

/// A queue pair of an iWARP device; queue_pair() casts a verbs queue pair to it.
class QueuePair : public parley::QueuePair {
 public:
  /// Consumes a receive of the peer, which completes there as iwarp_recv_immediate with 8 octets. After an RDMA Write it
  /// has the effect of verbs' RDMA Write with Immediate, but as two messages with a completion each (RFC 7306 §6).
  /// Errors: as post_send.
  virtual Result<void> post_immediate(const ImmediateWr& wr) = 0;
  virtual QpState rdmap_state() const = 0;
  /// The first Terminate that was sent or received; empty if none was.
  virtual const std::optional<TerminateInfo>& terminate() const = 0;
};

/// Null for a null pointer or a queue pair of another transport.
QueuePair* queue_pair(parley::QueuePair* qp);

/// The Immediate Data as a big-endian number; 0 if the completion is not an iwarp_recv_immediate.
inline std::uint64_t immediate_data(const WorkCompletion& completion) {
  return completion.opcode == WcOpcode::iwarp_recv_immediate ? completion.transport_data : 0;
}

}  // namespace parley::iwarp

namespace parley::trace {
class Sink;
}

namespace parley::cm {

struct IwarpProviderOptions {
  /// If not 0: the tagged offset of the first registered region; later regions follow it. The octets on the wire then do
  /// not depend on memory addresses. 0: tagged offsets are addresses, as in verbs.
  std::uint64_t tagged_offset_base = 0;

  /// Closing: the longest time without progress in sending our octets, and then the longest wait for the peer's FIN.
  /// After that the stream is reset. More than 0.
  Duration linger = std::chrono::seconds(5);
  /// After the peer's FIN, our half closes as soon as all posted work is done, but not before this time has passed and
  /// the driver has had one more turn. The user can then still answer what arrived before the FIN (RFC 5044 §7.2). At
  /// least 0.
  Duration half_close_grace{};
  /// An initiator that sent an Rtr frame to an unknown peer waits this long for a Terminate before it concludes that the
  /// peer confirmed S and did not merely echo it. 0: concludes it at once.
  Duration echo_watch = std::chrono::milliseconds(20);
  /// Receives a trace of the connections (parley/trace.hpp). Not owned; must outlive the provider. Null: no trace.
  trace::Sink* trace = nullptr;
};

}  // namespace parley::cm
