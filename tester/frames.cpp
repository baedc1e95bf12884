// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tester/frames.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "mpa/fpdu.hpp"

namespace parley::tester {

Bytes startup(const StartupOctets& frame) {
  const std::size_t enhanced_size = frame.enhanced ? PARLEY_MPA_ENH_LEN : 0;
  const std::size_t pd = enhanced_size + frame.private_data.size();
  Bytes out(PARLEY_MPA_HEADER_LEN + pd + frame.trailing.size());
  Writer w(out);
  const std::size_t key = std::min<std::size_t>(frame.key.size(), PARLEY_MPA_KEY_LEN);
  for (std::size_t i = 0; i < PARLEY_MPA_KEY_LEN; ++i) w.u8(i < key ? static_cast<std::uint8_t>(frame.key[i]) : 0);
  w.u8(frame.flags);
  w.u8(frame.revision);
  w.be16(frame.pd_length.value_or(static_cast<std::uint16_t>(pd)));
  if (frame.enhanced) w.be32(*frame.enhanced);
  w.bytes(frame.private_data);
  w.bytes(frame.trailing);
  return out;
}

Bytes FpduWriter::write(ConstBytes ulpdu, const FpduFaults& faults) {
  const std::size_t size = mpa::fpdu::wire_size(position_, ulpdu.size(), markers_);
  Bytes bare(mpa::fpdu::bare_size(ulpdu.size()) - PARLEY_MPA_CRC_LEN, faults.pad);
  Writer head(bare);
  head.be16(faults.length.value_or(static_cast<std::uint16_t>(ulpdu.size())));
  head.bytes(ulpdu);
  Bytes out(size);
  Writer w(out);
  std::size_t taken = 0;
  // RFC 5044 §4.3: a marker at each stream position divisible by 512. It points back to ULPDU_Length; 0 means that
  // ULPDU_Length comes right after it.
  std::size_t length_at = 0;
  const auto marker = [&] {
    if (!markers_ || (position_ + w.size()) % PARLEY_MPA_MARKER_INTERVAL != 0) return;
    const std::size_t pointer = w.size() - length_at;
    w.be16(faults.marker_reserved);
    w.be16(static_cast<std::uint16_t>(pointer + faults.fpduptr_add));
  };
  while (taken < bare.size()) {
    marker();
    if (taken == 0) length_at = w.size();
    w.bytes(ConstBytes(bare).subspan(taken, 4));
    taken += 4;
  }
  marker();
  // RFC 5044 §4.4: the CRC covers the markers; it is sent least significant octet first.
  const std::uint32_t sum = crc_ ? mpa::crc32c(ConstBytes(out).first(w.size())) : 0;
  w.le32(faults.bad_crc ? sum ^ 1U : sum);
  position_ += out.size();
  return out;
}

Bytes segment(const wire::DdpHeader& header, ConstBytes payload) {
  Bytes out(header.size() + payload.size());
  const std::size_t n = header.emit(out);
  Writer(MutBytes(out).subspan(n)).bytes(payload);
  return out;
}

wire::DdpHeader send_header(std::uint32_t msn) {
  return {.tagged = false, .opcode = wire::RdmapOpcode::send, .qn = PARLEY_DDP_QN_SEND, .msn = msn};
}

wire::DdpHeader write_header(std::uint32_t stag, std::uint64_t to) {
  return {.tagged = true, .opcode = wire::RdmapOpcode::rdma_write, .stag = stag, .to = to};
}

wire::DdpHeader read_response_header(std::uint32_t stag, std::uint64_t to) {
  return {.tagged = true, .opcode = wire::RdmapOpcode::read_response, .stag = stag, .to = to};
}

Bytes read_request(std::uint32_t msn, const wire::ReadRequest& request) {
  Bytes body(PARLEY_RDMAP_READ_REQUEST_LEN);
  request.emit(body);
  return segment({.tagged = false, .opcode = wire::RdmapOpcode::read_request, .qn = PARLEY_DDP_QN_READ, .msn = msn},
                 body);
}

}  // namespace parley::tester
