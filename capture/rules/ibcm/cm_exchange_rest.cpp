// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CmExchange: RTU, MRA, REJ, DREQ and the messages of SIDR.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/read/mad/ulp_reject.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"

namespace parley::capture {

using wire::ib::CmMessageType;
using wire::ib::CmReject;
using wire::ib::CmSubject;

namespace {

/// Reasons that apply only to a REQ: no other message has a service ID, a path or an MTU.
bool only_of_req(CmReject reason) {
  const bool path = reason >= CmReject::primary_gid && reason <= CmReject::alternate_packet_rate;
  return path || reason == CmReject::invalid_service_id || reason == CmReject::invalid_transport_service ||
         reason == CmReject::invalid_path_mtu || reason == CmReject::primary_flow_label ||
         reason == CmReject::alternate_flow_label;
}

}  // namespace

// rep.before: the PSNs prove that the responder's GSI sent no packet between that one and this REP. An RTU between the
// two was sent before there was a REP (IBA §12.9).
void CmExchange::report_early_rtu(const CapturedCm& rep) {
  if (restarted_) return;  // the RTU may be for an earlier answer
  if (left(Side::responder).frame != 0 || left(Side::initiator).frame != 0)
    return;  // a REP that comes late: the first was lost
  if (rtu_.frame == 0 || !rep.before || rep.before->at >= rtu_.at || rep.ref.at - rtu_.at < paths_apart) return;
  findings_.report(IbRule::cm_rtu_before_rep, rtu_.frame, Side::initiator,
                   fmt::format(" sent its RTU before there was a REP, which came in frame {}", rep.ref.frame));
}

void CmExchange::handle_rtu(const CapturedCm& m) {
  if (rtu_.frame != 0) return;
  check_unasked_rtu(m);
  rtu_ = m.ref;
  seen_.rtu_frame = m.ref.frame;
  if (seen_.rep_frame != 0) seen_.ready = m.ref.at - rep_first_.at;
}

void CmExchange::handle_mra(Side from, const CapturedCm& m, const wire::ib::CmMra& mra) {
  const auto due = sender_of(m.message);
  // IBA §12.6.6: the receiver of a message sends an MRA about it.
  if (due && *due != from && roles_known())
    findings_.report(IbRule::cm_mra_about, m.ref.frame, from,
                     fmt::format(" sent an MRA about its own {}", to_string(mra.about)));
  if (mra.about == (from == Side::responder ? CmSubject::req : CmSubject::rep)) {
    const Duration asked = least_wait(mra.service_timeout);
    Mra& about = mras_[index_of(other(from))];
    about = {m.ref, mra.service_timeout, std::min(asked, about.shortest.value_or(asked))};
  }
  if (mra_req_.frame != 0) return;
  mra_req_ = m.ref;
  findings_.note(m.ref.frame, from,
                 fmt::format("the {} asked for up to {} to answer the {} (MRA)", to_string(from),
                             duration_text(wire::ib::timeout_of(mra.service_timeout)), to_string(mra.about)));
}

void CmExchange::check_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej) {
  const auto due = sender_of(m.message);
  // IBA §12.6.7: a REJ rejects a message of the peer.
  if (due && *due != from && roles_known())
    findings_.report(IbRule::cm_rej_about, m.ref.frame, from,
                     fmt::format(" sent a REJ of its own {}", to_string(rej.about)));
  if (to_string(rej.reason) == "unassigned reason")
    findings_.report(IbRule::cm_rej_unassigned, m.ref.frame, from,
                     fmt::format("'s REJ has the reason {}, which is not assigned", static_cast<int>(rej.reason)));
  else if (rej.reason == CmReject::invalid_comm_id && rej.about == CmSubject::req)
    findings_.report(IbRule::cm_rej_unknown_id, m.ref.frame, from,
                     "'s REJ of the REQ has reason 6 (invalid communication ID); a REQ names no ID of its receiver");
  else if (only_of_req(rej.reason) && rej.about != CmSubject::req)
    findings_.report(IbRule::cm_rej_reason, m.ref.frame, from,
                     fmt::format("'s REJ of {} has a reason that only a REQ can give: {}", to_string(rej.about),
                                 to_string(rej.reason)));
}

void CmExchange::handle_rej(Side from, const CapturedCm& m, const wire::ib::CmRej& rej) {
  check_rej(from, m, rej);
  check_late_rej(from, m, rej);
  if (rej.about == CmSubject::req && from == Side::responder) {
    rej_ = m.ref;
    req_since_rej_ = false;
    // IBA §12.6.7.2: reason 9 is for an invalid transport service type.
    const bool known_type = req_ == nullptr || req_->service == wire::ib::CmService::rc ||
                            req_->service == wire::ib::CmService::uc || req_->is_xrc();
    if (!known_type && rej.reason == CmReject::consumer)
      findings_.departs(wire::ib::Departure::rejects_service_type, m.ref.frame, from,
                        " rejected a transport service type as its program (28), not as what it is (9)");
  }
  if (rej.about == CmSubject::rep && from == Side::initiator && rej_of_rep_.frame == 0) rej_of_rep_ = m.ref;
  // A connection that was established and has ended was not rejected, even if a late REQ gets a REJ.
  const bool again = is_last_rej(from, rej);
  last_rejs_[index_of(from)] = LastRej{rej.about, rej.reason};
  if (ended() || again) return;
  IbReject seen{from, m.ref.frame, false, rej.about, static_cast<std::uint16_t>(rej.reason)};
  if (rej.reason == CmReject::consumer) {
    const auto end =
        std::find_if(rej.private_data.rbegin(), rej.private_data.rend(), [](std::uint8_t o) { return o != 0; });
    seen.private_data.assign(rej.private_data.begin(), end.base());
    seen.ulp_status = ulp_reject_text(seen_.service_id.value_or(0), rej.private_data);
  }
  findings_.note(
      m.ref.frame, from,
      fmt::format("the {} rejected {}: {}", to_string(from),
                  rej.about == CmSubject::other ? "the connection" : "the " + std::string(to_string(rej.about)),
                  seen.details()));
  if (seen_.reject) return;
  seen_.reject = std::move(seen);
  if (rej.about == CmSubject::req && from == Side::responder && req_ && !rep_) {
    seen_.reply = m.ref.at - sendings_of(CmMessageType::req, Side::initiator).first.at;
    seen_.reply_rejects = true;
  }
}

/// Whether this REJ has the same message and reason as the side's last one.
bool CmExchange::is_last_rej(Side from, const wire::ib::CmRej& rej) const {
  const auto& last = last_rejs_[index_of(from)];
  return last && last->about == rej.about && last->reason == rej.reason;
}

void CmExchange::handle_dreq(Side from, const CapturedCm& m, const wire::ib::CmDreq& dreq) {
  FrameRef& left = left_[index_of(from)];
  if (left.frame == 0) left = m.ref;
  if (seen_.dreq_frame == 0) seen_.dreq_frame = m.ref.frame;
  check_dreq_count(from, m);
  check_remote_qpn(from, m, dreq.remote_qpn);
  auto& theirs = seen_.ends[index_of(other(from))].qpn;
  if (!theirs) theirs = dreq.remote_qpn;
}

// IBA §12.6.10, §12.8.1: Remote QPN is the receiver's QPN from its REQ or REP.
void CmExchange::check_remote_qpn(Side from, const CapturedCm& m, std::uint32_t qpn) {
  const auto& theirs = seen_.ends[index_of(other(from))].qpn;
  const bool told = other(from) == Side::initiator ? req_ != nullptr : rep_ != nullptr;
  // If the responder was restarted, the initiator may be ending the earlier connection.
  if (told && theirs && *theirs != qpn && !(restarted_ && from == Side::initiator) &&
      !(ids_of(m.message).remote != ids_[index_of(Side::responder)] && may_be_of_next_answer(from, m)))
    findings_.report(
        IbRule::cm_dreq_qpn, m.ref.frame, from,
        fmt::format("'s {} has {:#08x} as its peer's QPN; it is {:#08x}", to_string(m.message.type()), qpn, *theirs));
}

void CmExchange::handle_sidr_req(Side from, const CapturedCm& m, const wire::ib::CmSidrReq& req) {
  seen_.sidr = true;
  seen_.qp = IbQp::ud;
  if (sidr_req_) {
    if (!(*sidr_req_ == req))
      findings_.report(
          IbRule::cm_req_changed, m.ref.frame, from,
          fmt::format("'s SIDR_REQ is another one than that of frame {} with the same request ID", seen_.req_frame));
    return;
  }
  sidr_req_ = std::make_unique<wire::ib::CmSidrReq>(req);
  transaction_ = m.message.transaction_id;
  seen_.req_frame = m.ref.frame;
  seen_.service_id = req.service_id;
  check_p_key(from, m, req.p_key);
  check_cma(from, m, req.service_id, req.private_data);
}

void CmExchange::handle_sidr_rep(Side from, const CapturedCm& m, const wire::ib::CmSidrRep& rep) {
  seen_.sidr = true;
  seen_.qp = IbQp::ud;
  const bool valid = rep.status == wire::ib::SidrStatus::valid;
  // IBA §12.11.2: the SIDR_REP is about the requested service. A rejecting one may have service ID 0.
  if (sidr_req_ && rep.service_id != sidr_req_->service_id && (valid || rep.service_id != 0))
    findings_.report(IbRule::cm_sidr_service, m.ref.frame, from,
                     fmt::format("'s SIDR_REP is about the service {:#018x}; the SIDR_REQ asked for {:#018x}",
                                 rep.service_id, sidr_req_->service_id));
  if (valid && (rep.qpn < first_free_qpn || rep.qpn == PARLEY_IB_QPN_MULTICAST))
    findings_.report(IbRule::cm_sidr_qpn, m.ref.frame, from,
                     fmt::format("'s SIDR_REP names QPN {:#08x}, which no service can have", rep.qpn));
  if (std::exchange(sidr_rep_, true)) {
    // IBA §12.11: the answer to a repeated SIDR_REQ is the first one again.
    if (sidr_answer_ && !(*sidr_answer_ == rep))
      findings_.report(
          IbRule::cm_sidr_changed, m.ref.frame, from,
          fmt::format(
              "'s SIDR_REP has status {} ({}), QPN {:#08x}; that of frame {} for the same request has status {}, "
              "QPN {:#08x}, or other fields",
              static_cast<int>(rep.status), to_string(rep.status), rep.qpn, seen_.rep_frame,
              static_cast<int>(sidr_answer_->status), sidr_answer_->qpn));
    return;
  }
  sidr_answer_ = std::make_unique<wire::ib::CmSidrRep>(rep);
  seen_.rep_frame = m.ref.frame;
  if (sidr_req_) seen_.reply = m.ref.at - sendings_of(CmMessageType::sidr_req, Side::initiator).first.at;
  if (!seen_.service_id) seen_.service_id = rep.service_id;
  if (valid) {
    seen_.ends[1].qpn = rep.qpn;
    q_key_ = rep.q_key;
    return;
  }
  seen_.reject = IbReject{from, m.ref.frame, true, {}, static_cast<std::uint16_t>(rep.status)};
  findings_.note(m.ref.frame, from, fmt::format("the {} refused: {}", to_string(from), to_string(rep.status)));
}

void CmExchange::finish(bool data_of_initiator) {
  report_unanswered_dreqs();
  if (seen_.reject || rtu_.frame != 0 || ended() || data_of_initiator) return;
  const auto unanswered = [&](CmMessageType type, Side from) {
    const std::uint64_t n = sendings_of(type, from).count;
    if (req_ == nullptr || n < std::uint64_t{req_->max_cm_retries} + 1) return;
    seen_.gave_up = fmt::format("no answer to {}", counted(n, to_string(type)));
  };
  if (rep_ == nullptr)
    unanswered(CmMessageType::req, Side::initiator);
  else
    unanswered(CmMessageType::rep, Side::responder);
}

std::string cm_event_text(const wire::ib::CmMessage& message) {
  std::string out(to_string(message.type()));
  if (const auto* req = std::get_if<wire::ib::CmReq>(&message.body))
    out += fmt::format("{} {:#08x} PSN {:#08x} IRD {} ORD {}", req->is_xrc() ? " INI QPN" : " QPN", req->local_qpn,
                       req->starting_psn, req->responder_resources, req->initiator_depth);
  if (const auto* rep = std::get_if<wire::ib::CmRep>(&message.body))
    out += fmt::format("{} {:#08x} PSN {:#08x} IRD {} ORD {}", rep->local_qpn != 0 ? " QPN" : " TGT QPN", rep->qpn(),
                       rep->starting_psn, rep->responder_resources, rep->initiator_depth);
  if (const auto* mra = std::get_if<wire::ib::CmMra>(&message.body))
    out += fmt::format(" of the {}, up to {}", to_string(mra->about),
                       duration_text(wire::ib::timeout_of(mra->service_timeout)));
  if (const auto* rej = std::get_if<wire::ib::CmRej>(&message.body))
    out += fmt::format(" reason {}: {}", static_cast<int>(rej->reason), to_string(rej->reason));
  if (const auto* sidr = std::get_if<wire::ib::CmSidrRep>(&message.body))
    out +=
        fmt::format(" QPN {:#08x} status {}: {}", sidr->qpn, static_cast<int>(sidr->status), to_string(sidr->status));
  return out;
}

}  // namespace parley::capture
