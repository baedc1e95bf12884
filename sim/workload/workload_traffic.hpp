// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The transfers of one end of a connection over its queue pair, as its host sees them: workload_transfer.hpp over
// connections, workload_datagrams.hpp over UD.
#pragma once
#include <optional>
#include <string>

#include "parley/verbs.hpp"
#include "sim/check/delivery.hpp"
#include "sim/check/history.hpp"

namespace parley::sim {

inline constexpr std::uint64_t receive_bit = std::uint64_t{1} << 63;  ///< distinguishes receives from sends in a wr_id

struct TransferPlan {
  Transfer kind = Transfer::send;
  std::uint32_t messages = 1;
  std::uint32_t octets = 64;
  bool both_ways = true;
  std::uint32_t number = 0;  ///< number of the attempt, for the pattern
  mpa::Role role = mpa::Role::initiator;
  std::uint16_t ird = 0;  ///< responder: the initiator's limit of outstanding Reads
  /// InfiniBand's queue pairs: sends are posted from Established on (IBA §10.3.1), and neither side must speak first.
  bool roce = false;
  const bool* touched = nullptr;  ///< RoCE: a fault has touched it, so requests may fail when the peer no longer
                                  ///< answers

  bool initiator() const { return role == mpa::Role::initiator; }
  check::Direction outgoing() const {
    return initiator() ? check::Direction::to_responder : check::Direction::to_initiator;
  }
  check::Direction incoming() const {
    return initiator() ? check::Direction::to_initiator : check::Direction::to_responder;
  }
};

class Traffic {
 public:
  virtual ~Traffic() = default;
  /// Allocates memory and regions. Errors: those of the device.
  virtual Result<void> open(Device& device, PdHandle pd) = 0;
  virtual QpInit qp_init(PdHandle pd, CompletionQueue* cq) const = 0;
  /// Posts receives, and requests that need not wait for the peer. `qp` lives until the end.
  virtual void use(QueuePair& qp, Instant now) = 0;
  virtual void established(const mpa::Parameters& parameters, Instant now) = 0;
  virtual void completed(const WorkCompletion& completion, Instant now) = 0;
  /// This end has sent and received everything.
  virtual bool finished() const = 0;
  /// The connection has ended: nothing more is posted, and every completion was passed in.
  virtual void ended(Instant now) const = 0;
  /// After the queue pair is destroyed. Errors: a region that is still in use.
  virtual Result<void> close(Device& device) = 0;
  /// Increases with every completion.
  virtual std::uint64_t progress() const = 0;
  virtual std::string pending() const = 0;  ///< as text
  /// How long it waits for messages that may never arrive before it continues without them. None: they arrive, or the
  /// connection fails.
  virtual std::optional<Duration> longest_silence() const { return std::nullopt; }
  virtual void silent(Instant now) { (void)now; }
};

}  // namespace parley::sim
