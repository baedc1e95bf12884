// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Storms: many nodes on one switch that connect at the same time. A connection is done when both ends are established;
// then it is closed, unless it is kept open. Only live connections are in memory.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/bytes_io.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "cm/providers/iwarp/mpa_options.hpp"
#include "sim/net/engine.hpp"
#include "sim/run/run.hpp"
#include "sim/run/storm_histogram.hpp"
#include "sim/run/storm_plan.hpp"

namespace parley::sim {
namespace {

constexpr std::uint16_t port = 7471;
constexpr std::uint32_t tries_max = 5;  // per connection; then it counts as failed
constexpr Duration retry_after = std::chrono::milliseconds(10);
constexpr Duration time_max = std::chrono::hours(24);  // of virtual time; a storm that takes longer will never end
constexpr std::size_t violations_max = 100;
constexpr std::uint64_t tell_every = 1024;  // events between two calls of progress
/// A cluster that opens and closes this many connections does not keep each in TIME-WAIT for a minute.
constexpr Duration time_wait = std::chrono::milliseconds(10);

/// Values on which both ends must agree. MPA: revision, RTR, CRC; RoCE: path MTU, the lower and the higher QPN.
struct AgreedValues {
  std::uint32_t a = 0, b = 0, c = 0;
  bool operator==(const AgreedValues&) const = default;
};

AgreedValues agreed_of(const cm::Established& event) {
  if (const auto* ib = std::get_if<ib::Parameters>(&event.parameters)) {
    const auto [low, high] = std::minmax(ib->qp_num, ib->remote_qp_num);
    return {static_cast<std::uint32_t>(ib->path_mtu), low, high};
  }
  const mpa::Parameters& mpa = *event.mpa();
  return {mpa.revision, static_cast<std::uint32_t>(mpa.rtr), mpa.crc};
}

std::string values_text(const AgreedValues& agreed, bool roce) {
  if (roce) return fmt::format("path MTU code {}, queue pairs {:#x} and {:#x}", agreed.a, agreed.b, agreed.c);
  return fmt::format("revision {}, RTR {}, CRC {}", agreed.a, to_string(static_cast<mpa::Rtr>(agreed.b)),
                     agreed.c != 0);
}

/// One connection that is being set up or open.
struct Pair {
  std::uint32_t process = 0, target = 0;
  std::uint32_t serial = 0;  // counts uses of the slot: detects a Request of an earlier use
  std::uint8_t tries = 0;
  bool used = false;
  bool initiator_up = false, responder_up = false;
  std::uint8_t ends = 0;  // ids that are not destroyed yet
  AgreedValues agreed{};  // reported by the end that was established first
};

class Storm;

class StormApp final : public App {
 public:
  StormApp(Storm& storm, Host& host, std::uint32_t node) : storm_(storm), host_(host), node_(node) {}
  void on_start(Host& host) override;
  void on_crash(Host& host) override;
  void on_turn(Host& host) override;
  void on_timer(Host& host, std::uint64_t cookie) override;
  Host& host() { return host_; }

 private:
  struct Process {
    std::uint32_t cursor = 0, in_setup = 0;
    bool done = false;
  };
  struct OpenConnection {
    std::uint32_t pair = 0;
    std::uint32_t serial = 0;
    bool initiator = false;
  };

  void start_more(std::uint32_t process);
  void start(std::uint32_t pair);
  QpInit qp_init() const;
  void on(cm::ConnectRequest& event);
  void on(cm::Established& event);
  void on_end(cm::Id id, bool established, std::string_view why);
  void both_up(Pair& pair, cm::Id id);
  void forget(cm::Id id, const OpenConnection& live);

  Storm& storm_;
  Host& host_;
  std::uint32_t node_;
  PdHandle pd_ = 0;
  std::unique_ptr<CompletionQueue> cq_;
  std::vector<Process> processes_;
  std::unordered_map<std::uint64_t, OpenConnection> live_;  // by number of the id; never iterated
};

class Storm {
 public:
  Storm(const StormOptions& options) : options_(options), plan_(options), world_(options.seed) {}

  StormReport carry_out(const std::function<bool(std::uint64_t)>& progress) {
    report_.wanted = options_.nodes >= 2 && options_.ppn >= 1 ? plan_.wanted() : 0;
    if (auto ready = build(); !ready) {
      wrong({}, ready.error());
      return std::move(report_);
    }
    bool stopped = false;
    for (std::uint64_t events = 0; !over(); ++events) {
      if (!world_.step(Instant{} + time_max)) break;
      if (progress && events % tell_every == 0 && !progress(done_)) {
        stopped = true;
        break;
      }
    }
    if (progress && !stopped) stopped = !progress(done_);
    report_.virtual_time = world_.now().time_since_epoch();
    if (!stopped) judge();
    summarise();
    return std::move(report_);
  }

 private:
  friend class StormApp;

  Checked<void> build() {
    if (options_.nodes < 2 || options_.ppn == 0 || options_.in_setup == 0)
      return tl::unexpected(std::string("a storm needs two nodes, one process on each and one connection at a time"));
    const auto center = world_.add_switch("switch");
    if (!center) return tl::unexpected(center.error());
    HostOptions host_options;
    host_options.ipv6 = false;
    host_options.learn_announcements = true;
    host_options.engine = options_.engine;
    host_options.hca = options_.hca;
    host_options.tcp.time_wait = time_wait;
    host_options.manager.endpoints_max = 1U << 24;
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      const auto host = world_.add_host(fmt::format("n{}", i), host_options);
      if (!host) return tl::unexpected(host.error());
      const auto link = world_.add_link((*host)->id(), *center, options_.link);
      if (!link) return tl::unexpected(link.error());
      if (options_.loss.is_never()) continue;
      FaultRule rule;
      rule.name = "loss";
      rule.chance = options_.loss;
      if (auto added = world_.add_fault(*link, LinkDirection::both, rule); !added) return added;
    }
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      apps_.push_back(std::make_unique<StormApp>(*this, world_.host(i), i));
      world_.host(i).set_app(apps_.back().get());
    }
    if (auto set = world_.set_neighbours(options_.neighbours); !set) return set;
    if (options_.tap != nullptr) world_.set_tap(options_.tap);
    return {};
  }

  bool roce() const { return options_.engine == NicEngine::roce; }
  template <class Options>
  Options options_for() const {
    return roce() ? Options{} : cm::with_mpa<Options>(options_.mpa);
  }

  bool over() const { return done_ + report_.failed == report_.wanted && (options_.keep_open || alive_ == 0); }

  std::uint32_t new_pair(std::uint32_t process, std::uint32_t target) {
    std::uint32_t index = 0;
    if (free_.empty()) {
      index = static_cast<std::uint32_t>(pairs_.size());
      pairs_.emplace_back();
    } else {
      index = free_.back();
      free_.pop_back();
    }
    Pair& p = pairs_[index];
    const std::uint32_t serial = p.serial;
    p = {.process = process, .target = target, .serial = serial + 1, .used = true};
    ++alive_;
    report_.alive_peak = std::max(report_.alive_peak, alive_);
    return index;
  }
  void free_pair(std::uint32_t index) {
    pairs_[index].used = false;
    free_.push_back(index);
    --alive_;
  }
  Pair* pair(std::uint32_t index, std::uint32_t serial) {
    return index < pairs_.size() && pairs_[index].used && pairs_[index].serial == serial ? &pairs_[index] : nullptr;
  }

  void measure(const cm::Steps& times) {
    tcp_.add(times.transport);
    request_.add(times.request - times.transport);
    reply_.add(times.reply - times.request);
    established_.add(times.established - times.reply);
    total_.add(times.established);
  }

  void wrong(std::string connection, std::string text) {
    if (report_.violations.size() < violations_max)
      report_.violations.push_back({.checker = "storm",
                                    .at = world_.now(),
                                    .connection = std::move(connection),
                                    .text = std::move(text),
                                    .rule = {}});
  }
  std::string name(const Pair& p) const {
    return fmt::format("n{} > n{} (process {} > {})", plan_.node_of(p.process), plan_.node_of(p.target), p.process,
                       p.target);
  }

  void agree(const Pair& p, const AgreedValues& other) {
    if (p.agreed != other)
      wrong(name(p), fmt::format("the ends differ: {}; {}", values_text(p.agreed, roce()), values_text(other, roce())));
  }

  void judge() {
    if (world_.counters().exhausted) {
      wrong({}, fmt::format("the world can take no further step: {} events were pending or {} were executed (the most "
                            "that it holds); lower --nodes, --ppn or --in-setup, or leave --neighbours known",
                            Engine::events_max, world_.counters().events));
    } else if (!over()) {
      wrong({}, fmt::format("{} of {} connections are neither established nor failed, and nothing is left to happen",
                            report_.wanted - done_ - report_.failed, report_.wanted));
      for (const Pair& p : pairs_)
        if (p.used && !(p.initiator_up && p.responder_up))
          wrong(name(p), fmt::format("try {}; the initiator is {}up, the responder is {}up", p.tries,
                                     p.initiator_up ? "" : "not ", p.responder_up ? "" : "not "));
    }
    if (!over() || options_.keep_open) return;
    world_.run_for(std::chrono::minutes(1));  // remaining octets, TIME-WAIT
    for (std::uint32_t i = 0; i < options_.nodes; ++i) {
      (void)world_.host(i).cm();  // any access from outside makes the host run its pending work
      if (const std::size_t n = world_.host(i).endpoint_count(); n != 1)
        wrong({}, fmt::format("n{} holds {} endpoints at the end instead of its listener alone", i, n));
    }
  }

  void summarise() {
    report_.established = done_;
    report_.counters = world_.counters();
    for (std::uint32_t i = 0; i < options_.nodes; ++i)
      report_.cm_resent += std::as_const(world_).host(i).counters().cm_resent;
    report_.steps["transport"] = tcp_.summary();
    report_.steps["request"] = request_.summary();
    report_.steps["reply"] = reply_.summary();
    report_.steps["established"] = established_.summary();
    report_.steps["total"] = total_.summary();
    world_.set_tap(nullptr);
  }

  const StormOptions& options_;
  StormPlan plan_;
  StormReport report_;
  World world_;
  std::vector<std::unique_ptr<StormApp>> apps_;  // after the world: the objects that they created on its devices are
                                                 // destroyed first
  std::vector<Pair> pairs_;                      // as many as the peak of live ones
  std::vector<std::uint32_t> free_;
  std::uint64_t alive_ = 0, done_ = 0;
  DurationHistogram tcp_, request_, reply_, established_, total_;
};

// Cookies: a process that may start more connections, or (top bit) a pair to retry.
constexpr std::uint64_t pair_bit = std::uint64_t{1} << 63;

void StormApp::on_start(Host& host) {
  Device& device = host.device();
  if (const auto pd = device.alloc_pd()) pd_ = *pd;
  if (auto cq = device.create_cq(1 << 20)) cq_ = std::move(*cq);
  auto listen = storm_.options_for<cm::ListenOptions>();
  listen.backlog = listen.pending_max = 1 << 20;
  if (const auto id = host.cm().listen(Address::any(Address::Family::v4, port), listen); !id)
    storm_.wrong({}, host.name() + " cannot listen: " + id.error().message());
  processes_.resize(storm_.options_.ppn);
  // Not at once: all must be listening first.
  for (std::uint32_t i = 0; i < storm_.options_.ppn; ++i) host.set_timer(host.now() + std::chrono::milliseconds(1), i);
}

void StormApp::on_crash(Host& host) { (void)host; }

void StormApp::on_timer(Host& host, std::uint64_t cookie) {
  (void)host;
  if ((cookie & pair_bit) != 0)
    start(static_cast<std::uint32_t>(cookie));
  else
    start_more(static_cast<std::uint32_t>(cookie));
}

void StormApp::start_more(std::uint32_t process) {
  Process& p = processes_[process];
  const std::uint32_t number = node_ * storm_.options_.ppn + process;
  while (!p.done && p.in_setup < storm_.options_.in_setup) {
    const auto target = storm_.plan_.next(number, p.cursor);
    p.done = !target;
    if (!target) return;
    ++p.in_setup;
    start(storm_.new_pair(number, *target));
  }
}

QpInit StormApp::qp_init() const {
  QpInit init;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_.get();
  init.max_send_wr = init.max_recv_wr = 1;
  return init;
}

void StormApp::start(std::uint32_t index) {
  Pair& p = storm_.pairs_[index];
  ++p.tries;
  std::array<std::uint8_t, 8> name{};  // identifies the pair to the responder
  Writer w(name);
  w.be32(index);
  w.be32(p.serial);
  auto options = storm_.options_for<cm::ConnectOptions>();
  options.private_data = name;
  options.qp = qp_init();
  Address to = storm_.world_.host(storm_.plan_.node_of(p.target)).address();
  to.port = port;
  auto id = host_.cm().connect(to, options);
  if (!id) {
    storm_.wrong(storm_.name(p), "connect() was refused: " + id.error().message());
    ++storm_.report_.failed;
    --processes_[p.process % storm_.options_.ppn].in_setup;
    return storm_.free_pair(index);
  }
  // RFC 5044 §7.1.2 rule 4: without an RTR a first message must release the responder. If unsignaled, it leaves no
  // completion.
  if (!storm_.roce() && storm_.options_.mpa.rtr == mpa::Rtr::none)
    (void)id->qp()->post_send({.wr_id = 1, .signaled = false});
  live_[id->number()] = {.pair = index, .serial = p.serial, .initiator = true};
  ++p.ends;
}

void StormApp::on_turn(Host& host) {
  while (auto event = host.cm().poll_event()) {
    if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
      on(*request);
    } else if (auto* up = std::get_if<cm::Established>(&*event)) {
      on(*up);
    } else if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
      on_end(failed->id, false, failed->why.received);
    } else if (auto* rejected = std::get_if<cm::Rejected>(&*event)) {
      on_end(rejected->id, false, rejected->why.received);
    } else if (auto* gone = std::get_if<cm::Disconnected>(&*event)) {
      on_end(gone->id, true, gone->why.received);
    }
  }
  std::array<WorkCompletion, 64> done;
  while (cq_->poll(done) == done.size()) continue;
}

void StormApp::on(cm::ConnectRequest& event) {
  Reader r(event.private_data);
  const std::uint32_t index = r.be32(), serial = r.be32();
  Pair* p = storm_.pair(index, serial);
  if (p == nullptr || !r.ok()) return event.id.destroy();  // abandoned meanwhile
  const auto qp = event.id.create_qp(qp_init());
  if (qp) (void)(*qp)->post_recv({.wr_id = 1});
  if (!qp || !event.id.accept()) return event.id.destroy();
  live_[event.id.number()] = {.pair = index, .serial = serial, .initiator = false};
  ++p->ends;
}

void StormApp::on(cm::Established& event) {
  const auto at = live_.find(event.id.number());
  if (at == live_.end()) return;
  const OpenConnection live = at->second;
  Pair* p = storm_.pair(live.pair, live.serial);
  if (p == nullptr) return;
  const bool second = live.initiator ? p->responder_up : p->initiator_up;
  (live.initiator ? p->initiator_up : p->responder_up) = true;
  if (second)
    storm_.agree(*p, agreed_of(event));
  else
    p->agreed = agreed_of(event);
  if (live.initiator) {
    storm_.measure(event.steps);
    const std::uint32_t process = p->process % storm_.options_.ppn;
    --processes_[process].in_setup;
    if (second) both_up(*p, event.id);
    start_more(process);  // may move the pairs
  } else if (second) {
    both_up(*p, event.id);
  }
}

/// The end that is established second closes the connection; the call runs on that end's host.
void StormApp::both_up(Pair& pair, cm::Id id) {
  (void)pair;
  ++storm_.done_;
  if (!storm_.options_.keep_open) (void)id.disconnect();
}

void StormApp::on_end(cm::Id id, bool established, std::string_view why) {
  const auto at = live_.find(id.number());
  if (at == live_.end()) return;  // the peer failed before its Request
  const OpenConnection live = at->second;
  Pair* p = storm_.pair(live.pair, live.serial);
  const bool both = p != nullptr && p->initiator_up && p->responder_up;
  forget(id, live);
  if (p == nullptr || both || !live.initiator) return;
  // The initiator lost it before both ends were established: retried under a new serial, so that late events of the
  // first attempt are detected.
  const std::uint32_t process = p->process % storm_.options_.ppn;
  if (!established) --processes_[process].in_setup;
  if (p->tries >= tries_max) {
    storm_.wrong(storm_.name(*p), fmt::format("failed {} times; the last time: {}", p->tries, why));
    ++storm_.report_.failed;
    p->ends = 0;
    ++p->serial;
    storm_.free_pair(live.pair);
    return start_more(process);
  }
  ++storm_.report_.retried;
  ++processes_[process].in_setup;
  ++p->serial;
  p->ends = 0;
  p->initiator_up = p->responder_up = false;
  host_.set_timer(host_.now() + retry_after, pair_bit | live.pair);
}

void StormApp::forget(cm::Id id, const OpenConnection& live) {
  live_.erase(id.number());
  id.destroy();
  Pair* p = storm_.pair(live.pair, live.serial);
  if (p == nullptr) return;
  const bool both = p->initiator_up && p->responder_up;
  if (--p->ends == 0 && both) storm_.free_pair(live.pair);
}

}  // namespace

StormReport run_storm(const StormOptions& options, const std::function<bool(std::uint64_t)>& progress) {
  Storm storm(options);
  return storm.carry_out(progress);
}

}  // namespace parley::sim
