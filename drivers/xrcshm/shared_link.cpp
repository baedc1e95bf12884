// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcshm/shared_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <new>

#include "base/after.hpp"
#include "drivers/clock.hpp"
#include "xrc/request_handler.hpp"

namespace parley::xrc {
namespace {

constexpr Duration retry_interval = std::chrono::milliseconds(20);

/// At most some milliseconds behind clock_now(), for a third of the cost: precise enough for deadlines in seconds.
Instant coarse_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return Instant(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

/// The result of a request: the registry's refusal, or the reason why it could not be asked.
template <class T>
Result<T> flat(Result<Result<T>> answer) {
  if (!answer) return tl::unexpected(answer.error());
  return std::move(*answer);
}

/// For requests that may end something: they must not fail for lack of memory.
Arena::Kind kind_of(RequestType ask) {
  return ask == RequestType::unregister || ask == RequestType::close || ask == RequestType::remove_srq
             ? Arena::Kind::lets_go
             : Arena::Kind::grows;
}

}  // namespace

// ---- opened and closed -------------------------------------------------------------------------------------------

Result<std::shared_ptr<Link>> SharedLink::open(const DomainOptions& options, bool member, int file) {
  auto segment =
      Segment::open({.path = options.segment, .make = member && options.start, .patience = options.patience});
  if (!segment) return tl::unexpected(segment.error());
  std::shared_ptr<SharedLink> link(new SharedLink(std::move(*segment), options));
  if (file != -1 && (link->file_ = ::fcntl(file, F_DUPFD_CLOEXEC, 0)) < 0) return refused(Refusal::bad_descriptor);
  // Each newcomer removes dead members that no other member was left to detect.
  if (const auto swept = sweep(*link->segment_); !swept) return tl::unexpected(swept.error());
  if (member)
    if (const auto joined = link->join(); !joined) return tl::unexpected(joined.error());
  return link;
}

Result<void> SharedLink::join() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  OpenParameters p{.device = options_.device,
                   .create = options_.create,
                   .exclusive = options_.exclusive,
                   .carrier = options_.carrier,
                   .process = {pid, ::geteuid(), start_of(pid), command_of(pid)}};
  if (file_ >= 0) {
    const auto facts = facts_of(file_);
    if (!facts) return refused(Refusal::bad_descriptor);
    if (!facts->lets_in(::geteuid())) return refused(Refusal::not_permitted);
    p.key = DomainKey{options_.device, facts->st_dev, facts->st_ino};
  }
  const Instant now = clock_now();
  const auto joined = flat(segment_->enter(now, Arena::Kind::grows, [&](SharedRegistry& r) -> Result<MemberId> {
    auto member = r.open(now, p);
    if (member && !segment_->hold(member->number)) {
      r.dead(now, *member);
      return refused(Refusal::no_memory);
    }
    return member;
  }));
  if (!joined) return tl::unexpected(joined.error());
  member_ = *joined;
  segment_->announce();
  watcher_ = Watcher::make(segment_, member_->number);
  return watcher_ ? Result<void>()
                  : fail(Errc::no_space, "eventfd and the watching thread: no descriptor, or no thread, is left");
}

SharedLink::~SharedLink() {
  if (process_.is_own()) {
    bell_waiter_.reset();
    watcher_.reset();
    leave();
  } else {
    if (watcher_) watcher_->forget();
    if (bell_waiter_) bell_waiter_->forget();
  }
  if (file_ >= 0) ::close(file_);
}

/// As when its process ends.
void SharedLink::leave() {
  if (!member_) return;
  const Instant now = clock_now();
  try {
    (void)segment_->enter(now, Arena::Kind::lets_go, [&](SharedRegistry& r) { r.dead(now, *member_); });
  } catch (const std::bad_alloc&) {
    // Its lock ends with the segment, and another process that detects this does the same.
  }
}

// ---- called ------------------------------------------------------------------------------------------------------

Refusal SharedLink::why_not() const {
  if (!process_.is_own() || !member_) return Refusal::not_member;
  return member_->epoch == segment_->epoch() ? Refusal::none : Refusal::stale_epoch;
}

Result<Answer> SharedLink::once(const Request& request) {
  const Instant now = clock_now();
  if (request.ask == RequestType::kill)
    return segment_->enter(now, Arena::Kind::grows, [&](SharedRegistry& r) {
      return answers::plain(r.report(now, request.tgt, EventKind::killed, request.reason));
    });
  if (const Refusal refusal = why_not(); refusal != Refusal::none) return refused(refusal);
  return segment_->enter(now, kind_of(request.ask), [&](SharedRegistry& r) -> Answer {
    if (!r.is_member(*member_)) return answers::no(Refusal::not_member);
    return RequestHandler(r, now, *member_).serve(request);
  });
}

Result<Answer> SharedLink::call(const Request& request) {
  if (!process_.is_own()) return refused(Refusal::not_member);
  const Instant end = after(clock_now(), options_.patience);
  for (;;) {
    auto answer = once(request);
    if (!answer) return answer;
    answer->epoch = segment_->epoch();
    if (answer->refusal == Refusal::none) {
      if (request.ask == RequestType::close) member_.reset();
      return answer;
    }
    // An object that another member is creating will be complete or gone in a moment.
    const bool again = answer->refusal == Refusal::busy && may_pass(request);
    if (!again || after(clock_now(), retry_interval) >= end) return refused(answer->refusal);
    std::this_thread::sleep_for(retry_interval);
  }
}

Result<TgtId> SharedLink::enlist(TgtId id) {
  if (const Refusal refusal = why_not(); refusal != Refusal::none) return refused(refusal);
  const Instant now = coarse_now();
  const auto joined =
      flat(segment_->enter(now, Arena::Kind::grows, [&](SharedRegistry& r) { return r.enlist(now, *member_, id); }));
  if (!joined) return tl::unexpected(joined.error());
  return joined->id;
}

Result<std::uint64_t> SharedLink::unregister(TgtId id) {
  if (const Refusal refusal = why_not(); refusal != Refusal::none) return refused(refusal);
  const Instant now = coarse_now();
  return flat(
      segment_->enter(now, Arena::Kind::lets_go, [&](SharedRegistry& r) { return r.unregister(now, *member_, id); }));
}

Result<std::optional<Event>> SharedLink::wait_event(Duration longest) {
  const Instant end = after(clock_now(), longest);
  for (;;) {
    if (const Refusal refusal = why_not(); refusal != Refusal::none) return refused(refusal);
    if (bell_waiter_) bell_waiter_->quiet();
    const std::uint32_t seen = segment_->bell(member_->number);
    const Instant now = clock_now();
    struct PollResult {
      bool member = false;
      std::optional<Event> event{};
      Instant due = never;
    };
    const auto look = segment_->enter(now, Arena::Kind::lets_go, [&](SharedRegistry& r) {
      return PollResult{r.is_member(*member_), r.poll_event(*member_), r.next_deadline()};
    });
    if (!look) return tl::unexpected(look.error());
    if (!look->member) return refused(Refusal::not_member);
    if (bell_waiter_) bell_waiter_->show(now, look->event.has_value(), look->due);
    if (look->event || now >= end) return look->event;
    segment_->wait(member_->number, seen, std::min(end, look->due));
  }
}

Result<int> SharedLink::fd() {
  if (const Refusal refusal = why_not(); refusal != Refusal::none) return refused(refusal);
  if (!bell_waiter_) bell_waiter_ = BellWaiter::make(segment_, member_->number);
  if (!bell_waiter_)
    return fail(Errc::no_space,
                "epoll, timerfd, eventfd and the thread for them: no descriptor, or no thread, is left");
  return bell_waiter_->fd();
}

Result<Overview> SharedLink::overview() {
  if (!process_.is_own()) return refused(Refusal::not_member);
  if (const auto swept = sweep(*segment_, member_ ? member_->number : 0); !swept) return tl::unexpected(swept.error());
  const Instant now = clock_now();
  return segment_->enter(now, Arena::Kind::lets_go, [&](SharedRegistry& r) {
    return Overview{std::as_const(r).domains(now), r.counters(), segment_->epoch()};
  });
}

}  // namespace parley::xrc
