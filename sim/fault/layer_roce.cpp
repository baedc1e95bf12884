// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCEv2 (IBA Annex A17): the transport's packets by their function (IBA vol. 1 §9.2.1, §9.7.5), and the InfiniBand
// CM's messages (§12.6 to §12.11), which are datagrams to QP 1. Only headers are read: the receiver checks the ICRC,
// like checksums.
#include "base/bytes_io.hpp"
#include "parley/wire/ibcm.h"
#include "sim/fault/layer.hpp"
#include "sim/fault/message_kind_frame.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using F = MessageField;
using wire::ib::Operation;
using wire::ib::Packet;
using wire::ib::Service;

constexpr PacketFields of_all{F::opcode, F::p_key, F::qpn, F::psn, F::crc};
constexpr PacketFields of_sends = of_all + PacketFields{F::payload, F::r_key};
constexpr PacketFields of_datagrams = of_all + PacketFields{F::payload, F::q_key};
constexpr PacketFields of_reads = of_all + PacketFields{F::address, F::r_key, F::length};
constexpr PacketFields of_writes = of_reads + PacketFields{F::payload};
constexpr PacketFields of_atomics = of_all + PacketFields{F::address, F::r_key};
constexpr PacketFields of_acks = of_all + PacketFields{F::syndrome, F::msn};
constexpr PacketFields of_responses = of_acks + PacketFields{F::payload};

constexpr KindRow packet_row(MessageKind kind, std::string_view word, PacketFields fields) {
  return {.kind = kind, .name = word.substr(word.find('_') + 1), .word = word, .packet_fields = fields};
}
/// Kinds that occur in few runs, or in no scenario's run: a fault drawn for them would rarely hit.
constexpr KindRow rare_row(MessageKind kind, std::string_view word, PacketFields fields) {
  KindRow row = packet_row(kind, word, fields);
  row.drawn = false;
  return row;
}

constexpr KindRow packet_kinds[] = {
    packet_row(MessageKind::roce_packet, "roce_packet", of_writes + of_responses + of_datagrams),
    packet_row(MessageKind::roce_send, "roce_send", of_sends),
    rare_row(MessageKind::roce_datagram, "roce_datagram", of_datagrams),
    packet_row(MessageKind::roce_write, "roce_write", of_writes),
    packet_row(MessageKind::roce_read_request, "roce_read_request", of_reads),
    packet_row(MessageKind::roce_read_response, "roce_read_response", of_responses),
    rare_row(MessageKind::roce_atomic, "roce_atomic", of_atomics),
    rare_row(MessageKind::roce_atomic_ack, "roce_atomic_ack", of_acks),
    packet_row(MessageKind::roce_ack, "roce_ack", of_acks),
    packet_row(MessageKind::roce_nak, "roce_nak", of_acks),
    packet_row(MessageKind::roce_nak_sequence, "roce_nak_sequence", of_acks),
    rare_row(MessageKind::roce_nak_request, "roce_nak_request", of_acks),
    rare_row(MessageKind::roce_nak_access, "roce_nak_access", of_acks),
    rare_row(MessageKind::roce_nak_operational, "roce_nak_operational", of_acks),
    rare_row(MessageKind::roce_nak_rnr, "roce_nak_rnr", of_acks),
    rare_row(MessageKind::roce_cnp, "roce_cnp", of_all + PacketFields{F::payload}),
};

constexpr PacketFields of_messages =
    of_datagrams + PacketFields{F::attribute, F::transaction, F::local_id, F::private_data};
constexpr PacketFields of_answers = of_messages + PacketFields{F::remote_id};
constexpr PacketFields of_set_up{F::queue_pair, F::starting_psn};

constexpr KindRow cm_kinds[] = {
    packet_row(MessageKind::cm_message, "cm_message",
               of_answers + of_set_up + PacketFields{F::service_id, F::reason, F::status}),
    packet_row(MessageKind::cm_req, "cm_req", of_messages + of_set_up + PacketFields{F::service_id}),
    packet_row(MessageKind::cm_mra, "cm_mra", of_answers),
    packet_row(MessageKind::cm_rej, "cm_rej", of_answers + PacketFields{F::reason}),
    packet_row(MessageKind::cm_rep, "cm_rep", of_answers + of_set_up),
    packet_row(MessageKind::cm_rtu, "cm_rtu", of_answers),
    packet_row(MessageKind::cm_dreq, "cm_dreq", of_answers + PacketFields{F::queue_pair}),
    packet_row(MessageKind::cm_drep, "cm_drep", of_answers),
    rare_row(MessageKind::cm_sidr_req, "cm_sidr_req", of_messages + PacketFields{F::service_id}),
    rare_row(MessageKind::cm_sidr_rep, "cm_sidr_rep",
             of_messages + PacketFields{F::service_id, F::queue_pair, F::status}),
    rare_row(MessageKind::cm_lap, "cm_lap", of_answers + PacketFields{F::queue_pair}),
    rare_row(MessageKind::cm_apr, "cm_apr", of_answers + PacketFields{F::status}),
};

void mark_nak(std::uint8_t code, FrameLayout& out) {
  using wire::ib::Nak;
  switch (static_cast<Nak>(code)) {
    case Nak::psn_sequence_error: return out.mark(MessageKind::roce_nak_sequence);
    case Nak::invalid_request: return out.mark(MessageKind::roce_nak_request);
    case Nak::remote_access_error: return out.mark(MessageKind::roce_nak_access);
    case Nak::remote_operational_error: return out.mark(MessageKind::roce_nak_operational);
    default: return;
  }
}

// IBA §9.7.5.1: the upper bits of the syndrome distinguish ACK, RNR NAK and NAK.
void mark_acknowledge(std::uint8_t syndrome, FrameLayout& out) {
  const int kind = syndrome & ~PARLEY_IB_SYNDROME_VALUE;
  if (kind == PARLEY_IB_SYNDROME_ACK) return out.mark(MessageKind::roce_ack);
  if (kind != PARLEY_IB_SYNDROME_RNR_NAK && kind != PARLEY_IB_SYNDROME_NAK) return;
  out.mark(MessageKind::roce_nak);
  if (kind == PARLEY_IB_SYNDROME_RNR_NAK) return out.mark(MessageKind::roce_nak_rnr);
  mark_nak(syndrome & PARLEY_IB_SYNDROME_VALUE, out);
}

// The last mark is the frame's one-word name, so narrower kinds come later.
void mark(const Packet& packet, FrameLayout& out) {
  const Operation operation = wire::ib::operation_of(packet.bth.opcode);
  if (wire::ib::service_of(packet.bth.opcode) == Service::ud) {
    if (packet.bth.dest_qpn != PARLEY_IB_GSI_QPN) out.mark(MessageKind::roce_datagram);
    return;
  }
  switch (operation) {
    case Operation::send_first:
    case Operation::send_middle:
    case Operation::send_last:
    case Operation::send_last_imm:
    case Operation::send_only:
    case Operation::send_only_imm:
    case Operation::send_last_inv:
    case Operation::send_only_inv: return out.mark(MessageKind::roce_send);
    case Operation::write_first:
    case Operation::write_middle:
    case Operation::write_last:
    case Operation::write_last_imm:
    case Operation::write_only:
    case Operation::write_only_imm: return out.mark(MessageKind::roce_write);
    case Operation::read_request: return out.mark(MessageKind::roce_read_request);
    case Operation::read_response_first:
    case Operation::read_response_middle:
    case Operation::read_response_last:
    case Operation::read_response_only: return out.mark(MessageKind::roce_read_response);
    case Operation::acknowledge: return mark_acknowledge(packet.aeth.syndrome, out);
    case Operation::atomic_acknowledge: return out.mark(MessageKind::roce_atomic_ack);
    case Operation::cmp_swap:
    case Operation::fetch_add: return out.mark(MessageKind::roce_atomic);
  }
}

/// `octets`: from the BTH to the ICRC.
void classify_packet(ConstBytes octets, FrameLayout& out) {
  const auto packet = Packet::parse(octets);
  // RoCEv2 has no IPv4 options; a packet that ends within its headers does not count.
  if (!packet || (!out.ipv6 && out.transport - out.ip != wire::ipv4_header)) return;
  out.roce = true;
  out.psn = packet->bth.psn;
  out.mark(MessageKind::roce_packet);
  if (packet->bth.opcode == PARLEY_IB_OPCODE_CNP) return out.mark(MessageKind::roce_cnp);
  if (wire::ib::rule_of(packet->bth.opcode).assigned) mark(*packet, out);
}

void mark_message(std::uint16_t attribute, FrameLayout& out) {
  using wire::ib::CmMessageType;
  switch (static_cast<CmMessageType>(attribute)) {
#define PARLEY_X(name, attribute, structure, fields, text) \
  case CmMessageType::name: return out.mark(MessageKind::cm_##name);
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
  }
}

void classify_message(ConstBytes octets, FrameLayout& out) {
  const auto packet = Packet::parse(octets);
  if (!out.roce || !packet || packet->bth.dest_qpn != PARLEY_IB_GSI_QPN) return;
  if (packet->bth.opcode != wire::ib::opcode_of(Service::ud, Operation::send_only)) return;
  if (packet->payload.size() < PARLEY_IB_MAD_LEN) return;
  const auto header = wire::ib::MadHeader::parse(packet->payload);
  if (!header || header->mgmt_class != PARLEY_IB_CLASS_CM) return;
  out.mark(MessageKind::cm_message);
  mark_message(header->attribute_id, out);
}

}  // namespace

constinit const LayerTable roce_layer{.layer = Layer::roce,
                                      .name = "roce",
                                      .role = LayerRole::transport,
                                      .carrier = Carrier::udp,
                                      .number = PARLEY_ROCE_UDP_PORT,
                                      .kinds = packet_kinds,
                                      .classify = classify_packet};
constinit const LayerTable cm_layer{.layer = Layer::cm,
                                    .name = "cm",
                                    .role = LayerRole::messages,
                                    .carrier = Carrier::udp,
                                    .number = PARLEY_ROCE_UDP_PORT,
                                    .kinds = cm_kinds,
                                    .classify = classify_message};

}  // namespace parley::sim
