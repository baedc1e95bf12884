// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/xrc/churn.hpp"

#include <algorithm>

#include "base/after.hpp"
#include "cm/xrc/service.hpp"
#include "cm/xrc/srqn.hpp"
#include "xrc/node.hpp"

namespace parley::sim {
namespace {

constexpr std::uint16_t churn_port = 7471;
constexpr std::size_t octets = 64;
constexpr std::size_t depth = 64;                         // receives of a process
constexpr Duration way = std::chrono::microseconds(500);  // delay to the node: a cycle takes some milliseconds

Address with_port(Address address) {
  address.port = churn_port;
  return address;
}

/// The node whose domain stays open.
class Server final : public App {
 public:
  explicit Server(const ChurnOptions& options) : options_(options) {}
  ~Server() override { stop(); }

  std::size_t tgts() const { return node_ ? node_->registry().tgt_count() : 0; }
  /// The peak since the last call.
  std::size_t take_most() { return std::exchange(most_, tgts()); }
  xrc::Counters counters() const { return node_ ? node_->registry().counters() : xrc::Counters{}; }
  std::string trouble;
  void stop() {
    service_.reset();
    node_.reset();
    processes_.clear();
  }

  void on_start(Host& host) override {
    if (auto made = make(host); !made) trouble = made.error().message();
  }
  void on_crash(Host&) override { stop(); }
  void on_timer(Host& host, std::uint64_t) override { on_turn(host); }
  void on_turn(Host& host) override {
    if (!service_) return;
    while (const auto event = host.device().poll_async_event()) (void)node_->handle(*event);
    while (auto event = host.cm().poll_event()) {
      if (options_.keep && std::holds_alternative<cm::Disconnected>(*event)) continue;
      (void)service_->handle(*event);
    }
    node_->turn(host.now());
    most_ = std::max(most_, tgts());
    for (std::size_t i = 0; i < processes_.size(); ++i) run(processes_[i], i < options_.deaf);
    node_->turn(host.now());
    if (const Instant next = node_->next_deadline(); next != never && next != armed_) host.set_timer(armed_ = next, 0);
  }

 private:
  struct Process {
    xrc::Node::Member* member = nullptr;
    std::unique_ptr<CompletionQueue> cq;
    SharedReceiveQueue* srq = nullptr;
  };

  Result<void> make(Host& host) {
    Device& device = host.device();
    auto node = xrc::Node::create(host.now(), device, {.grace = options_.grace, .quarantine = options_.grace});
    if (!node) return tl::unexpected(node.error());
    node_ = std::move(*node);
    auto member = node_->open({.pid = 1, .command = "service"});
    auto pd = device.alloc_pd();
    if (!member) return tl::unexpected(member.error());
    if (!pd) return tl::unexpected(pd.error());
    auto region = device.reg_mr(*pd, memory_, Access::local_write);
    if (!region) return tl::unexpected(region.error());
    sge_ = {.addr = region->addr, .length = octets, .lkey = region->lkey};
    for (std::uint32_t i = 0; i < options_.processes; ++i)
      if (auto process = add_process(device, *pd, 100 + i); !process) return process;
    xrc::ServiceOptions options{.local = with_port(host.address())};
    options.srqn = [this](std::uint32_t which) -> std::optional<std::uint32_t> {
      return which < processes_.size() ? processes_[which].srq->srq_num() : std::nullopt;
    };
    options.on_up = [this](xrc::TgtId tgt, const xrc::Peer&) {
      for (Process& p : processes_)
        if (auto joined = p.member->attachment.attach(tgt); !joined) trouble = joined.error().message();
    };
    service_ = std::make_unique<xrc::Service>(host.cm(), (*member)->attachment, std::move(options));
    return service_->start();
  }
  Result<void> add_process(Device& device, PdHandle pd, std::uint32_t pid) {
    Process p;
    auto member = node_->open({.pid = pid, .command = "process"});
    auto cq = device.create_cq(2 * depth);
    if (!member) return tl::unexpected(member.error());
    if (!cq) return tl::unexpected(cq.error());
    p.member = *member;
    p.cq = std::move(*cq);
    auto srq = p.member->attachment.create_srq(pd, depth, *p.cq);
    if (!srq) return tl::unexpected(srq.error());
    p.srq = *srq;
    for (std::size_t i = 0; i < depth; ++i)
      if (auto posted = p.srq->post_recv({.sges = {&sge_, 1}}); !posted) return posted;
    processes_.push_back(std::move(p));
    return {};
  }
  /// Takes received messages, and releases TGT queue pairs that the peer has left, unless it is deaf.
  void run(Process& p, bool deaf) {
    WorkCompletion one;
    while (p.cq->poll({&one, 1}) == 1)
      if (auto posted = p.srq->post_recv({.sges = {&sge_, 1}}); !posted) trouble = posted.error().message();
    while (const auto event = p.member->attachment.poll_event())
      if (!deaf && xrc::leads_to(event->kind)) (void)p.member->attachment.release(event->tgt);
  }

  const ChurnOptions& options_;
  Bytes memory_ = Bytes(octets);
  Sge sge_{};
  std::unique_ptr<xrc::Node> node_;
  std::unique_ptr<xrc::Service> service_;
  std::vector<Process> processes_;
  Instant armed_ = never;
  std::size_t most_ = 0;
};

/// The peers that connect and disconnect.
class Client final : public App {
 public:
  explicit Client(const ChurnOptions& options) : options_(options) {}
  Address server{};
  std::string trouble;
  std::uint32_t over = 0;
  std::function<void()> on_cycle;

  void on_start(Host& host) override {
    device_ = &host.device();
    pd_ = device_->alloc_pd().value_or(0);
    auto region = device_->reg_mr(pd_, memory_, Access::local_write);
    if (!region) return fail(region.error());
    sge_ = {.addr = region->addr, .length = octets, .lkey = region->lkey};
  }
  void on_crash(Host&) override {}
  void on_timer(Host& host, std::uint64_t) override {
    for (std::uint32_t i = 0; i < options_.processes; ++i) ask(host, i);
    on_turn(host);
  }
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event()) handle(host, *event);
    for (auto& [number, line] : lines_) {
      WorkCompletion one;
      if (line.cq->poll({&one, 1}) == 0) continue;
      if (one.status != WcStatus::success) trouble = "a message failed: " + std::string(to_string(one.status));
      if (auto asked = line.id.disconnect(); !asked) fail(asked.error());
    }
  }
  void stop() {
    for (auto& [number, line] : lines_) line.id.destroy();
    lines_.clear();
  }

 private:
  struct Line {
    cm::Id id;
    std::unique_ptr<CompletionQueue> cq;
  };
  void fail(const Error& error) { trouble = error.message(); }

  void ask(Host& host, std::uint32_t which) {
    const Bytes question = xrc::srqn_question(which);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    options.private_data = question;
    if (auto id = host.cm().connect(server, options); !id) fail(id.error());
  }
  void connect(Host& host) {
    if (begun_ == options_.cycles || !trouble.empty()) return;
    ++begun_;
    Line line;
    auto cq = device_->create_cq(2);
    if (!cq) return fail(cq.error());
    line.cq = std::move(*cq);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::xrc_ini};
    options.qp = QpInit{.type = QpType::xrc_ini, .pd = pd_, .send_cq = line.cq.get(), .max_send_wr = 1};
    auto id = host.cm().connect(server, options);
    if (!id) return fail(id.error());
    line.id = *id;
    lines_[id->number()] = std::move(line);
  }
  void handle(Host& host, const cm::Event& event) {
    if (const auto* up = std::get_if<cm::Established>(&event)) {
      if (const auto at = lines_.find(up->id.number()); at != lines_.end()) return post(at->second);
      const auto srqn = xrc::parse_srqn_answer(up->private_data);
      if (!srqn) return fail(Errc::malformed);
      queues_.push_back(*srqn);
      cm::Id(up->id).destroy();
      if (queues_.size() < options_.processes) return;
      for (std::uint32_t i = 0; i < options_.at_once; ++i) connect(host);
    } else if (const auto* ended = std::get_if<cm::Disconnected>(&event)) {
      const auto at = lines_.find(ended->id.number());
      if (at == lines_.end()) return;
      if (!ended->graceful) trouble = "a disconnect failed: " + ended->why.received;
      at->second.id.destroy();
      lines_.erase(at);
      ++over;
      if (on_cycle) on_cycle();
      connect(host);
    } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
      trouble = "a connection failed: " + failed->why.received;
    }
  }
  void post(Line& line) {
    const std::uint32_t srqn = queues_[begun_ % queues_.size()];
    if (auto sent = line.id.qp()->post_send({.sges = {&sge_, 1}, .remote_srq_num = srqn}); !sent) fail(sent.error());
  }

  const ChurnOptions& options_;
  Device* device_ = nullptr;
  PdHandle pd_ = 0;
  Bytes memory_ = Bytes(octets);
  Sge sge_{};
  std::map<std::uint64_t, Line> lines_;  // at_once
  std::vector<std::uint32_t> queues_;
  std::uint32_t begun_ = 0;
};

}  // namespace

Checked<ChurnReport> run_churn(const ChurnOptions& options) {
  Server server(options);  // declared after the world, which calls them
  Client client(options);
  World world(options.seed);
  HostOptions host_options;
  host_options.engine = NicEngine::roce;
  const auto at = world.add_host("server", host_options), from = world.add_host("client", host_options);
  if (!at) return tl::unexpected(at.error());
  if (!from) return tl::unexpected(from.error());
  if (const auto link = world.add_link((*at)->id(), (*from)->id(), {.delay = way}); !link)
    return tl::unexpected(link.error());
  (*at)->set_app(&server);
  (*from)->set_app(&client);
  client.server = with_port((*at)->address());
  ChurnReport report;
  const std::uint32_t every = std::max(1U, options.cycles / std::max(1U, options.samples));
  client.on_cycle = [&] {
    if (client.over % every != 0) return;
    report.samples.push_back({client.over, server.take_most()});
    report.peak = std::max(report.peak, report.samples.back().tgts);
  };
  world.run_for(std::chrono::milliseconds(1));
  (*from)->set_timer(world.now(), 0);
  const auto troubled = [&] { return !client.trouble.empty() || !server.trouble.empty(); };
  const bool done =
      world.run_until([&] { return troubled() || client.over == options.cycles; }, options.limit) && !troubled();
  report.took = world.now().time_since_epoch();
  world.run_for(2 * options.grace);
  report.cycles = client.over;
  report.left = server.tgts();
  report.counters = server.counters();
  report.trouble = client.trouble.empty() ? server.trouble : client.trouble;
  if (!done && report.trouble.empty()) report.trouble = "the time was over";
  client.stop();
  server.stop();
  return report;
}

}  // namespace parley::sim
