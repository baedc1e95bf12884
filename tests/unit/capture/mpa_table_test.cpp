// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The phases of an MPA connection as the checker sees it: the tables from which it runs (tests/states/capture_mpa.txt),
// and what packets do to a real connection in each phase (tests/states/capture_mpa_packets.txt).
#include <fmt/format.h>

#include <functional>
#include <set>

#include "capture/rules/mpa/connection.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture::mpa_table {
namespace {

using test::Exchange;
constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S, M = PARLEY_MPA_FLAG_M;

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

/// One phase: a line for each input that does something.
template <class Phase, class Input, class Judged>
std::string phase_table(Phase phase, std::size_t inputs, Judged judged) {
  std::string out;
  for (std::size_t i = 0; i < inputs; ++i) {
    const auto input = static_cast<Input>(i);
    const auto step = step_of(phase, input);
    const std::string what = judged(step);
    if (step.next == phase && what.empty()) continue;
    const std::string next = step.next != phase ? fmt::format("-> {}", to_string(step.next)) : "";
    out += trimmed(fmt::format("  {:<32} {:<18} {}", to_string(input), next, what));
  }
  return out + "  any other                        -\n";
}

std::string set_up_table() {
  std::string out;
  for (std::size_t p = 0; p < set_up_phases; ++p) {
    const auto phase = static_cast<SetUpPhase>(p);
    out += fmt::format("\n{}: {}\n", to_string(phase), to_string(outcome_of(phase)));
    out += phase_table<SetUpPhase, SetUpInput>(phase, set_up_inputs, [](const SetUpStep& step) {
      std::string what;
      for (const SetUpCheck check : step.checks)
        if (check != SetUpCheck::none) what += fmt::format("{}{}", what.empty() ? "" : "; ", to_string(check));
      return what;
    });
  }
  return out;
}

std::string stream_table() {
  std::string out;
  for (std::size_t p = 0; p < stream_phases; ++p) {
    const auto phase = static_cast<StreamPhase>(p);
    out += fmt::format("\n{}\n", to_string(phase));
    out += phase_table<StreamPhase, StreamInput>(
        phase, stream_inputs, [](const StreamStep& step) { return std::string(to_string(step.act)); });
  }
  return out;
}

TEST(CaptureMpaTable, EveryPhaseWithEveryInputIsAsReviewed) {
  expect_as_reviewed(
      "capture_mpa.txt",
      "# The phases of an MPA connection as `parley pcap check` sees it, with every input: next phase; what "
      "is judged.\n# \"-\" is nothing at all. Written by the test CaptureMpaTable with PARLEY_REWRITE=1; "
      "read every line that changes.\n\n== The set-up: phase, and the outcome of a connection that ends "
      "in it ==\n" +
          set_up_table() + "\n== One direction: how its octets are read ==\n" + stream_table());
}

TEST(CaptureMpaTable, EveryPhaseIsReachedAndEveryCheckIsMade) {
  std::set<SetUpPhase> reached{SetUpPhase::nothing};
  std::set<SetUpCheck> made;
  for (std::size_t round = 0; round < set_up_phases; ++round)
    for (const SetUpPhase phase : std::set<SetUpPhase>(reached))
      for (std::size_t i = 0; i < set_up_inputs; ++i) {
        const SetUpStep step = step_of(phase, static_cast<SetUpInput>(i));
        reached.insert(step.next);
        made.insert(step.checks.begin(), step.checks.end());
      }
  EXPECT_EQ(reached.size(), set_up_phases);
  for (std::uint8_t check = 0; !to_string(static_cast<SetUpCheck>(check)).empty() || check == 0; ++check) {
    EXPECT_TRUE(made.contains(static_cast<SetUpCheck>(check))) << to_string(static_cast<SetUpCheck>(check));
    if (static_cast<SetUpCheck>(check) == SetUpCheck::rtr_missing) break;
  }
}

TEST(CaptureMpaTable, APhaseThatEndsASetUpIsNotLeft) {
  for (const SetUpPhase phase :
       {SetUpPhase::rejected, SetUpPhase::given_up, SetUpPhase::failed, SetUpPhase::not_captured})
    for (std::size_t i = 0; i < set_up_inputs; ++i)
      EXPECT_EQ(step_of(phase, static_cast<SetUpInput>(i)).next, phase)
          << to_string(phase) << ", " << to_string(static_cast<SetUpInput>(i));
}

struct NoOtherSetUp final : RejectedSetUps {
  EventLimits set_up_rejected(MpaConnection&, ConnectionReport&&, bool, std::uint64_t) override {
    another = true;
    return {};
  }
  bool another = false;
};

/// Where a connection is after some packets, and what is said of it in the end.
struct Followed {
  std::string phases;
  std::string outcome;
  std::vector<std::string> findings;
};

Followed follow(const Exchange& x, bool picked_up) {
  ReassemblyBudget budget;
  NoOtherSetUp others;
  MpaConnection c(budget, {}, others);
  if (picked_up) c.pick_up(0, {});
  std::uint64_t frame = 0;
  for (const test::Frame& f : x.frames) {
    const wire::PacketView v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
    c.packet(v.tcp.source == test::end_a(false) ? 0 : 1, v.tcp, ++frame, f.at);
  }
  c.stop_waiting();
  Followed out;
  out.phases = fmt::format("{:<15} {:<13} {:<13}", to_string(c.set_up_phase()),
                           to_string(c.stream_phase(Side::initiator)), to_string(c.stream_phase(Side::responder)));
  if (c.not_mpa()) return {.phases = "not MPA", .outcome = "", .findings = {}};
  const ConnectionReport r = c.finish();
  out.outcome = fmt::format("{}{}", others.another ? "another set-up: " : "", to_string(r.outcome));
  for (const Finding& f : r.findings)
    if (f.broken) out.findings.emplace_back(f.key());
  return out;
}

struct Origin {
  std::string name;
  std::function<Exchange()> made;
  bool picked_up = false;
};
struct Input {
  std::string name;
  std::function<void(Exchange&)> add;
};

Bytes request(std::uint8_t flags, std::uint8_t revision = 1, std::optional<wire::MpaEnhanced> e = {}) {
  return test::startup(wire::MpaKey::req, flags, revision, e);
}
Bytes reply(std::uint8_t flags, std::uint8_t revision = 1, std::optional<wire::MpaEnhanced> e = {}) {
  return test::startup(wire::MpaKey::rep, flags, revision, e);
}
Bytes send_fpdu() { return test::fpdu(test::send_segment(1, 4)); }
Bytes damaged(Bytes fpdu) {
  fpdu.back() ^= 1;
  return fpdu;
}

std::vector<Origin> origins() {
  const auto set_up = [](const Bytes& q, const Bytes& r) {
    return [=] { return Exchange().open().send(0, q).send(1, r); };
  };
  const wire::MpaEnhanced write{.a = true, .c = true, .ird = 3, .ord = 3},
      read{.a = true, .d = true, .ird = 3, .ord = 3};
  const Bytes rtr = test::startup(wire::MpaKey::rtr, C, 1);
  return {
      {"nothing", [] { return Exchange().open(); }},
      {"requested", [] { return Exchange().open().send(0, request(C)); }},
      {"reply_lost",
       [] {
         Exchange x = Exchange().open().send(0, request(C)).send(1, reply(C));
         x.frames.pop_back();
         return x.send(1, send_fpdu());
       }},
      {"no_common_rtr", set_up(request(C | S, 2, write), reply(C | S, 2, read))},
      {"rtr_due", set_up(request(C | S, 2, write), reply(C | S, 2, write))},
      {"rtr_frame_due", set_up(request(C | S), reply(C | S))},
      {"rtr_frame_wrong", [=] { return set_up(request(C | S), reply(C | S))().send(0, reply(C)); }},
      {"operational", set_up(request(C), reply(C))},
      {"operational, the Reply has M", set_up(request(C), reply(C | M))},
      {"operational by an Rtr frame", [=] { return set_up(request(C | S), reply(C | S))().send(0, rtr); }},
      {"rejected", set_up(request(C), reply(C | R))},
      {"failed, the Reply has another key", set_up(request(C), request(C))},
      {"failed by a Terminate",
       [=] {
         return set_up(request(C | S, 2, write), reply(C | S, 2, read))().send(0,
                                                                               test::fpdu(test::terminate(0x20, 7, 0)));
       }},
      {"not_captured", [] { return Exchange().send(0, send_fpdu()).send(0, test::fpdu(test::send_segment(2, 4), 24)); },
       true},
  };
}

std::vector<Input> inputs() {
  const auto octets = [](unsigned from, Bytes in) { return [=](Exchange& x) { x.send(from, in); }; };
  const Bytes rtr = test::startup(wire::MpaKey::rtr, C, 1);
  const auto lost = [](unsigned from) {
    return [=](Exchange& x) {
      x.send(from, Bytes(24));
      x.frames.pop_back();
      x.acknowledge(1 - from);
    };
  };
  return {
      {"nothing more", [](Exchange&) {}},
      {"Request", octets(0, request(C))},
      {"Reply", octets(1, reply(C))},
      {"Reply R=1", octets(1, reply(C | R))},
      {"Rtr frame", octets(0, rtr)},
      {"FPDU, initiator", octets(0, send_fpdu())},
      {"FPDU, CRC wrong, initiator", octets(0, damaged(send_fpdu()))},
      {"RTR Write, initiator", octets(0, test::fpdu(test::tagged(wire::RdmapOpcode::rdma_write, 0, 0, 0)))},
      {"FPDU, responder", octets(1, send_fpdu())},
      {"Terminate 2/0/07, initiator", octets(0, test::fpdu(test::terminate(0x20, 7, 0)))},
      {"Terminate 0/2/05, responder", octets(1, test::fpdu(test::terminate(0x02, 5, 0)))},
      {"Terminate 2/3/05, responder", octets(1, test::fpdu(test::terminate(0x23, 5, 0)))},
      {"\"X\", initiator", octets(0, Bytes{'X'})},
      {"\"X\", responder", octets(1, Bytes{'X'})},
      {"hole, initiator", lost(0)},
      {"hole, responder", lost(1)},
      {"FIN, initiator", [](Exchange& x) { x.fin(0); }},
      {"FIN, responder", [](Exchange& x) { x.fin(1); }},
      {"FIN of both", [](Exchange& x) { x.fin(0).fin(1); }},
      {"RST, initiator", [](Exchange& x) { x.rst(0); }},
      {"RST, responder", [](Exchange& x) { x.rst(1); }},
  };
}

/// The findings of `after` without those of `before`.
std::string more(std::vector<std::string> after, const std::vector<std::string>& before) {
  for (const std::string& one : before)
    if (const auto it = std::find(after.begin(), after.end(), one); it != after.end()) after.erase(it);
  std::string out;
  for (const std::string& one : after) out += (out.empty() ? "" : " ") + one;
  return out;
}

TEST(CaptureMpaTable, WhatPacketsDoInEachPhaseIsAsReviewed) {
  std::string out =
      "# What packets do to an MPA connection in each phase, as `parley pcap check` sees it: the set-up's phase, how "
      "the\n"
      "# octets of the initiator and of the responder are read, the outcome if the capture ends there, and the "
      "findings\n"
      "# that come with the packets. Written by the test CaptureMpaTable with PARLEY_REWRITE=1; read every line that\n"
      "# changes.\n";
  for (const Origin& origin : origins()) {
    const Followed before = follow(origin.made(), origin.picked_up);
    EXPECT_TRUE(origin.name.starts_with(before.phases.substr(0, before.phases.find(' '))) || origin.name == "nothing")
        << origin.name << ": " << before.phases;
    out += "\n" + origin.name + "\n";
    for (const Input& input : inputs()) {
      Exchange x = origin.made();
      input.add(x);
      const Followed after = follow(x, origin.picked_up);
      out += trimmed(fmt::format("  {:<28} {} {:<22} {}", input.name, after.phases, after.outcome,
                                 more(after.findings, before.findings)));
    }
  }
  expect_as_reviewed("capture_mpa_packets.txt", out);
}

}  // namespace
}  // namespace parley::capture::mpa_table
