// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every state of a neighbour's entry against every input, and tables of several neighbours through drawn inputs: what is
// asked, sent and given up, and when (tests/states/sim_neighbours.txt, sim_neighbours_drawn.txt; RFC 4861 §7.3.2).
#include <fmt/format.h>

#include <map>

#include "host_kit.hpp"
#include "sim/host/neighbour.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim::testing_hosts {
namespace {

constexpr Duration second = 1s;

/// A table that says what it does, with neighbours called by the last octet of their address.
class TableStory {
  FramePool pool_;  // frames that wait go back to it, so that it goes last

 public:
  NeighbourTable table;
  Instant now{1s};
  std::string said;

  static Address address(std::uint8_t last) {
    if (last < 100) return Address::v4(10, 0, 0, last, 0);
    Address six = Address::any(Address::Family::v6, 0);
    six.octets = {0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
    return six;
  }
  static wire::Mac mac(std::uint8_t last) { return {2, 0, 0, 0, 0, last}; }

  void resolve(std::uint8_t last, std::uint16_t port = 0) {
    const NeighbourRef ref = refs_[{port, last}] = table.find(port, address(last));
    const wire::Mac* m = table.resolve(now, ref);
    said += m != nullptr ? fmt::format(" to :{:02x}", (*m)[5]) : " unknown";
    drain();
  }
  void send(std::uint8_t last, std::uint16_t port = 0) {
    const NeighbourRef ref = refs_[{port, last}] = table.find(port, address(last));
    if (table.resolve(now, ref) == nullptr) table.wait(ref, pool_.take(60 + last));
    drain();
  }
  void heard(std::uint8_t last, std::uint8_t mac_last, bool answer, bool overrides, bool may_make,
             std::uint16_t port = 0) {
    table.heard(now, port, address(last), mac(mac_last), answer, overrides, may_make);
    drain();
  }
  void confirm(std::uint8_t last, std::uint16_t port = 0) {
    table.confirm(now, refs_[{port, last}]);  // as a connection has it since it sent there; of no entry before
    drain();
  }
  void wait(Duration time) {
    for (const Instant end = now + time;;) {
      if (table.next_deadline() > end) {
        now = end;
        return;
      }
      now = table.next_deadline();
      table.handle_deadline(now);
      drain();
    }
  }
  void drain() {
    for (NeighbourAsk ask; table.poll_ask(ask);)
      said += fmt::format(" at {} ask for {}{}{}", seconds(now), name(ask.address, ask.port), ask.mac ? " alone" : "",
                          ask.mac ? fmt::format(" :{:02x}", (*ask.mac)[5]) : "");
    std::uint16_t port = 0;
    while (FramePtr frame = table.poll_frame(port))
      said += fmt::format(" {} octets leave port {} for :{:02x}", frame->octets().size(), port, frame->data()[5]);
    for (Address failed; table.poll_failure(port, failed);)
      said += fmt::format(" at {} {} fails", seconds(now), name(failed, port));
  }
  std::string due() const {
    return table.next_deadline() == never ? "nothing due" : "due at " + seconds(table.next_deadline());
  }
  std::size_t kept() const { return pool_.out(); }

 private:
  std::map<std::pair<std::uint16_t, std::uint8_t>, NeighbourRef> refs_;

  static std::string seconds(Instant at) {
    return fmt::format("{} s", std::chrono::duration_cast<std::chrono::seconds>(at.time_since_epoch()).count());
  }
  static std::string name(const Address& a, std::uint16_t port) {
    const std::uint8_t last = a.family == Address::Family::v4 ? a.octets[3] : a.octets[15];
    return fmt::format("{}{}", last, port == 0 ? "" : fmt::format(" on port {}", port));
  }
};

struct Named {
  std::string name;
  void (*apply)(TableStory&);
};

TEST(SimNeighbourStates, EachAgainstEachInput) {
  constexpr std::uint8_t n = 9;
  const Named states[] = {
      {"none", [](TableStory&) {}},
      {"incomplete, two frames wait", [](TableStory& t) { t.send(n), t.send(n); }},
      {"incomplete, asked three times", [](TableStory& t) { t.send(n), t.wait(2 * second); }},
      {"reachable", [](TableStory& t) { t.resolve(n), t.heard(n, 1, true, true, false), t.wait(29 * second); }},
      {"stale", [](TableStory& t) { t.resolve(n), t.heard(n, 1, true, true, false), t.wait(30 * second); }},
      {"known by its question", [](TableStory& t) { t.heard(n, 1, false, true, true); }},
      {"delay", [](TableStory& t) { t.heard(n, 1, false, true, true), t.resolve(n), t.wait(4 * second); }},
      {"probe", [](TableStory& t) { t.heard(n, 1, false, true, true), t.resolve(n), t.wait(5 * second); }},
      {"probe, asked three times",
       [](TableStory& t) { t.heard(n, 1, false, true, true), t.resolve(n), t.wait(7 * second); }},
      {"failed before", [](TableStory& t) { t.send(n), t.wait(3 * second); }}};
  std::vector<Named> inputs{
      {"resolve", [](TableStory& t) { t.resolve(n); }},
      {"send", [](TableStory& t) { t.send(n); }},
      {"valid segment", [](TableStory& t) { t.confirm(n); }},
      {"1 s", [](TableStory& t) { t.wait(second); }},
      {"answer, same", [](TableStory& t) { t.heard(n, 1, true, false, false); }},
      {"answer, other", [](TableStory& t) { t.heard(n, 2, true, false, false); }},
      {"answer, other, overrides", [](TableStory& t) { t.heard(n, 2, true, true, false); }},
      {"question, same", [](TableStory& t) { t.heard(n, 1, false, true, true); }},
      {"question, other", [](TableStory& t) { t.heard(n, 2, false, true, true); }},
      {"announced, same", [](TableStory& t) { t.heard(n, 1, false, true, false); }},
      {"announced, other", [](TableStory& t) { t.heard(n, 2, false, true, false); }},
      {"announced, other, no override", [](TableStory& t) { t.heard(n, 2, false, false, false); }},
      {"on another port", [](TableStory& t) { t.heard(n, 2, false, true, true, 1); }}};
  std::string out;
  for (const Named& state : states) {
    out += "== " + state.name + " ==\n";
    for (const Named& input : inputs) {
      TableStory t;
      state.apply(t);
      t.said = "";
      input.apply(t);
      std::string now = t.said;
      now += fmt::format("; {} entries, {} frames kept, {};", t.table.size(), t.kept(), t.due());
      t.said = "";
      t.send(n);
      now += fmt::format(" then{}, {};", t.said, t.due());
      t.said = "";
      t.wait(20 * second);
      now += t.said.empty() ? "" : " later" + t.said + ";";
      t.said = "";
      t.resolve(n);
      out += fmt::format("{}:{} in the end{}, {} entries, {} frames kept\n", input.name, now, t.said, t.table.size(),
                         t.kept());
    }
  }
  expect_as_reviewed("sim_neighbours.txt", out);
}

TEST(SimNeighbourStates, SeveralNeighboursThroughDrawnInputs) {
  std::string out;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Rng rng(seed);
    TableStory t;
    out += fmt::format("{}:", seed);
    for (int i = 0; i < 14; ++i) {
      constexpr std::uint8_t some[] = {1, 2, 101, 102};
      const std::uint8_t who = some[rng.below(4)];
      const auto port = static_cast<std::uint16_t>(rng.below(6) == 0 ? 1 : 0);
      const auto mac = static_cast<std::uint8_t>(who + (rng.below(4) == 0 ? 0x40 : 0));
      t.said += " |";
      switch (rng.below(7)) {
        case 0: t.said += fmt::format(" resolve {}", who), t.resolve(who, port); break;
        case 1:
        case 2: t.said += fmt::format(" send {}", who), t.send(who, port); break;
        case 3: t.said += fmt::format(" segment {}", who), t.confirm(who, port); break;
        case 4: {
          const std::uint64_t form = rng.below(8);
          t.said += fmt::format(" heard {} :{:02x} {}", who, mac, form);
          t.heard(who, mac, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, port);
          break;
        }
        case 5: t.said += " answer", t.heard(who, mac, true, true, false, port); break;
        default: {
          const auto time = static_cast<int>(rng.below(3) == 0 ? rng.between(3, 40) : 1);
          t.said += fmt::format(" {} s", time), t.wait(time * second);
        }
      }
    }
    out += fmt::format("{} | {} entries, {} frames kept, {}\n", t.said, t.table.size(), t.kept(), t.due());
  }
  expect_as_reviewed("sim_neighbours_drawn.txt", out);
}

}  // namespace
}  // namespace parley::sim::testing_hosts
