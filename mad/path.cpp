// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/path.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace parley::mad {

namespace {

/// 4.096 us times 2 to the power of `exponent`, in nanoseconds.
Duration of_exponent(unsigned exponent) { return Duration(std::int64_t{4096} << std::min(exponent, 32U)); }

}  // namespace

Result<void> Route::extend(std::uint8_t port) {
  if (hops + 1 >= PARLEY_MAD_PATH_MAX)
    return fail(Errc::invalid_argument, "a directed route has at most {a} hops", PARLEY_MAD_PATH_MAX - 1);
  if (port == 0 || port == 0xFF)
    return fail(Errc::invalid_argument, "a directed route leaves by ports 1 to 254, not by {a}", port);
  octets[++hops] = port;
  return {};
}

bool Route::operator==(const Route& other) const {
  return std::ranges::equal(path(), other.path()) && source_lid == other.source_lid &&
         destination_lid == other.destination_lid;
}

Path Path::by_lid(std::uint16_t lid, std::uint8_t sl) {
  Path out;
  out.address.lid = lid;
  out.address.sl = sl;
  return out;
}

Path Path::by_gid(const Gid& gid, std::uint16_t lid, std::uint8_t sl) {
  Path out = by_lid(lid, sl);
  out.address.grh.emplace().gid = gid;
  return out;
}

Result<Path> Path::by_route(ConstBytes ports) {
  Path out = to_self();
  for (const std::uint8_t port : ports)
    if (auto extended = out.route->extend(port); !extended) return tl::unexpected(extended.error());
  return out;
}

Path Path::to_self() {
  Path out;
  out.route.emplace();
  return out;
}

// IBA §13.4.6.2: the time of the path in both directions, plus the responder's time.
Duration Path::time_limit() const {
  return timeout ? *timeout : of_exponent(packet_life_time + 1U) + of_exponent(response_time);
}

Path Path::reverse() const {
  Path out = *this;
  if (out.address.grh) out.address.grh->hop_limit = 255;  // IBA §13.5.4
  if (out.route) std::swap(out.route->source_lid, out.route->destination_lid);
  return out;
}

std::string Path::text() const {
  std::string out;
  if (route) {
    const ConstBytes ports = route->path();
    out = fmt::format("directed route {}", fmt::join(ports.begin(), ports.end(), ","));
    if (address.lid != PARLEY_MAD_PERMISSIVE_LID) out += fmt::format(" from LID {}", address.lid);
    if (route->destination_lid != PARLEY_MAD_PERMISSIVE_LID) out += fmt::format(" to LID {}", route->destination_lid);
  } else if (address.grh) {
    out = fmt::format("GID {} by LID {}", gid_text(address.grh->gid), address.lid);
  } else {
    out = fmt::format("LID {}", address.lid);
  }
  if (address.sl != 0) out += fmt::format(" SL {}", address.sl);
  if (address.pkey != 0xFFFF) out += fmt::format(" P_Key 0x{:04X}", address.pkey);
  if (address.qpn > 1) out += fmt::format(" QP 0x{:06X}", address.qpn);
  return out;
}

Path sa_path(const LocalPort& port) {
  Path out = Path::by_lid(port.sm_lid, port.sm_sl);
  out.packet_life_time = port.subnet_timeout;
  return out;
}

}  // namespace parley::mad
