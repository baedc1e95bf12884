// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of a TGT queue pair with every call, event and deadline, as a table that a reviewer reads:
// tests/states/xrc.txt. A change of behaviour is a change of that file. PARLEY_REWRITE=1 writes it anew.
#include <set>

#include <fmt/format.h>

#include "tests/unit/reviewed.hpp"
#include "tests/unit/xrc/registry_kit.hpp"

namespace parley::xrc::states_test {
namespace {
using namespace kit;

/// One queue pair, made by `creator`; `second` may be registered with it, `stranger` is not.
struct Stage : Bench {
  explicit Stage(const RegistryOptions& options) : Bench(options) {
    creator = join(1);
    second = join(2);
    stranger = join(3);
    elsewhere = join(4, other);
  }
  MemberId creator, second, stranger, elsewhere;
  TgtId id{};
};

struct Input {
  std::string name;
  std::function<std::string(Stage&)> apply;
};

Input modify(State to, std::uint64_t digest, const std::string& note = {}) {
  return {"modify " + std::string(to_string(to)) + note, [to, digest](Stage& s) {
            const auto r = s.registry.modify(s.now, s.creator, s.id, to, digest);
            return r ? *r ? "already" : "ok" : refusal_of(r);
          }};
}
Input event(EventKind kind) {
  return {"event " + std::string(to_string(kind)), [kind](Stage& s) { return s.report(s.id, kind); }};
}
std::string enlisted(const Result<Registered>& r) { return r ? r->already ? "already" : "ok" : refusal_of(r); }
std::string thrown(const Result<std::uint32_t>& r) {
  return r ? *r == 0 ? "ok" : "ok, threw away " + counted(*r, "event") : refusal_of(r);
}

std::vector<Input> calls() {
  return {
      {"publish", [](Stage& s) { return refusal_of(s.registry.publish(s.now, s.creator, s.id)); }},
      {"register, creator", [](Stage& s) { return enlisted(s.registry.enlist(s.now, s.creator, s.id)); }},
      {"register, another", [](Stage& s) { return enlisted(s.registry.enlist(s.now, s.stranger, s.id)); }},
      {"register by number",
       [](Stage& s) {
         return enlisted(s.registry.enlist(s.now, s.stranger, {s.id.qpn, 0}));
       }},
      {"register, other domain", [](Stage& s) { return s.enlist(s.elsewhere, s.id); }},
      {"register, later generation",
       [](Stage& s) {
         return s.enlist(s.stranger, {s.id.qpn, s.id.generation + 1});
       }},
      {"create for its peer",
       [](Stage& s) {
         const auto r = s.registry.create(s.now, s.stranger, {.peer = peer});
         return r ? r->existing ? "the same" : "a new one" : refusal_of(r);
       }},
      {"unregister, creator", [](Stage& s) { return thrown(s.registry.unregister(s.now, s.creator, s.id)); }},
      {"unregister, stranger", [](Stage& s) { return thrown(s.registry.unregister(s.now, s.stranger, s.id)); }},
      {"query, another",
       [](Stage& s) {
         const auto r = s.registry.query(s.now, s.stranger, s.id);
         return r ? std::string(to_string(r->state)) : refusal_of(r);
       }},
      {"restore, another",
       [](Stage& s) {
         const auto r = s.registry.restore(s.now, s.stranger, {.id = s.id, .state = State::rtr, .attributes = {1, 2}});
         return r ? r->already ? "already" : "ok" : refusal_of(r);
       }},
      {"close, creator", [](Stage& s) { return refusal_of(s.registry.close(s.now, s.creator, false)); }},
      {"close by force, creator", [](Stage& s) { return refusal_of(s.registry.close(s.now, s.creator, true)); }},
      {"creator dies", [](Stage& s) { return s.registry.dead(s.now, s.creator), std::string("ok"); }},
      {"all die",
       [](Stage& s) {
         for (const MemberId m : {s.creator, s.second, s.stranger}) s.registry.dead(s.now, m);
         return std::string("ok");
       }},
      {"deadline",
       [](Stage& s) {
         if (s.registry.next_deadline() == never) return std::string("there is none");
         s.now = s.registry.next_deadline();
         s.registry.handle_deadline(s.now);
         return std::string("ok");
       }},
      {"device_removed",
       [](Stage& s) { return s.registry.report_device(s.now, 1, EventKind::device_removed, 0), std::string("ok"); }},
      {"device_failed",
       [](Stage& s) { return s.registry.report_device(s.now, 1, EventKind::device_failed, 0), std::string("ok"); }},
  };
}

std::vector<Input> inputs() {
  std::vector<Input> all = calls();
  for (const State to : {State::reset, State::init, State::rtr, State::rts, State::error})
    all.push_back(modify(to, static_cast<std::uint64_t>(to) - 1));
  all.push_back(modify(State::init, 99, ", other attributes"));
  all.push_back(modify(State::rtr, 99, ", other attributes"));
  all.push_back(modify(State::drain, 0));
  for (const EventKind kind :
       {EventKind::established, EventKind::fatal, EventKind::request_error, EventKind::access_error,
        EventKind::peer_gone, EventKind::peer_reused, EventKind::device_removed, EventKind::killed,
        EventKind::unattended, EventKind::events_lost})
    all.push_back(event(kind));
  return all;
}

struct Origin {
  std::string name;
  State state;
  bool second = false;  // is registered too
  bool failed = false;
};

std::vector<Origin> origins() {
  return {{"creating", State::creating},
          {"reset", State::reset},
          {"init", State::init},
          {"rtr", State::rtr},
          {"rtr, two registrants", State::rtr, true},
          {"rts", State::rts},
          {"error", State::error},
          {"error, two registrants", State::error, true},
          {"drain", State::drain},
          {"drain, two registrants", State::drain, true},
          {"drain after error", State::drain, false, true},
          {"linger", State::linger},
          {"gone", State::gone}};
}

std::unique_ptr<Stage> reach(const Origin& origin) {
  RegistryOptions options{.grace = 2s, .error_grace = 3s, .quarantine = 4s};
  if (origin.state == State::linger) options.linger = 1s;
  auto stage = std::make_unique<Stage>(options);
  Stage& s = *stage;
  s.id = s.registry.create(s.now, s.creator, {.peer = peer, .reserve = origin.state == State::creating})->id;
  const State furthest = origin.state > State::rts ? State::rtr : origin.state;
  for (int to = static_cast<int>(State::init); to <= static_cast<int>(furthest); ++to)
    EXPECT_TRUE(s.registry.modify(s.now, s.creator, s.id, static_cast<State>(to), static_cast<std::uint64_t>(to) - 1));
  if (origin.second) {
    EXPECT_EQ(s.enlist(s.second, s.id), "ok");
  }
  if (origin.state == State::error || origin.failed) {
    EXPECT_EQ(s.report(s.id, EventKind::fatal), "ok");
  }
  if (origin.state == State::drain) {
    EXPECT_EQ(s.report(s.id, EventKind::peer_gone), "ok");
  }
  if (origin.state == State::linger || origin.state == State::gone) {
    EXPECT_EQ(s.unregister(s.creator, s.id), "ok");
  }
  s.ended();
  return stage;
}

std::string event_text(const Event& e) {
  return fmt::format("{}{}{}", to_string(e.kind), e.tgt == TgtId{} ? std::string() : fmt::format(" {}", e.sequence),
                     e.sticky       ? " sticky"
                     : e.merged > 0 ? " merged"
                                    : "");
}

/// `heard`: what waits from before is none of the outcome.
std::string outcome(Stage& s, const Input& input, bool heard) {
  if (heard)
    for (const MemberId m : {s.creator, s.second, s.stranger}) s.events(m);
  const std::string before = s.state(s.id);
  const Instant deadline = s.registry.next_deadline();
  std::string line = input.apply(s);
  const auto add = [&line](const std::string& text) { line += "; " + text; };
  for (const auto& [name, member] : {std::pair("creator", s.creator), {"second", s.second}, {"another", s.stranger}}) {
    if (!heard) continue;
    std::string told;
    for (const Event& e : s.events(member)) told += (told.empty() ? "" : ", ") + event_text(e);
    if (!told.empty()) add(fmt::format("{} hears {}", name, told));
  }
  for (const TgtId& id : s.ended()) add(id == s.id ? "it ends" : "another ends");
  if (const Instant due = s.registry.next_deadline(); due != deadline)
    add(due == never ? std::string("no deadline") : "deadline in " + brief_duration_text(due - s.now));
  const std::string after = s.state(s.id);
  return pad(before == after ? "" : "-> " + after, 12) + line;
}

std::string table() {
  std::string out =
      "# Every state of a TGT queue pair with every input: next state; what is answered; who hears of it; deadlines.\n"
      "# Three processes have the domain open: the creator, which is registered, \"second\", which is where that is "
      "said,\n"
      "# and \"another\". What they had heard before is taken. Grace 2 s, error grace 3 s, quarantine 4 s, linger 1 "
      "s.\n"
      "# Written by the test XrcStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const Origin& origin : origins()) {
    out += "\n" + origin.name + "\n";
    for (const Input& input : inputs()) {
      std::string line = outcome(*reach(origin), input, true);
      while (!line.empty() && line.back() == ' ') line.pop_back();
      out += fmt::format("  {:<30} {}\n", input.name, line);
    }
  }
  out += "\nerror, the event not taken\n";
  for (const Input& input : inputs())
    if (input.name == "unregister, creator")
      out += fmt::format("  {:<30} {}\n", input.name, outcome(*reach(origins()[6]), input, false));
  return out;
}

TEST(XrcStates, EveryStateWithEveryInputIsAsReviewed) { expect_as_reviewed("xrc.txt", table()); }

TEST(XrcStates, EveryStateIsInTheTable) {
  std::set<std::string> met;
  for (const Origin& origin : origins()) {
    const auto stage = reach(origin);
    EXPECT_EQ(stage->state(stage->id), std::string(to_string(origin.state)));
    met.insert(std::string(to_string(origin.state)));
  }
#define PARLEY_X(name, text)        \
  EXPECT_TRUE(met.contains(#name)); \
  EXPECT_FALSE(text_of(State::name).empty());
  PARLEY_XRC_STATES(PARLEY_X)
#undef PARLEY_X
}

TEST(XrcStates, NamesAreReadAsTheyAreWritten) {
  for (const TgtId id : {TgtId{5, (7ULL << 32) + 9}, TgtId{0xFFFFFF, ~0ULL}}) EXPECT_EQ(parse_tgt(to_string(id)), id);
  EXPECT_EQ(to_string(TgtId{5, (7ULL << 32) + 9}), "5@7.9");
  EXPECT_EQ(parse_tgt("5"), (TgtId{5, 0}));
  for (const char* text :
       {"", "x", "5@", "5@7", "5@7.", "5@7.9.", "5@7.9x", "-5", "5 ", "16777216", "5@0.9", "5.7@9", "5@4294967296.1"})
    EXPECT_FALSE(parse_tgt(text)) << text;
}

TEST(XrcStates, EachRefusalHasAnErrnoAndASentence) {
  std::set<std::string> sentences;
#define PARLEY_X(name, number, text)                                                       \
  EXPECT_TRUE(make_error_code(Refusal::name) == std::errc::number);                        \
  EXPECT_TRUE(sentences.insert(make_error_code(Refusal::name).message()).second) << #name; \
  EXPECT_EQ(to_string(Refusal::name), #name);
  PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
  for (const Refusal r : {Refusal::not_found, Refusal::gone, Refusal::other_domain, Refusal::not_registered,
                          Refusal::wrong_type, Refusal::state})
    EXPECT_TRUE(make_error_code(r) == std::errc::invalid_argument) << to_string(r);  // what OFED's calls say
}

}  // namespace
}  // namespace parley::xrc::states_test
