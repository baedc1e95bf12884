// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state with every input, as a table that a reviewer reads: tests/states/sim_tcp.txt. A change of behaviour is a
// change of that file. PARLEY_REWRITE=1 writes it anew.
#include <fmt/format.h>

#include <set>

#include "tcp_kit.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim {
namespace {
using namespace kit;

/// A pair of which one end is looked at; nothing is on the way.
struct Scene {
  Pair p;
  bool first = true;  // the end looked at
  End& subject() { return p.end(first); }
  /// What the peer would send next: an ACK of all there is.
  TcpHeader next() const {
    TcpHeader h;
    h.flags = flag::ack;
    h.window = 1000;
    h.seq = first ? p.options.iss_b : p.options.iss_a + 1;
    h.ack = (first ? p.options.iss_a : p.options.iss_b) + 1;
    for (const Segment& s : of(p, first)) {
      h.timestamps = s.header.timestamps;
      if (s.header.has_ack()) h.seq = s.header.ack;
      h.ack = s.header.seq + static_cast<std::uint32_t>(s.payload.size()) + (s.header.syn() || s.header.fin() ? 1 : 0);
    }
    h.ts_value = 10000;
    return h;
  }
};

struct Origin {
  std::string name;
  std::function<void(Scene&)> lead;
};

std::vector<Origin> origins() {
  const auto half_closed = [](Scene& s, bool by_first) {
    s.p.connect();
    s.p.shutdown(by_first);
    s.p.run(10ms);
  };
  return {
      {"closed", [](Scene&) {}},
      {"syn_sent",
       [](Scene& s) {
         s.p.a.tcp.connect(s.p.now);
         s.p.drain(true);
       }},
      {"syn_received",
       [](Scene& s) {
         s.first = false;
         s.p.a.tcp.connect(s.p.now);
         s.p.drain(true);
         s.p.step();
       }},
      {"established", [](Scene& s) { s.p.connect(); }},
      {"established, 3000 octets sent",
       [](Scene& s) {
         s.p.connect();
         s.p.write(true, text(3000));
       }},
      {"fin_wait_1",
       [](Scene& s) {
         s.p.connect();
         s.p.shutdown(true);
       }},
      {"fin_wait_2", [=](Scene& s) { half_closed(s, true); }},
      {"close_wait", [=](Scene& s) { half_closed(s, false); }},
      {"closing",
       [](Scene& s) {
         s.p.connect();
         s.p.fate = [](const Segment& x) { return x.first ? lost() : Pair::Fate{}; };
         s.p.shutdown(true);
         s.p.shutdown(false);
         s.p.run(10ms);
       }},
      {"last_ack",
       [=](Scene& s) {
         half_closed(s, false);
         s.p.shutdown(true);
       }},
      {"time_wait",
       [=](Scene& s) {
         half_closed(s, true);
         s.p.shutdown(false);
         s.p.run(10ms);
       }},
  };
}

struct Input {
  std::string name;
  std::function<void(Scene&)> apply;
};

Input segment(std::string name, std::function<void(TcpHeader&)> change, std::size_t payload = 0) {
  return {std::move(name), [=](Scene& s) {
            TcpHeader h = s.next();
            change(h);
            const Bytes octets = text(payload);
            const ConstBytes direct = s.subject().tcp.handle_segment(s.p.now, h, octets);
            s.p.drain(s.first, direct);
          }};
}
Input command(std::string name, std::function<void(Tcp&, Instant)> call) {
  return {std::move(name), [=](Scene& s) {
            call(s.subject().tcp, s.p.now);
            s.p.drain(s.first);
          }};
}

std::vector<Input> inputs() {
  const auto flags = [](int value) { return [=](TcpHeader& h) { h.flags = static_cast<std::uint8_t>(value); }; };
  return {
      segment("SYN", flags(flag::syn)),
      segment("SYN ACK", flags(flag::syn | flag::ack)),
      segment("ACK of everything", flags(flag::ack)),
      segment("ACK of nothing new", [](TcpHeader& h) { h.ack -= 1; }),
      segment("ACK of what was not sent", [](TcpHeader& h) { h.ack += 1; }),
      segment("100 octets", flags(flag::ack), 100),
      segment(
          "100 octets after a gap", [](TcpHeader& h) { h.seq += 50; }, 100),
      segment(
          "100 octets again", [](TcpHeader& h) { h.seq -= 100; }, 100),
      segment(
          "100 octets out of window", [](TcpHeader& h) { h.seq += 1 << 24; }, 100),
      segment(
          "100 octets, old timestamp", [](TcpHeader& h) { h.ts_value = 1; }, 100),
      segment("FIN", flags(flag::fin | flag::ack)),
      segment("100 octets and FIN", flags(flag::fin | flag::ack), 100),
      segment("FIN after a gap",
              [](TcpHeader& h) {
                h.seq += 50;
                h.flags = flag::fin | flag::ack;
              }),
      segment("FIN again",
              [](TcpHeader& h) {
                h.seq -= 1;
                h.flags = flag::fin | flag::ack;
              }),
      segment("RST", flags(flag::rst)),
      segment("RST ACK", flags(flag::rst | flag::ack)),
      segment("RST in the window",
              [](TcpHeader& h) {
                h.seq += 1;
                h.flags = flag::rst;
              }),
      segment("RST out of the window",
              [](TcpHeader& h) {
                h.seq -= 1;
                h.flags = flag::rst;
              }),
      segment("no flags", flags(0)),
      {"time",
       [](Scene& s) {
         s.p.now = std::max(s.p.now, std::min(s.subject().tcp.next_deadline(), s.p.now + std::chrono::hours(1)));
         s.subject().tcp.handle_deadline(s.p.now);
         s.p.drain(s.first);
       }},
      command("write", [](Tcp& t, Instant now) { (void)t.write(now, text(100)); }),
      command("shutdown", [](Tcp& t, Instant now) { t.shutdown(now); }),
      command("close", [](Tcp& t, Instant now) { t.close(now); }),
      command("abort", [](Tcp& t, Instant now) { t.abort(now); }),
  };
}

std::string cell(const Origin& origin, const Input& input) {
  Scene s;
  origin.lead(s);
  End& e = s.subject();
  const TcpState before = e.tcp.state();
  const Instant deadline = e.tcp.next_deadline();
  const std::size_t from = s.p.sent.size();
  e.events.clear();
  e.received.clear();
  input.apply(s);
  std::string what;
  const auto add = [&](const std::string& part) { what += (what.empty() ? "" : "; ") + part; };
  if (const std::string sent = s.p.words(s.first, from); !sent.empty()) add("send " + sent);
  if (!e.received.empty()) add(fmt::format("hand out {}", e.received.size()));
  if (e.tcp.reassembly() != 0) add("keep");
  if (!e.events.empty()) add("tell " + e.events);
  if (e.tcp.next_deadline() != deadline) {
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(e.tcp.next_deadline() - s.p.now).count();
    add(e.tcp.next_deadline() == never ? std::string("no deadline") : fmt::format("deadline in {} ms", wait));
  }
  const std::string next = before == e.tcp.state() ? "" : fmt::format("-> {}", to_string(e.tcp.state()));
  if (next.empty() && what.empty()) return fmt::format("  {:<26} -\n", input.name);
  std::string line = fmt::format("  {:<26} {:<15} {}", input.name, next, what);
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

TEST(SimTcpStates, EveryStateWithEveryInputIsAsReviewed) {
  std::string table =
      "# Every state of a simulated TCP connection with every input: next state; what comes out (S SYN, A ACK, F FIN, "
      "R\n"
      "# RST, numbers are octets). \"-\" is nothing at all. RFC 9293 §3.10.\n"
      "# Written by the test SimTcpStates with PARLEY_REWRITE=1; read every line that changes.\n";
  for (const Origin& origin : origins()) {
    table += "\n" + origin.name + "\n";
    for (const Input& input : inputs()) table += cell(origin, input);
  }
  expect_as_reviewed("sim_tcp.txt", table);
}

TEST(SimTcpStates, EveryStateIsInTheTable) {
  std::set<TcpState> met;
  for (const Origin& origin : origins()) {
    Scene s;
    origin.lead(s);
    const TcpState state = s.subject().tcp.state();
    EXPECT_EQ(origin.name.rfind(std::string(to_string(state)), 0), 0U) << origin.name << " is in " << to_string(state);
    met.insert(state);
  }
  EXPECT_EQ(met.size(), 10U);
}

}  // namespace
}  // namespace parley::sim
