// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Completion queues and channels, and asynchronous events. A descriptor is readable while something waits behind it.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "preload/objects.hpp"

namespace parley::preload {

namespace {

/// Waits until the descriptor of a channel or context is readable. False: the program wants no wait, or a signal came (errno).
bool wait_for(int fd) {
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return false;
  }
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, -1) >= 0;
}

void raise(int fd) { (void)::eventfd_write(fd, 1); }
void lower(int fd) {
  eventfd_t many = 0;
  (void)::eventfd_read(fd, &many);
}

bool same(const ibv_async_event& a, const ibv_async_event& b) {
  return a.event_type == b.event_type && a.element.qp == b.element.qp;
}

}  // namespace

void Channel::look() {
  if (raised || inner->waiting() == 0) return;
  raised = true;
  raise(fd);
}

void Context::look() {
  for (Channel* channel : channels) channel->look();
}

bool Context::take(const AsyncEvent& event) {
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
  if (events.size() == 1) raise(context.async_fd);
  return true;
}

void Context::forget(const void* object) {
  const bool waited = !events.empty();
  std::erase_if(events, [&](const ibv_async_event& e) { return e.element.qp == object; });
  if (waited && events.empty()) lower(context.async_fd);
}

}  // namespace parley::preload

using namespace parley::preload;  // NOLINT: what follows is libibverbs' and has no namespace
using parley::CompletionChannel;
using parley::CqInit;
using parley::Device;

PARLEY_VERB ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  if (fd < 0) return none<ibv_comp_channel>("ibv_create_comp_channel", errno, "the system gives no descriptor");
  auto made = with(context, [](Device& device) { return device.create_comp_channel(); });
  if (!made) {
    ::close(fd);
    return none<ibv_comp_channel>("ibv_create_comp_channel", made.error());
  }
  auto* const channel = new Channel{};
  channel->context = context;
  channel->fd = fd;
  channel->inner = std::move(*made);
  of(context).engine->with_nic([&](auto&) {
    of(context).channels.push_back(channel);
    return 0;
  });
  return channel;
}

PARLEY_VERB int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (channel->refcnt > 0) return refused("ibv_destroy_comp_channel", EBUSY, "completion queues use it");
  of(channel->context).engine->with_nic([&](auto&) {
    std::erase(of(channel->context).channels, channel);
    of(channel).inner.reset();
    return 0;
  });
  ::close(channel->fd);
  delete &of(channel);
  return 0;
}

PARLEY_VERB ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* user, ibv_comp_channel* channel, int vector) {
  if (vector != 0) return none<ibv_cq>("ibv_create_cq", EINVAL, "there is one completion vector, which is 0");
  if (cqe < 1) return none<ibv_cq>("ibv_create_cq", EINVAL, "cqe has to be more than 0");
  // Parley's queues reserve room for each posted request; programs count on room for those alone that make a completion.
  const std::size_t room = static_cast<std::size_t>(cqe) * 2 + cq_spare;
  auto made = with(context, [&](Device& device) {
    return device.create_cq(
        CqInit{.capacity = room, .channel = channel == nullptr ? nullptr : of(channel).inner.get()});
  });
  if (!made) return none<ibv_cq>("ibv_create_cq", made.error());
  auto* const cq = new Cq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = user;
  cq->cqe = cqe;
  cq->inner = std::move(*made);
  ::pthread_mutex_init(&cq->mutex, nullptr);
  ::pthread_cond_init(&cq->cond, nullptr);
  if (channel != nullptr) ++channel->refcnt;
  of(context).engine->with_nic([&](auto&) { return of(context).cqs.emplace(cq->inner.get(), cq).second; });
  return cq;
}

PARLEY_VERB int ibv_resize_cq(ibv_cq*, int) {
  return refused("ibv_resize_cq", EOPNOTSUPP, "make another completion queue");
}

PARLEY_VERB int ibv_destroy_cq(ibv_cq* cq) {
  if (of(cq).users > 0) return refused("ibv_destroy_cq", EBUSY, "queue pairs use it");
  of(cq->context).engine->with_nic([&](auto&) {
    of(cq->context).cqs.erase(of(cq).inner.get());
    of(cq).inner.reset();
    return 0;
  });
  if (cq->channel != nullptr) --cq->channel->refcnt;
  ::pthread_mutex_destroy(&cq->mutex);
  ::pthread_cond_destroy(&cq->cond);
  delete &of(cq);
  return 0;
}

PARLEY_VERB int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** out, void** user) {
  Context& context = of(channel->context);
  for (;;) {
    parley::CompletionQueue* const came = context.engine->with_nic([&](auto&) {
      parley::CompletionQueue* const first = of(channel).inner->poll_event();
      if (of(channel).raised && of(channel).inner->waiting() == 0) {
        of(channel).raised = false;
        lower(channel->fd);
      }
      return first;
    });
    if (came != nullptr) {
      *out = context.engine->with_nic([&](auto&) { return context.cqs.at(came); });
      *user = (*out)->cq_context;
      return 0;
    }
    if (!wait_for(channel->fd)) return -1;
  }
}

/// Nothing waits for it: a queue that is destroyed takes its event along.
PARLEY_VERB void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) { cq->comp_events_completed += events; }

PARLEY_VERB int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  for (;;) {
    const bool came = of(context).engine->with_nic([&](auto&) {
      auto& events = of(context).events;
      if (events.empty()) return false;
      *out = events.front();
      events.pop_front();
      if (events.empty()) lower(context->async_fd);
      return true;
    });
    if (came) return 0;
    if (!wait_for(context->async_fd)) return -1;
  }
}

PARLEY_VERB void ibv_ack_async_event(ibv_async_event*) {}
