// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceMirror: the plan for one side of a recording: memory and work requests.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/replay/roce_mirror.hpp"
#include "wire/ib/cma.hpp"

namespace parley::tools {

using capture::Side;
using replay::RoceStep;
using wire::ib::Operation;

namespace {

bool begins_message(Operation o) {
  using enum Operation;
  return o == send_first || o == send_only || o == send_only_imm || o == send_only_inv || o == write_first ||
         o == write_only || o == write_only_imm || o == read_request || o == cmp_swap || o == fetch_add;
}

bool ends_message(Operation o) {
  using enum Operation;
  return o != send_first && o != send_middle && o != write_first && o != write_middle;
}

/// Whether it consumes a receive of the peer.
bool consumes_receive(Operation o) {
  using enum Operation;
  return o == send_last || o == send_last_imm || o == send_last_inv || o == send_only || o == send_only_imm ||
         o == send_only_inv || o == write_last_imm || o == write_only_imm;
}

bool ends_answer(Operation o) {
  using enum Operation;
  return o == read_response_last || o == read_response_only || o == atomic_acknowledge;
}

}  // namespace

RoceMirror::RoceMirror(const replay::RoceRecording& recording, Side side)
    : recording_(recording), side_(side), names_(replay::find_names(recording, side)) {}

const wire::ib::CmReq* RoceMirror::request() const {
  for (const RoceStep& step : recording_.steps)
    if (step.cm)
      if (const auto* req = std::get_if<wire::ib::CmReq>(&step.cm->body)) return req;
  return nullptr;
}

const RoceStep* RoceMirror::answer_of_mine() const {
  using wire::ib::CmMessageType;
  for (const RoceStep& step : recording_.steps) {
    if (!step.cm || step.from != side_) continue;
    const CmMessageType type = step.cm->type();
    if (type == CmMessageType::rep || type == CmMessageType::rej || type == CmMessageType::sidr_rep) return &step;
  }
  return nullptr;
}

cm::RoceProviderOptions RoceMirror::hca() const {
  cm::RoceProviderOptions out;
  out.mtu = Mtu::octets_4096;
  const wire::ib::CmReq* req = request();
  if (req == nullptr) return out;
  if (side_ == Side::initiator && req->path_mtu >= 1 && req->path_mtu <= 5) out.mtu = static_cast<Mtu>(req->path_mtu);
  if (req->primary.local_ack_timeout != 0) out.ack_timeout = req->primary.local_ack_timeout;
  out.spec_timers = true;
  return out;
}

std::uint16_t RoceMirror::port() const {
  const auto service = wire::ib::cma_service_of(recording_.report.ib->service_id.value_or(0));
  return service ? service->port : std::uint16_t{0};
}

bool RoceMirror::has_refused() const { return recording_.report.ib->nak && recording_.report.ib->nak->from == side_; }

Or<void> RoceMirror::prepare() {
  std::vector<replay::Field> fields;
  for (const replay::RoceName& name : names_.names) fields.push_back(name.field);
  plan_regions(names_.uses, fields, has_refused(), {.before = 16 << 20, .most = memory_max});
  plan_acts();
  return allocate_memory(side_, sent_, memory_max);
}

void RoceMirror::plan_acts() {
  std::size_t sends_seen = 0, answers_seen = 0;
  Instant before = recording_.steps.empty() ? Instant{} : recording_.steps.front().at;
  bool going_on = false;
  for (std::size_t i = 0; i < recording_.steps.size(); ++i) {
    const RoceStep& step = recording_.steps[i];
    if (step.again) continue;
    if (step.from != side_) {
      if (!step.cm && !step.is_response() && consumes_receive(step.operation())) ++sends_seen;
      if (step.is_response() && ends_answer(step.operation())) ++answers_seen;
      if (!step.cm && !step.is_response()) plan_receive(step);
      before = step.at;
      continue;
    }
    const bool end = step.cm && step.cm->type() == wire::ib::CmMessageType::dreq;
    const bool begins = !step.cm && !step.is_response() && begins_message(step.operation());
    if (step.is_response() && !step.is_ack() && !step.is_nak()) plan_fill(step);
    if (end || begins) {
      Act act;
      act.step = i;
      act.sends_seen = sends_seen;
      act.answers_seen = answers_seen;
      act.delay = std::max(step.at - before, Duration{});
      act.last = step;
      acts_.push_back(std::move(act));
      going_on = begins;
      before = step.at;
    }
    if (going_on && !step.cm && !step.is_response()) going_on = add_packet(i);
  }
}

/// Makes receives large enough for the largest Send.
void RoceMirror::plan_receive(const RoceStep& step) {
  if (begins_message(step.operation())) message_size_ = 0;
  message_size_ += step.packet().payload.size();
  const std::size_t grh = PARLEY_ROCE_GRH_LEN;  // precedes the data of a datagram
  receive_size_ = std::max(receive_size_, message_size_ + grh);
}

/// Adds a packet to the current message. Returns whether more packets follow.
bool RoceMirror::add_packet(std::size_t index) {
  const RoceStep& step = recording_.steps[index];
  Act& act = acts_.back();
  const wire::ib::Packet p = step.packet();
  const Bytes octets = with_names(index, p.payload);
  act.payload.insert(act.payload.end(), octets.begin(), octets.end());
  act.last = step;
  sent_ += step.operation() == Operation::read_request ? p.reth.dma_length : std::max<std::size_t>(p.payload.size(), 8);
  return !ends_message(step.operation());
}

/// Finds the address that an answer was read from by the newest request with its PSN (IBA §9.7.3).
void RoceMirror::plan_fill(const RoceStep& response) {
  const std::uint32_t mtu = recording_.report.ib->path_mtu;
  const wire::ib::Packet p = response.packet();
  const bool atomic = response.operation() == Operation::atomic_acknowledge;
  for (auto it = recording_.steps.rbegin(); it != recording_.steps.rend(); ++it) {
    if (it->frame >= response.frame || it->from == side_ || it->cm || it->is_response()) continue;
    const wire::ib::Packet asked = it->packet();
    const std::uint32_t ahead = (p.bth.psn - asked.bth.psn) & PARLEY_IB_QPN_MAX;
    const bool read = it->operation() == Operation::read_request;
    ReturnedOctets fill;
    if (!atomic && read && mtu != 0 && std::uint64_t{ahead} * mtu <= asked.reth.dma_length) {
      fill = {asked.reth.r_key, asked.reth.va + std::uint64_t{ahead} * mtu, Bytes(p.payload.begin(), p.payload.end())};
    } else if (atomic && ahead == 0) {
      fill = {asked.atomic.r_key, asked.atomic.va, Bytes(sizeof p.atomic_original)};
      std::memcpy(fill.octets.data(), &p.atomic_original, sizeof p.atomic_original);  // in host byte order
    } else {
      continue;
    }
    (acts_.empty() ? first_fills_ : acts_.back().fills).push_back(std::move(fill));
    return;
  }
}

Bytes RoceMirror::with_names(std::size_t step, ConstBytes octets) const {
  Bytes out(octets.begin(), octets.end());
  for (const replay::RoceName& name : names_.names)
    if (name.step == step) write_name(out, name.field);
  return out;
}

}  // namespace parley::tools
