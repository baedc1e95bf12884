// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CmExchange: transaction IDs, field codes, retry counts, and messages after the sender's own end.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"

namespace parley::capture {

using wire::ib::CmMessageType;
using wire::ib::CmSubject;

// IBA §12.6.4: an answer has the transaction ID of its request.
void CmExchange::check_transaction(Side from, const CapturedCm& m) {
  const std::uint64_t told = m.message.transaction_id;
  const auto tell = [&](std::uint64_t due, std::string_view whose) {
    if (told != due)
      findings_.report(IbRule::cm_transaction, m.ref.frame, from,
                       fmt::format("'s {} has the transaction ID {:#x}; that of the {} is {:#x}",
                                   to_string(m.message.type()), told, whose, due));
  };
  const auto* const mra = std::get_if<wire::ib::CmMra>(&m.message.body);
  const auto* const rej = std::get_if<wire::ib::CmRej>(&m.message.body);
  const bool of_other =
      (mra != nullptr && mra->about == CmSubject::other) || (rej != nullptr && rej->about == CmSubject::other);
  switch (m.message.type()) {
    case CmMessageType::rep:
    case CmMessageType::rtu:
    case CmMessageType::mra:
    case CmMessageType::rej:
      if (req_ && transaction_ && !of_other) tell(*transaction_, "REQ");
      break;
    case CmMessageType::sidr_rep:
      if (sidr_req_ && transaction_) tell(*transaction_, "SIDR_REQ");
      break;
    case CmMessageType::dreq: dreq_transactions_[index_of(from)].add(told); break;
    case CmMessageType::lap: lap_transactions_[index_of(from)].add(told); break;
    case CmMessageType::drep:
      if (const auto& those = dreq_transactions_[index_of(other(from))]; those.lacks(told)) tell(those.last(), "DREQ");
      break;
    case CmMessageType::apr:
      // The LAP of an unknown ID may be missing, or captured later.
      if (const auto& those = lap_transactions_[index_of(other(from))]; told == transaction_ && those.lacks(told))
        tell(those.last(), "LAP");
      apr_transactions_[index_of(from)].add(told);
      break;
    default: break;
  }
}

/// Whether the initiator may be replying to another answer to its REQ, which is captured later or missing.
bool CmExchange::may_be_of_next_answer(Side from, const CapturedCm& m) const {
  if (from != Side::initiator || !req_) return false;
  const Sendings& req = sendings_[0][index_of(Side::initiator)];
  if (req.count > 1 && req.last.frame > answer_.frame) return true;
  return rtu_.frame == 0 && m.ref.at - answer_.at >= least_wait(req_->remote_cm_response_timeout);
}

// Checks assigned values and lengths. check_rej() checks the reason of a REJ.
void CmExchange::check_codes(Side from, const CapturedCm& m) {
  const auto tell = [&](std::string_view field, int code) {
    findings_.report(
        IbRule::cm_unassigned, m.ref.frame, from,
        fmt::format("'s {} has the {} {}, which is not assigned", to_string(m.message.type()), field, code));
  };
  const auto about = [&](CmSubject what) {
    if (what > CmSubject::other) tell("message number", static_cast<int>(what));
  };
  if (const auto* mra = std::get_if<wire::ib::CmMra>(&m.message.body)) about(mra->about);
  const auto status = [&](auto code) {
    if (to_string(code) == "unassigned status") tell("status", static_cast<int>(code));
  };
  const auto info = [&](std::uint8_t length) {
    if (length > PARLEY_IBCM_INFO_LEN)
      findings_.report(IbRule::cm_rej_info, m.ref.frame, from,
                       fmt::format("'s {} announces {} octets of additional information; it has room for {}",
                                   to_string(m.message.type()), length, PARLEY_IBCM_INFO_LEN));
  };
  if (const auto* rej = std::get_if<wire::ib::CmRej>(&m.message.body)) {
    about(rej->about);
    info(rej->info_length);
  }
  if (const auto* sidr = std::get_if<wire::ib::CmSidrRep>(&m.message.body)) {
    status(sidr->status);
    info(sidr->info_length);
  }
  if (const auto* apr = std::get_if<wire::ib::CmApr>(&m.message.body)) {
    status(apr->status);
    info(apr->info_length);
  }
}

void CmExchange::check_p_key(Side from, const CapturedCm& m, std::uint16_t p_key) {
  constexpr std::uint16_t partition = 0x7FFF;
  if ((p_key & partition) == 0)
    findings_.report(IbRule::cm_req_p_key, m.ref.frame, from,
                     fmt::format("'s {} names P_Key {:#06x}, which is invalid", to_string(m.message.type()), p_key));
}

// IBA §12.9: a side that has rejected the REP, or has sent a DREP, sends no further RTU or REP.
void CmExchange::check_after_own_end(Side from, const CapturedCm& m) {
  const CmMessageType type = m.message.type();
  const bool rtu = type == CmMessageType::rtu && from == Side::initiator;
  const bool rep = type == CmMessageType::rep && from == Side::responder;
  if (restarted_ || (!rtu && !rep)) return;
  const Sendings& asked = sendings_of(rtu ? CmMessageType::rep : CmMessageType::req, other(from));
  const auto after = [&](const FrameRef& end) {
    return end.frame != 0 && m.ref.at - end.at >= same_moment && asked.last.frame < end.frame;
  };
  if (rtu && after(rej_of_rep_))
    findings_.report(IbRule::cm_after_rej, m.ref.frame, from,
                     fmt::format(" sent an RTU after its REJ of the REP (frame {})", rej_of_rep_.frame));
  else if (after(drep_[index_of(from)]))
    findings_.report(
        IbRule::cm_after_drep, m.ref.frame, from,
        fmt::format(" sent {} after its DREP (frame {})", rtu ? "an RTU" : "a REP", drep_[index_of(from)].frame));
}

// IBA §12.6.5: Max CM Retries also limits the REP. In addition, each retransmitted REQ may be answered again.
void CmExchange::check_rep_count(const CapturedCm& m) {
  if (!req_) return;
  const std::uint64_t asked = std::max<std::uint64_t>(sendings_of(CmMessageType::req, Side::initiator).count, 1);
  const std::uint64_t sent = sendings_of(CmMessageType::rep, Side::responder).count;
  if (sent != req_->max_cm_retries + asked + 1) return;
  findings_.report(
      IbRule::cm_retries, m.ref.frame, Side::responder,
      fmt::format(" sent its REP again {} times; the REQ allows {} at most", sent - 1, req_->max_cm_retries));
}

// IBA §12.6.5: Max CM Retries also limits the DREQ.
void CmExchange::check_dreq_count(Side from, const CapturedCm& m) {
  const std::uint64_t sent = sendings_of(CmMessageType::dreq, from).count;
  if (!req_ || restarted_ || sent != std::uint64_t{req_->max_cm_retries} + 2) return;
  findings_.report(
      IbRule::cm_retries, m.ref.frame, from,
      fmt::format(" sent its DREQ again {} times; the REQ allows {} at most", sent - 1, req_->max_cm_retries));
}

// IBA §12.6.5: the two CM response timeouts of the REQ are for every message that has an answer: the remote one for those
// of the initiator, the local one for those of the responder. A DREQ with another transaction ID is a new one.
void CmExchange::check_early_dreq(Side from, const CapturedCm& m, const Sendings& before) {
  const auto last = std::exchange(last_dreq_[index_of(from)], m.message.transaction_id);
  if (!req_ || restarted_ || before.count == 0 || last != m.message.transaction_id) return;
  const std::uint8_t timeout =
      from == Side::initiator ? req_->remote_cm_response_timeout : req_->local_cm_response_timeout;
  const Duration since = m.ref.at - before.last.at;
  if (since < Duration{0} || since + same_moment >= least_wait(timeout)) return;
  findings_.report(IbRule::cm_early, m.ref.frame, from,
                   fmt::format(" sent its DREQ again after {} (frame {}); its peer has {} to answer",
                               duration_text(since), before.last.frame, duration_text(wire::ib::timeout_of(timeout))));
}

/// Notes a side that sent DREQ as often as Max CM Retries allows, without an answer.
void CmExchange::report_unanswered_dreqs() {
  for (const Side from : {Side::initiator, Side::responder}) {
    const Sendings& dreq = sendings_of(CmMessageType::dreq, from);
    const Side peer = other(from);
    if (!req_ || dreq.count < std::uint64_t{req_->max_cm_retries} + 1 || left_[index_of(peer)].frame != 0) continue;
    findings_.note(dreq.last.frame, peer,
                   fmt::format("no answer of the {} to {}", to_string(peer), counted(dreq.count, "DREQ")));
  }
}

bool follows_rep(const wire::ib::CmMessage& message) {
  const CmMessageType type = message.type();
  if (const auto* mra = std::get_if<wire::ib::CmMra>(&message.body)) return mra->about == CmSubject::rep;
  if (const auto* rej = std::get_if<wire::ib::CmRej>(&message.body)) return rej->about == CmSubject::rep;
  return type == CmMessageType::rtu || type == CmMessageType::dreq || type == CmMessageType::drep ||
         type == CmMessageType::lap;
}

// IBA §12.6: a communication ID of 0 means that there is none, which only a REJ or an MRA can have. A side repeats that
// of its peer.
void CmExchange::check_null_ids(Side from, const CapturedCm& m) {
  const CmMessageType type = m.message.type();
  const bool names_both = type == CmMessageType::rep || type == CmMessageType::rtu || type == CmMessageType::dreq;
  if (type != CmMessageType::req && !names_both) return;
  const CmIds ids = ids_of(m.message);
  const bool repeats = from == Side::responder ? req_ && req_->local_comm_id == 0 : rep_ && rep_->local_comm_id == 0;
  if (ids.local != 0 && (!names_both || ids.remote != 0 || repeats)) return;
  findings_.report(IbRule::cm_null_id, m.ref.frame, from,
                   fmt::format("'s {} has 0 as the communication ID of its {}", to_string(type),
                               ids.local == 0 ? "sender" : "receiver"));
}

namespace {

/// Whether a GSI sent a packet with PSN `second` after the one with PSN `first`.
bool is_later_psn(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t near = 1 << 20;
  return ((second - first - 1) & 0xFFFFFF) < near;
}

/// IBA §12.6.7.2: reasons of a REJ that may come late. The time-out is that of the REP; a REQ on a stale connection may be
/// a repeated one that the capture lacks.
bool may_be_late(wire::ib::CmReject reason) {
  return reason == wire::ib::CmReject::timeout || reason == wire::ib::CmReject::stale_connection ||
         reason == wire::ib::CmReject::invalid_comm_id;
}

}  // namespace

// IBA §12.9: a REQ is rejected in place of a REP, and a REP in place of an RTU.
void CmExchange::check_late_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej) {
  const bool of_req = rej.about == CmSubject::req && from == Side::responder;
  const bool of_rep = rej.about == CmSubject::rep && from == Side::initiator;
  if (restarted_ || (!of_req && !of_rep) || may_be_late(rej.reason)) return;
  const CmMessageType own = of_req ? CmMessageType::rep : CmMessageType::rtu;
  const Sendings& sent = sendings_of(own, from);
  const Sendings& asked = sendings_of(of_req ? CmMessageType::req : CmMessageType::rep, other(from));
  // A REQ or REP that came again may be rejected, for example by a host that was started again.
  const auto before = [&](const FrameRef& end) { return end.frame != 0 && asked.last.frame < end.frame; };
  if (before(sent.last) && is_later_psn(sent.psns[(sent.count - 1) % sent.psns.size()], m.psn))
    findings_.report(
        IbRule::cm_rej_late, m.ref.frame, from,
        fmt::format(" rejected the {} after its {} (frame {})", to_string(rej.about), to_string(own), sent.last.frame));
  else if (of_req && before(past_rep_) && m.ref.at - past_rep_.at >= paths_apart)
    findings_.report(
        IbRule::cm_rej_late, m.ref.frame, from,
        fmt::format(" rejected the REQ after the message of frame {}, which the initiator sends only after "
                    "a REP",
                    past_rep_.frame));
}

// IBA §12.9: the RTU answers a REP. A REJ of the REQ and a REP exclude each other.
void CmExchange::check_unasked_rtu(const CapturedCm& rtu) {
  if (restarted_ || rep_ || rej_.frame == 0 || req_since_rej_ || rtu.ref.at - rej_.at < paths_apart) return;
  findings_.report(IbRule::cm_rtu_unasked, rtu.ref.frame, Side::initiator,
                   fmt::format(" sent an RTU after the REJ of its REQ (frame {}); no REP is between them", rej_.frame));
}

}  // namespace parley::capture
