// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/scope.hpp"

#include <utility>

namespace parley::mad {

Scope::Scope(Executor& executor, const ScopeOptions& options) : executor_(executor), options_(options) {
  options_.limit = std::max<std::size_t>(1, options_.limit);
  Scope* outer = executor.current() == nullptr ? nullptr : executor.current()->scope;
  if (outer != nullptr) {
    outer->inner_.push_back(*this);
    stopped_ = outer->stopped_;
  }
  if (!stopped_) executor_.set_timer(*this, options_.deadline);
}

Scope::~Scope() {
  executor_.clear_timer(*this);
  running_.for_each([](detail::ChildBase& child) { child.self.destroy(); });
}

void Scope::start(detail::ChildBase& child) {
  child.executor = &executor_;
  child.scope = this;
  running_.push_back(child);
  ++children_;
  executor_.make_ready(child);
}

void Scope::stop(Fault why) {
  if (stopped_) return;
  stopped_ = why;
  executor_.clear_timer(*this);
  waits_.for_each([why](detail::Wait& wait) { wait.stop(why); });
  inner_.for_each([why](Scope& scope) { scope.stop(why); });
}

void Scope::child_failed(MadError error) {
  if (!error_) error_ = std::move(error);
  if (options_.on_error == OnError::cancel) stop(Fault::cancelled);
}

void Scope::child_threw(std::exception_ptr thrown) {
  if (!thrown_) thrown_ = std::move(thrown);
  if (options_.on_error == OnError::cancel) stop(Fault::cancelled);
}

void Scope::child_ended() {
  --children_;
  if (waiting_ == nullptr) return;
  if (for_room_ ? children_ < options_.limit : children_ == 0) executor_.make_ready(*std::exchange(waiting_, nullptr));
}

Reply<void> Scope::Join::await_resume() const {
  scope.rethrow();
  if (scope.error_) return tl::unexpected(*scope.error_);
  if (scope.stopped_) return tl::unexpected(MadError(*scope.stopped_));
  return {};
}

}  // namespace parley::mad
