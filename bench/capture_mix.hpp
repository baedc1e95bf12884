// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Makes captures of iWARP traffic, packet by packet, always the same: TCP over IPv4 over Ethernet, MPA set-up (RFC 5044
// §7.1, revision 1 with CRC), FPDUs from mpa::Framer, graceful close. It counts what it framed, so that a reader of the
// capture can be checked. Header-only, because benches and unit tests link different rooms.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "mpa/framer.hpp"
#include "parley/time.hpp"
#include "wire/mpa.hpp"
#include "wire/packet.hpp"
#include "wire/rdmap.hpp"

namespace parley::bench {

/// The content of the packets. All FPDUs are good. Both directions carry data, so there are bare acknowledgements only
/// in a set-up, in a close and after a loss.
enum class Mix : std::uint8_t {
  bulk,         ///< 16 connections, an FPDU of 1440 octets in each segment
  small,        ///< 16 connections, an FPDU with 64 octets of payload in each segment
  straddling,   ///< 16 connections, FPDUs of 16 KiB over full segments: boundaries are anywhere
  markers,      ///< 16 connections, markers both ways, FPDUs of 64 to 4000 octets over full segments
  packed,       ///< 16 connections, several whole FPDUs in each segment
  lossy,        ///< 16 connections, some segments late or twice; half of them with FPDUs that straddle segments
  connections,  ///< short connections, 64 at a time: six FPDUs and a close
};
inline constexpr std::array<std::pair<Mix, std::string_view>, 7> mixes{{{Mix::bulk, "bulk 1440"},
                                                                        {Mix::small, "small 64"},
                                                                        {Mix::straddling, "straddling 16 KiB"},
                                                                        {Mix::markers, "markers"},
                                                                        {Mix::packed, "packed"},
                                                                        {Mix::lossy, "lossy"},
                                                                        {Mix::connections, "connections"}}};

struct MixTotals {
  std::uint64_t packets = 0, octets = 0, connections = 0;
  std::uint64_t fpdus = 0;
  std::uint64_t again = 0, late = 0;  ///< segments captured twice; segments captured after later ones
};

class CaptureMix {
 public:
  using Sink = std::function<void(Instant, ConstBytes)>;

  /// Passes about `packets` packets to `sink`; connections that have begun are completed.
  CaptureMix(Mix mix, std::uint64_t packets, Sink sink) : mix_(mix), wanted_(packets), sink_(std::move(sink)) {}

  MixTotals run() {
    std::vector<Flow> flows(mix_ == Mix::connections ? 64 : 16);
    for (Flow& f : flows) open(f);
    bool alive = true;
    while (alive) {
      alive = false;
      for (Flow& f : flows) {
        if (f.stage == Stage::over && !enough() && mix_ == Mix::connections) open(f);
        if (f.stage == Stage::over) continue;
        step(f);
        alive = true;
      }
    }
    return totals_;
  }

 private:
  static constexpr std::size_t segment_max = 1460;
  enum class Stage : std::uint8_t { syn, syn_ack, ack, request, reply, data, fin, fin_back, last_ack, over };
  struct Late {
    std::uint64_t due = 0, at = 0;
    unsigned from = 0;
    bool again = false;  ///< its octets were captured before
    Bytes octets;
  };
  struct End {
    Address address;
    std::uint32_t first_seq = 0;
    std::uint64_t sent = 0;  ///< stream position of the next new octet
    Bytes pending;           ///< framed but not all sent
    std::size_t taken = 0;   ///< octets of `pending` that were sent
    mpa::Framer framer{{}};
    std::uint64_t to = 0;
    std::uint32_t msn = 1, writes = 0;
    std::size_t left() const { return pending.size() - taken; }
  };
  struct Flow {
    Stage stage = Stage::over;
    std::array<End, 2> ends;
    std::uint64_t number = 0, turns = 0;
    std::deque<Late> late;
  };

  bool enough() const { return totals_.packets >= wanted_; }
  std::uint64_t draw(std::uint64_t below) {  // splitmix64
    std::uint64_t z = seed_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) % below;
  }
  bool straddles(const Flow& f) const {
    return mix_ == Mix::straddling || mix_ == Mix::markers || (mix_ == Mix::lossy && f.number % 2 == 1);
  }

  void open(Flow& f) {
    f = Flow{};
    f.number = totals_.connections++;
    f.stage = Stage::syn;
    const mpa::FramerOptions framing{.crc = true, .markers = mix_ == Mix::markers, .emss = segment_max};
    for (unsigned i = 0; i < 2; ++i) {
      End& e = f.ends[i];
      const auto host = static_cast<std::uint8_t>(1 + f.number / 16384 % 120 + i * 121);
      const auto port = i == 1 ? 18515 : static_cast<std::uint16_t>(32768 + f.number % 16384);
      e.address = Address::v4(10, 0, 0, host, static_cast<std::uint16_t>(port));
      e.first_seq = static_cast<std::uint32_t>(draw(1ULL << 32));
      e.framer = mpa::Framer(framing);
    }
  }

  void step(Flow& f) {
    using namespace wire::tcp_flag;
    switch (f.stage) {
      case Stage::syn: packet(f, 0, syn, f.ends[0].first_seq - 1, {}); break;
      case Stage::syn_ack: packet(f, 1, syn | ack, f.ends[1].first_seq - 1, {}); break;
      case Stage::ack: packet(f, 0, ack, f.ends[0].first_seq, {}); break;
      case Stage::request: startup(f, 0, wire::MpaKey::req); break;
      case Stage::reply: startup(f, 1, wire::MpaKey::rep); break;
      case Stage::data:
        if (data(f)) return;
        break;
      case Stage::fin: packet(f, 0, fin | ack, seq_of(f, 0), {}); break;
      case Stage::fin_back: packet(f, 1, fin | ack, seq_of(f, 1), {}); break;
      case Stage::last_ack: packet(f, 0, ack, seq_of(f, 0) + 1, {}); break;
      case Stage::over: return;
    }
    f.stage = static_cast<Stage>(static_cast<int>(f.stage) + 1);
  }

  static std::uint32_t seq_of(const Flow& f, unsigned from) {
    return f.ends[from].first_seq + static_cast<std::uint32_t>(f.ends[from].sent);
  }

  void startup(Flow& f, unsigned from, wire::MpaKey key) {
    const std::uint8_t flags = PARLEY_MPA_FLAG_C | (mix_ == Mix::markers ? PARLEY_MPA_FLAG_M : 0);
    const Bytes frame =
        *wire::MpaFrame{.key = key, .flags = flags, .revision = 1, .enhanced = {}, .private_data = {}}.emit();
    packet(f, from, wire::tcp_flag::ack | wire::tcp_flag::psh, seq_of(f, from), frame);
    f.ends[from].sent += frame.size();
  }

  /// A segment each way; false when all framed octets are sent and no more follow.
  bool data(Flow& f) {
    const bool more = mix_ == Mix::connections ? f.turns < 3 : !enough();
    ++f.turns;
    bool sent = false;
    for (unsigned from = 0; from < 2; ++from) {
      send_late(f, from, !more);
      if (more) fill(f, from);
      if (f.ends[from].left() == 0) continue;
      segment(f, from);
      sent = true;
    }
    return more || sent || !f.late.empty();
  }

  void fill(Flow& f, unsigned from) {
    End& e = f.ends[from];
    if (e.taken == e.pending.size() || e.taken > (64 << 10)) {
      e.pending.erase(e.pending.begin(), e.pending.begin() + static_cast<std::ptrdiff_t>(e.taken));
      e.taken = 0;
    }
    if (straddles(f)) {
      // The first FPDU of a stream fits a segment, which helps readers that recognise streams by their first segment.
      while (e.left() < segment_max)
        frame(f, from, e.msn == 1 ? 512 : mix_ == Mix::straddling ? 16384 - 20 : 40 + draw(3900));
      return;
    }
    if (mix_ != Mix::packed) return frame(f, from, mix_ == Mix::small || mix_ == Mix::connections ? 64 : 1440 - 20);
    for (std::size_t n = 16 + draw(300); e.left() + n + 28 <= segment_max; n = 16 + draw(300)) frame(f, from, n);
  }

  /// One end writes (messages of 64 segments), the other sends (one message each time).
  void frame(Flow& f, unsigned from, std::size_t payload) {
    End& e = f.ends[from];
    wire::DdpHeader h;
    h.tagged = from == 0;
    h.opcode = from == 0 ? wire::RdmapOpcode::rdma_write : wire::RdmapOpcode::send;
    h.last = from == 1 || mix_ == Mix::connections || ++e.writes % 64 == 0;
    h.stag = from == 0 ? 0x1000 : 0;
    h.to = e.to;
    h.msn = e.msn++;
    e.to += payload;
    std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> header{};
    const std::size_t n = h.emit(header);
    payload_.resize(payload);
    for (std::size_t i = 0; i < payload; ++i) payload_[i] = static_cast<std::uint8_t>(i + e.msn);
    const std::size_t before = e.pending.size(), size = e.framer.wire_size(n + payload);
    e.pending.resize(before + size);
    e.framer.frame(ConstBytes(header).first(n), payload_, MutBytes(e.pending).subspan(before));
    ++totals_.fpdus;
  }

  void segment(Flow& f, unsigned from) {
    End& e = f.ends[from];
    const std::size_t n = std::min(e.left(), segment_max);
    const ConstBytes octets = ConstBytes(e.pending).subspan(e.taken, n);
    const std::uint64_t at = e.sent;
    const std::uint64_t fate = mix_ == Mix::lossy && f.turns > 2 ? draw(200) : 200;
    const bool waiting = std::any_of(f.late.begin(), f.late.end(), [&](const Late& l) { return l.from == from; });
    const auto keep = [&](std::uint64_t turns, bool again) {
      f.late.push_back({f.turns + turns, at, from, again, Bytes(octets.begin(), octets.end())});
    };
    if (fate < 3 && !waiting) {  // out of order: a neighbour overtakes it, or it was lost and is retransmitted
      keep(fate < 2 ? 1 : 4, false);
      ++totals_.late;
    } else {
      packet(f, from, wire::tcp_flag::ack | wire::tcp_flag::psh, seq_of(f, from), octets);
      if (fate == 3 && !waiting) keep(2, true), ++totals_.again;
    }
    e.taken += n;
    e.sent += n;
  }

  void send_late(Flow& f, unsigned from, bool all) {
    for (auto it = f.late.begin(); it != f.late.end();) {
      if (it->from != from || (it->due > f.turns && !all)) {
        ++it;
        continue;
      }
      const Late late = std::move(*it);
      it = f.late.erase(it);
      packet(f, from, wire::tcp_flag::ack | wire::tcp_flag::psh,
             f.ends[from].first_seq + static_cast<std::uint32_t>(late.at), late.octets);
    }
  }

  /// The acknowledgement of the end `to`: what it has received without a hole.
  std::uint32_t ack_of(const Flow& f, unsigned to) const {
    const End& peer = f.ends[1 - to];
    std::uint64_t whole = peer.sent;
    for (const Late& l : f.late)
      if (l.from == 1 - to && !l.again) whole = std::min(whole, l.at);
    const std::uint32_t fins = f.stage > Stage::fin && (to == 1 || f.stage > Stage::fin_back) ? 1 : 0;
    return peer.first_seq + static_cast<std::uint32_t>(whole) + fins;
  }

  void packet(Flow& f, unsigned from, std::uint8_t flags, std::uint32_t seq, ConstBytes payload) {
    wire::TcpFrame t;
    t.source = f.ends[from].address;
    t.destination = f.ends[1 - from].address;
    t.seq = seq;
    t.ack = (flags & wire::tcp_flag::ack) != 0 ? ack_of(f, from) : 0;
    t.flags = flags;
    t.mss = (flags & wire::tcp_flag::syn) != 0 ? segment_max : 0;
    t.payload = payload;
    const Bytes octets = *wire::emit_tcp_frame(t);
    ++totals_.packets;
    totals_.octets += octets.size();
    at_ += std::chrono::microseconds(2);
    sink_(at_, octets);
  }

  Mix mix_;
  std::uint64_t wanted_;
  Sink sink_;
  MixTotals totals_;
  std::uint64_t seed_ = 18515;
  Instant at_{std::chrono::seconds(1'700'000'000)};
  Bytes payload_;
};

}  // namespace parley::bench
