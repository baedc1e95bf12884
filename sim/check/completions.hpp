// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every posted request completes exactly once and in order, except unsignaled ones that succeed; after the end of the
// connection no request remains (RFC 5040 §5.3, docs/nic.md).
#pragma once
#include <deque>

#include "parley/verbs.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// The send queue or the receive queue of one queue pair.
class Ledger {
 public:
  explicit Ledger(std::string_view name) : name_(name) {}

  void posted(std::uint64_t wr_id, WcOpcode opcode, bool signaled = true);
  void completed(const WorkCompletion& completion, bool corrupted, std::string_view label, Instant at, Judge& judge);
  /// The connection has ended: every request must have completed.
  void ended(std::string_view label, Instant at, Judge& judge) const;
  /// Requests that must still complete: unsignaled requests at the end of the queue have no completion if they succeed.
  std::size_t open() const;

 private:
  struct Request {
    std::uint64_t wr_id = 0;
    WcOpcode opcode = WcOpcode::send;
    bool signaled = true;
  };
  std::string_view name_;
  std::deque<Request> requests_;  // at most the queue pair's capacity, plus unsignaled ones before the next
  bool flushing_ = false;
};

}  // namespace parley::sim::check
