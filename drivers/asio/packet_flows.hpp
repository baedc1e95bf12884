// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State that the packets of one path share, cached between packets.
#pragma once
#include <array>
#include <cstdint>

#include "base/packet_port.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::asio_driver {

inline bool same_path(const PacketPath& a, const PacketPath& b) {
  return a.source_port == b.source_port && a.peer == b.peer && a.local == b.local &&
         a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
}

struct PacketFlow {
  std::uint64_t id = 0;  // never reused; 0: none
  PacketPath path;       // its `way` is `id`
  wire::ib::IcrcSealer sealer;
  int fd = -1;                  // the socket that sends,
  std::uint16_t port = 0;       // and its UDP port
  std::uint32_t interface = 0;  // outgoing interface for an IPv6 group; 0: by the system's routes
};

/// The recently used flows of one direction. Flows that share a place in the table evict each other.
class PacketFlows {
 public:
  /// The flow of a path. `make` initialises a new one; its id and path are already set.
  template <class Make>
  PacketFlow& of(const PacketPath& path, Make&& make) {
    PacketFlow& flow = flows_[place_of(path)];
    if (flow.id != 0 && same_path(flow.path, path)) return flow;
    flow = PacketFlow{.id = ++last_id_, .path = path};
    flow.path.way = flow.id;
    make(flow);
    return flow;
  }
  /// The sockets have changed.
  void forget() {
    for (PacketFlow& flow : flows_) flow.id = 0;
  }

 private:
  static constexpr std::size_t places = 16;
  static std::size_t place_of(const PacketPath& path) {
    return (path.source_port + 7U * path.peer.octets[3] + 3U * path.peer.octets[15]) % places;
  }

  std::array<PacketFlow, places> flows_;
  std::uint64_t last_id_ = 0;
};

}  // namespace parley::asio_driver
