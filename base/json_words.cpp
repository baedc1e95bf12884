// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/json_words.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace parley {

std::string json_word(std::string_view words) {
  std::string word(words);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

bool printable(ConstBytes octets) {
  return std::all_of(octets.begin(), octets.end(), [](std::uint8_t c) { return c >= 0x20 && c < 0x7F; });
}

Json json_octets(ConstBytes octets) {
  Json json{{"length", octets.size()}, {"hex", hex_digits(octets)}};
  if (!octets.empty() && printable(octets)) json["text"] = std::string(octets.begin(), octets.end());
  return json;
}

}  // namespace parley
