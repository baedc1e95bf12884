// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RDMA applications on simulated hosts: bulk transfers, and connections that are set up and closed.
#include <algorithm>
#include <deque>
#include <variant>

#include "bench/sim_pair.hpp"

namespace parley::bench {
namespace {

constexpr std::size_t message = 64 << 10;
constexpr std::uint32_t depth = 64;
constexpr std::uint32_t ahead = 8;  // work requests of the sender; the receiver has twice as many receives posted
constexpr std::size_t slots = 16;   // messages' worth of registered memory

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw std::runtime_error(std::string(what) + ": " + result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// ---- bulk --------------------------------------------------------------------------------------------------------

struct BulkApp : sim::App {
  BulkApp(sim::NicEngine its_engine, std::uint8_t fill) : engine(its_engine), memory(message * slots, fill) {}
  template <class Options>
  Options options() const {
    Options out;
    if (engine == sim::NicEngine::iwarp) out.transport = mpa::Options{.crc = true};
    return out;
  }
  void on_start(sim::Host& host) override {
    Device& device = host.device();
    pd = must(device.alloc_pd(), "alloc_pd");
    region = must(device.reg_mr(pd, memory, Access::local_write | Access::remote_write), "reg_mr");
    cq = must(device.create_cq(2 * depth), "create_cq");
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
  QpInit qp_init() const {
    return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = depth, .max_recv_wr = depth};
  }
  Sge slot(std::uint64_t n) const {
    return {
        .addr = region.addr + n % slots * message, .length = static_cast<std::uint32_t>(message), .lkey = region.lkey};
  }
  template <class Each>
  void poll(Each each) {
    for (std::size_t n = cq->poll(done); n != 0; n = cq->poll(done)) {
      for (std::size_t i = 0; i < n; ++i) {
        if (done[i].status != WcStatus::success) throw std::runtime_error("a work request failed");
        each(done[i]);
      }
    }
  }
  static void stop_on_failure(const cm::Event& event) {
    if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) throw std::runtime_error(failed->why.to_string());
    if (const auto* gone = std::get_if<cm::Disconnected>(&event)) throw std::runtime_error(gone->why.to_string());
  }
  const sim::NicEngine engine;
  Bytes memory;
  PdHandle pd = 0;
  MemoryRegion region{};
  std::unique_ptr<CompletionQueue> cq;
  std::array<WorkCompletion, 32> done;
  cm::Id id{};
};

struct BulkReceiver final : BulkApp {
  BulkReceiver(sim::NicEngine its_engine, bool its_sends) : BulkApp(its_engine, 0), sends(its_sends) {}
  void on_start(sim::Host& host) override {
    BulkApp::on_start(host);
    (void)must(host.cm().listen(Address::any(Address::Family::v4, first_port), options<cm::ListenOptions>()), "listen");
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      stop_on_failure(*event);
      auto* request = std::get_if<cm::ConnectRequest>(&*event);
      if (request == nullptr) continue;
      id = request->id;
      must(id.create_qp(qp_init()), "create_qp");
      for (std::uint32_t i = 0; sends && i < 2 * ahead; ++i) post();
      must(id.accept(), "accept");
    }
    if (!sends) return;
    poll([this](const WorkCompletion& wc) {
      octets += wc.byte_len;
      post();
    });
  }
  void post() {
    const Sge sge = slot(posted++);
    must(id.qp()->post_recv({.sges = {&sge, 1}}), "post_recv");
  }
  const bool sends;
  std::uint64_t octets = 0, posted = 0;
};

struct BulkSender final : BulkApp {
  BulkSender(const SimPair& its_pair, const BulkReceiver& its_receiver)
      : BulkApp(its_receiver.engine, 0x5A), pair(its_pair), receiver(its_receiver) {}
  void on_start(sim::Host& host) override {
    BulkApp::on_start(host);
    auto with = options<cm::ConnectOptions>();
    with.qp = qp_init();
    id = must(host.cm().connect(pair.server_at(0), with), "connect");
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      stop_on_failure(*event);
      up = up || std::holds_alternative<cm::Established>(*event);
    }
    if (!up) return;
    poll([this](const WorkCompletion&) { ++completed; });
    while (posted - completed < ahead) {
      const Sge from = slot(posted), to = receiver.slot(posted);
      const auto opcode = receiver.sends ? SendWr::Opcode::send : SendWr::Opcode::rdma_write;
      must(id.qp()->post_send({.opcode = opcode,
                               .sges = {&from, 1},
                               .remote_addr = receiver.sends ? 0 : to.addr,
                               .rkey = receiver.sends ? 0 : receiver.region.rkey}),
           "post_send");
      ++posted;
    }
  }
  const SimPair& pair;
  const BulkReceiver& receiver;
  std::uint64_t posted = 0, completed = 0;
  bool up = false;
};

SimSample bulk(const BulkWork& work, sim::NicEngine engine, bool sends) {
  BulkReceiver receiver(engine, sends);
  SimPair pair(engine);
  BulkSender sender(pair, receiver);
  pair.client->set_app(&sender);
  pair.server->set_app(&receiver);
  const double before = cpu_now();
  pair.world.run_for(std::chrono::microseconds(work.virtual_us));
  SimSample sample = pair.sample(before, {}, Instant{});
  sample.octets = static_cast<double>(sends ? receiver.octets : sender.completed * message);
  if (sender.completed > slots && std::count(receiver.memory.begin(), receiver.memory.end(), 0) != 0)
    throw std::runtime_error("octets are missing in the receiver's memory");
  sender.id.destroy();
  receiver.id.destroy();
  sender.cq.reset();
  receiver.cq.reset();
  return sample;
}

// ---- connections -------------------------------------------------------------------------------------------------

constexpr std::array<std::uint8_t, 16> private_data{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

struct AcceptApp final : sim::App {
  void on_start(sim::Host& host) override {
    for (std::uint16_t i = 0; i < ports; ++i) {
      const Address at = Address::any(Address::Family::v4, static_cast<std::uint16_t>(first_port + i));
      (void)must(host.cm().listen(at, {.backlog = 1 << 20, .pending_max = 1 << 20}), "listen");
    }
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        must(request->id.accept({.private_data = private_data}), "accept");
      } else if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
        throw std::runtime_error(failed->why.to_string());
      } else if (auto* gone = std::get_if<cm::Disconnected>(&*event)) {
        gone->id.destroy();
      }
    }
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
};

struct ConnectApp final : sim::App {
  ConnectApp(const SimPair& its_pair, const ConnectionWork& its_work) : pair(its_pair), work(its_work) {}
  void on_start(sim::Host& host) override {
    for (std::uint32_t i = 0; i < work.at_once; ++i) start(host);
  }
  void start(sim::Host& host) {
    if (started == work.count) return;
    (void)must(host.cm().connect(pair.server_at(started++),
                                 {.transport = mpa::Options{.rtr = mpa::Rtr::send}, .private_data = private_data}),
               "connect");
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* up = std::get_if<cm::Established>(&*event)) {
        ++done;
        alive.push_back(up->id);
        if (alive.size() > work.alive) {
          must(alive.front().disconnect(), "disconnect");
          alive.pop_front();
        }
        start(host);
      } else if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) {
        throw std::runtime_error(failed->why.to_string());
      } else if (auto* gone = std::get_if<cm::Disconnected>(&*event)) {
        gone->id.destroy();
      }
    }
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
  const SimPair& pair;
  const ConnectionWork work;
  std::deque<cm::Id> alive;
  std::uint32_t started = 0, done = 0;
};

}  // namespace

SimSample parley_sim_iwarp(const BulkWork& work, bool sends) {
  return in_child([&] { return bulk(work, sim::NicEngine::iwarp, sends); });
}
SimSample parley_sim_roce(const BulkWork& work, bool sends) {
  return in_child([&] { return bulk(work, sim::NicEngine::roce, sends); });
}

SimSample parley_sim_mpa(const ConnectionWork& work) {
  return in_child([&] {
    SimPair pair;
    ConnectApp client(pair, work);
    AcceptApp server;
    pair.client->set_app(&client);
    pair.server->set_app(&server);
    return measure_connections(pair, work, client.done);
  });
}

}  // namespace parley::bench
