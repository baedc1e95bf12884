// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whole connections, segment by segment with every field of the header, beside tests/states/sim_tcp_segments.txt; and
// many with drawn losses, of which sim_tcp_drawn.txt has the sums. A change of behaviour is a change of those files.
#include <fmt/format.h>

#include "base/fnv1a.hpp"
#include "tcp_kit.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim {
namespace {
using namespace kit;

std::string flags_text(const TcpHeader& h) {
  std::string out;
  for (const auto& [bit, letter] : {std::pair(flag::syn, 'S'), std::pair(flag::fin, 'F'), std::pair(flag::rst, 'R'),
                                    std::pair(flag::psh, 'P'), std::pair(flag::ack, '.')})
    if ((h.flags & bit) != 0) out += letter;
  return out;
}

/// "    1.040 ms  >  P.    seq 1 ack 1 win 512 len 100 ts 1001/1000"; numbers count from each end's SYN.
std::string segment_text(const Pair& p, const Segment& s) {
  const std::uint32_t mine = s.first ? p.options.iss_a : p.options.iss_b;
  const std::uint32_t theirs = s.first ? p.options.iss_b : p.options.iss_a;
  const TcpHeader& h = s.header;
  const auto us = (s.at - Instant{1s}) / 1us;
  std::string out = fmt::format("  {:>8}.{:03} ms  {}  {:<4} seq {}", us / 1000, us % 1000, s.first ? '>' : '<',
                                flags_text(h), h.seq - mine);
  if (h.has_ack()) out += fmt::format(" ack {}", h.ack - theirs);
  out += fmt::format(" win {}", h.window);
  if (!s.payload.empty()) out += fmt::format(" len {}", s.payload.size());
  if (h.mss != 0) out += fmt::format(" mss {}", h.mss);
  if (h.window_scale >= 0) out += fmt::format(" scale {}", h.window_scale);
  if (h.sack_permitted) out += " sack";
  if (h.timestamps) out += fmt::format(" ts {}/{}", h.ts_value, h.ts_echo);
  for (std::size_t i = 0; i < h.sack_count; ++i)
    out += fmt::format(" {}..{}", h.sack[i].left - theirs, h.sack[i].right - theirs);
  return out + "\n";
}

std::string end_text(std::string_view name, const End& e) {
  std::uint64_t hash = fnv1a(e.received);
  return fmt::format("  {}: {}, told {}; got {} ({:04x}); again {} out of order {} queued {} kept {} room {} MSS {}\n",
                     name, to_string(e.tcp.state()), e.events.empty() ? "nothing" : e.events, e.received.size(),
                     hash & 0xFFFF, e.tcp.retransmits(), e.tcp.out_of_order(), e.tcp.send_queue(), e.tcp.reassembly(),
                     e.tcp.room(), e.tcp.emss());
}

std::string pair_text(const Pair& p) {
  std::string out;
  for (const Segment& s : p.sent) out += segment_text(p, s);
  return out + end_text("first ", p.a) + end_text("second", p.b);
}

/// Segments of one end, counted from 0, that are lost.
auto lose(bool first, std::vector<int> which) {
  return [=, n = -1](const Segment& s) mutable {
    if (s.first != first) return Pair::Fate{};
    ++n;
    return std::find(which.begin(), which.end(), n) != which.end() ? lost() : Pair::Fate{};
  };
}
/// The n-th data segments of the first end come later, or twice.
auto change_data(std::vector<int> which, Pair::Fate fate) {
  return [=, n = -1](const Segment& s) mutable {
    if (!s.first || s.payload.empty()) return Pair::Fate{};
    ++n;
    return std::find(which.begin(), which.end(), n) != which.end() ? fate : Pair::Fate{};
  };
}

struct Play {
  std::string_view name;
  PairOptions options;
  std::function<void(Pair&)> act;
};

PairOptions plain_options() {
  PairOptions o;
  o.a.window_scale = o.a.sack_permitted = o.a.timestamps = false;
  return o;
}
PairOptions buffers(std::uint32_t send, std::uint32_t receive) {
  PairOptions o;
  o.a.send_buffer = send;
  o.b.receive_buffer = receive;
  return o;
}
PairOptions impatient() {
  PairOptions o;
  for (TcpOptions* t : {&o.a, &o.b}) {
    t->syn_retries = 3;
    t->retries = 5;
    t->rto_max = 3s;
    t->time_wait = 2s;
  }
  return o;
}
void close_both(Pair& p) {
  p.end(true).tcp.close(p.now);
  p.drain(true);
  p.run(20ms);
  p.end(false).tcp.close(p.now);
  p.drain(false);
  p.run(2min);
}

std::vector<Play> options() {
  return {
      {"a message, an answer, and both close",
       {},
       [](Pair& p) {
         p.connect();
         p.write(true, text(100));
         p.run(100ms);
         p.write(false, text(3000, 9));
         p.run(100ms);
         close_both(p);
       }},
      {"without options at one end", plain_options(),
       [](Pair& p) {
         p.connect();
         p.write(true, text(3000));
         p.run(100ms);
         close_both(p);
       }},
      {"segments of 536 and 1000 octets",
       [] {
         PairOptions o;
         o.mss_a = 536;
         o.mss_b = 1000;
         return o;
       }(),
       [](Pair& p) {
         p.connect();
         p.write(true, text(1200));
         p.write(false, text(1200));
         p.run(100ms);
       }},
      {"an MSS of 1 is not believed",
       [] {
         PairOptions o;
         o.mss_a = 1;
         return o;
       }(),
       [](Pair& p) {
         p.connect();
         p.write(true, text(100));
         p.run(100ms);
       }},
  };
}

std::vector<Play> openings() {
  return {
      {"shut down before it is opened",
       {},
       [](Pair& p) {
         p.shutdown(true);
         p.connect();
         p.write(true, text(10));
         p.run(100ms);
       }},
      {"another SYN while the first is answered",
       {},
       [](Pair& p) {
         p.a.tcp.connect(p.now);
         p.drain(true);
         p.step();
         for (const std::uint32_t more : {0U, 1U, 100'000'000U}) {
           TcpHeader h = p.sent[0].header;
           h.seq += more;
           p.inject(false, h);
         }
         p.run(100ms);
       }},
      {"two SYNs and two answers are lost",
       {},
       [](Pair& p) {
         p.fate = [n = 0](const Segment& s) mutable { return s.header.syn() && ++n <= 4 ? lost() : Pair::Fate{}; };
         p.a.tcp.connect(p.now);
         p.drain(true);
         p.run(40s);
         p.write(true, text(10));
         p.run(1s);
       }},
      {"nobody answers", impatient(),
       [](Pair& p) {
         p.fate = [](const Segment&) { return lost(); };
         p.a.tcp.connect(p.now);
         p.drain(true);
         p.run(1min);
       }},
      {"the answer to a SYN is never acknowledged", impatient(),
       [](Pair& p) {
         p.fate = [](const Segment& s) { return s.first && !s.header.syn() ? lost() : Pair::Fate{}; };
         p.a.tcp.connect(p.now);
         p.drain(true);
         p.run(1min);
       }},
      {"both open at once",
       {},
       [](Pair& p) {
         p.accepted = true;
         p.a.tcp.connect(p.now);
         p.b.tcp.connect(p.now);
         p.drain(true);
         p.drain(false);
         p.run(100ms);
         p.write(true, text(10));
         p.run(100ms);
       }},
  };
}

std::vector<Play> closings() {
  return {
      {"both close at once", impatient(),
       [](Pair& p) {
         p.connect();
         p.shutdown(true);
         p.shutdown(false);
         p.run(10s);
       }},
      {"data and a FIN that is lost", impatient(),
       [](Pair& p) {
         p.connect();
         p.fate = [n = 0](const Segment& s) mutable { return s.header.fin() && ++n <= 2 ? lost() : Pair::Fate{}; };
         p.a.tcp.write(p.now, text(100));
         p.shutdown(true);
         p.run(3s);
         p.write(false, text(50));
         p.shutdown(false);
         p.run(10s);
       }},
      {"the last ACK is lost, and the FIN comes in TIME-WAIT", impatient(),
       [](Pair& p) {
         p.connect();
         p.shutdown(true);
         p.run(10ms);
         p.fate = lose(true, {0});
         p.shutdown(false);
         p.run(10s);
       }},
  };
}

std::vector<Play> ends() {
  return {
      {"closed with octets that nobody reads",
       {},
       [](Pair& p) {
         p.connect();
         p.b.tcp.pause();
         p.write(true, text(100));
         p.run(100ms);
         p.b.tcp.close(p.now);
         p.drain(false);
         p.run(1s);
       }},
      {"octets for an end that has closed",
       {},
       [](Pair& p) {
         p.connect();
         p.b.tcp.close(p.now);
         p.drain(false);
         p.run(10ms);
         p.write(true, text(100));
         p.run(1s);
       }},
      {"closed with a gap in what came",
       {},
       [](Pair& p) {
         p.connect();
         p.fate = change_data({0}, lost());
         p.write(true, text(2 * full));
         p.run(10ms);
         p.b.tcp.close(p.now);
         p.drain(false);
         p.run(10s);
       }},
      {"aborted with octets under way",
       {},
       [](Pair& p) {
         p.connect();
         p.write(true, text(20000));
         p.run(1ms);
         p.a.tcp.abort(p.now);
         p.drain(true);
         p.run(1s);
       }},
      {"the peer never closes", impatient(),
       [](Pair& p) {
         p.connect();
         p.a.tcp.close(p.now);
         p.drain(true);
         p.run(1min);
         p.b.tcp.close(p.now);
         p.drain(false);
         p.run(1min);
       }},
  };
}

void send(Pair& p, std::size_t octets, Duration time = 5s) {
  p.write(true, text(octets));
  p.run(time);
}
std::function<void(Pair&)> losing(std::size_t octets, const std::vector<int>& which) {
  return [=](Pair& p) {
    p.connect();
    p.fate = lose(true, which);
    send(p, octets);
  };
}

std::vector<Play> losses() {
  PairOptions slow;
  slow.delay = 120ms;
  PairOptions wrap;
  wrap.iss_a = 0xFFFF'F000;
  wrap.iss_b = 0xFFFF'FFFE;
  return {
      {"the third of twelve segments is lost", {}, losing(12 * full, {2})},
      {"three of twelve segments are lost", {}, losing(12 * full, {1, 4, 8})},
      {"one is lost, and again when it is sent again", {}, losing(10 * full, {3, 10})},
      {"the last one is lost", {}, losing(3 * full, {2})},
      {"one in each of three flights, without SACK", plain_options(), losing(40 * 1460, {3, 18, 33})},
      {"a lost segment where numbers wrap", wrap, losing(10 * full, {2, 5})},
      {"the first comes last",
       {},
       [](Pair& p) {
         p.connect();
         p.fate = change_data({0}, {.extra = 500us});
         send(p, 5 * full);
       }},
      {"two change places, and one comes twice",
       {},
       [](Pair& p) {
         p.connect();
         p.fate = [n = -1](const Segment& s) mutable {
           if (!s.first) return Pair::Fate{};
           ++n;
           return n == 2 ? Pair::Fate{.extra = 300us} : n == 4 ? Pair::Fate{.copies = 3} : Pair::Fate{};
         };
         send(p, 6 * full + 7);
       }},
      {"every second one comes late", slow,
       [](Pair& p) {
         p.connect();
         p.run(1s);
         p.fate = change_data({1, 3, 5, 7}, {.extra = 400ms});
         send(p, 9 * full, 10s);
       }},
  };
}

std::vector<Play> silences() {
  PairOptions slow;
  slow.delay = 120ms;
  return {
      {"no octet arrives any more", impatient(),
       [](Pair& p) {
         p.connect();
         p.fate = [](const Segment& s) { return s.first ? lost() : Pair::Fate{}; };
         send(p, 2 * full, 1min);
       }},
      {"no ACK arrives any more", impatient(),
       [](Pair& p) {
         p.connect();
         p.fate = [](const Segment& s) { return s.first ? Pair::Fate{} : lost(); };
         send(p, 2 * full, 1min);
       }},
      {"three time-outs, then all is well, then more octets", slow,
       [](Pair& p) {
         p.connect();
         p.fate = lose(true, {0, 1, 2, 3, 4});
         send(p, 3 * full, 8s);
         send(p, full, 2s);
       }},
      {"the way gets slower and faster",
       {},
       [](Pair& p) {
         p.connect();
         for (const Duration delay : {5ms, 60ms, 60ms, 5ms, 1ms}) {
           p.options.delay = delay;
           p.fate = lose(true, {1});
           send(p, 2 * full, 3s);
         }
       }},
  };
}

std::vector<Play> windows() {
  const auto small_pieces = [](Pair& p) {
    p.connect();
    for (int i = 0; i < 6; ++i) {
      p.write(true, text(300));
      p.run(i % 2 == 0 ? 1ms : 50ms);
    }
  };
  PairOptions quick;
  quick.b.delayed_ack = 3ms;
  return {
      {"small pieces, and when they are acknowledged", {}, small_pieces},
      {"ACKs wait 3 ms at most", quick, small_pieces},
      {"a buffer of 2048 octets", buffers(256 << 10, 2048),
       [](Pair& p) {
         p.connect();
         p.write(true, text(6000));
         p.run(2s);
       }},
      {"a send buffer of 4096 octets", buffers(4096, 256 << 10),
       [](Pair& p) {
         p.connect();
         Bytes all = text(10000);
         for (int i = 0; i < 6 && !all.empty(); ++i) {
           const std::size_t taken = p.a.tcp.write(p.now, all);
           all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(taken));
           p.drain(true);
           p.run(2ms);
         }
         p.run(1s);
       }},
  };
}

std::vector<Play> full_buffers() {
  return {
      {"nobody reads for ten seconds", buffers(256 << 10, 4096),
       [](Pair& p) {
         p.connect();
         p.b.tcp.pause();
         p.write(true, text(10000));
         p.run(10s);
         p.b.tcp.resume(p.now);
         p.drain(false);
         p.run(2s);
       }},
      {"nobody ever reads, and the sender closes",
       [] {
         PairOptions o = impatient();
         o.b.receive_buffer = 4096;
         return o;
       }(),
       [](Pair& p) {
         p.connect();
         p.b.tcp.pause();
         p.write(true, text(10000));
         p.run(1s);
         p.a.tcp.close(p.now);
         p.drain(true);
         p.run(2min);
       }},
      {"a window that is scaled by 4",
       [] {
         PairOptions o;
         o.b.receive_buffer = 1 << 20;
         return o;
       }(),
       [](Pair& p) {
         p.connect();
         p.write(true, text(5 * full));
         p.run(1s);
       }},
  };
}

std::vector<Play> gaps() {
  return {
      {"more gaps than are kept",
       {},
       [](Pair& p) {
         p.connect();
         for (int i = 0; i < 80; ++i) {
           TcpHeader h = next_header(p, true);
           h.seq += static_cast<std::uint32_t>(20 * (1 + (i * 37) % 80));
           p.inject(false, h, text(10));
         }
         p.write(true, text(1700));
         p.run(5s);
       }},
      {"a gap in a buffer that is almost full", buffers(256 << 10, 8192),
       [](Pair& p) {
         p.connect();
         p.fate = change_data({1, 3}, {.extra = 700us});
         p.write(true, text(12000));
         p.run(2s);
       }},
      {"a FIN behind a gap",
       {},
       [](Pair& p) {
         p.connect();
         p.fate = change_data({0}, {.extra = 3ms});
         p.write(true, text(3 * full));
         p.shutdown(true);
         p.run(1s);
         p.shutdown(false);
         p.run(1s);
       }},
  };
}

/// Octets in both directions over ways that lose, repeat and delay, with options that the seed draws.
void drawn_play(std::uint64_t seed, Tally& tally) {
  Rng rng(seed);
  PairOptions o;
  for (TcpOptions* t : {&o.a, &o.b}) {
    t->send_buffer = static_cast<std::uint32_t>(rng.between(2048, 40000));
    t->receive_buffer = static_cast<std::uint32_t>(rng.between(2048, 40000));
    t->window_scale = rng.below(3) != 0;
    t->sack_permitted = rng.below(3) != 0;
    t->timestamps = rng.below(3) != 0;
    t->delayed_ack = Duration(rng.below(3) * 10'000'000);
    t->rto_min = Duration(static_cast<std::int64_t>(rng.between(5'000'000, 200'000'000)));
    t->time_wait = 1s;
  }
  o.mss_a = static_cast<std::uint16_t>(rng.between(100, 3000));
  o.mss_b = static_cast<std::uint16_t>(rng.between(100, 3000));
  o.iss_a = static_cast<std::uint32_t>(rng.next());
  o.iss_b = rng.below(2) != 0 ? 0xFFFF'FF00 : 1;
  o.delay = Duration(static_cast<std::int64_t>(rng.between(10'000, 30'000'000)));
  const std::uint64_t loss = rng.below(15), late = rng.below(15), twice = rng.below(10);
  Pair p(o);
  p.fate = [&rng, loss, late, twice](const Segment&) {
    Pair::Fate fate;
    if (rng.below(100) < loss) fate.copies = 0;
    if (rng.below(100) < twice) ++fate.copies;
    if (rng.below(100) < late) fate.extra = Duration(static_cast<std::int64_t>(rng.below(40'000'000)));
    return fate;
  };
  p.a.tcp.connect(p.now);
  p.drain(true);
  Bytes left[2] = {text(rng.below(60000)), text(rng.below(60000), 3)};
  const std::size_t wanted[2] = {left[0].size(), left[1].size()};
  for (int round = 0; round < 400; ++round) {
    for (const bool first : {true, false}) {
      Bytes& all = left[first ? 0 : 1];
      Tcp& tcp = p.end(first).tcp;
      if (!first && !p.accepted) continue;
      if (rng.below(10) == 0) tcp.pause();
      if (rng.below(3) == 0) tcp.resume(p.now);
      const std::size_t taken =
          tcp.write(p.now, ConstBytes(all).first(std::min<std::size_t>(all.size(), 1 + rng.below(9000))));
      all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(taken));
      if (all.empty()) tcp.shutdown(p.now);
      p.drain(first);
    }
    p.run(Duration(static_cast<std::int64_t>(rng.below(60'000'000))));
  }
  for (const bool first : {true, false}) {
    p.end(first).tcp.resume(p.now);
    p.drain(first);
  }
  p.run(10min);
  // Not all of them may have found room by now.
  EXPECT_TRUE(p.a.received == text(wanted[1] - left[1].size(), 3)) << "seed " << seed << '\n' << pair_text(p);
  EXPECT_TRUE(p.b.received == text(wanted[0] - left[0].size())) << "seed " << seed << '\n' << pair_text(p);
  for (const Segment& s : p.sent)
    tally.add(s.first ? "segments of the first end" : "segments of the second",
              {s.at.time_since_epoch().count() / 1000, s.header.flags, static_cast<std::int64_t>(s.payload.size()),
               s.header.window, static_cast<std::int64_t>(s.header.sack_count), s.header.timestamps ? 1 : 0});
  for (const bool first : {true, false}) {
    const End& e = p.end(first);
    const auto n = [](auto of) { return static_cast<std::int64_t>(of); };
    tally.add(fmt::format("{} end, {}, told {}", first ? "first" : "second", to_string(e.tcp.state()), e.events),
              {n(e.received.size()), n(e.tcp.retransmits()), n(e.tcp.out_of_order()), n(e.tcp.send_queue()),
               n(e.tcp.reassembly())});
  }
}

TEST(SimTcpTranscript, EverySegmentIsAsReviewed) {
  std::string out =
      "# Connections segment by segment: when, by which end (> the first), flags (S F R P, . is ACK), numbers from "
      "each\n"
      "# end's SYN on, the window as it stands in the header, options. Then what each end has become.\n";
  for (const auto& plays :
       {options(), openings(), closings(), ends(), losses(), silences(), windows(), full_buffers(), gaps()})
    for (const Play& play : plays) {
      Pair p(play.options);
      play.act(p);
      out += fmt::format("\n{}\n{}", play.name, pair_text(p));
    }
  expect_as_reviewed("sim_tcp_segments.txt", out);
}

TEST(SimTcpTranscript, DrawnConnectionsGoAsTheyDid) {
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 130; ++seed) drawn_play(seed, tally);
  expect_as_reviewed("sim_tcp_drawn.txt",
                     "# 130 drawn connections, both ways until both ends have closed: segments with sums of their "
                     "times in us, flags, octets,\n"
                     "# windows, SACK blocks and timestamps; ends with octets received, repetitions, segments out of "
                     "order, and what is queued\n"
                     "# and kept.\n" +
                         tally.text());
}

}  // namespace
}  // namespace parley::sim
