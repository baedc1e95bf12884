// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The path of a request, and how long its answer may take. A Path is a value; derived values are computed on demand.
//
//   Path::by_lid(5)                                     // SMPs to its QP0, others to its QP1
//   Path::by_route(std::array<std::uint8_t, 2>{1, 3})   // a directed route: out of port 1, then out of port 3
//   sa_path(port.local())                               // subnet administration
//
// mad/path_text.hpp reads text forms (a LID, a GID, "0,1,3"). text() describes a path for people.
#pragma once
#include <array>
#include <string>

#include "mad/packet.hpp"
#include "parley/time.hpp"

namespace parley::mad {

/// The directed route of an SMP (IBA §14.2.2). If `source_lid` is not permissive, the SMP first goes by LID to
/// Path::address.lid. Then it leaves by each port in turn. If `destination_lid` is not permissive, it then goes there
/// by LID.
struct Route {
  std::array<std::uint8_t, PARLEY_MAD_PATH_MAX> octets{};     ///< the first is 0, then the egress port of each hop
  std::uint8_t hops = 0;                                      ///< at most 63
  std::uint16_t source_lid = PARLEY_MAD_PERMISSIVE_LID;       ///< DrSLID: the sender's LID, if the path begins by LID
  std::uint16_t destination_lid = PARLEY_MAD_PERMISSIVE_LID;  ///< DrDLID: the last LID, if the path ends by LID

  /// With the leading 0, as for wire::mad::set_route().
  ConstBytes path() const { return ConstBytes(octets).first(hops + std::size_t{1}); }
  ConstBytes ports() const { return path().subspan(1); }
  /// Appends a hop. Errors: invalid_argument (there are 63 hops already; port 0 or 255).
  Result<void> extend(std::uint8_t port);
  bool operator==(const Route& other) const;
};

struct Path {
  Address address;             ///< QPN, Q_Key and P_Key of SMPs are set by the Port
  std::optional<Route> route;  ///< a directed route for SMPs; address.lid is the LID where it begins, or permissive
  std::uint64_t m_key = 0;     ///< of SMPs
  std::uint64_t sm_key = 0;    ///< of requests to subnet administration

  /// Retransmissions if no answer arrives. The default is that of libibnetdisc: 3 retries of one second each.
  std::uint8_t retries = 3;
  /// For the answer to the first try; doubled for each retry. None: computed from the next two members (IBA §13.4.6.2).
  std::optional<Duration> timeout = std::chrono::seconds(1);
  std::uint8_t packet_life_time = 18, response_time = 20;  ///< exponents: 4.096 us * 2^n; at most 31

  static Path by_lid(std::uint16_t lid, std::uint8_t sl = 0);
  /// To a port behind a router, or to one that requires a GRH. `lid`: that of the next hop.
  static Path by_gid(const Gid& gid, std::uint16_t lid, std::uint8_t sl = 0);
  /// `ports`: the egress port of each hop, without the leading 0; empty: the port itself. Errors: invalid_argument
  /// (more than 63 ports; port 0 or 255).
  static Result<Path> by_route(ConstBytes ports);
  /// The port itself: a directed route without hops.
  static Path to_self();

  /// `timeout`, or 4.096 us * (2^(packet_life_time + 1) + 2^response_time): 6.44 s for 18 and 20.
  Duration time_limit() const;
  /// The path of an answer to a packet that arrived by this path: the same, but with hop limit 255 (IBA §13.5.4), and
  /// with the two LIDs of a route swapped.
  Path reverse() const;
  /// "LID 5", "LID 5 SL 2 P_Key 0x8001", "GID fe80::1 by LID 5", "directed route 0,1,3", "directed route 0,1,3 from LID
  /// 2 to LID 9".
  std::string text() const;
  bool operator==(const Path&) const = default;
};

/// The path to the port's subnet administration (IBA §15.4.2): LID and SL of its subnet manager, QP1, and the subnet
/// timeout as packet life time.
Path sa_path(const LocalPort& port);

}  // namespace parley::mad
