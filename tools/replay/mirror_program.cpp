// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/replay/mirror_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace parley::tools {

void MirrorProgram::release() {
  if (id_) id_.destroy();
  id_ = listener_ = {};
  cq_.reset();
}

void MirrorProgram::plan_regions(std::span<const replay::Use> uses, std::span<const replay::Field> fields, bool refused,
                                 const RegionLimits& reach) {
  for (const replay::Use& u : uses) {
    if (!u.advertised && (!u.moved || refused)) continue;
    std::uint64_t begin = u.begin, end = std::max(u.end, u.begin);
    for (const replay::Field& f : fields) {
      if (!f.is_to || f.stag != u.stag) continue;
      if (!u.moved || (f.to < begin && begin - f.to < reach.before)) begin = f.to;
      end = std::max(end, begin);
    }
    if (end - begin > reach.most) continue;  // end is at least begin: note_use() does not let a TO wrap
    Region r;
    r.recorded = u.stag;
    r.begin = begin;
    r.size = static_cast<std::size_t>(std::max<std::uint64_t>(end - begin, 1));
    r.advertised = u.advertised;
    regions_.push_back(std::move(r));
  }
}

Or<void> MirrorProgram::allocate_memory(capture::Side side, std::uint64_t sent, std::size_t most) {
  std::uint64_t total = sent + receive_size_ * receives;
  for (const Region& r : regions_) total += r.size;  // no overflow: RegionLimits::most limits each region
  if (total > most)
    return command_error(Exit::environment,
                         fmt::format("what the recorded {} moved needs {} MiB of memory in the simulator; {} are given",
                                     capture::to_string(side), total >> 20, most >> 20));
  // Allocate only after the total was checked: a small recording can name any amount of memory.
  for (Region& r : regions_) r.memory.assign(r.size, 0);
  arena_.assign(std::max<std::uint64_t>(sent, 1), 0);
  receive_arena_.assign(receive_size_ * receives, 0);
  return {};
}

void MirrorProgram::register_memory(Device& device) {
  pd_ = device.alloc_pd().value_or(0);
  if (auto cq = device.create_cq(16384)) cq_ = std::move(*cq);
  const Access all = Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic;
  for (Region& r : regions_)
    if (const auto mr = device.reg_mr(pd_, r.memory, all)) r.mr = *mr;
  arena_mr_ = device.reg_mr(pd_, arena_, Access::local_write).value_or(MemoryRegion{});
  receive_mr_ = device.reg_mr(pd_, receive_arena_, Access::local_write).value_or(MemoryRegion{});
}

void MirrorProgram::put(std::uint32_t recorded, std::uint64_t to, ConstBytes octets) {
  for (Region& r : regions_) {
    if (r.recorded != recorded || to < r.begin) continue;
    const std::uint64_t at = to - r.begin;
    if (at > r.memory.size() || r.memory.size() - at < octets.size()) continue;
    std::copy(octets.begin(), octets.end(), r.memory.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void MirrorProgram::write_name(Bytes& octets, const replay::Field& field) const {
  for (const Region& r : regions_)
    if (r.recorded == field.stag && r.mr.rkey != 0)
      replay::write_field(octets, field, field.is_to ? r.mr.addr + (field.to - r.begin) : r.mr.rkey);
}

QpInit MirrorProgram::queue_pair() const {
  return {.pd = pd_, .send_cq = cq_.get(), .recv_cq = cq_.get(), .max_send_wr = sends, .max_recv_wr = receives};
}

void MirrorProgram::post_receives() {
  for (std::size_t slot = 0; slot < receives; ++slot) post_receive(slot);
}

void MirrorProgram::post_receive(std::size_t slot) {
  QueuePair* qp = id_ ? id_.qp() : nullptr;
  if (qp == nullptr) return;
  const Sge sge{.addr = receive_mr_.addr + slot * receive_size_,
                .length = static_cast<std::uint32_t>(receive_size_),
                .lkey = receive_mr_.lkey};
  (void)qp->post_recv({.wr_id = slot, .sges = {&sge, 1}});
}

bool MirrorProgram::adopt(const cm::ConnectRequest& request) {
  if (id_) {
    cm::Id second = request.id;
    second.destroy();
    return false;
  }
  id_ = request.id;
  return true;
}

void MirrorProgram::note_end(const cm::Event& event) {
  if (const auto* is = std::get_if<cm::Rejected>(&event); is != nullptr && is_mine(is->id))
    events_.push_back("rejected: " + is->why.to_string());
  if (const auto* is = std::get_if<cm::ConnectFailed>(&event)) events_.push_back("failed: " + is->why.to_string());
  if (const auto* is = std::get_if<cm::Disconnected>(&event); is != nullptr && is_mine(is->id)) {
    over_ = true;
    events_.push_back(is->graceful ? std::string("closed") : "ended: " + is->why.to_string());
  }
}

std::optional<Sge> MirrorProgram::place(ConstBytes payload, std::size_t length) {
  if (arena_.size() - arena_used_ < length) return std::nullopt;
  std::copy(payload.begin(), payload.end(), arena_.begin() + static_cast<std::ptrdiff_t>(arena_used_));
  return Sge{
      .addr = arena_mr_.addr + arena_used_, .length = static_cast<std::uint32_t>(length), .lkey = arena_mr_.lkey};
}

void MirrorProgram::on_turn(sim::Host& host) {
  while (auto next = host.cm().poll_event()) event(host, std::move(*next));
  std::array<WorkCompletion, 64> done;
  for (std::size_t n = cq_->poll(done); n > 0; n = cq_->poll(done))
    for (const WorkCompletion& wc : std::span(done).first(n))
      if (wc.status == WcStatus::success) completed(host, wc);
  proceed(host);
}

void MirrorProgram::on_timer(sim::Host& host, std::uint64_t) {
  armed_ = never;
  proceed(host);
}

void MirrorProgram::proceed(sim::Host& host) {
  while (!over_) {
    const Wait* const wait = next();
    if (wait == nullptr || sends_seen_ < wait->sends_seen || answers_seen_ < wait->answers_seen) return;
    const Instant when = progress_at_ + wait->delay;
    if (host.now() < when) {
      if (when < armed_) host.set_timer(armed_ = when, 0);
      return;
    }
    if (!act()) return;
    progress_at_ = host.now();
    ++next_act_;
  }
}

}  // namespace parley::tools
