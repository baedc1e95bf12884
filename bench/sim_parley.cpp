// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's side of sim_bench: plain TCP programs on simulated hosts, and the child process of each run.
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <deque>

#include "base/stream_port.hpp"
#include "bench/sim_pair.hpp"

namespace parley::bench {
namespace {

// ---- plain TCP programs ------------------------------------------------------------------------------------------

/// Base of all plain programs here: commands, and streams with something to send.
struct Program : StreamMachine {
  void handle_listening(Instant, StreamId, const Address&) override {}
  void handle_listen_failed(Instant, StreamId, std::error_code why) override { throw std::system_error(why); }
  void handle_connected(Instant, StreamId, const StreamInfo&) override {}
  void handle_connect_failed(Instant, StreamId, std::error_code why) override { throw std::system_error(why); }
  bool handle_accepted(Instant, StreamId, StreamId, const StreamInfo&) override { return true; }
  void handle_end(Instant, StreamId, StreamEnd) override {}
  void handle_deadline(Instant) override {}
  bool poll_command(StreamCommand& out) override {
    if (commands_.empty()) return false;
    out = commands_.front();
    commands_.pop_front();
    return true;
  }
  StreamId poll_ready() override {
    if (ready_.empty()) return 0;
    const StreamId id = ready_.front();
    ready_.pop_front();
    return id;
  }
  Instant next_deadline() const override { return never; }

  void listen(std::uint16_t port) {
    command(StreamCommand::Kind::listen, next_id_ += 2, Address::any(Address::Family::v4, port));
  }
  StreamId open(const Address& to) {
    command(StreamCommand::Kind::open, next_id_ += 2, to);
    return next_id_;
  }
  void command(StreamCommand::Kind kind, StreamId id, const Address& address = {}) {
    StreamCommand c;
    c.kind = kind;
    c.id = id;
    c.address = address;
    c.backlog = 1 << 20;
    commands_.push_back(c);
  }
  void say(StreamId id) { ready_.push_back(id); }

 private:
  std::deque<StreamCommand> commands_;
  std::deque<StreamId> ready_;
  StreamId next_id_ = 1;
};

/// Sends without end, or receives.
struct BulkProgram final : Program {
  BulkProgram() : octets(64 << 10) {
    for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  }
  void handle_connected(Instant, StreamId id, const StreamInfo&) override { say(id); }
  void handle_bytes(Instant, StreamId, ConstBytes in) override { received += in.size(); }
  std::size_t gather(StreamId, std::span<ConstBytes> out) override {
    out[0] = ConstBytes(octets).subspan(at);
    return 1;
  }
  void sent(Instant, StreamId id, std::size_t n) override {
    at += n;
    if (at != octets.size()) return;
    at = 0;
    say(id);
  }
  Bytes octets;
  std::size_t at = 0;
  std::uint64_t received = 0;
};

/// Answers each request, and closes when the client does.
struct ReplyProgram final : Program {
  void handle_bytes(Instant, StreamId id, ConstBytes) override { say(id); }
  void handle_end(Instant, StreamId id, StreamEnd) override { command(StreamCommand::Kind::close, id); }
  std::size_t gather(StreamId, std::span<ConstBytes> out) override {
    out[0] = message;
    return answered ? 0 : 1;
  }
  StreamId poll_ready() override {
    answered = false;
    return Program::poll_ready();
  }
  void sent(Instant, StreamId, std::size_t) override { answered = true; }
  std::array<std::uint8_t, sim_message> message{};
  bool answered = false;  // the reply on the present stream was sent
};

/// Opens connections, some at once, and closes each after its reply, or when enough are open.
struct RequestProgram final : Program {
  RequestProgram(const SimPair& its_pair, const ConnectionWork& its_work) : pair(its_pair), work(its_work) {
    for (std::uint32_t i = 0; i < work.at_once; ++i) start();
  }
  void start() {
    if (started == work.count) return;
    (void)open(pair.server_at(started++));
  }
  void handle_connected(Instant, StreamId id, const StreamInfo&) override { say(id); }
  void handle_bytes(Instant, StreamId id, ConstBytes in) override {
    if (in.size() != sim_message) throw std::runtime_error("a reply came in pieces");
    ++done;
    alive.push_back(id);
    if (alive.size() > work.alive) {
      command(StreamCommand::Kind::close, alive.front());
      alive.pop_front();
    }
    start();
  }
  std::size_t gather(StreamId, std::span<ConstBytes> out) override {
    out[0] = message;
    return asked ? 0 : 1;
  }
  StreamId poll_ready() override {
    asked = false;
    return Program::poll_ready();
  }
  void sent(Instant, StreamId, std::size_t) override { asked = true; }
  const SimPair& pair;
  const ConnectionWork work;
  std::array<std::uint8_t, sim_message> message{};
  std::deque<StreamId> alive;
  std::uint32_t started = 0, done = 0;
  bool asked = false;
};

SimSample bulk_tcp(const BulkWork& work) {
  BulkProgram sender, receiver;
  SimPair pair;
  pair.client->set_machine(&sender);
  pair.server->set_machine(&receiver);
  receiver.listen(first_port);
  sender.open(pair.server_at(0));
  const double before = cpu_now();
  pair.world.run_for(std::chrono::microseconds(work.virtual_us));
  SimSample sample = pair.sample(before, {}, Instant{});
  sample.octets = static_cast<double>(receiver.received);
  return sample;
}

SimSample connections(const ConnectionWork& work) {
  SimPair pair;
  RequestProgram client(pair, work);
  ReplyProgram server;
  pair.client->set_machine(&client);
  pair.server->set_machine(&server);
  for (std::uint16_t i = 0; i < ports; ++i) server.listen(static_cast<std::uint16_t>(first_port + i));
  return measure_connections(pair, work, client.done);
}

}  // namespace

SimSample parley_sim_tcp(const BulkWork& work) {
  return in_child([&] { return bulk_tcp(work); });
}
SimSample parley_sim_connections(const ConnectionWork& work) {
  return in_child([&] { return connections(work); });
}

// ---- children ----------------------------------------------------------------------------------------------------

double cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

SimSample in_child(const std::function<SimSample()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    SimSample sample;
    try {
      sample = work();
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      sample.memory_mb = static_cast<double>(usage.ru_maxrss) / 1024;
    } catch (const std::exception& error) {
      const std::string line = std::string(error.what()) + "\n";
      (void)!::write(2, line.data(), line.size());
    }
    (void)!::write(ends[1], &sample, sizeof sample);
    ::_exit(0);
  }
  ::close(ends[1]);
  SimSample sample;
  if (::read(ends[0], &sample, sizeof sample) != static_cast<ssize_t>(sizeof sample)) sample = {};
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) throw std::runtime_error("a run ended by signal " + std::to_string(WTERMSIG(status)));
  return sample;
}

}  // namespace parley::bench
