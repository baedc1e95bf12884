// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where a request goes, and how long its answer may take. A Path is a value: what is derived from it is computed when asked for.
//
//   Path::by_lid(5)                                     // SMPs to its QP0, others to its QP1
//   Path::by_route(std::array<std::uint8_t, 2>{1, 3})   // a directed route: out of port 1, then of port 3
//   sa_path(port.local())                               // subnet administration
//
// Text forms (a LID, a GID, "0,1,3") are read by the commands; text() writes them.
#pragma once
#include <array>
#include <string>

#include "mad/packet.hpp"
#include "parley/time.hpp"

namespace parley::mad {

/// The directed part of an SMP's way (IBA §14.2.2): by LID to `source_lid` if that is not permissive, then out of each
/// port in turn, then by LID to `destination_lid` if that is not.
struct Route {
  std::array<std::uint8_t, PARLEY_MAD_PATH_MAX> octets{};     ///< the first is 0, then the ports to leave by
  std::uint8_t hops = 0;                                      ///< at most 63
  std::uint16_t source_lid = PARLEY_MAD_PERMISSIVE_LID;       ///< DrSLID: the sender's LID where the way begins by LID
  std::uint16_t destination_lid = PARLEY_MAD_PERMISSIVE_LID;  ///< DrDLID: where it ends by LID

  /// With the first octet, as wire::mad::set_route() takes it.
  ConstBytes path() const { return ConstBytes(octets).first(hops + std::size_t{1}); }
  ConstBytes ports() const { return path().subspan(1); }
  /// One hop more. Errors: invalid_argument, at 63 hops and for ports 0 and 255.
  Result<void> extend(std::uint8_t port);
  bool operator==(const Route& other) const;
};

struct Path {
  Address address;             ///< QPN, Q_Key and P_Key of SMPs are set by the Port
  std::optional<Route> route;  ///< SMPs go by directed route; address.lid is then where that begins, or permissive
  std::uint64_t m_key = 0;     ///< of SMPs
  std::uint64_t sm_key = 0;    ///< of requests to subnet administration

  /// Sent that many times more when no answer comes. As stock tools have it: libibnetdisc gives umad 3 retries of a second each.
  std::uint8_t retries = 3;
  /// For the answer to the first try; each further one waits twice as long. Without it the next two say how long (IBA §13.4.6.2).
  std::optional<Duration> timeout = std::chrono::seconds(1);
  std::uint8_t packet_life_time = 18, response_time = 20;  ///< 4.096 us times 2 to the power of it; at most 31

  static Path by_lid(std::uint16_t lid, std::uint8_t sl = 0);
  /// Through a router, or to a port that wants a GRH. `lid` is the next hop's.
  static Path by_gid(const Gid& gid, std::uint16_t lid, std::uint8_t sl = 0);
  /// `ports`: those to leave by, without a 0 in front; none: the port itself. Errors: invalid_argument of more than 63, and of
  /// ports 0 and 255.
  static Result<Path> by_route(ConstBytes ports);
  /// The port itself: a directed route without hops.
  static Path to_self();

  /// `timeout`, or 4.096 us * (2^(packet_life_time + 1) + 2^response_time): 6.44 s for 18 and 20.
  Duration time_limit() const;
  /// Of an answer to what came by this path: the same, but the hop limit is 255 (IBA §13.5.4) and a route's ends are swapped.
  Path reverse() const;
  /// "LID 5", "LID 5 SL 2 P_Key 0x8001", "GID fe80::1 by LID 5", "directed route 0,1,3", "directed route 0,1,3 from LID 2 to LID 9".
  std::string text() const;
  bool operator==(const Path&) const = default;
};

/// Subnet administration as this port knows it (IBA §15.4.2): its SM's LID and SL, QP1, and the subnet's timeout as packet life time.
Path sa_path(const LocalPort& port);

}  // namespace parley::mad
