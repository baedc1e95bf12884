// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Chance against the connection: a network that loses, doubles and reorders, owners that write, pause and close as
// they like, and segments that no sane peer sends.
#include "tcp_kit.hpp"

namespace parley::sim {
namespace {
using namespace kit;

/// Not too clever an owner: writes what there is room for, in pieces, and pauses now and then.
struct Owner {
  Bytes to_send;
  std::size_t written = 0;
  bool paused = false, done = false;
};

TcpOptions drawn_options(Rng& rng) {
  constexpr std::array<std::uint32_t, 8> sizes{1, 2, 100, 1448, 5000, 65536, 100000, 256 << 10};
  TcpOptions o;
  o.send_buffer = sizes[rng.below(sizes.size())];
  o.receive_buffer = sizes[rng.below(sizes.size())];
  o.window_scale = rng.below(4) != 0;
  o.sack_permitted = rng.below(4) != 0;
  o.timestamps = rng.below(4) != 0;
  o.retries = 60;
  o.syn_retries = 60;
  o.time_wait = 1000s;
  return o;
}

class Course {
 public:
  explicit Course(std::uint64_t seed) : rng_(seed), pair_(drawn(rng_)) {
    loss_ = rng_.below(3) == 0 ? 0 : rng_.below(30);
    doubles_ = rng_.below(2) == 0 ? 0 : rng_.below(20);
    jitter_ = rng_.below(2) == 0 ? 0 : rng_.below(3'000'000);
    heals_ = pair_.now + 60s;
    pair_.fate = [this](const Segment&) {
      Pair::Fate fate;
      const std::uint64_t loss = rng_.below(100), doubles = rng_.below(100);
      fate.extra = Duration(rng_.below(jitter_ + 1));
      if (pair_.now > heals_) return fate;
      if (doubles < doubles_) fate.copies = 2;
      if (loss < loss_) fate.copies = 0;
      return fate;
    };
    for (Owner* owner : {&a_, &b_}) {
      const std::uint64_t kind = rng_.below(3);
      owner->to_send = text(kind == 0 ? 0 : rng_.below(kind == 1 ? 200 : 30000), static_cast<std::uint8_t>(seed));
    }
    if (tiny()) {  // a segment for each octet: not too many of them
      a_.to_send.resize(std::min<std::size_t>(a_.to_send.size(), 60));
      b_.to_send.resize(std::min<std::size_t>(b_.to_send.size(), 60));
    }
  }

  void go() {
    pair_.a.tcp.connect(pair_.now);
    pair_.drain(true);
    for (int steps = 0; steps < 2'000'000; ++steps) {
      if (::testing::Test::HasFatalFailure()) return;
      act(true);
      act(false);
      if (!pair_.step()) {
        if (!a_.paused && !b_.paused && a_.done && b_.done) break;
        pair_.now += 1ms;  // an owner that thinks
      }
      ASSERT_LE(pair_.a.tcp.reassembly(), std::bit_ceil(std::max(pair_.options.a.receive_buffer, 128u)));
      ASSERT_LE(pair_.a.tcp.send_queue(), pair_.options.a.send_buffer);
    }
    check();
  }

 private:
  static PairOptions drawn(Rng& rng) {
    PairOptions o;
    o.a = drawn_options(rng);
    o.b = drawn_options(rng);
    o.mss_a = static_cast<std::uint16_t>(rng.between(48, 8960));
    o.mss_b = static_cast<std::uint16_t>(rng.between(48, 8960));
    o.iss_a = static_cast<std::uint32_t>(rng.below(2) == 0 ? 0 - rng.below(40000) : rng.next());
    o.iss_b = static_cast<std::uint32_t>(rng.below(2) == 0 ? 0 - rng.below(40000) : rng.next());
    o.delay = Duration(rng.between(1'000, 20'000'000));
    return o;
  }
  bool tiny() const {
    const PairOptions& o = pair_.options;
    return std::min({o.a.send_buffer, o.a.receive_buffer, o.b.send_buffer, o.b.receive_buffer}) < 100;
  }
  void act(bool first) {
    Owner& owner = first ? a_ : b_;
    Tcp& tcp = pair_.end(first).tcp;
    if (!first && !pair_.accepted) return;
    if (owner.paused ? rng_.below(20) == 0 || pair_.now > heals_ : rng_.below(200) == 0 && pair_.now < heals_) {
      owner.paused = !owner.paused;
      owner.paused ? tcp.pause() : tcp.resume(pair_.now);
      pair_.drain(first);
    }
    if (owner.done || rng_.below(3) != 0) return;
    const std::size_t left = owner.to_send.size() - owner.written;
    if (left == 0) {
      owner.done = true;
      pair_.shutdown(first);
      return;
    }
    const std::size_t piece = 1 + rng_.below(left);
    owner.written += tcp.write(pair_.now, ConstBytes(owner.to_send).subspan(owner.written, piece));
    pair_.drain(first);
  }
  void check() {
    EXPECT_EQ(pair_.b.received, a_.to_send);
    EXPECT_EQ(pair_.a.received, b_.to_send);
    EXPECT_EQ(pair_.a.events, "connected fin closed");
    EXPECT_EQ(pair_.b.events, "connected fin closed");
    EXPECT_EQ(pair_.a.tcp.state(), TcpState::closed);
    EXPECT_EQ(pair_.b.tcp.state(), TcpState::closed);
    EXPECT_EQ(pair_.buffers.out(), 0U);
  }

  Rng rng_;
  Pair pair_;
  Owner a_, b_;
  std::uint64_t loss_ = 0, doubles_ = 0, jitter_ = 0;
  Instant heals_{};
};

TEST(SimTcpLoss, EveryOctetArrivesOnceInOrderAndBothEndsClose) {
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Course(seed).go();
    if (HasFailure()) return;
  }
}

TEST(SimTcpLoss, OneSeedGivesOneCourse) {
  const auto course = [] {
    Rng rng(7);
    Pair p;
    p.fate = [&](const Segment&) { return Pair::Fate{.copies = rng.below(5) == 0 ? 0 : 1}; };
    p.connect();
    p.write(true, text(100000));
    p.shutdown(true);
    p.run(100s);
    return p.words(true) + "|" + p.words(false) + std::to_string(p.now.time_since_epoch().count());
  };
  EXPECT_EQ(course(), course());
}

/// A header near what the connection expects, or nowhere near it.
TcpHeader wild_header(Rng& rng, const std::vector<Segment>& sent, std::uint32_t iss_own, std::uint32_t iss_peer) {
  TcpHeader h;
  if (!sent.empty() && rng.below(2) == 0) h = sent[rng.below(sent.size())].header;
  const auto number = [&](std::uint32_t iss) {
    switch (rng.below(4)) {
      case 0: return static_cast<std::uint32_t>(rng.next());
      case 1: return iss + static_cast<std::uint32_t>(rng.below(5));
      case 2: return iss + static_cast<std::uint32_t>(rng.below(300000));
      default: return iss - static_cast<std::uint32_t>(rng.below(300000));
    }
  };
  if (rng.below(2) == 0) h.seq = number(iss_peer);
  if (rng.below(2) == 0) h.ack = number(iss_own);
  if (rng.below(2) == 0) h.flags = static_cast<std::uint8_t>(rng.next());
  if (rng.below(2) == 0) h.flags = static_cast<std::uint8_t>((h.flags | flag::ack) & ~(flag::rst | flag::syn));
  if (rng.below(3) == 0) h.window = static_cast<std::uint16_t>(rng.below(2) == 0 ? rng.below(3) : rng.next());
  if (rng.below(4) == 0) h.mss = static_cast<std::uint16_t>(rng.next());
  if (rng.below(4) == 0) h.window_scale = static_cast<std::int8_t>(rng.next());
  if (rng.below(4) == 0) h.timestamps = !h.timestamps;
  if (rng.below(8) == 0) h.ts_value = static_cast<std::uint32_t>(rng.next());
  if (rng.below(8) == 0) h.ts_echo = static_cast<std::uint32_t>(rng.next());
  return h;
}

// Total: whatever comes, in whatever state, each loop of the owner ends, memory stays bounded, time moves on.
TEST(SimTcpLoss, NoSegmentIsTooStrange) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    PairOptions o;
    o.a = drawn_options(rng);
    o.b = drawn_options(rng);
    o.iss_a = static_cast<std::uint32_t>(rng.next());
    o.iss_b = static_cast<std::uint32_t>(rng.next());
    Pair p(o);
    const Bytes junk = text(9000);
    p.a.tcp.connect(p.now);
    p.drain(true);
    const std::uint64_t calm = rng.below(30);
    for (int i = 0; i < 80; ++i) {
      ASSERT_FALSE(HasFatalFailure());
      const bool first = rng.below(2) == 0;
      End& e = p.end(first);
      const std::uint64_t what = static_cast<std::uint64_t>(i) < calm ? 10 : rng.below(16);
      if (what < 6) {
        const TcpHeader h = wild_header(rng, p.sent, first ? o.iss_a : o.iss_b, first ? o.iss_b : o.iss_a);
        if (!first && !p.accepted) continue;
        p.inject(first, h, ConstBytes(junk).first(rng.below(3) == 0 ? 0 : rng.below(junk.size())));
      } else if (what == 6) {
        (void)e.tcp.write(p.now, ConstBytes(junk).first(rng.below(junk.size())));
        p.drain(first);
      } else if (what == 7) {
        rng.below(2) == 0 ? e.tcp.pause() : e.tcp.resume(p.now);
        p.drain(first);
      } else if (what == 8 && rng.below(8) == 0) {
        switch (rng.below(3)) {
          case 0: e.tcp.shutdown(p.now); break;
          case 1: e.tcp.close(p.now); break;
          default: e.tcp.abort(p.now); break;
        }
        p.drain(first);
      } else {
        p.step();
      }
      ASSERT_LE(p.a.tcp.reassembly(), std::bit_ceil(std::max(o.a.receive_buffer, 128u)));
      ASSERT_LE(p.b.tcp.reassembly(), std::bit_ceil(std::max(o.b.receive_buffer, 128u)));
    }
    // It comes to rest: a bound on segments, not on time, because an idle connection may live for ever.
    p.a.tcp.resume(p.now);
    p.b.tcp.resume(p.now);
    p.drain(true);
    p.drain(false);
    p.a.tcp.close(p.now);
    p.b.tcp.close(p.now);
    p.drain(true);
    p.drain(false);
    int steps = 0;
    while (p.step() && ++steps < 20000) {
    }
    EXPECT_LT(steps, 20000) << p.words(true).substr(0, 200) << " | " << to_string(p.a.tcp.state()) << " "
                            << to_string(p.b.tcp.state());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace parley::sim
