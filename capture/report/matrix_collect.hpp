// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connections of one capture on their way into the matrix. They arrive as they end, and their names depend on the
// one that began first, which is known only when the whole file has been read.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "capture/report/matrix.hpp"

namespace parley::capture {

class MatrixCollector {
 public:
  /// `names` come before those that the path of the file gives.
  MatrixCollector(Matrix& matrix, std::string file, const PeerNames& names)
      : matrix_(matrix), file_(std::move(file)), names_(names) {}

  /// One connection of the file, judged; `ladder` as text, or empty.
  void add(ConnectionReport&& connection, std::string ladder);
  /// Puts all of them into the matrix, by first frame. Called once.
  void finish();

 private:
  struct Hosts {
    std::string initiator, responder;  ///< addresses without ports
    auto operator<=>(const Hosts&) const = default;
  };
  struct Listed {
    Hosts hosts;
    MatrixEntry entry;
  };
  struct Alike {
    Hosts hosts;
    std::string form;
    bool roce = false;
    auto operator<=>(const Alike&) const = default;
  };

  Matrix& matrix_;
  std::string file_;
  const PeerNames& names_;
  std::vector<Listed> listed_;
  std::map<Alike, StandingCounts> counted_;  // without those listed; at most Matrix::cells_max
  StandingCounts outside_;                   // beyond these
  std::uint64_t first_frame_ = UINT64_MAX;
  Hosts first_;  // of the connection that began first
};

}  // namespace parley::capture
