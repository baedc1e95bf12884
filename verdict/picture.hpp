// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A ladder of any number of hosts as plain data, and its two renderings: text for terminals, and one self-contained
// HTML page with SVG. Filled from a simulated world (sim/record.hpp) or from a capture.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "parley/time.hpp"

namespace parley::verdict {

/// A frame, a note, or something that went wrong.
struct PictureRow {
  enum class Kind : std::uint8_t { frame, note, violation };
  enum class Fate : std::uint8_t { arrived, dropped, discarded };  ///< discarded: arrived and was thrown away
  Kind kind = Kind::frame;
  Instant at{};                    ///< sent (frame), or happened
  Instant arrived{};               ///< frame that arrived
  std::uint32_t from = 0, to = 0;  ///< columns; a note stands at `from`
  Fate fate = Fate::arrived;
  bool repeated = false;  ///< a retransmission
  bool altered = false;
  std::string layer;  ///< "arp", "nd", "tcp", "mpa", "rdmap", "terminate": the colour
  std::string text;   ///< "MPA Reply rev 2, A C S, IRD 32 ORD 32, 16 octets of private data"
  std::string why;    ///< what a fault did; the rule that was broken
  std::vector<std::pair<std::string, std::string>> fields;  ///< name and value, for hover and click
  std::uint64_t frame = 0;                                  ///< number in the capture of the same run; 0: none
};

struct Picture {
  std::string title, subtitle;
  std::vector<std::string> columns;  ///< hosts
  std::vector<PictureRow> rows;      ///< by time
  std::uint64_t rows_dropped = 0;
  std::vector<std::pair<std::string, std::string>> facts;  ///< "seed", "commit", "result"
};

struct PictureTextOptions {
  std::size_t width = 100;
  bool ascii = false;
};
std::string to_text(const Picture& picture, const PictureTextOptions& options = {});
/// One file: no network, no fonts, dark and light, works on a phone and without JavaScript (less clickable then).
std::string to_html(const Picture& picture);

}  // namespace parley::verdict
