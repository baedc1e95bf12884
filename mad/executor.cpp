// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/executor.hpp"

#include <utility>

#include "mad/scope.hpp"

namespace parley::mad {

void Executor::run(Instant now) {
  now_ = now;
  while (detail::PromiseBase* task = ready_.pop_front()) {
    current_ = task;
    task->self.resume();
  }
  current_ = nullptr;
}

void Executor::handle_deadline(Instant now) {
  now_ = now;
  while (const auto key = deadlines_.pop_due(now)) {
    detail::Timer& timer = *timers_[*key];
    timer.key = detail::Timer::unset;
    free_keys_.push_back(*key);
    timer.fire();
  }
}

void Executor::set_timer(detail::Timer& timer, Instant at) {
  if (at == never) return clear_timer(timer);
  if (timer.key == detail::Timer::unset) {
    if (free_keys_.empty()) {
      timers_.push_back(nullptr);
      free_keys_.reserve(timers_.capacity());  // so that clear_timer() needs no memory
      free_keys_.push_back(static_cast<std::uint32_t>(timers_.size() - 1));
    }
    timer.key = free_keys_.back();
    free_keys_.pop_back();
    timers_[timer.key] = &timer;
  }
  deadlines_.set(timer.key, at);
}

void Executor::clear_timer(detail::Timer& timer) {
  if (timer.key == detail::Timer::unset) return;
  deadlines_.set(timer.key, never);
  free_keys_.push_back(std::exchange(timer.key, detail::Timer::unset));
}

namespace detail {

Sleep::~Sleep() { executor_.clear_timer(*this); }

void Sleep::start(PromiseBase& task) {
  task_ = &task;
  if (task.scope != nullptr && task.scope->stopped()) {
    stopped_ = true;
    return executor_.make_ready(task);
  }
  if (task.scope != nullptr) task.scope->wait(*this);
  executor_.set_timer(*this, executor_.now() + duration_);
}

void Sleep::stop(Fault) {
  stopped_ = true;
  executor_.clear_timer(*this);
  fire();
}

void Sleep::fire() {
  unlink();
  executor_.make_ready(*task_);
}

}  // namespace detail

}  // namespace parley::mad
