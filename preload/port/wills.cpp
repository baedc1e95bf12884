// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port/wills.hpp"

#include <algorithm>
#include <iterator>

#include "base/bytes_io.hpp"
#include "parley/wire/ib.h"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::preload::port {

namespace {

using wire::ib::CmMessage;
using wire::ib::CmReject;
using wire::ib::CmSubject;

constexpr std::uint8_t valid = 1;
constexpr std::size_t requests_max = 4096;

template <class Body>
Bytes mad_of(std::uint64_t transaction_id, const Body& body) {
  Bytes out(PARLEY_IB_MAD_LEN);
  wire::ib::emit_cm(body, transaction_id, 0, out);
  return out;
}

wire::ib::RoceHeader header_of(const Gid& source, const Gid& destination, std::uint16_t source_port) {
  wire::ib::RoceHeader out;
  out.source = source;
  out.destination = destination;
  out.source_port = source_port;
  return out;
}

}  // namespace

Bytes encode(const WillRecord& record) {
  Bytes out(will_record_size);
  Writer to(out);
  to.u8(valid);
  to.zeros(3);
  to.bytes(record.local);
  to.bytes(record.remote);
  to.be32(record.local_id);
  to.be32(record.remote_id);
  to.be32(record.remote_qpn);
  return out;
}

std::vector<WillRecord> decode_will(ConstBytes file) {
  std::vector<WillRecord> out;
  Reader from(file.first(std::min(file.size(), will_record_size * will_records_max)));
  while (from.left() >= will_record_size) {
    Reader in(from.bytes(will_record_size));
    const bool used = in.u8() == valid;
    in.skip(3);
    WillRecord record;
    for (Gid* const gid : {&record.local, &record.remote}) {
      const ConstBytes octets = in.bytes(gid->size());
      std::copy(octets.begin(), octets.end(), gid->begin());
    }
    record.local_id = in.be32();
    record.remote_id = in.be32();
    record.remote_qpn = in.be32();
    if (used) out.push_back(record);
  }
  return out;
}

void WillBook::add(const WillRecord& record) {
  const auto there = places_.find(record.local_id);
  std::size_t place = there == places_.end() ? used_.size() : there->second;
  if (there == places_.end()) {
    if (used_.size() < will_records_max) {
      const auto free = std::find(used_.begin(), used_.end(), 0U);
      place = static_cast<std::size_t>(free - used_.begin());
      if (free == used_.end()) used_.push_back(0);
    } else {
      place = next_++ % will_records_max;
      places_.erase(used_[place]);
    }
    used_[place] = record.local_id;
    places_[record.local_id] = place;
  }
  writes_.push_back({.offset = place * will_record_size, .octets = encode(record)});
}

void WillBook::erase(std::uint32_t local_id) {
  const auto at = places_.find(local_id);
  if (at == places_.end()) return;
  used_[at->second] = 0;
  writes_.push_back({.offset = at->second * will_record_size, .octets = Bytes(will_record_size)});
  places_.erase(at);
}

void WillBook::follow(const Gid& local, const Gid& remote, ConstBytes mad, bool outgoing) {
  const auto message = CmMessage::parse(mad);
  if (!message) return;
  if (const auto* const req = std::get_if<wire::ib::CmReq>(&message->body)) {
    const std::pair key(remote, req->local_comm_id);
    if (outgoing || !requests_.insert_or_assign(key, req->local_qpn).second) return;
    order_.push_back(key);
    if (order_.size() <= requests_max) return;
    requests_.erase(order_.front());
    order_.pop_front();
  } else if (const auto* const rep = std::get_if<wire::ib::CmRep>(&message->body)) {
    WillRecord record{.local = local, .remote = remote};
    record.local_id = outgoing ? rep->local_comm_id : rep->remote_comm_id;
    record.remote_id = outgoing ? rep->remote_comm_id : rep->local_comm_id;
    const auto request = requests_.find({remote, record.remote_id});
    record.remote_qpn = !outgoing ? rep->qpn() : request == requests_.end() ? 0 : request->second;
    add(record);
  } else if (const auto* const rej = std::get_if<wire::ib::CmRej>(&message->body)) {
    erase(outgoing ? rej->local_comm_id : rej->remote_comm_id);
  } else if (const auto* const drep = std::get_if<wire::ib::CmDrep>(&message->body)) {
    erase(outgoing ? drep->local_comm_id : drep->remote_comm_id);
  }
}

std::optional<WillBook::Write> WillBook::poll_write() {
  if (writes_.empty()) return std::nullopt;
  Write out = std::move(writes_.front());
  writes_.pop_front();
  return out;
}

void Partings::begin(Instant now, std::uint64_t mourning, const std::vector<WillRecord>& will) {
  Mourning& made = all_[mourning];
  made.left = will;
  send(mourning, made, now);
}

void Partings::send(std::uint64_t number, Mourning& mourning, Instant now) {
  mourning.next = now + first_wait * (1 << mourning.tried++);
  for (const WillRecord& record : mourning.left)
    partings_.push_back({.mourning = number,
                         .local = record.local,
                         .remote = record.remote,
                         .mad = mad_of(record.local_id, wire::ib::CmDreq{.local_comm_id = record.local_id,
                                                                         .remote_comm_id = record.remote_id,
                                                                         .remote_qpn = record.remote_qpn})});
}

std::optional<Bytes> Partings::handle_mad(std::uint64_t number, ConstBytes mad) {
  const auto at = all_.find(number);
  const auto message = CmMessage::parse(mad);
  if (at == all_.end() || !message) return std::nullopt;
  std::uint32_t local_id = 0;
  std::optional<Bytes> answer;
  if (const auto* const drep = std::get_if<wire::ib::CmDrep>(&message->body)) {
    local_id = drep->remote_comm_id;
  } else if (const auto* const dreq = std::get_if<wire::ib::CmDreq>(&message->body)) {
    local_id = dreq->remote_comm_id;
    answer = answer_of_nobody(mad);
  }
  std::erase_if(at->second.left, [&](const WillRecord& record) { return record.local_id == local_id; });
  if (at->second.left.empty()) {
    done_.push_back(number);
    all_.erase(at);
  }
  return answer;
}

void Partings::handle_deadline(Instant now) {
  for (auto at = all_.begin(); at != all_.end();) {
    auto& [number, mourning] = *at;
    const bool over = mourning.next <= now && (mourning.tried == tries || mourning.left.empty());
    if (mourning.next <= now && !over) send(number, mourning, now);
    if (over) done_.push_back(number);
    at = over ? all_.erase(at) : std::next(at);
  }
}

Instant Partings::next_deadline() const {
  Instant out = never;
  for (const auto& [number, mourning] : all_) out = std::min(out, mourning.next);
  return out;
}

std::optional<Parting> Partings::poll_parting() {
  if (partings_.empty()) return std::nullopt;
  Parting out = std::move(partings_.front());
  partings_.pop_front();
  return out;
}

std::optional<std::uint64_t> Partings::poll_done() {
  if (done_.empty()) return std::nullopt;
  const std::uint64_t out = done_.front();
  done_.pop_front();
  return out;
}

std::optional<Bytes> answer_of_nobody(ConstBytes mad) {
  const auto message = CmMessage::parse(mad);
  if (!message) return std::nullopt;
  const std::uint64_t transaction = message->transaction_id;
  if (const auto* const req = std::get_if<wire::ib::CmReq>(&message->body))
    return mad_of(transaction, wire::ib::CmRej{.remote_comm_id = req->local_comm_id,
                                               .about = CmSubject::req,
                                               .reason = CmReject::invalid_service_id});
  if (const auto* const req = std::get_if<wire::ib::CmSidrReq>(&message->body))
    return mad_of(transaction, wire::ib::CmSidrRep{.request_id = req->request_id,
                                                   .status = wire::ib::SidrStatus::unsupported_service_id,
                                                   .service_id = req->service_id});
  if (const auto* const dreq = std::get_if<wire::ib::CmDreq>(&message->body))
    return mad_of(transaction,
                  wire::ib::CmDrep{.local_comm_id = dreq->remote_comm_id, .remote_comm_id = dreq->local_comm_id});
  return std::nullopt;
}

Bytes gsi_packet(const Gid& local, const Gid& remote, ConstBytes mad) {
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
  packet.bth.p_key = PARLEY_IB_P_KEY_DEFAULT;
  packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
  packet.deth.q_key = PARLEY_IB_GSI_Q_KEY;
  packet.deth.source_qpn = PARLEY_IB_GSI_QPN;
  packet.payload = mad;
  Bytes out(packet.size());
  (void)packet.emit(out);
  wire::ib::seal(header_of(local, remote, PARLEY_ROCE_UDP_PORT), out);
  return out;
}

std::optional<Bytes> gsi_mad(const Gid& local, const Gid& remote, std::uint16_t source_port, ConstBytes octets) {
  if (octets.size() < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN) return std::nullopt;
  wire::ib::IcrcSealer sealer(header_of(remote, local, source_port));
  const auto packet = wire::ib::Packet::parse(octets);
  const bool is_mad =
      packet && packet->bth.dest_qpn == PARLEY_IB_GSI_QPN &&
      packet->bth.opcode == wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only) &&
      packet->deth.q_key == PARLEY_IB_GSI_Q_KEY && packet->payload.size() == PARLEY_IB_MAD_LEN &&
      sealer.identification_of(0, octets);
  if (!is_mad) return std::nullopt;
  return Bytes(packet->payload.begin(), packet->payload.end());
}

}  // namespace parley::preload::port
