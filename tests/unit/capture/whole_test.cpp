// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a reviewer reads of captures, whole: the report and the ladder of each, and tables of what is found where packets
// are lost, late or out of order at the edges of a connection (tests/states/capture_*.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tests/unit/capture/ids.hpp"
#include "tests/unit/runs.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t flag_c = PARLEY_MPA_FLAG_C, flag_r = PARLEY_MPA_FLAG_R, flag_s = PARLEY_MPA_FLAG_S;

/// Result and findings of each connection, by ids.
std::string found_in(const test::Frames& frames) {
  std::string out;
  for (const ConnectionReport& c : test::analyse(frames).connections)
    out += fmt::format("{}{} {}, {}, {}/{} FPDUs, {}/{} lost, {}{}", out.empty() ? "" : " || ", to_string(c.outcome),
                       to_string(c.judgement.standing), rtr_text(c), c.from_initiator.fpdus, c.from_responder.fpdus,
                       c.from_initiator.missing_octets, c.from_responder.missing_octets, c.end, test::found(c));
  return out.empty() ? "no MPA connection" : out;
}

Bytes terminate_segment() {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, Bytes{0x12, 3, 0, 0});
}

/// Everything that a report has a row for: both ways, errors, warnings and notes, repeated and lost packets, texts that
/// go over several rows.
std::vector<std::pair<std::string, Exchange>> every_report() {
  std::vector<std::pair<std::string, Exchange>> out;
  Exchange both;
  both.set_up().send(0, fpdu(send_segment(1, 8))).send(1, fpdu(send_segment(1, 8)));
  both.send(1, fpdu(test::read_request(1, {1, 0, 8, 2, 0})));
  both.send(0, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 8)));
  out.emplace_back("both ways", both.close());
  out.emplace_back("one way, IPv6, private data", Exchange(true)
                                                      .open()
                                                      .send(0, startup(MpaKey::req, flag_c, 1, {}, Bytes{'h', 'i', 7}))
                                                      .send(1, startup(MpaKey::rep, flag_c, 1, {}, Bytes(70, 'x')))
                                                      .send(0, fpdu(test::tagged(RdmapOpcode::rdma_write, 1, 0, 8))));
  Exchange wrong;
  Bytes bad = fpdu(send_segment(2, 8));
  bad.back() ^= 1;
  wrong.set_up().send(0, fpdu(send_segment(1, 8))).send(0, bad).send(1, fpdu(send_segment(5, 8)));
  wrong.frames.push_back(wrong.frames[5]);
  wrong.send(1, fpdu(terminate_segment())).send(0, fpdu(send_segment(7, 8)));
  out.emplace_back("errors and a repetition", wrong.rst(0));
  Exchange lossy;
  lossy.set_up();
  for (std::uint32_t msn = 1; msn <= 4; ++msn) lossy.send(msn % 2, fpdu(send_segment((msn + 1) / 2, 100)));
  lossy.acknowledge(1).close();
  lossy.frames.erase(lossy.frames.begin() + 6);
  out.emplace_back("a packet lost", lossy);
  const wire::MpaEnhanced q{.a = true, .b = true, .c = true, .d = true, .ird = 4, .ord = 9},
      r{.a = true, .d = true, .ird = 2, .ord = 3};
  Exchange rtr;
  rtr.open().send(0, startup(MpaKey::req, flag_c | flag_s, 2, q)).send(1, startup(MpaKey::rep, flag_c | flag_s, 2, r));
  out.emplace_back("RTR agreed, not seen", rtr);
  rtr.send(0, fpdu(test::read_request(1, {1, 0, 0, 1, 0})))
      .send(1, fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 0)));
  out.emplace_back("RTR by RDMA Read", rtr.close());
  Exchange refused;
  refused.open().send(0, startup(MpaKey::req, flag_c, 1)).send(1, startup(MpaKey::rep, flag_c | flag_r, 1));
  out.emplace_back("rejected", refused.close());
  out.emplace_back("no Reply", Exchange().open().send(0, startup(MpaKey::req, flag_c, 1)).fin(0));
  return out;
}

TEST(CaptureWhole, ReportsAndLadders) {
  std::string out;
  for (const auto& [name, x] : every_report()) {
    out += "== " + name + " ==\n";
    for (const ConnectionReport& c : test::analyse(x.frames, 1, true).connections) {
      out += to_text(c) + "\n" + to_ladder(c, {.width = 100}) + "\n";
      out += to_text(c, {.width = 60, .notes = false}) + "\n" + to_ladder(c, {.width = 60, .ascii = true}) + "\n";
    }
  }
  expect_as_reviewed("capture_reports.txt", out);
}

// RFC 5044 §7.1.2 rules 2 and 3: what follows the Request before the Reply, and what the Reply acknowledges of it.
TEST(CaptureWhole, RepliesByWhatTheyAcknowledge) {
  const Bytes request = startup(MpaKey::req, flag_c, 1), reply = startup(MpaKey::rep, flag_c, 1);
  const auto early = [](std::uint32_t msn) { return fpdu(send_segment(msn, 8)); };
  Runs runs;
  for (const bool syn_ack : {true, false})
    for (const std::size_t lost : {0u, 1u, 2u, 3u, 4u})  // 4: octets of the responder before its Reply
      for (const std::size_t heard : {0u, 10u, 20u, 52u, 84u, 116u}) {
        Exchange to;  // a responder that has heard so much
        Bytes all = request;
        for (const std::uint32_t msn : {1u, 2u, 3u}) {
          const Bytes f = early(msn);
          all.insert(all.end(), f.begin(), f.end());
        }
        to.open().send(0, ConstBytes(all).first(heard));
        if (lost == 4) to.send(1, Bytes(20));
        to.send(1, reply);
        Exchange x;
        x.open().send(0, request, 10);
        for (const std::uint32_t msn : {1u, 2u, 3u}) x.send(0, early(msn));
        test::Frame answer = to.frames.back();
        answer.at = x.frames.back().at;
        x.frames.push_back(answer);
        x.seq(1) += lost == 4 ? 40 : 20;
        x.send(1, early(1)).close();
        if (lost > 0 && lost < 4) x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(4 + lost));
        if (!syn_ack) x.frames.erase(x.frames.begin() + 1);
        runs.add(fmt::format("{}{} acknowledged {}", syn_ack ? "" : "SYN-ACK lost, ",
                             lost == 0   ? "nothing lost,"
                             : lost == 4 ? "octets before the Reply lost,"
                                         : fmt::format("FPDU {} lost,", lost),
                             heard),
                 found_in(x.frames));
      }
  test::expect_ids_as_reviewed("capture_replies.txt", runs.text());
}

struct SetUpForm {
  std::string name;
  Bytes request, reply, first;  // first: what the initiator sends upon the Reply
};
std::vector<SetUpForm> set_up_forms() {
  const wire::MpaEnhanced plain{.ird = 4, .ord = 4},
      p2p{.a = true, .b = true, .c = true, .d = true, .ird = 4, .ord = 4};
  const Bytes send = fpdu(send_segment(1, 8)), write = fpdu(test::tagged(RdmapOpcode::rdma_write, 1, 0, 0));
  const auto with = [](MpaKey key, std::uint8_t flags, std::uint8_t revision, std::optional<wire::MpaEnhanced> e = {}) {
    return startup(key, flags, revision, e);
  };
  std::vector<SetUpForm> out;
  out.push_back({"revision 1", with(MpaKey::req, flag_c, 1), with(MpaKey::rep, flag_c, 1), send});
  for (const MpaKey key : {MpaKey::rtr, MpaKey::rtr_hex})
    out.push_back({key == MpaKey::rtr ? "Rtr frame, as text" : "Rtr frame, as hex",
                   with(MpaKey::req, flag_c | flag_s, 1), with(MpaKey::rep, flag_c | flag_s, 1), with(key, flag_c, 1)});
  out.push_back(
      {"revision 2", with(MpaKey::req, flag_c | flag_s, 2, plain), with(MpaKey::rep, flag_c | flag_s, 2, plain), send});
  out.push_back({"RTR by RDMA Write", with(MpaKey::req, flag_c | flag_s, 2, p2p),
                 with(MpaKey::rep, flag_c | flag_s, 2, p2p), write});
  return out;
}
Exchange exchange_of(const SetUpForm& form) {
  Exchange x;
  x.open().send(0, form.request).send(1, form.reply).send(0, form.first);
  const std::uint32_t msn = form.name == "revision 1" || form.name == "revision 2" ? 2 : 1;
  x.send(0, fpdu(send_segment(msn, 8))).send(1, fpdu(send_segment(1, 8))).send(0, fpdu(send_segment(msn + 1, 8)));
  return x.close();
}

TEST(CaptureWhole, SetUpsWhosePacketsAreLateOrLost) {
  Runs runs;
  for (const SetUpForm& form : set_up_forms()) {
    const Exchange x = exchange_of(form);
    for (std::size_t begin = 0; begin <= 7; ++begin)  // the capture begins with a later frame
      runs.add(fmt::format("{}, from frame {} on", form.name, begin + 1),
               found_in({x.frames.begin() + static_cast<std::ptrdiff_t>(begin), x.frames.end()}));
    for (std::size_t i = 1; i + 1 < x.frames.size(); ++i) {
      test::Frames lost = x.frames;
      lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(i));
      runs.add(fmt::format("{}, without frame {}", form.name, i + 1), found_in(lost));
      for (const std::size_t by : {1u, 2u}) {
        if (i + by >= x.frames.size()) continue;
        test::Frames late = x.frames;
        const auto at = late.begin() + static_cast<std::ptrdiff_t>(i);
        std::rotate(at, at + 1, at + 1 + static_cast<std::ptrdiff_t>(by));
        runs.add(fmt::format("{}, frame {} late by {}", form.name, i + 1, by), found_in(late));
      }
    }
  }
  test::expect_ids_as_reviewed("capture_set_ups.txt", runs.text());
}

// RFC 5044 §7.1.2 rule 3: nothing follows the Request before the Reply, not even what the Reply would ask for.
TEST(CaptureWhole, SetUpsWhoseInitiatorDoesNotWaitForTheReply) {
  Runs runs;
  for (const SetUpForm& form : set_up_forms())
    for (const std::size_t mss : {1460u, 7u}) {
      Exchange x;
      x.open().send(0, form.request).send(0, form.first, mss);
      x.send(0, fpdu(send_segment(form.name == "revision 1" || form.name == "revision 2" ? 2 : 1, 8)), mss);
      x.send(1, form.reply).send(1, fpdu(send_segment(1, 8))).close();
      runs.add(fmt::format("{}, segments of {}", form.name, mss), found_in(x.frames));
    }
  test::expect_ids_as_reviewed("capture_early.txt", runs.text());
}

// RFC 5041 §5.2, §5.3: octets that a message lacks are left out for certain only where its sender closed and was told of
// no error before.
TEST(CaptureWhole, MessagesThatLackOctetsByHowTheirConnectionEnds) {
  using Step = std::pair<std::string, void (*)(Exchange&)>;
  const std::vector<Step> steps{{"FIN", [](Exchange& x) { x.fin(0); }},
                                {"RST", [](Exchange& x) { x.rst(0); }},
                                {"FIN of the other", [](Exchange& x) { x.fin(1); }},
                                {"Terminate of the other", [](Exchange& x) { x.send(1, fpdu(terminate_segment())); }},
                                {"Terminate", [](Exchange& x) { x.send(0, fpdu(terminate_segment())); }}};
  const auto begun = [](bool write) {
    Exchange x;
    x.set_up();
    if (write) {
      x.send(0, fpdu(test::tagged(RdmapOpcode::rdma_write, 1, 0, 8, false)));
      return x.send(0, fpdu(test::tagged(RdmapOpcode::rdma_write, 1, 16, 8)));
    }
    return x.send(0, fpdu(send_segment(1, 8, 0, false))).send(0, fpdu(send_segment(1, 8, 16)));
  };
  Runs runs;
  for (const bool write : {false, true}) {
    const std::string name = write ? "RDMA Write" : "Send";
    runs.add(name + ", open", found_in(begun(write).frames));
    for (const Step& first : steps) {
      Exchange x = begun(write);
      first.second(x);
      runs.add(fmt::format("{}, {}", name, first.first), found_in(x.frames));
      for (const Step& then : steps) {
        // Nothing follows an RST, and nothing but an RST one's own FIN.
        const bool closed = (first.first == "FIN" && then.first == "Terminate") ||
                            (first.first == "FIN of the other" && then.first == "Terminate of the other");
        if (&then == &first || first.first == "RST" || closed) continue;
        Exchange y = x;
        then.second(y);
        runs.add(fmt::format("{}, {}, {}", name, first.first, then.first), found_in(y.frames));
      }
    }
  }
  test::expect_ids_as_reviewed("capture_ends.txt", runs.text());
}

}  // namespace
}  // namespace parley::capture
