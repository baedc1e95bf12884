// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <array>
#include <memory>
#include <stdexcept>

#include "bench/counts/paths.hpp"
#include "bench/sim_pair.hpp"

namespace parley::bench {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

constexpr std::size_t memory_size = 64 << 10;

/// A program that sets up one connection at a time, or posts one request at a time on the last one.
struct End : sim::App {
  void on_start(sim::Host& its_host) override {
    host = &its_host;
    pd = must(host->device().alloc_pd());
    region = must(host->device().reg_mr(pd, memory, Access::local_write | Access::remote_write));
    cq = must(host->device().create_cq(64));
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
  void on_turn(sim::Host&) override {
    while (auto event = host->cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        id = request->id;
        must(id.create_qp(qp()));
        receive();
        must(id.accept());
      } else if (std::holds_alternative<cm::Established>(*event)) {
        up = true;
      } else if (auto* gone = std::get_if<cm::Disconnected>(&*event)) {
        gone->id.destroy();
        up = false;
        ++ended;
      } else if (std::holds_alternative<cm::ConnectFailed>(*event)) {
        throw std::runtime_error("a set-up failed");
      }
    }
    std::array<WorkCompletion, 8> done;
    for (std::size_t n = cq->poll(done); n != 0; n = cq->poll(done))
      for (std::size_t i = 0; i < n; ++i) {
        if (done[i].status == WcStatus::wr_flush_err) continue;  // the receive that is left at a connection's end
        if (done[i].status != WcStatus::success) throw std::runtime_error("a request failed");
        if (done[i].opcode == WcOpcode::recv) receive();
        ++(done[i].opcode == WcOpcode::recv ? received : sent);
      }
  }
  QpInit qp() const { return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 8, .max_recv_wr = 8}; }
  Sge piece(std::size_t length) const { return {region.addr, static_cast<std::uint32_t>(length), region.lkey}; }
  void receive() {
    const Sge sge = piece(64);
    must(id.qp()->post_recv({.sges = {&sge, 1}}));
  }

  sim::Host* host = nullptr;
  Bytes memory = Bytes(memory_size);
  PdHandle pd = 0;
  MemoryRegion region{};
  std::unique_ptr<CompletionQueue> cq;
  cm::Id id{};
  bool up = false;
  std::uint64_t ended = 0, sent = 0, received = 0;
};

/// Two hosts on a link, with a program on each.
struct Pair {
  explicit Pair(sim::NicEngine its_engine) : engine(its_engine), net(its_engine) {
    net.client->set_app(&client);
    net.server->set_app(&server);
    until([this] { return client.host != nullptr && server.host != nullptr; });
    must(server.host->cm().listen(Address::any(Address::Family::v4, first_port), {}));
    turn(server);
  }
  ~Pair() {
    for (End* end : {&client, &server}) {
      end->id.destroy();
      end->cq.reset();
      end->host->set_app(nullptr);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  /// After calls from outside the simulated programs: the host does the work of a call in its next turn.
  void turn(const End& end) const { end.host->set_timer(net.world.now() + Duration(1), 0); }
  template <class Condition>
  void until(Condition condition) {
    if (!net.world.run_until(condition, std::chrono::hours(1))) throw std::runtime_error("a simulated run hangs");
  }
  void connect() {
    cm::ConnectOptions options{.qp = client.qp()};
    if (engine == sim::NicEngine::iwarp) options.transport = mpa::Options{.rtr = mpa::Rtr::read};
    client.id = must(client.host->cm().connect(net.server_at(0), options));
    turn(client);
    until([this] { return client.up && server.up; });
  }
  void disconnect() {
    const std::uint64_t before = client.ended + server.ended;
    must(client.id.disconnect());
    turn(client);
    until([&] { return client.ended + server.ended == before + 2; });
  }
  void post(SendWr::Opcode opcode, std::size_t length) {
    const Sge sge = client.piece(length);
    must(client.id.qp()->post_send(
        {.opcode = opcode, .sges = {&sge, 1}, .remote_addr = server.region.addr, .rkey = server.region.rkey}));
    turn(client);
  }

  const sim::NicEngine engine;
  End client, server;
  SimPair net;
};

PathRun set_up_roce() {
  auto pair = std::make_shared<Pair>(sim::NicEngine::roce);
  return [pair](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      pair->connect();
      pair->disconnect();
    }
    return times;
  };
}

/// A Send of 64 octets, from one end's post to both ends' completions.
PathRun small_send(sim::NicEngine engine) {
  auto pair = std::make_shared<Pair>(engine);
  pair->connect();
  return [pair](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      const std::uint64_t sent = pair->client.sent, received = pair->server.received;
      pair->post(SendWr::Opcode::send, 64);
      pair->until([&] { return pair->client.sent > sent && pair->server.received > received; });
    }
    return times;
  };
}

/// A packet of RDMA Writes of 64 KiB that crosses the link.
PathRun simulated_packet() {
  auto pair = std::make_shared<Pair>(sim::NicEngine::roce);
  pair->connect();
  return [pair](std::uint64_t times) {
    const std::uint64_t before = pair->net.world.counters().packet_hops;
    while (pair->net.world.counters().packet_hops - before < times) {
      const std::uint64_t sent = pair->client.sent;
      pair->post(SendWr::Opcode::rdma_write, memory_size);
      pair->until([&] { return pair->client.sent > sent; });
    }
    return pair->net.world.counters().packet_hops - before;
  };
}

}  // namespace

std::vector<Path> simulated_paths() {
  return {{"set_up_roce", 100, set_up_roce},
          {"small_send_iwarp", 500, [] { return small_send(sim::NicEngine::iwarp); }},
          {"small_send_roce", 500, [] { return small_send(sim::NicEngine::roce); }},
          {"simulated_packet", 3000, simulated_packet}};
}

}  // namespace parley::bench
