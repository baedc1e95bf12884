// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which device, port and GID a queue pair is made on when nobody says so.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "base/gid.hpp"
#include "parley/address.hpp"
#include "parley/rdma_host.hpp"

namespace parley::verbs {

/// What a user asks for; what is not set is chosen.
struct GidWish {
  std::string device;
  std::optional<std::uint32_t> port, index;
  std::optional<Gid> gid;
  /// Where the queue pair shall reach, and the address from which IP goes there.
  std::optional<Address> peer, source;
};

struct GidChoice {
  const DeviceInfo* device = nullptr;
  const PortInfo* port = nullptr;
  const GidInfo* gid = nullptr;
  std::string reason;  ///< of the choice, in words
};

/// RoCE v2 before v1; then the GID that is the address from which IP goes to the peer; then the peer's family; then
/// routable before link-local; then the order of devices, ports and indices. Only active ports are chosen, and no iWARP
/// device, whose queue pairs rdma_cm alone connects. Errors: a sentence that says what there is instead.
tl::expected<GidChoice, std::string> choose_gid(std::span<const DeviceInfo> devices, const GidWish& wish);

}  // namespace parley::verbs
