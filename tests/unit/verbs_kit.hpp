// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tests that move data: memory, a completion queue, and short ways to post and poll.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "parley/verbs.hpp"

namespace parley {

/// Memory, a completion queue and what is needed to move data with an id.
struct Verbs {
  explicit Verbs(Device& dev, std::size_t size = 65536) : device(dev), memory(size) {
    pd = *device.alloc_pd();
    cq = std::move(*device.create_cq(512));
    mr = *device.reg_mr(pd, memory, Access::local_write | Access::remote_write | Access::remote_read);
  }
  QpInit qp() const {
    return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 16, .max_recv_wr = 16};
  }
  Sge at(std::size_t offset, std::size_t length) const {
    return {.addr = mr.addr + offset, .length = static_cast<std::uint32_t>(length), .lkey = mr.lkey};
  }
  Result<void> recv(QueuePair& q, std::size_t offset, std::size_t length, std::uint64_t wr_id = 0) {
    const Sge sge = at(offset, length);
    return q.post_recv({.wr_id = wr_id, .sges = {&sge, 1}});
  }
  Result<void> send(QueuePair& q, std::size_t offset, std::size_t length, std::uint64_t wr_id = 0) {
    const Sge sge = at(offset, length);
    return q.post_send({.wr_id = wr_id, .opcode = SendWr::Opcode::send, .sges = {&sge, 1}});
  }
  std::vector<WorkCompletion> poll() {
    std::array<WorkCompletion, 32> out;
    const std::size_t n = cq->poll(out);
    done.insert(done.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n));
    return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  /// Completions of that kind polled so far.
  std::size_t count(WcOpcode opcode, WcStatus status = WcStatus::success) {
    (void)poll();
    return static_cast<std::size_t>(std::count_if(done.begin(), done.end(), [&](const WorkCompletion& wc) {
      return wc.opcode == opcode && wc.status == status;
    }));
  }
  bool saw(WcOpcode opcode, WcStatus status = WcStatus::success) { return count(opcode, status) > 0; }

  Device& device;
  Bytes memory;
  PdHandle pd = 0;
  std::unique_ptr<CompletionQueue> cq;
  MemoryRegion mr;
  std::vector<WorkCompletion> done;
};

}  // namespace parley
