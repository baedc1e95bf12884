// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state with every input, as a table that a reviewer reads: tests/states/mpa_startup.txt, and its graph beside
// it. A change of behaviour is a change of that file. PARLEY_REWRITE=1 writes it anew.
#include <map>
#include <set>

#include "tests/unit/mpa/startup_kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

struct Origin {
  std::string name;  // the state, and what led to it where that matters
  std::function<Startup()> machine;
};
struct Input {
  std::string name;
  std::function<std::string(Startup&)> apply;  // the answer of a command or the octets taken
};

Startup drained(Startup m) {
  (void)m.poll_transmit();
  (void)events(m);
  return m;
}

std::vector<Origin> origins() {
  StartupOptions p2p;
  p2p.rtr = Rtr::write;
  const auto accepted = [](const Bytes& request) {
    Startup m = asked(request);
    (void)m.accept(t0, {}, {});
    return m;
  };
  const auto fed = [](Startup m, const Bytes& in) {
    (void)m.handle_bytes(t0, in);
    return m;
  };
  return {
      {"wait_reply Rev 1", [] { return initiator(rev1()); }},
      {"wait_reply Rev 2", [] { return initiator(); }},
      {"wait_reply Rev 2 A=1", [=] { return initiator(p2p); }},
      {"wait_reply Rev 2, 5 octets in", [=] { return fed(initiator(), text_bytes("MPA I")); }},
      {"wait_request", [] { return responder(); }},
      {"wait_request, 5 octets in", [=] { return fed(responder(), text_bytes("MPA I")); }},
      {"wait_request Rev 1 only", [] { return responder(rev1()); }},
      {"ulp_decision Rev 1", [] { return asked(req(0x40, 1)); }},
      {"ulp_decision Rev 1 S=1", [] { return asked(req(0x50, 1)); }},
      {"ulp_decision Rev 2 A=1", [] { return asked(req(0x50, 2, hex("80088008"))); }},
      {"wait_rtr_frame", [=] { return accepted(req(0x50, 1)); }},
      {"wait_first_fpdu classic", [=] { return accepted(req(0x40, 1)); }},
      {"wait_first_fpdu RTR", [=] { return accepted(req(0x50, 2, hex("80088008"))); }},
      {"open initiator", [=] { return fed(initiator(rev1()), rep(0x40, 1)); }},
      {"open responder",
       [=] {
         Startup m = accepted(req(0x40, 1));
         m.handle_first_fpdu(t0, Rtr::none);
         return m;
       }},
      {"rejected initiator", [=] { return fed(initiator(), rep(0x20, 1)); }},
      {"rejected responder",
       [] {
         Startup m = asked(req(0x40, 1));
         (void)m.reject(t0, {});
         return m;
       }},
      {"failed", [=] { return fed(responder(), text_bytes("x")); }},
  };
}

Input octets(std::string name, Bytes in) {
  return {std::move(name), [in](Startup& m) {
            const std::size_t taken = m.handle_bytes(t0 + 1s, in);
            return taken == in.size() ? std::string() : fmt::format("took {} of {}", taken, in.size());
          }};
}
Input command(std::string name, std::function<Result<void>(Startup&)> call) {
  return {std::move(name), [call](Startup& m) {
            const auto r = call(m);
            return r ? std::string() : "refused: " + r.error().message();
          }};
}

std::vector<Input> inputs() {
  return {
      octets("Request Rev 1", req(0x40, 1)),
      octets("Request Rev 2", req(0x50, 2, hex("00080008"))),
      octets("Request Rev 3", req(0x40, 3)),
      octets("Reply Rev 1", rep(0x40, 1)),
      octets("Reply Rev 2 A=0", rep(0x50, 2, hex("00080008"))),
      octets("Reply Rev 2 A=1", rep(0x50, 2, hex("80088008"))),
      octets("Reply Rev 2 ORD 200", rep(0x50, 2, hex("000800c8"))),
      octets("Reply R=1", rep(0x60, 1)),
      octets("Rtr frame", rtr_frame()),
      octets("FPDU", hex("0012 4143 00000000 00000000 00000001 00000000 587BE8C4")),
      octets("\"X\"", text_bytes("X")),
      {"FIN", [](Startup& m) { return m.handle_end(t0 + 1s, false), std::string(); }},
      {"RST", [](Startup& m) { return m.handle_end(t0 + 1s, true), std::string(); }},
      {"time", [](Startup& m) { return m.handle_deadline(t0 + 24h), std::string(); }},
      {"first FPDU, a ULP message", [](Startup& m) { return m.handle_first_fpdu(t0 + 1s, Rtr::none), std::string(); }},
      {"first FPDU, a Write RTR", [](Startup& m) { return m.handle_first_fpdu(t0 + 1s, Rtr::write), std::string(); }},
      {"local error", [](Startup& m) { return m.handle_local_error(t0 + 1s, "no memory"), std::string(); }},
      command("accept", [](Startup& m) { return m.accept(t0 + 1s, {}, {}); }),
      command("reject", [](Startup& m) { return m.reject(t0 + 1s, {}); })};
}

std::string sent(const Bytes& out) {
  const auto f = wire::MpaFrameView::parse(out);
  if (!f) return {};
  return fmt::format("send {} {:02x} Rev {}", std::string(wire::to_string(f->key)).substr(7, 3), f->flags, f->revision);
}

std::string outcome(const Origin& origin, const Input& input, State& before, State& after) {
  Startup m = drained(origin.machine());
  before = m.state();
  const Instant deadline = m.next_deadline();
  std::vector<std::string> parts;
  const auto add = [&](std::string text) {
    if (!text.empty()) parts.push_back(std::move(text));
  };
  add(input.apply(m));
  add(sent(m.poll_transmit()));
  for (const auto& e : events(m)) {
    std::string text{to_string(e.kind)};
    if (e.terminate_code != 0) text += fmt::format(" {}", e.terminate_code);
    if (e.close != Close::none) text += fmt::format(", close {}", kit::to_string(e.close));
    if (e.failure.code) text += fmt::format(": {}", e.failure.code.message());
    if (!e.failure.rule.empty()) text += fmt::format(" [{}]", e.failure.rule);
    add(std::move(text));
  }
  if (m.next_deadline() != deadline)
    add(m.next_deadline() == never
            ? std::string("no deadline")
            : fmt::format("deadline in {} s",
                          std::chrono::duration_cast<std::chrono::seconds>(m.next_deadline() - t0).count() - 1));
  after = m.state();
  std::string line;
  for (const auto& part : parts) line += (line.empty() ? "" : "; ") + part;
  return line;
}

std::string table(std::string& dot) {
  std::string out =
      "# Every state of the MPA startup machine with every input: next state; what comes out. \"-\" is nothing at "
      "all.\n"
      "# Written by the test MpaStartupStates with PARLEY_REWRITE=1; read every line that changes.\n";
  std::map<std::pair<std::string, std::string>, std::set<std::string>> edges;
  for (const Origin& origin : origins()) {
    out += "\n" + origin.name + "\n";
    for (const Input& input : inputs()) {
      State before{}, after{};
      const std::string what = outcome(origin, input, before, after);
      const std::string next = before == after ? "" : fmt::format("-> {}", to_string(after));
      std::string line = fmt::format("  {:<26} {:<19} {}", input.name, next, what);
      while (line.back() == ' ') line.pop_back();
      if (next.empty() && what.empty()) line = fmt::format("  {:<26} -", input.name);
      out += line + "\n";
      if (before != after) edges[{std::string(to_string(before)), std::string(to_string(after))}].insert(input.name);
    }
  }
  dot =
      "// The graph of tests/states/mpa_startup.txt; written with it. Draw: dot -Tsvg mpa_startup.dot\n"
      "digraph mpa_startup {\n  rankdir=LR;\n  node [shape=box];\n";
  for (const auto& [ends, names] : edges) {
    std::string label;
    for (const auto& name : names) {
      std::string escaped;
      for (char c : name) escaped += c == '"' ? "\\\"" : std::string(1, c);
      label += (label.empty() ? "" : "\\n") + escaped;
    }
    dot += fmt::format("  {} -> {} [label=\"{}\"];\n", ends.first, ends.second, label);
  }
  dot += "}\n";
  return out;
}

TEST(MpaStartupStates, EveryStateWithEveryInputIsAsReviewed) {
  std::string dot;
  expect_as_reviewed("mpa_startup.txt", table(dot));
  expect_as_reviewed("mpa_startup.dot", dot);
}

TEST(MpaStartupStates, EveryStateIsInTheTable) {
  std::set<State> met;
  for (const Origin& origin : origins()) {
    const State state = origin.machine().state();
    EXPECT_EQ(origin.name.rfind(std::string(to_string(state)), 0), 0u) << origin.name << " is in " << to_string(state);
    met.insert(state);
  }
  EXPECT_EQ(met.size(), 8u);
}

}  // namespace
}  // namespace parley::mpa
