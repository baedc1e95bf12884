// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One MPA connection of a capture (RoCE: replay/roce/roce_recording.hpp): what each side did, as steps, which can be
// played, and as items, which can be compared. Reads pcap and pcapng, with packets lost, cut or duplicated, and with
// one direction alone. Unknown octets are marked, never guessed.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "parley/address.hpp"
#include "parley/result.hpp"
#include "replay/item.hpp"

namespace parley::replay {

struct SideRecord {
  Address address;
  bool seen = false;      ///< the recording has some of its stream
  bool from_syn = false;  ///< its first octet is the first of the stream
  bool whole = true;      ///< nothing is known to be missing, up to where it stops
  std::vector<Step> steps;
  std::vector<Item> items;
  std::uint64_t startup_length = 0;
  const Item* startup() const;  ///< its startup frame; null if there is none
};

struct Recording {
  std::size_t connection = 0;   ///< number in the file, from 1
  std::size_t connections = 0;  ///< in the file
  std::array<SideRecord, 2> sides;
  capture::Agreement agreement;
  capture::ConnectionReport report;  ///< as `parley pcap check` reports it
  bool closed = false;               ///< a FIN or RST was seen: the recording holds the end
  std::vector<std::string> notes;    ///< about the file: it is truncated, packets are cut
  /// Parts of the connection that are not in the file: "the end of the connection", "72 octets of the initiator". Empty
  /// if it is complete.
  std::vector<std::string> lacks;

  SideRecord& side(capture::Side s) { return sides[static_cast<std::size_t>(s)]; }
  const SideRecord& side(capture::Side s) const { return sides[static_cast<std::size_t>(s)]; }
};

/// The connections of a file that can be played, of MPA and of RoCE, for choosing one.
struct Contents {
  capture::FileReport report;
  std::string error;  ///< what is wrong with the file; it may have connections nevertheless
  /// Why it has no connection; empty if it has one.
  std::string why_empty() const;
};
Contents list_connections(ConstBytes file);

/// Whether the file has at least part of a connection's set-up; else no side of it can be played.
bool set_up_captured(const capture::ConnectionReport& connection);

/// The number of a connection: `number`, or if that is 0 the only one whose set-up was captured. Errors: a sentence.
tl::expected<std::size_t, std::string> choose_connection(const Contents& contents, std::size_t number);

/// Reads connection `number` (from 1), which must use MPA. `contents` must be those of the file.
Recording read_recording(ConstBytes file, const Contents& contents, std::size_t number);
/// Reads the connection that choose_connection() chooses, which must use MPA. Errors: a sentence.
tl::expected<Recording, std::string> read_recording(ConstBytes file, std::size_t number);

/// Why `side` cannot be played from the beginning; empty if it can.
std::string why_not_playable(const Recording& recording, capture::Side side);

}  // namespace parley::replay
