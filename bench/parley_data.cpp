// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <future>
#include <thread>

#include "bench/parley_peer.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t depth = 256;        // work requests of each kind
constexpr std::uint64_t sends_ahead = 128;  // half of the posted receives, because iWARP has no flow control
constexpr std::uint64_t posts_ahead = 32;   // the default ORD
constexpr std::uint64_t done_id = ~0ULL;

/// One end: its device objects, and its connection when there is one. Both ends may share `host`.
struct End {
  TcpHost& host;
  Bytes memory;
  PdHandle pd = 0;
  MemoryRegion region{};
  std::unique_ptr<CompletionQueue> cq;
  cm::Id id{};
  QueuePair* qp = nullptr;
  std::array<WorkCompletion, 64> completions{};

  End(TcpHost& h, std::size_t size, std::uint8_t fill) : host(h), memory(size, fill) {
    Device& device = host.device();
    pd = must(device.alloc_pd(), "alloc_pd");
    region =
        must(device.reg_mr(pd, memory, Access::local_write | Access::remote_write | Access::remote_read), "reg_mr");
    cq = must(device.create_cq(2 * depth), "create_cq");
  }
  End(const End&) = delete;
  ~End() { id.destroy(); }

  QpInit qp_init() const {
    return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = depth, .max_recv_wr = depth};
  }
  void post_recv() {
    const Sge sge{.addr = region.addr, .length = static_cast<std::uint32_t>(region.length), .lkey = region.lkey};
    must(qp->post_recv({.sges = std::span(&sge, 1)}), "post_recv");
  }
  void post_send(std::uint32_t length, std::uint64_t wr_id = 0) {
    const Sge sge{.addr = region.addr, .length = length, .lkey = region.lkey};
    must(qp->post_send({.wr_id = wr_id, .sges = std::span(&sge, length > 0 ? 1 : 0)}), "post_send");
  }
  void post_tagged(SendWr::Opcode opcode, const MemoryRegion& remote) {
    const Sge sge{.addr = region.addr, .length = static_cast<std::uint32_t>(region.length), .lkey = region.lkey};
    must(qp->post_send({.opcode = opcode, .sges = std::span(&sge, 1), .remote_addr = remote.addr, .rkey = remote.rkey}),
         "post_send");
  }
  /// Calls `each` with every available completion.
  template <class F>
  std::size_t poll(F&& each) {
    const std::size_t n = cq->poll(completions);
    for (std::size_t i = 0; i < n; ++i) {
      if (completions[i].status != WcStatus::success) {
        // The connection's event says more than its last completions.
        while (auto event = host.cm().poll_event()) {
          if (const auto* gone = std::get_if<cm::Disconnected>(&*event))
            throw std::runtime_error(gone->why.to_string());
        }
        throw std::runtime_error(std::string("completion: ") + std::string(to_string(completions[i].status)));
      }
      each(completions[i]);
    }
    return n;
  }
};

mpa::Options options_with(bool crc) { return {.crc = crc}; }

/// Handles connection events of an end until it is established; false if the event belongs to another one.
class Setup {
 public:
  Setup(End& end, bool crc) : end_(end), crc_(crc) {}
  void listen(std::uint32_t receives) {
    listening_ = true;
    receives_ = receives;
    must(end_.host.cm().listen(Address::loopback(Address::Family::v4, 0), {.transport = options_with(crc_)}), "listen");
  }
  void connect(std::uint16_t port, std::uint32_t receives) {
    end_.id = must(end_.host.cm().connect(Address::loopback(Address::Family::v4, port),
                                          {.transport = options_with(crc_), .qp = end_.qp_init()}),
                   "connect");
    end_.qp = end_.id.qp();
    for (std::uint32_t i = 0; i < receives; ++i) end_.post_recv();
  }
  std::uint16_t port() const { return port_; }
  bool accepted() const { return accepted_; }
  bool established() const { return established_; }

  void on(const cm::Event& event) {
    if (const auto* listening = std::get_if<cm::Listening>(&event)) {
      port_ = listening->local.port;
    } else if (const auto* request = std::get_if<cm::ConnectRequest>(&event); request != nullptr && listening_) {
      end_.id = request->id;
      end_.qp = must(end_.id.create_qp(end_.qp_init()), "create_qp");
      for (std::uint32_t i = 0; i < receives_; ++i) end_.post_recv();
      must(end_.id.accept(), "accept");
      accepted_ = true;
    } else if (const auto* established = std::get_if<cm::Established>(&event)) {
      if (established->id == end_.id) established_ = true;
    } else if (const auto* failed = std::get_if<cm::ConnectFailed>(&event)) {
      throw std::runtime_error("connection failed: " + failed->why.to_string());
    } else if (const auto* gone = std::get_if<cm::Disconnected>(&event)) {
      if (gone->id == end_.id && gone->why.code) throw std::runtime_error("disconnected: " + gone->why.to_string());
    }
  }

 private:
  End& end_;
  bool crc_;
  std::uint32_t receives_ = 0;
  std::uint16_t port_ = 0;
  bool listening_ = false, accepted_ = false, established_ = false;
};

template <class F>
void drain(TcpHost& host, F&& on) {
  while (auto event = host.cm().poll_event()) on(*event);
}

/// The initiator's part of a bulk run: keeps work posted until all is done.
class BulkDriver {
 public:
  BulkDriver(End& end, const BulkOptions& options, Operation operation, const MemoryRegion& remote,
             const std::atomic<std::uint64_t>& received)
      : end_(end),
        operation_(operation),
        remote_(remote),
        received_(received),
        messages_((options.total + options.chunk - 1) / options.chunk) {}

  bool done() const { return completed_ == messages_ && (operation_ != Operation::write || said_done_); }
  /// Out of credits: the wait ends when the other thread's count changes, which does not wake this thread.
  bool starved() const { return starved_; }
  void step() {
    starved_ = false;
    end_.poll([this](const WorkCompletion& wc) { completed_ += wc.wr_id == done_id ? 0 : 1; });
    while (posted_ < messages_ && posted_ - completed_ < posts_ahead) {
      if (operation_ == Operation::send) {
        starved_ = posted_ - received_.load(std::memory_order_acquire) >= sends_ahead;
        if (starved_) return;
        end_.post_send(static_cast<std::uint32_t>(end_.region.length));
      } else {
        end_.post_tagged(operation_ == Operation::write ? SendWr::Opcode::rdma_write : SendWr::Opcode::rdma_read,
                         remote_);
      }
      ++posted_;
    }
    // A run of Writes ends with an empty Send, in order behind them (RFC 5040 §5.5).
    if (operation_ == Operation::write && posted_ == messages_ && !said_done_) end_.post_send(0, done_id);
    said_done_ = posted_ == messages_;
  }

 private:
  End& end_;
  Operation operation_;
  MemoryRegion remote_;
  const std::atomic<std::uint64_t>& received_;
  std::uint64_t messages_, posted_ = 0, completed_ = 0;
  bool said_done_ = false, starved_ = false;
};

void check_data(const End& target, std::uint8_t expected) {
  if (!std::all_of(target.memory.begin(), target.memory.end(), [=](std::uint8_t x) { return x == expected; })) {
    throw std::runtime_error("the octets that arrived are not those that were sent");
  }
}

/// Counts what arrives at the responder and posts each receive again.
std::uint64_t take_receives(End& end) {
  std::uint64_t n = 0;
  end.poll([&](const WorkCompletion& wc) {
    if (wc.opcode != WcOpcode::recv) return;
    ++n;
    end.post_recv();
  });
  return n;
}

/// The number of receive completions at the responder that end a run.
std::uint64_t receives_of(const BulkOptions& options, Operation operation) {
  if (operation == Operation::read) return 0;
  return operation == Operation::write ? 1 : (options.total + options.chunk - 1) / options.chunk;
}

constexpr std::uint8_t initiators_octet = 0x5A, responders_octet = 0xC3;

void check_bulk(const End& initiator, const End& responder, Operation operation) {
  if (operation == Operation::read) {
    check_data(initiator, responders_octet);
  } else {
    check_data(responder, initiators_octet);
  }
}

Sample bulk_on_one_thread(const BulkOptions& options, Operation operation, bool crc) {
  const auto host = must(TcpHost::open({.congestion = options.congestion}), "TcpHost::open");
  End responder(*host, options.chunk, responders_octet), initiator(*host, options.chunk, initiators_octet);
  Setup listening(responder, crc), connecting(initiator, crc);
  listening.listen(depth);
  const auto turn = [&](Duration wait) {
    host->run_once(wait);
    drain(*host, [&](const cm::Event& event) {
      listening.on(event);
      connecting.on(event);
    });
  };
  while (listening.port() == 0) turn(100ms);
  connecting.connect(listening.port(), 0);
  while (!connecting.established()) turn(100ms);

  std::atomic<std::uint64_t> received{0};
  BulkDriver driver(initiator, options, operation, responder.region, received);
  const Stopwatch watch;
  for (;;) {
    driver.step();
    received += take_receives(responder);
    if (driver.done() && received >= receives_of(options, operation)) break;
    turn(100ms);
  }
  const Sample sample = watch.stop(static_cast<double>(options.total));
  check_bulk(initiator, responder, operation);
  return sample;
}

/// Data that the two threads of a run share.
struct Shared {
  std::promise<std::uint16_t> port;
  std::promise<MemoryRegion> region;
  std::atomic<std::uint64_t> received{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> left{false};  // the responder's thread no longer uses its connection
};

void leave(std::atomic<bool>& left) {
  left.store(true, std::memory_order_release);
  left.notify_all();
}

/// The responder's thread: receives until it must stop, then calls `finish`. With a `wait` of zero it polls without
/// sleeping.
template <class OnReceive, class Finish>
void responder_thread(Shared& shared, const std::string& congestion, std::size_t size, bool crc, Duration wait,
                      OnReceive&& on_receive, Finish&& finish) {
  pin_to_cpu(1);
  const auto host = must(TcpHost::open({.congestion = congestion}), "TcpHost::open");
  End end(*host, size, responders_octet);
  Setup setup(end, crc);
  setup.listen(depth);
  bool told = false;
  while (!shared.stop.load(std::memory_order_acquire)) {
    host->run_once(setup.established() ? wait : Duration(1ms));
    drain(*host, [&](const cm::Event& event) { setup.on(event); });
    if (!told && setup.port() != 0) {
      shared.region.set_value(end.region);
      shared.port.set_value(setup.port());
      told = true;
    }
    if (setup.accepted()) on_receive(end);
  }
  finish(end);
  leave(shared.left);
}

/// Stops the responder before the initiator's connection ends, so that it does not regard the end as a failure.
void stop_and_wait(Shared& shared) {
  shared.stop.store(true, std::memory_order_release);
  shared.left.wait(false, std::memory_order_acquire);
}

/// Runs the responder on a second thread while `initiate` runs on this one. Throws the failure of either end.
template <class Responder, class Initiate>
Sample on_two_threads(Shared& shared, Responder&& respond, Initiate&& initiate) {
  std::exception_ptr failure;
  std::thread remote([&] {
    try {
      respond();
    } catch (...) {
      failure = std::current_exception();
      try {
        shared.port.set_exception(failure);
      } catch (const std::future_error&) {  // The promise was set before the failure.
      }
    }
    leave(shared.left);
  });
  Sample sample;
  std::exception_ptr mine;
  try {
    sample = initiate();
  } catch (...) {
    mine = std::current_exception();
  }
  shared.stop.store(true, std::memory_order_release);
  remote.join();
  if (failure) std::rethrow_exception(failure);
  if (mine) std::rethrow_exception(mine);
  return sample;
}

Sample bulk_on_two_threads(const BulkOptions& options, Operation operation, bool crc) {
  Shared shared;
  const auto respond = [&] {
    responder_thread(
        shared, options.congestion, options.chunk, crc, 1ms,
        [&](End& end) { shared.received.fetch_add(take_receives(end), std::memory_order_release); },
        [&](End& end) {
          if (operation != Operation::read) check_data(end, initiators_octet);
        });
  };
  return on_two_threads(shared, respond, [&] {
    const std::uint16_t port = shared.port.get_future().get();
    const auto host = must(TcpHost::open({.congestion = options.congestion}), "TcpHost::open");
    End end(*host, options.chunk, initiators_octet);
    Setup setup(end, crc);
    const auto turn = [&](Duration wait) {
      host->run_once(wait);
      drain(*host, [&](const cm::Event& event) { setup.on(event); });
    };
    setup.connect(port, 0);
    while (!setup.established()) turn(1ms);
    BulkDriver driver(end, options, operation, shared.region.get_future().get(), shared.received);
    const Stopwatch watch;
    for (;;) {
      driver.step();
      if (driver.done() && shared.received.load(std::memory_order_acquire) >= receives_of(options, operation)) break;
      turn(driver.starved() ? Duration(0) : Duration(1ms));
    }
    const Sample sample = watch.stop(static_cast<double>(options.total));
    stop_and_wait(shared);
    if (operation == Operation::read) check_data(end, responders_octet);
    return sample;
  });
}

/// Sends and waits for the answer; `others` lets the other end work if it is on the same thread.
template <class F>
Sample ping_pong(End& end, const PingPongOptions& options, F&& others) {
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(options.round_trips));
  const Stopwatch watch;
  for (long i = 0; i < options.round_trips; ++i) {
    const double begin = wall_now();
    end.post_send(static_cast<std::uint32_t>(options.size));
    for (bool back = false; !back;) {
      end.host.run_once(0ms);
      others();
      end.poll([&](const WorkCompletion& wc) { back = back || wc.opcode == WcOpcode::recv; });
    }
    end.post_recv();
    times.push_back((wall_now() - begin) * 1e6);
  }
  Sample sample = watch.stop(static_cast<double>(options.round_trips));
  sample.median_us = median(std::move(times));
  return sample;
}

/// The echoing end: answers every message with one of the same length.
void answer(End& end) {
  end.poll([&](const WorkCompletion& wc) {
    if (wc.opcode != WcOpcode::recv) return;
    end.post_recv();
    end.post_send(wc.byte_len);
  });
}

Sample ping_pong_on_one_thread(const PingPongOptions& options, bool crc) {
  const auto host = must(TcpHost::open({.congestion = options.congestion}), "TcpHost::open");
  End responder(*host, options.size, responders_octet), initiator(*host, options.size, initiators_octet);
  Setup listening(responder, crc), connecting(initiator, crc);
  listening.listen(4);
  const auto turn = [&] {
    host->run_once(100ms);
    drain(*host, [&](const cm::Event& event) {
      listening.on(event);
      connecting.on(event);
    });
  };
  while (listening.port() == 0) turn();
  connecting.connect(listening.port(), 4);
  while (!connecting.established()) turn();
  return ping_pong(initiator, options, [&] { answer(responder); });
}

Sample ping_pong_on_two_threads(const PingPongOptions& options, bool crc) {
  Shared shared;
  const auto respond = [&] {
    responder_thread(shared, options.congestion, options.size, crc, 0ms, answer, [](End&) {});
  };
  return on_two_threads(shared, respond, [&] {
    const std::uint16_t port = shared.port.get_future().get();
    const auto host = must(TcpHost::open({.congestion = options.congestion}), "TcpHost::open");
    End end(*host, options.size, initiators_octet);
    Setup setup(end, crc);
    setup.connect(port, 4);
    while (!setup.established()) {
      host->run_once(1ms);
      drain(*host, [&](const cm::Event& event) { setup.on(event); });
    }
    const Sample sample = ping_pong(end, options, [] {});
    stop_and_wait(shared);
    return sample;
  });
}

}  // namespace

Sample parley_bulk(const BulkOptions& options, Operation operation, bool crc) {
  return options.threads == Threads::one ? bulk_on_one_thread(options, operation, crc)
                                         : bulk_on_two_threads(options, operation, crc);
}

Sample parley_ping_pong(const PingPongOptions& options, bool crc) {
  return options.threads == Threads::one ? ping_pong_on_one_thread(options, crc)
                                         : ping_pong_on_two_threads(options, crc);
}

}  // namespace parley::bench
