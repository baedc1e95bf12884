// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE provider: the InfiniBand CM (cm/ibcm) and software queue pairs (nic/roce) over any PacketPort driver. Pure.
// How a connection goes through it: docs/roce.md.
#pragma once
#include <memory>

#include "base/packet_groups.hpp"
#include "base/packet_port.hpp"
#include "cm/provider.hpp"
#include "parley/roce_options.hpp"

namespace parley::nic::roce {
struct Counters;
}
namespace parley::cm::ibcm {
struct Counters;
}

namespace parley::cm {

/// Both seams in one object: Provider upwards, PacketMachine downwards.
class RoceProvider : public Provider, public PacketMachine {
 public:
  /// Commands or posted work wait for the driver's next turn.
  virtual bool has_work() const = 0;
  virtual std::size_t endpoint_count() const = 0;
  /// Of its device (nic/roce/device.hpp).
  virtual const nic::roce::Counters& device_counters() const = 0;
  /// Of its connection manager (cm/ibcm/events.hpp).
  virtual const ibcm::Counters& cm_counters() const = 0;
  /// Who joins multicast groups; it stays the caller's. Null, as at first: nobody does, and attach_multicast() is refused.
  virtual void set_groups(PacketGroups* groups) noexcept = 0;
  /// The host ends: every connection is given up, and what tells the peers is ready to be sent.
  virtual void reset_all(Instant now) noexcept = 0;
};

/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const RoceProviderOptions& options);
/// `options` have passed check_options; ca_guid and seed are not 0.
std::unique_ptr<RoceProvider> make_roce_provider(const RoceProviderOptions& options);

}  // namespace parley::cm
