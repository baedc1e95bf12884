// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The implementation behind completion queues and their channels: the ring of completions, and the list of queues with
// a pending event. IBA 1.x §11.4.2: one event for each request for notification, for a completion that was added after
// it.
#pragma once
#include <algorithm>
#include <deque>

#include "nic/common/ref.hpp"
#include "nic/common/ring.hpp"
#include "parley/verbs.hpp"

namespace parley::nic {

/// Objects with a pending event for the user, each at most once: their number is the bound. T has `bool told`.
template <class T>
class PendingEventList {
 public:
  void add(T& object) {
    if (object.told) return;
    list_.push_back(&object);
    object.told = true;
  }
  T* take() {
    if (list_.empty()) return nullptr;
    T* object = list_.front();
    list_.pop_front();
    object->told = false;
    return object;
  }
  void forget(T& object) {
    if (!object.told) return;
    object.told = false;
    list_.erase(std::find(list_.begin(), list_.end(), &object));
  }
  std::size_t size() const { return list_.size(); }

 private:
  std::deque<T*> list_;
};

struct CqRing;

/// The events behind a CompletionChannel.
struct ChannelRing : Counted {
  PendingEventList<CqRing> events;
  bool open = true;  // the user still has it
};

/// The completions behind a CompletionQueue. Every posted request holds a reservation, which its completion uses up.
struct CqRing : Counted {
  enum class Armed : std::uint8_t { no, solicited, next_comp };

  explicit CqRing(std::size_t capacity, Ref<ChannelRing> tells = {}) : done(capacity), channel(std::move(tells)) {}
  /// Allocates the memory for the completion, so that a request can only fail when it is posted (for a shared receive
  /// queue: when it is taken).
  bool reserve() {
    if (done.size() + reserved >= done.max()) return false;
    done.make_room(reserved + 1);
    ++reserved;
    return true;
  }
  void release() { --reserved; }
  /// Returns a completion to fill in; all fields except the identity are initialised for a success.
  WorkCompletion& push(std::uint64_t wr_id, std::uint32_t qp_num, WcOpcode opcode, WcStatus status,
                       bool solicited = false) {
    if (armed == Armed::next_comp || (armed == Armed::solicited && (solicited || status != WcStatus::success))) {
      if (channel->open) channel->events.add(*this);  // may run out of memory, before anything changes
      armed = Armed::no;
    }
    --reserved;
    WorkCompletion& completion = done.push();
    completion =
        WorkCompletion{.wr_id = wr_id, .status = status, .opcode = opcode, .solicited = solicited, .qp_num = qp_num};
    return completion;
  }

  GrowRing<WorkCompletion> done;
  std::size_t reserved = 0;
  Ref<ChannelRing> channel;  // null: none
  Armed armed = Armed::no;   // only with a channel
  bool told = false;         // an event waits in the channel
  CompletionQueue* owner = nullptr;
};

struct Tables;

Result<std::unique_ptr<CompletionChannel>> make_channel(const Ref<Tables>& tables);
Result<std::unique_ptr<CompletionQueue>> make_cq(const Ref<Tables>& tables, const CqInit& init);

}  // namespace parley::nic
