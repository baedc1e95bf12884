// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whole connections that a seed draws: a set-up of any form, messages of both sides, faults of the peers and faults of
// whoever captured them.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/unit/capture/stories.hpp"

namespace parley::capture::test {

/// One draw to a statement: the order in which a call's arguments are evaluated is the compiler's choice.
class DrawnConnection {
 public:
  explicit DrawnConnection(std::uint64_t seed)
      : rng_(seed), x_(end(seed, seed % 4 == 1), end(seed, seed % 4 != 1), first_number(seed), 900000) {}

  Frames draw() {
    x_.open();
    begun_ = x_.frames.size();
    const std::uint64_t form = rng_.below(8);
    set_up(form);
    for (std::uint64_t n = form == 7 ? rng_.below(2) : rng_.between(1, 9); n > 0 && !ended_; --n) message();
    end();
    for (std::uint64_t n = rng_.below(3); n > 0; --n) capture_fault();
    return std::move(x_.frames);
  }

 private:
  /// The initiator has the lower address or the higher one.
  static Address end(std::uint64_t seed, bool b) { return b ? end_b(seed % 7 == 3) : end_a(seed % 7 == 3); }
  static std::uint32_t first_number(std::uint64_t seed) {
    return seed % 5 == 0 ? 0xFFFFFF00 : static_cast<std::uint32_t>(1000 + seed * 0x01234567);
  }
  bool one_in(std::uint64_t n) { return rng_.below(n) == 0; }
  std::uint8_t bit_of(std::uint8_t all) {
    std::uint8_t bit = 0;
    while (bit == 0) bit = static_cast<std::uint8_t>(all & (1U << rng_.below(8)));
    return bit;
  }
  std::size_t mss() { return one_in(4) ? 1 + rng_.below(30) : 1460; }

  // 0 to 2: revision 1; 3 to 6: revision 2; 7: rejected.
  void set_up(std::uint64_t form) {
    constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;
    crc_ = !one_in(4);
    const bool second = form >= 3 && form < 7, rtr_frame = form == 2;
    for (bool& m : markers_) m = one_in(4);
    const auto common = static_cast<std::uint8_t>((crc_ ? C : 0) | (second || rtr_frame ? S : 0));
    auto request = static_cast<std::uint8_t>(common | (markers_[1] ? M : 0));
    auto reply = static_cast<std::uint8_t>(common | (markers_[0] ? M : 0) | (form == 7 ? R : 0));
    wire::MpaEnhanced asked{.ird = static_cast<std::uint16_t>(rng_.between(1, 9)),
                            .ord = static_cast<std::uint16_t>(rng_.between(1, 9))};
    asked.a = one_in(2);
    const std::uint64_t offered = asked.a ? rng_.between(one_in(8) ? 0 : 1, 7) : one_in(20) ? 2 : 0;
    asked.b = (offered & 1) != 0, asked.c = (offered & 2) != 0, asked.d = (offered & 4) != 0;
    wire::MpaEnhanced answered{.a = asked.a, .ird = asked.ord, .ord = asked.ird};
    for (std::uint64_t chosen = one_in(10) ? 3 : rng_.below(3), tries = 0; tries < 3;
         ++tries, chosen = (chosen + 1) % 3) {
      answered.b = asked.b && chosen == 0, answered.c = asked.c && chosen == 1, answered.d = asked.d && chosen == 2;
      if (answered.b || answered.c || answered.d || chosen == 3) break;
    }
    if (one_in(6)) answered.ord = static_cast<std::uint16_t>(rng_.below(12));
    if (one_in(6)) answered.ird = static_cast<std::uint16_t>(rng_.below(12));
    if (one_in(10)) request ^= bit_of(0xFF);
    if (one_in(10)) reply ^= bit_of(0xFF);
    const auto revision = static_cast<std::uint8_t>(second ? 2 : 1);
    const auto some = [&] { return Bytes(one_in(3) ? rng_.below(40) : 0, 'p'); };
    const auto depths = [&](const wire::MpaEnhanced& e) { return second ? std::optional(e) : std::nullopt; };
    const bool same_revision = !one_in(12);
    std::size_t segment = mss();
    x_.send(0, startup(wire::MpaKey::req, request, revision, depths(asked), some()), segment);
    if (one_in(25)) x_.send(0, Bytes(rng_.between(1, 3), 'x'));  // nothing may follow yet
    if (one_in(10)) x_.wait(std::chrono::seconds(rng_.between(1, 12)));
    segment = mss();
    x_.send(1, startup(wire::MpaKey::rep, reply, same_revision ? revision : std::uint8_t{1}, depths(answered), some()),
            segment);
    if (rtr_frame && !one_in(4)) x_.send(0, startup(wire::MpaKey::rtr, 0, 1));
    if (second && asked.a && !one_in(5)) ready(answered);
  }

  void ready(const wire::MpaEnhanced& answered) {
    if (answered.b) untagged_message(0, wire::RdmapOpcode::send, 0, {});
    if (answered.c) say(0, tagged(wire::RdmapOpcode::rdma_write, 0, 0, 0));
    if (!answered.d) return;
    say(0, read_request(++msn_[0][1], {1, 0, 0, 1, 0}));
    say(1, tagged(wire::RdmapOpcode::read_response, 1, 0, 0));
  }

  void say(unsigned from, Bytes ulpdu) {
    if (one_in(40)) ulpdu[rng_.below(std::min<std::size_t>(ulpdu.size(), 18))] ^= bit_of(0xFF);
    Bytes f = fpdu(ulpdu, at_[from], markers_[from], crc_);
    if (one_in(40)) f[rng_.below(f.size())] ^= bit_of(0xFF);
    if (markers_[from] && one_in(20)) leave_out_marker(f, at_[from]);
    at_[from] += f.size();
    Bytes& kept = waiting_[from];
    kept.insert(kept.end(), f.begin(), f.end());
    if (one_in(6)) return;  // goes with the next one
    x_.send(from, std::exchange(kept, {}), mss());
    if (one_in(5)) x_.acknowledge(1 - from);
    if (one_in(30)) x_.wait(std::chrono::seconds(rng_.between(1, 40)));
  }

  /// A sender that forgets a marker computes its CRC without it (RFC 5044 §4.3).
  void leave_out_marker(Bytes& f, std::uint64_t position) const {
    const std::uint64_t first = (512 - position % 512) % 512;
    if (first + 12 > f.size()) return;
    f.erase(f.begin() + static_cast<std::ptrdiff_t>(first), f.begin() + static_cast<std::ptrdiff_t>(first + 4));
    if (!crc_) return;
    std::uint32_t crc = mpa::crc32c(ConstBytes(f).first(f.size() - 4));
    for (std::size_t i = f.size() - 4; i < f.size(); ++i, crc >>= 8) f[i] = static_cast<std::uint8_t>(crc);
  }

  void untagged_message(unsigned from, wire::RdmapOpcode opcode, std::uint32_t qn, const Bytes& body,
                        std::size_t piece = 100000) {
    wire::DdpHeader h;
    h.opcode = opcode;
    h.qn = qn;
    h.msn = ++msn_[from][qn];
    if (one_in(25)) h.msn += static_cast<std::uint32_t>(rng_.below(3)) - 1;
    if (one_in(60)) h.qn += 1;
    if (opcode == wire::RdmapOpcode::send_inv) h.stag = 0x77;
    for (std::size_t at = 0; at == 0 || at < body.size(); at += piece) {
      const std::size_t n = std::min(piece, body.size() - at);
      h.mo = static_cast<std::uint32_t>(at);
      if (one_in(40)) h.mo += 1;
      h.last = at + n == body.size();
      if (one_in(50)) h.last = !h.last;
      say(from, segment(h, ConstBytes(body).subspan(at, n)));
    }
  }

  void read(unsigned from) {
    const auto id = static_cast<std::uint32_t>(rng_.between(1, 9));
    const auto size = static_cast<std::uint32_t>(rng_.below(60));
    say(from, read_request(++msn_[from][1], {id, 0x1000, size, id + 7, 0x2000}));
    if (one_in(5)) untagged_message(1 - from, wire::RdmapOpcode::send, 0, Bytes(rng_.below(9)));
    if (one_in(8)) return;
    const std::uint32_t split = one_in(3) ? size / 2 : 0;
    const std::uint32_t wrong = one_in(10) ? 1 : 0;
    if (split > 0) say(1 - from, tagged(wire::RdmapOpcode::read_response, id, 0x1000, split, false));
    const std::uint32_t more = one_in(12) ? 1 : 0;
    const std::uint32_t named = one_in(15) ? id + 1 : id;
    say(1 - from, tagged(wire::RdmapOpcode::read_response, named, 0x1000 + split + wrong, size - split + more));
  }

  void atomic(unsigned from) {
    const auto id = static_cast<std::uint32_t>(rng_.between(1, 9));
    say(from, atomic_request(++msn_[from][1], id));
    if (!one_in(6)) say(1 - from, atomic_response(++msn_[1 - from][3], one_in(8) ? id + 1 : id));
  }

  void message() {
    const auto from = static_cast<unsigned>(rng_.below(2));
    const auto some = [&] { return Bytes(rng_.below(one_in(6) ? 700 : 40), 's'); };
    switch (rng_.below(12)) {
      case 0:
      case 1:
      case 2: return untagged_message(from, wire::RdmapOpcode::send, 0, some());
      case 3: {
        const std::size_t piece = 1 + rng_.below(20);
        return untagged_message(from, wire::RdmapOpcode::send_se, 0, some(), piece);
      }
      case 4: return untagged_message(from, wire::RdmapOpcode::send_inv, 0, some());
      case 5: return untagged_message(from, wire::RdmapOpcode::immediate, 0, Bytes(one_in(5) ? rng_.below(12) : 8));
      case 6:
      case 7: {
        const std::size_t first = one_in(2) ? rng_.below(20) : 0;
        const auto stag = static_cast<std::uint32_t>(rng_.between(1, 9));
        if (first > 0) say(from, tagged(wire::RdmapOpcode::rdma_write, stag, 0x500, first, false));
        return say(from, tagged(wire::RdmapOpcode::rdma_write, stag, 0x500 + first, rng_.below(90)));
      }
      case 8:
      case 9: return read(from);
      case 10: return atomic(from);
      default: return one_in(3) ? give_up(from) : untagged_message(from, wire::RdmapOpcode::send, 0, some());
    }
  }

  /// A Terminate of any error, about what the other side sent or not.
  void give_up(unsigned from) {
    const std::uint64_t layer = rng_.below(3), type = rng_.below(4);
    const auto kind = static_cast<std::uint8_t>(layer << 4 | type);
    const auto code = static_cast<std::uint8_t>(one_in(4) ? 0xFF : rng_.below(10));
    const Bytes of = one_in(2) ? send_segment(1, 4) : tagged(wire::RdmapOpcode::rdma_write, 5, 0x100, 4);
    const std::uint8_t bits = one_in(2) ? PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D : 0;
    say(from, terminate(kind, code, bits, bits != 0 ? of : Bytes{}));
    ended_ = !one_in(4);
  }

  void end() {
    const auto first = static_cast<unsigned>(rng_.below(2));
    x_.send(1 - first, std::exchange(waiting_[1 - first], {}));
    if (const Bytes last = std::exchange(waiting_[first], {}); one_in(2) && !last.empty() && last.size() <= 1460) {
      x_.add(first, wire::tcp_flag::fin | wire::tcp_flag::ack, last);  // the last octets and the FIN in one
      x_.seq(first) += static_cast<std::uint32_t>(last.size()) + 1;
      if (one_in(2)) x_.fin(1 - first);
      return;
    } else {
      x_.send(first, last);
    }
    switch (rng_.below(8)) {
      case 0: break;
      case 1: x_.rst(first); break;
      case 2: x_.fin(first); break;
      case 3: x_.fin(first).wait(std::chrono::seconds(rng_.below(70))).rst(1 - first); break;
      case 4: x_.wait(std::chrono::seconds(rng_.below(70))).fin(first).fin(1 - first); break;
      default: x_.fin(first).fin(1 - first).acknowledge(first); break;
    }
  }

  /// The capture lacks, doubles, cuts or moves a packet, or begins or ends elsewhere.
  void capture_fault() {
    Frames& f = x_.frames;
    if (f.size() < 4) return;
    const std::size_t at = rng_.between(one_in(4) ? 0 : std::min(begun_, f.size() - 1), f.size() - 1);
    const auto place = f.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng_.below(9)) {
      case 0:
      case 1:
      case 2: f.erase(place); break;
      case 3: f.insert(f.begin() + static_cast<std::ptrdiff_t>(rng_.between(at, f.size())), Frame(*place)); break;
      case 4: std::swap(f[at], f[rng_.between(at, std::min(f.size() - 1, at + 3))]); break;
      case 5:
      case 6: {
        const std::size_t headers = f[at].octets[12] == 0x86 ? 74 : 54;
        f[at].original_length = static_cast<std::uint32_t>(f[at].octets.size());
        if (f[at].octets.size() > headers) f[at].octets.resize(rng_.between(headers, f[at].octets.size()));
        break;
      }
      case 7: f.resize(std::max<std::size_t>(at, 4)); break;
      default:
        if (one_in(3)) f.erase(f.begin(), f.begin() + static_cast<std::ptrdiff_t>(rng_.below(f.size() / 2)));
    }
  }

  Rng rng_;
  Exchange x_;
  bool crc_ = true, ended_ = false;
  std::size_t begun_ = 0;
  std::array<bool, 2> markers_{};  // in what each side sends
  std::array<std::uint64_t, 2> at_{};
  std::array<Bytes, 2> waiting_;
  std::array<std::array<std::uint32_t, 5>, 2> msn_{};
};

}  // namespace parley::capture::test
