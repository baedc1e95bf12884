// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two ends of a TCP connection and the two ways between them, in virtual time. What a way does to a segment is the
// test's to say; every segment really goes through octets.
#pragma once
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <string>

#include "base/rng.hpp"
#include "sim/tcp/tcp.hpp"

namespace parley::sim::kit {
using namespace std::chrono_literals;
using wire::TcpHeader;
namespace flag = wire::tcp_flag;

struct Segment {
  Instant at{};  // when it was sent
  TcpHeader header;
  Bytes payload;
  bool first = true;  // sent by the first end
};

inline Bytes joined(const TcpOutput& out) {
  Bytes all(out.payload[0].begin(), out.payload[0].end());
  all.insert(all.end(), out.payload[1].begin(), out.payload[1].end());
  return all;
}

/// What an end's owner sees and does.
struct End {
  End(const TcpOptions& o, TcpBuffers& buffers, std::uint16_t mss, std::uint32_t iss)
      : options(o), tcp(options, buffers, mss, iss) {}
  TcpOptions options;
  Tcp tcp;
  Bytes received;
  std::string events;  // "connected fin closed"
  bool has(std::string_view name) const { return events.find(name) != std::string::npos; }
};

struct PairOptions {
  TcpOptions a{}, b{};
  std::uint16_t mss_a = 1460, mss_b = 1460;
  std::uint32_t iss_a = 1000, iss_b = 5000;
  Duration delay = 1ms;
};

class Pair {
 public:
  /// What becomes of a segment: how often it arrives, and how much later than usual.
  struct Fate {
    int copies = 1;
    Duration extra{};
  };

  explicit Pair(const PairOptions& o = {})
      : options(o), a(o.a, buffers, o.mss_a, o.iss_a), b(o.b, buffers, o.mss_b, o.iss_b) {}

  /// The handshake, without loss.
  void connect() {
    a.tcp.connect(now);
    drain(true);
    run(10 * options.delay);
  }

  End& end(bool first) { return first ? a : b; }

  /// Everything an owner has to do after a call.
  void drain(bool first, ConstBytes direct = {}) {
    End& e = end(first);
    const auto take = [&](ConstBytes octets) { e.received.insert(e.received.end(), octets.begin(), octets.end()); };
    take(direct);
    for (;;) {
      const ConstBytes more = e.tcp.poll_received();
      if (more.empty()) break;
      take(more);
    }
    TcpOutput out;
    for (int n = 0; e.tcp.poll_segment(now, out); ++n) {
      ASSERT_LT(n, 100000) << "poll_segment does not end";
      send({now, out.header, joined(out), first});
    }
    for (TcpEvent event; (event = e.tcp.poll_event()) != TcpEvent::none;) {
      if (!e.events.empty()) e.events += ' ';
      e.events += to_string(event);
    }
  }

  void send(Segment segment) {
    const Fate what = fate ? fate(segment) : Fate{};
    sent.push_back(segment);
    for (int i = 0; i < what.copies; ++i) on_the_way.emplace(now + options.delay + what.extra, segment);
  }

  void write(bool first, ConstBytes octets) {
    ASSERT_EQ(end(first).tcp.write(now, octets), octets.size());
    drain(first);
  }
  void shutdown(bool first) {
    end(first).tcp.shutdown(now);
    drain(first);
  }
  void inject(bool to_first, const TcpHeader& header, ConstBytes payload = {}) {
    if (end(to_first).tcp.state() == TcpState::closed && (to_first || accepted) && !header.rst()) {
      send({now, wire::reset_for(header, payload.size()), {}, to_first});  // as the host does for what it does not know
      return;
    }
    const ConstBytes direct = end(to_first).tcp.handle_segment(now, header, payload);
    drain(to_first, direct);
  }

  Instant next() const {
    const Instant arrival = on_the_way.empty() ? never : on_the_way.begin()->first;
    return std::min({arrival, a.tcp.next_deadline(), b.tcp.next_deadline()});
  }
  /// Carries out what is next; false: nothing until `limit`.
  bool step(Instant limit = never) {
    const Instant when = next();
    if (when == never || when > limit) return false;
    now = std::max(now, when);
    if (!on_the_way.empty() && on_the_way.begin()->first <= now) {
      Segment segment = std::move(on_the_way.begin()->second);
      on_the_way.erase(on_the_way.begin());
      deliver(segment);
      return true;
    }
    const bool first = a.tcp.next_deadline() <= now;
    end(first).tcp.handle_deadline(now);
    drain(first);
    return true;
  }
  void deliver(const Segment& segment) {
    Bytes octets(segment.header.wire_size());
    wire::emit_tcp_header(segment.header, octets);
    const auto parsed = wire::parse_tcp_header(octets);
    ASSERT_TRUE(parsed);
    if (!segment.first || accepted || !segment.header.syn() || b.tcp.state() != TcpState::closed) {
      inject(!segment.first, parsed->header, segment.payload);
      return;
    }
    accepted = true;  // the passive end comes to be with the SYN
    b.tcp.accept(now, parsed->header);
    drain(false);
  }
  void run(Duration time) {
    const Instant limit = now + time;
    while (step(limit) && !::testing::Test::HasFatalFailure()) {
    }
    now = limit;
  }

  /// Segments that one end sent since `from`, in words: "S", "SA", "A", "1448", "FA", "R".
  std::string words(bool first, std::size_t from = 0) const {
    std::string out;
    for (std::size_t i = from; i < sent.size(); ++i) {
      const Segment& s = sent[i];
      if (s.first != first) continue;
      if (!out.empty()) out += ' ';
      if (!s.payload.empty()) out += std::to_string(s.payload.size());
      if (s.header.syn()) out += 'S';
      if (s.header.fin()) out += 'F';
      if (s.header.rst()) out += 'R';
      if (s.header.has_ack() && s.payload.empty()) out += 'A';
    }
    return out;
  }

  PairOptions options;
  TcpBuffers buffers;
  Instant now{1s};
  End a, b;
  bool accepted = false;
  std::function<Fate(const Segment&)> fate;
  std::vector<Segment> sent;
  std::multimap<Instant, Segment> on_the_way;  // equal times in the order in which they were sent
};

inline Bytes text(std::size_t size, std::uint8_t from = 0) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(from + i * 7 + (i >> 8));
  return out;
}

inline constexpr std::size_t full = 1448;  ///< 1460 less timestamps

inline Pair::Fate lost() { return {.copies = 0}; }

/// Loses the n-th segment of data (from 0) that `first` sends.
inline auto lose_data(bool first, int n) {
  return [=, seen = 0](const Segment& s) mutable {
    return s.first == first && !s.payload.empty() && seen++ == n ? lost() : Pair::Fate{};
  };
}

inline std::vector<Segment> of(const Pair& p, bool first, std::size_t from = 0) {
  std::vector<Segment> out;
  for (std::size_t i = from; i < p.sent.size(); ++i)
    if (p.sent[i].first == first) out.push_back(p.sent[i]);
  return out;
}

/// What `first` would send next as an empty segment.
inline TcpHeader next_header(const Pair& p, bool first) {
  TcpHeader h = of(p, first).back().header;
  const Segment last = of(p, first).back();
  h.seq += static_cast<std::uint32_t>(last.payload.size()) + (h.syn() ? 1 : 0) + (h.fin() ? 1 : 0);
  h.flags = flag::ack;
  h.sack_count = 0;
  return h;
}

}  // namespace parley::sim::kit
