// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Segments in every order, with repetitions, overlaps, cuts and holes: what comes out of one direction, call by call
// (tests/states/capture_tcp_half_*.txt). The octet of stream position n is the n-th letter.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "capture/read/tcp/tcp_half.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz";

std::string_view name_of(SegmentClass c) {
  switch (c) {
    case SegmentClass::empty: return "empty";
    case SegmentClass::in_order: return "in order";
    case SegmentClass::out_of_order: return "out of order";
    case SegmentClass::retransmission: return "repeated";
    case SegmentClass::keepalive: return "keep-alive";
    case SegmentClass::absurd: return "absurd";
  }
  return "";
}

class Half : HalfSink {
 public:
  explicit Half(std::uint32_t first_seq) : first_(first_seq) { tcp.keep_history(); }

  /// Octets [from, to) of the stream, of which the capture has `captured`.
  Half& segment(int from, int to, std::size_t captured = 99, std::uint8_t flags = wire::tcp_flag::ack,
                std::uint64_t heard = 0, std::string_view text = letters) {
    wire::TcpSegmentView t;
    t.seq = first_ + static_cast<std::uint32_t>(from);
    t.flags = flags;
    t.length = static_cast<std::uint32_t>(to - from);
    for (int i = from; i < to; ++i)
      octets_.push_back(static_cast<std::uint8_t>(text[static_cast<std::size_t>(i + 26) % 26]));
    t.payload = ConstBytes(octets_).last(t.length).first(std::min<std::size_t>(captured, t.length));
    ++frame_;
    const SegmentRef ref{frame_, Instant{}, heard};
    const SegmentClass c = tcp.segment(t, ref, budget, *this);
    said += fmt::format(" {}{};", name_of(c), tcp.differed() ? ", differs" : "");
    return *this;
  }
  Half& tick(int times = 1) {
    for (int i = 0; i < times; ++i) tcp.tick({++frame_, Instant{}, 0}, budget, *this);
    return *this;
  }
  Half& concede(std::uint64_t position) {
    said += fmt::format(" concede {}", position);
    tcp.concede(position, {++frame_, Instant{}, 0}, budget, *this);
    return *this;
  }
  Half& deliver_buffered() {
    said += " go on";
    tcp.deliver_buffered(budget, *this);
    return *this;
  }
  Half& flush() {
    said += " flush";
    tcp.flush({++frame_, Instant{}, 0}, budget, *this);
    return *this;
  }
  std::string end() {
    return fmt::format("{} | at {}, acknowledged {}, holds {}{}\n", said, tcp.position(), tcp.acked_position(),
                       budget.used, tcp.from_syn() ? "" : ", begun without SYN");
  }

  TcpHalf tcp;
  ReassemblyBudget budget;
  std::string said;

 private:
  void octets(ConstBytes in, const SegmentRef& ref, bool start) override {
    said += fmt::format(" {}{}@{}", start ? "" : "-", std::string(in.begin(), in.end()), ref.frame);
  }
  void missing(std::uint64_t n, const SegmentRef& ref, bool cut) override {
    said += fmt::format(" {}{}@{}", cut ? "cut" : "lost", n, ref.frame);
  }
  std::uint32_t first_;
  std::uint64_t frame_ = 0;
  Bytes octets_ = [] {  // never moved
    Bytes b;
    b.reserve(4096);
    return b;
  }();
};

/// Begun by a SYN; position 0 is number 0 of the wrap, so that each order crosses it somewhere.
Half begun(std::uint32_t first_seq = 0xFFFFFFFC) {
  Half h(first_seq);
  h.tcp.syn(first_seq - 1);
  return h;
}

TEST(TcpHalf, SegmentsInEveryOrder) {
  std::string out;
  const std::pair<int, int> parts[] = {{0, 3}, {2, 6}, {5, 8}, {8, 10}};
  std::array<std::size_t, 4> order{0, 1, 2, 3};
  do {
    Half h = begun();
    for (const std::size_t i : order) {
      out += fmt::format("[{},{}) ", parts[i].first, parts[i].second);
      h.segment(parts[i].first, parts[i].second);
    }
    out += h.end();
  } while (std::next_permutation(order.begin(), order.end()));
  out += "== one of them lost ==\n";
  for (std::size_t lost = 0; lost < 4; ++lost)
    for (const bool backwards : {false, true}) {
      Half h = begun();
      for (std::size_t k = 0; k < 4; ++k) {
        const std::size_t i = backwards ? 3 - k : k;
        if (i == lost) continue;
        out += fmt::format("[{},{}) ", parts[i].first, parts[i].second);
        h.segment(parts[i].first, parts[i].second);
      }
      out += h.flush().end();
    }
  out += "== a second segment over the first, held or not ==\n";
  for (const int hole : {0, 2})
    for (int from = 0; from <= 6; ++from)
      for (const int length : {1, 3, 7}) {
        Half h = begun();
        out += fmt::format("[{},{}) [{},{}) ", hole, hole + 4, from, from + length);
        out += h.segment(hole, hole + 4).segment(from, from + length).flush().end();
      }
  expect_as_reviewed("capture_tcp_half_orders.txt", out);
}

TEST(TcpHalf, CutsAndRepetitions) {
  std::string out;
  const auto tell = [&](std::string_view name, Half& h) { out += fmt::format("{}:{}", name, h.end()); };
  constexpr std::string_view others = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  constexpr std::uint8_t ack = wire::tcp_flag::ack;
  for (std::size_t captured = 0; captured <= 4; ++captured) {
    Half first = begun();
    tell(fmt::format("cut to {}", captured), first.segment(0, 4, captured).segment(4, 6));
    Half held = begun();
    tell(fmt::format("held, cut to {}", captured), held.segment(2, 6, captured).segment(0, 2).segment(6, 8));
    Half over = begun();
    tell(fmt::format("over what is there, cut to {}", captured),
         over.segment(0, 2).segment(0, 4, captured).segment(4, 5));
    Half under = begun();
    tell(fmt::format("under what is held, cut to {}", captured), under.segment(2, 4).segment(0, 4, captured));
  }
  for (const int from : {0, 1, 2, 3, 4}) {
    Half h = begun();
    tell(fmt::format("other octets from {} on", from), h.segment(0, 4).segment(from, from + 2, 99, ack, 0, others));
    Half held = begun();
    tell(fmt::format("other octets from {} on, over what is held", from),
         held.segment(2, 4).segment(from, from + 2, 99, ack, 0, others).flush());
    Half cut = begun();
    tell(fmt::format("other octets from {} on, cut", from),
         cut.segment(0, 4).segment(from, from + 2, 1, ack, 0, others));
  }
  {
    Half h = begun();
    tell("keep-alives",
         h.segment(0, 3).segment(2, 3).segment(2, 2).segment(2, 3, 99, ack, 0, others).segment(3, 3).segment(1, 2));
    Half before = begun();
    tell("keep-alive of the SYN", before.segment(-1, 0).segment(-1, -1).segment(0, 2));
    Half far = begun(5);
    tell("too far ahead", far.segment(1 << 28, (1 << 28) + 1).segment((1 << 28) + 1, (1 << 28) + 2).segment(0, 1));
    Half behind = begun();
    tell("long behind", behind.segment(0, 9).segment(-5, 1).segment(-9, -5).segment(3, 12));
  }
  expect_as_reviewed("capture_tcp_half_cuts.txt", out);
}

TEST(TcpHalf, BeginningsAndEnds) {
  std::string out;
  const auto tell = [&](std::string_view name, Half& h) { out += fmt::format("{}:{}", name, h.end()); };
  constexpr std::uint8_t ack = wire::tcp_flag::ack, fin = ack | wire::tcp_flag::fin, syn = wire::tcp_flag::syn;
  for (const int at : {4, 5, 6}) {
    Half h = begun();
    tell(fmt::format("FIN at {}", at), h.segment(0, 4).segment(at, at, 99, fin).segment(at, at, 99, fin).flush());
    Half data = begun();
    tell(fmt::format("FIN with octets at {}", at), data.segment(0, 4).segment(at, at + 2, 99, fin).flush());
    Half seen = begun();
    tell(fmt::format("its own numbers say {}", at), seen.segment(0, 4).segment(at, at).flush());
    Half acked = begun();
    acked.segment(0, 4).tcp.acked(0xFFFFFFFC + static_cast<std::uint32_t>(at));
    tell(fmt::format("acknowledged {}", at), acked.flush());
    Half both = begun();
    both.segment(0, 4).segment(at, at, 99, fin).tcp.acked(0xFFFFFFFC + static_cast<std::uint32_t>(at) + 1);
    tell(fmt::format("FIN at {}, acknowledged", at), both.flush());
  }
  for (const int ticks : {15, 16, 17, 18}) {
    Half h = begun();
    h.segment(2, 4).tcp.acked(0xFFFFFFFC + 4);
    tell(fmt::format("acknowledged, {} packets later", ticks), h.tick(ticks));
    Half not_acked = begun();
    tell(fmt::format("not acknowledged, {} packets later", ticks), not_acked.segment(2, 4).tick(ticks));
  }
  {
    Half h(100);
    tell("no SYN", h.segment(3, 5).segment(0, 3).segment(5, 6).flush());
    Half late(100);
    late.segment(0, 3).tcp.syn(99);
    tell("SYN late, of these octets", late.segment(3, 5));
    Half other(100);
    other.segment(0, 3).tcp.syn(90);
    tell("SYN late, of earlier ones", other.segment(3, 5));
    Half empty(100);
    empty.segment(0, 0).tcp.syn(89);
    tell("SYN behind a segment without octets", empty.segment(-10, -7));
    Half counted(100);
    counted.segment(0, 0).tcp.syn(89, true);
    tell("the same, counted", counted.segment(-10, -7).segment(0, 1));
    Half acked(100);
    acked.tcp.acked(105);
    acked.tcp.acked(107);
    acked.tcp.syn(99);
    tell("SYN behind acknowledgments", acked.segment(5, 7));
    Half once(100);
    once.tcp.acked(105);
    once.tcp.syn(99);
    tell("SYN behind one acknowledgment", once.segment(0, 7));
    Half with(100);
    with.tcp.syn(99);
    tell("SYN with octets", with.segment(-1, 2, 99, syn, 0, "bcdefghijklmnopqrstuvwxyza").segment(2, 4));
  }
  for (const std::uint32_t at : {0u, 1u, (1u << 20) - 1, 1u << 20, (1u << 20) + 1}) {
    Half h(at);
    h.segment(0, 3);
    out += fmt::format("{} octets behind a SYN {} begun by it\n", at,
                       h.tcp.may_begin_at(0xFFFFFFFF) ? "may be" : "are not");
  }
  expect_as_reviewed("capture_tcp_half_ends.txt", out);
}

// RFC 9293 §3.4: a segment that acknowledges octets of the other side was sent behind them.
TEST(TcpHalf, WaitsForTheOtherDirection) {
  std::string out;
  for (const std::uint64_t heard : {0u, 1u, 2u, 5u}) {
    Half h = begun();
    h.tcp.heard(1);
    h.segment(0, 2, 99, wire::tcp_flag::ack, heard);
    out += fmt::format("heard {} of 1, waits for {}:{}", heard, h.tcp.waits_for(), h.end());
    h.segment(2, 4);
    h.segment(1, 3).segment(0, 1).segment(6, 7);
    out += "  more:" + h.end();
    h.tcp.heard(heard);
    out += "  read as far:" + h.flush().end();
  }
  Half cut = begun();
  cut.tcp.heard(0);
  cut.segment(0, 4, 2, wire::tcp_flag::ack, 9).segment(4, 6);
  cut.tcp.never_wait();
  out += "never:" + cut.flush().end();
  for (int waited = 39; waited <= 42; ++waited) {
    Half h = begun();
    h.segment(0, 2, 99, wire::tcp_flag::ack, 9);
    int long_ones = 0;
    for (int i = 0; i < waited; ++i) long_ones += h.tcp.waited_long() ? 1 : 0;
    out += fmt::format("{} packets: {} times too long\n", waited, long_ones);
  }
  for (const int conceded : {0, 1, 2, 3, 5, 8}) {
    Half h = begun();
    h.segment(2, 4).segment(6, 7);
    // Each lost() stands at the frame that asked for it.
    h.tcp.acked(0xFFFFFFFC + 7);
    out += fmt::format("conceded to {}:", conceded);
    struct Sink final : HalfSink {
      std::string said;
      void octets(ConstBytes in, const SegmentRef&, bool) override { said += " " + std::string(in.begin(), in.end()); }
      void missing(std::uint64_t n, const SegmentRef&, bool) override { said += fmt::format(" lost{}", n); }
    } sink;
    h.tcp.concede(static_cast<std::uint64_t>(conceded), {9, Instant{}, 0}, h.budget, sink);
    out += sink.said + " |" + h.end();
  }
  expect_as_reviewed("capture_tcp_half_waits.txt", out);
}

// What is compared with repetitions goes back 64 KiB, however the octets came.
TEST(TcpHalf, ComparesRepetitionsWithWhatItKnows) {
  for (const std::size_t step : {100u, 1000u, 1460u, 70000u}) {
    struct Sink final : HalfSink {
      void octets(ConstBytes, const SegmentRef&, bool) override {}
      void missing(std::uint64_t, const SegmentRef&, bool) override {}
    } sink;
    TcpHalf tcp;
    ReassemblyBudget budget;
    tcp.keep_history();
    tcp.syn(0);
    Bytes all(150'000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i * 7 + (i >> 8));
    const auto send = [&](std::size_t at, std::size_t n) {
      wire::TcpSegmentView t;
      t.seq = static_cast<std::uint32_t>(1 + at);
      t.flags = wire::tcp_flag::ack;
      t.length = static_cast<std::uint32_t>(n);
      t.payload = ConstBytes(all).subspan(at, n);
      return tcp.segment(t, {1, Instant{}, 0}, budget, sink);
    };
    for (std::size_t at = 0; at < all.size(); at += step)
      ASSERT_EQ(send(at, std::min(step, all.size() - at)), SegmentClass::in_order);
    EXPECT_EQ(budget.history, 65536u);
    for (std::size_t back = 1; back <= 65536; back = back * 2 + 1) {
      EXPECT_EQ(send(all.size() - back, std::min<std::size_t>(back, 9)),
                back == 1 ? SegmentClass::keepalive : SegmentClass::retransmission)
          << back;
      EXPECT_FALSE(tcp.differed()) << back;
      all[all.size() - back] ^= 1;
      send(all.size() - back, std::min<std::size_t>(back, 9));
      EXPECT_EQ(tcp.differed(), back != 1) << step << " " << back;
      all[all.size() - back] ^= 1;
    }
    all[all.size() - 65536] ^= 1;
    send(all.size() - 65536, 1);
    EXPECT_TRUE(tcp.differed());
    all[all.size() - 65537] ^= 1;
    send(all.size() - 65537, 1);
    EXPECT_FALSE(tcp.differed()) << "older than what is kept";
    tcp.forget(budget);
    EXPECT_EQ(budget.history, 0u);
  }
}

// RFC 9293 §3.8.4: a keep-alive repeats the last octet with any content, also while later octets wait for the other side.
TEST(TcpHalf, AKeepAliveHoldsNothingWhileOctetsWait) {
  Half h = begun();
  h.tcp.heard(0);
  h.segment(0, 3).segment(3, 6, 99, wire::tcp_flag::ack, 5);
  EXPECT_EQ(h.tcp.waits_for(), 5U);
  EXPECT_EQ(h.segment(2, 3, 99, wire::tcp_flag::ack, 5, "zzzzzzzzzzzzzzzzzzzzzzzzzz").end(),
            " abc@1 in order; in order; keep-alive; | at 3, acknowledged 0, holds 3\n");
}

// Segments with faults of every kind at once: early, late, repeated, altered, cut and lost, and what both sides heard.
TEST(TcpHalf, DrawnSegments) {
  std::string out;
  constexpr std::string_view others = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Rng rng(seed);
    const std::uint32_t first_seq = rng.below(2) == 0 ? 0xFFFFFFF0 : 1000;
    Half h(first_seq);
    if (rng.below(4) != 0) h.tcp.syn(first_seq - 1);
    std::uint64_t peer = 0;
    int next = rng.below(6) == 0 ? 4 : 0;  // the first octet that was not sent yet
    for (std::uint64_t n = rng.between(3, 14); n > 0; --n) {
      const bool probe = rng.below(12) == 0 && next > 0;  // a keep-alive, or what looks like one
      const int from =
          probe ? next - 1 : std::max(0, next + static_cast<int>(rng.below(3) == 0 ? rng.between(0, 12) : 6) - 6);
      const int to = probe ? next : from + static_cast<int>(rng.below(5) == 0 ? rng.below(2) : rng.between(1, 7));
      const std::size_t captured = rng.below(8) == 0 ? rng.below(5) : 99;
      const bool fin = rng.below(25) == 0;
      const std::uint64_t heard = rng.below(6) == 0 ? peer + rng.between(1, 4) : 0;
      h.said += fmt::format(" [{},{}){}{}{}", from, to, captured < 99 ? fmt::format(" {} seen", captured) : "",
                            fin ? " FIN" : "", heard > 0 ? fmt::format(" heard {}", heard) : "");
      h.segment(from, to, captured, static_cast<std::uint8_t>(wire::tcp_flag::ack | (fin ? wire::tcp_flag::fin : 0)),
                heard, rng.below(10) == 0 ? others : letters);
      next = std::max(next, to);
      const std::uint64_t then = rng.below(14);
      if (then == 0) h.tick(static_cast<int>(rng.between(1, 20)));
      if (then == 1)
        h.said += fmt::format(" acked {}", next - 1), h.tcp.acked(first_seq + static_cast<std::uint32_t>(next - 1));
      if (then == 2) h.said += " peer moves", h.tcp.heard(peer += 2);
      if (then == 3) h.concede(static_cast<std::uint64_t>(next));
      if (then == 4)
        h.said += fmt::format(" SYN at {}", from),
            h.tcp.syn(first_seq + static_cast<std::uint32_t>(from) - 1, rng.below(2) == 0);
      if (then == 5) h.deliver_buffered();
      if (h.tcp.waits_for() > 0) h.said += fmt::format(" (waits for {})", h.tcp.waits_for());
    }
    if (rng.below(3) != 0) h.flush();
    out += fmt::format("{}:", seed) + h.end();
  }
  expect_as_reviewed("capture_tcp_half_drawn.txt", out);
}

}  // namespace
}  // namespace parley::capture
