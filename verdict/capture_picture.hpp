// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of a capture as a ladder: the initiator left, the responder right, each event of the report a row, each
// finding a row at its frame. And several ladders in one page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "verdict/picture.hpp"
#include "verdict/report.hpp"

namespace parley::verdict {

struct CapturePictureOptions {
  std::size_t rows_max = 5000;  ///< more no browser shows at ease; the rest is counted
  bool notes = true;            ///< findings of severity note as well
  std::size_t number = 0;       ///< the connection's in its file, from 1; 0: not told
};

/// `connection` was reported with events, best with fields. Times count from its first packet.
Picture to_picture(std::string_view file, const ConnectionReport& connection,
                   const CapturePictureOptions& options = {});

/// One page for any number of ladders, one below the other; as self-contained as each of them. `left_out` more are only
/// counted. One picture alone is the page of to_html(picture).
std::string to_html(std::string_view title, const std::vector<Picture>& pictures, std::size_t left_out,
                    const Provenance* provenance = nullptr);

}  // namespace parley::verdict
