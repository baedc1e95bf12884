// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What only RoCE's queue pairs have: multicast groups, and what each of them counted (IBA vol. 1 §9, §10.5).
#pragma once
#include <array>
#include <cstdint>

#include "parley/verbs.hpp"

namespace parley::roce {

/// What one queue pair did since it was made or reset.
struct QpCounters {
  std::uint64_t packets_sent = 0, packets_received = 0;  ///< received: that passed the checks of headers and address
  std::uint64_t retries = 0;                             ///< times it went back to an earlier PSN
  std::uint64_t timeouts = 0;                            ///< of the ACK timer
  std::uint64_t naks_sent = 0, naks_received = 0;        ///< without RNR
  std::uint64_t rnr_sent = 0, rnr_received = 0;
  std::uint64_t duplicates = 0;                  ///< requests that had been executed already
  std::uint64_t cnp_sent = 0, cnp_received = 0;  ///< congestion notifications
};

/// A queue pair of a RoCE device: queue_pair() finds it behind the one that verbs show.
class QueuePair : public parley::QueuePair {
 public:
  virtual QpType type() const = 0;
  /// ibv_attach_mcast: datagrams to this group are received as well; a second call changes nothing. Errors: unsupported
  /// (not UD, or the host cannot join the group), invalid_argument (no multicast GID: ff00::/8, or an IPv4 group as
  /// ::ffff:224.0.0.0/100), no_space, wrong_state (a RoceHost that has no address yet), what the system says (docs/roce.md).
  virtual Result<void> attach_multicast(const std::array<std::uint8_t, 16>& group) = 0;
  /// ibv_detach_mcast. Errors: invalid_argument (not attached).
  virtual Result<void> detach_multicast(const std::array<std::uint8_t, 16>& group) = 0;
  virtual const QpCounters& counters() const = 0;
};

/// Null for a null pointer and for a queue pair of another transport.
QueuePair* queue_pair(parley::QueuePair* qp);

}  // namespace parley::roce
