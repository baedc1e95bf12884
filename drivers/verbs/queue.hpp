// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Completion queues of a real NIC: the system's completions are moved into the ring that every software NIC also has,
// so that reservations, arming and channels are the same for every transport.
#pragma once
#include <infiniband/verbs.h>

#include <memory>

#include "nic/common/objects.hpp"
#include "parley/verbs.hpp"

namespace parley::verbs {

/// The incomplete requests of one work queue. Those of a shared receive queue complete in any order. The NIC gets the
/// index in here as wr_id.
class Posted {
 public:
  struct Entry {
    std::uint64_t wr_id = 0;
    WcOpcode opcode = WcOpcode::send;
    bool signaled = true;  ///< false: success is not reported
    bool open = false;
  };

  /// `shared`: no room for the completion was reserved when the request was posted.
  explicit Posted(std::size_t size, bool shared = false) : entries_(size), shared_(shared) {
    free_.reserve(size);
    for (std::size_t i = size; i > 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
  }
  bool full() const { return free_.empty(); }
  bool shared() const { return shared_; }
  std::size_t open() const { return entries_.size() - free_.size(); }
  /// Requests that completed with an error, including flushed ones.
  std::uint64_t failed() const { return failed_; }
  /// Requests without an error, and probes.
  std::uint64_t succeeded() const { return succeeded_; }

  /// Replaces a request's index in the wr_id of Qp::probe()'s Writes, which are not requests of the program.
  static constexpr std::uint32_t probe = ~std::uint32_t{0};
  unsigned probes() const { return probes_; }
  void begin_probe() { ++probes_; }
  void end_probe(bool succeeded) {
    --probes_;
    if (succeeded) ++succeeded_;
  }
  /// Not when full().
  std::uint32_t put(std::uint64_t wr_id, WcOpcode opcode, bool signaled) {
    const std::uint32_t at = free_.back();
    free_.pop_back();
    entries_[at] = {wr_id, opcode, signaled, true};
    return at;
  }
  /// Null: no open request at that index.
  const Entry* find(std::uint32_t at) const {
    return at < entries_.size() && entries_[at].open ? &entries_[at] : nullptr;
  }
  void close(std::uint32_t at) {
    entries_[at].open = false;
    free_.push_back(at);
  }
  void complete(std::uint32_t at, bool succeeded) {
    ++(succeeded ? succeeded_ : failed_);
    close(at);
  }

 private:
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::uint64_t failed_ = 0, succeeded_ = 0;
  unsigned probes_ = 0;  // in flight
  bool shared_;
};

/// The system's queue and our ring; exists as long as the user or a queue pair uses it.
struct HwCq {
  HwCq(ibv_cq* queue, nic::Ref<nic::CqRing> completions) : cq(queue), ring(std::move(completions)) {}
  ~HwCq();
  HwCq(const HwCq&) = delete;
  HwCq& operator=(const HwCq&) = delete;
  ibv_cq* cq;
  nic::Ref<nic::CqRing> ring;
  unsigned events = 0;      // to acknowledge before the queue can be destroyed
  unsigned probes = 0;      // in flight
  unsigned probes_max = 0;  // room for probes, which the ring does not count
  bool armed = false;
};

class Cq final : public CompletionQueue {
 public:
  Cq(std::unique_ptr<CompletionQueue> ring, std::shared_ptr<HwCq> hw) : ring_(std::move(ring)), hw_(std::move(hw)) {
    hw_->ring->owner = this;
  }
  std::size_t poll(std::span<WorkCompletion> out) override { return ring_->poll(out); }
  std::size_t capacity() const override { return ring_->capacity(); }
  Result<void> req_notify(Notify which) override { return ring_->req_notify(which); }

 private:
  std::unique_ptr<CompletionQueue> ring_;
  std::shared_ptr<HwCq> hw_;
};

}  // namespace parley::verbs
