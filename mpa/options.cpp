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

struct StageText {
  Stage stage;
  std::string_view text;
  std::string_view preposition;  // joins the peer's name to the text
};
constexpr std::array<StageText, 11> stage_texts{{{Stage::resolve, "resolve the name", "of"},
                                                 {Stage::tcp_connect, "open the TCP connection", "to"},
                                                 {Stage::send_request, "send the MPA Request", "to"},
                                                 {Stage::wait_request, "wait for the MPA Request", "from"},
                                                 {Stage::ulp_decision, "decide on the MPA Request", "from"},
                                                 {Stage::wait_reply, "wait for the MPA Reply", "from"},
                                                 {Stage::send_rtr, "send the RTR", "to"},
                                                 {Stage::wait_rtr, "wait for the RTR", "from"},
                                                 {Stage::wait_first_fpdu, "wait for the first FPDU", "from"},
                                                 {Stage::data, "transfer data", "with"},
                                                 {Stage::closing, "close the connection", "with"}}};

const StageText& text_of(Stage stage) {
  for (const StageText& t : stage_texts)
    if (t.stage == stage) return t;
  static constexpr StageText unknown{Stage::data, "unknown stage", "with"};
  return unknown;
}

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

std::string_view to_string(Stage stage) { return text_of(stage).text; }

std::string Failure::to_string(std::string_view peer) const {
  const StageText& where = text_of(stage);
  std::string out{where.text};
  if (!peer.empty()) {
    out += ' ';
    out += where.preposition;
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

}  // namespace parley::mpa
