// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC domains: parley/xrc.h over xrc::Membership.
#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "capi/backend.hpp"
#include "capi/options.hpp"
#include "drivers/xrcd/membership.hpp"
#include "drivers/xrcd/place.hpp"

using namespace parley;
using namespace parley::capi;

namespace {

/// The object behind a handle. Its mutex serializes calls of several threads.
struct OpenXrc {
  explicit OpenXrc(xrc::Membership m) : member(std::move(m)) {}
  std::mutex mutex;
  xrc::Membership member;
  bool closed = false;
  const std::uint32_t forks = forks_until_now();
};

/// Handles of the whole process. An object that a thread uses exists until the thread is done, even if another closes
/// it.
class XrcHandles {
 public:
  static constexpr std::size_t domains_max = 1024;
  /// Null: domains_max are open.
  parley_xrcd* add(std::shared_ptr<OpenXrc> domain) {
    const std::lock_guard lock(mutex_);
    if (open_.size() >= domains_max) return nullptr;
    open_.emplace(last_ + 1, std::move(domain));
    return reinterpret_cast<parley_xrcd*>(++last_);
  }
  std::shared_ptr<OpenXrc> find(const parley_xrcd* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(reinterpret_cast<std::uintptr_t>(handle));
    return found == open_.end() ? nullptr : found->second;
  }
  void remove(const parley_xrcd* handle) {
    const std::lock_guard lock(mutex_);
    open_.erase(reinterpret_cast<std::uintptr_t>(handle));
  }
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<OpenXrc>> open_;  // domains_max
  std::uintptr_t last_ = 0;                                  // handles are not reused
};
XrcHandles& xrc_handles() {
  static XrcHandles all;
  // In a forked child the table is consistent and unlocked, whatever the parent's threads did.
  [[maybe_unused]] static const int asked =
      ::pthread_atfork([] { all.before_fork(); }, [] { all.after_fork(); }, [] { all.after_fork(); });
  return all;
}

int no_domain() {
  return capi::fail(PARLEY_E_BAD_HANDLE, "there is no such XRC domain: it was never opened, or it is closed");
}

template <class Call>
int with_domain(const parley_xrcd* handle, Call&& call) noexcept {
  return guarded([&] {
    const auto domain = xrc_handles().find(handle);
    if (domain == nullptr) return no_domain();
    // Check this before the lock: a thread of the parent may have held the lock when the process forked.
    if (domain->forks != forks_until_now()) return capi::fail(Error(xrc::Refusal::not_member));
    const std::lock_guard lock(domain->mutex);
    return domain->closed ? no_domain() : call(*domain);
  });
}

/// Limits a count to INT32_MAX.
int counted(std::uint64_t count) { return static_cast<int>(std::min<std::uint64_t>(count, INT32_MAX)); }

int read_peer(const parley_xrc_peer* given, std::optional<xrc::Peer>& out) {
  if (given == nullptr) return 0;
  if (given->qpn > 0xFFFFFF || given->reserved != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT,
                      "peer's qpn is {a}, and reserved {b}; a number has 24 bits, and reserved is 0", given->qpn,
                      given->reserved);
  out = xrc::Peer{given->ca_guid, given->qpn};
  return 0;
}

int write_tgt(parley_xrc_tgt* to, const xrc::TgtView& view) {
  parley_xrc_tgt out = PARLEY_XRC_TGT_INIT;
  out.qpn = view.id.qpn;
  out.generation = view.id.generation;
  out.state = static_cast<std::uint32_t>(view.state);
  out.has_peer = view.peer ? 1 : 0;
  if (view.peer) out.peer = {view.peer->ca_guid, view.peer->qpn, 0};
  out.why = static_cast<std::uint32_t>(view.why);
  out.reason = view.reason;
  out.events = view.events;
  out.age_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(view.age.count(), 0));
  return write_attributes(to, out);
}

/// Call it before the operation, because afterwards its result could not be reported.
template <class Structure>
int check_out(const Structure* out) {
  if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
  return check_size<Structure>(out->size);
}

/// Returns 1 if it already existed or was already registered, otherwise 0 or an error.
int write_joined(parley_xrc_tgt* to, const Result<xrc::Joined>& joined) {
  if (!joined) return capi::fail(joined.error());
  if (to != nullptr)
    if (const int rc = write_tgt(to, joined->tgt); rc != 0) return rc;
  return joined->already ? 1 : 0;
}

int make(parley_xrcd* handle, const parley_xrc_peer* peer, parley_xrc_tgt* out, bool reserve) {
  return with_domain(handle, [&](OpenXrc& d) {
    if (const int rc = check_out(out); rc != 0) return rc;
    std::optional<xrc::Peer> at;
    if (const int rc = read_peer(peer, at); rc != 0) return rc;
    return write_joined(out, d.member.create(at, reserve));
  });
}

int note(parley_xrcd* handle, xrc::RequestType what, std::uint32_t number) {
  return with_domain(handle, [&](OpenXrc& d) {
    const auto noted = d.member.note(what, number);
    return noted ? 0 : capi::fail(noted.error());
  });
}

int read_open(int oflags, const parley_xrc_opts* opts, xrc::DomainOptions& options) {
  parley_xrc_opts o = PARLEY_XRC_OPTS_INIT;
  if (const int rc = read_options(opts, o); rc != 0) return rc;
  if ((oflags & ~(O_CREAT | O_EXCL)) != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT, "oflags are {a}; they are made of O_CREAT and O_EXCL", oflags);
  if ((o.flags & ~static_cast<std::uint32_t>(PARLEY_XRC_NO_START)) != 0 || o.reserved != 0)
    return capi::fail(PARLEY_E_INVALID_ARGUMENT,
                      "flags are {a}, and reserved is {b}; the one is 0 or PARLEY_XRC_NO_START, the other 0", o.flags,
                      o.reserved);
  options.create = (oflags & O_CREAT) != 0;
  options.exclusive = (oflags & O_EXCL) != 0;
  options.start = (o.flags & PARLEY_XRC_NO_START) == 0;
  options.device = o.device;
  if (o.broker != nullptr) options.socket = o.broker;
  if (o.program != nullptr) options.program = o.program;
  if (o.patience_ms != 0) options.patience = std::chrono::milliseconds(o.patience_ms);
  return 0;
}

/// If no broker could be reached, the sentence names the socket path.
int fail_to_open(const Error& error, const xrc::DomainOptions& options) {
  const bool names_place =
      error == make_error_code(xrc::Refusal::no_broker) || error == make_error_code(xrc::Refusal::socket_foreign);
  if (!names_place) return capi::fail(error);
  const std::string socket = options.socket.empty() ? xrc::default_socket() : options.socket;
  return fail_with(PARLEY_E_XRC_NO_BROKER, fmt::format("{} (socket {})", error.message(), socket));
}

static_assert(static_cast<int>(xrc::State::gone) == PARLEY_XRC_GONE);
static_assert(static_cast<int>(xrc::State::rtr) == PARLEY_XRC_RTR);
static_assert(static_cast<int>(xrc::EventKind::peer_gone) == PARLEY_XRC_EVENT_PEER_GONE);
static_assert(static_cast<int>(xrc::EventKind::events_lost) == PARLEY_XRC_EVENT_EVENTS_LOST);

}  // namespace

extern "C" int parley_xrc_open(parley_xrcd** out, int fd, int oflags, const struct parley_xrc_opts* opts) {
  return guarded([&] {
    if (out == nullptr) return capi::fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    *out = nullptr;
    xrc::DomainOptions options;
    if (const int rc = read_open(oflags, opts, options); rc != 0) return rc;
    auto member = xrc::Membership::open(fd, options);
    if (!member) return fail_to_open(member.error(), options);
    *out = xrc_handles().add(std::make_shared<OpenXrc>(std::move(*member)));
    return *out != nullptr ? 0 : capi::fail(PARLEY_E_NO_SPACE, "1024 XRC domains are open; close some");
  });
}

extern "C" int parley_xrc_close(parley_xrcd* domain, int force) {
  return with_domain(domain, [&](OpenXrc& d) {
    const auto closed = d.member.close(force != 0);
    // After any other refusal the membership does not exist any more.
    const bool stays = !closed && (closed.error() == make_error_code(xrc::Refusal::busy) ||
                                   closed.error() == make_error_code(xrc::Refusal::timed_out));
    if (stays && force == 0) return capi::fail(closed.error());
    d.closed = true;
    xrc_handles().remove(domain);
    return 0;
  });
}

extern "C" int parley_xrc_create(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out) {
  return make(domain, peer, out, false);
}
extern "C" int parley_xrc_reserve(parley_xrcd* domain, const struct parley_xrc_peer* peer, struct parley_xrc_tgt* out) {
  return make(domain, peer, out, true);
}

extern "C" int parley_xrc_publish(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t device_qpn,
                                  struct parley_xrc_tgt* out) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (const int rc = check_out(out); rc != 0) return rc;
    return write_joined(out, d.member.publish({qpn, generation}, device_qpn));
  });
}

extern "C" int parley_xrc_register(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (out != nullptr)
      if (const int rc = check_out(out); rc != 0) return rc;
    return write_joined(out, d.member.enlist({qpn, generation}));
  });
}

extern "C" int parley_xrc_unregister(parley_xrcd* domain, uint32_t qpn, uint64_t generation) {
  return with_domain(domain, [&](OpenXrc& d) {
    const auto thrown_away = d.member.unregister({qpn, generation});
    return thrown_away ? counted(*thrown_away) : capi::fail(thrown_away.error());
  });
}

extern "C" int parley_xrc_modify(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t state,
                                 uint64_t digest) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (state > PARLEY_XRC_GONE)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "state is {a}, which is none of enum parley_xrc_state", state);
    const auto already = d.member.modify({qpn, generation}, static_cast<xrc::State>(state), digest);
    return already ? static_cast<int>(*already) : capi::fail(already.error());
  });
}

extern "C" int parley_xrc_query(parley_xrcd* domain, uint32_t qpn, uint64_t generation, struct parley_xrc_tgt* out) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (const int rc = check_out(out); rc != 0) return rc;
    const auto view = d.member.query({qpn, generation});
    return view ? write_tgt(out, *view) : capi::fail(view.error());
  });
}

extern "C" int parley_xrc_fd(parley_xrcd* domain) {
  return with_domain(domain, [](OpenXrc& d) {
    const auto fd = d.member.fd();
    return fd ? *fd : capi::fail(fd.error());
  });
}

extern "C" int parley_xrc_poll_event(parley_xrcd* domain, struct parley_xrc_event* out) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (const int rc = check_out(out); rc != 0) return rc;
    const auto taken = d.member.poll_event();
    if (!taken) return capi::fail(taken.error());
    if (!*taken) return 0;
    const xrc::Event& e = **taken;
    parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
    event.kind = static_cast<std::uint32_t>(e.kind);
    event.qpn = e.tgt.qpn;
    event.reason = e.reason;
    event.generation = e.tgt.generation;
    event.sequence = e.sequence;
    event.merged = e.merged;
    event.sticky = e.sticky ? 1 : 0;
    const int rc = write_attributes(out, event);
    return rc == 0 ? 1 : rc;
  });
}

extern "C" int parley_xrc_report(parley_xrcd* domain, uint32_t qpn, uint64_t generation, uint32_t kind,
                                 uint32_t reason) {
  return with_domain(domain, [&](OpenXrc& d) {
    if (kind == PARLEY_XRC_EVENT_NONE || kind > PARLEY_XRC_EVENT_KILLED)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT, "kind is {a}; must be 1 to {b}", kind,
                        PARLEY_XRC_EVENT_DEVICE_REMOVED);
    if (generation == 0)
      return capi::fail(PARLEY_E_INVALID_ARGUMENT,
                        "generation is 0: a number alone may be another queue pair's by now");
    const auto done = d.member.report({qpn, generation}, static_cast<xrc::EventKind>(kind), reason);
    return done ? 0 : capi::fail(done.error());
  });
}

extern "C" int parley_xrc_add_srq(parley_xrcd* domain, uint32_t srqn) {
  return note(domain, xrc::RequestType::add_srq, srqn);
}
extern "C" int parley_xrc_remove_srq(parley_xrcd* domain, uint32_t srqn) {
  return note(domain, xrc::RequestType::remove_srq, srqn);
}
extern "C" int parley_xrc_note_other(parley_xrcd* domain, uint32_t qpn) {
  return note(domain, xrc::RequestType::note_other, qpn);
}

extern "C" const char* parley_xrc_event_name(uint32_t kind) {
  if (kind > PARLEY_XRC_EVENT_EVENTS_LOST) return "unknown";
  return to_string(static_cast<xrc::EventKind>(kind)).data();
}
extern "C" const char* parley_xrc_state_name(uint32_t state) {
  if (state > PARLEY_XRC_GONE) return "unknown";
  return to_string(static_cast<xrc::State>(state)).data();
}
