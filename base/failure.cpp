// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/failure.hpp"

#include <array>

namespace parley::cm {

std::string_view to_string(Stage stage) {
  static constexpr std::array<std::string_view, 9> names{"resolve", "route", "transport", "request", "decision",
                                                         "reply",   "ready", "data",      "closing"};
  const auto at = static_cast<std::size_t>(stage);
  return at < names.size() ? names[at] : "unknown";
}

std::string Failure::to_string(std::string_view peer) const {
  std::string out{step.text};
  if (!peer.empty()) {
    out += ' ';
    out += step.preposition;
    out += ' ';
    out += peer;
  }
  out += ": ";
  out += code ? code.message() : std::string("no error");
  if (!received.empty()) {
    out += " (" + received;
    if (offset != 0) out += ", at octet " + std::to_string(offset);
    out += ')';
  }
  if (!rule.empty()) out += " [" + rule + ']';
  if (!advice.empty()) out += "; " + advice;
  return out;
}

}  // namespace parley::cm
