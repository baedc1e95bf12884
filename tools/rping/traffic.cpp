// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/rping/traffic.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tools/report.hpp"

namespace parley::tools {

namespace {

/// One more than expected, for a zero-length Send that is used as RTR.
std::uint32_t receive_slots(const TrafficOptions& options) {
  if (options.echo) return Traffic::echo_slots;
  return options.echoed ? 2 : options.expect + 1;
}

std::uint8_t pattern(std::uint64_t message, std::size_t at) { return static_cast<std::uint8_t>(message * 7 + at); }

}  // namespace

Or<void> check(const TrafficOptions& options) {
  if (receive_slots(options) > Traffic::receives_max)
    return command_error(Exit::usage, fmt::format("--expect: at most {} messages", Traffic::receives_max - 1));
  const std::uint64_t slots = receive_slots(options) + std::uint64_t{Traffic::send_slots};
  if (slots * options.size > Traffic::memory_max)
    return command_error(Exit::usage, fmt::format("--size {} with {} buffers is more than {} octets for one connection",
                                                  options.size, slots, Traffic::memory_max));
  return {};
}

Traffic::Traffic(Device& device, PdHandle pd, const TrafficOptions& options)
    : device_(device), pd_(pd), options_(options), receive_slots_(receive_slots(options)) {
  const std::uint32_t senders = options_.sends > 0 ? std::min(options_.sends, send_slots) : 0;
  memory_.resize(std::size_t{receive_slots_ + senders} * options_.size + 1);
}

Or<std::unique_ptr<Traffic>> Traffic::create(Device& device, PdHandle pd, const TrafficOptions& options) {
  std::unique_ptr<Traffic> traffic(new Traffic(device, pd, options));
  auto cq = device.create_cq(traffic->receive_slots_ + send_slots + echo_slots);
  if (!cq)
    return tools::command_error(Exit::environment, "cannot create a completion queue: " + message_of(cq.error()));
  traffic->cq_ = std::move(*cq);
  const auto region = device.reg_mr(pd, traffic->memory_, Access::local_write);
  if (!region) return tools::command_error(Exit::environment, "cannot register memory: " + message_of(region.error()));
  traffic->region_ = *region;
  return traffic;
}

Traffic::~Traffic() {
  if (region_.lkey != 0) (void)device_.dereg_mr(region_.lkey);
}

QpInit Traffic::init() const {
  QpInit init;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.max_send_wr = std::max(send_slots, echo_slots);
  init.max_recv_wr = receive_slots_;
  return init;
}

MutBytes Traffic::slot(std::uint32_t index) {
  return MutBytes(memory_).subspan(std::size_t{index} * options_.size, options_.size);
}

Sge Traffic::sge(std::uint32_t index, std::uint32_t length) const {
  return {region_.addr + std::uint64_t{index} * options_.size, length, region_.lkey};
}

void Traffic::report_error(std::string text) {
  if (!fault_) fault_ = std::move(text);
}

Or<void> Traffic::attach(QueuePair& qp) {
  qp_ = &qp;
  for (std::uint32_t i = 0; i < receive_slots_; ++i) post_receive(i);
  if (fault_) return tools::command_error(Exit::failed, *fault_);
  return {};
}

void Traffic::post_receive(std::uint32_t index) {
  const std::array sges{sge(index, options_.size)};
  if (const auto posted = qp_->post_recv({index, sges}); !posted && accepts_work(*qp_))
    report_error("cannot post a receive: " + message_of(posted.error()));
}

void Traffic::post_send(std::uint32_t index, std::uint32_t length) {
  const std::array sges{sge(index, length)};
  SendWr wr;
  wr.wr_id = index;
  wr.sges = sges;
  if (const auto posted = qp_->post_send(wr); !posted && accepts_work(*qp_))
    report_error("cannot post a Send: " + message_of(posted.error()));
}

void Traffic::established(bool send_rtr) {
  up_ = true;
  send_rtr_due_ = send_rtr;
  pump();
}

void Traffic::fill(std::uint64_t message, std::uint32_t index) {
  std::size_t at = 0;
  for (std::uint8_t& octet : slot(index)) octet = pattern(message, at++);
}

void Traffic::pump() {
  while (up_ && !fault_ && posted_ < options_.sends) {
    const std::uint64_t finished = options_.echoed ? received_ : sent_;
    if (posted_ - finished >= window()) return;
    const auto index = receive_slots_ + static_cast<std::uint32_t>(posted_ % std::min(options_.sends, send_slots));
    fill(posted_, index);
    ++posted_;
    post_send(index, options_.size);
  }
}

void Traffic::received(std::uint32_t index, std::uint32_t length) {
  if (send_rtr_due_ && length == 0) {
    send_rtr_due_ = false;
    return post_receive(index);
  }
  const std::uint64_t message = received_++;
  if (options_.echoed) {
    const ConstBytes data = slot(index).first(std::min(length, options_.size));
    bool same = length == options_.size;
    for (std::size_t i = 0; same && i < data.size(); ++i) same = data[i] == pattern(message, i);
    if (!same) return report_error(fmt::format("message {} came back changed ({} octets)", message + 1, length));
  }
  // The echo's completion frees the slot for the next message.
  if (options_.echo) return post_send(index, length);
  post_receive(index);
}

void Traffic::poll() {
  std::array<WorkCompletion, 32> done;
  while (!fault_) {
    const std::size_t n = cq_->poll(done);
    if (n == 0) break;
    for (const WorkCompletion& wc : std::span(done).first(n)) {
      if (wc.status == WcStatus::wr_flush_err) continue;
      if (wc.status != WcStatus::success) {
        report_error(fmt::format("{} ended with: {}", to_string(wc.opcode), to_string(wc.status)));
        break;
      }
      const auto index = static_cast<std::uint32_t>(wc.wr_id);
      if (wc.opcode == WcOpcode::recv) {
        received(index, wc.byte_len);
      } else if (index < receive_slots_) {
        post_receive(index);  // an echo was sent
      } else {
        ++sent_;
      }
    }
  }
  pump();
}

}  // namespace parley::tools
