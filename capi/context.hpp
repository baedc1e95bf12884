// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The object behind a parley_ctx: a backend, and the objects that C programs name by numbers.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "capi/backend.hpp"
#include "capi/handles.hpp"

namespace parley::capi {

/// A queue, and the number of queue pairs that use it.
template <class Object>
struct Used {
  std::unique_ptr<Object> queue;
  std::uint32_t users = 0;
};

/// A listener or a connection.
struct IdEntry {
  cm::Id id;
  void* user = nullptr;
  bool has_qp = false;
  parley_cq send_cq = 0, recv_cq = 0;  // used by its queue pair
  parley_srq srq = 0;
};

class Context {
 public:
  /// Null: failed; last_code() has the error.
  static std::unique_ptr<Context> open(std::unique_ptr<Backend> backend);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend& backend() { return *backend_; }
  /// forks_until_now() when it was opened.
  std::uint32_t forks() const { return forks_; }
  cm::Manager& manager() { return backend_->manager(); }
  Device& device() { return backend_->device(); }

  /// Call it before the context gives out any number.
  void set_tag(Tag tag) { tag_ = tag; }
  const Tag& tag() const { return tag_; }
  parley_id number_of(const cm::Id& id) const { return tag_.of(std::uint64_t{id.number()}); }

  /// Null: the id is not from this context, or it is destroyed.
  IdEntry* find(parley_id id);
  /// The entry for an id from the Manager; makes it if needed.
  IdEntry& name(cm::Id id);
  void destroy(IdEntry& named) noexcept;

  /// Null: no such queue. The first call for queue 0 makes it.
  CompletionQueue* cq(parley_cq cq);
  SharedReceiveQueue* srq(parley_srq srq);
  /// Reads the queue pair's parameters; a null pointer selects the defaults. Returns 0, or a code after fail().
  int read_qp(const parley_qp_init* given, QpInit& init, IdEntry& uses);
  /// The queue pair of `named` was created; `uses` is from read_qp(). Counts the users of its queues.
  void use(IdEntry& named, const IdEntry& uses);

  int reg_mr(MutBytes memory, Access access, parley_mr& out);
  int dereg_mr(std::uint32_t lkey);
  bool has_region(std::uint32_t lkey) const { return regions_.contains(tag_.of(lkey)); }
  int create_cq(std::uint32_t capacity, parley_cq& out);
  int destroy_cq(parley_cq cq);
  int create_srq(std::uint32_t capacity, parley_srq& out);
  int destroy_srq(parley_srq srq);
  int arm_srq(parley_srq srq, std::uint32_t limit);
  int req_notify(parley_cq cq, bool solicited_only);
  int next_cq_event(parley_cq& out);

  int next_event(parley_event& out);
  /// Buffer for completions before conversion. It is kept, because constructing one would cost more than a poll.
  std::span<WorkCompletion> completions() { return completions_; }

 private:
  explicit Context(std::unique_ptr<Backend> backend) : backend_(std::move(backend)) {}
  void fill(parley_event& out, cm::Event& event);
  bool of_no_listener(cm::Event& event);
  int next_srq_event(parley_event& out);
  /// There may be nothing left for the program to take: the descriptor then need not stay readable.
  void may_be_drained();
  void count(const IdEntry& named, bool more) noexcept;
  Used<CompletionQueue>* find_cq(parley_cq cq) { return cq == 0 ? &own_cq_ : cqs_.find(tag_.of(cq)); }
  Used<SharedReceiveQueue>* find_srq(parley_srq srq) { return srq == 0 ? nullptr : srqs_.find(tag_.of(srq)); }

  /// The texts to which the last returned event points.
  struct Texts {
    std::string reason, rule, received, advice;
  };

  /// Cached text of the last address: the events of a connection have the same addresses, and so has a listener.
  struct Written {
    Address address{};
    char text[PARLEY_ADDRSTRLEN] = "";
    void give(char (&to)[PARLEY_ADDRSTRLEN], const Address& wanted);
  };

  std::unique_ptr<Backend> backend_;
  std::uint32_t forks_ = forks_until_now();
  PdHandle pd_ = 0;
  Tag tag_;                     // for all numbers that programs have: ids, queues and lkeys
  std::vector<IdEntry> named_;  // by the slot of the Manager's ids; at most the number of ids that may exist
  std::unique_ptr<CompletionChannel> channel_;  // of all its completion queues
  // The numbers of completion queues other than 0, and of shared receive queues whose limit was armed.
  std::map<const CompletionQueue*, parley_cq> cq_numbers_;
  std::map<const SharedReceiveQueue*, parley_srq> srq_numbers_;
  Table<Used<CompletionQueue>> cqs_;
  Table<Used<SharedReceiveQueue>> srqs_;
  Used<CompletionQueue> own_cq_;
  std::set<std::uint32_t> regions_;  // the device's lkeys; at most DeviceAttr::max_mr
  std::optional<cm::Event> event_;   // the last returned event, or the next one
  bool event_given_ = false;
  parley_id passing_ = 0;  // an id that only the last returned event names; it ends with that event
  Texts texts_;
  Written local_, peer_;
  std::array<WorkCompletion, 16> completions_;
};

/// Null: never opened, closed, or opened before this process was forked.
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
    IdEntry* named = context.find(id);
    return named == nullptr ? bad_id(context.tag().is_foreign(id)) : call(context, *named);
  });
}

}  // namespace parley::capi
