// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/cm_messages.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/device_qp.hpp"

namespace parley::neg {

Outcome<std::unique_ptr<CmMessages>> CmMessages::create(Device& device) {
  std::unique_ptr<CmMessages> out(new CmMessages(device));
  if (auto made = out->make_objects(); !made) return tl::unexpected(made.error());
  return out;
}

CmMessages::~CmMessages() {
  cq_.reset();
  if (region_) (void)device_.dereg_mr(region_->lkey);
  if (pd_ != 0) (void)device_.dealloc_pd(pd_);
}

Outcome<void> CmMessages::make_objects() {
  auto pd = device_.alloc_pd();
  if (!pd) return device_failed("protection domain", pd.error());
  pd_ = *pd;
  auto region = device_.reg_mr(pd_, memory_, Access::local_write);
  if (!region) return device_failed("memory", region.error());
  region_ = *region;
  auto cq = device_.create_cq(2 * depth);
  if (!cq) return device_failed("completion queue", cq.error());
  cq_ = std::move(*cq);
  return {};
}

QpInit CmMessages::init() const {
  return {.pd = pd_, .send_cq = cq_.get(), .recv_cq = cq_.get(), .max_send_wr = depth, .max_recv_wr = depth};
}

Sge CmMessages::slot_of(std::uint64_t slot, std::size_t length) const {
  return {
      .addr = region_->addr + slot * message_max, .length = static_cast<std::uint32_t>(length), .lkey = region_->lkey};
}

Outcome<void> CmMessages::post_receive(std::uint64_t slot) {
  const Sge sge = slot_of(slot, message_max);
  if (auto posted = qp_->post_recv({.wr_id = slot, .sges = {&sge, 1}}); !posted)
    return device_failed("a receive", posted.error());
  return {};
}

Outcome<void> CmMessages::attach(QueuePair& qp) {
  qp_ = &qp;
  for (std::uint64_t slot = 0; slot < depth; ++slot)
    if (auto posted = post_receive(slot); !posted) return posted;
  return {};
}

Outcome<void> CmMessages::send(ConstBytes message) {
  if (message.size() > message_max)
    return failed(Problem::serialization_failure,
                  fmt::format("a message of {}; {} fit", counted(message.size(), "octet"), message_max));
  waiting_.emplace_back(message.begin(), message.end());
  return send_waiting();
}

Outcome<void> CmMessages::send_waiting() {
  for (; !waiting_.empty() && sent_ - done_ < depth; waiting_.pop_front(), ++sent_) {
    const std::uint64_t slot = depth + sent_ % depth;
    const Bytes& message = waiting_.front();
    std::copy(message.begin(), message.end(), memory_.begin() + static_cast<std::ptrdiff_t>(slot * message_max));
    const Sge sge = slot_of(slot, message.size());
    if (auto posted = qp_->post_send({.wr_id = slot, .sges = {&sge, 1}}); !posted)
      return device_failed("a send", posted.error());
  }
  return {};
}

Outcome<std::optional<Bytes>> CmMessages::take() {
  WorkCompletion done;
  while (cq_->poll({&done, 1}) == 1) {
    const bool receive = done.opcode == WcOpcode::recv;
    if (done.status != WcStatus::success)
      return failed(Problem::vendor_library_error,
                    fmt::format("a {} failed: {}", receive ? "receive" : "send", to_string(done.status)));
    if (!receive) {
      ++done_;
      if (auto sent = send_waiting(); !sent) return tl::unexpected(sent.error());
      continue;
    }
    const auto from = memory_.begin() + static_cast<std::ptrdiff_t>(done.wr_id * message_max);
    Bytes out(from, from + done.byte_len);
    if (auto posted = post_receive(done.wr_id); !posted) return tl::unexpected(posted.error());
    return out;
  }
  return std::nullopt;
}

}  // namespace parley::neg
