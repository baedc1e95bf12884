// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceConnections: MADs to the General Services Interface.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/rules/roce/roce_connections.hpp"
#include "wire/ib/mad.hpp"

namespace parley::capture {

using wire::ib::CmMessage;
using wire::ib::CmMessageType;
using Kind = RoceKey::Kind;

namespace {

bool is_sidr(const CmMessage& m) { return m.type() == CmMessageType::sidr_req || m.type() == CmMessageType::sidr_rep; }

bool is_of_cm(const wire::ib::MadHeader& header) {
  return header.mgmt_class == PARLEY_IB_CLASS_CM &&
         to_string(static_cast<CmMessageType>(header.attribute_id)) != "unknown message" &&
         (header.method & PARLEY_IB_MAD_RESPONSE) == 0;
}

/// IBA §13.5.1: a MAD is one packet without immediate data.
bool is_mad(const RocePacket& p) { return p.operation() == wire::ib::Operation::send_only; }

}  // namespace

void RoceConnections::gsi(const RocePacket& p) {
  GsiLast& last = gsi_[{Kind::queue_pair, p.network.source, {}, 0}];
  CmSeen m;
  m.ref = {p.frame, p.at};
  m.psn = p.packet.bth.psn;
  m.network = &p.network;
  if (last.ref.frame != 0 && ((last.psn + 1) & 0xFFFFFF) == m.psn) m.before = last.ref;
  last = {m.ref, m.psn};
  if (gsi_.size() > gsi_max) gsi_.clear();
  if (!is_mad(p) || p.packet.payload.size() < PARLEY_IB_MAD_LEN) {
    ++mads_of_others_;
    return;
  }
  if (p.known_payload().size() < PARLEY_IB_MAD_LEN) {
    ++cut_;
    return;
  }
  m.mad = p.packet.payload.first(PARLEY_IB_MAD_LEN);
  const wire::ib::MadHeader header = *wire::ib::MadHeader::parse(m.mad);
  if (is_of_cm(header))
    cm(p, m, header);
  else
    ++mads_of_others_;
}

void RoceConnections::cm(const RocePacket& p, CmSeen& m, const wire::ib::MadHeader& header) {
  // What is wrong with the header does not hide whose message it is.
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> readable{};
  std::copy(m.mad.begin(), m.mad.end(), readable.begin());
  wire::ib::MadHeader right = header;
  right.base_version = PARLEY_IB_MAD_BASE_VERSION;
  right.class_version = PARLEY_IB_CLASS_CM_VERSION;
  right.method = PARLEY_IB_MAD_METHOD_SEND;
  right.status = right.class_specific = 0;
  right.emit(readable);
  auto parsed = CmMessage::parse(readable);
  if (!parsed) return;
  m.message = *std::move(parsed);
  m.mad = readable;
  Place place = find_cm(p, m.message);
  if (place.connection == nullptr) place = begin_cm(p, m.message);
  if (place.connection == nullptr) return;
  RoceConnection& c = *place.connection;
  const std::string_view name = to_string(m.message.type());
  if (p.icrc_wrong()) {
    c.cm_condemned(place.side, p, IbRule::ib_icrc,
                   fmt::format("'s {} has the ICRC {}; its octets give {}", name, icrc_text(p.packet.icrc),
                               icrc_text(*p.icrc_due)));
    return;
  }
  if (header.base_version != PARLEY_IB_MAD_BASE_VERSION || header.class_version != PARLEY_IB_CLASS_CM_VERSION ||
      header.method != PARLEY_IB_MAD_METHOD_SEND || header.status != 0)
    c.cm_condemned(
        place.side, p, IbRule::cm_mad_header,
        fmt::format("'s {} is in a MAD of base version {}, class version {}, method {} and status {}; 1, 2, 3 "
                    "and 0 are due",
                    name, header.base_version, header.class_version, header.method, header.status));
  if (p.packet.deth.q_key != PARLEY_IB_GSI_Q_KEY)
    c.cm_condemned(place.side, p, IbRule::cm_q_key,
                   fmt::format("'s {} has Q_Key {:#010x}; that of the GSI is {:#010x}", name, p.packet.deth.q_key,
                               std::uint32_t{PARLEY_IB_GSI_Q_KEY}));
  if ((p.packet.bth.p_key & 0x7FFF) == 0)
    c.cm_condemned(place.side, p, IbRule::cm_p_key,
                   fmt::format("'s {} has P_Key {:#06x}, which is none", name, p.packet.bth.p_key));
  c.cm(place.side, p, m);
  learn(c);
}

/// The connection, and which of its sides sent this.
RoceConnections::Place RoceConnections::find_cm(const RocePacket& p, const CmMessage& m) {
  const Gid &from = p.network.source, &to = p.network.destination;
  const CmIds ids = ids_of(m);
  if (is_sidr(m)) {
    const bool asks = m.type() == CmMessageType::sidr_req;
    Place place = at({Kind::sidr, asks ? from : to, asks ? to : from, ids.local});
    if (place.connection != nullptr && asks && place.connection->over() &&
        p.at - place.connection->last_at() >= over_quiet)
      place = {};  // a counter of few digits, or a restarted host
    if (!asks) place.side = other(place.side);
    return place;
  }
  if (m.type() == CmMessageType::req) {
    const Place place = at({Kind::comm_id, from, to, ids.local});
    if (place.connection == nullptr) return {};
    RoceConnection& c = *place.connection;
    const bool same = c.exchange().req() != nullptr && *c.exchange().req() == std::get<wire::ib::CmReq>(m.body);
    const bool another = !same && (c.over() || p.at - c.last_at() >= reuse_after);
    return another ? Place{} : place;
  }
  if (const Place mine = at({Kind::comm_id, from, to, ids.local}); mine.connection != nullptr && ids.local != 0)
    return mine;
  if (const Place theirs = at({Kind::comm_id, to, from, ids.remote}); theirs.connection != nullptr && ids.remote != 0)
    return {theirs.connection, other(theirs.side)};
  // A REP repeats the transaction ID of its REQ, whatever communication ID it names.
  if (m.type() != CmMessageType::rep) return {};
  const Place asked = at({Kind::transaction, to, from, m.transaction_id});
  if (asked.connection == nullptr || asked.connection->exchange().rep() != nullptr) return {};
  return {asked.connection, Side::responder};
}

RoceConnections::Place RoceConnections::begin_cm(const RocePacket& p, const CmMessage& m) {
  const Side side = sender_of(m).value_or(Side::initiator);
  const bool asks = side == Side::initiator;
  RoceConnection* const c =
      asks ? begin(p.network.source, p.network.destination, p) : begin(p.network.destination, p.network.source, p);
  return {c, side};
}

}  // namespace parley::capture
