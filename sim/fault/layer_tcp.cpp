// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// TCP (RFC 9293 §3.1): segments by their flags and whether they carry octets.
#include "base/bytes_io.hpp"
#include "sim/fault/layer.hpp"
#include "sim/fault/message_kind_frame.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using wire::protocol_tcp;

constexpr KindRow kinds[] = {
    {.kind = MessageKind::tcp_syn, .name = "syn", .word = "tcp_syn"},
    {.kind = MessageKind::tcp_syn_ack, .name = "syn_ack", .word = "tcp_syn_ack"},
    {.kind = MessageKind::tcp_ack, .name = "ack", .word = "tcp_ack"},
    {.kind = MessageKind::tcp_fin, .name = "fin", .word = "tcp_fin"},
    {.kind = MessageKind::tcp_rst, .name = "rst", .word = "tcp_rst", .ends = true},
    {.kind = MessageKind::tcp_data, .name = "data", .word = "tcp_data"},
};

// The last mark is the frame's one-word name, so rarer kinds come later.
void mark(FrameLayout& out) {
  using namespace wire::tcp_flag;
  const bool has_syn = (out.flags & syn) != 0, has_ack = (out.flags & ack) != 0;
  if (out.payload_size == 0 && has_ack && (out.flags & (syn | fin | rst)) == 0) out.mark(MessageKind::tcp_ack);
  if (out.payload_size != 0) out.mark(MessageKind::tcp_data);
  if ((out.flags & fin) != 0) out.mark(MessageKind::tcp_fin);
  if (has_syn) out.mark(has_ack ? MessageKind::tcp_syn_ack : MessageKind::tcp_syn);
  if ((out.flags & rst) != 0) out.mark(MessageKind::tcp_rst);
}

/// `segment`: the whole TCP segment.
void classify(ConstBytes segment, FrameLayout& out) {
  Reader r(segment);
  r.skip(4);
  out.seq = r.be32();
  out.ack = r.be32();
  const std::uint32_t header = static_cast<std::uint32_t>(r.u8() >> 4) * 4;
  out.flags = r.u8() & 0x3F;
  if (header < wire::tcp_header || header > segment.size())
    return;  // also rejects a truncated one, which is shorter
             // than any header
  out.tcp = true;
  out.payload = out.transport + header;
  out.payload_size = static_cast<std::uint32_t>(segment.size()) - header;
  mark(out);
}

}  // namespace

constinit const LayerTable tcp_layer{.layer = Layer::tcp,
                                     .name = "tcp",
                                     .role = LayerRole::transport,
                                     .carrier = Carrier::ip,
                                     .number = protocol_tcp,
                                     .kinds = kinds,
                                     .classify = classify};

}  // namespace parley::sim
