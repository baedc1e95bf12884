// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One host listens; two threads, with a host each, get its requests in turn and own the connections from there on: detach() here,
// adopt() there. Each connection brings one message. worker_threads [PROVIDER [ADDRESS]]: "iwarp" (by default) or "rdmacm", with
// an address of this machine.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include <parley/cm.hpp>
#include <parley/host.hpp>

namespace {

using namespace std::chrono_literals;
namespace cm = parley::cm;

constexpr int connections = 6;

template <class T>
T need(parley::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "worker_threads: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

[[noreturn]] void fail(const cm::Failure& why) {
  std::fprintf(stderr, "worker_threads: %s\n", why.to_string().c_str());
  std::exit(1);
}

/// A host, and what its queue pairs need on its device.
struct Party {
  explicit Party(const char* provider) : host(need(parley::open_host(provider))) {
    parley::Device& device = host->device();
    pd = need(device.alloc_pd());
    queue = need(device.create_cq(64));
    region = need(device.reg_mr(pd, memory, parley::Access::local_write));
  }
  ~Party() {
    for (cm::Id id : ids) id.destroy();
    queue.reset();
    (void)host->device().dereg_mr(region.lkey);
  }
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;
  parley::QpInit qp() const { return {.pd = pd, .send_cq = queue.get(), .recv_cq = queue.get()}; }
  parley::Sge octets() const { return {.addr = region.addr, .length = 8, .lkey = region.lkey}; }
  int completed() {
    std::array<parley::WorkCompletion, 16> done;
    return static_cast<int>(queue->poll(done));
  }

  std::unique_ptr<parley::Host> host;
  parley::Bytes memory = parley::Bytes(64);
  parley::PdHandle pd = 0;
  std::unique_ptr<parley::CompletionQueue> queue;
  parley::MemoryRegion region;
  std::vector<cm::Id> ids;
};

class Worker {
 public:
  explicit Worker(const char* provider) : party_(provider), thread_([this] { run(); }) {}
  ~Worker() { thread_.join(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Called by the thread that listens: the queue, and its lock, are the program's own.
  void give(cm::DetachedRequest migrant) {
    const std::lock_guard lock(mutex_);
    given_.push_back(std::move(migrant));
    party_.host->wake();
  }
  void stop() {
    stop_ = true;
    party_.host->wake();
  }
  std::atomic<int> received{0}, ended{0};

 private:
  void take() {
    const std::lock_guard lock(mutex_);
    for (cm::DetachedRequest& migrant : std::exchange(given_, {})) {
      cm::Id id = need(party_.host->cm().adopt(std::move(migrant)));
      const parley::Sge octets = party_.octets();
      need(need(id.create_qp(party_.qp()))->post_recv({.sges = {&octets, 1}}));
      need(id.accept());
      party_.ids.push_back(id);
    }
  }
  void run() {
    while (!stop_) {
      party_.host->run_once(100ms);
      take();
      received += party_.completed();
      while (auto event = party_.host->cm().poll_event()) {
        if (std::holds_alternative<cm::Disconnected>(*event)) ++ended;
        if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) fail(failed->why);
      }
    }
  }

  Party party_;
  std::mutex mutex_;
  std::vector<cm::DetachedRequest> given_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* provider = argc > 1 ? argv[1] : "iwarp";
  Party front(provider), client(provider);
  Worker first(provider), second(provider);
  std::array<Worker*, 2> workers{&first, &second};
  int requests = 0, sent = 0, ended = 0;
  cm::Id listener = need(front.host->cm().listen(need(parley::Address::parse(argc > 2 ? argv[2] : "127.0.0.1"))));
  const parley::Instant end = front.host->now() + 30s;
  while (ended < connections || first.ended + second.ended < connections) {
    if (front.host->now() > end) {
      std::fprintf(stderr, "worker_threads: %d requests, %d messages, %d ends after 30 s\n", requests, sent, ended);
      std::exit(1);
    }
    front.host->run_once(1ms);
    client.host->run_once(1ms);
    while (auto event = front.host->cm().poll_event()) {
      if (auto* listening = std::get_if<cm::Listening>(&*event))
        for (int i = 0; i < connections; ++i)
          client.ids.push_back(need(client.host->cm().connect(listening->local, {.qp = client.qp()})));
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event))
        workers[static_cast<std::size_t>(requests++) % 2]->give(need(front.host->cm().detach(std::move(*request))));
    }
    while (auto event = client.host->cm().poll_event()) {
      if (auto* up = std::get_if<cm::Established>(&*event)) {
        const parley::Sge octets = client.octets();
        need(up->id.qp()->post_send({.sges = {&octets, 1}}));
        need(up->id.disconnect());  // behind the message
        ++sent;
      }
      if (std::holds_alternative<cm::Disconnected>(*event)) ++ended;
      if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) fail(failed->why);
    }
    (void)client.completed();
  }
  for (Worker* worker : workers) worker->stop();
  std::printf("%d requests went to two threads, which got %d and %d messages\n", requests, first.received.load(),
              second.received.load());
  listener.destroy();
  return 0;
}
