// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every decision of a set-up for all kinds of options and peers (tests/states/mpa_negotiate_*.txt): what is agreed, and a letter
// for each reason.
#include "tests/unit/mpa/startup_kit.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

constexpr std::uint16_t open = depth_not_negotiated;

std::string kinds(const RtrSet& s) { return to_string(s); }
std::string of(const wire::MpaEnhanced& e) {
  return std::string(e.a ? "A" : "") + (e.b ? "B" : "") + (e.c ? "C" : "") + (e.d ? "D" : "") + " IRD " +
         std::to_string(e.ird) + " ORD " + std::to_string(e.ord);
}
std::string of(const Parameters& p, Legend& legend) {
  std::string out = std::to_string(p.ird) + "/" + std::to_string(p.ord) + (p.depths_negotiated ? " negotiated" : "") +
                    ", RTR " + std::string(to_string(p.rtr)) + (p.peer_to_peer ? ", peer to peer" : "") +
                    (p.announced ? ", announced" : "") + ", offered " + kinds(p.offered) + ", answered " +
                    kinds(p.answered) + ", peer's " + std::to_string(p.peer_ird) + "/" + std::to_string(p.peer_ord);
  for (const std::string& reason : p.reasons.texts()) out += " [" + legend.letter(reason) + "]";
  return out;
}
std::string of(const Refusal& r, Legend& legend) {
  if (r.terminate_code == 0 && r.code == Errc::ok) return "";
  return " refused with " + std::to_string(r.terminate_code) + " [" +
         legend.letter(r.received + " [" + std::string(r.rule) + "]; " + r.advice) + "]";
}

/// One after the other: the operands of + may be evaluated in either order, and letters go by first use.
std::string of(const Parameters& p, const Refusal& r, Legend& legend) {
  const std::string agreed = of(p, legend);
  return agreed + of(r, legend);
}

std::vector<const Quirk*> peers() {
  std::vector<const Quirk*> out{*find_quirk("")};
  for (const Quirk& q : all_quirks()) out.push_back(&q);
  return out;
}
const std::vector<std::pair<std::uint16_t, std::uint16_t>> depths{{0, 0}, {4, 9}, {open, 4}, {4, open}, {open, open}};

std::vector<StartupOptions> initiators(std::uint8_t revision) {
  std::vector<StartupOptions> out;
  for (const Rtr rtr : {Rtr::none, Rtr::frame, Rtr::send, Rtr::write, Rtr::read})
    for (const bool more : {false, true}) {
      if (revision == 2 && rtr == Rtr::frame) continue;
      StartupOptions o;
      o.revision = revision;
      o.rtr = rtr;
      o.rtr_by_s = revision == 1 && more;
      o.rtr_fallback = more ? Rtr::read : Rtr::none;
      if (revision == 2 && more) o.rtr_offer = {.write = true, .read = true};
      o.ird = o.ord = more ? 0 : 4;
      o.ird_max = 6;
      o.markers = more;
      o.crc = !more;
      out.push_back(o);
    }
  return out;
}
std::string name_of(const StartupOptions& o) {
  return "RTR " + std::string(to_string(o.rtr)) + (o.rtr_by_s ? " by S" : "") + (o.markers ? ", more" : "");
}

TEST(MpaNegotiateWhole, Requests) {
  Runs runs;
  Legend legend;
  for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}})
    for (const StartupOptions& o : initiators(revision))
      for (const Quirk* q : peers())
        for (const bool play : {false, true}) {
          Parameters p, usual;
          const Quirk& none = **find_quirk("");
          const RequestPlan plan = plan_request(o, play ? none : *q, play ? *q : none, p);
          const RequestPlan plain = plan_request(o, none, none, usual);
          const std::string settled = of(p, legend), as_usual = of(usual, legend);
          if (!q->name.empty() && settled == as_usual && plan.flags == plain.flags && plan.enhanced == plain.enhanced &&
              plan.revision == plain.revision)
            continue;
          if (q->name.empty() && play) continue;
          runs.add("revision " + std::to_string(revision) + ", " + name_of(o) +
                       (q->name.empty() ? ""
                        : play          ? ", playing "
                                        : ", peer ") +
                       std::string(q->name),
                   "revision " + std::to_string(plan.revision) + ", flags " + std::to_string(plan.flags) +
                       (plan.enhanced ? ", " + of(*plan.enhanced) : "") + ": " + of(p, legend));
        }
  expect_as_reviewed("mpa_negotiate_requests.txt", runs.text() + legend.text());
}

std::vector<wire::MpaEnhanced> frames() {
  std::vector<wire::MpaEnhanced> out;
  for (const unsigned bits : {0u, 1u, 3u, 5u, 9u, 13u, 15u, 14u}) {
    wire::MpaEnhanced e{.ird = 4, .ord = 4};
    e.a = (bits & 1) != 0, e.b = (bits & 2) != 0, e.c = (bits & 4) != 0, e.d = (bits & 8) != 0;
    out.push_back(e);
  }
  for (const auto& [ird, ord] : std::vector<std::pair<std::uint16_t, std::uint16_t>>{
           {0, 0}, {5, 5}, {3, 6}, {6, 7}, {open, 3}, {3, open}, {open, open}, {0, 4}})
    out.push_back({.a = true, .d = true, .ird = ird, .ord = ord});
  return out;
}

TEST(MpaNegotiateWhole, EnhancedReplies) {
  Runs runs;
  Legend legend;
  for (const StartupOptions& options : initiators(2))
    for (const wire::MpaEnhanced& reply : frames())
      for (const Quirk* q : peers())
        for (const bool play : {false, true}) {
          const Quirk& none = **find_quirk("");
          const auto judged = [&](const Quirk& peer, const Quirk& played) {
            Parameters p;
            (void)plan_request(options, peer, played, p);
            const Refusal r = judge_enhanced_reply(options, peer, played, reply, p);
            return of(p, r, legend);
          };
          const std::string now = judged(play ? none : *q, play ? *q : none);
          if (q->name.empty() ? play : now == judged(none, none) || options.rtr != Rtr::write) continue;
          runs.add(name_of(options) +
                       (q->name.empty() ? ""
                        : play          ? ", playing "
                                        : ", peer ") +
                       std::string(q->name) + ", Reply " + of(reply),
                   now);
        }
  for (const auto& [ird, ord] : depths)
    for (const wire::MpaEnhanced& reply : frames()) {
      StartupOptions o;
      o.ird = ird, o.ord = ord, o.ird_max = 6;
      Parameters p;
      const Quirk& none = **find_quirk("");
      (void)plan_request(o, none, none, p);
      const Refusal r = judge_enhanced_reply(o, none, none, reply, p);
      if (reply.a && !reply.d) continue;
      runs.add("IRD " + std::to_string(ird) + " ORD " + std::to_string(ord) + ", Reply " + of(reply), of(p, r, legend));
    }
  expect_as_reviewed("mpa_negotiate_replies.txt", runs.text() + legend.text());
}

TEST(MpaNegotiateWhole, PlainRepliesAndAnswers) {
  Runs runs;
  Legend legend;
  const Quirk& none = **find_quirk("");
  for (const StartupOptions& o : initiators(1))
    for (const bool s : {false, true})
      for (const Quirk* q : peers()) {
        if (!q->name.empty() && q->name != "echo-reserved") continue;
        Parameters p;
        const RequestPlan plan = plan_request(o, *q, none, p);
        judge_plain_reply(o, (plan.flags & PARLEY_MPA_FLAG_S) != 0, s, p);
        runs.add(
            name_of(o) + (q->name.empty() ? "" : ", peer " + std::string(q->name)) + ", Reply S=" + (s ? "1" : "0"),
            of(p, legend));
      }
  for (const Rtr expected : {Rtr::none, Rtr::send, Rtr::read})
    for (const std::uint8_t revision : {std::uint8_t{1}, std::uint8_t{2}})
      for (const bool s : {false, true})
        for (const bool accept : {false, true})
          for (const Quirk* q : peers())
            for (const bool play : {false, true}) {
              if (!q->name.empty() && !q->rtr_on_v1 && !(q->name == "echo-reserved" && play)) continue;
              if (q->name.empty() && play) continue;
              if (!q->name.empty() && revision == 2) continue;
              StartupOptions o;
              o.rtr_expected = expected;
              o.accept_rtr_frame = accept;
              o.ird = 0, o.ord = 7;
              Parameters p;
              const bool answer = answer_plain(o, play ? none : *q, play ? *q : none, revision, s, p);
              runs.add("expects " + std::string(to_string(expected)) + ", revision " + std::to_string(revision) +
                           (s ? ", S" : "") + (accept ? ", takes the frame" : "") +
                           (q->name.empty() ? ""
                            : play          ? ", playing "
                                            : ", peer ") +
                           std::string(q->name),
                       std::string("S=") + (answer ? "1" : "0") + ": " + of(p, legend));
            }
  for (const bool own_c : {false, true})
    for (const bool own_m : {false, true})
      for (const auto flags : std::array<std::uint8_t, 4>{0x00, 0x40, 0x80, 0xC0}) {
        Parameters p;
        settle_flags(own_c, own_m, flags, p);
        std::string settled = std::string("CRC ") + (p.crc ? "on" : "off") + (p.rx_markers ? ", expects markers" : "") +
                              (p.tx_markers ? ", inserts markers" : "");
        for (const std::string& reason : p.reasons.texts()) settled += " [" + legend.letter(reason) + "]";
        runs.add(std::string("own ") + (own_c ? "C" : "") + (own_m ? "M" : "") + ", peer " + std::to_string(flags),
                 settled);
      }
  expect_as_reviewed("mpa_negotiate_plain.txt", runs.text() + legend.text());
}

TEST(MpaNegotiateWhole, EnhancedAnswers) {
  Runs runs;
  Legend legend;
  const Quirk& none = **find_quirk("");
  const auto add = [&](std::string name, const StartupOptions& o, const Quirk& play, const wire::MpaEnhanced& request) {
    Parameters p;
    const wire::MpaEnhanced e = answer_enhanced(o, play, request, p);
    const std::string now = of(e) + ": " + of(p, legend);
    if (!play.name.empty()) {
      Parameters u;
      const wire::MpaEnhanced usual = answer_enhanced(o, none, request, u);
      if (of(usual) + ": " + of(u, legend) == now) return;
    }
    runs.add(std::move(name) + ", Request " + of(request), now);
  };
  for (const RtrSet& accept :
       {RtrSet{true, true, true}, RtrSet{.send = true}, RtrSet{.write = true, .read = true}, RtrSet{.read = true}})
    for (const wire::MpaEnhanced& request : frames()) {
      StartupOptions o;
      o.rtr_accept = accept;
      o.ird = 4, o.ord = 4, o.ird_max = 6;
      add("takes " + kinds(accept), o, none, request);
    }
  for (const Quirk* q : peers())
    for (const wire::MpaEnhanced& request : frames()) {
      if (q->name.empty()) continue;
      StartupOptions o;
      o.ird = 4, o.ord = 4, o.ird_max = 6;
      add("playing " + std::string(q->name), o, *q, request);
    }
  for (const auto& [ird, ord] : depths)
    for (const wire::MpaEnhanced& request : frames()) {
      if (!request.a || !request.d || request.b) continue;
      StartupOptions o;
      o.ird = ird, o.ord = ord, o.ird_max = ird == 0 ? 0 : 6;
      add("IRD " + std::to_string(ird) + " ORD " + std::to_string(ord), o, none, request);
    }
  expect_as_reviewed("mpa_negotiate_answers.txt", runs.text() + legend.text());
}

TEST(MpaNegotiateWhole, OptionsThatAreRefused) {
  std::string out;
  const auto add = [&](std::string_view name, const StartupOptions& o) {
    for (const Role role : {Role::initiator, Role::responder}) {
      const auto r = check_options(role, o);
      out += std::string(name) + (role == Role::initiator ? ", initiator: " : ", responder: ") +
             (r ? "good" : r.error().sentence()) + "\n";
    }
  };
  StartupOptions o;
  add("as they are", o);
  for (const int revision : {0, 3}) o = {}, o.revision = static_cast<std::uint8_t>(revision), add("revision", o);
  for (const std::uint16_t d : {std::uint16_t{0x3FFE}, std::uint16_t{0x3FFF}, std::uint16_t{0x4000}}) {
    o = {}, o.ird = d, add("IRD " + std::to_string(d), o);
    o = {}, o.ord = d, add("ORD " + std::to_string(d), o);
    o = {}, o.ird_max = d, add("IRD at most " + std::to_string(d), o);
  }
  for (const std::uint16_t n : {std::uint16_t{512}, std::uint16_t{513}})
    o = {}, o.private_data_max = n, add("private data " + std::to_string(n), o);
  o = {}, o.peer_quirk = "nobody", add("peer", o);
  o = {}, o.play_quirk = "nobody", add("played", o);
  for (const auto d : {-1ns, 0ns}) {
    o = {}, o.timeouts.request = d, add("request timeout " + std::to_string(d.count()), o);
    o = {}, o.timeouts.reply = d, add("reply timeout " + std::to_string(d.count()), o);
    o = {}, o.timeouts.rtr = d, add("RTR timeout " + std::to_string(d.count()), o);
    o = {}, o.timeouts.first_fpdu = d, add("first FPDU timeout " + std::to_string(d.count()), o);
  }
  o = {}, o.rtr = Rtr::frame, add("frame under revision 2", o);
  o.revision = 1, add("frame under revision 1", o);
  o = {}, o.rtr_fallback = Rtr::frame, add("fallback frame", o);
  o = {}, o.rtr_accept = {}, add("takes none", o);
  o = {}, o.rtr_accept = {.read = true}, o.ird = 0, o.ird_max = 0, add("takes Read, IRD 0", o);
  o.ird_max = 1, add("takes Read, IRD up to 1", o);
  o.ird_max = 0, o.rtr_accept.write = true, add("takes Read and Write, IRD 0", o);
  o = {}, o.rtr_expected = Rtr::frame, add("expects the frame", o);
  expect_as_reviewed("mpa_negotiate_options.txt", out);
}

}  // namespace
}  // namespace parley::mpa
