// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley on the machine's RDMA devices, through librdmacm and libibverbs. The kernel and the NIC implement the protocol (the
// CM of RoCE or InfiniBand, or MPA of an iWARP NIC), below the same cm::Manager as on all other hosts. docs/rdmacm.md lists
// the differences from plain sockets.
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
  cm::ManagerOptions manager{};  ///< `resolve` bounds the searches for addresses and routes
  /// Longest wait for the reply to a connection request. The kernel's own limit is more than a minute.
  Duration reply_timeout = std::chrono::seconds(30);
  /// disconnect(): how long posted requests may take to complete; then the connection is ended anyway.
  Duration linger = std::chrono::seconds(5);
  /// Receives a trace of the connections, with the kernel's messages as implied by its events (parley/trace.hpp). Not
  /// owned; must outlive the host. Null: no trace.
  trace::Sink* trace = nullptr;
};

/// Destroy everything created on its devices before the host. Several hosts in a process, on any threads, are independent.
class RdmaHost : public Host {
 public:
  /// Errors: unsupported (built without librdmacm), unreachable (the machine has no RDMA device, or its kernel has no
  /// rdma_cm: the message says which), not_permitted, invalid_argument, no_space.
  static Result<std::unique_ptr<RdmaHost>> open(const RdmaHostOptions& options = {});
};

/// One GID of a port, and whether a connection may use it.
struct GidInfo {
  std::uint32_t index = 0;
  std::array<std::uint8_t, 16> gid{};
  enum class Kind : std::uint8_t { infiniband, roce_v1, roce_v2, iwarp } kind = Kind::infiniband;
  std::string interface;  ///< its network interface; empty: none
  /// 0: the best. Ordered by version (RoCE v2 before v1), then by scope (routable before link-local).
  std::uint32_t rank = 0;
  std::string reason;  ///< explains the rank
};
struct PortInfo {
  std::uint32_t number = 1;
  std::string state;       ///< "ACTIVE", "DOWN", ...
  std::string link_layer;  ///< "Ethernet", "InfiniBand"
  std::uint32_t mtu = 0;   ///< active MTU for RDMA, in bytes
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
