// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The stream of one side as its peer understands it: startup frames, RDMAP messages reassembled from their DDP segments
// (RFC 5041 §4, RFC 5040 §4), ends. The segmentation of a message is not part of its meaning.
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

/// A NIC's own answers are in order among themselves, and so are all other items. There is no order between the two.
enum class Lane : std::uint8_t { said, answered };

struct Item {
  enum class Kind : std::uint8_t { startup, rtr_frame, message, bad_crc, raw, gap, fin, rst };
  Kind kind = Kind::raw;
  capture::SegmentRef first, last;
  std::uint64_t end = 0;                      ///< its end in its stream
  std::size_t first_step = 0, last_step = 0;  ///< indices of the side's steps
  Bytes octets;                               ///< startup, rtr_frame, raw: all; message, bad_crc: the first ULPDU
  std::size_t octets_known = 0;               ///< length of the head of `octets` that the recording holds
  std::optional<capture::StartupSeen> startup;
  wire::DdpHeader header;                                    ///< message: of its first segment
  Bytes payload;                                             ///< message, without DDP headers; at most payload_max
  std::uint64_t length = 0;                                  ///< of the whole payload
  std::vector<std::pair<std::size_t, std::size_t>> unknown;  ///< begin and end of each part that the recording lacks
  bool whole = true;          ///< its last segment, or the last octet of its FPDU, was present
  bool cut = false;           ///< message: not whole because the recording lacks octets of it or stops inside it
  bool headless = false;      ///< message, untagged: its beginning is lost
  bool after_gap = false;     ///< message: the first after missing octets
  bool marker_fault = false;  ///< message: a marker in it was wrong
  bool pad_fault = false;
  std::uint64_t lost = 0;  ///< gap

  static constexpr std::size_t payload_max = 64 << 20;

  Lane lane() const;
  /// Its content, beginning or continuation is unknown. A tagged message right after missing octets may be the rest of
  /// another one: its header does not show that (RFC 5041 §4.2).
  bool vague() const { return kind == Kind::gap || !whole || headless || (after_gap && header.tagged); }
  bool is(wire::RdmapOpcode opcode) const { return kind == Kind::message && header.opcode == opcode; }
  /// Send in any form, or Immediate Data: it consumes a receive of the peer.
  bool is_send() const;
};

/// Turns steps, in order, into items.
class Assembler {
 public:
  void add(const Step& step, std::size_t index);
  /// Turns messages whose last segment never came into items that are not whole. `cut`: because the recording stops.
  void finish(bool cut = false);
  std::vector<Item>& items() { return items_; }
  /// The oldest message that is not whole; null if there is none.
  const Item* begun() const { return open_.empty() ? nullptr : &open_.begin()->second; }

 private:
  /// Identifies the message that a segment continues: tagged or not, opcode, QN and MSN or STag and next TO; then the
  /// age, which distinguishes otherwise equal ones.
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
  static constexpr std::size_t open_max = 4096;  // messages begun and not ended; beyond it the oldest is dropped

  std::vector<Item> items_;
  Open open_;
  std::set<Key> keys_;  // one for each of open_
  std::uint64_t begun_ = 0;
  bool gap_ = false;  // octets are missing before the next FPDU
  std::optional<std::pair<Step, std::size_t>>
      spoilt_;                   // the previous FPDU, if its CRC was wrong and it fitted no open message
  std::size_t open_octets_ = 0;  // in open_; the oldest are dropped beyond Item::payload_max
};

/// "Send, MSN 3, 16 octets", for people.
std::string describe(const Item& item);
/// "4d 50 41 20 ..", at most `max` octets; "??" for unknown ones.
std::string hex(ConstBytes octets, std::size_t known, std::size_t max);

}  // namespace parley::replay
