// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE provider: the InfiniBand CM (cm/ibcm) and software queue pairs (nic/roce) over any PacketPort driver. Pure code.
// docs/roce.md describes how a connection passes through it.
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

/// Implements both interfaces: Provider towards the Manager, PacketMachine towards the driver.
class RoceProvider : public Provider, public PacketMachine {
 public:
  /// Commands or posted work wait for the driver's next turn.
  virtual bool has_work() const = 0;
  virtual std::size_t endpoint_count() const = 0;
  /// Counters of its device (nic/roce/device.hpp).
  virtual const nic::roce::Counters& device_counters() const = 0;
  /// Counters of its connection manager (cm/ibcm/events.hpp).
  virtual const ibcm::Counters& cm_counters() const = 0;
  /// Sets the driver's multicast groups; not owned. Null (the default): attach_multicast() is refused.
  virtual void set_groups(PacketGroups* groups) noexcept = 0;
  /// The host ends: all connections are aborted, and the messages to their peers are ready to be sent.
  virtual void reset_all(Instant now) noexcept = 0;
};

/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const RoceProviderOptions& options);
/// `options` must have passed check_options; ca_guid and seed are not 0.
std::unique_ptr<RoceProvider> make_roce_provider(const RoceProviderOptions& options);

}  // namespace parley::cm
