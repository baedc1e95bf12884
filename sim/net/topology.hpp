// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The shape of a world: names of nodes and links, which links are allowed, and which links form one network. Every
// invalid request is refused here, with a sentence that names the error and its place.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parley/sim.hpp"

namespace parley::sim {

class Topology {
 public:
  static constexpr std::size_t nodes_max = 60'000;  ///< an IPv4 address has 16 bits for the host
  static constexpr std::size_t links_max = 500'000;
  static constexpr std::size_t host_ports_max = 200;  ///< each may be in a separate network, of 256
  static constexpr std::size_t switch_ports_max = 60'000;
  static constexpr std::size_t name_max = 64;
  static constexpr std::uint64_t rate_max = 100'000'000'000'000;
  static constexpr Duration delay_max = std::chrono::hours(1);

  /// A port of a host, and its current network.
  struct Placed {
    NodeId host = 0;
    std::uint16_t port = 0;
    std::uint8_t network = 0;
  };

  /// Errors: an invalid or duplicate name, an invalid MTU, too many NICs.
  static Checked<void> check_nics(std::string_view host, const std::vector<NicOptions>& nics);
  /// The host ports that a link uses; none: the next free one.
  using Ports = std::array<std::optional<std::uint16_t>, 2>;

  Checked<NodeId> add_node(std::string_view name, bool is_switch);
  /// `placed` receives every host port whose network is new or has changed.
  Checked<LinkId> add_link(NodeId a, NodeId b, const LinkOptions& options, std::vector<Placed>& placed,
                           const Ports& wanted = {});

  std::size_t node_count() const { return nodes_.size(); }
  std::size_t link_count() const { return links_.size(); }
  bool is_switch(NodeId node) const { return nodes_[node].is_switch; }
  const std::string& name(NodeId node) const { return nodes_[node].name; }
  std::optional<NodeId> find(std::string_view name) const;
  const LinkOptions& options(LinkId link) const { return links_[link].options; }
  NodeId end(LinkId link, std::uint8_t end) const { return links_[link].ends[end & 1]; }
  LinkEndInfo end_info(LinkId link, std::uint8_t end) const;
  std::uint16_t port(LinkId link, std::uint8_t end) const { return links_[link].ports[end & 1]; }
  /// The number of the network of links joined by switches.
  std::uint32_t segment(LinkId link) const { return links_[link].segment; }
  std::string link_name(LinkId link) const { return link_name(end(link, 0), end(link, 1)); }

 private:
  static constexpr std::uint32_t none = ~0u;
  struct Node {
    std::string name;
    bool is_switch = false;
    std::vector<LinkId> ports;
  };
  struct Link {
    std::array<NodeId, 2> ends{};
    std::array<std::uint16_t, 2> ports{};
    LinkOptions options{};
    std::uint32_t segment = 0;
  };
  /// Links joined by switches.
  struct Segment {
    std::vector<LinkId> links;
    std::uint8_t network = 0;
  };

  std::string link_name(NodeId a, NodeId b) const { return nodes_[a].name + "-" + nodes_[b].name; }
  std::string check(NodeId a, NodeId b, const LinkOptions& options) const;
  std::string check_options(const LinkOptions& options) const;
  std::string check_ports(NodeId node) const;
  std::string path(NodeId from, NodeId to) const;
  std::uint32_t segment_of(NodeId node) const;
  std::uint32_t join(std::uint32_t a, std::uint32_t b);
  std::optional<std::uint8_t> free_network(std::uint32_t segment, std::uint8_t wanted) const;
  bool clashes(NodeId node, std::uint32_t segment) const;
  template <class Visit>
  void each_host_port(std::uint32_t segment, Visit visit) const;

  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<Segment> segments_;
  std::map<std::string, NodeId, std::less<>> names_;
};

}  // namespace parley::sim
