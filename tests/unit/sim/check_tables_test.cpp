// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the checkers say of every pair of ends, every order of events and every kind of completion, beside
// tests/states/sim_checks.txt: the words, the rule, and of which time.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>

#include "endings_kit.hpp"
#include "parley/wire/mpa.h"
#include "sim/check/agreement.hpp"
#include "sim/check/bounds.hpp"
#include "sim/check/completions.hpp"
#include "sim/check/convergence.hpp"
#include "sim/check/delivery.hpp"
#include "sim/check/settlement.hpp"

namespace parley::sim::check {
namespace {

using namespace std::chrono_literals;

std::string all_said(const Judge& judge) {
  std::string out;
  for (const Violation& v : judge.list())
    out += fmt::format("{}{} at {} s{}{}: {}{}", out.empty() ? "" : "; ", v.checker, v.at.time_since_epoch() / 1s,
                       v.connection.empty() ? "" : " of ", v.connection, v.text,
                       v.rule.empty() ? "" : fmt::format(" ({})", v.rule));
  return out;
}

// ---- agreement

/// The initiator is told things in second 1, the responder in second 2; it is now second 9.
Attempt pair_of(const Ending& initiator, const Ending* responder) {
  Attempt attempt;
  attempt.label = "a > b";
  initiator.make(attempt.initiator);
  for (CmEventRecord& told : attempt.initiator.told) told.at = Instant(1s);
  if (responder == nullptr) return attempt;
  attempt.responders.push_back(std::make_unique<End>());
  End& r = *attempt.responders[0];
  r.role = mpa::Role::responder;
  responder->make(r);
  r.told.insert(r.told.begin(), {.what = CmEventKind::request});
  for (CmEventRecord& told : r.told) told.at = Instant(2s);
  return attempt;
}

std::string agreement_said(const Attempt& attempt, bool ended) {
  Judge judge;
  check_agreement(attempt, ended, Instant(9s), judge);
  check_complete(attempt, Instant(9s), judge);
  return all_said(judge);
}

std::string agreement_table(bool ended, void (*change)(Attempt&)) {
  Legend legend;
  std::string out;
  for (const Ending& initiator : endings) {
    out += "  " + pad(initiator.name, 26);
    for (std::size_t r = 0; r <= std::size(endings); ++r) {
      Attempt attempt = pair_of(initiator, r == 0 ? nullptr : &endings[r - 1]);
      change(attempt);
      out += " " + legend.letter(agreement_said(attempt, ended));
    }
    out += "\n";
  }
  return out + legend.text();
}

std::string agreement_of_ends() {
  const auto as_it_is = [](Attempt&) {};
  std::string out = "Ends, rows and columns as in sim_expectations.txt\n" + agreement_table(true, as_it_is);
  const auto part = [&out](std::string_view title, bool ended, void (*change)(Attempt&)) {
    out += fmt::format("{}\n{}", title, agreement_table(ended, change));
  };
  part("while the run goes on", false, as_it_is);
  part("after a fault", true, [](Attempt& a) { a.touched = true; });
  part("after a fault that changed the stream", true, [](Attempt& a) { a.corrupted = true; });
  part("with a quirk at the initiator", true, [](Attempt& a) { a.initiator.quirky = true; });
  part("with a quirk at the responder", true, [](Attempt& a) {
    if (!a.responders.empty()) a.responders[0]->quirky = true;
  });
  return out;
}

/// Both have come up alike; then one of them says something else.
std::string agreement_of_parameters() {
  struct Other {
    std::string_view name;
    void (*change)(mpa::Parameters&);
  };
  constexpr Other others[] = {
      {"revision", [](mpa::Parameters& p) { p.revision = 1; }},
      {"crc", [](mpa::Parameters& p) { p.crc = !p.crc; }},
      {"tx_markers", [](mpa::Parameters& p) { p.tx_markers = true; }},
      {"rx_markers", [](mpa::Parameters& p) { p.rx_markers = true; }},
      {"peer_to_peer", [](mpa::Parameters& p) { p.peer_to_peer = true; }},
      {"depths_negotiated", [](mpa::Parameters& p) { p.depths_negotiated = false; }},
      {"rtr", [](mpa::Parameters& p) { p.rtr = mpa::Rtr::write; }},
      {"revision 1, rtr", [](mpa::Parameters& p) { p.revision = 1, p.rtr = mpa::Rtr::write; }},
      {"revision 1, S, rtr",
       [](mpa::Parameters& p) { p.revision = 1, p.peer_flags = PARLEY_MPA_FLAG_S, p.rtr = mpa::Rtr::write; }},
      {"ord 9", [](mpa::Parameters& p) { p.ord = 9; }},
      {"ird 7", [](mpa::Parameters& p) { p.ird = 7; }},
      {"ord 8, ird 8", [](mpa::Parameters& p) { p.ord = p.ird = 8; }},
      {"ord none", [](mpa::Parameters& p) { p.ord = mpa::depth_not_negotiated; }},
      {"ird none", [](mpa::Parameters& p) { p.ird = mpa::depth_not_negotiated; }},
      {"ird 0", [](mpa::Parameters& p) { p.ird = 0; }},
  };
  std::string out = "Parameters: of the initiator alone, of the responder alone, of both\n";
  for (const Other& other : others)
    for (const int which : {1, 2, 3}) {
      Attempt attempt = pair_of(endings[1], &endings[1]);
      End &i = attempt.initiator, &r = *attempt.responders[0];
      for (mpa::Parameters* p : {&i.parameters, &r.parameters}) {
        p->revision = 2;
        p->rtr = mpa::Rtr::read;
        p->depths_negotiated = true;
        p->ord = p->ird = 8;
      }
      if ((which & 1) != 0) other.change(i.parameters);
      if ((which & 2) != 0) other.change(r.parameters);
      const std::string said = agreement_said(attempt, false);
      out += fmt::format("  {}{}\n", pad(which == 1 ? other.name : "", 20), said.empty() ? "." : said);
    }
  return out;
}

std::string agreement_of_private_data() {
  std::string out =
      "Private data: initiator up or rejected; responder has accepted or refused; what is given and got\n";
  for (const std::size_t initiator : {1U, 6U, 8U})
    for (const bool accepted : {false, true})
      for (const bool refused : {false, true})
        for (const int wrong : {0, 1, 2, 3}) {
          Attempt attempt = pair_of(endings[initiator], &endings[0]);
          End &i = attempt.initiator, &r = *attempt.responders[0];
          r.accepted = accepted;
          r.refused = refused;
          i.private_data_given = r.private_data_got = {1, 2};
          r.private_data_given = i.private_data_got = {3};
          if ((wrong & 1) != 0) r.private_data_got = {1};
          if ((wrong & 2) != 0) i.private_data_got = {4};
          const std::string said = agreement_said(attempt, false);
          out += fmt::format("  {:<8} {}{}{}{}  {}\n", endings[initiator].name, accepted ? "accepted " : "",
                             refused ? "refused " : "", (wrong & 1) != 0 ? "Request differs " : "",
                             (wrong & 2) != 0 ? "Reply differs " : "", said.empty() ? "." : said);
        }
  return out;
}

std::string deliveries() {
  std::string out = "Messages: sent and got by each end, graceful or not\n";
  constexpr std::array<std::uint64_t, 4> counts[] = {{1, 1, 2, 2}, {2, 1, 0, 0}, {1, 2, 0, 0},
                                                     {0, 0, 5, 3}, {0, 0, 3, 5}, {4, 1, 4, 1}};
  for (const auto& [i_sent, r_got, r_sent, i_got] : counts)
    for (const std::size_t i_ending : {3U, 5U})
      for (const std::size_t r_ending : {3U, 5U}) {
        Attempt attempt = pair_of(endings[i_ending], &endings[r_ending]);
        attempt.touched = true;
        attempt.initiator.messages_sent = i_sent;
        attempt.initiator.messages_got = i_got;
        attempt.responders[0]->messages_sent = r_sent;
        attempt.responders[0]->messages_got = r_got;
        const std::string said = agreement_said(attempt, true);
        out += fmt::format("  {} of {}, {} of {}, {} and {}: {}\n", r_got, i_sent, i_got, r_sent,
                           endings[i_ending].name, endings[r_ending].name, said.empty() ? "." : said);
      }
  return out;
}

/// Each octet of a message in turn, and each place that another message may come from.
std::string messages() {
  std::string out = "A message of 20 octets, of which another number was meant\n";
  for (std::uint64_t meant : {0U, 5U, 30U})
    for (std::uint64_t got = 0; got < 45; ++got) {
      Bytes octets(20);
      fill_pattern({7, Direction::to_initiator, got}, octets);
      Judge judge;
      check_message({7, Direction::to_initiator, meant}, octets, 20, 20, "a > b", Instant(3s), judge);
      if (got % 4 == 0 || (got > 20 && got < 40)) out += fmt::format("  {} for {}: {}\n", got, meant, all_said(judge));
    }
  Bytes octets(20);
  fill_pattern({1, Direction::to_responder, 0}, octets);
  out += fmt::format("octets {:02x}\n", fmt::join(octets, " "));
  fill_pattern({0xFFFF'FFFF, Direction::to_initiator, 1ULL << 40}, octets);
  out += fmt::format("octets {:02x}\n", fmt::join(octets, " "));
  return out;
}

// ---- settlement

std::string settlement_said(mpa::Role role, std::initializer_list<int> told, bool accepted, bool ended, bool stays) {
  End end;
  end.role = role;
  end.accepted = accepted;
  for (const int what : told)
    if (what >= 0)
      end.told.push_back({.what = static_cast<CmEventKind>(what), .at = Instant(1s), .has_code = true, .words = "w"});
  Judge judge;
  check_settlement(end, "a > b", ended, stays, Instant(9s), judge);
  return all_said(judge);
}

std::string settlements() {
  std::string out = "Events. Rows: the first and the second. Columns: the third, as ";
  for (int c = 0; c < 6; ++c)
    out += fmt::format("{}{}", to_string(static_cast<CmEventKind>(c)), c < 5 ? ", " : ", none\n");
  Legend legend;
  for (const mpa::Role role : {mpa::Role::initiator, mpa::Role::responder})
    for (int a = 0; a < 6; ++a)
      for (int b = -1; b < 6; ++b) {
        out += fmt::format("  {} {:<15} {:<15}", role == mpa::Role::initiator ? "initiator" : "responder",
                           to_string(static_cast<CmEventKind>(a)), b < 0 ? "" : to_string(static_cast<CmEventKind>(b)));
        for (int c = 0; c < 6; ++c) out += " " + legend.letter(settlement_said(role, {a, b, c}, true, true, false));
        out += " " + legend.letter(settlement_said(role, {a, b}, true, true, false));
        out += "\n";
      }
  const auto i = mpa::Role::initiator, r = mpa::Role::responder;
  out += "  not accepted: " + legend.letter(settlement_said(r, {0, 1}, false, false, false));
  out += "  three retries: " + legend.letter(settlement_said(i, {4, 4, 4}, false, false, false));
  out += "  nothing told: " + legend.letter(settlement_said(i, {}, false, true, false));
  out += "  open: ";
  for (const std::string& said :
       {settlement_said(i, {1}, false, true, false), settlement_said(i, {1}, false, true, true),
        settlement_said(i, {4}, false, true, true), settlement_said(i, {1}, false, false, false)})
    out += legend.letter(said);
  out += "\n" + legend.text() + "Reasons\n";
  for (int what = 0; what < 6; ++what)
    for (const auto& [has_code, words, graceful] :
         {std::tuple(true, "", false), {false, "w", false}, {false, "", false}, {false, "", true}}) {
      End end;
      end.told = {{.what = CmEventKind::established}};
      if (what == 2 || what == 3) end.told.clear();
      end.told.push_back({.what = static_cast<CmEventKind>(what),
                          .at = Instant(1s),
                          .graceful = graceful,
                          .has_code = has_code,
                          .words = words});
      Judge judge;
      check_settlement(end, "a > b", false, false, Instant(9s), judge);
      out += fmt::format("  {}{}{}{}: {}\n", to_string(static_cast<CmEventKind>(what)), has_code ? " code" : "",
                         *words != 0 ? " words" : "", graceful ? " graceful" : "", all_said(judge));
    }
  return out;
}

// ---- completions

/// "1 2u 3" posts, "2 3f 1" completes: u is unsignaled, f flushed, e an error, r as a receive.
std::string ledger_said(std::string_view posted, std::string_view completed, bool corrupted) {
  Ledger ledger("send");
  Judge judge;
  for (std::size_t i = 0; i < posted.size(); ++i) {
    if (posted[i] < '0' || posted[i] > '9') continue;
    const bool unsignaled = i + 1 < posted.size() && posted[i + 1] == 'u';
    ledger.posted(static_cast<std::uint64_t>(posted[i] - '0'), WcOpcode::send, !unsignaled);
  }
  for (std::size_t i = 0; i < completed.size(); ++i) {
    if (completed[i] < '0' || completed[i] > '9') continue;
    const char how = i + 1 < completed.size() ? completed[i + 1] : ' ';
    WorkCompletion wc{
        .wr_id = static_cast<std::uint64_t>(completed[i] - '0'), .status = WcStatus::success, .opcode = WcOpcode::send};
    if (how == 'f') wc.status = WcStatus::wr_flush_err;
    if (how == 'e') wc.status = WcStatus::loc_len_err;
    if (how == 'r') wc.opcode = WcOpcode::recv;
    ledger.completed(wc, corrupted, "a > b", Instant(4s), judge);
  }
  const std::size_t open = ledger.open();
  ledger.ended("a > b", Instant(9s), judge);
  const std::string said = all_said(judge);
  return fmt::format("  [{}] [{}]{} {} open: {}\n", posted, completed, corrupted ? " corrupted" : "", open,
                     said.empty() ? "." : said);
}

std::string completions() {
  std::string out = "Completions: u posted unsignaled; f flushed, e an error, r as a receive\n";
  constexpr std::pair<std::string_view, std::string_view> cases[] = {{"", ""},
                                                                     {"1", ""},
                                                                     {"1", "1"},
                                                                     {"1", "1 1"},
                                                                     {"1 2", "2"},
                                                                     {"1 2", "2 1"},
                                                                     {"1 2 3", "3"},
                                                                     {"1u 2", "2"},
                                                                     {"1u 2u 3", "3"},
                                                                     {"1u", ""},
                                                                     {"1 2u", "1"},
                                                                     {"1 2u 3u", ""},
                                                                     {"1u 2 3u", ""},
                                                                     {"1u 2 3u", "2"},
                                                                     {"1u", "1"},
                                                                     {"1u", "1f"},
                                                                     {"1u 2", "1f 2f"},
                                                                     {"1 2", "1f 2"},
                                                                     {"1 2", "1 2f"},
                                                                     {"1 2", "1f 2f"},
                                                                     {"1 2", "1e 2f"},
                                                                     {"1 2", "1e 2"},
                                                                     {"1", "1r"},
                                                                     {"1 2", "3"},
                                                                     {"1 2 3 4", "1 2"},
                                                                     {"1 2u 3 4u", "3"},
                                                                     {"1 2u 3 4u", "1 3"},
                                                                     {"1 2 3", "2f 3 1"},
                                                                     {"1 2 3u 4", "2 4e"}};
  for (const auto& [posted, completed] : cases) {
    const std::string usual = ledger_said(posted, completed, false), after = ledger_said(posted, completed, true);
    out += usual;
    if (after.substr(after.find("open")) != usual.substr(usual.find("open"))) out += after;
  }
  return out;
}

// ---- bounds and convergence

std::string bounds_said() {
  std::string out = "Bounds\n";
  ScenarioBounds bounds;
  bounds.send_queue = 10;
  bounds.reassembly = 20;
  bounds.frames = 30;
  const auto line = [&out](std::string_view what, const Judge& judge) {
    const std::string said = all_said(judge);
    out += fmt::format("  {}: {}\n", what, said.empty() ? "." : said);
  };
  for (const std::size_t more : {0U, 1U}) {
    HostState host{.name = "a", .up = true};
    host.counters.send_queue_peak = 10 + more;
    host.counters.reassembly_peak = 20 + more;
    WorldCounters counters;
    counters.frames_peak = 30 + more;
    Judge judge;
    check_queues(host, bounds, Instant(9s), judge);
    check_frames(counters, bounds, Instant(9s), judge);
    line(fmt::format("queues {} beyond", more), judge);
  }
  for (const bool up : {true, false})
    for (const bool silent : {true, false})
      for (const std::size_t n : {1U, 2U, 3U}) {
        HostState host{.name = "a", .up = up, .endpoints = n, .endpoints_expected = 2, .streams_expected = 2};
        host.counters.streams = n;
        Judge judge;
        check_left_over(host, silent, Instant(9s), judge);
        line(fmt::format("{} left {}{}", n, up ? "" : "down ", silent ? "silent" : ""), judge);
      }
  return out;
}

std::string convergence_said() {
  std::string out = "Convergence: faults, the last intent and fault seen, the deadline, and what is said behind it\n";
  struct Case {
    std::string_view name;
    void (*make)(Scenario&);
  };
  constexpr Case cases[] = {
      {"no fault", [](Scenario&) {}},
      {"until 50 s",
       [](Scenario& s) { s.faults = {{.link = "l", .rule = {.from = Instant(40s), .until = Instant(50s)}}}; }},
      {"from 50 s, without end", [](Scenario& s) { s.faults = {{.link = "l", .rule = {.from = Instant(50s)}}}; }},
      {"crash at 50 s, after 3 s",
       [](Scenario& s) {
         s.faults = {{.host = "a", .rule = {.from = Instant(50s), .action = FaultAction::crash, .delay = 3s}}};
       }},
      {"crash on a link, after 3 s",
       [](Scenario& s) {
         s.faults = {
             {.link = "l", .host = "a", .rule = {.from = Instant(50s), .action = FaultAction::crash, .delay = 3s}}};
       }},
      {"rate at 50 s",
       [](Scenario& s) {
         s.faults = {{.link = "l", .rule = {.from = Instant(50s), .action = FaultAction::set_rate}}};
       }},
      {"until 50 s and crash at 20 s",
       [](Scenario& s) {
         s.faults = {{.link = "l", .rule = {.until = Instant(50s)}},
                     {.host = "a", .rule = {.from = Instant(20s), .action = FaultAction::crash}}};
       }},
  };
  for (const Case& c : cases) {
    Scenario scenario;
    scenario.bounds.converge = 7s;
    c.make(scenario);
    for (const Instant intent : {Instant{}, Instant(45s), Instant(60s)}) {
      Convergence convergence(scenario);
      out += fmt::format("  {}, intent {} s: {} s", c.name, intent.time_since_epoch() / 1s,
                         convergence.deadline(intent).time_since_epoch() / 1s);
      convergence.fault_seen(Instant(49s));
      convergence.fault_seen(Instant(30s));
      const Instant due = convergence.deadline(intent);
      out += fmt::format("; fault seen at 49 s: {} s", due.time_since_epoch() / 1s);
      Judge judge;
      out += convergence.overdue(due, intent, {}, judge) ? " !" : "";
      out += convergence.overdue(due + 1500ms, intent, {"x", "y", "z"}, judge) ? "" : " ?";
      out += convergence.overdue(due + 2s, intent, {}, judge) ? "" : " ?";
      out += fmt::format(" {}\n", all_said(judge));
    }
  }
  for (const std::vector<std::string>& pending : {std::vector<std::string>{}, {"x"}, {"x", "y"}}) {
    Convergence convergence(Scenario{});
    Judge judge;
    (void)convergence.overdue(Instant(1h), Instant(1s), pending, judge);
    out += fmt::format("  {} pending: {}\n", pending.size(), all_said(judge));
  }
  return out;
}

TEST(SimCheckTables, EverythingThatCheckersSayIsAsReviewed) {
  std::string out = "# What the checkers say; \".\" is nothing.\n";
  for (const std::string& part :
       {agreement_of_ends(), agreement_of_parameters(), agreement_of_private_data(), deliveries(), messages(),
        settlements(), completions(), bounds_said(), convergence_said()})
    out += "\n" + part;
  expect_as_reviewed("sim_checks.txt", out);
}

}  // namespace
}  // namespace parley::sim::check
