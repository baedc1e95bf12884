// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the machines of the tree send: datagrams with their destination, and a queue with a bound.
#pragma once
#include <deque>
#include <optional>
#include <utility>

#include "mad/packet.hpp"
#include "parley/time.hpp"
#include "ssa/message.hpp"
#include "wire/mad/rpc.hpp"
#include "wire/mad/ssa.hpp"

namespace parley::ssa {

struct Transmit {
  mad::Address to;
  wire::mad::Datagram mad;
};

/// The status of an answer (PARLEY_SSA_STATUSES): class-specific bits (IBA §13.4.7).
enum class AnswerStatus : std::uint16_t {
  ok = 0,
#define PARLEY_X(name, number, text) name = number,
  PARLEY_SSA_STATUSES(PARLEY_X)
#undef PARLEY_X
};

/// Drops what is pushed beyond its bound, and counts it.
template <class T>
class OutputQueue {
 public:
  explicit OutputQueue(std::size_t bound) : bound_(bound) {}

  void push(T item) {
    if (items_.size() < bound_)
      items_.push_back(std::move(item));
    else
      ++dropped_;
  }
  std::optional<T> pop() {
    if (items_.empty()) return std::nullopt;
    std::optional<T> out(std::move(items_.front()));
    items_.pop_front();
    return out;
  }
  void clear() { items_.clear(); }
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::deque<T> items_;  // at most bound_
  std::size_t bound_;
  std::uint64_t dropped_ = 0;
};

/// A message while a machine handles it.
struct Received {
  Instant now;
  const mad::Address& from;
  const Message& message;
  ConstBytes mad;  ///< the datagram that it was parsed from
};
/// Sends the answer, if the message can have one (mad::reply_to).
void answer(OutputQueue<Transmit>& out, const Received& to, ConstBytes body, AnswerStatus status);

/// The path to the port of an endpoint: QP1 by its LID, or by its GID where LIDs do not exist (RoCE).
mad::Address address_of(const wire::mad::SsaEndpoint& endpoint);

}  // namespace parley::ssa
