// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Known departures of real InfiniBand and RoCE peers from the specification, and other facts that distinguish these
// peers, as data. cm/ibcm, cm/providers/roce and nic/roce play an entry of this table
// (RoceProviderOptions::play_quirk), `parley pcap check` names a departure that a capture shows, and `parley quirks`
// lists them. Code never checks a peer's name: it checks for a departure.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "parley/result.hpp"

namespace parley::wire::ib {

enum class Departure : std::uint8_t {
  // The CM.
  forgets_in_timewait,
  leaves_rep_to_timer,
  drops_unknown_rep,
  drops_class_version,
  rejects_service_type,
  takes_path_mtu,
  drops_when_full,
  gives_up_in_silence,
  forgets_rejected,
  counts_milliseconds,
  drops_lap,
  takes_any_source,
  takes_short_mad,
  // The transport.
  looks_read_up_again,
  takes_short_first,
  retries_for_ever,
  slow_rnr_timer,
  acks_one_by_one,
  sets_reserved_bit,
};

/// What sets_reserved_bit sets in the octet of FECN and BECN of the BTH.
inline constexpr std::uint8_t bth_bit_of_hns = 0x10;

struct DepartureFacts {
  Departure what{};
  std::string_view name;      ///< "forgets-in-timewait"
  std::string_view clause;    ///< of the specification; empty: the specification leaves it open
  std::string_view summary;   ///< continues a sentence that begins with the peer's name
  std::string_view evidence;  ///< where it was seen
};

class DepartureSet {
 public:
  constexpr DepartureSet() = default;
  constexpr DepartureSet(std::initializer_list<Departure> those) {
    for (const Departure d : those) bits_ |= bit(d);
  }
  constexpr bool has(Departure d) const { return (bits_ & bit(d)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr void add(DepartureSet more) { bits_ |= more.bits_; }
  bool operator==(const DepartureSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Departure d) { return std::uint32_t{1} << static_cast<unsigned>(d); }
  std::uint32_t bits_ = 0;
};

struct Quirk {
  std::string_view name;
  std::string_view summary;   ///< one sentence for users
  std::string_view evidence;  ///< where it was seen
  DepartureSet departures{};
  bool spec_timers = false;      ///< retransmits CM messages by the response timeouts only
  std::uint8_t ack_timeout = 0;  ///< that its REQ carries; 0: as configured
};

/// All of them, in the order of the enumeration.
std::span<const DepartureFacts> all_departures();
const DepartureFacts& facts_of(Departure what);
/// The entry with that name; for an empty name, a peer without departures. Errors: invalid_argument.
Result<const Quirk*> find_quirk(std::string_view name);
/// All named entries, in a stable order.
std::span<const Quirk> all_quirks();

}  // namespace parley::wire::ib
