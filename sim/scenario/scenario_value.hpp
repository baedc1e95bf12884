// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A TOML document as plain values that know their line, and the formats in which scenarios write times, rates, sizes
// and ratios. Everything is an integer: a decimal fraction is read digit by digit, so that rounding is the same on
// every machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "parley/ratio.hpp"
#include "parley/time.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {

struct DocEntry;

/// One value of a document.
struct DocValue {
  enum class Kind : std::uint8_t { text, integer, boolean, real, date, array, table };
  Kind kind = Kind::table;
  std::string text;  ///< text: its value; others: as written in the file, if known
  std::int64_t integer = 0;
  bool boolean = false;
  std::vector<DocValue> items;    ///< array: its elements
  std::vector<DocEntry> entries;  ///< table: its entries, in file order
  int line = 0, column = 0;

  const DocEntry* find(std::string_view key) const;
};
struct DocEntry {
  std::string key;
  int line = 0, column = 0;
  DocValue value;
};

/// Describes an unexpected value: "'2.5' is a number with a fraction".
std::string describe(const DocValue& value);

/// The valid parts of a TOML text.
struct Document {
  DocValue root;
  std::vector<ScenarioError> errors;  ///< in the other parts; at most 50
  bool whole = true;                  ///< except for the lines with errors, root is complete
};
/// Reads TOML v1.0; at most 1 MiB. A line that is invalid by itself does not hide the following ones: in `root` its key
/// has a value that no scenario accepts.
Document read_document(std::string_view toml, std::string_view file_name);
/// The same, if only the first error is needed.
tl::expected<DocValue, ScenarioError> parse_document(std::string_view toml, std::string_view file_name);
/// A TOML string that reads back as `text`.
std::string quote(std::string_view text);

/// "2us", "1.5s", "0s"; units ns us ms s m h. None: another format, or more than 2^62 ns.
std::optional<Duration> parse_time(std::string_view text);
std::string time_text(Duration time);
/// "10Gbps", "2.5Gbps", "64kbps"; units bps kbps Mbps Gbps Tbps.
std::optional<std::uint64_t> parse_rate(std::string_view text);
std::string rate_text(std::uint64_t bps);
/// "64KiB", "1MiB", "1500B"; units B kB MB GB KiB MiB GiB.
std::optional<std::uint64_t> parse_size(std::string_view text);
std::string size_text(std::uint64_t octets);
/// "1%", "0.1%", "1/1000", "0", "1"; at most 1.
std::optional<Ratio> parse_ratio(std::string_view text);
std::string ratio_text(Ratio ratio);
/// "0b1011", "0xb", "11".
std::optional<std::uint64_t> parse_mask(std::string_view text);
std::string mask_text(std::uint64_t mask);
/// "hex:00ff" or text.
std::optional<std::string> parse_octets(std::string_view text);
std::string octets_text(std::string_view octets);
/// Private data of that many octets with arbitrary content: the alphabet, repeated.
std::string filler(std::size_t octets);

/// The one of `words` that was probably meant; empty if there is none.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& words);

}  // namespace parley::sim
