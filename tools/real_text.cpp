// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/real_text.hpp"

#include <nlohmann/json.hpp>

namespace parley::tools {

// One number in a thousand has more digits here than std::to_chars gives it. Whoever compares what runs print with what
// they printed before finds the same octets.
std::string real_text(double value) { return nlohmann::json(value).dump(); }

}  // namespace parley::tools
