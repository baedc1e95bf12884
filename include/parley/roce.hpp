// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is specific to RoCE's queue pairs: multicast groups, and counters per queue pair (IBA vol. 1 §9, §10.5).
#pragma once
#include <array>
#include <cstdint>

#include "parley/verbs.hpp"

namespace parley::roce {

/// Counters of one queue pair since it was created or reset.
struct QpCounters {
  std::uint64_t packets_sent = 0, packets_received = 0;  ///< received: passed the checks of headers and address
  std::uint64_t retries = 0;                             ///< returns to an earlier PSN
  std::uint64_t timeouts = 0;                            ///< of the ACK timer
  std::uint64_t naks_sent = 0, naks_received = 0;        ///< other than RNR
  std::uint64_t rnr_sent = 0, rnr_received = 0;
  std::uint64_t duplicates = 0;                  ///< requests that had already been executed
  std::uint64_t cnp_sent = 0, cnp_received = 0;  ///< congestion notifications
};

/// A queue pair of a RoCE device; queue_pair() casts a verbs queue pair to it.
class QueuePair : public parley::QueuePair {
 public:
  virtual QpType type() const = 0;
  /// ibv_attach_mcast: also receives datagrams to this group; a repeated call has no effect. Errors: unsupported
  /// (not UD, or the host cannot join the group), invalid_argument (not a multicast GID: ff00::/8, or an IPv4 group as
  /// ::ffff:224.0.0.0/100), no_space, wrong_state (a RoceHost without an address), errors of the system (docs/roce.md).
  virtual Result<void> attach_multicast(const std::array<std::uint8_t, 16>& group) = 0;
  /// ibv_detach_mcast. Errors: invalid_argument (not attached).
  virtual Result<void> detach_multicast(const std::array<std::uint8_t, 16>& group) = 0;
  virtual const QpCounters& counters() const = 0;
};

/// Null for a null pointer or a queue pair of another transport.
QueuePair* queue_pair(parley::QueuePair* qp);

}  // namespace parley::roce
