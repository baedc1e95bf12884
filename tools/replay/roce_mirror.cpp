// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceMirror: how it acts. roce_mirror_plan.cpp makes the plan from the recording.
#include "tools/replay/roce_mirror.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes_io.hpp"
#include "wire/ib/cma.hpp"

namespace parley::tools {

using capture::Side;
using replay::RoceStep;
using wire::ib::Operation;

namespace {

/// The program's part of private data: the InfiniBand CM pads it with zeros.
Bytes without_zeros(ConstBytes octets) {
  while (!octets.empty() && octets.back() == 0) octets = octets.first(octets.size() - 1);
  return {octets.begin(), octets.end()};
}

ConstBytes behind_addresses(ConstBytes private_data) {
  return wire::ib::CmaHeader::parse(private_data) ? private_data.subspan(PARLEY_CMA_HEADER_LEN) : private_data;
}

std::uint32_t number_of(const std::array<std::uint8_t, 4>& octets) { return Reader(octets).be32(); }

}  // namespace

void RoceMirror::release() {
  MirrorProgram::release();
  way_.reset();
}

QpInit RoceMirror::queue_pair_of_kind() const {
  QpInit init = queue_pair();
  if (recording_.report.ib->qp == capture::IbQp::ud) init.type = QpType::ud;
  return init;
}

ib::Options RoceMirror::terms() const {
  ib::Options out;
  if (recording_.report.ib->qp == capture::IbQp::ud) out.qp_type = QpType::ud;
  if (const wire::ib::CmReq* req = request())
    out.retry_count = req->retry_count, out.rnr_retry_count = req->rnr_retry_count;
  const RoceStep* answer = answer_of_mine();
  if (side_ == Side::responder && answer != nullptr)
    if (const auto* rep = std::get_if<wire::ib::CmRep>(&answer->cm->body)) out.rnr_retry_count = rep->rnr_retry_count;
  return out;
}

void RoceMirror::on_start(sim::Host& host) {
  register_memory(host.device());
  for (const Region& r : regions_) {
    const bool place_told = std::any_of(names_.names.begin(), names_.names.end(), [&r](const replay::RoceName& name) {
      return name.field.is_to && name.field.stag == r.recorded;
    });
    if (!r.advertised) player_->set_live_r_key(r.recorded, r.mr.rkey);
    if (!r.advertised || (!place_told && !has_refused())) player_->set_live_va(r.recorded, r.begin, r.mr.addr);
  }
  // The R_Keys and addresses that messages announce are known only now.
  for (Act& a : acts_) {
    std::size_t at = 0;
    for (std::size_t i = a.step; i < recording_.steps.size() && at < a.payload.size(); ++i) {
      const RoceStep& step = recording_.steps[i];
      if (step.again || step.from != side_ || step.cm || step.is_response()) continue;
      const Bytes octets = with_names(i, step.packet().payload);
      const std::size_t n = std::min(octets.size(), a.payload.size() - at);
      std::copy_n(octets.begin(), n, a.payload.begin() + static_cast<std::ptrdiff_t>(at));
      at += n;
    }
  }
  fill(first_fills_);
  if (peer_) return connect(host);
  const RoceStep* answer = answer_of_mine();
  const auto* rej = answer == nullptr ? nullptr : std::get_if<wire::ib::CmRej>(&answer->cm->body);
  // The recorded host existed, but had no listener for the service: listen on another port, so that the REJ is the
  // same.
  const bool elsewhere = rej != nullptr && rej->reason == wire::ib::CmReject::invalid_service_id;
  const auto at = static_cast<std::uint16_t>(elsewhere ? port() ^ 1 : port());
  const Address::Family family = recording_.report.initiator.family;
  if (auto id = host.cm().listen(Address::any(family, at), {.transport = terms()}))
    listener_ = *id;
  else
    player_->fail(fmt::format("Parley cannot listen with these options: {}", id.error().message()));
}

void RoceMirror::connect(sim::Host& host) {
  Bytes data;
  cm::ConnectOptions options{.transport = terms(), .qp = queue_pair_of_kind()};
  for (std::size_t i = 0; i < recording_.steps.size() && data.empty(); ++i) {
    const RoceStep& step = recording_.steps[i];
    if (!step.cm || step.from != side_) continue;
    std::visit([&](const auto& m) { data = with_names(i, m.private_data); }, step.cm->body);
    break;
  }
  data = without_zeros(behind_addresses(data));
  options.private_data = data;
  if (const wire::ib::CmReq* req = request())
    options.ird = req->responder_resources, options.ord = req->initiator_depth;
  auto id = host.cm().connect(*peer_, options);
  if (!id) {
    events_.push_back(fmt::format("Parley cannot request this connection: {}", id.error().message()));
    return player_->fail(events_.back());
  }
  id_ = *id;
  post_receives();
}

void RoceMirror::answer(const cm::ConnectRequest& request) {
  if (!adopt(request)) return;
  const RoceStep* answer = answer_of_mine();
  Bytes data;
  if (answer != nullptr) {
    const auto step = static_cast<std::size_t>(answer - recording_.steps.data());
    std::visit([&](const auto& m) { data = without_zeros(with_names(step, m.private_data)); }, answer->cm->body);
  }
  const auto* rep = answer == nullptr ? nullptr : std::get_if<wire::ib::CmRep>(&answer->cm->body);
  const auto* sidr = answer == nullptr ? nullptr : std::get_if<wire::ib::CmSidrRep>(&answer->cm->body);
  if (rep == nullptr && (sidr == nullptr || sidr->status != wire::ib::SidrStatus::valid)) {
    (void)id_.reject(data);
    return;
  }
  (void)id_.create_qp(queue_pair_of_kind());
  post_receives();
  cm::AcceptOptions options{.transport = terms(), .private_data = data};
  if (rep != nullptr) options.ird = rep->responder_resources, options.ord = rep->initiator_depth;
  if (const auto done = id_.accept(options); !done)
    events_.push_back(fmt::format("Parley cannot accept so: {}", done.error().message()));
}

void RoceMirror::established(sim::Host& host, const cm::Established& is) {
  up_ = true;
  progress_at_ = host.now();
  events_.emplace_back("established");
  const auto* agreed = std::get_if<ib::Parameters>(&is.parameters);
  if (agreed == nullptr || !agreed->ah) return;
  if (auto made = host.device().create_ah(pd_, *agreed->ah)) way_ = std::move(*made);
  peer_qpn_ = agreed->remote_qp_num;  // a server learns it from the first datagram
  peer_q_key_ = agreed->remote_qkey != 0 ? agreed->remote_qkey : wire::ib::udp_q_key;
}

void RoceMirror::event(sim::Host& host, cm::Event event) {
  if (const auto* asked = std::get_if<cm::ConnectRequest>(&event)) return answer(*asked);
  if (const auto* is = std::get_if<cm::Established>(&event); is != nullptr && is_mine(is->id)) established(host, *is);
  note_end(event);
}

void RoceMirror::completed(sim::Host& host, const WorkCompletion& wc) {
  if (wc.opcode == WcOpcode::recv || wc.opcode == WcOpcode::recv_rdma_with_imm) {
    ++sends_seen_;
    if (peer_qpn_ == 0) peer_qpn_ = wc.src_qp;
    post_receive(wc.wr_id);
  } else if (wc.opcode == WcOpcode::rdma_read || wc.opcode == WcOpcode::fetch_add || wc.opcode == WcOpcode::comp_swap) {
    ++answers_seen_;
  }
  progress_at_ = host.now();
}

void RoceMirror::fill(const std::vector<ReturnedOctets>& fills) {
  for (const ReturnedOctets& one : fills) put(one.r_key, one.va, one.octets);
}

bool RoceMirror::act() {
  const Act& what = acts_[next_act_];
  if (what.last.cm) {
    (void)id_.disconnect();
    return true;
  }
  const bool posted = post(what);
  if (posted) fill(what.fills);
  return posted;
}

bool RoceMirror::post(const Act& what) {
  QueuePair* qp = id_ ? id_.qp() : nullptr;
  if (qp == nullptr) return false;
  const wire::ib::Packet first = recording_.steps[what.step].packet(), last = what.last.packet();
  const unsigned headers = wire::ib::rule_of(last.bth.opcode).headers;
  const bool imm = (headers & PARLEY_IB_IMM) != 0;
  SendWr wr;
  wr.wr_id = what.step;
  wr.solicited = last.bth.solicited;
  wr.imm_data = number_of(last.imm);
  wr.ah = way_.get();  // for datagrams; null otherwise
  wr.remote_qp_num = peer_qpn_;
  wr.remote_qkey = peer_q_key_;
  std::size_t length = what.payload.size();
  switch (recording_.steps[what.step].operation()) {
    case Operation::write_first:
    case Operation::write_only:
    case Operation::write_only_imm:
      wr.opcode = imm ? SendWr::Opcode::rdma_write_with_imm : SendWr::Opcode::rdma_write;
      wr.rkey = first.reth.r_key;
      wr.remote_addr = first.reth.va;
      break;
    case Operation::read_request:
      wr.opcode = SendWr::Opcode::rdma_read;
      wr.rkey = first.reth.r_key;
      wr.remote_addr = first.reth.va;
      length = first.reth.dma_length;
      break;
    case Operation::cmp_swap:
    case Operation::fetch_add: {
      const bool add = recording_.steps[what.step].operation() == Operation::fetch_add;
      wr.opcode = add ? SendWr::Opcode::atomic_fetch_and_add : SendWr::Opcode::atomic_cmp_and_swp;
      wr.rkey = first.atomic.r_key;
      wr.remote_addr = first.atomic.va;
      wr.compare_add = add ? first.atomic.swap_add : first.atomic.compare;
      wr.swap = first.atomic.swap_add;
      length = sizeof(std::uint64_t);
      break;
    }
    default:
      if (imm) wr.opcode = SendWr::Opcode::send_with_imm;
      if ((headers & PARLEY_IB_IETH) != 0 && last.invalidate != 0) {
        wr.opcode = SendWr::Opcode::send_with_inv;
        wr.invalidate_rkey = last.invalidate;
      }
      break;
  }
  const std::optional<Sge> sge = place(what.payload, length);
  if (!sge) return true;
  if (length > 0) wr.sges = {&*sge, 1};
  if (const auto posted = qp->post_send(wr); !posted) {
    if (posted.error() == make_error_code(Errc::no_space)) return false;  // a completion frees a slot
    events_.push_back(fmt::format("Parley cannot post the {}: {}", replay::describe(recording_.steps[what.step]),
                                  posted.error().message()));
    return true;
  }
  arena_used_ += length;
  return true;
}

}  // namespace parley::tools
