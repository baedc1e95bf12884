// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What only iWARP has: Terminate, 64-bit Immediate Data and RDMAP's own states of a queue pair; and the settings of the
// iWARP provider, of which docs/cm.md says what each is for.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parley/time.hpp"
#include "parley/verbs.hpp"

namespace parley::iwarp {

/// RDMAP's states of a queue pair, of which QueuePair::state() shows the verbs' (docs/verbs.md).
enum class QpState : std::uint8_t { idle, rts, closing, terminate, error };
std::string_view to_string(QpState state);

/// A Terminate (RFC 5040 §4.8): where in the stream the queue pair's life ended, for events and tools.
struct TerminateInfo {
  std::uint8_t layer = 0, etype = 0, code = 0;
  bool sent = false;             ///< we sent it; false: the peer did
  bool nibbles_swapped = false;  ///< the peer wrote octet 0 in Linux siw's order
  std::string text;              ///< the registered meaning, and both readings if swapped
};

/// RFC 7306 §6: 8 octets that go to the peer's completion and not to its memory.
struct ImmediateWr {
  std::uint64_t wr_id = 0;
  std::uint64_t data = 0;  ///< the 8 octets as a big-endian number
  bool signaled = true;
  bool solicited = false;  ///< Immediate Data with Solicited Event
  bool fence = false;      ///< wait for all earlier Reads and Atomics
};

/// A queue pair of an iWARP device: queue_pair() finds it behind the one that verbs show.
class QueuePair : public parley::QueuePair {
 public:
  /// Uses up a receive of the peer, which completes there as iwarp_recv_immediate with 8 octets. Behind an RDMA Write
  /// it does what verbs' RDMA Write with Immediate does, in two messages of which each completes (RFC 7306 §6).
  /// Errors: as post_send.
  virtual Result<void> post_immediate(const ImmediateWr& wr) = 0;
  virtual QpState rdmap_state() const = 0;
  /// The Terminate that was sent or received first; none if there was none.
  virtual const std::optional<TerminateInfo>& terminate() const = 0;
};

/// Null for a null pointer and for a queue pair of another transport.
QueuePair* queue_pair(parley::QueuePair* qp);

/// What Immediate Data brought, as a big-endian number; 0 of any completion but an iwarp_recv_immediate.
inline std::uint64_t immediate_data(const WorkCompletion& completion) {
  return completion.opcode == WcOpcode::iwarp_recv_immediate ? completion.transport_data : 0;
}

}  // namespace parley::iwarp

namespace parley::trace {
class Sink;
}

namespace parley::cm {

struct IwarpProviderOptions {
  /// If not 0: the tagged offset of the first registered region. Regions follow one another from there, so that what
  /// goes over the wire does not depend on where memory lies. 0: tagged offsets are addresses, as in verbs.
  std::uint64_t tagged_offset_base = 0;

  /// Closing: how long our octets may wait to be sent without progress, and then how long the peer's FIN may take.
  /// After that the stream is reset. More than 0.
  Duration linger = std::chrono::seconds(5);
  /// After the peer's FIN our half is closed as soon as everything posted is done, but not before this has passed and
  /// the driver has had one more turn, so that the user can still answer what came before the FIN (RFC 5044 §7.2).
  Duration half_close_grace{};
  /// How long an initiator that sent an Rtr frame to an unknown peer watches for a Terminate before it believes that S
  /// was confirmed and not merely echoed. 0: believes it at once.
  Duration echo_watch = std::chrono::milliseconds(20);
  /// Gets what the connections do, step by step (parley/trace.hpp); not owned, and must outlive the provider. Null:
  /// nobody.
  trace::Sink* trace = nullptr;
};

}  // namespace parley::cm
