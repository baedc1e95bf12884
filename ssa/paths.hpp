// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Path records out of a database (paths_schema.hpp), as subnet administration would answer.
//
// The route of a packet depends on its destination LID and on the switches alone. All hosts of a leaf switch therefore
// share one half world, the paths from that switch to every LID; a host adds its link, its P_Keys and the way back.
//
//   const auto map = *PathMap::create(*snapshot);
//   const LeafPaths leaf = map->leaf_paths(map->end(host).leaf);      // once for all hosts of the leaf
//   map->host_paths(leaf, host, paths);                               // paths[dlid]
//   const auto record = map->find({.slid = 5, .dlid = 9});            // a single one
#pragma once
#include <optional>
#include <utility>

#include "ssa/paths_p_keys.hpp"
#include "ssa/paths_schema.hpp"
#include "wire/mad/sa.hpp"

namespace parley::ssa {

/// Index of an end port or a switch in a PathMap.
using EndId = std::uint32_t;
using SwitchId = std::uint32_t;
inline constexpr std::uint32_t no_end = ~0U, no_switch = ~0U;
/// GIDs with it are of the subnet, whatever its prefix (IBA §4.1.1).
inline constexpr std::uint64_t link_local_prefix = 0xFE80000000000000;
inline constexpr std::size_t path_nodes_max = 65536, path_ends_max = 65536;
inline constexpr std::size_t lids_max = 0xC000;                   ///< LIDs from here on are multicast (IBA §4.1.3)
inline constexpr std::size_t subnet_switches_max = lids_max - 1;  ///< each switch needs a LID
/// A packet that passes more switches is taken to be in a loop. opensm has the same limit.
inline constexpr unsigned path_switches_max = 64;

Gid gid_of_port(std::uint64_t prefix, std::uint64_t guid);

/// Why there is no path.
enum class PathFault : std::uint8_t {
  none,
  unknown_lid,  ///< no port has the LID
  no_route,     ///< a switch has no egress port for the LID
  no_link,      ///< the egress port, or the host's, has no link
  wrong_end,    ///< the route ends at another port
  loop,         ///< more than path_switches_max switches
  no_p_key      ///< no P_Key by which the two ports may talk
};

/// From a leaf switch to one LID. All are 0 if there is a fault.
struct LeafPath {
  std::uint8_t mtu = 0;   ///< code of the least MTU
  std::uint8_t rank = 0;  ///< rate_rank() of the least rate
  std::uint8_t sl = 0;    ///< of the table SL; or no_sl
  PathFault fault = PathFault::unknown_lid;
  bool operator==(const LeafPath&) const = default;
};
struct LeafPaths {
  SwitchId leaf = no_switch;
  std::vector<LeafPath> by_lid;
};

/// From a host to one LID. All are 0 if there is a fault.
struct HostPath {
  std::uint16_t p_key = 0;  ///< with the member bit of the source; if the query has a P_Key, that of the query
  std::uint8_t mtu = 0, rate = 0;
  std::uint8_t sl = 0, packet_life_time = 0;
  bool reversible = false;  ///< there is a route back to the host's base LID
  PathFault fault = PathFault::unknown_lid;
  bool operator==(const HostPath&) const = default;
};

/// An end port: a port of an adapter or router, or port 0 of a switch.
struct PathEnd {
  std::uint64_t guid = 0;
  std::uint16_t lid = 0;
  std::uint8_t lmc = 0;
  std::uint8_t mtu = 0, rank = 0;            ///< of the port
  std::uint8_t link_mtu = 0, link_rank = 0;  ///< the least of the port and its peer; for a switch, of port 0
  SwitchId leaf = no_switch;                 ///< the switch at its link; for a switch, the switch itself
  EndId peer = no_end;                       ///< the end port at its link, if there is no switch
  PKeySets::Id p_keys = 0;

  bool has_lid(std::uint16_t asked) const { return lid != 0 && asked >= lid && asked < lid + (1U << lmc); }
};

/// Either a GID or a LID of each end; both must belong to the same port.
struct PathQuery {
  std::optional<Gid> sgid{}, dgid{};
  std::uint16_t slid = 0, dlid = 0;  ///< 0: the base LID
  std::uint16_t p_key = 0;           ///< 0: any; its member bit does not matter
};

/// What a map may need. Its other parts have bounded multiples of the database's size.
struct PathLimits {
  /// Octets of what is reserved for each port of a node and for each switch: ports, egress ports, and the rows of the
  /// tables LFT and SL, each with an octet for each LID.
  std::size_t octets_max = std::size_t{1} << 29;
  std::size_t p_keys_max = std::size_t{1} << 22;  ///< entries of all different P_Key tables together
};

/// Immutable; any number of threads may read it.
class PathMap {
 public:
  /// Errors: malformed (a record that is out of range, names a missing record, or contradicts another one; says which),
  /// no_space (limits).
  static Result<std::shared_ptr<const PathMap>> create(const Snapshot& snapshot, const PathLimits& limits = {});

  std::span<const PathEnd> ends() const { return ends_; }
  const PathEnd& end(EndId id) const { return ends_[id]; }
  std::size_t switches() const { return switch_ends_.size(); }
  /// One more than the greatest LID of a port; the size of a half world.
  std::size_t lids() const { return stride_; }
  /// no_end if no port has it.
  EndId end_of_lid(std::uint16_t lid) const { return lid < stride_ ? owner_[lid] : no_end; }
  EndId end_of_guid(std::uint64_t guid) const;
  /// Also by its link-local GID.
  EndId end_of_gid(const Gid& gid) const;
  std::uint64_t gid_prefix() const { return subnet_.gid_prefix; }

  /// Half world of a switch: the paths from it to each LID, by LID. `leaf` may be no_switch: each path is a fault.
  LeafPaths leaf_paths(SwitchId leaf) const;
  /// Half world of a host. `leaf` must be that of its switch; `out` must have lids() elements.
  void host_paths(const LeafPaths& leaf, EndId host, std::span<HostPath> out) const;

  /// One path. Errors: invalid_argument (no such port; the GID and the LID are not of the same port), unreachable (says
  /// at which switch the route ends and why), not_permitted (P_Keys).
  Result<wire::mad::PathRecord> find(const PathQuery& query) const;
  /// A path as a record: numbers and selectors as opensm sets them. `dlid` must be a LID of a port, as end_of_lid()
  /// says.
  wire::mad::PathRecord record_of(EndId source, std::uint16_t slid, std::uint16_t dlid, const HostPath& path) const;

 private:
  friend class PathMapBuilder;
  struct Egress {
    enum Kind : std::uint8_t { no_route, no_link, to_switch, to_end };
    std::uint32_t to = 0;  // a switch or an end
    std::uint8_t mtu = 0, rank = 0;
    Kind kind = no_route;
  };
  struct Walk {
    std::uint8_t mtu, rank;
    PathFault fault;
    SwitchId at;  // the last switch
  };

  bool has_prefix(const Gid& gid) const;
  Walk walk(SwitchId from, std::uint16_t lid) const;
  std::vector<std::uint8_t> switches_to(std::uint16_t lid) const;
  Result<std::pair<EndId, std::uint16_t>> resolve(const std::optional<Gid>& gid, std::uint16_t lid) const;
  Error no_route_error(const Walk& walked, std::uint16_t slid, std::uint16_t dlid) const;
  Result<HostPath> path_between(EndId source, std::uint16_t slid, std::uint16_t dlid, std::uint16_t p_key) const;
  LeafPath route(EndId source, std::uint16_t dlid, Walk& walked) const;
  bool has_route_back(EndId source, std::uint16_t slid, EndId destination) const;
  HostPath start_of(const PathEnd& source, PKeySets::Id destination) const;
  std::uint8_t sl_of(std::uint16_t p_key) const;
  void add_self_and_peer(EndId host, std::span<HostPath> out) const;

  PathSubnet subnet_;
  std::vector<PathEnd> ends_;
  std::vector<std::pair<std::uint64_t, EndId>> guids_;  // sorted
  std::vector<EndId> switch_ends_;                      // by switch: its port 0, or no_end
  std::vector<Egress> egress_;                          // by switch * 256 + port
  std::size_t stride_ = 1;
  std::vector<std::uint8_t> lft_;            // by switch * stride + LID
  std::vector<EndId> owner_;                 // by LID
  std::vector<PKeySets::Id> p_keys_of_lid_;  // by LID
  std::vector<SwitchId> leaf_of_lid_;        // by LID; switches(): none
  std::vector<std::uint8_t> sls_;            // rows of the table SL, by row * stride + LID
  std::vector<std::uint32_t> sl_row_;        // by switch; no_switch: none
  PKeySets p_keys_;
  std::vector<std::pair<std::uint16_t, std::uint8_t>> partition_sls_;  // by base, sorted
};

}  // namespace parley::ssa
