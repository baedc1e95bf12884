// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/workload/workload_transfer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::sim {
namespace {

constexpr std::uint8_t untouched = 0xEE;  // content of data areas before and after use
constexpr std::size_t control_slot = 32;

constexpr std::size_t round_up(std::size_t n) { return (n + 7) / 8 * 8; }

}  // namespace

TransferEnd::TransferEnd(const TransferPlan& plan, check::End& end, const std::string& label, const bool& corrupted,
                         check::Judge& judge)
    : plan_(plan), end_(end), label_(label), corrupted_(corrupted), judge_(judge) {
  layout();
}

std::uint64_t TransferEnd::sends_wanted() const {
  if (plan_.kind != Transfer::send) return 0;
  return plan_.initiator() || plan_.both_ways ? plan_.messages : 0;
}

std::uint64_t TransferEnd::receives_wanted() const {
  if (plan_.kind == Transfer::send) return !plan_.initiator() || plan_.both_ways ? plan_.messages : 0;
  return plan_.kind == Transfer::write && !plan_.initiator() ? plan_.messages : 0;
}

std::uint32_t TransferEnd::receive_slots() const {
  return (plan_.kind == Transfer::send && receives_wanted() > 0 ? window_ : 0) + control_max;
}

void TransferEnd::layout() {
  window_ = std::clamp<std::uint32_t>(plan_.messages, 1, window_max);
  while (window_ > 1 && std::size_t{window_} * plan_.octets > area_octets_max) window_ /= 2;
  slot_octets_ = std::max<std::size_t>(round_up(plan_.octets), 8);
  control_base_ =
      receive_slots() * (plan_.kind == Transfer::send ? std::max(slot_octets_, control_slot) : control_slot);
  data_base_ = control_base_ + control_max * control_slot;
  granted_ = window_;
  allowed_ = std::min<std::uint64_t>(sends_wanted(), window_);
}

MutBytes TransferEnd::slot(std::size_t base, std::size_t octets, std::uint64_t index) {
  return MutBytes(memory_).subspan(base + octets * static_cast<std::size_t>(index), octets);
}

Result<void> TransferEnd::open(Device& device, PdHandle pd) {
  memory_.assign(data_base_ + slot_octets_ * window_, untouched);
  auto local = device.reg_mr(pd, MutBytes(memory_).first(data_base_), Access::local_write);
  if (!local) return tl::unexpected(local.error());
  local_ = *local;
  auto remote = device.reg_mr(pd, MutBytes(memory_).subspan(data_base_),
                              Access::local_write | Access::remote_write | Access::remote_read);
  if (!remote) return tl::unexpected(remote.error());
  remote_ = *remote;
  if (plan_.kind == Transfer::read && !plan_.initiator())
    for (std::uint64_t k = 0; k < window_; ++k)
      check::fill_pattern({plan_.number, check::Direction::to_initiator, k},
                          slot(data_base_, slot_octets_, k).first(plan_.octets));
  return {};
}

QpInit TransferEnd::qp_init(PdHandle pd, CompletionQueue* cq) const {
  QpInit init;
  init.pd = pd;
  init.send_cq = init.recv_cq = cq;
  init.max_send_wr = window_ + control_max;
  init.max_recv_wr = receive_slots();
  return init;
}

void TransferEnd::use(QueuePair& qp, Instant now) {
  qp_ = &qp;
  for (std::uint32_t i = 0; i < receive_slots(); ++i) post_receive(receives_posted_, now);
  if (plan_.initiator()) return;
  if (plan_.kind != Transfer::send && plan_.messages > 0)
    send_control({.kind = Kind::region, .number = plan_.ird, .stag = remote_.rkey, .to = remote_.addr}, now);
  advance(now);
}

void TransferEnd::established(const mpa::Parameters& parameters, Instant now) {
  up_ = true;
  if (plan_.initiator()) {
    std::uint32_t at_once = parameters.ord == mpa::depth_not_negotiated ? window_ : parameters.ord;
    can_read_ = at_once > 0;
    // An HCA itself delays Reads beyond its depth.
    reads_at_once_ = plan_.roce ? window_ : std::min(at_once, window_);
    // RFC 5044 §7.1.2 rule 4: without an RTR only our first message establishes the responder. A zero-length one would
    // be enough, but a responder that expects a Send as RTR would mistake it for that.
    const bool silent = plan_.kind != Transfer::send || plan_.messages == 0 || plan_.octets == 0;
    if (!plan_.roce && parameters.rtr == mpa::Rtr::none && silent) send_control({.kind = Kind::hello}, now);
  }
  advance(now);
  end_.transfers_done = finished();
}

void TransferEnd::post_receive(std::uint64_t index, Instant now) {
  const std::size_t octets = control_base_ / receive_slots();
  const std::size_t at = octets * static_cast<std::size_t>(index % receive_slots());
  const Sge sge{.addr = local_.addr + at, .length = static_cast<std::uint32_t>(octets), .lkey = local_.lkey};
  const std::uint64_t wr_id = receive_bit | index;
  const auto posted = qp_->post_recv({.wr_id = wr_id, .sges = {&sge, 1}});
  if (posted) {
    received_.posted(wr_id, WcOpcode::recv);
    ++receives_posted_;
  } else if (posted.error() != make_error_code(Errc::wrong_state)) {  // it has ended; its event will follow
    wrong(now, "a receive could not be posted: " + posted.error().message());
  }
}

bool TransferEnd::post(SendWr wr, WcOpcode opcode, Instant now) {
  wr.wr_id = next_wr_;
  const auto posted = qp_->post_send(wr);
  if (!posted) {
    if (posted.error() != make_error_code(Errc::wrong_state))
      wrong(now, fmt::format("a {} could not be posted: {}", to_string(opcode), posted.error().message()));
    return false;
  }
  sent_.posted(next_wr_++, opcode, wr.signaled);
  return true;
}

void TransferEnd::send_control(const Control& control, Instant now) {
  to_tell_.push_back(control);
  advance(now);
}

bool TransferEnd::post_control(const Control& control, Instant now) {
  const std::size_t at = control_base_ + control_slot * static_cast<std::size_t>(controls_posted_ % control_max);
  const MutBytes octets = MutBytes(memory_).subspan(at, control_octets());
  std::fill(octets.begin(), octets.end(), std::uint8_t{0});
  Writer w(octets);
  w.be32(static_cast<std::uint32_t>(control.kind));
  w.be64(control.number);
  w.be32(control.stag);
  w.be64(control.to);
  const Sge sge{.addr = local_.addr + at, .length = static_cast<std::uint32_t>(octets.size()), .lkey = local_.lkey};
  SendWr wr;
  wr.opcode = SendWr::Opcode::send;
  wr.sges = {&sge, 1};
  control_wrs_.push_back(next_wr_);
  if (!post(wr, WcOpcode::send, now)) {
    control_wrs_.pop_back();
    return false;
  }
  ++controls_posted_;
  return true;
}

void TransferEnd::advance(Instant now) {
  if (qp_ == nullptr || ((plan_.initiator() || plan_.roce) && !up_)) return;
  while (!to_tell_.empty() && control_wrs_.size() < control_max) {
    if (!post_control(to_tell_.front(), now)) return;
    to_tell_.pop_front();
  }
  switch (plan_.kind) {
    case Transfer::send: advance_sends(now); break;
    case Transfer::write: advance_writes(now); break;
    case Transfer::read: advance_reads(now); break;
  }
}

void TransferEnd::advance_sends(Instant now) {
  while (posted_ < allowed_ && posted_ - completed_ < window_) {
    const MutBytes octets = slot(data_base_, slot_octets_, posted_ % window_).first(plan_.octets);
    check::fill_pattern({plan_.number, plan_.outgoing(), posted_}, octets);
    const Sge sge{
        .addr = remote_.addr + slot_octets_ * (posted_ % window_), .length = plan_.octets, .lkey = remote_.lkey};
    SendWr wr;
    wr.opcode = SendWr::Opcode::send;
    if (plan_.octets > 0) wr.sges = {&sge, 1};
    if (!post(wr, WcOpcode::send, now)) return;
    ++posted_;
    ++end_.messages_sent;
  }
}

void TransferEnd::advance_writes(Instant now) {
  if (!plan_.initiator() || !peer_known_ || confirmed_ != batch_end_ || posted_ == plan_.messages) return;
  // RoCE: the peer's answer may arrive before the acknowledgment of the batch, which still occupies the queue.
  if (plan_.roce && !control_wrs_.empty()) return;
  const std::uint64_t until = std::min<std::uint64_t>(posted_ + window_, plan_.messages);
  for (; posted_ < until; ++posted_) {
    const std::size_t at = slot_octets_ * static_cast<std::size_t>(posted_ % window_);
    check::fill_pattern({plan_.number, plan_.outgoing(), posted_},
                        slot(data_base_, slot_octets_, posted_ % window_).first(plan_.octets));
    const Sge sge{.addr = remote_.addr + at, .length = plan_.octets, .lkey = remote_.lkey};
    SendWr wr;
    wr.opcode = SendWr::Opcode::rdma_write;
    wr.signaled = false;
    wr.rkey = peer_stag_;
    wr.remote_addr = peer_to_ + at;
    if (plan_.octets > 0) wr.sges = {&sge, 1};
    if (!post(wr, WcOpcode::rdma_write, now)) return;
    ++end_.messages_sent;
  }
  batch_end_ = until;
  // RFC 5040 §5.5: the Send after the Writes tells the responder that they are all placed.
  to_tell_.push_back({.kind = Kind::batch, .number = until});
  if (control_wrs_.size() < control_max && post_control(to_tell_.front(), now)) to_tell_.pop_front();
}

void TransferEnd::advance_reads(Instant now) {
  if (!plan_.initiator() || done_told_ || !up_) return;
  while (can_read_ && peer_known_ && posted_ < plan_.messages && posted_ - completed_ < reads_at_once_) {
    const std::size_t at = slot_octets_ * static_cast<std::size_t>(posted_ % window_);
    const Sge sge{.addr = remote_.addr + at, .length = plan_.octets, .lkey = remote_.lkey};
    SendWr wr;
    wr.opcode = SendWr::Opcode::rdma_read;
    wr.rkey = peer_stag_;
    wr.remote_addr = peer_to_ + at;
    if (plan_.octets > 0) wr.sges = {&sge, 1};
    if (!post(wr, WcOpcode::rdma_read, now)) return;
    ++posted_;
  }
  if (plan_.messages == 0 || (can_read_ && completed_ < plan_.messages)) return;
  done_told_ = true;
  to_tell_.push_back({.kind = Kind::done, .number = completed_});
  if (control_wrs_.size() < control_max && post_control(to_tell_.front(), now)) to_tell_.pop_front();
}

void TransferEnd::completed(const WorkCompletion& completion, Instant now) {
  ++progress_;
  const bool receive = (completion.wr_id & receive_bit) != 0;
  const bool excused = corrupted_ || (plan_.touched != nullptr && *plan_.touched);
  (receive ? received_ : sent_).completed(completion, excused, label_, now, judge_);
  if (completion.status != WcStatus::success) return;
  if (receive) {
    on_receive(completion, now);
  } else if (!control_wrs_.empty() && control_wrs_.front() == completion.wr_id) {
    control_wrs_.pop_front();
  } else if (plan_.kind == Transfer::send) {
    ++completed_;
  } else if (plan_.kind == Transfer::read && plan_.initiator()) {
    const std::uint64_t k = completed_++ % window_;
    const MutBytes sink = slot(data_base_, slot_octets_, k);
    if (believed())
      check::check_message({plan_.number, check::Direction::to_initiator, k}, sink, completion.byte_len, plan_.octets,
                           label_, now, judge_);
    end_.octets_got += completion.byte_len;
    std::fill(sink.begin(), sink.end(), untouched);
  }
  advance(now);
  end_.transfers_done = finished();
}

void TransferEnd::on_receive(const WorkCompletion& completion, Instant now) {
  const std::size_t octets = control_base_ / receive_slots();
  const std::uint64_t index = completion.wr_id & ~receive_bit;
  const ConstBytes memory = slot(0, octets, index % receive_slots());
  const std::size_t length = completion.byte_len;
  if (plan_.kind != Transfer::send || (length == control_octets() && length != plan_.octets)) {
    if (length == control_octets())
      on_control(memory.first(length), now);
    else if (!corrupted_)
      wrong(now, fmt::format("a small message came with {} octets instead of {}", length, control_octets()));
  } else {
    on_message(memory, length, now);
  }
  post_receive(receives_posted_, now);
}

void TransferEnd::on_message(ConstBytes memory, std::size_t length, Instant now) {
  if (believed())
    check::check_message({plan_.number, plan_.incoming(), got_}, memory, length, plan_.octets, label_, now, judge_);
  ++got_;
  ++end_.messages_got;
  end_.octets_got += length;
  const std::uint64_t possible = got_ + window_;
  if (granted_ >= receives_wanted() || possible - granted_ < (window_ + 1) / 2) return;
  granted_ = possible;
  to_tell_.push_back({.kind = Kind::credit, .number = possible});
}

void TransferEnd::on_control(ConstBytes octets, Instant now) {
  Reader r(octets);
  const std::uint32_t kind = r.be32();
  const std::uint64_t number = r.be64();
  const std::uint32_t stag = r.be32();
  const std::uint64_t to = r.be64();
  switch (static_cast<Kind>(kind)) {
    case Kind::hello: return;
    case Kind::region:
      peer_known_ = true;
      peer_stag_ = stag;
      peer_to_ = to;
      // RFC 6581 §9.1: values that MPA has not negotiated must be agreed by the ULP.
      if (!end_.parameters.depths_negotiated) {
        can_read_ = can_read_ && number > 0;
        reads_at_once_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(reads_at_once_, number));
      }
      return;
    case Kind::batch:
      if (plan_.initiator())
        confirmed_ = number;
      else
        on_batch(number, now);
      return;
    case Kind::credit: allowed_ = std::min(sends_wanted(), std::max(allowed_, number)); return;
    case Kind::done: done_heard_ = true; return;
  }
  if (!corrupted_) wrong(now, fmt::format("a small message of the unknown kind {} came", kind));
}

void TransferEnd::on_batch(std::uint64_t until, Instant now) {
  for (; got_ < std::min<std::uint64_t>(until, plan_.messages); ++got_) {
    const MutBytes target = slot(data_base_, slot_octets_, got_ % window_);
    if (believed())
      check::check_message({plan_.number, plan_.incoming(), got_}, target, plan_.octets, plan_.octets, label_, now,
                           judge_);
    std::fill(target.begin(), target.end(), untouched);
    ++end_.messages_got;
    end_.octets_got += plan_.octets;
  }
  to_tell_.push_back({.kind = Kind::batch, .number = got_});
}

bool TransferEnd::finished() const {
  if (!up_) return false;
  if (plan_.messages == 0) return true;
  if (!to_tell_.empty()) return false;
  switch (plan_.kind) {
    case Transfer::send: return posted_ == sends_wanted() && got_ == receives_wanted();
    case Transfer::write: return plan_.initiator() ? confirmed_ == plan_.messages : got_ == plan_.messages;
    case Transfer::read: return plan_.initiator() ? done_told_ : done_heard_;
  }
  return true;
}

void TransferEnd::ended(Instant now) const {
  sent_.ended(label_, now, judge_);
  received_.ended(label_, now, judge_);
}

Result<void> TransferEnd::close(Device& device) {
  Result<void> result;
  for (MemoryRegion* region : {&local_, &remote_}) {
    if (region->lkey == 0) continue;
    if (auto gone = device.dereg_mr(region->lkey); !gone) result = gone;
    region->lkey = 0;
  }
  memory_ = Bytes();
  return result;
}

std::string TransferEnd::pending() const {
  if (plan_.kind == Transfer::read) return fmt::format("{} of {} messages read", completed_, plan_.messages);
  const std::uint64_t out = plan_.kind == Transfer::write && plan_.initiator() ? plan_.messages : sends_wanted();
  return fmt::format("{} of {} messages sent, {} of {} received", posted_, out, got_, receives_wanted());
}

void TransferEnd::wrong(Instant now, std::string text) { judge_.add("delivery", now, label_, std::move(text)); }

}  // namespace parley::sim
