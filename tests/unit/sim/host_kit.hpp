// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts on one cable, with nothing of links, switches or worlds: every frame that one sends reaches all the others a
// little later, unless the test holds it back. The test sees each frame.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cm/providers/iwarp/iwarp.hpp"
#include "sim/host/host.hpp"
#include "sim/host/host_frames.hpp"
#include "tests/unit/verbs_kit.hpp"
#include "wire/packet.hpp"

namespace parley::sim::testing_hosts {

using namespace std::chrono_literals;

/// An App that keeps what happened and does what the test says.
struct TestApp : App {
  void on_start(Host& host) override {
    ++starts;
    if (start) start(host);
  }
  void on_crash(Host& host) override {
    ++crashes;
    if (crash) crash(host);
  }
  void on_turn(Host& host) override {
    ++turns;
    while (auto event = host.cm().poll_event()) {
      if (auto* asked = std::get_if<cm::ConnectRequest>(&*event); asked != nullptr && request) request(*asked);
      events.push_back(std::move(*event));
    }
    if (turn) turn(host);
  }
  void on_timer(Host& host, std::uint64_t cookie) override {
    timers.emplace_back(host.now(), cookie);
    if (timer) timer(host, cookie);
  }
  template <class E>
  E* last() {
    for (auto at = events.rbegin(); at != events.rend(); ++at)
      if (E* found = std::get_if<E>(&*at)) return found;
    return nullptr;
  }
  int starts = 0, crashes = 0, turns = 0;
  std::vector<cm::Event> events;
  std::vector<std::pair<Instant, std::uint64_t>> timers;
  std::function<void(Host&)> start, crash, turn;
  std::function<void(Host&, std::uint64_t)> timer;
  std::function<void(cm::ConnectRequest&)> request;
};

/// The cable.
class Cable final : public EventTarget {
 public:
  struct Seen {
    Instant at{};
    std::size_t from = 0;
    Bytes octets;
    std::uint16_t type() const { return static_cast<std::uint16_t>(octets[12] << 8 | octets[13]); }
    wire::PacketView packet() const { return wire::parse_packet(1, octets, static_cast<std::uint32_t>(octets.size())); }
  };

  explicit Cable(std::uint64_t seed_value = 1) : seed(seed_value) {}
  ~Cable() override { pending_.clear(); }

  Host& add(const HostOptions& options = {}) {
    const auto number = static_cast<std::uint32_t>(hosts.size());
    // Two statements: each host has a generator of its own.
    Rng rng(seed * 1000 + number);
    hosts.push_back(make_host(engine, number, number, std::string(1, static_cast<char>('a' + number)), options, rng));
    apps.push_back(std::make_unique<TestApp>());
    hosts.back()->set_app(apps.back().get());
    ends_.push_back(std::make_unique<End>(*this, number));
    hosts.back()->attach(0, *ends_.back());
    return *hosts.back();
  }
  void start() {
    for (const auto& host : hosts) host->start();
  }
  template <class Condition>
  bool run_until(Condition condition, Duration limit = 300s) {
    const Instant end = engine.now() + limit;
    while (!condition())
      if (!engine.step(end)) return condition();
    return true;
  }
  void run_for(Duration time) {
    const Instant end = engine.now() + time;
    while (engine.step(end)) {
    }
    engine.advance_to(end);
  }
  /// Puts a frame on the cable as if `from` had sent it.
  void inject(std::size_t from, Bytes octets) {
    FramePtr frame = engine.frames.take(octets.size());
    std::copy(octets.begin(), octets.end(), frame->data());
    carry(from, std::move(frame));
  }
  std::size_t count(const std::function<bool(const Seen&)>& what) const {
    return static_cast<std::size_t>(std::count_if(seen.begin(), seen.end(), what));
  }

  void on_event(std::uint32_t, std::uint64_t which) override {
    Arrival arrival = std::move(pending_[which]);
    free_.push_back(which);
    DropReason reason{};
    const std::string_view why = hosts[arrival.to]->would_discard(0, *arrival.frame, reason);
    if (!why.empty()) discards.emplace_back(why);
    hosts[arrival.to]->receive(0, std::move(arrival.frame));
  }

  std::uint64_t seed;
  Engine engine;
  std::vector<std::unique_ptr<TestApp>> apps;
  std::vector<std::unique_ptr<HostNode>> hosts;
  std::vector<Seen> seen;
  std::vector<std::string> discards;
  Duration delay = 5us;
  std::uint16_t mtu = 1500;
  bool keep = true;  // what is seen
  /// False: the frame is lost.
  std::function<bool(const Seen&)> passes;
  /// May change a frame on its way.
  std::function<void(Frame&)> spoil;

 private:
  struct End final : LinkPort {
    End(Cable& its_cable, std::size_t its_number) : cable(its_cable), number(its_number) {}
    void transmit(FramePtr frame) override { cable.carry(number, std::move(frame)); }
    std::uint16_t mtu() const override { return cable.mtu; }
    Cable& cable;
    std::size_t number;
  };
  struct Arrival {
    std::size_t to = 0;
    FramePtr frame;
  };

  void carry(std::size_t from, FramePtr frame) {
    if (keep || passes) {
      Seen it{engine.now(), from, Bytes(frame->octets().begin(), frame->octets().end())};
      const bool lost = passes && !passes(it);
      if (keep) seen.push_back(std::move(it));
      if (lost) return;
    }
    if (spoil) spoil(*frame);
    for (std::size_t to = 0; to < hosts.size(); ++to) {
      if (to == from) continue;
      std::size_t which = pending_.size();
      if (free_.empty()) {
        pending_.emplace_back();
      } else {
        which = free_.back();
        free_.pop_back();
      }
      pending_[which] = {to, engine.frames.copy(*frame)};
      engine.at(engine.now() + delay, *this, 0, which);
    }
  }

  std::vector<std::unique_ptr<End>> ends_;
  std::vector<Arrival> pending_;
  std::vector<std::size_t> free_;
};

/// A plain TCP program in place of the RNIC: what it hears it keeps, what it has to say it says.
struct PlainTcp : StreamMachine {
  struct Stream {
    StreamId id = 0;
    StreamInfo info;
    Bytes in, out;
    std::size_t sent = 0;
    bool fin = false, rst = false, timeout = false, delivered = false;
  };
  StreamId open(const Address& to, const Address& from) {
    StreamCommand command;
    command.kind = StreamCommand::Kind::open;
    command.id = next_id += 2;
    command.address = to;
    command.local = from;
    commands.push_back(command);
    return command.id;
  }
  StreamId open(const Address& to) { return open(to, Address::any(to.family, 0)); }
  StreamId listen(const Address& at, int backlog = 16) {
    StreamCommand command;
    command.kind = StreamCommand::Kind::listen;
    command.id = next_id += 2;
    command.address = at;
    command.backlog = backlog;
    commands.push_back(command);
    return command.id;
  }
  void tell(StreamCommand::Kind kind, StreamId id) {
    StreamCommand command;
    command.kind = kind;
    command.id = id;
    commands.push_back(command);
  }
  Stream* find(StreamId id) {
    for (Stream& s : streams)
      if (s.id == id) return &s;
    return nullptr;
  }
  void say(StreamId id, ConstBytes octets) {
    Stream& s = *find(id);
    s.out.insert(s.out.end(), octets.begin(), octets.end());
    ready.push_back(id);
  }

  void handle_listening(Instant, StreamId, const Address& local) override { listening.push_back(local); }
  void handle_listen_failed(Instant, StreamId, std::error_code why) override { failures.push_back(why); }
  void handle_connected(Instant, StreamId id, const StreamInfo& info) override {
    streams.push_back({.id = id, .info = info});
    ++connected;
  }
  void handle_connect_failed(Instant now, StreamId, std::error_code why) override {
    failures.push_back(why);
    failed_at = now;
  }
  bool handle_accepted(Instant, StreamId, StreamId id, const StreamInfo& info) override {
    if (refuse) return false;
    streams.push_back({.id = id, .info = info});
    ++accepted;
    return true;
  }
  void handle_bytes(Instant, StreamId id, ConstBytes in) override {
    Stream& s = *find(id);
    s.in.insert(s.in.end(), in.begin(), in.end());
    if (on_bytes) on_bytes(id);
  }
  void handle_end(Instant, StreamId id, StreamEnd end) override {
    Stream& s = *find(id);
    switch (end) {
      case StreamEnd::fin: s.fin = true; break;
      case StreamEnd::rst: s.rst = true; break;
      case StreamEnd::timeout: s.timeout = true; break;
      case StreamEnd::delivered: s.delivered = true; break;
    }
  }
  void handle_deadline(Instant) override { deadline = never; }
  bool poll_command(StreamCommand& out) override {
    if (commands.empty()) return false;
    out = commands.front();
    commands.erase(commands.begin());
    return true;
  }
  StreamId poll_ready() override {
    if (ready.empty()) return 0;
    const StreamId id = ready.back();
    ready.pop_back();
    return id;
  }
  std::size_t gather(StreamId id, std::span<ConstBytes> out) override {
    ++gathers;
    Stream& s = *find(id);
    if (s.sent == s.out.size()) return 0;
    out[0] = ConstBytes(s.out).subspan(s.sent);
    return 1;
  }
  void sent(Instant, StreamId id, std::size_t n) override { find(id)->sent += n; }
  Instant next_deadline() const override { return deadline; }

  StreamId next_id = 1;
  std::vector<Stream> streams;
  std::vector<StreamCommand> commands;
  std::vector<StreamId> ready;
  std::vector<Address> listening;
  std::vector<std::error_code> failures;
  Instant failed_at{};
  Instant deadline = never;
  int connected = 0, accepted = 0, gathers = 0;
  bool refuse = false;
  std::function<void(StreamId)> on_bytes;
};

inline Address with_port(Address address, std::uint16_t port) {
  address.port = port;
  return address;
}
inline Bytes pattern(std::size_t size, std::uint32_t factor = 7) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(i * factor + i / 251);
  return out;
}

}  // namespace parley::sim::testing_hosts
