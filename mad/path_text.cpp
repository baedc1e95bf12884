// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/path_text.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bits.hpp"
#include "mad/words.hpp"
#include "parley/address.hpp"

namespace parley::mad {

namespace {

template <class T>
using Or = tl::expected<T, std::string>;

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

Gid gid_of_guid(std::uint64_t guid) {
  Gid out{};
  write_bits(out, 0, 64, 0xFE80000000000000);
  write_bits(out, 64, 64, guid);
  return out;
}

/// "0002:c903:0000:1491", "0x0002c90300001491"
std::optional<std::uint64_t> port_guid(std::string_view text) {
  if (text.size() == 18 && text.starts_with("0x")) return number_in(text);
  if (text.size() != 19 || text[4] != ':' || text[9] != ':' || text[14] != ':') return std::nullopt;
  std::uint64_t out = 0;
  for (std::size_t at = 0; at < 19; at += 5) {
    const auto part = number_in("0x" + std::string(text.substr(at, 4)));
    if (!part) return std::nullopt;
    out = out << 16 | *part;
  }
  return out;
}

Or<Gid> parse_gid(std::string_view text) {
  if (const auto guid = port_guid(text)) return gid_of_guid(*guid);
  const auto address = parley::Address::parse(text);
  if (!address || address->family != parley::Address::Family::v6 || text.find_first_of("[%") != std::string_view::npos)
    return wrong(fmt::format("{} is neither a GID (written as an IPv6 address) nor a GUID (four groups of four digits)",
                             quoted(text)));
  return address->octets;
}

/// Parses the part after '%': "mlx5_0/1", "mlx5_0". Returns what is wrong, or nothing.
std::string parse_device(std::string_view text, PathText& out) {
  const std::size_t slash = text.find('/');
  out.device = text.substr(0, slash);
  if (out.device.empty()) return "'%' must be followed by a device: mlx5_0 or mlx5_0/1";
  if (slash == std::string_view::npos) return {};
  const auto port = port_in(text.substr(slash + 1));
  if (!port)
    return fmt::format("the port of device {} must be a number from 1 to 254, not {}", quoted(out.device),
                       quoted(text.substr(slash + 1)));
  out.port = *port;
  return {};
}

Or<PathText> by_gid(std::string_view text) {
  PathText out;
  const std::size_t percent = text.find('%');
  const auto gid = parse_gid(text.substr(0, percent));
  if (!gid) return wrong(gid.error());
  if (percent != std::string_view::npos)
    if (std::string why = parse_device(text.substr(percent + 1), out); !why.empty()) return wrong(std::move(why));
  out.gid = *gid;
  return out;
}

/// Parses a directed route: "0,1,3" or, in a spec, "0:1:3".
Or<Route> parse_route(std::string_view text, char between) {
  Route out;
  std::size_t hop = 0;
  for (std::size_t at = 0; at <= text.size(); ++hop) {
    const std::size_t end = std::min(text.find(between, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty() && at > text.size() && hop > 0) break;  // "0,1,": a trailing comma is not a hop
    if (hop == 0) {
      if (number_in(word) != 0)
        return wrong(fmt::format("a directed route starts with 0, for this port, not with {}", quoted(word)));
      continue;
    }
    if (hop >= PARLEY_MAD_PATH_MAX) return wrong("a directed route has at most 63 hops");  // IBA §14.2.2
    const auto port = port_in(word);
    if (!port)
      return wrong(fmt::format("hop {} of the directed route must be a port from 1 to 254, not {}", hop, quoted(word)));
    out.octets[hop] = *port;
    out.hops = static_cast<std::uint8_t>(hop);
  }
  return out;
}

Or<PathText> by_lid(std::string_view text) {
  const auto lid = number_in(text);
  if (!lid)
    return wrong(fmt::format(
        "{} is not a LID (5, 0x5), directed route (0,1,3), GID, port GUID (0002:c903:0000:1491) or IBPath(...)",
        quoted(text)));
  if (*lid == 0 || *lid > 0xFFFF || !is_unicast_lid(static_cast<std::uint32_t>(*lid)))
    return wrong(fmt::format("LID {} is not a port's LID: those are 1 to 49151 (0xBFFF)", quoted(text)));
  PathText out;
  out.path = Path::by_lid(static_cast<std::uint16_t>(*lid));
  return out;
}

/// A numeric member of a spec.
struct Row {
  std::string_view name;
  std::uint64_t max;
  bool hex, directed, grh;
  std::uint64_t (*get)(const Path&);
  void (*set)(Path&, std::uint64_t);
};
#define PARLEY_ROW(name, max, hex, directed, grh, place)                                   \
  Row {                                                                                    \
    name, max, hex, directed, grh, [](const Path& p) -> std::uint64_t { return p.place; }, \
        [](Path& p, std::uint64_t v) { p.place = static_cast<decltype(p.place)>(v); }      \
  }
constexpr Row rows[] = {
    PARLEY_ROW("DLID", 0xFFFF, false, false, false, address.lid),
    PARLEY_ROW("SLID", 0xFFFF, false, false, false, address.source_lid),
    PARLEY_ROW("SL", 15, false, false, false, address.sl),
    PARLEY_ROW("pkey", 0xFFFF, true, false, false, address.pkey),
    PARLEY_ROW("dqpn", 0xFFFFFF, false, false, false, address.qpn),
    PARLEY_ROW("qkey", 0xFFFFFFFF, true, false, false, address.qkey),
    PARLEY_ROW("gid_index", 255, false, false, true, address.grh->gid_index),
    PARLEY_ROW("traffic_class", 255, false, false, true, address.grh->traffic_class),
    PARLEY_ROW("hop_limit", 255, false, false, true, address.grh->hop_limit),
    PARLEY_ROW("flow_label", 0xFFFFF, true, false, true, address.grh->flow_label),
    PARLEY_ROW("drSLID", 0xFFFF, false, true, false, route->source_lid),
    PARLEY_ROW("drDLID", 0xFFFF, false, true, false, route->destination_lid),
    PARLEY_ROW("MKey", ~std::uint64_t{0}, true, false, false, m_key),
    PARLEY_ROW("SMKey", ~std::uint64_t{0}, true, false, false, sm_key),
    PARLEY_ROW("retries", 255, false, false, false, retries),
    PARLEY_ROW("packet_life_time", 31, false, false, false, packet_life_time),
    PARLEY_ROW("resp_time", 31, false, false, false, response_time),
};
#undef PARLEY_ROW

constexpr std::string_view none = "none";

/// A path with the default values of the members that a spec does not set.
Path fresh(bool directed) {
  Path out;
  if (directed) out.route = Route{};
  return out;
}

std::string set_member(Path& path, std::string_view name, std::string_view value) {
  if (name == "DGID") {
    const auto gid = parse_gid(value);
    if (!gid) return gid.error();
    if (!path.address.grh) path.address.grh = Grh{};
    path.address.grh->gid = *gid;
    return {};
  }
  if (name == "drPath" && path.route) {
    auto route = parse_route(value, ':');
    if (!route) return route.error();
    path.route->octets = route->octets;
    path.route->hops = route->hops;
    return {};
  }
  if (name == "timeout_us" && value == none) {
    path.timeout.reset();
    return {};
  }
  const auto given = number_in(value);
  if (name == "timeout_us") {
    if (!given || *given > 3600'000'000ULL)
      return fmt::format("timeout_us must be a number of microseconds up to an hour, not {}", quoted(value));
    path.timeout = std::chrono::microseconds(*given);
    return {};
  }
  for (const Row& row : rows) {
    if (row.name != name || (row.directed && !path.route)) continue;
    if (row.grh && !path.address.grh) return fmt::format("{} is part of a GRH: DGID must come before it", name);
    if (!given || *given > row.max)
      return fmt::format("{} must be a number from 0 to {}, not {}", name, row.max, quoted(value));
    row.set(path, *given);
    return {};
  }
  std::vector<std::string_view> names{"DGID", "timeout_us"};
  if (path.route) names.emplace_back("drPath");
  for (const Row& row : rows)
    if (!row.directed || path.route) names.push_back(row.name);
  return fmt::format("a path has no member {}; there are: {}", quoted(name), fmt::join(names, ", "));
}

Or<PathText> by_spec(std::string_view text) {
  const bool directed = text.starts_with("IBDRPath(");
  PathText out;
  out.path = fresh(directed);
  out.spelt_out = true;
  if (!text.ends_with(')')) return wrong(fmt::format("{} does not end in ')'", quoted(text)));
  const std::size_t begin = text.find('(') + 1;
  const std::string_view members = text.substr(begin, text.size() - 1 - begin);
  for (std::size_t at = 0; at < members.size();) {
    const std::size_t end = std::min(members.find(',', at), members.size());
    const std::string_view member = members.substr(at, end - at);
    const std::size_t equals = member.find('=');
    std::string why = equals == std::string_view::npos
                          ? fmt::format("a member is written NAME=VALUE, not {}", quoted(member))
                          : set_member(out.path, member.substr(0, equals), member.substr(equals + 1));
    if (!why.empty()) return wrong(fmt::format("{}, at character {} of {}", why, begin + at + 1, quoted(text)));
    at = end + 1;
  }
  const Address& to = out.path.address;
  if (!directed && !to.grh && !is_unicast_lid(to.lid))
    return wrong(fmt::format("{} has no DLID of a port (1 to 49151)", quoted(text)));
  if (!directed && to.grh && to.lid == PARLEY_MAD_PERMISSIVE_LID) out.gid = to.grh->gid;
  return out;
}

}  // namespace

Or<PathText> parse_path(std::string_view text) {
  if (text.starts_with("IBPath(") || text.starts_with("IBDRPath(")) return by_spec(text);
  if (text.find(',') != std::string_view::npos) {
    const auto route = parse_route(text, ',');
    if (!route) return wrong(route.error());
    PathText out;
    out.path = fresh(true);
    out.path.route = *route;
    return out;
  }
  if (text.find(':') != std::string_view::npos || text.find('%') != std::string_view::npos || port_guid(text))
    return by_gid(text);
  return by_lid(text);
}

std::string path_spec(const Path& path) {
  const bool directed = path.route.has_value();
  Path usual = fresh(directed);
  std::vector<std::string> members;
  if (directed) members.push_back(fmt::format("drPath={}", fmt::join(path.route->path(), ":")));
  if (path.address.grh) {
    usual.address.grh = Grh{};
    members.push_back("DGID=" + gid_text(path.address.grh->gid));
  }
  for (const Row& row : rows) {
    if ((row.directed && !directed) || (row.grh && !path.address.grh)) continue;
    const std::uint64_t value = row.get(path);
    if (value == row.get(usual)) continue;
    members.push_back(row.hex ? fmt::format("{}=0x{:X}", row.name, value) : fmt::format("{}={}", row.name, value));
  }
  if (path.timeout != usual.timeout)
    members.push_back(
        "timeout_us=" +
        (path.timeout ? std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(*path.timeout).count())
                      : std::string(none)));
  return fmt::format("{}({})", directed ? "IBDRPath" : "IBPath", fmt::join(members, ","));
}

}  // namespace parley::mad
