// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tests/stress/fleet.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"

namespace parley::stress {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t port = 7471;
constexpr Duration begin_at = 5ms;  // all clients at once
constexpr std::size_t wrong_max = 50;

template <class T>
T valid(sim::Checked<T> checked) {
  if (!checked) throw std::runtime_error(checked.error());
  return std::move(*checked);
}

Duration up_to(Rng& rng, Duration most) {
  return Duration(static_cast<Duration::rep>(rng.between(1, static_cast<std::uint64_t>(most.count()))));
}

/// The back-off before the second round, the third, ...
Duration back_off(const cm::Retry& retry, std::uint32_t round) {
  Duration wait = retry.first;
  for (std::uint32_t i = 2; i < round; ++i) wait = std::min(2 * wait, retry.cap);
  return std::min(wait, retry.cap);
}

/// Counts who is pending, from what the provider says of each connection: from `cm.admitted` to any of its ends.
class PendingCount final : public trace::Sink {
 public:
  std::size_t peak = 0;
  void clear() { pending_.clear(); }
  void record(const trace::Record& r) override {
    if (std::holds_alternative<trace::Admitted>(r.event)) {
      pending_.insert(r.connection);
      peak = std::max(peak, pending_.size());
      return;
    }
    const auto* state = std::get_if<trace::CmState>(&r.event);
    if (std::holds_alternative<trace::Established>(r.event) || std::holds_alternative<trace::Failed>(r.event) ||
        std::holds_alternative<trace::Evicted>(r.event) || std::holds_alternative<trace::Lost>(r.event) ||
        (state != nullptr && (state->to == "over" || state->to == "gone")))
      pending_.erase(r.connection);
  }

 private:
  std::set<std::uint64_t> pending_;
};

}  // namespace

// ---- clients --------------------------------------------------------------------------------------------------------

class Fleet::Client final : public sim::App {
 public:
  Client(Fleet& fleet, std::uint32_t number) : fleet_(fleet), number_(number) {}
  bool over() const { return begun_ == fleet_.plan_.connects && open_ == 0; }

  void on_start(sim::Host& host) override { host.set_timer(Instant{} + begin_at, 0); }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host& host, std::uint64_t) override {
    for (; begun_ < fleet_.plan_.connects; ++begun_) begin(host);
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) std::visit([&](auto& e) { on(host, e); }, *event);
  }

 private:
  struct Connect {
    cm::Id id;
    std::size_t address = 0;
    std::uint32_t round = 1, attempts = 1;
    Instant begun{};
    bool outcome = false, ended = false;
  };

  void begin(sim::Host& host) {
    cm::ConnectOptions options;
    mpa::Options mpa{.fall_back_to_v1 = false, .rtr = mpa::Rtr::send};
    mpa.timeouts.reply = 3s;
    options.transport = mpa;
    options.transport_timeout = 5s;
    options.retry = fleet_.plan_.retry;
    options.timeout = fleet_.plan_.timeout;
    options.backups.assign(fleet_.addresses_.begin() + 1, fleet_.addresses_.end());
    const auto id = host.cm().connect(fleet_.addresses_.front(), options);
    if (!id) return fleet_.complain("connect: " + id.error().message());
    connects_[id->number()].id = *id;
    connects_[id->number()].begun = host.now();
    ++open_;
    fleet_.attempted(0, host.now());
  }

  Connect* find(cm::Id id, std::string_view what) {
    const auto at = connects_.find(id.number());
    if (at == connects_.end()) fleet_.complain(fmt::format("c{}: {} of an id that it does not have", number_, what));
    return at == connects_.end() ? nullptr : &at->second;
  }
  /// The one outcome, in time.
  Connect* outcome(const sim::Host& host, cm::Id id, std::string_view what) {
    Connect* c = find(id, what);
    if (c == nullptr) return nullptr;
    const Duration timeout = fleet_.plan_.timeout, took = host.now() - c->begun;
    if (timeout > Duration{} && took > timeout)
      fleet_.complain(fmt::format("c{}: {} after {} of {}", number_, what, exact_duration_text(took),
                                  exact_duration_text(timeout)));
    if (std::exchange(c->outcome, true)) fleet_.complain(fmt::format("c{}: {} is a second outcome", number_, what));
    return c;
  }
  /// The one end; the id is kept to the last, so that a second one would be told.
  void end(Connect* c, std::string_view what) {
    if (c == nullptr) return;
    if (std::exchange(c->ended, true)) return fleet_.complain(fmt::format("c{}: {} is a second end", number_, what));
    --open_;
  }

  void on(sim::Host& host, const cm::Retrying& e) {
    Connect* c = find(e.id, "Retrying");
    if (c == nullptr) return;
    ++fleet_.tally_.retries;
    const auto& all = fleet_.addresses_;
    const cm::Retry& retry = fleet_.plan_.retry;
    if (c->outcome) fleet_.complain(fmt::format("c{}: Retrying after the outcome", number_));
    if (e.failed != all[c->address])
      fleet_.complain(fmt::format("c{}: {} failed, which was not tried", number_, e.failed.to_string()));
    const bool again = c->address + 1 == all.size();
    c->address = again ? 0 : c->address + 1;
    if (e.peer != all[c->address])
      fleet_.complain(fmt::format("c{}: {} is tried next, and {} is expected", number_, e.peer.to_string(),
                                  all[c->address].to_string()));
    if (again) ++c->round;
    if (c->round > retry.rounds) fleet_.complain(fmt::format("c{}: round {} of {}", number_, c->round, retry.rounds));
    const Duration most = again ? back_off(retry, c->round) : Duration{}, least = most / 2;
    if (e.wait < least || e.wait > most)
      fleet_.complain(fmt::format("c{}: waits {} before round {}, which is not {} to {}", number_,
                                  exact_duration_text(e.wait), c->round, exact_duration_text(least),
                                  exact_duration_text(most)));
    fleet_.attempted(c->attempts++, host.now() + e.wait);
  }
  void on(sim::Host& host, const cm::Established& e) {
    Connect* c = outcome(host, e.id, "Established");
    if (c == nullptr) return;
    ++fleet_.tally_.established;
    if (!c->id.disconnect()) fleet_.complain("an established connection could not be disconnected");
  }
  void on(sim::Host& host, const cm::Rejected& e) {
    ++fleet_.tally_.rejected;
    end(outcome(host, e.id, "Rejected"), "Rejected");
  }
  void on(sim::Host& host, const cm::ConnectFailed& e) {
    ++fleet_.tally_.failed;
    Connect* c = outcome(host, e.id, "ConnectFailed");
    if (c != nullptr && (e.attempts != c->attempts || e.elapsed != host.now() - c->begun))
      fleet_.complain(fmt::format("c{}: told {} attempts in {}, and there were {} in {}", number_, e.attempts,
                                  exact_duration_text(e.elapsed), c->attempts,
                                  exact_duration_text(host.now() - c->begun)));
    const bool in_time = fleet_.plan_.timeout == Duration{};
    if (c != nullptr && in_time && c->attempts < fleet_.plan_.retry.rounds * fleet_.addresses_.size() && passes(e.why))
      fleet_.complain(fmt::format("c{}: gave up after {} attempts: {}", number_, c->attempts, e.why.to_string("it")));
    end(c, "ConnectFailed");
  }
  void on(sim::Host&, const cm::Disconnected& e) {
    Connect* c = find(e.id, "Disconnected");
    if (c != nullptr && !c->outcome) fleet_.complain(fmt::format("c{}: Disconnected before an outcome", number_));
    end(c, "Disconnected");
  }
  template <class Other>
  void on(sim::Host&, const Other&) {
    fleet_.complain(fmt::format("c{}: an event that no client has", number_));
  }
  static bool passes(const cm::Failure& why) {
    return why.code == make_error_code(Errc::refused) || why.code == make_error_code(Errc::timed_out) ||
           (why.code == make_error_code(Errc::peer_reset) && why.stage() <= cm::Stage::reply);
  }

  Fleet& fleet_;
  std::uint32_t number_, begun_ = 0, open_ = 0;
  std::map<std::uint64_t, Connect> connects_;
};

// ---- servers --------------------------------------------------------------------------------------------------------

class Fleet::Server final : public sim::App {
 public:
  Server(Fleet& fleet, const ServerPlan& plan, std::uint32_t number, Rng rng)
      : fleet_(fleet), plan_(plan), number_(number), rng_(rng) {}
  PendingCount pending;
  std::size_t live() const { return live_.size(); }

  void on_start(sim::Host& host) override {
    if (!plan_.listens) return;
    const auto id = host.cm().listen(Address::any(Address::Family::v4, port), {.pending_max = plan_.pending_max});
    if (!id) fleet_.complain("listen: " + id.error().message());
  }
  void on_crash(sim::Host&) override {
    live_.clear();
    pending.clear();
  }
  void on_timer(sim::Host&, std::uint64_t cookie) override {
    const auto at = live_.find(cookie);
    if (at == live_.end()) return;
    if (at->second.accept()) return;
    at->second.destroy();
    live_.erase(at);
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        decide(host, *request);
      } else if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
        end(failed->id);
      } else if (auto* down = std::get_if<cm::Disconnected>(&*event)) {
        if (!live_.contains(down->id.number()))
          fleet_.complain(fmt::format("s{}: a second end, or one of a connection that never asked", number_));
        end(down->id);
      }
    }
    const std::size_t most = plan_.pending_max + plan_.pending_max / 8;
    if (pending.peak > most && !std::exchange(told_, true))
      fleet_.complain(fmt::format("s{}: {} were pending, where {} may be", number_, pending.peak, most));
  }

 private:
  void decide(sim::Host& host, cm::ConnectRequest& e) {
    if (!live_.emplace(e.id.number(), e.id).second)
      fleet_.complain(fmt::format("s{}: a second ConnectRequest", number_));
    if (rng_.chance(plan_.rejects)) {
      (void)e.id.reject();
      return end(e.id);
    }
    if (plan_.decide_max > Duration{}) return host.set_timer(host.now() + up_to(rng_, plan_.decide_max), e.id.number());
    on_timer(host, e.id.number());
  }
  void end(cm::Id id) {
    if (live_.erase(id.number()) != 0) id.destroy();
  }

  Fleet& fleet_;
  ServerPlan plan_;
  std::uint32_t number_;
  Rng rng_;
  bool told_ = false;
  std::map<std::uint64_t, cm::Id> live_;
};

// ---- the flood ------------------------------------------------------------------------------------------------------

/// Opens connections and says nothing. For a while one that was reset is opened again.
class Fleet::Mute final : public StreamMachine {
 public:
  Mute(const Address& to, std::uint32_t count) : to_(to), left_(3 * count) {
    for (std::uint32_t i = 0; i < count; ++i) open();
  }
  void handle_listening(Instant, StreamId, const Address&) override {}
  void handle_listen_failed(Instant, StreamId, std::error_code) override {}
  void handle_connected(Instant, StreamId, const StreamInfo&) override {}
  void handle_connect_failed(Instant, StreamId, std::error_code) override {}
  bool handle_accepted(Instant, StreamId, StreamId, const StreamInfo&) override { return false; }
  void handle_bytes(Instant, StreamId, ConstBytes) override {}
  void handle_end(Instant, StreamId stream, StreamEnd end) override {
    if (end == StreamEnd::fin) commands_.push_back({.kind = StreamCommand::Kind::close, .id = stream});
    if (left_ > 0) open();
  }
  void handle_deadline(Instant) override {}
  bool poll_command(StreamCommand& out) override {
    if (commands_.empty()) return false;
    out = commands_.front();
    commands_.pop_front();
    return true;
  }
  StreamId poll_ready() override { return 0; }
  std::size_t gather(StreamId, std::span<ConstBytes>) override { return 0; }
  void sent(Instant, StreamId, std::size_t) override {}
  Instant next_deadline() const override { return never; }

 private:
  void open() {
    --left_;
    commands_.push_back({.kind = StreamCommand::Kind::open,
                         .id = serial_ += 2,
                         .address = to_,
                         .local = Address::any(Address::Family::v4, 0)});
  }
  Address to_;
  std::uint32_t left_;
  StreamId serial_ = 1;
  std::deque<StreamCommand> commands_;
};

// ---- the whole ------------------------------------------------------------------------------------------------------

FleetPlan FleetPlan::draw(Rng& rng) {
  FleetPlan plan;
  plan.clients = static_cast<std::uint32_t>(rng.between(4, 20));
  plan.connects = static_cast<std::uint32_t>(rng.between(1, 4));
  constexpr std::uint32_t bounds[] = {2, 8, 64};
  const std::uint64_t servers = rng.between(1, 3);
  for (std::uint64_t i = 0; i < servers; ++i) {
    ServerPlan server;
    server.listens = rng.below(6) != 0;
    server.pending_max = bounds[rng.below(3)];
    if (rng.below(2) == 0) server.decide_max = up_to(rng, 20ms);
    if (rng.below(3) == 0) server.rejects = {1, 5};
    if (rng.below(3) == 0) server.crash_at = begin_at + up_to(rng, 30ms);
    if (rng.below(2) == 0) server.back_after = up_to(rng, 300ms);
    plan.servers.push_back(server);
  }
  plan.retry.rounds = static_cast<std::uint32_t>(rng.between(1, 6));
  plan.retry.first = up_to(rng, 50ms);
  plan.retry.cap = plan.retry.first + up_to(rng, 200ms);
  if (rng.below(3) == 0) plan.loss = {1, 50};
  if (rng.below(2) == 0) plan.flood = static_cast<std::uint32_t>(rng.between(1, 100));
  if (rng.below(3) == 0) plan.timeout = 1ms + up_to(rng, 2s);
  return plan;
}

std::string FleetPlan::to_string() const {
  std::string out = fmt::format("{} clients x {}, rounds {} first {} cap {}, timeout {}, loss {}/{}, flood {}", clients,
                                connects, retry.rounds, exact_duration_text(retry.first),
                                exact_duration_text(retry.cap), exact_duration_text(timeout), loss.of, loss.in, flood);
  for (const ServerPlan& s : servers)
    out += fmt::format("; server: listens {} pending_max {} decides within {} rejects {}/{} crash {} back {}",
                       s.listens, s.pending_max, exact_duration_text(s.decide_max), s.rejects.of, s.rejects.in,
                       exact_duration_text(s.crash_at), exact_duration_text(s.back_after));
  return out;
}

Fleet::Fleet(const FleetPlan& plan, std::uint64_t seed) : plan_(plan), world_(seed) {
  const auto center = valid(world_.add_switch("switch"));
  const auto add = [&](const std::string& name, const sim::HostOptions& options) {
    sim::Host* host = valid(world_.add_host(name, options));
    const sim::LinkId link = valid(world_.add_link(host->id(), center, {}));
    if (plan_.loss.of != 0) {
      sim::FaultRule rule;
      rule.chance = plan_.loss;
      (void)valid(world_.add_fault(link, sim::LinkDirection::both, rule).map([] { return true; }));
    }
    return host;
  };
  sim::HostOptions options;
  options.ipv6 = false;
  for (std::uint32_t i = 0; i < plan_.servers.size(); ++i) {
    servers_.push_back(std::make_unique<Server>(*this, plan_.servers[i], i, world_.rng().split()));
    sim::HostOptions own = options;
    own.rnic.trace = &servers_.back()->pending;
    server_hosts_.push_back(add(fmt::format("s{}", i), own));
    server_hosts_.back()->set_app(servers_.back().get());
  }
  for (std::uint32_t i = 0; i < plan_.clients; ++i) {
    clients_.push_back(std::make_unique<Client>(*this, i));
    add(fmt::format("c{}", i), options)->set_app(clients_.back().get());
  }
  for (sim::Host* host : server_hosts_) {
    addresses_.push_back(host->address());
    addresses_.back().port = port;
  }
  if (plan_.flood == 0) return;
  mute_ = std::make_unique<Mute>(addresses_.front(), plan_.flood);
  add("flood", options)->set_machine(mute_.get());
}

Fleet::~Fleet() = default;

std::size_t Fleet::pending_peak(std::size_t server) const { return servers_[server]->pending.peak; }

void Fleet::complain(std::string text) {
  if (wrong_.size() < wrong_max)
    wrong_.push_back(fmt::format("at {}: {}", exact_duration_text(world_.now().time_since_epoch()), text));
}

void Fleet::attempted(std::size_t n, Instant at) {
  if (attempts_.size() <= n) attempts_.resize(n + 1);
  attempts_[n].push_back(at);
}

bool Fleet::over() const {
  return std::all_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->over(); });
}

void Fleet::run(Duration limit) {
  struct Change {
    Duration at;
    std::size_t server;
    bool crash;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < plan_.servers.size(); ++i) {
    const ServerPlan& s = plan_.servers[i];
    if (s.crash_at == Duration{}) continue;
    changes.push_back({s.crash_at, i, true});
    if (s.back_after > Duration{}) changes.push_back({s.crash_at + s.back_after, i, false});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  for (const Change& change : changes) {
    world_.run_for(change.at - world_.now().time_since_epoch());
    sim::Host& host = *server_hosts_[change.server];
    change.crash ? host.crash() : host.restart();
  }
  if (!world_.run_until([this] { return over(); }, limit)) complain("not every connect has come to its end");
  world_.run_for(60s);  // what may still be told
  const Tally& t = tally_;
  const std::uint32_t begun = plan_.clients * plan_.connects;
  if (t.established + t.rejected + t.failed != begun)
    complain(
        fmt::format("{} connects, {} established, {} rejected, {} failed", begun, t.established, t.rejected, t.failed));
}

}  // namespace parley::stress
