// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley on the machine's RDMA devices, through librdmacm and libibverbs: the kernel and the NIC speak the protocol (RoCE's
// or InfiniBand's CM, or MPA of an iWARP NIC), and the same cm::Manager as everywhere stands above. docs/rdmacm.md says
// what differs from plain sockets.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parley/host.hpp"

namespace parley::trace {
class Sink;
}

namespace parley {

struct RdmaHostOptions {
  cm::ManagerOptions manager{};  ///< `resolve` has the bounds of searches for addresses and routes
  /// Longest wait for the answer to a connection request. The kernel by itself gives up after more than a minute.
  Duration reply_timeout = std::chrono::seconds(30);
  /// disconnect(): how long posted requests may take to complete before the connection is ended all the same.
  Duration linger = std::chrono::seconds(5);
  /// Gets what the connections do, step by step (parley/trace.hpp), and which messages of the kernel that implies; not
  /// owned, and must outlive the host. Null: nothing is recorded.
  trace::Sink* trace = nullptr;
};

/// What was made on its devices goes before it. Several in a process, and on several threads, have nothing in common.
class RdmaHost : public Host {
 public:
  /// Errors: unsupported (built without librdmacm), unreachable (the machine has no RDMA device, or its kernel no
  /// rdma_cm: the sentence says which), not_permitted, invalid_argument, no_space.
  static Result<std::unique_ptr<RdmaHost>> open(const RdmaHostOptions& options = {});
};

/// One GID of a port, and whether a connection may use it.
struct GidInfo {
  std::uint32_t index = 0;
  std::array<std::uint8_t, 16> gid{};
  enum class Kind : std::uint8_t { infiniband, roce_v1, roce_v2, iwarp } kind = Kind::infiniband;
  std::string interface;  ///< the network interface it belongs to; empty: none
  /// 0: the best. By version (RoCE v2 before v1), then by reach (routable before link-local).
  std::uint32_t rank = 0;
  std::string reason;  ///< of the rank, in words
};
struct PortInfo {
  std::uint32_t number = 1;
  std::string state;       ///< "ACTIVE", "DOWN", ...
  std::string link_layer;  ///< "Ethernet", "InfiniBand"
  std::uint32_t mtu = 0;   ///< octets, of those that RDMA may use
  std::vector<GidInfo> gids;
};
struct DeviceInfo {
  std::string name;
  DeviceAttr attr;
  std::vector<PortInfo> ports;
};
/// The machine's RDMA devices, as libibverbs sees them. Errors: unsupported, unreachable, not_permitted.
Result<std::vector<DeviceInfo>> list_rdma_devices();

}  // namespace parley
