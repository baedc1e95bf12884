// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whatever a peer does, each case ends with a verdict in bounded time: peers that say nothing, nonsense, megabytes,
// sound frames at the wrong time, or go away at any moment.
#include "base/rng.hpp"
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

enum class Does { nothing, nonsense, flood, frames, hang_up };

Bytes random_octets(Rng& rng, std::size_t size) {
  Bytes out(size);
  for (std::uint8_t& octet : out) octet = static_cast<std::uint8_t>(rng.below(256));
  return out;
}

/// Something that may pass for what a peer says.
Bytes plausible(Rng& rng, tester::FpduWriter& writer) {
  const auto word = [&] { return static_cast<std::uint32_t>(rng.below(3) == 0 ? rng.below(1U << 31) : rng.below(4)); };
  switch (rng.below(6)) {
    case 0:
    case 1: {
      tester::StartupOctets frame;
      frame.key = rng.below(4) == 0 ? PARLEY_MPA_KEY_REQ : PARLEY_MPA_KEY_REP;
      frame.flags = static_cast<std::uint8_t>(rng.below(4) == 0 ? rng.below(256) : PARLEY_MPA_FLAG_C);
      frame.revision = static_cast<std::uint8_t>(1 + rng.below(2));
      if (rng.below(2) == 0) frame.flags |= PARLEY_MPA_FLAG_S, frame.enhanced = word() << 16 | word();
      return tester::startup(frame);
    }
    case 2: return writer.write(tester::segment(tester::write_header(word(), word()), Bytes(rng.below(64), 1)));
    case 3:
      return writer.write(tester::read_request(word(), {.sink_stag = word(), .size = word(), .source_stag = word()}));
    case 4: return writer.write(random_octets(rng, rng.below(64)), {.bad_crc = rng.below(8) == 0});
    default: {
      wire::Terminate t;
      t.layer = static_cast<std::uint8_t>(rng.below(3));
      t.etype = static_cast<std::uint8_t>(rng.below(3));
      t.code = static_cast<std::uint8_t>(rng.below(10));
      Bytes body(t.size());
      t.emit(body);
      body.resize(rng.below(body.size() + 1));
      wire::DdpHeader h = tester::send_header(1);
      h.opcode = wire::RdmapOpcode::terminate;
      h.qn = 2;
      return writer.write(tester::segment(h, body));
    }
  }
}

Task<void> misbehave(tester::ScriptedPeer& peer, Iut iut, Address tester, Does does, std::uint64_t seed) {
  Rng rng(seed);
  if (iut == Iut::responder) (void)co_await peer.listen(Address::any(Address::Family::v4, port), 1s);
  for (;;) {
    tester::TcpStream* stream = nullptr;
    if (iut == Iut::responder) {
      stream = co_await peer.accept(std::chrono::hours(100));
    } else {
      stream = co_await peer.connect(tester, 5s);
      if (stream == nullptr) co_await peer.sleep(100ms);
    }
    if (stream == nullptr) continue;
    tester::FpduWriter writer(true, false);
    if (iut == Iut::initiator && rng.below(8) != 0)
      stream->send(tester::startup(
          {.flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
           .revision = 2,
           .enhanced = tester::enhanced(8 | (rng.below(2) == 0 ? PARLEY_MPA_ENH_A : 0), 8 | PARLEY_MPA_ENH_C)}));
    for (int i = 0; i < 8 && !stream->over(); ++i) {
      co_await peer.more(*stream, 0, 200ms);
      stream->take(stream->unread().size());
      switch (does) {
        case Does::nothing: break;
        case Does::nonsense: stream->send(random_octets(rng, 1 + rng.below(100))); break;
        case Does::flood: stream->send(random_octets(rng, 100000)); break;
        case Does::frames:
        case Does::hang_up: stream->send(plausible(rng, writer)); break;
      }
      if (does == Does::hang_up && rng.below(3) == 0) {
        if (rng.below(2) == 0) {
          stream->reset();
        } else {
          stream->fin();
        }
        break;
      }
    }
    co_await peer.end(*stream, 2s);
    peer.forget_stream(*stream);
  }
}

void survives(Iut iut, Does does, std::uint64_t seed, std::size_t every = 1) {
  sim::World world(seed);
  sim::Host* tester = *world.add_host("tester");
  sim::Host* other = *world.add_host("peer");
  ASSERT_TRUE(world.add_link(tester->id(), other->id()));
  tester::ScriptedPeer peer, odd;
  tester->set_machine(&peer);
  other->set_machine(&odd);
  Settings settings;
  settings.iut = iut;
  settings.target = at_port(other->address());
  settings.ulp = Ulp::rping;
  settings.recv_size = 16;
  settings.foreign_max = 1000;  // none is left out
  std::vector<const Case*> list;
  for (std::size_t i = seed % every; i < cases(iut).size(); i += every) list.push_back(cases(iut)[i]);
  Run run(peer, settings, list, {}, {});
  const auto script = [](tester::ScriptedPeer& s, Run& r) -> Task<void> {
    (void)co_await s.listen(Address::any(Address::Family::v4, port), 1s);
    co_await r.script();
  };
  odd.start(world.now(), misbehave(odd, iut, at_port(tester->address()), does, seed));
  peer.start(world.now(), script(peer, run));
  ASSERT_TRUE(world.run_until([&] { return peer.done(); }, std::chrono::hours(10)));
  EXPECT_EQ(run.results().size(), list.size());
  for (const Result& r : run.results()) {
    // The longest are those that wait for the peer's own timers, asked twice at most.
    EXPECT_LT(r.took, 4 * settings.timer) << r.what->name;
    EXPECT_FALSE(r.finding.observed.empty()) << r.what->name;
  }
  peer.stop();
  odd.stop();
}

void all_ways(Iut iut) {
  survives(iut, Does::nothing, 1);
  survives(iut, Does::nonsense, 1);
  survives(iut, Does::flood, 1, 12);
  for (std::uint64_t seed = 1; seed < 4; ++seed) survives(iut, Does::frames, seed);
  for (std::uint64_t seed = 1; seed < 4; ++seed) survives(iut, Does::hang_up, seed);
}

TEST(ConformRobust, EachCaseEndsWhateverAResponderDoes) { all_ways(Iut::responder); }

TEST(ConformRobust, EachCaseEndsWhateverAnInitiatorDoes) { all_ways(Iut::initiator); }

TEST(ConformRobust, ARunAgainstNobodyEndsAfterOneCase) {
  sim::World world(1);
  sim::Host* tester = *world.add_host("tester");
  sim::Host* other = *world.add_host("peer");
  ASSERT_TRUE(world.add_link(tester->id(), other->id()));
  tester::ScriptedPeer peer, silent;
  tester->set_machine(&peer);
  other->set_machine(&silent);
  Settings settings;
  settings.target = at_port(other->address());
  conform::Run run(peer, settings, cases(Iut::responder), {}, {});
  peer.start(world.now(), run.script());
  ASSERT_TRUE(world.run_until([&] { return peer.done(); }, 60s));
  EXPECT_TRUE(run.unreachable());
  const Tally t = tally(run.results(), false);
  EXPECT_EQ(t.inconclusive, 1U);
  EXPECT_EQ(run.results().back().finding.observed, "the peer was never reached");
  EXPECT_EQ(t.failed + t.passed, 0U);
}

}  // namespace
}  // namespace parley::conform
