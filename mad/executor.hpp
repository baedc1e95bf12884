// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a port's tasks, in the order in which they become ready, on the thread that calls run(). It has the time of the
// last call, timers for sleep() and for scopes, and the memory of the tasks' frames.
#pragma once
#include <coroutine>

#include "base/deadline_queue.hpp"
#include "mad/error.hpp"
#include "mad/frame_pool.hpp"
#include "mad/list.hpp"

namespace parley::mad {

class Executor;
class Scope;

namespace detail {

struct ReadyTag;
struct WaitTag;
struct ChildTag;
struct ScopeTag;

/// The part of a promise that does not depend on the task's type.
struct PromiseBase : Link<ReadyTag> {
  Executor* executor = nullptr;
  Scope* scope = nullptr;
  std::coroutine_handle<> self;
  PromiseBase* awaiter = nullptr;  // continues when this task has ended
};

/// Something that a task waits for and that its scope may stop.
struct Wait : Link<WaitTag> {
  /// Makes the task ready: `why` is cancelled or deadline.
  virtual void stop(Fault why) = 0;

 protected:
  ~Wait() = default;
};

struct Timer {
  virtual void fire() = 0;
  static constexpr std::uint32_t unset = ~0U;
  std::uint32_t key = unset;

 protected:
  ~Timer() = default;
};

/// co_await executor.sleep(...)
class Sleep final : Wait, Timer {
 public:
  Sleep(Executor& executor, Duration duration) : executor_(executor), duration_(duration) {}
  ~Sleep();
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) {
    start(task.promise());
  }
  bool await_resume() const { return !stopped_; }

 private:
  void start(PromiseBase& task);
  void stop(Fault why) override;
  void fire() override;

  Executor& executor_;
  Duration duration_;
  PromiseBase* task_ = nullptr;
  bool stopped_ = false;
};

}  // namespace detail

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Resumes every task that is ready or becomes ready, until there is none.
  void run(Instant now);
  bool has_ready() const { return !ready_.empty(); }
  /// The time of the last run() or handle_deadline().
  Instant now() const { return now_; }
  Instant next_deadline() const { return deadlines_.next(); }
  void handle_deadline(Instant now);

  /// True after the whole duration, false if the scope was stopped.
  detail::Sleep sleep(Duration duration) { return {*this, duration}; }

  FramePool& frames() { return frames_; }
  Executor& executor() { return *this; }

  // For awaiters.
  void make_ready(detail::PromiseBase& task) { ready_.push_back(task); }
  void run_next(detail::PromiseBase& task) { ready_.push_front(task); }
  detail::PromiseBase* current() const { return current_; }
  void set_timer(detail::Timer& timer, Instant at);
  void clear_timer(detail::Timer& timer);

 private:
  FramePool frames_;
  List<detail::PromiseBase, detail::ReadyTag> ready_;
  detail::PromiseBase* current_ = nullptr;
  Instant now_{};
  DeadlineQueue deadlines_;
  std::vector<detail::Timer*> timers_;  // by key
  std::vector<std::uint32_t> free_keys_;
};

}  // namespace parley::mad
