// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/real_text.hpp"

#include <nlohmann/json.hpp>

namespace parley::tools {

// nlohmann::json prints about one number in a thousand with more digits than std::to_chars. This function keeps that
// format, so that outputs of different versions can be compared octet by octet.
std::string real_text(double value) { return nlohmann::json(value).dump(); }

}  // namespace parley::tools
