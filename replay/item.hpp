// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What one side said, as its peer understands it: startup frames, RDMAP messages reassembled from their DDP segments
// (RFC 5041 §4, RFC 5040 §4), ends. How a message was cut into segments is no part of its meaning.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "replay/step.hpp"
#include "wire/rdmap.hpp"

namespace parley::replay {

/// A NIC's own answers are in order among themselves, and so is everything else; between the two there is no order.
enum class Lane : std::uint8_t { said, answered };

struct Item {
  enum class Kind : std::uint8_t { startup, rtr_frame, message, bad_crc, raw, gap, fin, rst };
  Kind kind = Kind::raw;
  capture::SegmentRef first, last;
  std::uint64_t end = 0;                      ///< where it ends in its stream
  std::size_t first_step = 0, last_step = 0;  ///< indices of the side's steps
  Bytes octets;                               ///< startup, rtr_frame, raw: all; message, bad_crc: the first ULPDU
  std::size_t octets_known = 0;               ///< length of the head of `octets` that is not made up
  std::optional<capture::StartupSeen> startup;
  wire::DdpHeader header;                                    ///< message: of its first segment
  Bytes payload;                                             ///< message, without DDP headers; at most payload_max
  std::uint64_t length = 0;                                  ///< of the payload, all of it
  std::vector<std::pair<std::size_t, std::size_t>> unknown;  ///< begin and end of each part that the recording lacks
  bool whole = true;          ///< its last segment, or the last octet of its FPDU, was there
  bool cut = false;           ///< message: not whole because the recording lacks octets of it or stops inside it
  bool headless = false;      ///< message, untagged: its beginning is lost
  bool after_gap = false;     ///< message: the first after missing octets
  bool marker_fault = false;  ///< message: a marker in it was wrong
  bool pad_fault = false;
  std::uint64_t lost = 0;  ///< gap

  static constexpr std::size_t payload_max = 64 << 20;

  Lane lane() const;
  /// It is not known what belongs here, how it began or how it continued. A tagged message right after missing octets
  /// may be the rest of another: nothing in its header tells (RFC 5041 §4.2).
  bool vague() const { return kind == Kind::gap || !whole || headless || (after_gap && header.tagged); }
  bool is(wire::RdmapOpcode opcode) const { return kind == Kind::message && header.opcode == opcode; }
  /// Send in any form, or Immediate Data: it consumes a receive of the peer's.
  bool is_send() const;
};

/// Steps in, in order; items out.
class Assembler {
 public:
  void add(const Step& step, std::size_t index);
  /// Messages whose last segment never came become items that are not whole; `cut`: because the recording stops.
  void finish(bool cut = false);
  std::vector<Item>& items() { return items_; }
  /// The oldest message that is not whole; null if there is none.
  const Item* begun() const { return open_.empty() ? nullptr : &open_.begin()->second; }

 private:
  /// Which message a segment continues: tagged or not, opcode, QN and MSN or STag and next TO; then the age, to tell
  /// equal ones apart.
  using Key = std::tuple<bool, std::uint8_t, std::uint32_t, std::uint64_t, std::uint64_t>;

  using Open = std::map<std::uint64_t, Item>;  // by age
  void segment(const Step& step, std::size_t index);
  Open::iterator open(const wire::DdpHeader& h, const Step& step, std::size_t index);
  void append(Open::iterator it, const wire::DdpHeader& h, const Step& step, std::size_t index);
  void spoilt(const Step& step, std::size_t index);
  Open::iterator behind_spoilt(const wire::DdpHeader& h);
  Open::iterator find_open(const wire::DdpHeader& h);
  void close(Open::iterator it);
  void lose();
  static constexpr std::size_t open_max = 4096;  // messages begun and not ended; more are ignored

  std::vector<Item> items_;
  Open open_;
  std::set<Key> keys_;  // one for each of open_
  std::uint64_t begun_ = 0;
  bool gap_ = false;  // octets are missing before the next FPDU
  std::optional<std::pair<Step, std::size_t>>
      spoilt_;                   // the FPDU right before, if its CRC was wrong and it fitted nothing
  std::size_t open_octets_ = 0;  // in open_; the oldest are dropped beyond Item::payload_max
};

/// "Send, MSN 3, 16 octets", for people.
std::string describe(const Item& item);
/// "4d 50 41 20 ..", at most `max` octets; "??" for unknown ones.
std::string hex(ConstBytes octets, std::size_t known, std::size_t max);

}  // namespace parley::replay
