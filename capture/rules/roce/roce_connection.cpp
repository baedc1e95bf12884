// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceConnection: packets. roce_connection_finish.cpp makes the report.
#include "capture/rules/roce/roce_connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "capture/rules/roce/packet_faults.hpp"

namespace parley::capture {

using wire::ib::Service;

namespace {

IbQp qp_of(Service service) {
  switch (service) {
    case Service::rc: return IbQp::rc;
    case Service::uc: return IbQp::uc;
    case Service::ud: return IbQp::ud;
    case Service::xrc: return IbQp::xrc;
    default: return IbQp::unknown;
  }
}

}  // namespace

RoceConnection::RoceConnection(RoceBudget& budget, const Gid& initiator, const Gid& responder, bool v2,
                               EventLimits events)
    : budget_(budget),
      gids_{initiator, responder},
      seen_(std::make_shared<IbSeen>()),
      exchange_(findings_, *seen_),
      events_(events) {
  seen_->v2 = v2;
  make_flows();
}

void RoceConnection::make_flows() {
  for (const Side side : {Side::initiator, Side::responder})
    flows_[index_of(side)] = std::make_unique<RequestFlow>(budget_, findings_, side);
}

void RoceConnection::guess_qpn(Side side, std::uint32_t qpn) {
  seen_->ends[index_of(side)].qpn = qpn;
  guessed_[index_of(side)] = has_cm_ && !seen_->sidr;
}

/// Passes the message to the exchange. If it names another queue pair than the assumed one, the data so far belonged to
/// another connection and is discarded. False: the message is a duplicate.
bool RoceConnection::settle_guesses(Side from, const CapturedCm& m) {
  std::array<std::optional<std::uint32_t>, 2> before;
  for (std::size_t i = 0; i < 2; ++i)
    if (guessed_[i]) before[i] = std::exchange(seen_->ends[i].qpn, std::nullopt);
  const bool fresh = exchange_.message(from, m);
  for (std::size_t i = 0; i < 2; ++i) {
    if (!guessed_[i]) continue;
    auto& qpn = seen_->ends[i].qpn;
    guessed_[i] = !qpn;
    if (!qpn) {
      qpn = before[i];
    } else if (*qpn != before[i]) {
      make_flows();
      counts_ = {};
      first_data_ = {};
      for (IbDirection& end : seen_->ends) end.packets = 0;
    }
  }
  return fresh;
}

void RoceConnection::seen(std::uint64_t frame, Instant when) {
  if (first_frame_ == 0) {
    first_frame_ = frame;
    first_at_ = last_at_ = when;
  }
  last_frame_ = frame;
  first_at_ = std::min(first_at_, when);
  last_at_ = std::max(last_at_, when);
}

bool RoceConnection::set_up_seen() const {
  return exchange_.req() != nullptr && exchange_.rep() != nullptr && qpn(Side::initiator) && qpn(Side::responder);
}

void RoceConnection::draw(Side from, const RocePacket& p, LadderEvent::Kind kind, std::string text, std::size_t name) {
  if (!with_events()) return;
  if (drawn_.size() >= events_.max) {
    ++events_dropped_;
    return;
  }
  LadderEvent e;
  e.frame = p.frame;
  e.at = p.at;
  e.from = from;
  e.kind = kind;
  e.text = std::move(text);
  e.name = name;
  if (events_.detail == EventDetail::fields) {
    const wire::ib::Bth& b = p.packet.bth;
    e.fields = {{"Base Transport Header", ""},
                {"Opcode", wire::ib::opcode_text(b.opcode)},
                {"P_Key", fmt::format("{:#06x}", b.p_key)},
                {"Destination QPN", fmt::format("{:#08x}", b.dest_qpn)},
                {"AckReq", b.ack_req ? "1" : "0"},
                {"PSN", fmt::format("{:#08x}", b.psn)},
                {"Payload", counted(p.packet.payload.size(), "octet")}};
    if ((wire::ib::rule_of(b.opcode).headers & PARLEY_IB_XRCETH) != 0)
      e.fields.emplace_back("XRC SRQN", fmt::format("{:#08x}", p.packet.xrceth.srqn));
  }
  drawn_.push_back(std::move(e));
}

void RoceConnection::cm(Side from, const RocePacket& p, const CapturedCm& m) {
  seen(p.frame, p.at);
  own_at_ = std::max(own_at_, p.at);
  has_cm_ = true;
  check_by_itself(from, p);
  const bool fresh = settle_guesses(from, m);
  std::string text = cm_event_text(m.message);
  const std::size_t name = text.find(' ') == std::string::npos ? text.size() : text.find(' ');
  const bool rej = m.message.type() == wire::ib::CmMessageType::rej;
  draw(from, p,
       !fresh ? LadderEvent::Kind::repeated
       : rej  ? LadderEvent::Kind::terminate
              : LadderEvent::Kind::startup,
       std::move(text), name);
}

void RoceConnection::cm_condemned(Side from, const RocePacket& p, IbRule rule, std::string_view text) {
  seen(p.frame, p.at);
  has_cm_ = true;
  findings_.report(rule, p.frame, from, text);
}

void RoceConnection::malformed(Side from, std::uint64_t frame, Instant when, std::string_view why) {
  seen(frame, when);
  findings_.report(IbRule::ib_malformed, frame, from, fmt::format(" sent a packet that cannot be read: {}", why));
}

void RoceConnection::report_icrc(Side from) {
  for (const auto& [frame, text] : std::exchange(icrcs_[index_of(from)].pending, {}))
    findings_.report(IbRule::ib_icrc, frame, from, text);
}

// IBA §7.8.1: a packet with a wrong ICRC is dropped. But if a side has no right ICRC at all, the packets may be
// captured before the adapter computes it, or the peer may not check it. An answer of the peer proves one of these.
bool RoceConnection::icrc_counts(Side from, const RocePacket& p, std::string_view name) {
  Icrc& mine = icrcs_[index_of(from)];
  Icrc& theirs = icrcs_[index_of(other(from))];
  const bool of_cm = p.packet.bth.dest_qpn == PARLEY_IB_GSI_QPN;
  const bool answers = of_cm ? name != "REQ" && name != "DREQ" : wire::ib::rule_of(p.packet.bth.opcode).response;
  if (!theirs.pending.empty() && answers) theirs.answered = true;
  if (!p.icrc_wrong()) {
    if (!p.icrc_due) return true;
    mine.right = true;
    report_icrc(from);
    return true;
  }
  ++mine.wrong;
  if (mine.pending.size() < icrc_pending_max)
    mine.pending.emplace_back(p.frame, fmt::format("'s {} has the ICRC {}; its octets give {}", name,
                                                   icrc_text(p.packet.icrc), icrc_text(*p.icrc_due)));
  if (!mine.right) return true;
  seen(p.frame, p.at);
  report_icrc(from);
  return false;
}

void RoceConnection::report_absent_icrc() {
  for (const Side side : {Side::initiator, Side::responder}) {
    Icrc& those = icrcs_[index_of(side)];
    if (those.pending.empty()) continue;
    if (those.answered)
      findings_.report(
          IbRule::ib_icrc_unmade, those.pending.front().first, side,
          fmt::format("'s ICRC is wrong in {}, right in none, and its peer answers such packets: it is made "
                      "behind the capture, or not made and not checked",
                      counted(those.wrong, "packet")));
    else
      report_icrc(side);
  }
}

void RoceConnection::check_by_itself(Side from, const RocePacket& p) {
  for (const PacketFault& fault : faults_of(p)) findings_.report(fault.rule, p.frame, from, fault.text);
}

// Checks P_Key and Q_Key against the set-up.
void RoceConnection::check_ends(Side from, const RocePacket& p) {
  if (guessed_[index_of(other(from))]) return;
  const wire::ib::CmReq* const req = exchange_.req();
  if (req != nullptr && !seen_->sidr && (p.packet.bth.p_key & 0x7FFF) != (req->p_key & 0x7FFF))
    findings_.report(IbRule::ib_p_key, p.frame, from,
                     fmt::format("'s packet has P_Key {:#06x}; the connection is in that of {:#06x}",
                                 p.packet.bth.p_key, req->p_key));
  if (seen_->sidr && from == Side::initiator && exchange_.q_key() != 0 && p.service() == Service::ud &&
      p.headers_known() && p.packet.deth.q_key != exchange_.q_key())
    findings_.report(IbRule::ib_ud_q_key, p.frame, from,
                     fmt::format("'s packet has Q_Key {:#010x}; that of the service is {:#010x}", p.packet.deth.q_key,
                                 exchange_.q_key()));
}

FlowTerms RoceConnection::terms_of(Side requester) const {
  FlowTerms t;
  t.qp = seen_->qp;
  if (guessed_[index_of(other(requester))]) return t;
  // Each answer to the REQ requests its own starting PSN.
  if (requester == Side::responder || !exchange_.answered_anew())
    t.starting_psn = seen_->ends[index_of(requester)].starting_psn;
  t.path_mtu = seen_->path_mtu;
  t.set_up_seen = set_up_seen();
  const wire::ib::CmReq* const req = exchange_.req();
  const wire::ib::CmRep* const rep = exchange_.rep();
  if (req != nullptr && rep != nullptr) {
    const bool asks = requester == Side::initiator;
    t.obeys_credits = asks ? req->flow_control : rep->flow_control;
    if (!exchange_.answered_anew()) t.depth = asks ? rep->responder_resources : req->responder_resources;
    // IBA §12.6.5, §12.6.8: each side announces the RNR retry count of its peer.
    t.rnr_retries = asks ? rep->rnr_retry_count : req->rnr_retry_count;
    // XRC: the retry count of a REQ has no meaning, because its receiver, a TGT queue pair, sends no requests.
    if (t.qp != IbQp::xrc) t.retries = req->retry_count;
  }
  if (requester == Side::initiator) {
    t.flow_control = rep == nullptr || rep->flow_control;
    // IBA Annex A14: a TGT queue pair receives in shared receive queues.
    t.shared_receives = rep != nullptr && (rep->srq || t.qp == IbQp::xrc);
  } else {
    t.flow_control = req == nullptr || req->flow_control;
    t.shared_receives = req != nullptr && req->srq;
  }
  if (req != nullptr && req->primary.local_ack_timeout != 0)
    t.ack_timeout = wire::ib::timeout_of(req->primary.local_ack_timeout);
  return t;
}

// A QPN is reused, also for another service, and the capture may lack the end of its first use. The PSN shows whether
// the packet continues the first use.
bool RoceConnection::is_of_another(Side from, const RocePacket& p) const {
  const std::uint32_t psn = p.packet.bth.psn;
  const RequestFlow& flow = *flows_[index_of(from)];
  const IbQp qp = qp_of(p.service());
  if (seen_->qp != IbQp::unknown && qp != IbQp::unknown && qp != seen_->qp) return !has_cm_ || !is_live(p.at);
  if (qp == IbQp::ud || wire::ib::rule_of(p.packet.bth.opcode).response) return false;
  if (!has_cm_) return flow.far(psn);
  const FrameRef left = exchange_.left(from);
  if (left.frame != 0 && p.at - left.at >= paths_apart) return !flow.goes_on(psn) && (flow.empty() || flow.far(psn));
  return flow.far(psn) && p.at - own_at_ >= another_use_after;
}

bool RoceConnection::is_live(Instant at) const {
  return seen_->qp != IbQp::ud && set_up_seen() && !exchange_.ended() && at - own_at_ < another_use_after;
}

bool RoceConnection::may_have(Side from, const RocePacket& p) const {
  constexpr std::uint32_t far_away = 1 << 16;
  if (seen_->qp != IbQp::unknown && qp_of(p.service()) != seen_->qp) return false;
  const wire::ib::CmReq* const req = exchange_.req();
  if (req != nullptr && (p.packet.bth.p_key & 0x7FFF) != (req->p_key & 0x7FFF)) return false;
  const std::size_t payload = p.packet.payload.size();
  const wire::ib::Operation operation = p.operation();
  const bool full = expects_more(operation) || operation == wire::ib::Operation::read_response_first ||
                    operation == wire::ib::Operation::read_response_middle;
  if (const std::size_t mtu = seen_->path_mtu; mtu != 0 && (payload > mtu || (full && payload != mtu))) return false;
  if (wire::ib::rule_of(p.packet.bth.opcode).response) return true;
  const RequestFlow& flow = *flows_[index_of(from)];
  if (!flow.empty()) return !flow.far(p.packet.bth.psn);
  const auto start = seen_->ends[index_of(from)].starting_psn;
  return !start || ((p.packet.bth.psn - *start) & 0xFFFFFF) < far_away;
}

// IBA §12.9: a side sends no data after its DREQ or DREP.
void RoceConnection::check_order(Side from, const RocePacket& p) {
  FrameRef& first = first_data_[index_of(from)];
  if (first.frame == 0) first = {p.frame, p.at};
  const FrameRef left = exchange_.left(from);
  // QP 1 and this queue pair may use different paths.
  if (left.frame == 0 || p.at - left.at < paths_apart || !flows_[index_of(from)]->goes_on(p.packet.bth.psn) ||
      !set_up_seen())
    return;
  if (std::exchange(told_late_, true)) return;
  findings_.report(IbRule::ib_after_end, p.frame, from,
                   fmt::format(" sent data after its {} (frame {})",
                               seen_->dreq_frame == left.frame ? "DREQ" : "DREQ or DREP", left.frame));
}

// IBA §12.9: a side that sent a DREP is in timewait, where its queue pair answers nothing.
void RoceConnection::check_late_ack(Side from, const RocePacket& p) {
  const FrameRef drep = exchange_.drep(from);
  // QP 1 and this queue pair may use different paths.
  if (told_late_ack_ || drep.frame == 0 || p.at - drep.at < paths_apart || !set_up_seen() ||
      !flows_[index_of(other(from))]->is_near(p.packet.bth.psn, seen_->ends[index_of(other(from))].starting_psn))
    return;
  const bool positive = p.operation() != wire::ib::Operation::acknowledge ||
                        (p.packet.aeth.syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_ACK;
  if (!positive) return;
  told_late_ack_ = true;
  findings_.report(IbRule::ib_ack_after_end, p.frame, from,
                   fmt::format(" acknowledged PSN {:#08x} after its DREP (frame {})", p.packet.bth.psn, drep.frame));
}

// IBA Annex A14: the REQ is from the initiator (INI) queue pair, and asks for a target (TGT).
void RoceConnection::check_target(Side from, const RocePacket& p) {
  if (seen_->qp != IbQp::xrc || from != Side::responder || exchange_.req() == nullptr || guessed_[0] || guessed_[1])
    return;
  if (std::exchange(reported_target_, true)) return;
  findings_.report(IbRule::ib_target_request, p.frame, from,
                   fmt::format(" sent {} from its target queue pair, which sends no requests",
                               with_article(wire::ib::opcode_text(p.packet.bth.opcode))));
}

// IBA §9.6: an opcode of another service. The next PSN shows that it is one of the connection's packets. A datagram, or
// another PSN, may belong to a new use of the queue pair, if the capture lacks the end of this one: settle_stray().
void RoceConnection::other_service(Side from, const RocePacket& p) {
  const std::string opcode = wire::ib::opcode_text(p.packet.bth.opcode);
  const std::uint32_t psn = p.packet.bth.psn;
  const RequestFlow& flow = *flows_[index_of(from)];
  const bool own = p.service() != Service::ud && flow.is_near(psn, seen_->ends[index_of(from)].starting_psn);
  std::string text = fmt::format(" sent {} on a {}queue pair of {}", with_article(opcode),
                                 !has_cm_ || flow.is_near(psn) ? "" : "live ", to_string(seen_->qp));
  if (!has_cm_ || own)
    findings_.report(IbRule::ib_service, p.frame, from, text);
  else if (!strays_[index_of(from)] && !reported_stray_[index_of(from)])
    strays_[index_of(from)] = Stray{{p.frame, p.at}, std::move(text)};
  draw(from, p, LadderEvent::Kind::fpdu, opcode, 0);
}

// The owner of the queue pair goes on with the connection, which therefore was live when the stray packet arrived.
void RoceConnection::settle_stray(Side from, const RocePacket& p) {
  std::optional<Stray>& stray = strays_[index_of(other(from))];
  if (!stray || p.at - stray->ref.at < paths_apart) return;
  const Side requester = wire::ib::rule_of(p.packet.bth.opcode).response ? other(from) : from;
  if (!flows_[index_of(requester)]->is_near(p.packet.bth.psn, seen_->ends[index_of(requester)].starting_psn)) return;
  findings_.report(IbRule::ib_service, stray->ref.frame, other(from), stray->text);
  reported_stray_[index_of(other(from))] = true;
  stray.reset();
}

/// IBA §9.6: why the receiver drops this request without an answer; empty: it need not.
std::string_view RoceConnection::reason_to_drop(Side from, const RocePacket& p) const {
  if (guessed_[index_of(other(from))] || seen_->sidr) return {};
  const wire::ib::CmReq* const req = exchange_.req();
  if (p.icrc_wrong()) return icrcs_[index_of(from)].right ? "its ICRC is wrong" : "";
  if (p.packet.bth.tver != 0) return "its transport version is not 0";
  if (!wire::ib::rule_of(p.packet.bth.opcode).assigned) return "its opcode is not assigned";
  if (qp_of(p.service()) != seen_->qp) return "its opcode is that of another transport service";
  if (req != nullptr && (p.packet.bth.p_key & 0x7FFF) != (req->p_key & 0x7FFF))
    return "its P_Key is of another partition";
  return {};
}

/// Remembers a request that the receiver must drop.
void RoceConnection::note_request(Side from, const RocePacket& p) {
  const wire::ib::OpcodeRule rule = wire::ib::rule_of(p.packet.bth.opcode);
  if (!has_cm_ || rule.response) return;
  RequestFlow& flow = *flows_[index_of(from)];
  if (const std::string_view why = reason_to_drop(from, p); !why.empty())
    flow.dropped(p, terms_of(from), why);
  else
    flow.sound(p);
}

void RoceConnection::data(Side from, const RocePacket& p) {
  seen(p.frame, p.at);
  if (seen_->qp == IbQp::unknown || qp_of(p.service()) == seen_->qp) own_at_ = std::max(own_at_, p.at);
  ++seen_->ends[index_of(from)].packets;
  if (udp_port_ == 0) udp_port_ = p.network.source_port;
  const auto opcode = [&p] {
    return wire::ib::opcode_text(p.packet.bth.opcode);
  };  // a lambda, because most packets need no text
  const bool counts = icrc_counts(from, p, p.icrc_wrong() ? opcode() : std::string());
  note_request(from, p);
  if (!counts) {
    draw(from, p, LadderEvent::Kind::fpdu, opcode() + ", ICRC wrong", opcode().size());
    return;
  }
  if (p.packet.bth.opcode == PARLEY_IB_OPCODE_CNP) {
    ++cnps_;
    draw(from, p, LadderEvent::Kind::fpdu, "CNP", 0);
    return;
  }
  check_by_itself(from, p);
  const wire::ib::OpcodeRule rule = wire::ib::rule_of(p.packet.bth.opcode);
  if (!rule.assigned) {
    // IBA §9.2.1: opcodes of RD and of manufacturers are assigned, but not decoded here.
    if (p.service() != Service::rd && p.service() != Service::manufacturer)
      findings_.report(IbRule::ib_opcode, p.frame, from,
                       fmt::format(" sent opcode 0x{:02x}, which is not assigned", p.packet.bth.opcode));
    draw(from, p, LadderEvent::Kind::fpdu, opcode(), 0);
    return;
  }
  if (seen_->qp == IbQp::unknown) seen_->qp = qp_of(p.service());
  if (qp_of(p.service()) != seen_->qp) return other_service(from, p);
  settle_stray(from, p);
  check_ends(from, p);
  counts_[index_of(from)].octets += p.packet.payload.size();
  RequestFlow& flow = *flows_[index_of(rule.response ? other(from) : from)];
  const std::uint64_t again = flow.retransmissions;
  if (p.headers_known()) {
    if (rule.response) {
      check_late_ack(from, p);
      flow.response(p, guessed_[index_of(other(from))] ? FlowTerms{.qp = seen_->qp} : terms_of(other(from)));
    } else {
      check_order(from, p);
      check_target(from, p);
      flow.request(p, terms_of(from));
    }
  }
  draw_data(from, p, flow.retransmissions > again);
}

void RoceConnection::draw_data(Side from, const RocePacket& p, bool again) {
  if (!with_events()) return;
  std::string text = wire::ib::opcode_text(p.packet.bth.opcode);
  const std::size_t name = text.size();
  text += fmt::format(" PSN {:#08x}", p.packet.bth.psn);
  const auto headers = wire::ib::rule_of(p.packet.bth.opcode).headers;
  if ((headers & PARLEY_IB_AETH) != 0)
    text += fmt::format(" {} MSN {}", wire::ib::syndrome_text(p.packet.aeth.syndrome), p.packet.aeth.msn);
  if ((headers & PARLEY_IB_XRCETH) != 0) text += fmt::format(" SRQ {:#08x}", p.packet.xrceth.srqn);
  if (!p.packet.payload.empty()) text += " " + counted(p.packet.payload.size(), "octet");
  draw(from, p, again ? LadderEvent::Kind::repeated : LadderEvent::Kind::fpdu, std::move(text), name);
}

}  // namespace parley::capture
