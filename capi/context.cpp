// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capi/context.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "capi/options.hpp"
#include "cm/provider.hpp"
#include "drivers/secure_env.hpp"

namespace parley::capi {
namespace {

constexpr std::size_t own_cq_capacity = 1U << 16;  // of queue 0

using Contexts = Handles<Context, parley_ctx, 4096>;
Contexts& contexts() {
  static Contexts all;
  return all;
}

// The number of forks between this process and the first. A context of another process must not be touched: its
// descriptors are shared, so that closing a stream here would end it there.
std::atomic<std::uint32_t> forks{0};
void note_forks() {
  [[maybe_unused]] static const int asked =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}

std::size_t slot_of(parley_id id) { return (id & 0xFFFFFFFF) - 1; }

template <class Object>
void add_user(Used<Object>* queue, bool more) noexcept {
  if (queue != nullptr) more ? ++queue->users : --queue->users;
}

}  // namespace

std::uint32_t forks_until_now() noexcept {
  note_forks();
  return forks.load(std::memory_order_relaxed);
}

Context* find_context(const parley_ctx* ctx) {
  Context* context = contexts().find(ctx);
  return context != nullptr && context->forks() == forks.load(std::memory_order_relaxed) ? context : nullptr;
}

std::unique_ptr<Context> Context::open(std::unique_ptr<Backend> backend) {
  std::unique_ptr<Context> context(new Context(std::move(backend)));
  const auto pd = context->device().alloc_pd();
  if (!pd) {
    capi::fail(pd.error());
    return nullptr;
  }
  context->pd_ = *pd;
  auto channel = context->device().create_comp_channel();
  if (!channel) {
    capi::fail(channel.error());
    return nullptr;
  }
  context->channel_ = std::move(*channel);
  return context;
}

Context::~Context() {
  for (IdEntry& named : named_)
    if (named.id) destroy(named);
  event_.reset();
  while (auto event = manager().poll_event())
    if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) request->id.destroy();
  for (const std::uint32_t lkey : regions_) (void)device().dereg_mr(lkey);
}

IdEntry* Context::find(parley_id id) {
  const std::size_t slot = slot_of(id);
  return slot < named_.size() && named_[slot].id && number_of(named_[slot].id) == id ? &named_[slot] : nullptr;
}

IdEntry& Context::name(cm::Id id) {
  const std::size_t slot = slot_of(id.number());
  if (slot >= named_.size()) named_.resize(slot + 1);
  if (named_[slot].id != id) {
    if (named_[slot].id) count(named_[slot], false);
    named_[slot] = IdEntry{.id = id};
  }
  return named_[slot];
}

void Context::count(const IdEntry& named, bool more) noexcept {
  if (!named.has_qp) return;
  add_user(find_cq(named.send_cq), more);
  add_user(find_cq(named.recv_cq), more);
  add_user(find_srq(named.srq), more);
}

void Context::destroy(IdEntry& named) noexcept {
  named.id.destroy();
  count(named, false);
  named = {};
}

CompletionQueue* Context::cq(parley_cq cq) {
  if (cq != 0) {
    auto* found = find_cq(cq);
    return found != nullptr ? found->queue.get() : nullptr;
  }
  if (own_cq_.queue == nullptr) {
    const std::size_t capacity = std::min<std::size_t>(own_cq_capacity, device().query().max_cqe);
    if (auto made = device().create_cq({.capacity = capacity, .channel = channel_.get()}))
      own_cq_.queue = std::move(*made);
  }
  return own_cq_.queue.get();
}

SharedReceiveQueue* Context::srq(parley_srq srq) {
  auto* found = find_srq(srq);
  return found != nullptr ? found->queue.get() : nullptr;
}

int Context::read_qp(const parley_qp_init* given, QpInit& init, IdEntry& uses) {
  parley_qp_init o = PARLEY_QP_INIT;
  if (const int rc = read_options(given, o); rc != 0) return rc;
  init.pd = pd_;
  init.send_cq = cq(o.send_cq);
  init.recv_cq = cq(o.recv_cq);
  init.srq = srq(o.srq);
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return no_cq(init.send_cq == nullptr ? o.send_cq : o.recv_cq);
  if (o.srq != 0 && init.srq == nullptr) return no_srq(o.srq);
  if (o.max_send_wr != 0) init.max_send_wr = o.max_send_wr;
  if (o.max_recv_wr != 0) init.max_recv_wr = o.max_recv_wr;
  uses.has_qp = true;
  uses.send_cq = o.send_cq;
  uses.recv_cq = o.recv_cq;
  uses.srq = o.srq;
  return 0;
}

void Context::use(IdEntry& named, const IdEntry& uses) {
  named.has_qp = true;
  named.send_cq = uses.send_cq;
  named.recv_cq = uses.recv_cq;
  named.srq = uses.srq;
  count(named, true);
}

int Context::reg_mr(MutBytes memory, Access access, parley_mr& out) {
  if (const int rc = check_size<parley_mr>(out.size); rc != 0) return rc;
  const auto mr = device().reg_mr(pd_, memory, access);
  if (!mr) return fail(mr.error());
  try {
    regions_.insert(mr->lkey);
  } catch (...) {
    (void)device().dereg_mr(mr->lkey);
    throw;
  }
  return write_attributes(&out, {out.size, tag_.of(mr->lkey), mr->rkey, 0, mr->addr, mr->length});
}

int Context::dereg_mr(std::uint32_t lkey) {
  if (!has_region(lkey)) return fail(PARLEY_E_INVALID_ARGUMENT, "no region of this context has the lkey {a}", lkey);
  if (auto done = device().dereg_mr(tag_.of(lkey)); !done) return fail(done.error());
  regions_.erase(tag_.of(lkey));
  return 0;
}

int Context::create_cq(std::uint32_t capacity, parley_cq& out) {
  auto made = device().create_cq({.capacity = capacity, .channel = channel_.get()});
  if (!made) return fail(made.error());
  const CompletionQueue* const queue = made->get();
  const std::uint32_t number = cqs_.add({.queue = std::move(*made)}, tag_.of(0U));
  out = number == 0 ? 0 : tag_.of(number);
  try {
    if (number != 0) cq_numbers_.emplace(queue, out);
  } catch (...) {
    cqs_.remove(number);
    throw;
  }
  return out != 0 ? 0 : fail(PARLEY_E_NO_SPACE, "the context has {a} completion queues", 1 << 16);
}

int Context::destroy_cq(parley_cq cq) {
  if (cq == 0) return fail(PARLEY_E_WRONG_STATE, "queue 0 is the context's own, and ends with it");
  const auto* found = find_cq(cq);
  if (found == nullptr) return no_cq(cq);
  if (found->users != 0)
    return fail(PARLEY_E_WRONG_STATE,
                "queue pairs use the completion queue, counted {a} times; destroy their ids first", found->users);
  cq_numbers_.erase(found->queue.get());
  cqs_.remove(tag_.of(cq));
  return 0;
}

int Context::create_srq(std::uint32_t capacity, parley_srq& out) {
  auto made = device().create_srq(pd_, capacity);
  if (!made) return fail(made.error());
  const std::uint32_t number = srqs_.add({.queue = std::move(*made)}, tag_.of(0U));
  out = number == 0 ? 0 : tag_.of(number);
  return out != 0 ? 0 : fail(PARLEY_E_NO_SPACE, "the context has {a} shared receive queues", 1 << 16);
}

int Context::destroy_srq(parley_srq srq) {
  const auto* found = find_srq(srq);
  if (found == nullptr) return no_srq(srq);
  if (found->users != 0)
    return fail(PARLEY_E_WRONG_STATE, "queue pairs use the shared receive queue; destroy their ids first");
  srq_numbers_.erase(found->queue.get());
  srqs_.remove(tag_.of(srq));
  return 0;
}

namespace {

std::unique_ptr<Backend> open_backend(const parley_opts& o) {
  cm::ManagerOptions manager;
  manager.endpoints_max = o.ids_max;
  manager.seed = o.seed;
  const char* provider = o.provider != nullptr ? o.provider : secure_env("PARLEY_PROVIDER");
  const std::string_view name = provider != nullptr && *provider != '\0' ? provider : "iwarp";
  const bool machine = name == "iwarp" || name == "roce" || name == "rdmacm";
  if (machine && o.world == nullptr) return open_machine(name, manager);
  if (machine) {
    fail_with(PARLEY_E_INVALID_ARGUMENT,
              fmt::format("a world is given, and the provider is {}: only \"sim\" accepts a world", name));
  } else if (name != "sim") {
    fail_with(PARLEY_E_INVALID_ARGUMENT,
              fmt::format("there is no provider \"{}\"; there are: iwarp, roce, rdmacm, sim", name));
  } else if (World* world = find_world(o.world)) {
    return world->add_host(o.host, manager);
  } else {
    fail(PARLEY_E_BAD_HANDLE, "provider \"sim\" needs an open world: parley_world_open()");
  }
  return nullptr;
}

}  // namespace
}  // namespace parley::capi

using namespace parley;
using namespace parley::capi;

extern "C" int parley_open(parley_ctx** out, const struct parley_opts* opts) {
  return guarded([&] {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    *out = nullptr;
    parley_opts o = PARLEY_OPTS_INIT;
    if (const int rc = read_options(opts, o); rc != 0) return rc;
    auto backend = open_backend(o);
    if (backend == nullptr) return last_code();
    auto context = Context::open(std::move(backend));
    if (context == nullptr) return last_code();
    Context* const made = context.get();
    *out = contexts().add(std::move(context));
    if (*out == nullptr) return capi::fail(PARLEY_E_NO_SPACE, "4096 contexts are open; close some");
    made->set_tag(Tag(Contexts::place(*out)));
    return 0;
  });
}

extern "C" int parley_close(parley_ctx* ctx) {
  return guarded([&] { return find_context(ctx) != nullptr && contexts().take(ctx) != nullptr ? 0 : bad_context(); });
}

extern "C" int parley_query(parley_ctx* ctx, struct parley_attr* out) {
  return with_context(ctx, [&](Context& c) {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    const DeviceAttr device = c.device().query();
    const auto limits = c.manager().provider().limits({}, {});
    if (!limits) return capi::fail(limits.error());
    parley_attr attr = PARLEY_ATTR_INIT;
    write_text(attr.provider, c.backend().provider());
    write_text(attr.transport, to_string(device.transport));
    attr.private_data_request = static_cast<std::uint32_t>(limits->request);
    attr.private_data_reply = static_cast<std::uint32_t>(limits->reply);
    attr.max_cqe = device.max_cqe;
    attr.max_qp_wr = device.max_qp_wr;
    attr.max_srq_wr = device.max_srq_wr;
    attr.max_sge = device.max_sge;
    attr.max_rd_atomic = device.max_qp_rd_atom;
    return write_attributes(out, attr);
  });
}

extern "C" int parley_fd(parley_ctx* ctx) {
  return with_context(ctx, [](Context& c) { return c.backend().fd(); });
}
extern "C" int parley_progress(parley_ctx* ctx) {
  return with_context(ctx, [](Context& c) { return c.backend().progress(); });
}
extern "C" int parley_wait(parley_ctx* ctx, int timeout_ms) {
  return with_context(ctx, [&](Context& c) {
    if (timeout_ms < -1)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "timeout_ms is {a}; must be -1 or more", timeout_ms);
    return c.backend().wait(timeout_ms);
  });
}
extern "C" int parley_wake(parley_ctx* ctx) {
  Context* context = find_context(ctx);  // may run in a signal handler, so that it stores no error
  return context == nullptr ? -PARLEY_E_BAD_HANDLE : context->backend().wake();
}
extern "C" uint64_t parley_now_ns(parley_ctx* ctx) {
  Context* context = find_context(ctx);
  return context == nullptr ? 0 : static_cast<std::uint64_t>(context->backend().now().time_since_epoch().count());
}

extern "C" int parley_host_address(parley_ctx* ctx, int family, char out[PARLEY_ADDRSTRLEN]) {
  return with_context(ctx, [&](Context& c) {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    if (family != 4 && family != 6)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "family is {a}; must be 4 or 6", family);
    const auto address = c.backend().address(family == 4 ? Address::Family::v4 : Address::Family::v6);
    if (!address) return capi::fail(address.error());
    write_text(*reinterpret_cast<char(*)[PARLEY_ADDRSTRLEN]>(out), address->to_string());
    return 0;
  });
}
