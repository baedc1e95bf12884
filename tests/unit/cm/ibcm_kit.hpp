// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Agents joined by a network in virtual time that loses, doubles and delays MADs as a test wants. Each node does of itself what a
// user would: accepts, gets ready, answers a DREQ; a test may take that away.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "cm/ibcm/agent.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/mad.hpp"

namespace parley::cm::ibcm::kit {
using namespace std::chrono_literals;
using namespace wire::ib;

inline constexpr std::uint64_t service = 0x0000000001062329;  // TCP port 9001
inline constexpr Instant t0{};

inline Gid gid(std::uint8_t n) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, n}; }
inline std::uint64_t guid(std::uint8_t n) { return 0x505400FFFE000000 + n; }

struct Node {
  Node(std::uint8_t n, AgentOptions options) : number(n), agent(*Agent::create(fixed(n, options))) {}
  static AgentOptions fixed(std::uint8_t n, AgentOptions o) {
    if (o.ca_guid == 0) o.ca_guid = guid(n);
    if (o.seed == 0) o.seed = n;
    return o;
  }

  std::uint8_t number;
  Agent agent;
  bool accepts = true, gets_ready = true, answers_dreq = true, destroys = false;
  std::uint32_t next_qpn = 0x11;
  std::vector<Event> events;  // all there were
  std::function<void(Instant, const Event&)> on_event;

  template <class E>
  std::vector<E> all() const {
    std::vector<E> out;
    for (const Event& event : events)
      if (const E* e = std::get_if<E>(&event)) out.push_back(*e);
    return out;
  }
  template <class E>
  std::optional<E> last() const {
    const auto found = all<E>();
    return found.empty() ? std::nullopt : std::optional<E>(found.back());
  }
  template <class E>
  std::size_t count(ConnectionId id) const {
    std::size_t n = 0;
    for (const E& e : all<E>()) n += e.id == id;
    return n;
  }
  void react(Instant now, const Event& event) {
    if (const auto* request = std::get_if<RequestReceived>(&event); request != nullptr && accepts)
      (void)agent.accept(now, request->id, {.qpn = next_qpn++, .starting_psn = 7});
    if (const auto* reply = std::get_if<ReplyReceived>(&event); reply != nullptr && gets_ready)
      (void)agent.ready(now, reply->id, {});
    if (const auto* asked = std::get_if<DisconnectRequested>(&event); asked != nullptr && answers_dreq)
      (void)agent.disconnect(now, asked->id);
    if (on_event) on_event(now, event);
  }
};

/// What becomes of a MAD on its way.
struct Fate {
  int copies = 1;  // 0: it is lost
  Duration late{};
};

struct Flight {
  std::uint8_t from = 0, to = 0;
  MadFrom way;
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
  CmMessage message() const { return *CmMessage::parse(octets); }
  std::string text() const { return fmt::format("{}>{} {}", from, to, to_string(message().type())); }
};

class Net {
 public:
  Node& add(std::uint8_t n, AgentOptions options = {}) {
    nodes.push_back(std::make_unique<Node>(n, options));
    return *nodes.back();
  }
  Node* node(std::uint8_t n) {
    for (const auto& node : nodes)
      if (node->number == n) return node.get();
    return nullptr;
  }
  /// Takes everything out of all Agents, and lets their users react.
  void settle() {
    for (bool more = true; more;) {
      more = false;
      for (const auto& node : nodes) {
        MadTo to;
        Flight flight;
        while (node->agent.poll_transmit(to, flight.octets)) {
          more = true;
          launch(*node, to, flight);
        }
        while (auto event = node->agent.poll_event()) {
          more = true;
          node->react(now, *event);
          node->events.push_back(std::move(*event));
        }
      }
    }
  }
  /// False: nothing will ever happen by itself.
  bool step(Instant limit = never) {
    Instant next = in_flight.empty() ? never : in_flight.begin()->first.first;
    for (const auto& node : nodes) next = std::min(next, node->agent.next_deadline());
    if (next == never || next > limit) return false;
    now = std::max(now, next);
    while (!in_flight.empty() && in_flight.begin()->first.first <= now) {
      const Flight flight = in_flight.begin()->second;
      in_flight.erase(in_flight.begin());
      if (Node* node = this->node(flight.to)) node->agent.handle_mad(now, flight.way, flight.octets);
      settle();
    }
    for (const auto& node : nodes) node->agent.handle_deadline(now);
    settle();
    return true;
  }
  void run_for(Duration time) {
    settle();
    const Instant end = now + time;
    while (step(end)) {
    }
    now = end;
  }
  bool run_until(const std::function<bool()>& there, Duration limit = 1h) {
    settle();
    const Instant end = now + limit;
    while (!there())
      if (!step(end)) return false;
    return true;
  }
  /// Until nobody waits for anything.
  void run_out(Duration limit = 24h) {
    settle();
    const Instant end = now + limit;
    while (step(end)) {
    }
    ASSERT_TRUE(in_flight.empty());
    for (const auto& node : nodes) ASSERT_EQ(node->agent.next_deadline(), never) << "node " << +node->number;
  }
  std::vector<std::string> log_of(CmMessageType type) const {
    std::vector<std::string> out;
    for (const Flight& flight : log)
      if (flight.message().type() == type) out.push_back(flight.text());
    return out;
  }
  std::size_t sent(CmMessageType type) const { return log_of(type).size(); }

  Instant now = t0;
  Duration delay = 10us;
  std::vector<std::unique_ptr<Node>> nodes;
  std::function<Fate(const Flight&, std::size_t number)> fate;  // number: from 0, of all MADs
  std::vector<Flight> log;                                      // as sent
  std::vector<Instant> log_times;
  bool logs = true;
  std::multimap<std::pair<Instant, std::uint64_t>, Flight> in_flight;

 private:
  void launch(const Node& node, const MadTo& to, Flight flight) {
    EXPECT_EQ(to.destination_qpn, 1U);
    flight.from = node.number;
    flight.to = to.destination[15];
    flight.way = {.source = to.source, .destination = to.destination, .source_qpn = 1, .p_key = to.p_key};
    const Fate f = fate ? fate(flight, launched_) : Fate{};
    if (logs) {
      log.push_back(flight);
      log_times.push_back(now);
    }
    for (int i = 0; i < f.copies; ++i)
      in_flight.emplace(std::pair(now + delay + f.late, launched_ * 16 + static_cast<std::uint64_t>(i)), flight);
    ++launched_;
  }
  std::uint64_t launched_ = 0;
};

inline ConnectParameters request(std::uint8_t from, std::uint8_t to, std::uint32_t qpn = 0x100) {
  return {.service_id = service,
          .path = Path::roce(gid(from), gid(to)),
          .qpn = qpn,
          .starting_psn = 0xABCDEF,
          .responder_resources = 4,
          .initiator_depth = 5};
}

inline Timers back_off() { return {.kind = Timers::Kind::back_off}; }

/// Two nodes, 1 the active one; 2 listens.
struct Pair {
  explicit Pair(AgentOptions of_active = {}, AgentOptions of_passive = {}, ListenOptions listen = {})
      : active(net.add(1, of_active)), passive(net.add(2, of_passive)) {
    EXPECT_TRUE(passive.agent.listen(service, listen));
  }
  ConnectionId connect(ConnectParameters p = request(1, 2)) {
    const auto id = active.agent.connect(net.now, p);
    EXPECT_TRUE(id) << id.error().message();
    net.settle();
    return id.value_or(0);
  }
  /// Both ends up.
  void establish() {
    a = connect();
    EXPECT_TRUE(net.run_until([&] { return !passive.all<Ready>().empty(); }, 1s));
    b = passive.last<Ready>()->id;
  }
  State at(Node& node, ConnectionId id) { return node.agent.state(id).value_or(State::closed); }
  /// Destroyed by both users, nothing is left in time.
  void expect_nothing_left() {
    for (const auto& node : net.nodes) {
      for (const Event& event : node->events)
        std::visit(
            [&](const auto& e) {
              if constexpr (requires { e.id; }) node->agent.destroy(net.now, e.id);
            },
            event);
    }
    active.agent.destroy(net.now, a);
    net.run_out();
    for (const auto& node : net.nodes) {
      EXPECT_EQ(node->agent.connection_count(), 0U) << "node " << +node->number;
      EXPECT_EQ(node->agent.remembered_count(), 0U) << "node " << +node->number;
    }
  }

  Net net;
  Node& active;
  Node& passive;
  ConnectionId a = 0, b = 0;
};

}  // namespace parley::cm::ibcm::kit
