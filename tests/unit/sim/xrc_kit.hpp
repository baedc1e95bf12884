// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two simulated hosts for XRC: at one are queue pairs that send (INI), at the other a node of processes that share TGT queue
// pairs. Everything is set up in band.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <list>

#include "cm/core.hpp"
#include "cm/xrc/service.hpp"
#include "cm/xrc/srqn.hpp"
#include "nic/roce/device.hpp"
#include "parley/sim.hpp"
#include "xrc/node.hpp"

namespace parley::sim::testing_xrc {

using namespace std::chrono_literals;

inline constexpr std::size_t piece = 64;  // octets of a message

inline std::string refusal(const auto& result) {
  if (result) return "none";
  if (result.error().code().category() != xrc::refusal_category()) return result.error().message();
  return std::string(to_string(static_cast<xrc::Refusal>(result.error().code().value())));
}

/// An App that does what the test says, at its host's turn.
class Turns : public App {
 public:
  void on_start(Host& h) override { host = &h; }
  void on_crash(Host&) override {}
  void on_timer(Host& h, std::uint64_t) override {
    while (!todo.empty()) {
      todo.front()();
      todo.erase(todo.begin());
    }
    on_turn(h);
  }
  Host* host = nullptr;
  std::vector<std::function<void()>> todo;
};

/// A process of the node: a domain of protection, memory, and a shared receive queue.
struct Proc {
  xrc::Node::Member* member = nullptr;
  PdHandle pd = 0;
  std::unique_ptr<CompletionQueue> cq;
  SharedReceiveQueue* srq = nullptr;
  Bytes memory = Bytes(piece);
  MemoryRegion region{};
  std::unique_ptr<cm::Manager> manager;  // of one that serves
  std::unique_ptr<xrc::Service> service;
  std::vector<xrc::Event> events;
  std::vector<cm::Event> left;  // to it by the service
  std::size_t got = 0;
  std::vector<WcStatus> failed;

  xrc::Attachment& attachment() const { return member->attachment; }
  std::uint32_t srqn() const { return srq->srq_num().value_or(0); }
  void post(std::size_t receives) {
    const Sge sge{.addr = region.addr, .length = piece, .lkey = region.lkey};
    for (std::size_t i = 0; i < receives; ++i) ASSERT_TRUE(srq->post_recv({.sges = {&sge, 1}}));
  }
  std::string told() const {
    std::string out;
    for (const xrc::Event& e : events) out += (out.empty() ? "" : " ") + std::string(to_string(e.kind));
    return out;
  }
};

class TargetApp final : public Turns {
 public:
  explicit TargetApp(xrc::RegistryOptions options) : options_(options) {}
  std::unique_ptr<xrc::Node> node;
  std::list<Proc> procs;
  std::vector<std::pair<xrc::TgtId, xrc::Peer>> up;

  void on_start(Host& h) override {
    Turns::on_start(h);
    node = xrc::Node::create(h.now(), h.device(), options_).value();
  }
  void on_turn(Host& h) override {
    if (!node) return;
    // Before the connection manager says that it is over: why.
    while (const auto event = h.device().poll_async_event()) (void)node->handle(*event);
    for (Proc& p : procs)
      while (p.manager) {
        auto event = p.manager->poll_event();
        if (!event) break;
        if (!p.service->handle(*event)) p.left.push_back(*event);
      }
    node->turn(h.now());
    for (Proc& p : procs) look(p);
    if (const Instant next = node->next_deadline(); next != never) h.set_timer(next, 0);
  }

  Proc& add(std::uint32_t pid, std::size_t receives = 8) {
    Proc& p = procs.emplace_back();
    Device& device = host->device();
    p.member = node->open({.pid = pid, .command = "p" + std::to_string(pid)}).value();
    p.pd = device.alloc_pd().value();
    p.cq = device.create_cq(64).value();
    p.region = device.reg_mr(p.pd, p.memory, Access::local_write | Access::remote_write).value();
    p.srq = p.attachment().create_srq(p.pd, 32, *p.cq).value();
    p.post(receives);
    return p;
  }
  /// From now on this process sets up TGT queue pairs for who asks, and says whose queue has which number.
  void serve(Proc& p, std::uint16_t port = 7471) {
    p.manager = host->cm().open_beside().value();
    Address local = host->address();
    local.port = port;
    xrc::ServiceOptions options{.local = local};
    options.srqn = [this](std::uint32_t which) -> std::optional<std::uint32_t> {
      auto at = procs.begin();
      for (std::uint32_t i = 0; i < which && at != procs.end(); ++i) ++at;
      return at != procs.end() && at->srq != nullptr ? at->srq->srq_num() : std::nullopt;
    };
    options.on_up = [this](xrc::TgtId tgt, const xrc::Peer& peer) { up.emplace_back(tgt, peer); };
    p.service = std::make_unique<xrc::Service>(*p.manager, p.attachment(), std::move(options));
    ASSERT_TRUE(p.service->start());
  }
  /// kill -9: the system closes what it had.
  void kill(Proc& p) {
    if (p.service) p.service->abandon();
    p.service.reset();
    p.manager.reset();
    node->dead(*p.member);
    p.member = nullptr;
    p.srq = nullptr;
  }
  void leave(Proc& p) {
    p.service.reset();
    p.manager.reset();
    EXPECT_EQ(refusal(node->leave(*p.member, true)), "none");
    p.member = nullptr;
    p.srq = nullptr;
  }
  /// The NIC has a queue pair of that number.
  bool is_there(std::uint32_t qpn) const { return host->device().open_qp(node->domain(), qpn).has_value(); }
  const nic::roce::Counters& counters() const {
    return dynamic_cast<nic::roce::RoceDevice&>(host->device()).counters();
  }
  void stop() {
    for (Proc& p : procs) p.service.reset(), p.manager.reset();
    node.reset();
    procs.clear();
  }

 private:
  void look(Proc& p) {
    if (p.member == nullptr) return;
    while (const auto event = p.attachment().poll_event()) p.events.push_back(*event);
    WorkCompletion one;
    while (p.cq->poll({&one, 1}) == 1) {
      if (one.status == WcStatus::success)
        ++p.got;
      else
        p.failed.push_back(one.status);
    }
  }
  xrc::RegistryOptions options_;
};

/// A queue pair that sends.
struct Ini {
  cm::Id id;
  std::unique_ptr<CompletionQueue> cq;
  bool up = false, over = false, rejected = false;
  std::string why;
  std::vector<WcStatus> done;
};

class SenderApp final : public Turns {
 public:
  std::list<Ini> inis;
  std::map<std::uint64_t, std::uint32_t> answers;  // SRQNs, by the question's id
  PdHandle pd = 0;
  Bytes memory = Bytes(piece);
  Sge sge{};

  void on_start(Host& h) override {
    Turns::on_start(h);
    pd = h.device().alloc_pd().value();
    const auto region = h.device().reg_mr(pd, memory, Access::local_write).value();
    sge = {.addr = region.addr, .length = piece, .lkey = region.lkey};
  }
  void on_turn(Host& h) override {
    while (auto event = h.cm().poll_event()) handle(*event);
    for (Ini& ini : inis) {
      WorkCompletion one;
      while (ini.cq->poll({&one, 1}) == 1) ini.done.push_back(one.status);
    }
  }
  Ini& connect(Address to, std::uint8_t retry_count = 2) {
    Ini& ini = inis.emplace_back();
    ini.cq = host->device().create_cq(64).value();
    cm::ConnectOptions options;
    options.transport = ib::Options{.retry_count = retry_count, .qp_type = QpType::xrc_ini};
    options.qp = QpInit{.type = QpType::xrc_ini, .pd = pd, .send_cq = ini.cq.get(), .max_send_wr = 16};
    ini.id = host->cm().connect(to, options).value();
    return ini;
  }
  std::uint64_t ask(Address to, std::uint32_t which) {
    const Bytes question = xrc::srqn_question(which);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    options.private_data = question;
    return host->cm().connect(to, options).value().number();
  }
  Result<void> send(Ini& ini, std::uint32_t srqn) {
    return ini.id.qp()->post_send({.sges = {&sge, 1}, .remote_srq_num = srqn});
  }

 private:
  void handle(const cm::Event& event) {
    const std::uint64_t number = cm::endpoint_of(event);
    const auto* established = std::get_if<cm::Established>(&event);
    const auto at = std::find_if(inis.begin(), inis.end(), [&](const Ini& i) { return i.id.number() == number; });
    if (at == inis.end()) {
      if (established != nullptr) answers[number] = xrc::parse_srqn_answer(established->private_data).value_or(0);
      if (std::holds_alternative<cm::Rejected>(event)) answers[number] = 0;
      return;
    }
    at->up = at->up || established != nullptr;
    if (const auto* ended = std::get_if<cm::Disconnected>(&event)) at->over = true, at->why = ended->why.received;
    if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) at->over = true, at->why = failed->why.received;
    if (const auto* no = std::get_if<cm::Rejected>(&event)) at->over = at->rejected = true, at->why = no->why.received;
  }
};

struct XrcWorld {
  explicit XrcWorld(std::uint64_t seed, xrc::RegistryOptions options = {.grace = 5s}, std::uint32_t loss_percent = 0)
      : b(options), world(seed) {
    HostOptions roce;
    roce.engine = NicEngine::roce;
    roce.hca.ack_timeout = 12;  // 17 ms
    ha = *world.add_host("a", roce);
    hb = *world.add_host("b", roce);
    link = *world.add_link(ha->id(), hb->id());
    ha->set_app(&a);
    hb->set_app(&b);
    if (loss_percent != 0) {
      FaultRule loss{.match = {.message = MessageKind::roce_packet}, .chance = {loss_percent, 100}};
      EXPECT_TRUE(world.add_fault(link, LinkDirection::both, loss));
    }
    world.run_for(1ms);
  }
  ~XrcWorld() {
    for (Ini& ini : a.inis) ini.id.destroy();
    a.inis.clear();
    b.stop();
  }
  Address to(std::uint16_t port = 7471) const {
    Address out = hb->address();
    out.port = port;
    return out;
  }
  void at_a(std::function<void()> what) { at(*ha, a, std::move(what)); }
  void at_b(std::function<void()> what) { at(*hb, b, std::move(what)); }
  template <class Condition>
  bool until(Condition condition, Duration limit = 20s) {
    return world.run_until(condition, limit);
  }
  Ini& connect(std::uint16_t port = 7471, std::uint8_t retry_count = 2) {
    Ini* made = nullptr;
    at_a([&] { made = &a.connect(to(port), retry_count); });
    return *made;
  }
  /// And the TGT queue pair that it reaches.
  Ini& connected(xrc::TgtId& tgt, std::uint16_t port = 7471, std::uint8_t retry_count = 7) {
    const std::size_t before = b.up.size();
    Ini& ini = connect(port, retry_count);
    EXPECT_TRUE(until([&] { return ini.up && b.up.size() > before; })) << ini.why;
    if (b.up.size() > before) tgt = b.up.back().first;
    return ini;
  }
  void send(Ini& ini, std::uint32_t srqn) {
    at_a([&] { EXPECT_TRUE(a.send(ini, srqn)); });
  }
  /// One message more arrives there.
  bool reaches(Ini& ini, Proc& p) {
    const std::size_t before = p.got;
    send(ini, p.srqn());
    return until([&] { return p.got == before + 1; }, 5s);
  }
  std::string state(xrc::TgtId tgt) {
    for (const xrc::DomainView& d : b.node->registry().domains(world.now()))
      for (const xrc::TgtView& t : d.tgts)
        if (t.id == tgt) return std::string(to_string(t.state));
    return "gone";
  }

  SenderApp a;
  TargetApp b;
  World world;
  Host* ha = nullptr;
  Host* hb = nullptr;
  LinkId link = 0;

 private:
  void at(Host& h, Turns& app, std::function<void()> what) {
    bool done = false;
    app.todo.push_back([&] {
      what();
      done = true;
    });
    h.set_timer(world.now(), 0);
    EXPECT_TRUE(world.run_until([&] { return done; }, 1s));
  }
};

}  // namespace parley::sim::testing_xrc
