// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/roce/roce_map.hpp"

#include <algorithm>
#include <type_traits>

#include "base/bytes_io.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"
#include "wire/ib/cma.hpp"

namespace parley::replay {

using capture::Side;
using wire::ib::CmMessage;

namespace {

std::size_t index(Side side) { return capture::index_of(side); }

/// The QPN of a message's sender; for XRC it is in the EE context field.
template <class M>
auto queue_pair_of(M& m) -> std::conditional_t<std::is_const_v<M>, const std::uint32_t*, std::uint32_t*> {
  using T = std::remove_const_t<M>;
  if constexpr (std::is_same_v<T, wire::ib::CmReq>) return &m.local_qpn;
  if constexpr (std::is_same_v<T, wire::ib::CmRep>) return m.local_qpn != 0 ? &m.local_qpn : &m.local_eecn;
  if constexpr (std::is_same_v<T, wire::ib::CmSidrRep>) return &m.qpn;
  return nullptr;
}

/// The first PSN that the receiver of the message must send.
template <class M>
std::optional<std::uint32_t> starting_psn_of(const M& m) {
  if constexpr (requires { m.starting_psn; }) return m.starting_psn;
  return std::nullopt;
}

}  // namespace

RoceMap::RoceMap(const RoceRecording& recording, Side played, std::uint64_t seed)
    : played_(played), rng_(seed), names_(find_names(recording, capture::other(played))) {
  const Address& own = played == Side::initiator ? recording.report.initiator : recording.report.responder;
  const Address& peer = played == Side::initiator ? recording.report.responder : recording.report.initiator;
  recorded_own_ = gid_of(own);
  recorded_peer_ = gid_of(peer);
  own_guid_ = (rng_.next() & ~(std::uint64_t{3} << 56)) | std::uint64_t{2} << 56;
  gsi_psn_ = static_cast<std::uint32_t>(rng_.next()) & mask24;
  draw_own(recording);
}

void RoceMap::draw_own(const RoceRecording& recording) {
  Numbers& mine = numbers_[index(played_)];
  const auto draw_id = [&](std::uint32_t recorded) {
    if (recorded != 0) mine.ids.try_emplace(recorded, static_cast<std::uint32_t>(rng_.next() >> 32) | 1);
  };
  const auto draw_queue_pair = [&](std::uint32_t recorded) {
    if (recorded >= capture::first_free_qpn && recorded < PARLEY_IB_QPN_MULTICAST)
      mine.queue_pairs.try_emplace(recorded, 0x100 + static_cast<std::uint32_t>(rng_.next() % 0xFFF000));
  };
  for (const RoceStep& step : recording.steps) {
    if (step.from != played_) continue;
    if (!step.cm) {
      draw_queue_pair(step.packet().deth.source_qpn);  // a datagram's sender need not have announced its QPN
      continue;
    }
    std::visit(
        [&](auto m) {
          if constexpr (requires { m.local_comm_id; }) draw_id(m.local_comm_id);
          if constexpr (std::is_same_v<decltype(m), wire::ib::CmSidrReq>) draw_id(m.request_id);
          if constexpr (requires { m.local_ca_guid; }) recorded_guid_ = m.local_ca_guid;
          const std::uint32_t* qpn = queue_pair_of(m);
          if (qpn != nullptr) draw_queue_pair(*qpn);
        },
        step.cm->body);
  }
}

void RoceMap::set_addresses(const Address& own, const Address& peer, std::uint16_t port) {
  own_ = own;
  peer_ = peer;
  port_ = port;
}

std::uint32_t RoceMap::id(std::uint32_t recorded) const {
  for (const Numbers& side : numbers_)
    if (const auto it = side.ids.find(recorded); it != side.ids.end()) return it->second;
  return recorded;
}

std::uint32_t RoceMap::queue_pair(std::size_t whose, std::uint32_t recorded) const {
  const auto it = numbers_[whose].queue_pairs.find(recorded);
  return it == numbers_[whose].queue_pairs.end() ? recorded : it->second;
}

bool RoceMap::is_mine(const wire::ib::Bth& bth) const {
  const auto& mine = numbers_[index(played_)].queue_pairs;
  return std::any_of(mine.begin(), mine.end(), [&](const auto& pair) { return pair.second == bth.dest_qpn; });
}

bool RoceMap::is_mine(const CmMessage& message) const {
  const capture::CmIds ids = capture::ids_of(message);
  const std::uint32_t named = ids.has_remote ? ids.remote : ids.local;
  const auto& mine = numbers_[index(played_)].ids;
  return std::any_of(mine.begin(), mine.end(), [&](const auto& pair) { return pair.second == named; });
}

void RoceMap::learn(const RoceStep& recorded, std::size_t step, const RoceStep& live) {
  Numbers& theirs = numbers_[index(capture::other(played_))];
  if (recorded.cm && live.cm && recorded.cm->type() == live.cm->type()) {
    const std::uint32_t was = capture::ids_of(*recorded.cm).local, is = capture::ids_of(*live.cm).local;
    const bool reply = recorded.cm->type() == wire::ib::CmMessageType::sidr_rep;
    if (was != 0 && !reply) theirs.ids[was] = is;
    transactions_[recorded.cm->transaction_id] = live.cm->transaction_id;
    std::visit(
        [&](const auto& r) {
          const auto& l = *std::get_if<std::decay_t<decltype(r)>>(&live.cm->body);
          const std::uint32_t *from = queue_pair_of(r), *to = queue_pair_of(l);
          if (from != nullptr) theirs.queue_pairs[*from] = *to;
          if (const auto psn = starting_psn_of(r)) psn_shift_ = (*starting_psn_of(l) - *psn) & mask24;
          if constexpr (requires { l.q_key; }) q_key_ = l.q_key, knows_q_key_ = true;
        },
        recorded.cm->body);
  }
  const auto octets_of = [](const RoceStep& of) {
    if (!of.cm) {
      const ConstBytes payload = of.packet().payload;
      return Bytes(payload.begin(), payload.end());
    }
    return std::visit([](const auto& m) { return Bytes(m.private_data.begin(), m.private_data.end()); }, of.cm->body);
  };
  Bytes octets;
  for (const RoceName& name : names_.names) {
    if (name.step != step) continue;
    if (octets.empty()) octets = octets_of(live);
    if (name.field.offset + name.field.size() > octets.size()) continue;
    const std::uint64_t value = read_field(octets, name.field);
    if (name.field.is_to)
      memory_.learn_to(name.field.stag, name.field.to, value);
    else
      memory_.learn_stag(name.field.stag, static_cast<std::uint32_t>(value));
  }
}

std::vector<Field> RoceMap::masks(std::size_t step) const {
  std::vector<Field> out;
  for (const RoceName& name : names_.names)
    if (name.step == step) out.push_back(name.field);
  return out;
}

void RoceMap::set_path(wire::ib::CmPath& path) const {
  if (path.local_gid == recorded_own_) path.local_gid = gid_of(own_);
  if (path.remote_gid == recorded_peer_) path.remote_gid = gid_of(peer_);
}

template <class M>
void RoceMap::set_service(M& m) const {
  const auto service = wire::ib::cma_service_of(m.service_id);
  if (!service) return;
  if (port_ != 0) m.service_id = wire::ib::service_id_of(service->space, port_);
  auto header = wire::ib::CmaHeader::parse(m.private_data);
  if (!header) return;
  const std::uint16_t port = header->source.port;
  if (gid_of(header->source) == recorded_own_) header->source = own_;
  header->source.port = port;
  if (gid_of(header->destination) == recorded_peer_) header->destination = peer_;
  header->destination.port = 0;
  header->emit(m.private_data);
}

CmMessage RoceMap::message(const RoceStep& recorded) {
  CmMessage out = *recorded.cm;
  const auto [it, fresh] = transactions_.try_emplace(out.transaction_id, 0);
  if (fresh) it->second = rng_.next();
  out.transaction_id = it->second;
  const std::size_t mine = index(played_), theirs = index(capture::other(played_));
  std::visit(
      [&](auto& m) {
        using M = std::decay_t<decltype(m)>;
        if (std::uint32_t* qpn = queue_pair_of(m)) *qpn = queue_pair(mine, *qpn);
        if constexpr (requires { m.local_comm_id; }) m.local_comm_id = id(m.local_comm_id);
        if constexpr (requires { m.remote_comm_id; }) m.remote_comm_id = id(m.remote_comm_id);
        if constexpr (requires { m.request_id; }) m.request_id = id(m.request_id);
        if constexpr (requires { m.remote_qpn; }) m.remote_qpn = queue_pair(theirs, m.remote_qpn);
        if constexpr (requires { m.local_ca_guid; }) m.local_ca_guid = own_guid_;
        if constexpr (requires { m.primary; }) set_path(m.primary);
        if constexpr (requires { m.service_id; }) set_service(m);
        if constexpr (std::is_same_v<M, wire::ib::CmRej>) {
          // IBA §12.6.7.2: a REJ for a timeout has its sender's CA GUID.
          if (m.info_length == 8 && Reader(m.info).be64() == recorded_guid_ && recorded_guid_ != 0)
            Writer(m.info).be64(own_guid_);
        }
      },
      out.body);
  return out;
}

Bytes RoceMap::translate(const RoceStep& recorded) {
  wire::ib::Packet p = recorded.packet();
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> mad{};
  if (recorded.cm) {
    message(recorded).emit(mad);
    p.payload = mad;
    p.bth.psn = gsi_psn_;
    gsi_psn_ = (gsi_psn_ + 1) & mask24;
  } else {
    const std::size_t mine = index(played_), theirs = index(capture::other(played_));
    p.bth.dest_qpn = queue_pair(theirs, p.bth.dest_qpn);
    p.deth.source_qpn = queue_pair(mine, p.deth.source_qpn);
    if (knows_q_key_ && wire::ib::service_of(p.bth.opcode) == wire::ib::Service::ud) p.deth.q_key = q_key_;
    if (!recorded.is_response()) p.bth.psn = request_psn(p.bth.psn);
    p.reth.va = memory_.to(p.reth.r_key, p.reth.va);
    p.reth.r_key = memory_.stag(p.reth.r_key);
    p.atomic.va = memory_.to(p.atomic.r_key, p.atomic.va);
    p.atomic.r_key = memory_.stag(p.atomic.r_key);
    p.invalidate = memory_.stag(p.invalidate);
  }
  Bytes out(p.size());
  p.emit(out);
  out.resize(out.size() - PARLEY_IB_ICRC_LEN);
  return out;
}

}  // namespace parley::replay
