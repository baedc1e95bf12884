// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A ladder of any number of hosts as plain data, and its two renderings: text for terminals, and one self-contained
// HTML page with SVG. Filled from a simulated world (sim/record/record.hpp) or from a capture.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "draw/provenance.hpp"
#include "parley/time.hpp"

namespace parley::draw {

/// A frame, a note, a violation, or a possible violation.
struct LadderRow {
  enum class Kind : std::uint8_t { frame, note, violation, warning };
  /// discarded: it arrived but was discarded; under_way: still in flight when the run ended.
  enum class Fate : std::uint8_t { arrived, dropped, discarded, under_way };
  Kind kind = Kind::frame;
  bool finding() const { return kind == Kind::violation || kind == Kind::warning; }
  Instant at{};                       ///< sent (frame), or happened
  Instant arrived{};                  ///< frame that arrived
  std::uint32_t from = 0, to = 0;     ///< columns; a note is drawn at `from`
  std::vector<std::uint32_t> also{};  ///< other columns that received it (broadcast)
  Fate fate = Fate::arrived;
  bool repeated = false;  ///< a retransmission
  bool altered = false;
  /// The colour. Frames: "arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate", "other"; notes: "crash", "restart",
  /// "pause", "resume", "process", "note".
  std::string layer;
  std::string text;    ///< "MPA Reply"
  std::string detail;  ///< shown if there is room: "rev=2 C S A ird=32 ord=32 pd=16"
  std::string why;     ///< the effect of a fault, or the violated rule
  /// Name and value, for hover and click; a name without a value heads the fields after it.
  std::vector<std::pair<std::string, std::string>> fields;
  std::uint64_t frame = 0;     ///< number in the capture of the same run; 0: none
  std::size_t connection = 0;  ///< its index in Ladder::connections, from 1; 0: none
};

/// A connection in a ladder.
struct LadderConnection {
  std::string name;       ///< "a:40000 > b:7471 (1st of connect 1)"
  std::string result;     ///< "passed", "failed: 1 error"
  std::string outcome;    ///< "established"
  std::string numbers{};  ///< "communication IDs 0x00000001, ..."; of RoCE
};

struct Ladder {
  std::string title, subtitle;
  std::vector<std::string> columns;    ///< hosts
  std::vector<std::string> addresses;  ///< of each column, shown below its name; may be empty
  std::vector<LadderRow> rows;         ///< by time
  std::uint64_t rows_dropped = 0;
  std::vector<LadderConnection> connections;  ///< if there are several, the page has an index; failed ones come first
  std::vector<std::pair<std::string, std::string>> facts;  ///< "seed", "commit", "result"
};

struct LadderTextOptions {
  std::size_t width = 100;  ///< at least 60
  bool ascii = false;       ///< ASCII only, no box-drawing characters
  bool colour = false;      ///< with ANSI escape sequences (ECMA-48 SGR)
};
/// Two hosts: labels on the arrows. More hosts: labels at the side. Dashed: a retransmission. Cross: it did not arrive.
std::string to_text(const Ladder& ladder, const LadderTextOptions& options = {});
/// One file: no network, no fonts, dark and light, works on a phone and without JavaScript (with less to click).
std::string to_html(const Ladder& ladder, const Provenance* provenance = nullptr);
/// One page for any number of ladders, one below the other, as self-contained as each of them. `left_out` more are only
/// counted. One ladder alone is the page of to_html(ladder).
std::string to_html(std::string_view title, const std::vector<Ladder>& ladders, std::size_t left_out,
                    const Provenance* provenance = nullptr);

}  // namespace parley::draw
