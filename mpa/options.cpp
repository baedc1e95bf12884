// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <array>

#include "parley/mpa.hpp"

namespace parley::mpa {
namespace {

struct RtrText {
  Rtr rtr;
  std::string_view text;
};
constexpr std::array<RtrText, 5> rtr_texts{
    {{Rtr::none, "none"}, {Rtr::frame, "frame"}, {Rtr::send, "send"}, {Rtr::write, "write"}, {Rtr::read, "read"}}};

}  // namespace

std::string_view to_string(Rtr rtr) {
  for (const RtrText& t : rtr_texts)
    if (t.rtr == rtr) return t.text;
  return "unknown";
}

Result<Rtr> parse_rtr(std::string_view text) {
  for (const RtrText& t : rtr_texts)
    if (t.text == text) return t.rtr;
  return fail(Errc::invalid_argument, "an RTR is none, frame, send, write or read");
}

}  // namespace parley::mpa
