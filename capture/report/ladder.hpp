// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of a capture as a ladder: the initiator left, the responder right, each event of the report a row, each
// finding a row at its frame.
#pragma once
#include <string>
#include <string_view>

#include "capture/report.hpp"
#include "draw/ladder.hpp"

namespace parley::capture {

struct CaptureLadderOptions {
  std::size_t rows_max = 5000;  ///< more no browser shows at ease; the rest is counted
  bool notes = true;            ///< findings of severity note as well
  std::size_t number = 0;       ///< the connection's in its file, from 1; 0: not told
};

/// `connection` was reported with events, best with fields. Times count from its first packet.
draw::Ladder ladder_of(std::string_view file, const ConnectionReport& connection,
                       const CaptureLadderOptions& options = {});

}  // namespace parley::capture
