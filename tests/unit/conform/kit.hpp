// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The conformance cases against Parley's own stack in the simulator: a host with a program above it, and a tester.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cm/providers/iwarp/mpa_options.hpp"
#include "conform/core/judge.hpp"
#include "conform/core/report.hpp"
#include "conform/core/run.hpp"
#include "mpa/startup_options.hpp"
#include "parley/sim.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley::conform::kit {

/// What is under test.
struct Under {
  Iut iut = Iut::responder;
  mpa::StartupOptions mpa{};
  unsigned receives = 1;  ///< posted
  std::size_t receive_size = 16;
  bool sends_first = false;
  bool rping = false;  ///< advertises (initiator) or reads what is advertised (responder)
  std::size_t rping_size = 64;
};

inline constexpr std::uint16_t port = 7471;
inline Address at_port(Address address) {
  address.port = port;
  return address;
}

/// The program above the stack under test: serves, or connects again and again.
class Program final : public sim::App {
 public:
  explicit Program(const Under& under) : under_(under) {}
  void connect_to(const Address& to) { to_ = to; }

  void on_start(sim::Host& host) override {
    if (under_.iut == Iut::initiator) {
      host.set_timer(host.now() + 10ms, 1);
    } else {
      listener_ =
          *host.cm().listen(Address::any(Address::Family::v4, port), cm::with_mpa<cm::ListenOptions>(under_.mpa));
    }
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host& host, std::uint64_t) override { connect(host); }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) handle(host, *event);
    for (auto& [number, link] : links_) serve(link);
  }

 private:
  struct Link {
    cm::Id id;
    std::unique_ptr<Verbs> verbs;
    QueuePair* qp = nullptr;
  };

  void connect(sim::Host& host) {
    Link link;
    link.verbs = std::make_unique<Verbs>(host.device());
    auto id = host.cm().connect(to_, cm::with_mpa<cm::ConnectOptions>(under_.mpa, {.qp = link.verbs->qp()}));
    ASSERT_TRUE(id);
    link.id = *id;
    post(link, link.id.qp());
    links_[link.id.number()] = std::move(link);
  }
  void post(Link& link, QueuePair* qp) {
    link.qp = qp;
    for (unsigned i = 0; i < under_.receives; ++i) (void)link.verbs->recv(*qp, 0, under_.receive_size);
    if (under_.rping && under_.iut == Iut::initiator) {
      // be64 address, be32 STag, be32 octets: rping's advertisement.
      const MemoryRegion& mr = link.verbs->mr;
      std::uint64_t to = mr.addr + 4096;
      for (int i = 7; i >= 0; --i, to >>= 8) link.verbs->memory[static_cast<std::size_t>(64 + i)] = to & 0xFF;
      std::uint32_t stag = mr.rkey;
      for (int i = 11; i >= 8; --i, stag >>= 8) link.verbs->memory[static_cast<std::size_t>(64 + i)] = stag & 0xFF;
      std::size_t n = under_.rping_size;
      for (int i = 15; i >= 12; --i, n >>= 8) link.verbs->memory[static_cast<std::size_t>(64 + i)] = n & 0xFF;
      (void)link.verbs->send(*qp, 64, 16);
    } else if (under_.sends_first) {
      (void)link.verbs->send(*qp, 64, 16);
    }
  }
  void handle(sim::Host& host, const cm::Event& event) {
    if (const auto* asked = std::get_if<cm::ConnectRequest>(&event)) {
      Link link;
      link.id = asked->id;
      link.verbs = std::make_unique<Verbs>(host.device());
      auto qp = link.id.create_qp(link.verbs->qp());
      if (!qp) return;  // failed meanwhile
      post(link, *qp);
      (void)link.id.accept();
      links_[link.id.number()] = std::move(link);
    }
    std::uint64_t over = 0;
    if (const auto* e = std::get_if<cm::Disconnected>(&event)) over = e->id.number();
    if (const auto* e = std::get_if<cm::ConnectFailed>(&event)) over = e->id.number();
    if (const auto* e = std::get_if<cm::Rejected>(&event)) over = e->id.number();
    if (over == 0) return;
    if (const auto found = links_.find(over); found != links_.end()) {
      found->second.id.destroy();
      found->second.qp = nullptr;
      links_.erase(found);
    }
    if (under_.iut == Iut::initiator) host.set_timer(host.now() + 50ms, 1);
  }
  // rping's server reads the memory that a 16-octet message names.
  void serve(Link& link) {
    if (!link.verbs || link.qp == nullptr) return;
    for (const WorkCompletion& wc : link.verbs->poll()) {
      if (!under_.rping || under_.iut != Iut::responder || wc.opcode != WcOpcode::recv ||
          wc.status != WcStatus::success || wc.byte_len != 16)
        continue;
      (void)link.verbs->recv(*link.qp, 0, under_.receive_size);
      const Sge sink = link.verbs->at(4096, 64);
      (void)link.qp->post_send(
          {.opcode = SendWr::Opcode::rdma_read, .sges = {&sink, 1}, .remote_addr = 0x1000, .rkey = 0x77});
    }
  }

  Under under_;
  Address to_{};
  cm::Id listener_;
  std::map<std::uint64_t, Link> links_;
};

inline Settings settings_for(const Under& under) {
  Settings s;
  s.iut = under.iut;
  s.recv_size = static_cast<std::uint32_t>(under.receive_size);
  s.recv_count = under.receives;
  s.speaks_first = under.sends_first;
  if (under.receives == 0) s.recv_size.reset(), s.recv_count.reset();
  if (under.rping) s.ulp = Ulp::rping;
  return s;
}

/// All cases (destructive ones too) of that role.
inline std::vector<Result> run(const Under& under, const std::function<bool(const Case&)>& wanted = {}) {
  sim::World world(1);
  sim::Host* tester = *world.add_host("tester");
  sim::Host* other = *world.add_host("peer");
  EXPECT_TRUE(world.add_link(tester->id(), other->id()));
  tester::ScriptedPeer peer;
  tester->set_machine(&peer);
  Program program(under);
  program.connect_to(at_port(tester->address()));
  other->set_app(&program);
  Settings settings = settings_for(under);
  settings.target = at_port(other->address());
  std::vector<const Case*> list;
  for (const Case* c : cases(under.iut))
    if (!wanted || wanted(*c)) list.push_back(c);
  Run run(peer, settings, list, {}, {});
  const auto script = [](tester::ScriptedPeer& s, Run& r) -> Task<void> {
    (void)co_await s.listen(Address::any(Address::Family::v4, port), 1s);
    co_await r.script();
  };
  peer.start(world.now(), script(peer, run));
  EXPECT_TRUE(world.run_until([&] { return peer.done(); }, std::chrono::hours(12)));
  auto results = run.results();
  peer.stop();
  return results;
}

/// The ULPDU of a Terminate without headers.
inline Bytes terminate_of(TermCode code) {
  wire::Terminate t;
  t.layer = code.layer;
  t.etype = code.etype;
  t.code = code.code;
  Bytes body(t.size());
  t.emit(body);
  wire::DdpHeader header = tester::send_header(1);
  header.opcode = wire::RdmapOpcode::terminate;
  header.qn = PARLEY_DDP_QN_TERMINATE;
  return tester::segment(header, body);
}

using Script = std::function<Task<void>(tester::ScriptedPeer&, tester::TcpStream&)>;

/// Carries out `script` on each connection, as what is under test.
inline Task<void> play(tester::ScriptedPeer& peer, Iut iut, Address tester, const Script& script) {
  if (iut == Iut::responder) (void)co_await peer.listen(Address::any(Address::Family::v4, port), 1s);
  for (;;) {
    tester::TcpStream* stream = nullptr;
    if (iut == Iut::responder) {
      stream = co_await peer.accept(std::chrono::hours(100));
    } else {
      stream = co_await peer.connect(tester, 5s);
    }
    if (stream == nullptr) {
      co_await peer.sleep(100ms);
      continue;
    }
    co_await script(peer, *stream);
    co_await peer.end(*stream, 100s);
    peer.forget_stream(*stream);
  }
}

/// Some cases against one script.
class Table {
 public:
  Table(Iut iut, std::vector<std::string_view> names, Script script) : iut_(iut), script_(std::move(script)) {
    tester_ = *world_.add_host("tester");
    other_ = *world_.add_host("peer");
    EXPECT_TRUE(world_.add_link(tester_->id(), other_->id()));
    tester_->set_machine(&peer_);
    other_->set_machine(&odd_);
    settings.iut = iut;
    settings.target = at_port(other_->address());
    settings.ulp = Ulp::rping;
    for (const std::string_view name : names)
      for (const Case* c : cases(iut))
        if (c->name == name) list_.push_back(c);
    EXPECT_EQ(list_.size(), names.size());
  }
  ~Table() {
    peer_.stop();
    odd_.stop();
  }

  void start() {
    run = std::make_unique<Run>(peer_, settings, list_, Selection{}, hooks);
    const auto script = [](tester::ScriptedPeer& s, Run& r) -> Task<void> {
      (void)co_await s.listen(Address::any(Address::Family::v4, port), 1s);
      co_await r.script();
    };
    odd_.start(world_.now(), play(odd_, iut_, at_port(tester_->address()), script_));
    peer_.start(world_.now(), script(peer_, *run));
  }
  void turn(Duration time) {
    const Instant until = world_.now() + time;
    (void)world_.run_until([&] { return world_.now() >= until; }, time);
  }
  void finish() {
    start();
    EXPECT_TRUE(world_.run_until([&] { return peer_.done(); }, std::chrono::hours(12)));
  }
  Result only_result() {
    finish();
    EXPECT_EQ(run->results().size(), 1U);
    return run->results().empty() ? Result{} : run->results().front();
  }

  Settings settings;
  Hooks hooks;
  std::unique_ptr<Run> run;

 private:
  Iut iut_;
  Script script_;
  sim::World world_{1};
  sim::Host* tester_ = nullptr;
  sim::Host* other_ = nullptr;
  tester::ScriptedPeer peer_, odd_;
  std::vector<const Case*> list_;
};

inline std::string words(const std::vector<Result>& results) {
  std::string out;
  for (const Result& r : results)
    out +=
        std::string(to_string(r.finding.verdict)) + " " + std::string(r.what->name) + ": " + r.finding.observed + "\n";
  return out;
}

}  // namespace parley::conform::kit
