// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of a capture as a ladder: the initiator on the left, the responder on the right. Each event of the
// report is a row, and each finding is a row at its frame.
#pragma once
#include <string>
#include <string_view>

#include "capture/report.hpp"
#include "draw/ladder.hpp"

namespace parley::capture {

struct CaptureLadderOptions {
  std::size_t rows_max = 5000;  ///< browsers are slow with more; further event rows are only counted
  bool notes = true;            ///< with findings of severity note
  std::size_t number = 0;       ///< the connection's number in its file, from 1; 0: do not show it
};

/// `connection` must have been reported with events, preferably with fields. Times count from its first packet.
draw::Ladder ladder_of(std::string_view file, const ConnectionReport& connection,
                       const CaptureLadderOptions& options = {});

}  // namespace parley::capture
