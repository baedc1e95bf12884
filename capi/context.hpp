// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a parley_ctx stands for: a backend, and what C programs name by numbers.
#pragma once
#include <array>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "capi/backend.hpp"
#include "capi/handles.hpp"

namespace parley::capi {

/// A queue, and how many queue pairs use it.
template <class Object>
struct Used {
  std::unique_ptr<Object> queue;
  std::uint32_t users = 0;
};

/// What belongs to a listener or a connection.
struct Named {
  cm::Id id;
  void* user = nullptr;
  bool has_qp = false;
  parley_cq send_cq = 0, recv_cq = 0;  // in use by its queue pair
  parley_srq srq = 0;
};

class Context {
 public:
  /// Null: the code was noted.
  static std::unique_ptr<Context> open(std::unique_ptr<Backend> backend);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend& backend() { return *backend_; }
  /// forks_until_now() where it was opened.
  std::uint32_t forks() const { return forks_; }
  cm::Manager& manager() { return backend_->manager(); }
  Device& device() { return backend_->device(); }

  /// Before any number is given out.
  void set_tag(Tag tag) { tag_ = tag; }
  const Tag& tag() const { return tag_; }
  parley_id number_of(const cm::Id& id) const { return tag_.of(std::uint64_t{id.number()}); }

  /// Null: not of this context, or destroyed.
  Named* find(parley_id id);
  /// Makes room for an id that the Manager gave out.
  Named& name(cm::Id id);
  void destroy(Named& named) noexcept;

  /// Null: no such queue. Queue 0 is made when it is first asked for.
  CompletionQueue* cq(parley_cq cq);
  SharedReceiveQueue* srq(parley_srq srq);
  /// What a queue pair shall be made of; a null pointer gives the defaults. 0, or a code that was noted.
  int read_qp(const parley_qp_init* given, QpInit& init, Named& uses);
  /// The queue pair of `named` was made as read_qp() told.
  void use(Named& named, const Named& uses);

  int reg_mr(MutBytes memory, Access access, parley_mr& out);
  int dereg_mr(std::uint32_t lkey);
  bool has_region(std::uint32_t lkey) const { return regions_.contains(tag_.of(lkey)); }
  int create_cq(std::uint32_t capacity, parley_cq& out);
  int destroy_cq(parley_cq cq);
  int create_srq(std::uint32_t capacity, parley_srq& out);
  int destroy_srq(parley_srq srq);

  int next_event(parley_event& out);
  /// Where completions are put before they are translated: to make it anew would cost more than a poll.
  std::span<WorkCompletion> completions() { return completions_; }

 private:
  explicit Context(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  void fill(parley_event& out, cm::Event& event);
  bool of_no_listener(cm::Event& event);
  void count(const Named& named, bool more) noexcept;
  Used<CompletionQueue>* find_cq(parley_cq cq) { return cq == 0 ? &own_cq_ : cqs_.find(tag_.of(cq)); }
  Used<SharedReceiveQueue>* find_srq(parley_srq srq) { return srq == 0 ? nullptr : srqs_.find(tag_.of(srq)); }

  /// What the pointers of the event that was given out last point to.
  struct Texts {
    std::string reason, rule, received, advice;
  };

  /// The address written last, as text: the events of a connection, and a listener's own end, have the same ones.
  struct Written {
    Address address{};
    char text[PARLEY_ADDRSTRLEN] = "";
    void give(char (&to)[PARLEY_ADDRSTRLEN], const Address& wanted);
  };

  std::unique_ptr<Backend> backend_;
  std::uint32_t forks_ = forks_until_now();
  PdHandle pd_ = 0;
  Tag tag_;                   // of all numbers that programs have: ids, queues and lkeys
  std::vector<Named> named_;  // by the slot of the Manager's ids; at most as many as may be alive
  Table<Used<CompletionQueue>> cqs_;
  Table<Used<SharedReceiveQueue>> srqs_;
  Used<CompletionQueue> own_cq_;
  std::set<std::uint32_t> regions_;  // the device's lkeys; at most DeviceAttr::max_mr
  std::optional<cm::Event> event_;   // given out last, or to be given out next
  bool event_given_ = false;
  parley_id passing_ = 0;  // of the event that was given out, where nobody knew it before: it goes with the event
  Texts texts_;
  Written local_, peer_;
  std::array<WorkCompletion, 16> completions_;
};

/// Null: never opened, closed, or opened by the process of which this one is a fork.
Context* find_context(const parley_ctx* ctx);

/// Runs `call(Context&)` of an open context.
template <class Call>
int with_context(const parley_ctx* ctx, Call&& call) noexcept {
  return guarded([&] {
    Context* context = find_context(ctx);
    return context == nullptr ? bad_context() : call(*context);
  });
}

/// Runs `call(Context&, Named&)` of a listener or connection.
template <class Call>
int with_id(const parley_ctx* ctx, parley_id id, Call&& call) noexcept {
  return with_context(ctx, [&](Context& context) {
    Named* named = context.find(id);
    return named == nullptr ? bad_id(context.tag().is_foreign(id)) : call(context, *named);
  });
}

}  // namespace parley::capi
