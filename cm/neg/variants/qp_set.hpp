// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The queue pairs of one negotiation: the attributes of both sides, checked, and the transitions to RTR and RTS.
#pragma once
#include <utility>

#include "parley/neg_qp.hpp"

namespace parley::neg {

class QpSet {
 public:
  /// Opens a driver for each queue pair. `drivers` is only used during the call. Errors: those of the driver.
  static Outcome<QpSet> open(const QpDrivers& drivers, Transport transport, std::uint32_t count, const Config& config);

  std::size_t size() const { return pairs_.size(); }
  const QpAttributes& local(std::size_t i) const { return pairs_[i].local; }
  /// Checks the peer's attributes of queue pair i, and sets what depends on both sides. Errors: invalid_peer_data.
  Outcome<void> set_peer(std::size_t i, const QpAttributes& peer);
  Outcome<void> to_rtr();
  Outcome<void> to_rts();
  /// For drivers that connect. True: all are connected.
  Outcome<bool> connect();
  /// The GID of the peer's queue pair i according to the connection manager; zeros: unknown.
  const std::array<std::uint8_t, 16>& peer_gid(std::size_t i) const { return pairs_[i].peer.gid; }
  QpDriver& driver(std::size_t i) { return *drivers_[i]; }
  void set_tested() {
    for (QpPair& pair : pairs_) pair.tested = true;
  }
  void set_played(Played played) { pairs_.front().played = std::move(played); }
  /// Empty until the peer's attributes have arrived.
  std::vector<QpPair> agreed() const { return heard_ == pairs_.size() ? pairs_ : std::vector<QpPair>(); }

 private:
  std::vector<std::unique_ptr<QpDriver>> drivers_;
  std::vector<QpPair> pairs_;
  std::size_t heard_ = 0;
};

/// Whether the driver "manual" is selected: by name, by given values, or because there is no other.
bool means_manual(const QpDrivers& drivers, const Config& config);
/// "driver" and the parameters of the drivers.
std::vector<Parameter> driver_parameters(const QpDrivers& drivers);

}  // namespace parley::neg
