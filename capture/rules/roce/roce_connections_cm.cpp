// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceConnections: MADs to the General Services Interface (QP 1).
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
         to_string(static_cast<CmMessageType>(header.attribute_id)) != "unknown message";
}

/// Whether this message shows which side is the initiator.
bool shows_side(CmMessageType type) {
  return type == CmMessageType::req || type == CmMessageType::rep || type == CmMessageType::rtu;
}

/// IBA §13.5.1: a MAD is a SEND Only without immediate data.
bool is_mad(const RocePacket& p) { return p.operation() == wire::ib::Operation::send_only; }

bool is_request(const CmMessage& m) { return m.type() == CmMessageType::req || m.type() == CmMessageType::sidr_req; }

/// Whether such a message answers a REQ or SIDR_REQ.
bool answers_request(const CmMessage& m) {
  const auto* const rej = std::get_if<wire::ib::CmRej>(&m.body);
  const auto* const mra = std::get_if<wire::ib::CmMra>(&m.body);
  return m.type() == CmMessageType::rep || m.type() == CmMessageType::sidr_rep ||
         (rej != nullptr && rej->about == wire::ib::CmSubject::req) ||
         (mra != nullptr && mra->about == wire::ib::CmSubject::req);
}

}  // namespace

/// IBA §9.6, §13.4.2: why the receiver drops this MAD without an answer; empty: it need not. A REJ of its own answers a
/// REQ of another class version. Where a sender's ICRC is never right, its adapter may make it behind the capture point.
std::string_view RoceConnections::reason_to_drop(const RocePacket& p, const wire::ib::MadHeader& header) const {
  const auto sender = gsi_.find({Kind::queue_pair, p.network.source, {}, 0});
  if (p.icrc_wrong() && sender != gsi_.end() && sender->second.icrc_right) return "its ICRC is wrong";
  if (p.packet.bth.tver != 0) return "its transport version is not 0";
  if (p.packet.deth.q_key != PARLEY_IB_GSI_Q_KEY) return "its Q_Key is not that of the GSI";
  if ((p.packet.bth.p_key & 0x7FFF) == 0) return "its P_Key is invalid";
  if (header.base_version != PARLEY_IB_MAD_BASE_VERSION) return "the base version of its MAD is not 1";
  if (header.method != PARLEY_IB_MAD_METHOD_SEND) return "the method of its MAD is not Send";
  return {};
}

void RoceConnections::remember_dropped(const RocePacket& p, ConstBytes mad, std::string_view why) {
  const auto header = wire::ib::MadHeader::parse(mad);
  if (!header || !is_of_cm(*header)) return;
  const auto type = static_cast<CmMessageType>(header->attribute_id);
  if (type != CmMessageType::req && type != CmMessageType::sidr_req) return;
  if (dropped_.size() >= dropped_max) dropped_.pop_front();
  dropped_.push_back({p.network.source, p.network.destination, header->transaction_id, {p.frame, p.at}, why});
}

/// Remembers a request that must be dropped, unless a sound copy, which may be answered, was captured.
void RoceConnections::note_request(const RocePacket& p, const CmMessage& m, RoceConnection& c, std::string_view why) {
  if (!is_request(m) || c.sound_request) return;
  if (!why.empty()) return remember_dropped(p, p.known_payload(), why);
  c.sound_request = true;
  std::erase_if(dropped_, [&](const DroppedRequest& d) {
    return d.transaction == m.transaction_id && d.from == p.network.source && d.to == p.network.destination;
  });
}

void RoceConnections::check_answer_to_dropped(const RocePacket& p, const CmMessage& m, const ConnectionSide& place) {
  if (dropped_.empty() || !answers_request(m) || place.connection->sound_request) return;
  const auto found = std::find_if(dropped_.begin(), dropped_.end(), [&](const DroppedRequest& d) {
    return d.transaction == m.transaction_id && d.from == p.network.destination && d.to == p.network.source;
  });
  if (found == dropped_.end()) return;
  place.connection->cm_condemned(
      place.side, p, IbRule::cm_dropped,
      fmt::format(" answered the request of frame {}, which it must drop: {}", found->ref.frame, found->why));
  dropped_.erase(found);
}

void RoceConnections::gsi(const RocePacket& p) {
  GsiLast& last = gsi_[{Kind::queue_pair, p.network.source, {}, 0}];
  CapturedCm m;
  m.ref = {p.frame, p.at};
  m.psn = p.packet.bth.psn;
  if (!p.of_link) m.network = &p.network;
  if (last.ref.frame != 0 && ((last.psn + 1) & 0xFFFFFF) == m.psn) m.before = last.ref;
  last = {m.ref, m.psn, last.icrc_right || (p.icrc_due && !p.icrc_wrong())};
  if (gsi_.size() > gsi_max) gsi_.clear();
  if (!is_mad(p) || p.packet.payload.size() != PARLEY_IB_MAD_LEN) {
    odd_mad(p);
    return;
  }
  if (p.known_payload().size() < PARLEY_IB_MAD_LEN) {
    ++cut_;
    return;
  }
  m.mad = p.packet.payload.first(PARLEY_IB_MAD_LEN);
  const wire::ib::MadHeader header = *wire::ib::MadHeader::parse(m.mad);
  if (is_of_cm(header)) cm(p, m, header);
}

/// IBA §13.5.1: a MAD is 256 octets in one packet without immediate data. Receivers drop any other packet. It is
/// reported but not evaluated.
void RoceConnections::odd_mad(const RocePacket& p) {
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> octets{};
  const ConstBytes known = p.known_payload();
  std::copy_n(known.begin(), std::min(known.size(), octets.size()), octets.begin());
  const auto header = wire::ib::MadHeader::parse(octets);
  const std::size_t size = p.packet.payload.size();
  const bool readable = known.size() >= std::min(size, octets.size()) && header && is_of_cm(*header) && !p.icrc_wrong();
  const auto m = readable ? CmMessage::parse(octets) : Result<CmMessage>(tl::unexpected(Error(Errc::unsupported)));
  const ConnectionSide place = m ? find_cm(p, *m) : ConnectionSide{};
  if (place.connection == nullptr || !place.connection->sound_request)
    remember_dropped(p, octets, "it is not in a UD SEND Only of 256 octets");
  if (place.connection == nullptr) return;
  const std::string_view name = to_string(m->type());
  place.connection->cm_condemned(
      place.side, p, IbRule::cm_mad_packet,
      is_mad(p) ? fmt::format("'s {} is a MAD of {}; {} are expected", name, counted(size, "octet"), PARLEY_IB_MAD_LEN)
                : fmt::format("'s {} is in {}; a MAD is a UD SEND Only", name,
                              with_article(wire::ib::opcode_text(p.packet.bth.opcode))));
}

void RoceConnections::cm(const RocePacket& p, CapturedCm& m, const wire::ib::MadHeader& header) {
  // Parse the message even if the MAD header is wrong, to find its connection.
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
  ConnectionSide place = find_cm(p, m.message);
  if (place.connection != nullptr && place.connection->exchange().sides_assumed() && shows_side(m.message.type()) &&
      sender_of(m.message) != place.side)
    place = {};  // the sides were assumed from an earlier DREQ, and wrongly
  if (place.connection == nullptr) place = begin_cm(p, m.message);
  if (place.connection == nullptr) return;
  RoceConnection& c = *place.connection;
  const std::string_view name = to_string(m.message.type());
  note_request(p, m.message, c, reason_to_drop(p, header));
  if (!c.icrc_counts(place.side, p, name)) return;
  if (watch_ != nullptr) watch_->message(c, place.side, p, m);
  check_answer_to_dropped(p, m.message, place);
  if (header.base_version != PARLEY_IB_MAD_BASE_VERSION || header.class_version != PARLEY_IB_CLASS_CM_VERSION ||
      header.method != PARLEY_IB_MAD_METHOD_SEND || header.status != 0)
    c.cm_condemned(
        place.side, p, IbRule::cm_mad_header,
        fmt::format("'s {} is in a MAD of base version {}, class version {}, method {} and status {}; 1, 2, 3 "
                    "and 0 are expected",
                    name, header.base_version, header.class_version, header.method, header.status));
  if (p.packet.deth.q_key != PARLEY_IB_GSI_Q_KEY)
    c.cm_condemned(place.side, p, IbRule::cm_q_key,
                   fmt::format("'s {} has Q_Key {:#010x}; that of the GSI is {:#010x}", name, p.packet.deth.q_key,
                               std::uint32_t{PARLEY_IB_GSI_Q_KEY}));
  if (p.packet.deth.source_qpn != PARLEY_IB_GSI_QPN)
    c.cm_condemned(
        place.side, p, IbRule::cm_mad_packet,
        fmt::format("'s {} comes from QP {:#08x}; those of the CM come from QP 1", name, p.packet.deth.source_qpn));
  if (header.class_specific != 0)
    c.cm_condemned(place.side, p, IbRule::cm_mad_packet,
                   fmt::format("'s {} has ClassSpecific {:#06x} in the header of its MAD; 0 is expected", name,
                               header.class_specific));
  if ((p.packet.bth.p_key & 0x7FFF) == 0)
    c.cm_condemned(place.side, p, IbRule::cm_p_key,
                   fmt::format("'s {} has P_Key {:#06x}, which is none", name, p.packet.bth.p_key));
  c.cm(place.side, p, m);
  learn(c);
}

/// The connection of the message, and the side that sent it.
RoceConnections::ConnectionSide RoceConnections::find_cm(const RocePacket& p, const CmMessage& m) {
  const Gid &from = p.network.source, &to = p.network.destination;
  const CmIds ids = ids_of(m);
  if (is_sidr(m)) {
    const bool asks = m.type() == CmMessageType::sidr_req;
    ConnectionSide place = at({Kind::sidr, asks ? from : to, asks ? to : from, ids.local});
    if (place.connection != nullptr && asks && place.connection->over() &&
        p.at - place.connection->last_at() >= over_quiet)
      place = {};  // a request ID reused by a short counter or a restarted host
    if (!asks) place.side = other(place.side);
    return place;
  }
  if (m.type() == CmMessageType::req) {
    const ConnectionSide place = at({Kind::comm_id, from, to, ids.local});
    if (place.connection == nullptr) return {};
    RoceConnection& c = *place.connection;
    // IBA §12.9.8.3.1: a retransmitted REQ has the same transaction ID, a new one has another.
    const auto transaction = c.exchange().transaction();
    if (transaction && *transaction != m.transaction_id) return {};
    const bool same = c.exchange().req() != nullptr && *c.exchange().req() == std::get<wire::ib::CmReq>(m.body);
    const bool another = !same && (c.over() || p.at - c.last_at() >= reuse_after);
    return another ? ConnectionSide{} : place;
  }
  if (const ConnectionSide place = find_by_ids(from, to, ids); place.connection != nullptr) return place;
  // An answer has the transaction ID of its REQ, even if its communication IDs are wrong. A REJ of an unknown ID may be
  // about nothing that was captured.
  if (m.type() == CmMessageType::rej && ids.remote != 0) return {};
  if (!answers_request(m)) return {};
  const ConnectionSide asked = at({Kind::transaction, to, from, m.transaction_id});
  if (asked.connection == nullptr || asked.connection->exchange().rep() != nullptr) return {};
  return {asked.connection, Side::responder};
}

/// A connection with both IDs is preferred to one with only one of them, because IDs are reused.
RoceConnections::ConnectionSide RoceConnections::find_by_ids(const Gid& from, const Gid& to, const CmIds& ids) const {
  const ConnectionSide mine = ids.local != 0 ? at({Kind::comm_id, from, to, ids.local}) : ConnectionSide{};
  ConnectionSide theirs = ids.remote != 0 ? at({Kind::comm_id, to, from, ids.remote}) : ConnectionSide{};
  theirs.side = other(theirs.side);
  const auto has = [](const ConnectionSide& place, Side side, std::uint32_t id) {
    return place.connection != nullptr && place.connection->exchange().id(side) == id;
  };
  if (has(mine, other(mine.side), ids.remote)) return mine;
  if (has(theirs, theirs.side, ids.local)) return theirs;
  if (mine.connection != nullptr) return mine;
  if (theirs.connection != nullptr) return theirs;
  // The sender may have exchanged the two IDs.
  const ConnectionSide exchanged = ids.remote != 0 ? at({Kind::comm_id, from, to, ids.remote}) : ConnectionSide{};
  return has(exchanged, other(exchanged.side), ids.local) ? exchanged : ConnectionSide{};
}

RoceConnections::ConnectionSide RoceConnections::begin_cm(const RocePacket& p, const CmMessage& m) {
  const Side side = sender_of(m).value_or(Side::initiator);
  const bool asks = side == Side::initiator;
  RoceConnection* const c =
      asks ? begin(p.network.source, p.network.destination, p) : begin(p.network.destination, p.network.source, p);
  return {c, side};
}

}  // namespace parley::capture
