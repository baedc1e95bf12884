// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Default choice of device, port and GID for a queue pair.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/gid.hpp"
#include "parley/address.hpp"
#include "parley/rdma_host.hpp"

namespace parley::verbs {

/// The user's preferences; unset values are chosen.
struct GidPreference {
  std::string device;
  std::optional<std::uint32_t> port, index;
  std::optional<Gid> gid;
  /// The destination of the queue pair, and the source address of the IP route to it.
  std::optional<Address> peer, source;
};

struct GidChoice {
  const DeviceInfo* device = nullptr;
  const PortInfo* port = nullptr;
  const GidInfo* gid = nullptr;
  std::string reason;  ///< for the choice, as text
};

/// RoCE v2 before v1; then the GID of the source address of the IP route to the peer; then the peer's family; then
/// routable before link-local; then the order of devices, ports and indices. Only active ports are chosen, and no iWARP
/// device, because only rdma_cm can connect its queue pairs. Errors: a sentence that lists what is available.
tl::expected<GidChoice, std::string> choose_gid(std::span<const DeviceInfo> devices, const GidPreference& preference);

}  // namespace parley::verbs
