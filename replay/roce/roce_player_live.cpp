// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RocePlayer: packets from the live side, and to it.
#include <fmt/format.h>

#include <algorithm>

#include "base/after.hpp"
#include "base/gid.hpp"
#include "replay/roce/roce_player.hpp"

namespace parley::replay {

using capture::Side;
using wire::ib::CmMessageType;
using wire::ib::Operation;
using wire::ib::Service;

namespace {

bool is_behind(std::uint32_t psn, std::uint32_t due) { return ((psn - due) & mask24) >= 0x800000; }

bool is_reliable(const RoceStep& step) {
  const Service service = wire::ib::service_of(step.octets.front());
  return service == Service::rc || service == Service::xrc;
}

/// The message that this one answers.
std::optional<CmMessageType> answered_by(const wire::ib::CmMessage& message) {
  const auto about = [](wire::ib::CmSubject what) -> std::optional<CmMessageType> {
    if (what == wire::ib::CmSubject::req) return CmMessageType::req;
    if (what == wire::ib::CmSubject::rep) return CmMessageType::rep;
    return std::nullopt;
  };
  switch (message.type()) {
    case CmMessageType::rep: return CmMessageType::req;
    case CmMessageType::rtu: return CmMessageType::rep;
    case CmMessageType::drep: return CmMessageType::dreq;
    case CmMessageType::sidr_rep: return CmMessageType::sidr_req;
    case CmMessageType::apr: return CmMessageType::lap;
    case CmMessageType::mra: return about(std::get<wire::ib::CmMra>(message.body).about);
    case CmMessageType::rej: return about(std::get<wire::ib::CmRej>(message.body).about);
    default: return std::nullopt;
  }
}

bool wants_answer(CmMessageType type) {
  return type == CmMessageType::req || type == CmMessageType::rep || type == CmMessageType::dreq ||
         type == CmMessageType::sidr_req || type == CmMessageType::lap;
}

}  // namespace

RocePlayer::Lane RocePlayer::lane_of(const RoceStep& step) {
  if (step.cm) return Lane::cm;
  return step.is_response() ? Lane::responses : Lane::requests;
}

// ---- in -------------------------------------------------------------------------------------------------------------

void RocePlayer::drain() {
  while (peer_.has_packet() && !done_) {
    tester::ReceivedPacket in = peer_.take();
    const auto packet = wire::ib::Packet::parse(in.octets);
    if (!packet || !wire::ib::rule_of(packet->bth.opcode).assigned || packet->bth.opcode == PARLEY_IB_OPCODE_CNP)
      continue;
    if (live_ && gid_of(in.from) != gid_of(*live_)) continue;
    RoceStep live{.at = in.at, .from = capture::other(side_), .known = in.octets.size()};
    const bool management =
        packet->bth.dest_qpn == PARLEY_IB_GSI_QPN && wire::ib::service_of(packet->bth.opcode) == Service::ud;
    if (management) {
      auto message = wire::ib::CmMessage::parse(packet->payload);
      if (!message) continue;
      live.cm = *std::move(message);
    } else if (!map_.is_mine(packet->bth)) {
      continue;
    }
    live.octets = std::move(in.octets);
    if (live.cm && (live_ || is_first_ask(live, in.from, in.to)))
      on_cm_message(std::move(live));
    else if (live_ && !live.cm && live.is_response())
      on_response(std::move(live));
    else if (live_ && !live.cm && on_request(live))
      keep(std::move(live));
  }
}

/// A responder's live peer is the first one that sends a REQ or SIDR_REQ.
bool RocePlayer::is_first_ask(const RoceStep& live, const Address& from, const Address& to) {
  const CmMessageType type = live.cm->type();
  if (type != CmMessageType::req && type != CmMessageType::sidr_req) return false;
  live_ = from;
  if (local_->is_any()) local_ = to;
  map_.set_addresses(*local_, from, 0);
  started_ = true;
  begun_ = paced_ = live.at;
  return true;
}

void RocePlayer::keep(RoceStep live) {
  auto& lane = heard_[static_cast<std::size_t>(lane_of(live))];
  if (lane.size() < heard_max) lane.push_back(std::move(live));
}

void RocePlayer::on_cm_message(RoceStep live) {
  const CmMessageType type = live.cm->type();
  const bool asks = type == CmMessageType::req || type == CmMessageType::sidr_req;
  Bytes mad(PARLEY_IB_MAD_LEN);
  live.cm->emit(mad);
  const auto [it, fresh] = messages_.try_emplace(type, ReceivedMad{mad, 0});
  if (!fresh && it->second.mad == mad) {
    // A retransmission: the answer was lost, or is late.
    const auto answer = answers_.find(type);
    if (answer != answers_.end() && it->second.answered_again++ < again_max) put(answer->second);
    return;
  }
  const bool nameless = type == CmMessageType::rej && std::get<wire::ib::CmRej>(live.cm->body).remote_comm_id == 0;
  if (asks ? !fresh : !map_.is_mine(*live.cm) && !nameless) {
    if (fresh) messages_.erase(it);
    return;  // of another connection
  }
  it->second = {std::move(mad), 0};
  last_message_.reset();
  again_ = 0;
  if (type == CmMessageType::mra && !is_next(CmMessageType::mra)) {
    log(false, 0, describe(live) + ", not in the recording");
    ++result_.not_compared;
    return;  // IBA §12.6.6: it only asks for more time
  }
  keep(std::move(live));
}

/// Whether the other side's next message in the recording has this type.
bool RocePlayer::is_next(CmMessageType type) const {
  for (std::size_t i = next_; i < recording_.steps.size(); ++i) {
    const RoceStep& step = recording_.steps[i];
    if (step.from != side_ && step.cm && !step.again) return step.cm->type() == type;
  }
  return false;
}

/// Whether the recording still has a NAK of the other side.
bool RocePlayer::expects_nak() const {
  return std::any_of(recording_.steps.begin() + static_cast<std::ptrdiff_t>(std::min(next_, recording_.steps.size())),
                     recording_.steps.end(),
                     [this](const RoceStep& s) { return s.from != side_ && !s.again && s.is_nak(); });
}

void RocePlayer::on_response(RoceStep live) {
  const wire::ib::Packet p = live.packet();
  if (!live.is_nak()) {
    const bool answer = live.operation() != Operation::acknowledge;
    // A response whose PSN is already acknowledged answers a retransmitted request.
    const bool old = answer && acked_ && !is_behind(*acked_, p.bth.psn);
    acknowledged(p.bth.psn);
    if (answer && !old) keep(std::move(live));
    return;
  }
  acknowledged((p.bth.psn - 1) & mask24);
  const std::uint8_t syndrome = p.aeth.syndrome;
  const bool rnr = (syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_RNR_NAK;
  const bool sequence =
      syndrome == (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(wire::ib::Nak::psn_sequence_error));
  if ((!rnr && !sequence) || expects_nak()) return keep(std::move(live));
  // The live network lost a packet, or the live program is slower (IBA §9.7.5.2.8).
  log(false, 0, describe(live) + ", not in the recording");
  ++result_.not_compared;
  resend_psn_ = p.bth.psn;
  resend_at_ = after(peer_.now(), rnr ? wire::ib::rnr_timer(syndrome) : Duration{0});
}

/// Whether it is the queue pair's next request; it executes no other (IBA §9.7.3).
bool RocePlayer::on_request(const RoceStep& live) {
  if (!is_reliable(live)) return true;
  const wire::ib::Packet p = live.packet();
  if (next_psn_ && p.bth.psn != *next_psn_) {
    if (is_behind(p.bth.psn, *next_psn_) && last_ack_) put(*last_ack_);
    return false;
  }
  std::uint32_t span = 1;
  const std::uint32_t mtu = recording_.report.ib->path_mtu;
  if (live.operation() == Operation::read_request && mtu != 0)
    span = std::max<std::uint32_t>(1, p.reth.dma_length / mtu + (p.reth.dma_length % mtu != 0 ? 1 : 0));
  next_psn_ = (p.bth.psn + span) & mask24;
  return true;
}

void RocePlayer::acknowledged(std::uint32_t psn) {
  if (acked_ && !is_behind(*acked_, psn)) return;
  acked_ = psn;
  again_ = 0;
  while (!unacked_.empty() && !is_behind(psn, unacked_.front().psn)) unacked_.pop_front();
}

// ---- out ------------------------------------------------------------------------------------------------------------

void RocePlayer::put(ConstBytes octets) {
  PacketPath path;
  path.local = *local_;
  path.peer = *live_;
  path.source_port = 0xC000;  // IBA A17.9.2: any value, the same for all packets of a flow
  peer_.send(path, octets);
}

void RocePlayer::send(std::size_t index) {
  const RoceStep& step = recording_.steps[index];
  const Bytes octets = map_.translate(step);
  put(octets);
  ++result_.steps_played;
  if (step.known < step.octets.size() && !result_.left_out) {
    result_.left_out = result_.partial = true;
    result_.notes.push_back(
        fmt::format("frame {} is cut by the snap length: zeros were sent in place of its end", step.frame));
  }
  log(true, step.frame, describe(step));
  if (step.cm) {
    if (const auto answered = answered_by(*step.cm)) answers_[*answered] = octets;
    last_message_.reset();
    if (wants_answer(step.cm->type())) last_message_ = octets;
    return;
  }
  if (!is_reliable(step)) return;
  if (step.is_response()) {
    if (step.is_nak()) next_psn_ = step.packet().bth.psn;
    if (step.is_ack()) last_ack_ = octets;
    return;
  }
  if (unacked_.size() >= unacked_max) unacked_.pop_front();
  unacked_.push_back({wire::ib::Bth::parse(octets)->psn, octets});
}

void RocePlayer::send_again(std::uint32_t psn) {
  for (const Sent& sent : unacked_)
    if (!is_behind(sent.psn, psn)) put(sent.octets);
}

/// After a silence, retransmits what may be lost.
void RocePlayer::nudge() {
  if (!live_ || done_) return;
  if (resend_at_ != never) {
    if (peer_.now() < resend_at_) return;
    resend_at_ = never;
    if (++again_ <= again_max) return send_again(resend_psn_);
    return differ(
        {fmt::format("the live side refuses the packet with PSN {} for the {}th time", resend_psn_, again_), ""},
        nullptr, nullptr);
  }
  if (++again_ > again_max) return;
  // IBA §12.9 gives a peer seconds to answer, so messages are retransmitted less often than requests.
  constexpr unsigned of_message = 4;
  if (last_message_ && again_ % of_message == 0)
    put(*last_message_);
  else if (!unacked_.empty())
    send_again(unacked_.front().psn);
}

}  // namespace parley::replay
