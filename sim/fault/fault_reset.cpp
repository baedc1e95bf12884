// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <array>

#include "base/bytes_io.hpp"
#include "sim/fault/fault.hpp"
#include "sim/fault/fault_frame.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using wire::ethernet_header, wire::ipv4_header, wire::ipv6_header, wire::tcp_header;

struct Reset {
  bool back = false;  // sent to the sender of the frame
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;
};

/// Headers as in `frame`, without options, and reversed if the reset goes back.
FramePtr make_reset(FramePool& pool, const Frame& frame, const FrameLayout& f, const Reset& reset) {
  const std::uint32_t ip_header = f.ipv6 ? ipv6_header : ipv4_header;
  FramePtr out = pool.take(ethernet_header + ip_header + tcp_header);
  const ConstBytes in = frame.octets();
  Writer w(out->octets());
  const auto pair = [&](ConstBytes both) {
    const std::size_t half = both.size() / 2;
    w.bytes(reset.back ? both.last(half) : both.first(half));
    w.bytes(reset.back ? both.first(half) : both.last(half));
  };
  pair(in.first(12));
  w.bytes(in.subspan(12, 2));
  if (f.ipv6) {
    w.be32(0x60000000);
    w.be16(tcp_header);
    w.bytes(in.subspan(f.ip + 6, 2));  // next header, hop limit
    pair(in.subspan(f.ip + 8, 32));
  } else {
    w.be16(0x4500);
    w.be16(ipv4_header + tcp_header);
    w.be32(0x00004000);                // do not fragment
    w.bytes(in.subspan(f.ip + 8, 2));  // time to live, protocol
    w.be16(0);
    pair(in.subspan(f.ip + 12, 8));
  }
  pair(in.subspan(f.transport, 4));
  w.be32(reset.seq);
  w.be32(reset.ack);
  w.u8(tcp_header / 4 << 4);
  w.u8(reset.flags);
  w.be16(0);  // window
  w.be32(0);  // checksum, urgent pointer
  FrameLayout layout = lay_out(out->octets());
  write_checksums(*out, layout);
  return out;
}

}  // namespace

std::pair<FramePtr, FramePtr> FaultInjector::make_resets(FramePool& pool, const Frame& frame) {
  using namespace wire::tcp_flag;
  const FrameLayout f = lay_out(frame.octets());
  if (!f.tcp || (f.flags & rst) != 0) return {};
  const std::uint32_t length = f.payload_size + ((f.flags & syn) != 0 ? 1 : 0) + ((f.flags & fin) != 0 ? 1 : 0);
  const bool acks = (f.flags & ack) != 0;
  Reset onward, back;
  onward.seq = f.seq + length;
  onward.ack = f.ack;
  onward.flags = static_cast<std::uint8_t>(rst | (acks ? ack : 0));
  // RFC 9293 §3.10.7.1: a RST takes its sequence number from the ACK field; without one it is 0 and acknowledges.
  back.back = true;
  back.seq = acks ? f.ack : 0;
  back.ack = f.seq + length;
  back.flags = rst | ack;
  FramePtr first = make_reset(pool, frame, f, onward);
  FramePtr second = make_reset(pool, frame, f, back);
  return {std::move(first), std::move(second)};
}

}  // namespace parley::sim
