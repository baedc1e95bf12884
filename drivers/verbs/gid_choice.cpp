// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/verbs/gid_choice.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace parley::verbs {
namespace {

constexpr std::uint32_t gid_index_max = 255;  // an address handle has 8 bits for it

struct RankedGid {
  GidChoice choice;
  unsigned badness = 0;
};

RankedGid judge(const DeviceInfo& device, const PortInfo& port, const GidInfo& gid, const GidPreference& preference) {
  RankedGid out{.choice = {.device = &device, .port = &port, .gid = &gid, .reason = {}}};
  const bool v1 = gid.kind == GidInfo::Kind::roce_v1;
  const bool link_local = is_link_local_gid(gid.gid);
  const bool is_source = preference.source && gid_of(*preference.source) == gid.gid;
  const bool family = !preference.peer || is_v4_gid(gid.gid) == is_v4_gid(gid_of(*preference.peer));
  out.badness = (v1 ? 8U : 0) + (is_source || !preference.source ? 0 : 4U) + (family ? 0 : 2U) + (link_local ? 1U : 0);
  const std::string_view kind = v1 ? "RoCE v1" : gid.kind == GidInfo::Kind::roce_v2 ? "RoCE v2" : "the port's own kind";
  out.choice.reason = fmt::format("{}, {}", kind,
                                  is_source                   ? "the address from which IP goes to the peer"
                                  : preference.peer && family ? "of the peer's address family"
                                  : link_local                ? "link-local"
                                                              : "routable");
  return out;
}

std::vector<std::string> names_of(std::span<const DeviceInfo> devices) {
  std::vector<std::string> out;
  for (const DeviceInfo& device : devices) out.push_back(device.name);
  return out;
}

/// Counts of the candidates that were skipped, and of the others.
struct Seen {
  unsigned iwarp = 0, inactive = 0, active = 0;  // devices (iwarp); ports (inactive, active)
};

/// Why no candidate was left.
std::string nothing(std::span<const DeviceInfo> devices, const GidPreference& preference, const Seen& seen) {
  if (devices.empty()) return "the machine has no RDMA device";
  const auto named =
      std::find_if(devices.begin(), devices.end(), [&](const DeviceInfo& d) { return d.name == preference.device; });
  if (!preference.device.empty() && named == devices.end())
    return fmt::format("there is no device '{}'; there {} {}", preference.device, devices.size() == 1 ? "is" : "are",
                       fmt::join(names_of(devices), ", "));
  if (!preference.device.empty() && seen.iwarp != 0)
    return fmt::format("{} is an iWARP device, whose queue pairs only rdma_cm connects", preference.device);
  if (seen.iwarp == devices.size()) return "all devices are iWARP, whose queue pairs only rdma_cm connects";
  const std::string where = preference.device.empty() ? "no device" : preference.device;
  const std::string_view has = preference.device.empty() ? "has" : "does not have";
  if (seen.active == 0 && seen.inactive != 0)
    return fmt::format("{} {} an active port{}", where, has,
                       preference.port ? fmt::format(" {}", *preference.port) : "");
  if (seen.active == 0 && preference.port) return fmt::format("{} {} a port {}", where, has, *preference.port);
  if (preference.index) return fmt::format("{} {} a GID with the index {}", where, has, *preference.index);
  if (preference.gid) return fmt::format("{} {} that GID", where, has);
  return fmt::format("{} {} a GID that RoCE can use", where, has);
}

}  // namespace

tl::expected<GidChoice, std::string> choose_gid(std::span<const DeviceInfo> devices, const GidPreference& preference) {
  std::optional<RankedGid> best;
  Seen seen;
  for (const DeviceInfo& device : devices) {
    if (!preference.device.empty() && device.name != preference.device) continue;
    if (device.attr.transport == Transport::iwarp) {
      ++seen.iwarp;
      continue;
    }
    for (const PortInfo& port : device.ports) {
      if (preference.port && port.number != *preference.port) continue;
      if (port.state != "ACTIVE") {
        ++seen.inactive;
        continue;
      }
      ++seen.active;
      for (const GidInfo& gid : port.gids) {
        if (gid.index > gid_index_max) continue;
        if ((preference.index && gid.index != *preference.index) || (preference.gid && gid.gid != *preference.gid))
          continue;
        RankedGid judged = judge(device, port, gid, preference);
        if (!best || judged.badness < best->badness) best = std::move(judged);
      }
    }
  }
  if (!best) return tl::unexpected(nothing(devices, preference, seen));
  if (preference.index || preference.gid) best->choice.reason += ", as asked for";
  return std::move(best->choice);
}

}  // namespace parley::verbs
