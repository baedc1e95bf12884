// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Children that run concurrently, and end before their parent continues. join() returns their errors.
//
//   Scope scope(port.executor(), {.limit = 32});
//   for (...) {
//     if (!co_await scope.room()) break;      // waits until one more may start; false if the scope is stopped
//     scope.spawn(visit(port, path));         // a Task, or a Call of a Port
//   }
//   const Reply<void> all = co_await scope.join();
#pragma once
#include <exception>
#include <optional>
#include <utility>

#include "mad/executor.hpp"

namespace parley::mad {

enum class OnError : std::uint8_t {
  cancel,  ///< a child's error stops its siblings
  keep,    ///< the others continue; join() returns the first error
};

struct ScopeOptions {
  OnError on_error = OnError::cancel;
  std::size_t limit = 1024;  ///< children at a time, for room(); at least 1
  Instant deadline = never;  ///< when the scope is stopped, with Fault::deadline
};

namespace detail {

struct ChildBase : PromiseBase, Link<ChildTag> {};

/// The type of the result of `co_await`.
template <class A>
using Awaited = decltype(std::declval<A&>().await_resume());

}  // namespace detail

/// Must not outlive the task that created it; it may also exist outside of all tasks. A scope that is created in a task
/// is stopped together with that task's scope.
class Scope final : Link<detail::ScopeTag>, detail::Timer {
 public:
  explicit Scope(Executor& executor, const ScopeOptions& options = {});
  /// Destroys the children that still run, where they wait.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// `awaitable` is a Task or a Call. If its result is a Reply, an error becomes the scope's, and a value is discarded.
  template <class A>
  void spawn(A awaitable);
  /// Stores the result in `out`, which must outlive the child. An error in it is not an error of the scope.
  template <class A>
  void spawn_into(std::optional<detail::Awaited<A>>& out, A awaitable);

  struct Join;
  struct Room;
  /// Waits for all children. Returns Reply<void> with the first error of a child, or with the reason why the scope was
  /// stopped. Rethrows an exception of a child.
  Join join();
  /// Waits until there are fewer than `limit` children. Returns false if the scope was stopped.
  Room room();

  /// Current and later requests of this scope and of its inner scopes end with Fault::cancelled. Tasks run to their
  /// end.
  void cancel() { stop(Fault::cancelled); }
  std::size_t children() const { return children_; }
  /// Why, if it was stopped.
  std::optional<Fault> stopped() const { return stopped_; }
  const std::optional<MadError>& error() const { return error_; }
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }
  Executor& executor() { return executor_; }

  // For children and awaiters.
  void stop(Fault why);
  void child_failed(MadError error);
  void child_threw(std::exception_ptr thrown);
  void child_ended();
  void wait(detail::Wait& wait) { waits_.push_back(wait); }

 private:
  friend class List<Scope, detail::ScopeTag>;
  void start(detail::ChildBase& child);
  void fire() override { stop(Fault::deadline); }

  Executor& executor_;
  ScopeOptions options_;
  std::size_t children_ = 0;
  detail::PromiseBase* waiting_ = nullptr;  // in join() or room()
  bool for_room_ = false;
  std::optional<Fault> stopped_;
  std::optional<MadError> error_;
  std::exception_ptr thrown_;
  List<detail::ChildBase, detail::ChildTag> running_;
  List<detail::Wait, detail::WaitTag> waits_;
  List<Scope, detail::ScopeTag> inner_;
};

struct Scope::Join {
  Scope& scope;
  bool await_ready() const noexcept { return scope.children_ == 0; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) const noexcept {
    scope.waiting_ = &task.promise();
    scope.for_room_ = false;
  }
  Reply<void> await_resume() const;
};

struct Scope::Room {
  Scope& scope;
  bool await_ready() const noexcept { return scope.stopped_ || scope.children_ < scope.options_.limit; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) const noexcept {
    scope.waiting_ = &task.promise();
    scope.for_room_ = true;
  }
  bool await_resume() const noexcept { return !scope.stopped_; }
};

inline Scope::Join Scope::join() { return {*this}; }
inline Scope::Room Scope::room() { return {*this}; }

}  // namespace parley::mad
