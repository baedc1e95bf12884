// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of a TCP connection as finished frames, cut however a test wants, for the injector and the tracker.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bytes_io.hpp"
#include "sim/fault/fault.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "wire/tcp.hpp"

namespace parley::sim::test {

using capture::test::fpdu;
using capture::test::read_request;
using capture::test::segment;
using capture::test::send_segment;
using capture::test::startup;
using capture::test::tagged;

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// FPDUs one after another from stream position 0 behind the startup frames.
inline Bytes fpdus(const std::vector<Bytes>& ulpdus, bool markers = false) {
  Bytes out;
  for (const Bytes& u : ulpdus) out = out + fpdu(u, out.size(), markers);
  return out;
}

inline Bytes terminate() {
  wire::DdpHeader h;
  h.opcode = wire::RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return segment(h, Bytes(4));
}

inline Bytes empty_send() { return send_segment(1, 0); }
inline Bytes empty_write() { return tagged(wire::RdmapOpcode::rdma_write, 0, 0, 0); }
inline Bytes empty_read(std::uint32_t size = 0) { return read_request(1, {0x11, 0x1000, size, 0x22, 0x2000}); }
inline Bytes request(std::uint8_t flags = PARLEY_MPA_FLAG_C, ConstBytes private_data = {}) {
  return startup(wire::MpaKey::req, flags, 1, {}, private_data);
}
inline Bytes reply(std::uint8_t flags = PARLEY_MPA_FLAG_C, ConstBytes private_data = {}) {
  return startup(wire::MpaKey::rep, flags, 1, {}, private_data);
}

inline FaultRule rule(FaultAction action, MessageKind message = MessageKind::any) {
  FaultRule r;
  r.action = action;
  r.match.message = message;
  return r;
}

inline Instant at_time(Duration d) { return Instant(d); }

/// What one end sends on a connection; octets are named by their position in the stream, 0 being the first.
class Sender {
 public:
  bool ipv6 = false, timestamps = true, active = true;
  std::uint32_t isn = 1000, ack = 500;
  std::uint16_t port = 40000;

  Bytes syn() const { return make(isn, wire::tcp_flag::syn | (active ? 0 : wire::tcp_flag::ack), {}); }
  Bytes at(std::uint64_t position, ConstBytes payload, std::uint8_t more_flags = 0) const {
    return make(static_cast<std::uint32_t>(isn + 1 + position),
                static_cast<std::uint8_t>(wire::tcp_flag::ack | more_flags), payload);
  }
  Bytes make(std::uint32_t seq, std::uint8_t flags, ConstBytes payload) const;

 private:
  Bytes tcp_header(std::uint32_t seq, std::uint8_t flags) const;
};

inline Bytes Sender::tcp_header(std::uint32_t seq, std::uint8_t flags) const {
  wire::TcpHeader h;
  h.source_port = port;
  h.destination_port = 7471;
  h.seq = seq;
  h.ack = (flags & wire::tcp_flag::ack) != 0 ? ack : 0;
  h.flags = flags;
  h.window = 1000;
  if ((flags & wire::tcp_flag::syn) != 0) h.mss = 1400;
  h.timestamps = timestamps;
  h.ts_value = 77;
  Bytes out(h.wire_size());
  wire::emit_tcp_header(h, out);
  return out;
}

inline Bytes Sender::make(std::uint32_t seq, std::uint8_t flags, ConstBytes payload) const {
  Bytes tcp = tcp_header(seq, flags);
  tcp.insert(tcp.end(), payload.begin(), payload.end());
  const std::size_t half = ipv6 ? 16 : 4;
  Bytes addresses(2 * half, 0xFD);
  addresses[half - 1] = 1;
  addresses[2 * half - 1] = 2;
  Bytes pseudo(8);
  Writer p(pseudo);
  p.be32(static_cast<std::uint32_t>(tcp.size()));
  p.be32(6);
  const ConstBytes pieces[] = {addresses, pseudo, tcp};
  const std::uint16_t sum = wire::internet_checksum(pieces);
  Writer s(MutBytes(tcp).subspan(16, 2));
  s.be16(sum);
  Bytes out(14 + (ipv6 ? 40 : 20));
  Writer w(out);
  w.bytes(Bytes{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1});
  w.be16(ipv6 ? 0x86DD : 0x0800);
  if (ipv6) {
    w.be32(0x60000000);
    w.be16(static_cast<std::uint16_t>(tcp.size()));
    w.be16(0x0640);
    w.bytes(addresses);
  } else {
    w.be32(0x45000000 + static_cast<std::uint32_t>(20 + tcp.size()));
    w.be32(0x00004000);
    w.be32(0x40060000);
    w.bytes(addresses);
    const ConstBytes header[] = {ConstBytes(out).subspan(14, 20)};
    const std::uint16_t ip_sum = wire::internet_checksum(header);
    Writer i(MutBytes(out).subspan(24, 2));
    i.be16(ip_sum);
  }
  return out + tcp;
}

inline FramePtr frame_of(FramePool& pool, const Bytes& octets) {
  FramePtr f = pool.take(octets.size());
  Writer w(f->octets());
  w.bytes(octets);
  return f;
}

inline Bytes octets_of(const Frame& f) { return Bytes(f.octets().begin(), f.octets().end()); }

/// Reads a frame without the code under test: both checksums are right.
inline bool sound(ConstBytes frame) {
  const bool v6 = frame[12] == 0x86;
  const std::size_t transport = v6 ? 54 : 34;
  const std::size_t tcp_size = frame.size() - transport;
  Bytes pseudo(8);
  Writer p(pseudo);
  p.be32(static_cast<std::uint32_t>(tcp_size));
  p.be32(6);
  const ConstBytes ip[] = {frame.subspan(14, 20)};
  const ConstBytes tcp[] = {v6 ? frame.subspan(22, 32) : frame.subspan(26, 8), pseudo, frame.subspan(transport)};
  const std::size_t told = v6 ? frame[18] << 8 | frame[19] : (frame[16] << 8 | frame[17]) - 20;
  return told == tcp_size && (v6 || wire::internet_checksum(ip) == 0) && wire::internet_checksum(tcp) == 0;
}

inline wire::TcpSegmentView tcp_of(ConstBytes frame) {
  return wire::parse_packet(1, frame, static_cast<std::uint32_t>(frame.size())).tcp;
}

/// An injector with some rules, and what it does to frames.
class Faults {
 public:
  explicit Faults(std::vector<FaultRule> rules, std::uint64_t seed = 1) : injector_(Rng(seed)) {
    for (const FaultRule& r : rules) {
      const auto added = injector_.add(r);
      EXPECT_TRUE(added) << (added ? "" : added.error());
    }
  }
  void follow(const Faults& other) { injector_.follow(other.injector_.roce_connections()); }
  /// A frame that a fault on an earlier link has changed.
  const FaultDecision& pass_altered(const Bytes& octets) {
    frame = frame_of(pool, octets);
    frame->altered = true;
    decision = injector_.apply(at_time({}), *frame, true);
    return decision;
  }
  const FaultDecision& pass(const Bytes& octets, Duration when = Duration{}) {
    frame = frame_of(pool, octets);
    decision = injector_.apply(at_time(when), *frame, true);
    return decision;
  }
  bool dropped(const Bytes& octets, Duration when = Duration{}) { return pass(octets, when).drop != DropReason::none; }
  /// What came of the rule with this number.
  FaultTally tally(std::uint32_t number) const {
    std::vector<FaultTally> all;
    injector_.add_tallies(all);
    return number < all.size() ? all[number] : FaultTally{};
  }
  void count(const Bytes& octets) { injector_.count(at_time({}), *frame_of(pool, octets)); }
  Bytes octets() const { return octets_of(*frame); }
  ConstBytes payload() const { return tcp_of(frame->octets()).payload; }

  FramePool pool;
  FramePtr frame;
  FaultDecision decision;

 private:
  FaultInjector injector_;
};

/// "mpa_request", "fpdu 2", "terminate 2": the parts of a frame, joined by commas.
inline std::string parts_of(const FrameContent& m) {
  std::string out;
  for (const Part& p : m.parts) {
    if (!out.empty()) out += ", ";
    out += std::string(to_string(p.message));
    if (p.fpdu != 0) out += " " + std::to_string(p.fpdu);
  }
  return out;
}

}  // namespace parley::sim::test
