// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Set-ups that are given up in every way after every Reply, and Terminates of every kind after every fault
// (tests/states/capture_given_up.txt, capture_terminates.txt).
#include <gtest/gtest.h>

#include "tests/unit/capture/runs.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture::terminates_test {
namespace {

using test::Exchange;
using test::fpdu;
using test::Frames;
using test::send_segment;
using test::startup;
using test::tagged;
using wire::MpaEnhanced;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S, M = PARLEY_MPA_FLAG_M;

/// Outcome and findings, by ids.
std::string found(const Frames& frames) {
  std::string out;
  for (const ConnectionReport& c : test::analyse(frames).connections)
    out += fmt::format("{}{} {}, {}{}{}", out.empty() ? "" : " || ", to_string(c.outcome),
                       to_string(c.judgement.standing), rtr_text(c),
                       c.not_agreed().empty() ? "" : ", agreed " + std::string(c.not_agreed()), test::found(c));
  return out.empty() ? "no MPA connection" : out;
}
using Named = std::pair<std::string, Bytes>;
using Step = std::pair<std::string, std::function<void(Exchange&)>>;

std::vector<Step> ways_to_end() {
  std::vector<Step> out;
  for (const auto code : std::array<std::uint8_t, 6>{2, 4, 5, 6, 7, 8})
    out.emplace_back(fmt::format("Terminate of MPA {}", code),
                     [code](Exchange& x) { x.send(0, fpdu(test::terminate(0x20, code, 0)), 20).close(); });
  out.emplace_back("Terminate of MPA 6, nibbles exchanged",
                   [](Exchange& x) { x.send(0, fpdu(test::terminate(0x02, 6, 0))).close(); });
  out.emplace_back("Terminate of MPA 6 by the responder",
                   [](Exchange& x) { x.send(1, fpdu(test::terminate(0x20, 6, 0))).close(); });
  out.emplace_back("FIN of the initiator", [](Exchange& x) { x.fin(0); });
  out.emplace_back("RST of the initiator", [](Exchange& x) { x.rst(0); });
  out.emplace_back("FIN of the responder", [](Exchange& x) { x.fin(1); });
  out.emplace_back("RST of the responder", [](Exchange& x) { x.rst(1); });
  out.emplace_back("both close", [](Exchange& x) { x.close(); });
  out.emplace_back("a Send", [](Exchange& x) { x.send(0, fpdu(send_segment(1, 4)), 20); });
  out.emplace_back("an empty RDMA Write",
                   [](Exchange& x) { x.send(0, fpdu(tagged(RdmapOpcode::rdma_write, 1, 0, 0)), 12).close(); });
  out.emplace_back("an Rtr frame", [](Exchange& x) { x.send(0, startup(MpaKey::rtr, C, 1)).close(); });
  out.emplace_back("an Rtr frame, RST of the responder",
                   [](Exchange& x) { x.send(0, startup(MpaKey::rtr, C, 1)).rst(1); });
  out.emplace_back("an Rtr frame, taken for an FPDU", [](Exchange& x) {
    x.send(0, startup(MpaKey::rtr, C, 1)).send(1, fpdu(test::terminate(0x02, 5, 0))).close();
  });
  out.emplace_back("nothing", [](Exchange&) {});
  return out;
}

TEST(CaptureGivenUp, SetUpsAfterEveryReply) {
  constexpr std::uint16_t none = PARLEY_MPA_ENH_NOT_NEGOTIATED;
  const MpaEnhanced plain{.ird = 3, .ord = 5}, open{.ird = none, .ord = none};
  const MpaEnhanced bc{.a = true, .b = true, .c = true, .ird = 3, .ord = 5},
      d{.a = true, .d = true, .ird = 5, .ord = 3};
  const MpaEnhanced c{.a = true, .c = true, .ird = 5, .ord = 3}, low{.ird = 4, .ord = 3}, high{.ird = 5, .ord = 4};
  const auto enhanced = [](MpaKey key, const MpaEnhanced& e) { return startup(key, C | S, 2, e); };
  const Named requests[] = {{"revision 1", startup(MpaKey::req, C, 1)},
                            {"revision 1 with S", startup(MpaKey::req, C | S, 1)},
                            {"enhanced", enhanced(MpaKey::req, plain)},
                            {"enhanced, no depths", enhanced(MpaKey::req, open)},
                            {"peer to peer, Send or Write", enhanced(MpaKey::req, bc)}};
  const Named replies[] = {{"revision 1", startup(MpaKey::rep, C, 1)},
                           {"revision 1 with S", startup(MpaKey::rep, C | S, 1)},
                           {"revision 1, markers", startup(MpaKey::rep, C | M, 1)},
                           {"rejected", startup(MpaKey::rep, C | R, 1)},
                           {"enhanced, fits", enhanced(MpaKey::rep, {.ird = 5, .ord = 3})},
                           {"enhanced, IRD too low", enhanced(MpaKey::rep, low)},
                           {"enhanced, ORD too high", enhanced(MpaKey::rep, high)},
                           {"enhanced, IRD not negotiated", enhanced(MpaKey::rep, {.ird = none, .ord = 3})},
                           {"enhanced, ORD not negotiated", enhanced(MpaKey::rep, {.ird = 5, .ord = none})},
                           {"RTR by RDMA Write", enhanced(MpaKey::rep, c)},
                           {"RTR by RDMA Read", enhanced(MpaKey::rep, d)},
                           {"revision 3", startup(MpaKey::rep, C, 3)},
                           {"a Request", startup(MpaKey::req, C, 1)}};
  std::string out;
  for (const auto& [asked, request] : requests)
    for (const auto& [answered, reply] : replies) {
      // What does not belong together is looked at for one Request only.
      const bool one = request[PARLEY_MPA_FLAGS_OFF + 1] == 1;
      if (one != (reply[PARLEY_MPA_FLAGS_OFF + 1] == 1) && asked != "enhanced" && asked != "revision 1") continue;
      if (one && reply[PARLEY_MPA_FLAGS_OFF + 1] == 2 && answered != "enhanced, fits") continue;
      Exchange open_ended;
      const std::string usual = found(open_ended.open().send(0, request).send(1, reply).frames);
      test::Runs runs(usual);
      for (const Step& end : ways_to_end()) {
        if (end.first.find("Rtr frame") != std::string::npos && asked != "revision 1 with S" &&
            answered != "revision 1 with S")
          continue;
        Exchange x;
        x.open().send(0, request).send(1, reply);
        end.second(x);
        runs.add(end.first, found(x.frames));
      }
      out += fmt::format("== {}, answered: {} ==\n{}\n", asked, answered, usual) + runs.text();
    }
  test::Runs lost;
  for (const Named& request : requests)
    for (const Step& end : ways_to_end()) {
      Exchange x;
      x.open().send(0, request.second);
      x.send(1, startup(MpaKey::rep, C, 1));
      x.frames.pop_back();
      end.second(x);
      lost.add(request.first + ", " + end.first, found(x.frames));
    }
  out += "== the Reply is lost ==\n" + lost.text();
  test::Runs no_request;
  for (const Named& reply : replies)
    for (const Step& end : ways_to_end()) {
      Exchange x;
      x.open().send(0, startup(MpaKey::req, C, 1)).send(1, reply.second);
      x.frames.erase(x.frames.begin() + 3);
      end.second(x);
      no_request.add(reply.first + ", " + end.first, found(x.frames));
    }
  out += "== the Request is lost ==\n" + no_request.text();
  test::expect_ids_as_reviewed("capture_given_up.txt", out);
}

Bytes with(Bytes ulpdu, std::size_t at, std::uint8_t bits) {
  ulpdu[at] ^= bits;
  return ulpdu;
}

/// f: nothing to say; o: another one was due; n: no cause; x: nibbles exchanged; h: of headers; m: type 3; u: unknown.
std::string verdict(const Frames& frames) {
  std::string out;
  const std::pair<std::string_view, char> words[] = {{"with a Terminate that says", 'o'},
                                                     {"gives cause", 'n'},
                                                     {"wrong order", 'x'},
                                                     {"header", 'h'},
                                                     {"error type 3", 'm'},
                                                     {"sent a Terminate with", 'u'},
                                                     {"neither side asked for CRCs", 'c'}};
  for (const ConnectionReport& c : test::analyse(frames).connections)
    for (const Finding& f : c.findings)
      for (const auto& [part, letter] : words)
        if (f.severity != Severity::note && f.text.find(part) != std::string::npos) out += letter;
  return out.empty() ? "f" : out;
}

TEST(CaptureGivenUp, EveryTerminateAfterEveryFault) {
  const Bytes send = send_segment(1, 4), write = tagged(RdmapOpcode::rdma_write, 5, 0x100, 4);
  Bytes bad = fpdu(send);
  bad.back() ^= 1;
  const Named faults[] = {{"none", fpdu(send)},
                          {"none: an RDMA Write", fpdu(write)},
                          {"none: a Read Request", fpdu(test::read_request(1, {7, 0x100, 4, 8, 0x40}))},
                          {"none: an Atomic", fpdu(test::atomic_request(1, 3))},
                          {"CRC wrong", bad},
                          {"length 0", Bytes{0, 0, 0x41, 0x43, 0, 0, 0, 0}},
                          {"too short", fpdu(Bytes{0x41, 0x43, 0})},
                          {"DDP version, untagged", fpdu(with(send, 0, 2))},
                          {"DDP version, tagged", fpdu(with(write, 0, 2))},
                          {"RDMAP version", fpdu(with(send, 1, 0x80))},
                          {"opcode", fpdu(with(send, 1, 0xE))},
                          {"tagged Send", fpdu(with(write, 1, 3))},
                          {"queue", fpdu(with(send, 9, 1))},
                          {"MSN", fpdu(with(send, 13, 2))},
                          {"MO of a Read Request", fpdu(with(test::read_request(1, {7, 0x100, 4, 8, 0x40}), 17, 8))},
                          {"TO that wraps", fpdu(tagged(RdmapOpcode::rdma_write, 5, ~std::uint64_t{0}, 4))},
                          {"Read Response unasked", fpdu(tagged(RdmapOpcode::read_response, 5, 0, 4))},
                          {"Atomic at an odd TO", fpdu(with(test::atomic_request(1, 3), 33, 4))}};
  std::string out;
  for (const auto& [name, octets] : faults)
    for (std::uint8_t layer = 0; layer < 4; ++layer) {
      for (std::uint8_t type = 0; type < 4; ++type) {
        out += fmt::format("{}, {}/{}:", name, layer, type);
        for (std::uint8_t code = 0; code < 10; ++code) {
          Exchange x;
          x.set_up().send(0, octets).send(1,
                                          fpdu(test::terminate(static_cast<std::uint8_t>(layer << 4 | type), code, 0)));
          out += " " + verdict(x.close().frames);
        }
        out += "\n";
      }
    }
  out += "== no CRC asked for ==\n";
  for (std::uint8_t code = 1; code < 4; ++code) {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, 0, 1)).send(1, startup(MpaKey::rep, 0, 1));
    x.send(0, fpdu(send, 0, false, false)).send(1, fpdu(test::terminate(0x20, code, 0), 0, false, false));
    out += fmt::format("2/0/{}: {}\n", code, verdict(x.close().frames));
  }
  expect_as_reviewed("capture_terminates.txt", out);
}

// RFC 5040 §7.2: what the other side does with a fault, and when it can know of it.
TEST(CaptureGivenUp, EveryReactionToAFault) {
  const Bytes wrong = fpdu(with(send_segment(2, 4), 9, 1)), good = fpdu(send_segment(1, 4));
  const std::vector<Step> steps{
      {"goes on", [](Exchange& x) { x.send(1, fpdu(send_segment(1, 4))); }},
      {"closes", [](Exchange& x) { x.fin(1); }},
      {"resets", [](Exchange& x) { x.rst(1); }},
      {"Terminate that fits", [](Exchange& x) { x.send(1, fpdu(test::terminate(0x12, 1, 0))); }},
      {"another Terminate", [](Exchange& x) { x.send(1, fpdu(test::terminate(0x12, 3, 0))); }},
      {"a fault of its own", [](Exchange& x) { x.send(1, fpdu(with(send_segment(1, 4), 9, 1))); }},
      {"the culprit closes", [](Exchange& x) { x.fin(0); }},
      {"the culprit resets", [](Exchange& x) { x.rst(0); }},
      {"the culprit terminates", [](Exchange& x) { x.send(0, fpdu(test::terminate(0x20, 1, 0))); }},
      {"acknowledged", [](Exchange& x) { x.acknowledge(1); }}};
  std::string out;
  test::Runs runs;
  const auto by_culprit = [](const Step& s) { return s.first.find("culprit") != std::string::npos; };
  const auto ends = [](const Step& s) { return s.first.ends_with("closes") || s.first.ends_with("resets"); };
  for (const Step& first : steps)
    for (const Step& second : steps) {
      // Nothing follows an end of one's own, and little an RST.
      const bool same_side = by_culprit(first) == by_culprit(second);
      if (ends(first) && (same_side || first.first.ends_with("resets")) && second.first != "acknowledged") continue;
      if (first.first.find("erminate") != std::string::npos && same_side && !ends(second)) continue;
      for (const bool heard : {true, false}) {
        if (by_culprit(first) && !heard) continue;
        Exchange x;
        x.set_up().send(0, good);
        Exchange crossing = x;
        x.send(0, wrong);
        if (heard) {
          first.second(x);
        } else {  // the responder's first answer was sent before the fault came
          first.second(crossing);
          x.frames.insert(x.frames.end(), crossing.frames.begin() + 6, crossing.frames.end());
          x.seq(1) = crossing.seq(1);
        }
        second.second(x);
        runs.add(fmt::format("{}{}, {}", first.first, heard ? "" : " (crossing)", second.first), found(x.frames));
      }
    }
  out += runs.text();
  test::expect_ids_as_reviewed("capture_reactions.txt", out);
}

}  // namespace
}  // namespace parley::capture::terminates_test
