// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Many captures in one table: the pairs of peers (rows), the forms of their set-ups (columns), and the verdicts. Plain
// data, filled file by file; written as text, CSV and one self-contained HTML page.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "capture/report.hpp"
#include "draw/provenance.hpp"

namespace parley::capture {

/// The form of the set-up, which is the column: "rev 2, RTR read, CRC, markers to responder".
std::string form_of(const ConnectionReport& connection);

/// A connection in the table.
struct MatrixEntry {
  std::string file;
  std::string initiator, responder;  ///< names as the table shows them
  std::string form;
  bool roce = false;
  std::array<std::string, 2> ends;  ///< addresses and ports, initiator first
  std::uint64_t first_frame = 0, last_frame = 0;
  Outcome outcome = Outcome::incomplete;
  std::string end;
  Judgement judgement;
  std::vector<Finding> findings;  ///< by frame
  std::string ladder;             ///< as text; empty if there is none

  std::size_t count(Severity severity) const;
};
/// Fills all members except the file, the names and the ladder.
MatrixEntry matrix_entry(ConnectionReport&& connection);

struct MatrixFile {
  std::string file;
  std::uint64_t packets = 0, connections = 0;
  std::string error;      ///< why it could not be read, or not to its end
  std::string shortfall;  ///< it has no connection, or too few; shown as a row
  Judgement judgement;
};

/// Number of connections by Standing.
struct StandingCounts {
  std::array<std::uint64_t, 3> of{};  ///< by Standing

  void add(Standing standing, std::uint64_t n = 1) { of[static_cast<std::size_t>(standing)] += n; }
  void add(const StandingCounts& more) {
    for (std::size_t i = 0; i < of.size(); ++i) of[i] += more.of[i];
  }
  std::uint64_t operator[](Standing standing) const { return of[static_cast<std::size_t>(standing)]; }
  std::uint64_t all() const { return of[0] + of[1] + of[2]; }
  /// The worst standing: a cell has failed if one of its connections has.
  Standing worst() const;
};

struct Matrix {
  /// Connections of one pair with the same form. `counts` has all of them, `entries` those that are listed.
  struct Cell {
    StandingCounts counts;
    bool roce = false;
    std::vector<std::size_t> entries;
    std::uint64_t not_listed() const { return counts.all() - entries.size(); }
  };
  using Pair = std::pair<std::string, std::string>;  ///< names of initiator and responder
  using Row = std::map<std::string, Cell>;           ///< by form

  std::vector<MatrixEntry> entries;
  std::vector<MatrixFile> files;
  std::map<Pair, Row> cells;
  StandingCounts counts;
  std::uint64_t not_in_a_cell = 0;  ///< connections beyond cells_max cells, counted here and in `counts` only
  std::size_t cell_count = 0;
  static constexpr std::size_t entries_max = 100'000;
  static constexpr std::size_t passed_entries_max = entries_max / 4 * 3;  // the rest is reserved for partial and failed
  static constexpr std::size_t cells_max = 100'000;

  /// Counts a connection and lists it.
  void add(MatrixEntry entry);
  /// Counts connections that are not listed one by one.
  void add(const Pair& pair, const std::string& form, bool roce, const StandingCounts& more);
  /// Counts connections beyond cells_max.
  void add_outside(const StandingCounts& more);
  /// Connections that are counted but not listed.
  std::uint64_t not_listed() const { return counts.all() - entries.size(); }
  /// The columns, the most frequent form first.
  std::vector<std::string> forms() const;
  /// The worst standing of all files; failed if there is no file.
  Standing standing() const;

 private:
  Cell* cell(const Pair& pair, const std::string& form, bool roce);
};
/// Whether a further connection of this standing is listed if there are `entries` already.
constexpr bool is_listed(std::size_t entries, Standing standing) {
  return entries < (standing == Standing::passed ? Matrix::passed_entries_max : Matrix::entries_max);
}

/// The address without its port, as text.
std::string host_of(Address address);

/// Names for addresses, one per line: `192.0.2.1 alpha`, or in TOML syntax `"192.0.2.1" = "alpha"`. A line that begins
/// with '#' is a comment.
class PeerNames {
 public:
  /// Returns an empty string, or an error: "line 3: ...".
  std::string read(std::string_view text);
  /// The name of an address, independent of its port; the address if it has no name.
  std::string name(const Address& address) const { return name_of_host(host_of(address)); }
  std::string name_of_host(const std::string& host) const;

 private:
  std::map<std::string, std::string> names_;
};
/// The names of the two ends in a path, initiator first: "parley--siw.pcap", or a directory "parley--siw". False if the
/// path has none.
bool names_in_path(std::string_view path, std::string& initiator, std::string& responder);

std::string to_text(const Matrix& matrix, std::size_t width);
/// One line per connection, with a header.
std::string to_csv(const Matrix& matrix, const draw::Provenance* provenance = nullptr);
/// One self-contained page.
std::string to_html(const Matrix& matrix, std::string_view title, const draw::Provenance* provenance = nullptr);

}  // namespace parley::capture
