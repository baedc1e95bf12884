// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Collects the connections of one capture for the matrix. They arrive in the order of their ends. Their names depend on
// the connection that began first, which is known only when the whole file has been read.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "capture/report/matrix.hpp"

namespace parley::capture {

class MatrixCollector {
 public:
  /// `names` override those in the path of the file.
  MatrixCollector(Matrix& matrix, std::string file, const PeerNames& names)
      : matrix_(matrix), file_(std::move(file)), names_(names) {}

  /// Adds a judged connection of the file. `ladder`: as text, may be empty.
  void add(ConnectionReport&& connection, std::string ladder);
  /// Adds all of them to the matrix, by first frame. Call once.
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
  struct GroupKey {
    Hosts hosts;
    std::string form;
    bool roce = false;
    auto operator<=>(const GroupKey&) const = default;
  };

  Matrix& matrix_;
  std::string file_;
  const PeerNames& names_;
  std::vector<Listed> listed_;
  std::map<GroupKey, StandingCounts> counted_;  // connections that are not listed; at most Matrix::cells_max entries
  StandingCounts outside_;                      // connections beyond these entries
  std::uint64_t first_frame_ = UINT64_MAX;
  Hosts first_;  // of the connection that began first
};

}  // namespace parley::capture
