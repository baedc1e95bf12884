// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC's broker with any octets from any of four connections: it answers each at most once, keeps no TGT queue pair without a
// registrant, and has nothing left when all are gone. And a member with any octets from its broker.
#include "base/assert.hpp"
#include "tests/fuzz/draw.hpp"
#include "xrc/client.hpp"
#include "xrc/server.hpp"

namespace parley::fuzz {
namespace {

using namespace xrc;

RegistryOptions options(Draw& draw) {
  RegistryOptions o{.epoch = 2, .qpn_first = 2, .qpn_last = 12};
  const std::uint8_t flags = draw.u8();
  if ((flags & 1) != 0) o.linger = std::chrono::seconds(1);
  if ((flags & 2) != 0) o.recovery = std::chrono::seconds(1);
  o.join_failed = (flags & 4) != 0;
  o.assigns_numbers = (flags & 8) == 0;
  o.domains_max = 3;
  o.members_per_domain = 3;
  o.tgts_max = 6;
  o.registrations_max = 10;
  o.srqs_max = 4;
  o.resting_max = 5;
  o.events_max = 3;
  return o;
}

class Brokerage {
 public:
  Brokerage(const RegistryOptions& o) : server_(*Registry::create(now_, o), {.connections_max = 4, .answers_max = 4}) {}

  void step(Draw& draw) {
    const ConnectionNumber c = 1 + draw.below(4);
    switch (draw.below(8)) {
      case 0: (void)server_.connected(c + 4 * (draw.u8() % 2), {.pid = 1, .uid = draw.bit() ? 1000U : 0U}); break;
      case 1: server_.disconnected(now_, c); break;
      case 2:
        now_ += std::chrono::milliseconds(draw.u16());
        server_.handle_deadline(now_);
        break;
      case 3: server_.handle_message(now_, c, draw.bytes(draw.u8() % 130), {}); break;
      default: say(c, draw);
    }
    settle();
  }
  void finish() {
    for (ConnectionNumber c = 1; c <= 8; ++c) server_.disconnected(now_, c);
    settle();
    PARLEY_ASSERT(server_.registry().tgt_count() == 0 && server_.registry().domains(now_).empty());
    PARLEY_ASSERT(server_.registry().srq_count() == 0);
  }

 private:
  /// A request that is one, about things that may be there.
  void say(ConnectionNumber c, Draw& draw) {
    if (!server_.accepts_input(c)) return;
    Request r{.ask = static_cast<RequestType>(1 + draw.below(19)), .number = ++number_};
    r.flags = draw.u8() & 63;
    r.state = static_cast<State>(draw.below(9));
    r.kind = static_cast<EventKind>(draw.below(13));
    r.reason = 1;
    r.tgt = {static_cast<std::uint32_t>(2 + draw.below(12)), (draw.bit() ? 2ULL << 32 : 1ULL << 32) + draw.below(16)};
    r.other = r.ask == RequestType::hello ? 1U : static_cast<std::uint32_t>(draw.below(14));
    r.value = r.ask == RequestType::hello ? 0U : draw.below(3);
    r.peer = {1, static_cast<std::uint32_t>(draw.below(3))};
    // Proofs that may be good: of the file below, or of a private domain.
    if (r.ask == RequestType::restore) {
      const std::uint64_t device = draw.below(3), inode = draw.below(3);
      const auto domain = draw.bit() ? std::optional(DomainKey{device, 1, inode}) : std::nullopt;
      r.value = proof_of({}, domain, draw.bit() ? 1000U : 0U, r.tgt);
    }
    const FileFacts file{.st_dev = 1, .st_ino = draw.below(3), .uid = draw.bit() ? 1000U : 0U};
    server_.handle_message(now_, c, emit(r), file);
  }
  void settle() {
    while (server_.poll_waiting()) {
    }
    for (ConnectionNumber c = 1; c <= 8; ++c)
      while (const auto out = server_.poll_transmit(now_, c)) PARLEY_ASSERT(parse(*out).has_value());
    while (server_.poll_ended()) {
    }
    const RegistryOptions& o = server_.registry().options();
    for (const DomainView& d : server_.registry().domains(now_)) {
      PARLEY_ASSERT(!d.members.empty());
      for (const TgtView& t : d.tgts) {
        // One of an earlier broker's may yet be declared by those who have not come back.
        const bool awaited = t.id.generation >> 32 < o.epoch && now_ < Instant{} + o.recovery;
        PARLEY_ASSERT(t.registrants.empty() ? t.state == State::linger || awaited : t.state != State::linger);
      }
    }
  }

  Instant now_{};
  Server server_;
  std::uint64_t number_ = 0;
};

void listen_to_anything(Draw& draw) {
  Client client({.shared = true, .requests_max = 8, .events_max = 4});
  Instant now{};
  std::uint64_t asked = 0;
  std::size_t answered = 0;
  for (int step = 0; step < 64 && !draw.empty(); ++step) {
    switch (draw.below(5)) {
      case 0: client.connected(now); break;
      case 1: client.disconnected(); break;
      case 2:
        if (client.ask(now, {.ask = static_cast<RequestType>(2 + draw.below(18)), .tgt = {5, draw.below(4)}})) ++asked;
        break;
      case 3:
        now += std::chrono::milliseconds(draw.u16());
        client.handle_deadline(now);
        break;
      default: {
        Bytes octets = emit(Answer{.number = draw.below(12),
                                   .about = static_cast<RequestType>(1 + draw.below(19)),
                                   .state = static_cast<State>(draw.below(9)),
                                   .tgt = {5, draw.below(4)}});
        if (draw.bit()) octets[16 + draw.below(80)] ^= draw.u8();
        client.handle_message(now, octets);
      }
    }
    while (client.poll_transmit()) {
    }
    while (client.poll_answer()) ++answered;
    while (client.poll_event()) {
    }
  }
  now += std::chrono::hours(1);
  client.handle_deadline(now);
  while (client.poll_answer()) ++answered;
  PARLEY_ASSERT(asked == answered);
}

void run(ConstBytes in) {
  Draw draw(in);
  if (draw.bit()) return listen_to_anything(draw);
  Brokerage brokerage(options(draw));
  for (int step = 0; step < 128 && !draw.empty(); ++step) brokerage.step(draw);
  brokerage.finish();
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
