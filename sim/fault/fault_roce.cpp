// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/fault_roce.hpp"

#include "base/bytes_io.hpp"
#include "parley/wire/ibcm.h"
#include "sim/fault/fault_frame.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/mad/cm.hpp"
#include "wire/mad/transport.hpp"

namespace parley::sim {
namespace {

using wire::ib::CmMessageType;

// Octets of a member of wire/mad: its offset in its structure, and its size.
#define PARLEY_PLACE(structure, member) wire::mad::structure::member.bit / 8U, wire::mad::structure::member.width / 8U

/// Octets in a header of the transport, IBA §9.2 and §9.3. `header`: one of PARLEY_IB_HEADERS' masks; 0: the BTH.
struct HeaderPlace {
  MessageField field;
  unsigned header;
  std::uint8_t at, size;
};
constexpr HeaderPlace header_places[] = {
    {MessageField::opcode, 0, 0, 1},
    {MessageField::p_key, 0, PARLEY_PLACE(Bth, p_key)},
    {MessageField::qpn, 0, PARLEY_PLACE(Bth, dest_qp)},
    {MessageField::psn, 0, PARLEY_PLACE(Bth, psn)},
    {MessageField::q_key, PARLEY_IB_DETH, PARLEY_PLACE(Deth, q_key)},
    {MessageField::address, PARLEY_IB_RETH, PARLEY_PLACE(Reth, va)},
    {MessageField::address, PARLEY_IB_ATOMIC_ETH, PARLEY_PLACE(AtomicEth, va)},
    {MessageField::r_key, PARLEY_IB_RETH, PARLEY_PLACE(Reth, r_key)},
    {MessageField::r_key, PARLEY_IB_ATOMIC_ETH, PARLEY_PLACE(AtomicEth, r_key)},
    {MessageField::r_key, PARLEY_IB_IETH, PARLEY_PLACE(Ieth, r_key)},
    {MessageField::length, PARLEY_IB_RETH, PARLEY_PLACE(Reth, dma_length)},
    {MessageField::syndrome, PARLEY_IB_AETH, PARLEY_PLACE(Aeth, syndrome)},
    {MessageField::msn, PARLEY_IB_AETH, PARLEY_PLACE(Aeth, msn)},
};

/// Octets of a CM message, counted from the end of the MAD header: IBA §12.6 to §12.11.
struct MessagePlace {
  MessageField field;
  CmMessageType message;
  std::uint8_t at, size;
};
constexpr MessagePlace message_places[] = {
    {MessageField::service_id, CmMessageType::req, PARLEY_PLACE(CmReq, service_id)},
    {MessageField::queue_pair, CmMessageType::req, PARLEY_PLACE(CmReq, local_qpn)},
    {MessageField::starting_psn, CmMessageType::req, PARLEY_PLACE(CmReq, starting_psn)},
    {MessageField::reason, CmMessageType::rej, PARLEY_PLACE(CmRej, reason)},
    {MessageField::queue_pair, CmMessageType::rep, PARLEY_PLACE(CmRep, local_qpn)},
    {MessageField::starting_psn, CmMessageType::rep, PARLEY_PLACE(CmRep, starting_psn)},
    {MessageField::queue_pair, CmMessageType::dreq, PARLEY_PLACE(CmDreq, remote_qpn)},
    {MessageField::service_id, CmMessageType::sidr_req, PARLEY_PLACE(CmSidrReq, service_id)},
    {MessageField::status, CmMessageType::sidr_rep, PARLEY_PLACE(CmSidrRep, status)},
    {MessageField::queue_pair, CmMessageType::sidr_rep, PARLEY_PLACE(CmSidrRep, qpn)},
    {MessageField::service_id, CmMessageType::sidr_rep, PARLEY_PLACE(CmSidrRep, service_id)},
    {MessageField::queue_pair, CmMessageType::lap, PARLEY_PLACE(CmLap, remote_qpn)},
    {MessageField::status, CmMessageType::apr, PARLEY_PLACE(CmApr, status)},
};

#undef PARLEY_PLACE

constexpr std::uint32_t transaction_at = 8, attribute_at = 16;  // in the MAD header, IBA §13.4.2
constexpr std::uint32_t udp_checksum_at = 6;

FrameField private_data_of(CmMessageType message) {
  switch (message) {
#define PARLEY_X(name, attribute, structure, fields, text) \
  case CmMessageType::name:                                \
    return {wire::mad::structure::private_data.bit / 8U, wire::mad::structure::private_data.count};
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
  }
  return {};
}

/// Counted from the MAD header.
FrameField find_in_message(ConstBytes mad, MessageField field) {
  constexpr std::uint32_t body = PARLEY_IB_MAD_HEADER_LEN;
  const auto message = static_cast<CmMessageType>(wire::ib::MadHeader::parse(mad)->attribute_id);
  if (field == MessageField::attribute) return {attribute_at, 2};
  if (field == MessageField::transaction) return {transaction_at, 8};
  if (field == MessageField::local_id) return {body, 4};
  const bool first =
      message == CmMessageType::req || message == CmMessageType::sidr_req || message == CmMessageType::sidr_rep;
  if (field == MessageField::remote_id && !first) return {body + 4, 4};
  if (field == MessageField::private_data) {
    const FrameField found = private_data_of(message);
    return {body + found.at, found.size};
  }
  for (const MessagePlace& place : message_places)
    if (place.field == field && place.message == message) return {body + place.at, place.size};
  return {};
}

std::uint32_t packet_icrc(ConstBytes frame, const FrameLayout& f) {
  const auto crc = wire::ib::icrc(frame.subspan(f.ip, f.payload - f.ip),
                                  frame.subspan(f.payload, f.payload_size - PARLEY_IB_ICRC_LEN));
  return crc ? *crc : 0;
}

template <class Octets>
Octets trailer_of(Octets frame, const FrameLayout& f) {
  return frame.subspan(f.payload + f.payload_size - PARLEY_IB_ICRC_LEN, PARLEY_IB_ICRC_LEN);
}

void make_as_right(MutBytes frame, const FrameLayout& f, std::uint32_t crc_before) {
  const MutBytes trailer = trailer_of(frame, f);
  const std::uint32_t stored = Reader(trailer).le32();
  Writer(trailer).le32(stored ^ crc_before ^ packet_icrc(frame, f));
}

void write_number(MutBytes out, std::uint64_t value) {
  Writer w(out);
  for (std::size_t left = out.size(); left > 0; --left) w.u8(static_cast<std::uint8_t>(value >> 8 * (left - 1)));
}

}  // namespace

std::uint32_t number_size(MessageField field) {
  if (field == MessageField::attribute) return 2;
  if (field == MessageField::transaction) return 8;
  if (field == MessageField::local_id || field == MessageField::remote_id) return 4;
  for (const HeaderPlace& place : header_places)
    if (place.field == field) return place.size;
  for (const MessagePlace& place : message_places)
    if (place.field == field) return place.size;
  return 0;
}

bool icrc_right(const Frame& frame, const FrameLayout& layout) {
  return layout.roce && Reader(trailer_of(frame.octets(), layout)).le32() == packet_icrc(frame.octets(), layout);
}

FrameField find_packet_field(ConstBytes frame, const FrameLayout& f, MessageField field) {
  if (!f.roce || frame.size() < f.payload + f.payload_size) return {};
  const auto packet = wire::ib::Packet::parse(frame.subspan(f.payload, f.payload_size));
  if (!packet) return {};
  const auto content = static_cast<std::uint32_t>(packet->payload.size());
  const std::uint32_t end = f.payload + f.payload_size - PARLEY_IB_ICRC_LEN;
  if (field == MessageField::crc) return {end, PARLEY_IB_ICRC_LEN};
  const std::uint32_t payload = end - packet->bth.pad_count - content;
  if (field == MessageField::payload) return {payload, content};
  const unsigned headers = wire::ib::rule_of(packet->bth.opcode).headers;
  for (const HeaderPlace& place : header_places) {
    if (place.field != field || (place.header != 0 && (headers & place.header) == 0)) continue;
    if (place.header == 0) return {f.payload + place.at, place.size};
    // The masks are in the order of the headers.
    const std::size_t before = wire::ib::size_of_headers(headers & (place.header - 1));
    return {f.payload + PARLEY_IB_BTH_LEN + static_cast<std::uint32_t>(before) + place.at, place.size};
  }
  if (!f.kinds.has(MessageKind::cm_message)) return {};
  const FrameField found = find_in_message(packet->payload, field);
  return {payload + found.at, found.size};
}

std::optional<PacketDamage> damage_packet(Frame& frame, MessageField field, std::optional<std::uint64_t> value,
                                          Rng& rng) {
  const FrameLayout layout = lay_out(frame.octets());
  const FrameField found = find_packet_field(frame.octets(), layout, field);
  if (found.size == 0) return std::nullopt;
  const bool udp_right = transport_sum(frame.octets(), layout, FrameLayout::protocol_udp) == right_sum;
  const std::uint32_t crc_before = packet_icrc(frame.octets(), layout);
  PacketDamage done{.octet = found.at};
  if (value) {
    write_number(frame.octets().subspan(found.at, found.size), *value);
    frame.altered = true;
  } else {
    done.octet += static_cast<std::uint32_t>(rng.below(found.size));
    done.bits = static_cast<std::uint8_t>(1u << rng.below(8));
    flip(frame, done.octet, done.bits);
  }
  if (field != MessageField::crc) make_as_right(frame.octets(), layout, crc_before);
  done.vouched = icrc_right(frame, layout);
  const MutBytes udp_sum = frame.octets().subspan(layout.transport + udp_checksum_at, 2);
  // RFC 768: 0 means that there is no checksum; a computed sum of 0 is sent as all ones.
  if (!udp_right || Reader(udp_sum).be16() == 0) return done;
  Writer(udp_sum).be16(0);
  const std::uint16_t sum = transport_sum(frame.octets(), layout, FrameLayout::protocol_udp);
  Writer(udp_sum).be16(sum != 0 ? sum : std::uint16_t{0xFFFF});
  return done;
}

}  // namespace parley::sim
