// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/ibcm/tester.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "wire/ib/mad.hpp"
#include "wire/ib/roce.hpp"

namespace parley::conform::ibcm {

namespace ib = wire::ib;

// ---- Heard ----------------------------------------------------------------------------------------------------------

bool PeerPacket::is_ack() const {
  return is(Operation::acknowledge) && (aeth.syndrome & ~PARLEY_IB_SYNDROME_VALUE) == PARLEY_IB_SYNDROME_ACK;
}
bool PeerPacket::is_nak(Nak nak) const {
  return is(Operation::acknowledge) && aeth.syndrome == (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(nak));
}
bool PeerPacket::is_request() const {
  const auto rule = ib::rule_of(bth.opcode);
  return !silence && bth.dest_qpn != PARLEY_IB_GSI_QPN && rule.assigned && !rule.response;
}
bool PeerPacket::is_rnr() const {
  return is(Operation::acknowledge) && (aeth.syndrome & ~PARLEY_IB_SYNDROME_VALUE) == PARLEY_IB_SYNDROME_RNR_NAK;
}

std::string PeerPacket::text() const {
  if (silence) return unreachable.empty() ? "silence" : "silence (" + unreachable + ")";
  if (const auto* rej = as<ib::CmRej>())
    return fmt::format("REJ {} of the {} ({})", static_cast<int>(rej->reason), to_string(rej->about),
                       to_string(rej->reason));
  if (const auto* rep = as<ib::CmSidrRep>())
    return fmt::format("SIDR_REP with status {} ({})", static_cast<int>(rep->status), to_string(rep->status));
  if (message) return std::string(to_string(message->type()));
  if (!unreadable.empty()) return "a MAD that is not a message of the CM: " + unreadable;
  if (bth.dest_qpn == PARLEY_IB_GSI_QPN) return "a MAD that is not a message of the CM";
  if (is(Operation::acknowledge)) return ib::syndrome_text(aeth.syndrome);
  return ib::opcode_text(bth.opcode);
}

Duration time_asked_for(const ib::CmMra& mra, std::uint8_t ack_timeout) {
  return ib::timeout_of(mra.service_timeout) + ib::timeout_of(ack_timeout);
}

Request nothing(std::uint32_t psn) {
  Request request;
  request.psn = psn;
  return request;
}

// ---- Tester: what goes out
// --------------------------------------------------------------------------------------------

Task<bool> Tester::bind() {
  const bool listens = settings_.iut == Iut::initiator;
  Address own = settings_.target;
  own.port = 0;
  // No conditional expression here: only one of two co_awaits in it would be awaited.
  if (listens) {
    local_ = co_await peer_.bind_at(own, 5s);
  } else {
    local_ = co_await peer_.bind(settings_.target, 5s);
    remote_ = settings_.target;
  }
  if (!local_) why_ = peer_.why();
  gsi_psn_ = draw(1 << 24);
  co_return local_.has_value();
}

Link& Tester::link() {
  if (links_.size() >= links_max) links_.pop_front();
  Link& link = links_.emplace_back();
  link.number = static_cast<unsigned>(links_.size());
  link.transaction_id = rng_.next();
  ib::CmReq& req = link.req;
  req.local_comm_id = draw(0xFFFFFFFE) + 1;
  req.service_id = ib::service_id_of(ib::PortSpace::tcp, settings_.target.port);
  req.local_ca_guid = ca_guid_;
  req.local_qpn = draw(0xFFFF00) + 0x20;
  req.responder_resources = req.initiator_depth = 1;
  // 268 ms, so that a peer's retransmissions come within a case; 67 ms for its requests on the queue pair (below).
  req.remote_cm_response_timeout = req.local_cm_response_timeout = 16;
  req.starting_psn = draw(1 << 24);
  req.retry_count = 2;
  req.rnr_retry_count = 2;
  req.max_cm_retries = 3;
  req.path_mtu = 3;
  ib::CmPath& path = req.primary;
  path.local_lid = path.remote_lid = 0xFFFF;
  if (local_) path.local_gid = gid_of(*local_);
  path.remote_gid = gid_of(settings_.target);
  path.flow_label = draw(1 << 20);
  path.hop_limit = 64;
  path.local_ack_timeout = 14;
  ib::CmaHeader header;
  if (local_) header.source = *local_;
  header.source.port = static_cast<std::uint16_t>(0xC000 + draw(0x3FFF));
  header.destination = settings_.target;
  header.destination.port = 0;
  header.emit(req.private_data);
  return link;
}

void Tester::note(const Link& link, bool by_tester, std::string words, ConstBytes octets) {
  if (exchanges_.size() >= exchanges_max) return;
  const ConstBytes kept = octets.first(std::min(octets.size(), conform::Tester::octets_max));
  exchanges_.push_back({peer_.now(), link.number, by_tester, std::move(words), Bytes(kept.begin(), kept.end())});
}

void Tester::put(ConstBytes packet, const Faults& faults) {
  PacketPath path;
  if (local_) path.local = *local_;
  if (remote_) path.peer = *remote_;
  path.source_port = 0xC000;
  path.bad_icrc = faults.bad_icrc;
  peer_.send(path, packet);
}

namespace {

Bytes octets_of(ib::Packet packet, const Faults& faults) {
  ib::Bth& bth = packet.bth;
  bth.p_key = faults.p_key.value_or(bth.p_key);
  bth.dest_qpn = faults.dest_qpn.value_or(bth.dest_qpn);
  bth.tver = faults.tver;
  if (faults.opcode) bth.opcode = *faults.opcode;
  if (faults.reserved) {
    bth.mig_req = bth.fecn = bth.becn = true;
    bth.reserved6 = 0x3F;
    bth.reserved7 = 0x7F;
  }
  Bytes out(packet.size());
  packet.emit(out);
  if (faults.pad_count) {
    bth.pad_count = *faults.pad_count;
    bth.emit(out);
  }
  out.resize(out.size() - PARLEY_IB_ICRC_LEN);
  return out;
}

std::string faults_text(const Faults& faults) {
  std::string out;
  if (faults.q_key) out += fmt::format(", Q_Key {:08x}", *faults.q_key);
  if (faults.p_key) out += fmt::format(", P_Key {:04x}", *faults.p_key);
  if (faults.dest_qpn) out += ", to another queue pair";
  if (faults.opcode) out += fmt::format(", opcode {:02x}", *faults.opcode);
  if (faults.pad_count) out += fmt::format(", PadCnt {}", *faults.pad_count);
  if (faults.tver != 0) out += fmt::format(", TVer {}", faults.tver);
  if (faults.reserved) out += ", reserved bits set";
  if (faults.bad_icrc) out += ", wrong ICRC";
  return out;
}

}  // namespace

Bytes Tester::mad(const Link& link, const CmBody& body) const {
  Bytes out(PARLEY_IB_MAD_LEN);
  const CmMessage message{.transaction_id = link.transaction_id, .body = body};
  message.emit(out);
  return out;
}

void Tester::send(Link& link, const CmBody& body, const Faults& faults) {
  const CmMessage message{.body = body};
  send_mad(link, std::string(to_string(message.type())), mad(link, body), faults);
}

void Tester::send_mad(Link& link, std::string words, ConstBytes mad, const Faults& faults) {
  ib::Packet packet;
  packet.bth.opcode = ib::opcode_of(ib::Service::ud, Operation::send_only);
  packet.bth.dest_qpn = PARLEY_IB_GSI_QPN;
  packet.bth.psn = gsi_psn_;
  gsi_psn_ = psn_after(gsi_psn_, 1);
  packet.deth.q_key = faults.q_key.value_or(PARLEY_IB_GSI_Q_KEY);
  packet.deth.source_qpn = PARLEY_IB_GSI_QPN;
  packet.payload = mad;
  const Bytes octets = octets_of(packet, faults);
  note(link, true, words + faults_text(faults), octets);
  put(octets, faults);
}

void Tester::send_rtu(Link& link) {
  send(link, ib::CmRtu{.local_comm_id = link.id(), .remote_comm_id = link.peer_id()});
}

void Tester::send_rep(Link& link) {
  link.replied = true;
  send(link, link.reply);
}

void Tester::send_rej(Link& link, CmReject reason, CmSubject about) {
  send(link, ib::CmRej{.local_comm_id = about == CmSubject::req ? 0 : link.id(),
                       .remote_comm_id = link.peer_id(),
                       .about = about,
                       .reason = reason});
  link.ended = true;
}

void Tester::send_dreq(Link& link) {
  send(link, ib::CmDreq{.local_comm_id = link.id(), .remote_comm_id = link.peer_id(), .remote_qpn = link.peer_qpn()});
}

void Tester::send_request(Link& link, const Request& request, const Faults& faults) {
  ib::Packet packet;
  packet.bth.opcode = ib::opcode_of(ib::Service::rc, request.operation);
  packet.bth.dest_qpn = link.peer_qpn();
  packet.bth.psn = request.psn;
  packet.bth.ack_req = request.ack_req;
  packet.reth = request.reth;
  packet.atomic = request.atomic;
  packet.payload = request.payload;
  const Bytes octets = octets_of(packet, faults);
  const unsigned ahead = (request.psn - link.psn) & 0xFFFFFF;
  std::string words = ib::opcode_text(packet.bth.opcode) + faults_text(faults);
  if (ahead > 0 && ahead < 1 << 23) words += fmt::format(", PSN {} ahead", ahead);
  note(link, true, std::move(words), octets);
  put(octets, faults);
}

void Tester::send_ack(Link& link, std::uint32_t psn, std::uint8_t syndrome) {
  ib::Packet packet;
  packet.bth.opcode = ib::opcode_of(ib::Service::rc, Operation::acknowledge);
  packet.bth.dest_qpn = link.peer_qpn();
  packet.bth.psn = psn;
  packet.aeth.syndrome = syndrome;
  packet.aeth.msn = link.msn;
  const Bytes octets = octets_of(packet, {});
  note(link, true, ib::syndrome_text(syndrome), octets);
  put(octets, {});
}

// ---- Tester: what comes in
// --------------------------------------------------------------------------------------------

Link* Tester::owner_of(const PeerPacket& heard) {
  const auto id_of = [&heard]() -> std::uint32_t {
    if (!heard.message) return 0;
    return std::visit(
        [](const auto& m) -> std::uint32_t {
          if constexpr (requires { m.remote_comm_id; }) {
            return m.remote_comm_id;
          } else if constexpr (requires { m.request_id; }) {
            return m.request_id;
          } else {
            return 0;
          }
        },
        heard.message->body);
  };
  const std::uint32_t id = id_of();
  if (const auto* req = heard.as<ib::CmReq>()) {
    for (Link& link : links_)
      if (link.passive && !link.resolving && link.asked.local_comm_id == req->local_comm_id) return &link;
    return nullptr;
  }
  // IBA §12.6.7.2 reason 4: find the link by the sender's ID, since the sender may not know an ID of the tester.
  if (const auto* rej = heard.as<ib::CmRej>();
      rej != nullptr && rej->reason == CmReject::timeout && settings_.iut == Iut::initiator) {
    for (Link& link : links_)
      if (link.peer_id() == rej->local_comm_id) return &link;
    return nullptr;
  }
  if (const auto* sidr = heard.as<ib::CmSidrReq>()) {
    for (Link& link : links_)
      if (link.resolving && link.resolving->request_id == sidr->request_id) return &link;
    return nullptr;
  }
  for (Link& link : links_)
    if (heard.bth.dest_qpn == PARLEY_IB_GSI_QPN ? id == link.id() : heard.bth.dest_qpn == link.qpn()) return &link;
  // A message that names no connection answers the message that was sent last.
  const bool nameless = heard.bth.dest_qpn == PARLEY_IB_GSI_QPN && id == 0;
  return nameless && !links_.empty() ? &links_.back() : nullptr;
}

void Tester::on_packet(Link& link, PeerPacket heard, ConstBytes octets) {
  note(link, false, heard.text(), octets);
  if (!exchanges_.empty()) exchanges_.back().at = heard.at;
  if (const auto* rep = heard.as<ib::CmRep>(); rep != nullptr && !link.rep) {
    link.rep = *rep;
    link.psn = rep->starting_psn;
    accepted_ = true;
  }
  link.ended = link.ended || heard.as<ib::CmRej>() != nullptr || heard.as<ib::CmDrep>() != nullptr;
  link.spoke = link.spoke || heard.is_request();
  if (link.passive && link.acks && heard.is_request()) {
    const auto operation = ib::operation_of(heard.bth.opcode);
    if (operation == Operation::send_only || operation == Operation::write_only) ++link.msn;
    send_ack(link, heard.bth.psn, PARLEY_IB_SYNDROME_ACK | PARLEY_IB_CREDITS_NONE);
  }
  if (link.heard.size() < exchanges_max) link.heard.push_back(std::move(heard));
}

void Tester::read_message(PeerPacket& heard) {
  auto message = CmMessage::parse(heard.payload);
  if (message) {
    heard.message = std::move(*message);
    return;
  }
  const auto header = ib::MadHeader::parse(heard.payload);
  if (!header || header->mgmt_class != PARLEY_IB_CLASS_CM) return;
  heard.unreadable = message.error().sentence();
  if (unreadable_.empty()) unreadable_ = heard.text();
}

void Tester::drain() {
  while (peer_.has_packet()) {
    const tester::ReceivedPacket in = peer_.take();
    if (remote_ && in.from.octets != remote_->octets && settings_.iut == Iut::responder) continue;
    ++heard_;
    const auto packet = ib::Packet::parse(in.octets);
    if (!packet) continue;
    PeerPacket heard;
    heard.silence = false;
    heard.at = in.at;
    heard.from = in.from;
    heard.to = in.to;
    heard.bth = packet->bth;
    heard.deth = packet->deth;
    heard.aeth = packet->aeth;
    heard.reth = packet->reth;
    heard.payload.assign(packet->payload.begin(), packet->payload.end());
    if (packet->bth.dest_qpn == PARLEY_IB_GSI_QPN) read_message(heard);
    Link* link = owner_of(heard);
    if (link != nullptr)
      on_packet(*link, std::move(heard), in.octets);
    else
      keep_unowned(std::move(heard));
  }
}

namespace {

/// The ID of a REQ or SIDR_REQ; 0: it is neither.
std::uint32_t request_id_of(const PeerPacket& heard) {
  if (const auto* req = heard.as<ib::CmReq>()) return req->local_comm_id;
  const auto* sidr = heard.as<ib::CmSidrReq>();
  return sidr != nullptr ? sidr->request_id : 0;
}

}  // namespace

/// Handles a REQ of the peer, or a message of an earlier case, which must be answered: else the peer keeps
/// retransmitting.
void Tester::keep_unowned(PeerPacket heard) {
  if (!heard.message) return;
  Link forgotten;
  forgotten.transaction_id = heard.message->transaction_id;
  if (const auto* dreq = heard.as<ib::CmDreq>())
    return send(forgotten, ib::CmDrep{.local_comm_id = dreq->remote_comm_id, .remote_comm_id = dreq->local_comm_id});
  if (const auto* rej = heard.as<ib::CmRej>())  // the peer has given up that REQ
    std::erase_if(arrived_, [rej](const PeerPacket& h) { return request_id_of(h) == rej->local_comm_id; });
  const std::uint32_t id = request_id_of(heard);
  if (id == 0 || settings_.iut != Iut::initiator) return;
  if (std::find(over_.begin(), over_.end(), id) != over_.end()) return refuse_again(forgotten, heard);
  const auto same = [id](const PeerPacket& other) { return request_id_of(other) == id; };
  if (arrived_.size() < links_max && std::none_of(arrived_.begin(), arrived_.end(), same))
    arrived_.push_back(std::move(heard));
}

/// Rejects a REQ or SIDR_REQ of an earlier case.
void Tester::refuse_again(Link& forgotten, const PeerPacket& heard) {
  if (const auto* sidr = heard.as<ib::CmSidrReq>())
    return send(forgotten, ib::CmSidrRep{.request_id = sidr->request_id,
                                         .status = ib::SidrStatus::rejected,
                                         .service_id = sidr->service_id});
  send(forgotten, ib::CmRej{.remote_comm_id = request_id_of(heard), .reason = CmReject::consumer});
}

Task<Link*> Tester::arrival(bool sidr) {
  const auto is_wanted = [sidr](const PeerPacket& heard) { return (heard.as<ib::CmSidrReq>() != nullptr) == sidr; };
  const auto there = [this, is_wanted] {
    drain();
    return std::any_of(arrived_.begin(), arrived_.end(), is_wanted);
  };
  co_await peer_.until(there, settings_.patience);
  const auto found = std::find_if(arrived_.begin(), arrived_.end(), is_wanted);
  if (found == arrived_.end()) {
    set_trouble(sidr ? "nothing asked for a service" : "nothing connected");
    co_return nullptr;
  }
  const PeerPacket heard = std::move(*found);
  arrived_.erase(found);
  if (links_.size() >= links_max) links_.pop_front();
  Link& link = links_.emplace_back();
  link.number = static_cast<unsigned>(links_.size());
  link.passive = true;
  link.transaction_id = heard.message->transaction_id;
  link.first = heard;
  remote_ = heard.from;
  if (!heard.to.is_any()) local_ = heard.to;
  over_.push_back(request_id_of(heard));
  if (over_.size() > over_max) over_.pop_front();
  note(link, false, heard.text(), heard.payload);
  co_return &link;
}

Task<Link*> Tester::await_request() {
  Link* link = co_await arrival(false);
  if (link == nullptr) co_return nullptr;
  link->asked = *link->first.as<ib::CmReq>();
  link->psn = link->asked.starting_psn;
  link->reply = {.local_comm_id = draw(0xFFFFFFFE) + 1,
                 .remote_comm_id = link->asked.local_comm_id,
                 .local_qpn = draw(0xFFFF00) + 0x20,
                 .starting_psn = draw(1 << 24),
                 .responder_resources = link->asked.initiator_depth,
                 .initiator_depth = link->asked.responder_resources,
                 .target_ack_delay = 8,
                 .rnr_retry_count = 2,
                 .local_ca_guid = ca_guid_};
  co_return link;
}

Task<Link*> Tester::resolving() {
  if (nobody_resolves_) co_return nullptr;
  Link* link = co_await arrival(true);
  nobody_resolves_ = link == nullptr;
  if (link != nullptr) link->resolving = *link->first.as<ib::CmSidrReq>();
  co_return link;
}

Task<PeerPacket> Tester::receive(Link& link, Duration patience) {
  (void)peer_.take_unreachable();
  const auto there = [this, &link] {
    drain();
    return !link.heard.empty();
  };
  co_await peer_.until(there, patience);
  PeerPacket heard;
  if (!link.heard.empty()) {
    heard = std::move(link.heard.front());
    link.heard.pop_front();
  } else {
    heard.unreachable = peer_.take_unreachable();
  }
  co_return heard;
}

Task<> Tester::until_it_speaks(Link& link, Duration patience) {
  const auto spoke = [this, &link] {
    drain();
    return link.spoke || link.ended;
  };
  co_await peer_.until(spoke, patience);
}

// IBA §12.9: an MRA restarts the wait with the time that it asks for; the peer may send further MRAs.
Task<PeerPacket> Tester::decision(Link& link, std::function<void()> again, Duration patience, Instant limit) {
  PeerPacket heard = co_await receive(link, patience);
  for (std::size_t i = 0; i < exchanges_max; ++i) {
    const auto* mra = heard.as<ib::CmMra>();
    const Instant now = peer_.now();
    if (mra == nullptr || mra->about != CmSubject::req || now >= limit) break;
    const Duration asked = time_asked_for(*mra, link.req.primary.local_ack_timeout);
    PeerPacket later = co_await receive(link, std::min(asked, limit - now));
    if (later.silence && asked >= limit - now) break;
    if (later.silence) {
      again();
      later = co_await receive(link, patience);
    }
    heard = std::move(later);
  }
  co_return heard;
}

Task<bool> Tester::ask(Link& link) {
  const Instant limit = peer_.now() + settings_.connect;
  const std::function<void()> again = [this, &link] { send_req(link); };
  for (unsigned attempt = 0; attempt < 50; ++attempt) {
    again();
    const PeerPacket heard = co_await decision(link, again, std::min(settings_.reply, Duration(1s)), limit);
    if (heard.as<ib::CmRep>() != nullptr) co_return true;
    trouble_ = {Verdict::inconclusive, "the peer accepts no connection: " + heard.text()};
    if (const auto* mra = heard.as<ib::CmMra>(); mra != nullptr && mra->about == CmSubject::req)
      trouble_.observed += ", which asks for more time than there is";
    const auto* rej = heard.as<ib::CmRej>();
    const bool passing =
        heard.silence ||
        (rej != nullptr && (rej->reason == CmReject::invalid_service_id || rej->reason == CmReject::no_resources));
    if (!passing || peer_.now() >= limit) break;
    if (!heard.silence) co_await peer_.sleep(100ms);
    if (rej != nullptr) link.ended = false;
  }
  co_return false;
}

Task<bool> Tester::set_up(Link& link) {
  const bool asked = co_await ask(link);
  if (asked) send_rtu(link);
  co_return asked;
}

Task<> Tester::close() {
  drain();
  bool open = false;
  for (Link& link : links_) {
    if (!link.begun() || link.ended) continue;
    if (link.passive) co_await until_it_speaks(link, settings_.quiet);
    if (link.ended) continue;
    link.heard.clear();
    send_dreq(link);
    open = true;
  }
  const auto over = [this] {
    drain();
    return std::all_of(links_.begin(), links_.end(), [](const Link& l) { return !l.begun() || l.ended; });
  };
  if (open) co_await peer_.until(over, 300ms);
}

void Tester::drop_arrived() {
  drain();
  arrived_.clear();
}

void Tester::clear() {
  links_.clear();
  exchanges_.clear();
  trouble_ = {};
  unreadable_.clear();
}

}  // namespace parley::conform::ibcm
