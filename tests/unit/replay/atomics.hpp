// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tests of replay: a recording with what RFC 7306 adds.
#pragma once
#include "base/bytes_io.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::replay::test {

/// RFC 7306: the initiator's Atomics on memory that the responder announces, Immediate Data both ways.
inline capture::test::Exchange atomics(std::uint32_t stag, std::uint64_t to, std::uint32_t first_id,
                                       std::uint64_t value) {
  using capture::test::fpdu;
  using capture::test::segment;
  using wire::RdmapOpcode;
  capture::test::Exchange x;
  wire::DdpHeader told;
  told.msn = 1;
  Bytes names(16);  // rping's announcement: TO, STag, length
  Writer w(names);
  w.be64(to);
  w.be32(stag);
  w.be32(64);
  x.set_up().send(0, fpdu(capture::test::send_segment(1, 4))).send(1, fpdu(segment(told, names)));
  for (std::uint32_t n = 0; n < 3; ++n) {
    wire::DdpHeader h;
    h.opcode = RdmapOpcode::atomic_request;
    h.qn = 1;
    h.msn = n + 1;
    Bytes ask(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
    wire::AtomicRequest{.aop = PARLEY_RDMAP_ATOMIC_FETCH_ADD,
                        .request_id = first_id + n,
                        .stag = stag,
                        .to = to + 8,
                        .add_swap = 5,
                        .compare_mask = ~0ULL}  // of FetchAdd: RFC 7306 §5.1.1

        .emit(ask);
    x.send(0, fpdu(segment(h, ask)));
    h.opcode = RdmapOpcode::atomic_response;
    h.qn = 3;
    Bytes answer(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
    wire::AtomicResponse{first_id + n, value + 5 * n}.emit(answer);
    x.send(1, fpdu(segment(h, answer)));
  }
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::immediate;
  h.msn = 2;
  x.send(0, fpdu(segment(h, Bytes{1, 2, 3, 4, 5, 6, 7, 8})));
  h.opcode = RdmapOpcode::immediate_se;
  x.send(1, fpdu(segment(h, Bytes{8, 7, 6, 5, 4, 3, 2, 1})));
  x.close();
  return x;
}

}  // namespace parley::replay::test
