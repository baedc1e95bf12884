// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// CmExchange: dispatch of messages, communication IDs, REQ and REP. cm_exchange_rest.cpp has the other messages.
#include "capture/rules/ibcm/cm_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "base/text.hpp"

namespace parley::capture {

using wire::ib::CmMessageType;
using wire::ib::CmRep;
using wire::ib::CmReq;
using wire::ib::CmSubject;
using wire::ib::Departure;

namespace {

constexpr std::uint8_t mtu_code_min = 1, mtu_code_max = 5;

bool is_usable_qpn(std::uint32_t qpn) { return qpn >= first_free_qpn && qpn < PARLEY_IB_QPN_MULTICAST; }

std::uint16_t octets_of_mtu(std::uint8_t code) {
  return code >= mtu_code_min && code <= mtu_code_max ? static_cast<std::uint16_t>(128U << code) : std::uint16_t{0};
}

template <class M>
constexpr bool has_local = requires(const M& m) {
  m.local_comm_id;
};
template <class M>
constexpr bool has_remote = requires(const M& m) {
  m.remote_comm_id;
};

/// Names of the fields in which two REQs or REPs differ.
class Differences {
 public:
  template <class T>
  Differences& field(std::string_view name, const T& one, const T& two) {
    if (!(one == two)) names_ += (names_.empty() ? "" : ", ") + std::string(name);
    return *this;
  }
  std::string text() const { return names_.empty() ? "other fields" : names_; }

 private:
  std::string names_;
};

std::string differences(const CmReq& a, const CmReq& b) {
  Differences d;
  d.field("service ID", a.service_id, b.service_id).field("CA GUID", a.local_ca_guid, b.local_ca_guid);
  d.field("QPN", a.local_qpn, b.local_qpn).field("starting PSN", a.starting_psn, b.starting_psn);
  d.field("responder resources", a.responder_resources, b.responder_resources);
  d.field("initiator depth", a.initiator_depth, b.initiator_depth).field("path MTU", a.path_mtu, b.path_mtu);
  d.field("P_Key", a.p_key, b.p_key).field("primary path", a.primary, b.primary);
  d.field("private data", a.private_data, b.private_data);
  return d.text();
}

std::string differences(const CmRep& a, const CmRep& b) {
  Differences d;
  d.field("QPN", a.local_qpn, b.local_qpn).field("EECN", a.local_eecn, b.local_eecn);
  d.field("starting PSN", a.starting_psn, b.starting_psn).field("CA GUID", a.local_ca_guid, b.local_ca_guid);
  d.field("responder resources", a.responder_resources, b.responder_resources);
  d.field("initiator depth", a.initiator_depth, b.initiator_depth);
  d.field("private data", a.private_data, b.private_data);
  return d.text();
}

}  // namespace

CmIds ids_of(const wire::ib::CmMessage& message) {
  return std::visit(
      [](const auto& m) {
        using M = std::decay_t<decltype(m)>;
        CmIds out;
        if constexpr (has_local<M>) out.local = m.local_comm_id;
        if constexpr (has_remote<M>) {
          out.remote = m.remote_comm_id;
          out.has_remote = true;
        }
        if constexpr (!has_local<M>) out.local = m.request_id;
        return out;
      },
      message.body);
}

std::optional<Side> sender_of(const wire::ib::CmMessage& message) {
  const auto about = [](CmSubject what) -> std::optional<Side> {
    if (what == CmSubject::req) return Side::responder;
    if (what == CmSubject::rep) return Side::initiator;
    return std::nullopt;
  };
  switch (message.type()) {
    case CmMessageType::req:
    case CmMessageType::rtu:
    case CmMessageType::sidr_req:
    case CmMessageType::lap: return Side::initiator;
    case CmMessageType::rep:
    case CmMessageType::sidr_rep:
    case CmMessageType::apr: return Side::responder;
    case CmMessageType::mra: return about(std::get<wire::ib::CmMra>(message.body).about);
    case CmMessageType::rej: return about(std::get<wire::ib::CmRej>(message.body).about);
    case CmMessageType::dreq:
    case CmMessageType::drep: return std::nullopt;
  }
  return std::nullopt;
}

/// Whether a LAP or APR is the first one with its transaction ID. A connection may change its alternate path often.
bool CmExchange::begins_transaction(Side from, const CapturedCm& m) const {
  const CmMessageType type = m.message.type();
  if (type != CmMessageType::lap && type != CmMessageType::apr) return false;
  const auto& those = type == CmMessageType::lap ? lap_transactions_ : apr_transactions_;
  return !those[index_of(from)].has(m.message.transaction_id);
}

CmExchange::Sendings& CmExchange::sendings_of(CmMessageType type, Side from) {
  const auto at = static_cast<std::size_t>(type) - static_cast<std::size_t>(CmMessageType::req);
  return sendings_[std::min(at, sendings_.size() - 1)][index_of(from)];
}

bool CmExchange::is_copy(const Sendings& s, const CapturedCm& m) {
  for (std::size_t i = 0; i < std::min<std::size_t>(s.count, s.psns.size()); ++i)
    if (s.psns[i] == m.psn) return true;
  return false;
}

void CmExchange::count(Sendings& s, const CapturedCm& m) {
  s.psns[s.count % s.psns.size()] = m.psn;
  if (s.count++ == 0) s.first = m.ref;
  s.last = m.ref;
}

bool CmExchange::message(Side from, const CapturedCm& m) {
  Sendings& sendings = sendings_of(m.message.type(), from);
  if (is_copy(sendings, m)) return false;
  check_restart(from, m);
  const Sendings before = sendings;
  count(sendings, m);
  if (from == Side::responder) {
    answer_ = m.ref;
    answered_ = answered_ || m.message.type() != CmMessageType::drep;
  }
  const auto* const rej = std::get_if<wire::ib::CmRej>(&m.message.body);
  if (before.count > 0 && (rej == nullptr || is_last_rej(from, *rej)) && !begins_transaction(from, m)) ++seen_.retries;
  last_at_ = std::max(last_at_, m.ref.at);
  if (from == Side::initiator && past_rep_.frame == 0 && follows_rep(m.message)) past_rep_ = m.ref;
  check_reserved(from, m);
  check_ids(from, m);
  check_transaction(from, m);
  check_codes(from, m);
  check_null_ids(from, m);
  check_after_own_end(from, m);
  if (const auto due = sender_of(m.message); due && *due != from &&
                                             !std::holds_alternative<wire::ib::CmRej>(m.message.body) &&
                                             !std::holds_alternative<wire::ib::CmMra>(m.message.body)) {
    // IBA §12.9: each of the two sides has its own messages.
    if (roles_known())
      findings_.report(
          IbRule::cm_role, m.ref.frame, from,
          fmt::format(" sent {} {}, which only the {} sends", m.message.type() == CmMessageType::rtu ? "an" : "a",
                      to_string(m.message.type()), to_string(*due)));
    return true;
  }
  switch (m.message.type()) {
    case CmMessageType::req:
      handle_req(from, m, std::get<CmReq>(m.message.body));
      if (req_) check_early(from, m, before, req_->remote_cm_response_timeout);
      break;
    case CmMessageType::rep:
      if (is_of_before(m)) break;
      handle_rep(from, m, std::get<CmRep>(m.message.body));
      check_rep_count(m);
      // The responder may answer a retransmitted REQ at once. Otherwise it must wait before it retransmits the REP.
      if (req_ && sendings_of(CmMessageType::req, other(from)).last.at < before.last.at)
        check_early(from, m, before, req_->local_cm_response_timeout);
      break;
    case CmMessageType::rtu: handle_rtu(m); break;
    case CmMessageType::mra: handle_mra(from, m, std::get<wire::ib::CmMra>(m.message.body)); break;
    case CmMessageType::rej: handle_rej(from, m, std::get<wire::ib::CmRej>(m.message.body)); break;
    case CmMessageType::dreq:
      handle_dreq(from, m, std::get<wire::ib::CmDreq>(m.message.body));
      check_early_dreq(from, m, before);
      break;
    case CmMessageType::drep:
      drep_[index_of(from)] = m.ref;
      if (left_[index_of(from)].frame == 0) left_[index_of(from)] = m.ref;
      if (seen_.drep_frame == 0) seen_.drep_frame = m.ref.frame;
      break;
    case CmMessageType::sidr_req: handle_sidr_req(from, m, std::get<wire::ib::CmSidrReq>(m.message.body)); break;
    case CmMessageType::sidr_rep: handle_sidr_rep(from, m, std::get<wire::ib::CmSidrRep>(m.message.body)); break;
    case CmMessageType::lap: check_remote_qpn(from, m, std::get<wire::ib::CmLap>(m.message.body).remote_qpn); break;
    case CmMessageType::apr: break;
  }
  return true;
}

/// Whether a retransmitted REQ may be between the responder's last message and this one, in the capture or missing.
bool CmExchange::asked_again(const CapturedCm& m) {
  // An ID from the initiator may be older than the capture. A DREP may be about a connection unknown to its sender.
  if (!answered_) return true;
  const Sendings& req = sendings_of(CmMessageType::req, Side::initiator);
  if (req.count > 1 && req.last.frame > answer_.frame) return true;
  // The responder may forget its answers, and delayed answers to several REQs may arrive together.
  if (lives_ < req.count) return true;
  const Duration due = req_ ? least_wait(req_->remote_cm_response_timeout) : Duration{0};
  return m.ref.at - answer_.at >= due;
}

/// Whether this is a late REP of an earlier answer of the responder.
bool CmExchange::is_of_before(const CapturedCm& rep) const {
  return restarted_ && rep_ != nullptr && ids_of(rep.message).local != rep_->local_comm_id;
}

/// The connection is over, and a REQ may have followed. Then a DREQ or DREP may belong to the next connection, whose
/// REP is captured later or missing.
bool CmExchange::may_be_next(const CapturedCm& m) const {
  const bool ends = m.message.type() == CmMessageType::dreq || m.message.type() == CmMessageType::drep;
  if (!ends || restarted_ || req_ == nullptr || !ended()) return false;
  const Sendings& req = sendings_[0][index_of(Side::initiator)];
  if (req.last.frame > answer_.frame) return true;
  return seen_.drep_frame != 0 && m.ref.at - answer_.at >= least_wait(req_->remote_cm_response_timeout);
}

// IBA §12.9: a restarted peer has lost its state, and takes a retransmitted REQ for a new one.
void CmExchange::check_restart(Side from, const CapturedCm& m) {
  auto& known = ids_[index_of(Side::responder)];
  const CmIds ids = ids_of(m.message);
  if (ids_exchanged(from, ids)) return;
  const bool by_rtu = from == Side::initiator && m.message.type() == CmMessageType::rtu;  // the new REP is missing
  const bool next = may_be_next(m);
  if (!next && !by_rtu && (from != Side::responder || sender_of(m.message) != Side::responder)) return;
  const std::uint32_t told = from == Side::initiator ? ids.remote : ids.local;
  if (!known || *known == told || told == 0 || (!next && !asked_again(m))) return;
  const bool answers = !next && !by_rtu && answer_.frame != 0;
  if (answers && ended())
    findings_.departs(Departure::forgets_in_timewait, m.ref.frame, from,
                      " takes the REQ of a connection that is over for a new one");
  else if (answers)
    findings_.report(
        IbRule::cm_restarted, m.ref.frame, from,
        fmt::format(" answered the REQ as {:#010x} in frame {}, and its repetition as {:#010x}: it was started again, "
                    "or has forgotten its answer",
                    *known, answer_.frame, told));
  known = told;
  restarted_ = true;
  ++lives_;
  rep_.reset();
  for (auto& sent : sendings_) sent[index_of(Side::responder)] = {};
}

/// Whether the local and the remote communication ID are exchanged.
bool CmExchange::ids_exchanged(Side from, const CmIds& ids) const {
  const auto &mine = ids_[index_of(from)], &theirs = ids_[index_of(other(from))];
  if (!ids.has_remote || ids.local == ids.remote || ids.remote == 0 || !theirs || ids.local != *theirs) return false;
  return !mine || ids.remote == *mine;
}

void CmExchange::remember_wrong(Side from, const CapturedCm& m) {
  const CmMessageType type = m.message.type();
  if (type != CmMessageType::dreq && type != CmMessageType::lap) return;
  auto& wrong = wrong_ids_[index_of(from)];
  if (wrong.size() >= wrong_ids_max) wrong.erase(wrong.begin());
  wrong.push_back({.transaction = m.message.transaction_id, .ids = ids_of(m.message)});
}

/// IBA §12.9: a DREQ that belongs to no connection is answered by a DREP with the IDs that it has.
bool CmExchange::answers_wrong(Side from, const CapturedCm& m) const {
  const CmMessageType type = m.message.type();
  if (type != CmMessageType::drep && type != CmMessageType::apr) return false;
  const CmIds ids = ids_of(m.message);
  const auto& wrong = wrong_ids_[index_of(other(from))];
  return std::any_of(wrong.begin(), wrong.end(), [&](const WrongIds& w) {
    return w.transaction == m.message.transaction_id && w.ids.local == ids.remote && w.ids.remote == ids.local;
  });
}

// IBA §12.6: each message has the communication IDs that its sender and its receiver have chosen.
void CmExchange::check_ids(Side from, const CapturedCm& m) {
  if (m.message.type() == CmMessageType::sidr_req || m.message.type() == CmMessageType::sidr_rep) {
    ids_[0] = ids_of(m.message).local;
    return;
  }
  const CmIds ids = ids_of(m.message);
  auto &mine = ids_[index_of(from)], &theirs = ids_[index_of(other(from))];
  // IBA §12.6.7.2 reason 6: the REJ has a communication ID that its sender does not know.
  const auto* const reject = std::get_if<wire::ib::CmRej>(&m.message.body);
  if (reject != nullptr && reject->reason == wire::ib::CmReject::invalid_comm_id) return;
  // IBA §12.6.6: a busy responder may send an MRA before it has chosen a communication ID.
  const auto* const mra = std::get_if<wire::ib::CmMra>(&m.message.body);
  const bool busy = mra != nullptr && mra->about == wire::ib::CmSubject::req && from == Side::responder;
  if (answers_wrong(from, m)) return;
  if (ids_exchanged(from, ids)) {
    findings_.report(IbRule::cm_comm_id, m.ref.frame, from,
                     fmt::format("'s {} has the communication IDs of its sender and its receiver swapped",
                                 to_string(m.message.type())));
    if (!mine) mine = ids.remote;
    return;
  }
  const auto check = [&](std::optional<std::uint32_t>& known, std::uint32_t told, std::string_view whose) {
    if (told == 0 && (reject != nullptr || busy)) return;
    const bool responders = &known == &ids_[index_of(Side::responder)];
    if (restarted_ && responders) return;  // a late message may have the earlier ID
    // IBA §12.9: the REJ may belong to another answer to a retransmitted REQ, whose REP the capture lacks.
    const bool another =
        reject != nullptr && known && (!roles_known() || (from == Side::responder && responders && asked_again(m)));
    if (!known) {
      known = told;
    } else if (another || (responders && may_be_of_next_answer(from, m))) {
      return;
    } else if (*known != told) {
      remember_wrong(from, m);
      findings_.report(IbRule::cm_comm_id, m.ref.frame, from,
                       fmt::format("'s {} has {:#010x} as the communication ID of {}; it is {:#010x}",
                                   to_string(m.message.type()), told, whose, *known));
    }
  };
  check(mine, ids.local, "its sender");
  if (ids.has_remote) check(theirs, ids.remote, "its receiver");
}

// IBA §12.6: reserved fields are 0 on send and ignored on receive.
void CmExchange::check_reserved(Side from, const CapturedCm& m) {
  std::array<std::uint8_t, PARLEY_IB_MAD_LEN> again{};
  m.message.emit(again);
  const auto [theirs, ours] = std::mismatch(m.mad.begin(), m.mad.end(), again.begin(), again.end());
  const CmMessageType type = m.message.type();
  const bool has_ece = type == CmMessageType::req || type == CmMessageType::rep || type == CmMessageType::sidr_rep;
  if (theirs == m.mad.end() && !has_ece && m.message.attribute_modifier != 0)
    findings_.report(IbRule::cm_reserved, m.ref.frame, from,
                     fmt::format("'s {} has attribute modifier {:#010x}; 0 is expected", to_string(type),
                                 m.message.attribute_modifier));
  if (theirs == m.mad.end()) return;
  findings_.report(IbRule::cm_reserved, m.ref.frame, from,
                   fmt::format("'s {} has reserved bits set in octet {} of its MAD (0x{:02x})",
                               to_string(m.message.type()), theirs - m.mad.begin(), *theirs));
}

void CmExchange::check_early(Side from, const CapturedCm& m, const Sendings& before, std::uint8_t timeout) {
  if (before.count == 0) return;
  const Duration due = least_wait(timeout), since = m.ref.at - before.last.at;
  if (since < Duration{0}) return;
  // IBA §12.6.6: an MRA restarts the wait with its own timeout, which may be shorter or longer.
  const Mra& mra = mras_[index_of(from)];
  const FrameRef& answer = from == Side::initiator ? answer_ : rtu_;
  if (mra.ref.frame != 0 && mra.ref.at >= before.last.at - paths_apart && answer.frame <= mra.ref.frame &&
      m.ref.at - mra.ref.at >= paths_apart) {
    const Duration held = m.ref.at - mra.ref.at;
    if (held + same_moment < least_wait(mra.timeout))
      findings_.report(IbRule::cm_early, m.ref.frame, from,
                       fmt::format(" sent its {} again {} after an MRA (frame {}), by which its peer has {} to answer",
                                   to_string(m.message.type()), duration_text(held), mra.ref.frame,
                                   duration_text(wire::ib::timeout_of(mra.timeout))));
    return;
  }
  if (since >= (mra.shortest ? std::min(due, *mra.shortest) : due)) return;
  findings_.report(
      IbRule::cm_early, m.ref.frame, from,
      fmt::format(" sent its {} again after {} (frame {}); its peer has {} to answer", to_string(m.message.type()),
                  duration_text(since), before.last.frame, duration_text(wire::ib::timeout_of(timeout))));
}

void CmExchange::handle_req(Side from, const CapturedCm& m, const CmReq& req) {
  req_since_rej_ = true;
  if (req_) {
    if (!(*req_ == req))
      // IBA §12.6.5: a retransmitted REQ is identical to the first.
      findings_.report(IbRule::cm_req_changed, m.ref.frame, from,
                       fmt::format("'s REQ is another one than that of frame {} with the same communication ID: {}",
                                   seen_.req_frame, differences(*req_, req)));
    const Sendings& sent = sendings_of(CmMessageType::req, from);
    // IBA §12.6.5: Max CM Retries.
    if (sent.count == std::uint64_t{req_->max_cm_retries} + 2)
      findings_.report(
          IbRule::cm_retries, m.ref.frame, from,
          fmt::format(" sent its REQ again {} times; it announced {} at most", sent.count - 1, req_->max_cm_retries));
    return;
  }
  req_ = std::make_unique<CmReq>(req);
  transaction_ = m.message.transaction_id;
  seen_.req_frame = m.ref.frame;
  seen_.service_id = req.service_id;
  seen_.path_mtu = octets_of_mtu(req.path_mtu);
  seen_.qp = req.is_xrc()                             ? IbQp::xrc
             : req.service == wire::ib::CmService::rc ? IbQp::rc
             : req.service == wire::ib::CmService::uc ? IbQp::uc
                                                      : IbQp::unknown;
  seen_.ends[0].qpn = req.local_qpn;
  seen_.ends[1].starting_psn = req.starting_psn;
  check_req(from, m, req);
}

void CmExchange::check_req(Side from, const CapturedCm& m, const CmReq& req) {
  if (octets_of_mtu(req.path_mtu) == 0)
    findings_.report(IbRule::cm_path_mtu, m.ref.frame, from,
                     fmt::format("'s REQ has path MTU {}; 1 to 5 are 256 to 4096 octets", req.path_mtu));
  if (req.service == wire::ib::CmService::extended && !req.is_xrc())
    findings_.report(
        IbRule::cm_service, m.ref.frame, from,
        fmt::format("'s REQ asks for the extended transport type {}; there is only 1 (XRC)", req.extended_service));
  if (!is_usable_qpn(req.local_qpn))
    findings_.report(IbRule::cm_req_qpn, m.ref.frame, from,
                     fmt::format("'s REQ names QPN {:#08x}, which no connection can have", req.local_qpn));
  check_p_key(from, m, req.p_key);
  // IBA Annex A17: the GIDs in the REQ are the addresses of the packet.
  if (m.network != nullptr && req.primary.local_gid != m.network->source)
    findings_.report(IbRule::cm_gid, m.ref.frame, from,
                     fmt::format("'s REQ has {} as its GID, and comes from {}", gid_text(req.primary.local_gid),
                                 gid_text(m.network->source)));
  else if (m.network != nullptr && req.primary.remote_gid != m.network->destination)
    findings_.report(IbRule::cm_gid, m.ref.frame, from,
                     fmt::format("'s REQ has {} as the GID of its receiver, and goes to {}",
                                 gid_text(req.primary.remote_gid), gid_text(m.network->destination)));
  check_cma(from, m, req.service_id, req.private_data);
}

// IBA Annex A11: the header of the RDMA IP CM service. Its rule is not an error: Linux AF_IB sockets omit the header.
void CmExchange::check_cma(Side from, const CapturedCm& m, std::uint64_t service_id, ConstBytes private_data) {
  const auto service = wire::ib::cma_service_of(service_id);
  if (!service || (service->space != wire::ib::PortSpace::tcp && service->space != wire::ib::PortSpace::udp)) return;
  const auto header = wire::ib::CmaHeader::parse(private_data);
  if (!header) {
    findings_.report(
        IbRule::cm_cma_header, m.ref.frame, from,
        fmt::format("'s {} for a service of RDMA IP CM: {}", to_string(m.message.type()), header.error().sentence()));
    return;
  }
  // Anonymization masks a header that it cannot read, so its addresses are not compared.
  if ((private_data[1] & 0x0F) != 0) {
    findings_.report(IbRule::cm_cma_header, m.ref.frame, from,
                     fmt::format("'s {} has reserved bits set in octet 1 of its header of RDMA IP CM (0x{:02x})",
                                 to_string(m.message.type()), private_data[1]));
    return;
  }
  seen_.source_port = header->source.port;
  const auto differs = [&](const Address& told, const Gid& gid, std::string_view which) {
    if (gid_of(told) == gid || is_link_local_gid(gid) != told.is_link_local()) return;
    findings_.report(
        IbRule::cm_cma_address, m.ref.frame, from,
        fmt::format("'s {} has {} as its {} address, and {} {}", to_string(m.message.type()), gid_text(gid_of(told)),
                    which, which == "source" ? "comes from" : "goes to", gid_text(gid)));
  };
  if (m.network == nullptr) return;
  differs(header->source, m.network->source, "source");
  differs(header->destination, m.network->destination, "destination");
}

void CmExchange::handle_rep(Side from, const CapturedCm& m, const CmRep& rep) {
  if (rej_.frame != 0 && !req_since_rej_ && m.ref.at - rej_.at >= same_moment)
    findings_.report(
        IbRule::cm_after_rej, m.ref.frame, from,
        fmt::format(" sent a REP after its REJ of the same REQ (frame {}); no REQ is between them", rej_.frame));
  const bool exchanged = ids_exchanged(from, ids_of(m.message));
  if (rep_ && std::exchange(rep_exchanged_, false)) {  // replace the REP with exchanged IDs by this one
    *rep_ = rep;
    return;
  }
  if (rep_ && exchanged) return;
  if (rep_) {
    CmRep same = rep;  // another rule checks the IDs
    same.local_comm_id = rep_->local_comm_id;
    same.remote_comm_id = rep_->remote_comm_id;
    if (!(*rep_ == same))
      // IBA §12.6.8: a retransmitted REP is identical to the first.
      findings_.report(
          IbRule::cm_rep_changed, m.ref.frame, from,
          fmt::format("'s REP is another one than that of frame {}: {}", seen_.rep_frame, differences(*rep_, rep)));
    return;
  }
  rep_ = std::make_unique<CmRep>(rep);
  rep_exchanged_ = exchanged;
  rep_first_ = m.ref;
  seen_.rep_frame = m.ref.frame;
  const bool xrc = req_ ? req_->is_xrc() : rep.local_qpn == 0 && rep.local_eecn != 0;
  if (xrc) seen_.qp = IbQp::xrc;
  const std::uint32_t qpn = xrc ? rep.local_eecn : rep.local_qpn;
  if (qpn != 0) seen_.ends[1].qpn = qpn;
  seen_.ends[0].starting_psn = rep.starting_psn;
  if (seen_.req_frame != 0) seen_.reply = m.ref.at - sendings_of(CmMessageType::req, other(from)).first.at;
  check_rep(from, m, rep);
  if (req_ && octets_of_mtu(req_->path_mtu) == 0)
    findings_.departs(Departure::takes_path_mtu, m.ref.frame, from,
                      fmt::format(" accepted a REQ with path MTU {}", req_->path_mtu));
  report_early_rtu(m);
}

void CmExchange::check_rep(Side from, const CapturedCm& m, const CmRep& rep) {
  const bool xrc = seen_.qp == IbQp::xrc;
  const std::uint32_t qpn = xrc ? rep.local_eecn : rep.local_qpn;
  if (req_ && !is_usable_qpn(qpn))
    findings_.report(
        IbRule::cm_rep_qpn, m.ref.frame, from,
        fmt::format("'s REP names {} {:#08x}, which no connection can have", xrc ? "TGT QPN" : "QPN", qpn));
  // IBA §12.6.8: the initiator depth of the REP is at most the responder resources of the REQ.
  if (req_ && seen_.qp != IbQp::uc && rep.initiator_depth > req_->responder_resources)
    findings_.report(IbRule::cm_rep_depths, m.ref.frame, from,
                     fmt::format("'s REP has initiator depth {}; the REQ has responder resources for {}",
                                 rep.initiator_depth, req_->responder_resources));
}

}  // namespace parley::capture
