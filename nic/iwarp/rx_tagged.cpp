// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tagged messages: RDMA Writes into registered memory, Read Responses into the sinks of our own Reads.
#include <fmt/format.h>

#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {

bool Qp::handle_write(Segment& segment) {
  if (segment.header.stag == 0 && refuses_stag_zero_)
    return refuse({1, 1, 0x00}, segment, "RFC 5041 §7.1",
                  "an RDMA Write at STag 0, which this peer refuses at any length");
  if (segment.length == 0) return true;  // RFC 5041 §5.1: STag and TO of a zero-length message are ignored
  const wire::DdpHeader& h = segment.header;
  MrRange range;
  const MrFault fault = check_remote(h.stag, h.to, segment.length, Access::remote_write, range);
  if (fault != MrFault::none) {
    TermCode code{1, 1, 0x00};  // RFC 5041 §7.1
    switch (fault) {
      case MrFault::other_pd: code.code = 0x02; break;
      case MrFault::wrap: code.code = 0x03; break;
      case MrFault::bounds: code.code = 0x01; break;
      case MrFault::access: code = {0, 1, 0x02}; break;  // rights are RDMAP's: RFC 5040 §7.2
      default: break;
    }
    return refuse(code, &segment, {}, code.layer == 0 ? "RFC 5040 §7.2" : "RFC 5041 §7.1",
                  fmt::format("RDMA Write of {} octets at STag 0x{:08x} TO 0x{:x}", segment.length, h.stag, h.to),
                  Errc::protection);
  }
  segment.payload.copy(range.memory);
  return true;
}

bool Qp::handle_read_response(Segment& segment) {
  const wire::DdpHeader& h = segment.header;
  if (rtr_read_out_) {
    // Consumes the answer to our own ready-to-receive indication (RFC 6581 §9.2).
    if (segment.length > 0)
      return refuse({1, 1, 0x01}, segment, "RFC 5040 §5.2", "octets in answer to a zero-length Read");
    if (!h.last) return true;
    rtr_read_out_ = false;
    --fetches_out_;
    if (has_transmit()) mark_dirty();
    return true;
  }
  SendWqe* wqe = oldest_fetch();
  if (!wqe || wqe->kind != SendWqe::Kind::read)
    return refuse({0, 2, 0x06}, segment, "RFC 5040 §5.2", "a Read Response that nothing asked for");
  if (segment.length > 0 && !place_response(segment, *wqe)) return false;
  if (!h.last) return true;
  // RFC 5041 §4.1: the segment with the L bit is sent last.
  if (!read_placed_.exactly(wqe->memory.length)) {
    wqe->status = WcStatus::bad_resp_err;
    return refuse({0, 2, 0x07}, segment, "RFC 5040 §5.2",
                  fmt::format("the last segment of a Read Response at TO 0x{:x}; of {} octets it is whole up to {}",
                              h.to, wqe->memory.length, read_placed_.without_hole()));
  }
  read_placed_.start();
  fetch_answered(*wqe);
  return true;
}

// RFC 5041 §5.3: increasing TO order is only a SHOULD, so a segment may be anywhere in the sink.
bool Qp::place_response(Segment& segment, SendWqe& wqe) {
  const wire::DdpHeader& h = segment.header;
  const bool other = h.stag != wqe.sink_stag;
  const std::uint64_t at = h.to - wqe.sink_to;  // wraps for a TO before the sink, to more than any length
  Placed::Result placed = Placed::Result::again;
  if (!other && at <= wqe.memory.length && segment.length <= wqe.memory.length - at)
    placed = read_placed_.add(static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(segment.length));
  if (placed == Placed::Result::ok) {
    segment.payload.copy(wqe.memory.pieces[0].subspan(static_cast<std::size_t>(at), segment.length));
    return true;
  }
  wqe.status = WcStatus::bad_resp_err;
  if (placed == Placed::Result::full) return too_scattered(segment);
  return refuse({1, 1, static_cast<std::uint8_t>(other ? 0x00 : 0x01)}, segment, "RFC 5041 §7.1",
                fmt::format("Read Response of {} octets at STag 0x{:08x} TO 0x{:x}", segment.length, h.stag, h.to));
}

}  // namespace parley::nic::iwarp
