// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A broker and its processes in one thread: the real Server and Clients, with channels that a seed drains in any order, and
// processes that die, stop, fork and come late. Whatever happens, the world checks what must always hold.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "base/rng.hpp"
#include "tests/unit/xrc/registry_kit.hpp"
#include "xrc/client.hpp"
#include "xrc/server.hpp"

namespace parley::xrc::kit {

/// As a socket's buffer has: what is beyond waits in the broker.
inline constexpr std::size_t channel_max = 4;

struct Node {
  std::uint32_t pid = 0;
  FileFacts file{};
  Client client;
  ConnectionNumber connection = 0;  // 0: none
  bool stopped = false, dead = false;
  std::deque<Client::Outgoing> up{};
  std::deque<Bytes> down{};
  std::map<std::uint64_t, Answer> answers{};
  std::vector<Event> events{};
};

class World {
 public:
  explicit World(std::uint64_t seed, const RegistryOptions& options = {}, const ServerOptions& server_options = {})
      : rng_(seed), options_(options), server_options_(server_options) {
    start_broker();
  }

  /// A process with the domain of a file open.
  Node& process(std::uint32_t pid, FileFacts file = {.st_dev = 8, .st_ino = 100}, bool exclusive = false,
                bool create = true, bool carrier = false) {
    const ClientOptions o{.process = {.pid = pid, .start = pid * 10, .command = "p" + std::to_string(pid)},
                          .shared = file.st_ino != 0,
                          .create = create,
                          .exclusive = exclusive,
                          .carrier = carrier,
                          .device = 1,
                          .patience = 60s};
    if (file.uid == 0) file.uid = 1000;  // everybody's here
    nodes_.push_back(std::make_unique<Node>(Node{.pid = pid, .file = file, .client = Client(o)}));
    return *nodes_.back();
  }

  std::uint64_t post(Node& n, const Request& request) {
    const auto number = n.client.ask(now, request);
    EXPECT_TRUE(number) << refusal_of(number);
    return number.value_or(0);
  }
  Answer call(Node& n, const Request& request) { return await(n, post(n, request)); }
  Answer await(Node& n, std::uint64_t number) {
    for (int i = 0; i < 20000 && !n.answers.contains(number); ++i) step();
    EXPECT_TRUE(n.answers.contains(number)) << "no answer came";
    return n.answers[number];
  }
  std::string said(Node& n, const Request& request) { return std::string(to_string(call(n, request).refusal)); }

  TgtId make(Node& n, std::optional<Peer> for_peer = {}) {
    return call(n, {.ask = RequestType::create,
                    .flags = static_cast<std::uint16_t>(for_peer ? Request::has_peer : 0),
                    .peer = for_peer.value_or(Peer{})})
        .tgt;
  }
  TgtId receiver(Node& n, std::optional<Peer> for_peer = {}) {
    const TgtId id = make(n, for_peer);
    EXPECT_EQ(modify(n, id, State::init, 1), "none");
    EXPECT_EQ(modify(n, id, State::rtr, 2), "none");
    return id;
  }
  std::string enlist(Node& n, TgtId id) { return said(n, {.ask = RequestType::enlist, .tgt = id}); }
  std::string unregister(Node& n, TgtId id) { return said(n, {.ask = RequestType::unregister, .tgt = id}); }
  std::string modify(Node& n, TgtId id, State to, std::uint64_t digest) {
    return said(n, {.ask = RequestType::modify, .state = to, .tgt = id, .value = digest});
  }
  std::string report(Node& n, TgtId id, EventKind kind) {
    return said(n, {.ask = RequestType::report, .kind = kind, .tgt = id});
  }

  void kill(Node& n) {
    n.dead = true;  // what it had sent may still arrive: detect() comes when it comes
  }
  /// The connection breaks while process and broker live on. The process connects again, unless it is stopped.
  void cut(Node& n) {
    detect(n);
    n.client.disconnected();
  }
  void crash_broker() {
    for (auto& n : nodes_) {
      n->connection = 0;
      n->up.clear();
      n->down.clear();
      if (!n->dead) n->client.disconnected();
    }
    options_.qpn_next = server->registry().qpn_next();
    ++options_.epoch;
    server.reset();
  }
  void start_broker() {
    options_.epoch = std::max(options_.epoch, 1U);
    server.emplace(*Registry::create(now, options_), server_options_);
    recovery_until_ = now + options_.recovery;
  }

  /// Until nothing moves.
  void settle() {
    for (int quiet = 0, i = 0; quiet < 40 + 20 * static_cast<int>(nodes_.size()) && i < 100000; ++i)
      quiet = step() ? 0 : quiet + 1;
    if (server) check_invariants();
  }
  void wait(Duration time) {
    now += time;
    if (server) server->handle_deadline(now);
    look();
    for (auto& n : nodes_)
      if (!n->dead && !n->stopped) n->client.handle_deadline(now);
    settle();
  }
  bool is_alive(TgtId id) const { return find(id).has_value(); }
  std::optional<TgtView> find(TgtId id) const {
    for (const DomainView& d : server->registry().domains(now))
      for (const TgtView& t : d.tgts)
        if (t.id == id) return t;
    return std::nullopt;
  }
  std::string state(TgtId id) const {
    const auto t = find(id);
    return std::string(to_string(t ? t->state : State::gone));
  }
  std::size_t registrants(TgtId id) const {
    const auto t = find(id);
    return t ? t->registrants.size() : 0;
  }
  static std::string names(const Node& n) {
    std::string out;
    for (const Event& e : n.events) out += (out.empty() ? "" : " ") + std::string(to_string(e.kind));
    return out;
  }
  std::size_t ended_count() const { return ended_.size(); }
  bool has_ended(TgtId id) const { return ended_.contains(id); }
  Rng& rng() { return rng_; }

  /// One thing that may happen next, by chance. False: it was nothing.
  bool step() {
    if (nodes_.empty()) return false;
    Node& n = *nodes_[rng_.below(nodes_.size())];
    bool moved = false;
    if (server && n.dead && n.connection != 0 && rng_.below(2) == 0) moved = detect(n);
    if (!n.dead && !n.stopped) moved = run(n) || moved;
    const bool served = server && n.connection != 0 && serve(n);
    if (served || n.dead) look();
    return moved || served;
  }

  std::optional<Server> server;
  Instant now = t0;

 private:
  bool detect(Node& n) {
    server->disconnected(now, n.connection);
    n.connection = 0;
    n.up.clear();
    n.down.clear();
    return true;
  }
  /// A process takes what has come, or sends.
  bool run(Node& n) {
    if (n.connection == 0 && server && n.client.phase() != Client::Phase::refused) {
      n.connection = ++last_connection_;
      if (!server->connected(n.connection, {.pid = n.pid, .uid = 1000, .start = n.pid * 10})) return false;
      n.client.connected(now);
      return true;
    }
    bool moved = false;
    switch (rng_.below(3)) {
      case 0:
        if (n.down.empty()) break;
        n.client.handle_message(now, n.down.front());
        n.down.pop_front();
        moved = true;
        break;
      case 1:
        if (n.connection == 0 || n.up.size() >= channel_max) break;
        if (auto out = n.client.poll_transmit()) n.up.push_back(std::move(*out)), moved = true;
        break;
      default:
        if (n.client.next_deadline() != never && n.client.next_deadline() < now + 1s) {
          now = std::max(now, n.client.next_deadline());
          n.client.handle_deadline(now);
          if (server) server->handle_deadline(now);
          moved = true;
        }
    }
    while (const auto answer = n.client.poll_answer()) n.answers[answer->number] = *answer;
    while (const auto event = n.client.poll_event()) n.events.push_back(*event);
    return moved;
  }
  bool serve(Node& n) {
    bool moved = false;
    if (rng_.below(2) == 0 && !n.up.empty() && server->accepts_input(n.connection)) {
      server->handle_message(now, n.connection, n.up.front().octets,
                             n.up.front().with_file ? std::optional(n.file) : std::nullopt);
      n.up.pop_front();
      moved = true;
    }
    while (server->poll_waiting()) {
    }  // channels are asked in any order here
    if (rng_.below(2) == 0 && n.down.size() < channel_max)
      if (auto out = server->poll_transmit(now, n.connection)) n.down.push_back(std::move(*out)), moved = true;
    return moved;
  }
  void look() {
    if (!server) return;
    while (const auto id = server->poll_ended()) EXPECT_TRUE(ended_.insert(*id).second) << "it ended twice";
    if (++looks_ % 64 == 0) check_invariants();
  }
  void check_invariants() {
    const bool lingers = server->registry().options().linger > Duration{};
    for (const DomainView& d : server->registry().domains(now)) {
      EXPECT_FALSE(d.members.empty()) << "a domain without members";
      std::set<std::uint64_t> members;
      for (const MemberView& m : d.members) members.insert(m.number);
      for (const TgtView& t : d.tgts) {
        const bool awaited =
            t.id.generation >> 32 < options_.epoch && now < recovery_until_;  // somebody may declare it
        EXPECT_TRUE(t.registrants.empty() ? t.state == State::linger || awaited : t.state != State::linger)
            << "it lives without registrants";
        EXPECT_FALSE(ended_.contains(t.id)) << "it lives after its end";
        EXPECT_TRUE(t.state != State::linger || lingers);
        for (const std::uint64_t r : t.registrants)
          if (!members.contains(r)) ADD_FAILURE() << "a dead registrant";
      }
    }
  }

  std::uint64_t looks_ = 0;
  Instant recovery_until_{};
  Rng rng_;
  RegistryOptions options_;
  ServerOptions server_options_;
  std::vector<std::unique_ptr<Node>> nodes_;
  ConnectionNumber last_connection_ = 0;
  std::set<TgtId> ended_;
};

inline constexpr std::uint64_t seeds = 40;

/// Runs the scene once for each seed.
template <class Scene>
void play(Scene scene, const RegistryOptions& options = {}, const ServerOptions& server = {}) {
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World w(seed, options, server);
    scene(w);
  }
}

inline RegistryOptions lasting() { return {.quarantine = 10s, .recovery = 2s}; }

}  // namespace parley::xrc::kit
