// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/paths.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"
#include "ssa/paths_rate.hpp"

namespace parley::ssa {

using wire::mad::PathRecord;

namespace {

constexpr std::uint8_t unreached = 0xFF;

/// Why a route ends; {a}: the LID of the switch where it ends, or of the source; {b}: that of the destination.
struct RouteTexts {
  std::string_view at_source, at_switch, at_switch_without_lid;
};
constexpr RouteTexts texts_of(PathFault fault) {
  switch (fault) {
    case PathFault::no_route:
      return {"", "the forwarding table of the switch with LID {a} has no port for LID {b}",
              "the forwarding table of a switch without a LID has no port for LID {b}"};
    case PathFault::no_link:
      return {"the port with LID {a} has no link to LID {b}",
              "the egress port of the switch with LID {a} for LID {b} has no link",
              "the egress port of a switch without a LID for LID {b} has no link"};
    case PathFault::wrong_end:
      return {"the cable of the port with LID {a} does not lead to LID {b}",
              "the route to LID {b} ends at another port, behind the switch with LID {a}",
              "the route to LID {b} ends at another port, behind a switch without a LID"};
    default:
      return {"", "the route to LID {b} passes more than 64 switches, the last of which has LID {a}: a loop",
              "the route to LID {b} passes more than 64 switches, the last of which has no LID: a loop"};
  }
}

template <class Map, class Key>
auto find_sorted(const Map& map, Key key) {
  const auto at =
      std::lower_bound(map.begin(), map.end(), key, [](const auto& entry, Key wanted) { return entry.first < wanted; });
  return at == map.end() || at->first != key ? map.end() : at;
}

std::uint64_t prefix_of(const Gid& gid) { return load<std::uint64_t>(gid.data(), std::endian::big); }
std::uint64_t guid_of(const Gid& gid) { return load<std::uint64_t>(gid.data() + 8, std::endian::big); }

}  // namespace

Gid gid_of_port(std::uint64_t prefix, std::uint64_t guid) {
  Gid out;
  store(out.data(), prefix, std::endian::big);
  store(out.data() + 8, guid, std::endian::big);
  return out;
}

EndId PathMap::end_of_guid(std::uint64_t guid) const {
  const auto at = find_sorted(guids_, guid);
  return at == guids_.end() ? no_end : at->second;
}

bool PathMap::has_prefix(const Gid& gid) const {
  return prefix_of(gid) == subnet_.gid_prefix || prefix_of(gid) == link_local_prefix;
}

EndId PathMap::end_of_gid(const Gid& gid) const { return has_prefix(gid) ? end_of_guid(guid_of(gid)) : no_end; }

inline PathMap::Walk PathMap::walk(SwitchId from, std::uint16_t lid) const {
  Walk out{0xFF, 0xFF, PathFault::loop, from};
  for (unsigned passed = 0; passed < path_switches_max; ++passed) {
    const Egress& egress = egress_[std::size_t{out.at} * 256 + lft_[out.at * stride_ + lid]];
    out.mtu = std::min(out.mtu, egress.mtu);
    out.rank = std::min(out.rank, egress.rank);
    if (egress.kind == Egress::to_switch) {
      out.at = egress.to;
      continue;
    }
    out.fault = egress.kind == Egress::no_route  ? PathFault::no_route
                : egress.kind == Egress::no_link ? PathFault::no_link
                : egress.to != owner_[lid]       ? PathFault::wrong_end
                                                 : PathFault::none;
    return out;
  }
  return out;
}

LeafPaths PathMap::leaf_paths(SwitchId leaf) const {
  LeafPaths out{leaf, std::vector<LeafPath>(stride_)};
  const bool exists = leaf < switch_ends_.size();
  const std::uint8_t* const sls = exists && sl_row_[leaf] != no_switch ? &sls_[sl_row_[leaf] * stride_] : nullptr;
  for (std::size_t lid = 1; lid < stride_; ++lid) {
    LeafPath& path = out.by_lid[lid];
    if (owner_[lid] == no_end) continue;
    if (!exists) {
      path.fault = PathFault::no_link;
      continue;
    }
    const Walk walked = walk(leaf, static_cast<std::uint16_t>(lid));
    path.fault = walked.fault;
    if (walked.fault != PathFault::none) continue;
    path.mtu = walked.mtu;
    path.rank = walked.rank;
    path.sl = sls == nullptr ? no_sl : sls[lid];
  }
  return out;
}

/// By switch: how many switches a packet passes from there to the LID; unreached: it does not arrive.
std::vector<std::uint8_t> PathMap::switches_to(std::uint16_t lid) const {
  constexpr std::uint8_t unknown = 0, on_trail = 0xFE;
  std::vector<std::uint8_t> out(switch_ends_.size(), unknown);
  std::vector<SwitchId> trail;
  for (SwitchId from = 0; from < out.size(); ++from) {
    trail.clear();
    std::uint8_t count = unreached;
    for (SwitchId at = from;;) {
      if (out[at] != unknown) {
        if (out[at] != on_trail) count = out[at];
        break;
      }
      out[at] = on_trail;
      trail.push_back(at);
      const Egress& egress = egress_[std::size_t{at} * 256 + lft_[at * stride_ + lid]];
      if (egress.kind != Egress::to_switch) {
        if (egress.kind == Egress::to_end && egress.to == owner_[lid]) count = 0;
        break;
      }
      at = egress.to;
    }
    for (; !trail.empty(); trail.pop_back()) {
      if (count != unreached) count = count < path_switches_max ? static_cast<std::uint8_t>(count + 1) : unreached;
      out[trail.back()] = count;
    }
  }
  return out;
}

std::uint8_t PathMap::sl_of(std::uint16_t p_key) const {
  const auto at = find_sorted(partition_sls_, p_key_base(p_key));
  return at == partition_sls_.end() ? subnet_.sl : at->second;
}

/// What the P_Keys and the host's link give; no_p_key if the ports may not talk.
HostPath PathMap::start_of(const PathEnd& source, PKeySets::Id destination) const {
  const std::uint16_t p_key = p_keys_.common(source.p_keys, destination);
  if (p_key == 0) return {.fault = PathFault::no_p_key};
  return {.p_key = p_key,
          .mtu = source.link_mtu,
          .sl = sl_of(p_key),
          .packet_life_time = subnet_.packet_life_time,
          .fault = PathFault::none};
}

void PathMap::host_paths(const LeafPaths& leaf, EndId host, std::span<HostPath> out) const {
  PARLEY_ASSERT(host < ends_.size() && leaf.leaf == ends_[host].leaf && leaf.by_lid.size() == stride_ &&
                out.size() == stride_);
  const PathEnd& source = ends_[host];
  std::vector<HostPath> by_set(p_keys_.size());  // what depends on the destination's P_Keys alone
  for (PKeySets::Id id = 0; id < by_set.size(); ++id) by_set[id] = start_of(source, id);
  std::vector<std::uint8_t> back =
      source.lid == 0 ? std::vector<std::uint8_t>(switches(), unreached) : switches_to(source.lid);
  back.push_back(unreached);  // for ends without a switch
  std::array<std::uint8_t, 256> codes{};
  for (unsigned rank = 0; rank < codes.size(); ++rank)
    codes[rank] = code_of_rank(std::min(static_cast<std::uint8_t>(rank), source.link_rank));
  for (std::size_t lid = 0; lid < stride_; ++lid) {
    const LeafPath shared = leaf.by_lid[lid];
    HostPath path = by_set[p_keys_of_lid_[lid]];
    if (shared.fault != PathFault::none || path.fault != PathFault::none) {
      out[lid] = {.fault = shared.fault == PathFault::none                               ? path.fault
                           : shared.fault == PathFault::no_link && source.peer != no_end ? PathFault::wrong_end
                                                                                         : shared.fault};
      continue;
    }
    path.mtu = std::min(shared.mtu, path.mtu);
    path.rate = codes[shared.rank];
    path.sl = shared.sl == no_sl ? path.sl : shared.sl;
    path.reversible = back[leaf_of_lid_[lid]] != unreached;
    out[lid] = path;
  }
  add_self_and_peer(host, out);
}

/// The paths that pass no switch: to the host itself, and to a host at the other end of its cable.
void PathMap::add_self_and_peer(EndId host, std::span<HostPath> out) const {
  const PathEnd& source = ends_[host];
  for (const EndId to : {host, source.peer}) {
    if (to == no_end || ends_[to].lid == 0) continue;
    for (unsigned offset = 0; offset < 1U << ends_[to].lmc; ++offset) {
      const auto dlid = static_cast<std::uint16_t>(ends_[to].lid + offset);
      if (const auto path = path_between(host, source.lid, dlid, 0))
        out[dlid] = *path;
      else
        out[dlid] = {.fault = PathFault::no_p_key};
    }
  }
}

/// The route alone; `walked` is set if it passes a switch.
LeafPath PathMap::route(EndId source, std::uint16_t dlid, Walk& walked) const {
  const PathEnd& from = ends_[source];
  const EndId to = owner_[dlid];
  if (to == source) return {from.mtu, from.rank, no_sl, PathFault::none};
  if (from.peer != no_end && from.peer == to) return {from.link_mtu, from.link_rank, no_sl, PathFault::none};
  if (from.leaf == no_switch) return {.fault = from.peer == no_end ? PathFault::no_link : PathFault::wrong_end};
  walked = walk(from.leaf, dlid);
  if (walked.fault != PathFault::none) return {.fault = walked.fault};
  const std::uint32_t row = sl_row_[from.leaf];
  return {std::min(from.link_mtu, walked.mtu), std::min(from.link_rank, walked.rank),
          row == no_switch ? no_sl : sls_[row * stride_ + dlid], PathFault::none};
}

bool PathMap::has_route_back(EndId source, std::uint16_t slid, EndId destination) const {
  Walk walked{};
  return slid != 0 && route(destination, slid, walked).fault == PathFault::none && owner_[slid] == source;
}

/// Unreachable. `walked.at`: no_switch if no switch was passed.
Error PathMap::no_route_error(const Walk& walked, std::uint16_t slid, std::uint16_t dlid) const {
  const RouteTexts texts = texts_of(walked.fault);
  if (walked.at == no_switch) return {Errc::unreachable, texts.at_source, slid, dlid};
  const EndId end = switch_ends_[walked.at];
  const std::uint16_t lid = end == no_end ? std::uint16_t{0} : ends_[end].lid;
  return {Errc::unreachable, lid == 0 ? texts.at_switch_without_lid : texts.at_switch, lid, dlid};
}

Result<HostPath> PathMap::path_between(EndId source, std::uint16_t slid, std::uint16_t dlid,
                                       std::uint16_t p_key) const {
  const EndId destination = owner_[dlid];
  Walk walked{0, 0, PathFault::none, no_switch};
  const LeafPath way = route(source, dlid, walked);
  if (way.fault != PathFault::none) {
    walked.fault = way.fault;
    return tl::unexpected(no_route_error(walked, slid, dlid));
  }
  const PKeySets::Id from = ends_[source].p_keys, to = ends_[destination].p_keys;
  const std::uint16_t by = p_key == 0 ? p_keys_.common(from, to) : p_key;
  if (by == 0)
    return fail(Errc::not_permitted, "the ports with LIDs {a} and {b} have no P_Key by which they may talk", slid,
                dlid);
  if (!p_keys_.share(from, to, by))
    return fail(Errc::not_permitted, "the ports with LIDs {a} and {b} may not talk by the P_Key of the query", slid,
                dlid);
  HostPath out{.p_key = by, .mtu = way.mtu, .rate = code_of_rank(way.rank), .fault = PathFault::none};
  out.sl = way.sl == no_sl ? sl_of(by) : way.sl;
  out.packet_life_time = source == destination ? std::uint8_t{0} : subnet_.packet_life_time;
  out.reversible = has_route_back(source, slid, destination);
  return out;
}

Result<std::pair<EndId, std::uint16_t>> PathMap::resolve(const std::optional<Gid>& gid, std::uint16_t lid) const {
  EndId id = no_end;
  if (gid) {
    if (!has_prefix(*gid)) return fail(Errc::invalid_argument, "a GID has the prefix of another subnet");
    id = end_of_guid(guid_of(*gid));
    if (id == no_end) return fail(Errc::invalid_argument, "no port of the subnet has the GID");
    if (ends_[id].lid == 0) return fail(Errc::invalid_argument, "the port with the GID has no LID");
    if (lid != 0 && !ends_[id].has_lid(lid))
      return fail(Errc::invalid_argument, "LID {a} is not one of the port with the GID, which has LID {b}", lid,
                  ends_[id].lid);
  } else {
    id = end_of_lid(lid);
    if (id == no_end) return fail(Errc::invalid_argument, "no port of the subnet has LID {a}", lid);
  }
  return std::pair(id, lid != 0 ? lid : ends_[id].lid);
}

Result<PathRecord> PathMap::find(const PathQuery& query) const {
  const auto source = resolve(query.sgid, query.slid);
  if (!source) return tl::unexpected(source.error());
  const auto destination = resolve(query.dgid, query.dlid);
  if (!destination) return tl::unexpected(destination.error());
  const auto path = path_between(source->first, source->second, destination->second, query.p_key);
  if (!path) return tl::unexpected(path.error());
  return record_of(source->first, source->second, destination->second, *path);
}

PathRecord PathMap::record_of(EndId source, std::uint16_t slid, std::uint16_t dlid, const HostPath& path) const {
  using wire::mad::Selector;
  return PathRecord()
      .set(PathRecord::dgid, gid_of_port(subnet_.gid_prefix, ends_[owner_[dlid]].guid))
      .set(PathRecord::sgid, gid_of_port(subnet_.gid_prefix, ends_[source].guid))
      .set(PathRecord::dlid, dlid)
      .set(PathRecord::slid, slid)
      .set(PathRecord::reversible, path.reversible)
      .set(PathRecord::p_key, path.p_key)
      .set(PathRecord::sl, path.sl)
      .set(PathRecord::mtu_selector, Selector::exactly)
      .set(PathRecord::mtu, static_cast<wire::mad::Mtu>(path.mtu))
      .set(PathRecord::rate_selector, Selector::exactly)
      .set(PathRecord::rate, static_cast<wire::mad::Rate>(path.rate))
      .set(PathRecord::packet_life_time_selector, Selector::exactly)
      .set(PathRecord::packet_life_time, path.packet_life_time);
}

}  // namespace parley::ssa
