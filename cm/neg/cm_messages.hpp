// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Short messages over a connection, each in one Send.
#pragma once
#include <deque>
#include <memory>
#include <optional>

#include "parley/neg.hpp"
#include "parley/verbs.hpp"

namespace parley::neg {

class CmMessages {
 public:
  static constexpr std::size_t message_max = 256;  // octets
  static constexpr std::size_t depth = 8;          // messages in flight, per direction

  /// Errors: resource_exhaustion, vendor_library_error.
  static Outcome<std::unique_ptr<CmMessages>> create(Device& device);
  ~CmMessages();
  CmMessages(const CmMessages&) = delete;
  CmMessages& operator=(const CmMessages&) = delete;

  /// The QpInit for the connection's queue pair.
  QpInit init() const;
  /// Posts the receives. Destroy the queue pair before this object.
  Outcome<void> attach(QueuePair& qp);
  /// A message that must wait for an earlier one is sent by take(). Errors: those of the queue pair.
  Outcome<void> send(ConstBytes message);
  /// The next received message; none: nothing yet. Errors: a request failed.
  Outcome<std::optional<Bytes>> take();

 private:
  explicit CmMessages(Device& device) : device_(device), memory_(2 * depth * message_max) {}
  Outcome<void> make_objects();
  Outcome<void> post_receive(std::uint64_t slot);
  Outcome<void> send_waiting();
  Sge slot_of(std::uint64_t slot, std::size_t length) const;

  Device& device_;
  Bytes memory_;  // of receives, followed by sends
  PdHandle pd_ = 0;
  std::optional<MemoryRegion> region_;
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
  std::deque<Bytes> waiting_;  // at most the messages that a session sends without an answer
  std::uint64_t sent_ = 0, done_ = 0;
};

}  // namespace parley::neg
