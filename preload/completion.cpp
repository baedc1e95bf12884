// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Completion queues and channels, and asynchronous events. A descriptor is readable while an event is pending.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "preload/objects.hpp"

namespace parley::preload {

namespace {

bool same(const ibv_async_event& a, const ibv_async_event& b) {
  return a.event_type == b.event_type && a.element.qp == b.element.qp;
}

}  // namespace

EventDescriptor::EventDescriptor() { (void)::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_); }
EventDescriptor::~EventDescriptor() {
  for (const int end : ends_)
    if (end >= 0) ::close(end);
}

void EventDescriptor::hang_up() {
  if (ends_[0] >= 0) ::close(std::exchange(ends_[0], -1));
}

void EventDescriptor::set(bool readable) {
  if (readable == readable_) return;
  readable_ = readable;
  char one = 0;
  if (readable)
    (void)::send(ends_[1], &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  else
    (void)::recv(ends_[0], &one, 1, MSG_DONTWAIT);
}

bool EventDescriptor::wait(int fd) {
  char one = 0;
  return ::recv(fd, &one, 1, MSG_PEEK) > 0;
}

EventCount::EventCount(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed)
    : mutex_(mutex), cond_(cond), completed_(completed) {
  ::pthread_mutex_init(&mutex_, nullptr);
  ::pthread_cond_init(&cond_, nullptr);
}

EventCount::~EventCount() {
  ::pthread_mutex_destroy(&mutex_);
  ::pthread_cond_destroy(&cond_);
}

void EventCount::acknowledge(std::uint32_t events) {
  ::pthread_mutex_lock(&mutex_);
  completed_ += events;
  ::pthread_cond_signal(&cond_);
  ::pthread_mutex_unlock(&mutex_);
}

void EventCount::wait() {
  ::pthread_mutex_lock(&mutex_);
  while (completed_ != got_) ::pthread_cond_wait(&cond_, &mutex_);
  ::pthread_mutex_unlock(&mutex_);
}

void Context::update_descriptors() {
  for (Channel* channel : channels) channel->update_descriptors();
}

bool Context::handle(const AsyncEvent& event) {
  ibv_async_event out{};
  if (const auto* limit = std::get_if<SrqLimitReached>(&event)) {
    const auto at = std::find_if(srqs.begin(), srqs.end(), [&](ibv_srq* s) { return of(s).inner.get() == limit->srq; });
    if (at == srqs.end()) return false;
    out.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
    out.element.srq = *at;
  } else {
    const auto& told = std::get<QueuePairEvent>(event);
    const auto at = std::find_if(qps.begin(), qps.end(), [&](ibv_qp* q) { return of(q).inner.get() == told.qp; });
    if (at == qps.end()) return false;
    out.event_type = static_cast<ibv_event_type>(told.kind);
    out.element.qp = *at;
  }
  if (std::any_of(events.begin(), events.end(), [&](const ibv_async_event& e) { return same(e, out); })) return true;
  events.push_back(out);
  bell.set(true);
  return true;
}

void Context::forget(const void* object) {
  std::erase_if(events, [&](const ibv_async_event& e) { return e.element.qp == object; });
  bell.set(!events.empty());
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: the functions below are libibverbs' and have no namespace
using parley::CompletionChannel;
using parley::CqInit;
using parley::Device;

PARLEY_VERB ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  auto channel = std::make_unique<Channel>();
  channel->context = context;
  channel->fd = channel->bell.fd();
  if (channel->fd < 0)
    return none<ibv_comp_channel>("ibv_create_comp_channel", errno, "no file descriptor is available");
  auto made = with(context, [](Device& device) { return device.create_comp_channel(); });
  if (!made) return none<ibv_comp_channel>("ibv_create_comp_channel", made.error());
  channel->inner = std::move(*made);
  of(context).engine->with_nic([&](auto&) { of(context).channels.push_back(channel.get()); });
  return channel.release();
}

PARLEY_VERB int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt > 0) return refused("ibv_destroy_comp_channel", EBUSY, "completion queues use it");
  of(channel->context).engine->with_nic([&](auto&) {
    std::erase(of(channel->context).channels, channel);
    of(channel).inner.reset();
  });
  delete &of(channel);
  return 0;
}

Cq* parley::preload::make_cq(const char* call, ibv_context* context, std::uint32_t cqe, void* user,
                             ibv_comp_channel* channel, std::uint32_t vector) {
  if (vector >= static_cast<std::uint32_t>(context->num_comp_vectors))
    return none<Cq>(call, EINVAL, "the context has no such completion vector");
  if (channel != nullptr && channel->context != context)
    return none<Cq>(call, EINVAL, "the channel is another context's");
  if (cqe < 1) return none<Cq>(call, EINVAL, "cqe has to be more than 0");
  // Parley's queues reserve room for each posted request, but programs compute `cqe` from signaled requests only. So
  // each queue gets the largest capacity. Memory is allocated only as it is needed.
  auto made = with(context, [&](Device& device) -> parley::Result<std::unique_ptr<parley::CompletionQueue>> {
    const std::size_t most = device.query().max_cqe;
    if (cqe > most) return parley::fail(parley::Errc::invalid_argument, "cqe is more than max_cqe");
    return device.create_cq(
        CqInit{.capacity = most, .channel = channel == nullptr ? nullptr : of(channel).inner.get()});
  });
  if (!made) return none<Cq>(call, made.error());
  auto* const cq = new Cq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = user;
  cq->cqe = static_cast<int>(cqe);
  cq->inner = std::move(*made);
  of(context).engine->with_nic([&](auto&) {
    if (channel != nullptr) ++channel->refcnt;
    of(context).cqs.emplace(cq->inner.get(), ibv_cq_ex_to_cq(cq));
  });
  return cq;
}

PARLEY_VERB ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* user, ibv_comp_channel* channel, int vector) {
  if (cqe < 1 || vector < 0)
    return none<ibv_cq>("ibv_create_cq", EINVAL, "cqe has to be more than 0, and the completion vector not negative");
  Cq* const cq = make_cq("ibv_create_cq", context, static_cast<std::uint32_t>(cqe), user, channel,
                         static_cast<std::uint32_t>(vector));
  return cq == nullptr ? nullptr : ibv_cq_ex_to_cq(cq);
}

// The queue has the capacity of the largest one from the start. Only the number that the program reads changes.
PARLEY_VERB int ibv_resize_cq(ibv_cq* cq, int cqe) {
  constexpr const char* call = "ibv_resize_cq";
  if (!is_own(cq->context)) return refused(call, EPERM, Engine::not_own);
  return with(cq->context, [&](Device& device) {
    if (cqe < 1 || static_cast<std::uint32_t>(cqe) > device.query().max_cqe)
      return refused(call, EINVAL, "cqe is 1 to max_cqe");
    if (static_cast<std::size_t>(cqe) < of(cq).inner->size())
      return refused(call, EINVAL, "more completions than that wait in the queue");
    cq->cqe = cqe;
    return 0;
  });
}

PARLEY_VERB int ibv_destroy_cq(ibv_cq* cq) {
  if (of(cq).users > 0) return refused("ibv_destroy_cq", EBUSY, "queue pairs use it");
  of(cq->context).engine->with_nic([&](auto&) {
    of(cq->context).cqs.erase(of(cq).inner.get());
    of(cq).inner.reset();
    if (cq->channel == nullptr) return;
    --cq->channel->refcnt;
    of(cq->channel).update_descriptors();  // an unread event of this queue is gone
  });
  of(cq).events.wait();
  delete &of(cq);
  return 0;
}

PARLEY_VERB int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** out, void** user) {
  Context& context = of(channel->context);
  if (!context.engine->is_own()) return refused("ibv_get_cq_event", EPERM, Engine::not_own), -1;
  for (;;) {
    const bool came = context.engine->with_nic([&](auto&) {
      const parley::CompletionQueue* const first = of(channel).inner->poll_event();
      of(channel).update_descriptors();
      if (first == nullptr) return false;
      ibv_cq* const cq = context.cqs.at(first);  // under the lock, so that no thread destroys it first
      of(cq).events.got_one();
      *out = cq;
      *user = cq->cq_context;
      return true;
    });
    if (came) return 0;
    if (!EventDescriptor::wait(channel->fd)) return -1;
  }
}

/// ibv_destroy_cq waits for it, because until then a thread may still use the queue that the event named.
PARLEY_VERB void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) { of(cq).events.acknowledge(events); }

PARLEY_VERB int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  if (!is_own(context)) return refused("ibv_get_async_event", EPERM, Engine::not_own), -1;
  for (;;) {
    const bool came = of(context).engine->with_nic([&](auto&) {
      auto& events = of(context).events;
      if (events.empty()) return false;
      *out = events.front();
      events.pop_front();
      of(context).bell.set(!events.empty());
      if (out->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
        of(out->element.srq).events.got_one();
      else
        of(out->element.qp).events.got_one();
      return true;
    });
    if (came) return 0;
    if (!EventDescriptor::wait(context->async_fd)) return -1;
  }
}

/// As ibv_ack_cq_events, for ibv_destroy_qp and ibv_destroy_srq.
PARLEY_VERB void ibv_ack_async_event(ibv_async_event* event) {
  if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
    of(event->element.srq).events.acknowledge(1);
  else
    of(event->element.qp).events.acknowledge(1);
}
