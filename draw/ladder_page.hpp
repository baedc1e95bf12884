// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The fixed parts of the ladder's HTML page: style and script. The script is optional: the page has the ladder, the
// tooltips and the list of frames without it.
#pragma once
#include <string_view>

namespace parley::draw {

extern const std::string_view ladder_style;
extern const std::string_view ladder_script;

/// Heights in CSS pixels, used by the page as written and by the script that lays it out again after a filter.
inline constexpr int ladder_line_y = 22;  ///< of an arrow's beginning in its row
inline constexpr int ladder_slant = 7;    ///< of an arrow that arrives before anything else happens
inline constexpr int ladder_step = 7;     ///< of an arrival that comes later

}  // namespace parley::draw
