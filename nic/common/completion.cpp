// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/common/completion.hpp"

#include "nic/common/objects.hpp"

namespace parley::nic {
namespace {

class Channel final : public CompletionChannel {
 public:
  // g++ 12 leaks memory if a `new` in a member's default initialiser throws inside, hence this constructor.
  explicit Channel(Ref<Tables> tables) : tables_(std::move(tables)), ring_(new ChannelRing) {
    tables_->channels.emplace(this, ring_);
  }
  ~Channel() override {
    ring_->open = false;  // events of its queues are discarded from now on
    tables_->channels.erase(this);
  }

  CompletionQueue* poll_event() override {
    CqRing* cq = ring_->events.take();
    return cq != nullptr ? cq->owner : nullptr;
  }
  std::size_t waiting() const override { return ring_->events.size(); }

 private:
  Ref<Tables> tables_;
  Ref<ChannelRing> ring_;
};

class Cq final : public CompletionQueue {
 public:
  Cq(Ref<Tables> tables, std::size_t capacity, Ref<ChannelRing> channel)
      : tables_(std::move(tables)), ring_(new CqRing(capacity, std::move(channel))) {
    ring_->owner = this;
    tables_->cqs.emplace(this, ring_);
  }
  ~Cq() override {
    // Queue pairs may still complete requests into the ring, but no more events are reported.
    ring_->armed = CqRing::Armed::no;
    if (ring_->channel) ring_->channel->events.forget(*ring_);
    tables_->cqs.erase(this);
  }

  std::size_t poll(std::span<WorkCompletion> out) override {
    std::size_t n = 0;
    for (; n < out.size() && !ring_->done.empty(); ++n) {
      out[n] = ring_->done.front();
      ring_->done.pop();
    }
    return n;
  }
  std::size_t size() const override { return ring_->done.size(); }
  std::size_t capacity() const override { return ring_->done.max(); }

  Result<void> req_notify(Notify which) override {
    if (!ring_->channel)
      return fail(Errc::wrong_state, "the completion queue was made without CqInit::channel; it can only be polled");
    if (!ring_->channel->open) return fail(Errc::wrong_state, "the channel of the completion queue is gone");
    if (which == Notify::next_comp)
      ring_->armed = CqRing::Armed::next_comp;
    else if (ring_->armed == CqRing::Armed::no)
      ring_->armed = CqRing::Armed::solicited;
    return {};
  }

 private:
  Ref<Tables> tables_;
  Ref<CqRing> ring_;
};

}  // namespace

Result<std::unique_ptr<CompletionChannel>> make_channel(const Ref<Tables>& tables) {
  return std::make_unique<Channel>(tables);
}

Result<std::unique_ptr<CompletionQueue>> make_cq(const Ref<Tables>& tables, const CqInit& init) {
  if (auto capacity = check_capacity(init.capacity, cq_capacity_max); !capacity)
    return tl::unexpected(capacity.error());
  Ref<ChannelRing> channel;
  if (init.channel != nullptr) {
    const auto found = tables->channels.find(init.channel);
    if (found == tables->channels.end())
      return fail(Errc::invalid_argument, "CqInit::channel is not a completion channel of this device");
    channel = found->second;
  }
  return std::make_unique<Cq>(tables, init.capacity, std::move(channel));
}

}  // namespace parley::nic
