// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Many captures in one table: who with whom (rows), set up how (columns), and whether it worked. Plain data, filled
// file by file; written as text, CSV and one self-contained HTML page.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "capture/report.hpp"
#include "draw/provenance.hpp"

namespace parley::capture {

/// How a connection was set up: the column. "rev 2, RTR read, CRC, markers to the responder".
std::string form_of(const ConnectionReport& connection);

struct MatrixEntry {
  std::string file;
  std::string initiator, responder;  ///< names
  std::string form;
  ConnectionReport report;  ///< judged, and without its events
  std::string ladder;       ///< as text; empty when there is none
};
struct MatrixFile {
  std::string file;
  std::uint64_t packets = 0, connections = 0;
  std::string error;      ///< why it could not be read (to its end)
  std::string shortfall;  ///< it has no connection, or too few: a row of its own
  Judgement judgement;
};

struct Matrix {
  std::vector<MatrixEntry> entries;
  std::vector<MatrixFile> files;
  std::uint64_t not_kept = 0;  ///< connections beyond entries_max, counted here only
  static constexpr std::size_t entries_max = 100'000;

  /// Rows (pairs "A -> B") and columns (forms) in their order, and which entries stand in each cell.
  using Cell = std::vector<std::size_t>;
  std::map<std::pair<std::string, std::string>, std::map<std::string, Cell>> cells() const;
  std::vector<std::string> forms() const;
  std::size_t count(Standing standing) const;
  /// Of all files; a matrix without any has looked at nothing, and failed.
  Standing standing() const;
};
/// The worst one decides: a cell has failed when one connection in it has.
Standing worst(const Matrix& matrix, const Matrix::Cell& cell);

/// Names for addresses, one per line: `192.0.2.1 alpha` or, as TOML has it, `"192.0.2.1" = "alpha"`. '#' begins a
/// comment.
class PeerNames {
 public:
  /// Empty, or "line 3: ..." .
  std::string read(std::string_view text);
  /// The name for an address, whatever its port; else the address.
  std::string name(const Address& address) const;

 private:
  std::map<std::string, std::string> names_;
};
/// "parley--siw.pcap": what the file's name says of the two ends, initiator first. False when it says nothing.
bool names_in_path(std::string_view path, std::string& initiator, std::string& responder);

std::string to_text(const Matrix& matrix, std::size_t width);
/// One line per connection, with a header.
std::string to_csv(const Matrix& matrix, const draw::Provenance* provenance = nullptr);
/// One page that needs nothing else.
std::string to_html(const Matrix& matrix, std::string_view title, const draw::Provenance* provenance = nullptr);

}  // namespace parley::capture
