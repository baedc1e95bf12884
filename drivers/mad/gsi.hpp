// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// QP1 of Parley's RoCE device (IBA §13.5, §A17) as a transport: management datagrams except those of QP0, to GIDs. The
// device is driven elsewhere: see nic/roce/device.hpp for its packets.
#pragma once
#include "mad/transport.hpp"
#include "nic/roce/device.hpp"

namespace parley::mad_driver {

/// A RoCE port as a mad::LocalPort: its GID, and no LID.
mad::LocalPort roce_port(const Gid& gid);

class GsiTransport final : public mad::Transport {
 public:
  /// `device` must outlive this, and its management datagrams must not be polled elsewhere. Datagrams are sent from the
  /// GID at `gid_index`.
  explicit GsiTransport(nic::roce::RoceDevice& device, std::uint8_t gid_index = 0);

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return local_; }
  /// Errors: invalid_argument, without a destination GID and for any size but 256 octets.
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  bool poll_changed() override { return false; }
  int fd() const override { return -1; }
  bool wants_to_send() const override { return false; }

 private:
  nic::roce::RoceDevice& device_;
  std::uint8_t gid_index_;
  mad::TransportFacts facts_{.smp = false, .lids = false, .window_max = 512};
  mad::LocalPort local_;
  nic::roce::MadIn held_;
};

}  // namespace parley::mad_driver
