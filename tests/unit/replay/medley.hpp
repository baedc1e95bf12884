// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tests of replay: one recording with a bit of everything that names memory or is numbered.
#pragma once
#include "base/bytes_io.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::replay::test {

/// The memory that a medley names: of the initiator in private data and in a Send, of the responder in its Reply.
struct MedleyNames {
  std::uint32_t early = 0x1111, late = 0x2222, served = 0x3333;
  std::uint64_t early_to = 0x10000, late_to = 0x20000, served_to = 0x30000;
  std::uint32_t sink = 0x11;
};

inline capture::test::Exchange medley(const MedleyNames& n = {}) {
  using capture::test::fpdu;
  using capture::test::read_request;
  using capture::test::segment;
  using capture::test::startup;
  using capture::test::tagged;
  using wire::RdmapOpcode;
  const auto named = [](std::uint32_t stag, std::uint64_t to) {  // STag, then TO
    Bytes out(12);
    Writer w(out);
    w.be32(stag);
    w.be64(to);
    return out;
  };
  capture::test::Exchange x;
  const std::uint8_t s = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S;
  x.open()
      .send(0, startup(wire::MpaKey::req, s, 2, wire::MpaEnhanced{.ird = 4, .ord = 2}, named(n.early, n.early_to)))
      .send(1, startup(wire::MpaKey::rep, s, 2, wire::MpaEnhanced{.ird = 2, .ord = 4}, named(n.served, n.served_to)));
  const auto untagged = [&](unsigned from, RdmapOpcode opcode, std::uint32_t qn, std::uint32_t msn,
                            const Bytes& payload, std::uint32_t stag = 0, std::uint32_t mo = 0, bool last = true) {
    wire::DdpHeader h;
    h.last = last;
    h.opcode = opcode;
    h.stag = stag;
    h.qn = qn;
    h.msn = msn;
    h.mo = mo;
    x.send(from, fpdu(segment(h, payload)));
  };
  const auto placed = [&](unsigned from, RdmapOpcode opcode, std::uint32_t stag, std::uint64_t to, std::size_t size,
                          bool last = true) { x.send(from, fpdu(tagged(opcode, stag, to, size, last))); };
  Bytes little(24);  // TO and STag, least significant octet first
  Writer w(little);
  w.be64(0);
  w.le64(n.late_to);
  w.le32(n.late);
  untagged(0, RdmapOpcode::send, 0, 1, little);
  placed(1, RdmapOpcode::rdma_write, n.early, n.early_to + 16, 60, false);
  placed(1, RdmapOpcode::rdma_write, n.early, n.early_to + 76, 40);
  x.send(1, fpdu(read_request(1, {n.sink, 0x1000, 300, n.late, n.late_to})));
  x.send(1, fpdu(read_request(2, {n.sink + 1, 0x2000, 40, n.early, n.early_to})));
  placed(0, RdmapOpcode::read_response, n.sink, 0x1000, 200, false);
  placed(0, RdmapOpcode::read_response, n.sink, 0x1000 + 200, 100);
  placed(0, RdmapOpcode::read_response, n.sink + 1, 0x2000, 40);
  untagged(1, RdmapOpcode::send_inv, 0, 1, Bytes(8, 1), n.late);
  untagged(1, RdmapOpcode::send_se_inv, 0, 2, Bytes(30, 2), n.early, 0, false);
  untagged(1, RdmapOpcode::send_se_inv, 0, 2, Bytes(10, 3), n.early, 30);
  x.send(0, fpdu(read_request(1, {0x99, 0x4000, 50, n.served, n.served_to})));
  placed(1, RdmapOpcode::read_response, 0x99, 0x4000, 50);
  Bytes ask(PARLEY_RDMAP_ATOMIC_REQUEST_LEN), answer(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
  wire::AtomicRequest{.aop = PARLEY_RDMAP_ATOMIC_FETCH_ADD,
                      .request_id = 7,
                      .stag = n.served,
                      .to = n.served_to + 8,
                      .add_swap = 5,
                      .compare_mask = ~0ULL}
      .emit(ask);
  wire::AtomicResponse{7, 100}.emit(answer);
  untagged(0, RdmapOpcode::atomic_request, 1, 2, ask);
  untagged(1, RdmapOpcode::atomic_response, 3, 1, answer);
  untagged(0, RdmapOpcode::immediate, 0, 2, Bytes(8, 4));
  untagged(0, RdmapOpcode::send_se, 0, 3, Bytes(5, 6));
  untagged(1, RdmapOpcode::immediate_se, 0, 3, Bytes(8, 5));
  Bytes like_atomic(60, 9);  // octets that mean nothing, where an Atomic Request names memory
  Writer(MutBytes(like_atomic).subspan(8)).be32(n.early);
  untagged(1, RdmapOpcode::send, 0, 4, like_atomic);
  untagged(0, RdmapOpcode::terminate, 2, 1, Bytes{0x20, 0x02, 0, 0});
  x.close();
  return x;
}

/// Reads and Atomics in a row, their answers in a row too: two Reads into one place, one answered in three segments.
inline capture::test::Exchange many_answers() {
  using capture::test::fpdu;
  using capture::test::read_request;
  using capture::test::segment;
  using capture::test::tagged;
  using wire::RdmapOpcode;
  capture::test::Exchange x;
  x.set_up();
  const auto untagged = [&](unsigned from, RdmapOpcode opcode, std::uint32_t qn, std::uint32_t msn,
                            const Bytes& payload) {
    wire::DdpHeader h;
    h.opcode = opcode;
    h.qn = qn;
    h.msn = msn;
    x.send(from, fpdu(segment(h, payload)));
  };
  const auto atomic = [&](unsigned from, std::uint32_t msn) {
    Bytes ask(PARLEY_RDMAP_ATOMIC_REQUEST_LEN), answer(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
    wire::AtomicRequest{.request_id = 70 + msn, .stag = 0x33, .to = 0x3000 + 8 * msn, .add_swap = msn}.emit(ask);
    wire::AtomicResponse{70 + msn, 100 + msn}.emit(answer);
    if (from == 0)
      untagged(0, RdmapOpcode::atomic_request, 1, msn, ask);
    else
      untagged(1, RdmapOpcode::atomic_response, 3, msn < 3 ? msn : 2, answer);
  };
  untagged(0, RdmapOpcode::send, 0, 1, Bytes(4, 1));
  x.send(1, fpdu(read_request(1, {0x11, 0x1000, 120, 0x22, 0x2000})));
  x.send(1, fpdu(read_request(2, {0x11, 0x1000, 120, 0x22, 0x2000})));
  x.send(1, fpdu(read_request(3, {0x11, 0x5000, 90, 0x22, 0x2000})));
  x.send(1, fpdu(read_request(4, {0x11, 0x3000, 50, 0x22, 0x2000})));
  atomic(0, 1);
  x.send(0, fpdu(read_request(2, {0x44, 0x4000, 30, 0x33, 0x3000})));
  atomic(0, 3);
  for (int i = 0; i < 2; ++i) {
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000, 60, false)));
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x1000 + 60, 60)));
  }
  atomic(1, 1);
  x.send(1, fpdu(tagged(RdmapOpcode::read_response, 0x44, 0x4000, 30)));
  atomic(1, 3);
  for (std::uint32_t at = 0; at < 90; at += 30)
    x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x5000 + at, 30, at == 60)));
  x.send(0, fpdu(tagged(RdmapOpcode::read_response, 0x11, 0x3000, 50)));
  untagged(0, RdmapOpcode::send, 0, 2, Bytes(4, 2));
  untagged(1, RdmapOpcode::send, 0, 1, Bytes(4, 3));
  x.close();
  return x;
}

/// Messages of two segments, and an FPDU that TCP cut, with an answer to what came before in between.
inline capture::test::Exchange cut_by_tcp() {
  using capture::test::fpdu;
  using capture::test::send_segment;
  using capture::test::tagged;
  capture::test::Exchange x;
  x.set_up();
  const auto half = [](const Bytes& of, bool second) {
    const auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    return second ? Bytes(middle, of.end()) : Bytes(of.begin(), middle);
  };
  const Bytes cut = fpdu(send_segment(2, 40));
  x.send(0, fpdu(send_segment(1, 20, 0, false)));
  x.send(0, fpdu(send_segment(1, 10, 20)));
  x.send(0, fpdu(tagged(wire::RdmapOpcode::rdma_write, 5, 0x1000, 30, false)));
  x.send(1, fpdu(send_segment(1, 6)));
  x.send(0, fpdu(tagged(wire::RdmapOpcode::rdma_write, 5, 0x1000 + 30, 30)));
  x.send(0, half(cut, false)).send(1, fpdu(send_segment(2, 7))).send(0, half(cut, true));
  x.send(1, fpdu(send_segment(3, 8)));
  x.close();
  return x;
}

}  // namespace parley::replay::test
