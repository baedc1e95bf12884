// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Coroutines over a port, and functions that run several at once. A task starts when it is awaited, or spawned into a
// scope:
//
//   Task<Reply<unsigned>> count(Port& port, Path path) {
//     const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(path);
//     if (!info) co_return tl::unexpected(info.error());
//     co_return info->get(NodeInfo::num_ports);
//   }
//   auto [a, b] = co_await when_all(port, count(port, x), port.subn_get<PortInfo>(y));
//
// If a parameter of a task is a Port, Executor or Scope, or has executor(), the task's frame is in the executor's pool;
// otherwise it is on the heap. Objects that are passed by reference must outlive the task: pass Paths and the like by
// value.
#pragma once
#include <coroutine>
#include <exception>
#include <optional>
#include <tuple>
#include <utility>

#include "mad/scope.hpp"

namespace parley::mad {

template <class T = void>
class Task;

namespace detail {

template <class A>
FramePool* pool_of(A& argument) {
  if constexpr (requires { argument.executor(); })
    return &argument.executor().frames();
  else
    return nullptr;
}
inline FramePool* first_pool() { return nullptr; }
template <class A, class... More>
FramePool* first_pool(A& argument, More&... more) {
  if (FramePool* pool = pool_of(argument)) return pool;
  return first_pool(more...);
}

/// Allocates the frames of tasks.
struct Pooled {
  static void* operator new(std::size_t octets) { return FramePool::take(nullptr, octets); }
  template <class... Arguments>
  static void* operator new(std::size_t octets, Arguments&... arguments) {
    return FramePool::take(first_pool(arguments...), octets);
  }
  // Inline, because gcc 12 otherwise considers it a mismatch for memory that the template has allocated.
  [[gnu::always_inline]] static void operator delete(void* frame) noexcept { FramePool::give_back(frame); }
};

/// At a task's end its awaiter continues. Tasks never resume each other: the executor does, so that the stack stays
/// flat.
struct FinalAwaiter {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) const noexcept {
    PromiseBase& promise = task.promise();
    if (promise.awaiter != nullptr) promise.executor->run_next(*promise.awaiter);
  }
  void await_resume() const noexcept {}
};

template <class T>
struct TaskPromiseBase : PromiseBase, Pooled {
  std::exception_ptr thrown;
  Task<T> get_return_object() noexcept;
  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { thrown = std::current_exception(); }
};

template <class T>
struct TaskPromise : TaskPromiseBase<T> {
  std::optional<T> value;
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T take() {
    if (this->thrown) std::rethrow_exception(this->thrown);
    return std::move(*value);
  }
};

template <>
struct TaskPromise<void> : TaskPromiseBase<void> {
  void return_void() const noexcept {}
  void take() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using value_type = T;

  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> who) noexcept {
    detail::PromiseBase &parent = who.promise(), &own = handle_.promise();
    own.executor = parent.executor;
    own.scope = parent.scope;
    own.awaiter = &parent;
    parent.executor->run_next(own);
  }
  T await_resume() { return handle_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
Task<T> detail::TaskPromiseBase<T>::get_return_object() noexcept {
  const auto handle = std::coroutine_handle<TaskPromise<T>>::from_promise(static_cast<TaskPromise<T>&>(*this));
  this->self = handle;
  return Task<T>(handle);
}

namespace detail {

template <class R>
inline constexpr bool is_reply = false;
template <class T>
inline constexpr bool is_reply<Reply<T>> = true;

/// A child of a scope. No task awaits it: at its end it destroys itself and notifies the scope.
struct Child {
  struct promise_type : ChildBase, Pooled {
    Child get_return_object() noexcept {
      self = std::coroutine_handle<promise_type>::from_promise(*this);
      return {this};
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    struct Final : std::suspend_always {
      void await_suspend(std::coroutine_handle<promise_type> child) const noexcept {
        Scope& scope = *child.promise().scope;
        child.destroy();
        scope.child_ended();
      }
    };
    Final final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { scope->child_threw(std::current_exception()); }
  };
  promise_type* promise;
};

template <class A>
Child run_child(Scope& scope, A awaitable) {
  using R = Awaited<A>;
  if constexpr (is_reply<R>) {
    R reply = co_await std::move(awaitable);
    if (!reply) scope.child_failed(std::move(reply.error()));
  } else {
    co_await std::move(awaitable);
  }
}

template <class A>
Child run_child_into(Scope&, A awaitable, std::optional<Awaited<A>>& out) {
  out.emplace(co_await std::move(awaitable));
}

}  // namespace detail

template <class A>
void Scope::spawn(A awaitable) {
  start(*detail::run_child(*this, std::move(awaitable)).promise);
}
template <class A>
void Scope::spawn_into(std::optional<detail::Awaited<A>>& out, A awaitable) {
  start(*detail::run_child_into(*this, std::move(awaitable), out).promise);
}

/// Runs all of them at once. Returns their results in order. `on` is a Port, Executor or Scope.
template <class On, class... A>
Task<std::tuple<detail::Awaited<A>...>> when_all(On& on, A... awaitables) {
  std::tuple<std::optional<detail::Awaited<A>>...> out;
  Scope scope(on.executor(), {.on_error = OnError::keep});
  std::apply([&](auto&... slot) { (scope.spawn_into(slot, std::move(awaitables)), ...); }, out);
  (void)co_await scope.join();
  co_return std::apply([](auto&... slot) { return std::tuple<detail::Awaited<A>...>(std::move(*slot)...); }, out);
}

/// The same for any number of one type.
template <class On, class A>
Task<std::vector<detail::Awaited<A>>> when_all(On& on, std::vector<A> awaitables) {
  std::vector<std::optional<detail::Awaited<A>>> slots(awaitables.size());
  Scope scope(on.executor(), {.on_error = OnError::keep});
  for (std::size_t i = 0; i < slots.size(); ++i) scope.spawn_into(slots[i], std::move(awaitables[i]));
  (void)co_await scope.join();
  std::vector<detail::Awaited<A>> out;
  out.reserve(slots.size());
  for (auto& slot : slots) out.push_back(std::move(*slot));
  co_return out;
}

/// Stops the task's requests after `duration`: they then end with Fault::deadline, and so should the task.
template <class On, class T>
Task<T> with_deadline(On& on, Duration duration, Task<T> task) {
  std::optional<T> out;
  Scope scope(on.executor(), {.on_error = OnError::keep, .deadline = on.executor().now() + duration});
  scope.spawn_into(out, std::move(task));
  (void)co_await scope.join();
  co_return std::move(*out);
}

/// Runs the children that `next` returns one by one as std::optional, until it returns none. They start in that order,
/// at most `options.limit` at a time. Ends when all have ended, with the first error of a child.
template <class On, class Next>
Task<Reply<void>> run_each(On& on, ScopeOptions options, Next next) {
  Scope scope(on.executor(), options);
  for (;;) {
    if (!co_await scope.room()) break;
    auto child = next();
    if (!child) break;
    scope.spawn(std::move(*child));
  }
  co_return co_await scope.join();
}

/// A running task, for Port::start() and run(). The destructor destroys the task if it still runs.
template <class A>
class Running {
 public:
  using Value = detail::Awaited<A>;
  Running(Executor& executor, A awaitable) : scope_(executor, {.on_error = OnError::keep}) {
    if constexpr (std::is_void_v<Value>)
      scope_.spawn(std::move(awaitable));
    else
      scope_.spawn_into(value_, std::move(awaitable));
  }
  bool done() const { return scope_.children() == 0; }
  /// The result: once, when done().
  Value take() {
    scope_.rethrow();
    if constexpr (!std::is_void_v<Value>) return std::move(*value_);
  }
  void cancel() { scope_.cancel(); }

 private:
  using Slot = std::conditional_t<std::is_void_v<Value>, char, Value>;
  std::optional<Slot> value_;  // before the scope, because it must outlive it
  Scope scope_;
};

}  // namespace parley::mad
