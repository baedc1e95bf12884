// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/json_text.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace parley {

std::string json_word(std::string_view words) {
  std::string word(words);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

Json json_octets(ConstBytes octets) {
  Json json{{"length", octets.size()}, {"hex", hex_digits(octets)}};
  if (!octets.empty() && is_printable(octets)) json["text"] = std::string(octets.begin(), octets.end());
  return json;
}

}  // namespace parley
