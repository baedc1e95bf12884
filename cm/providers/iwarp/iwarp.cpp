// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Endpoints, and the user's commands: they are checked at once, and queued for the driver's next turn.
#include "cm/providers/iwarp/iwarp.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"
#include "parley/wire/mpa.h"

namespace parley::cm {

Result<void> check_options(const IwarpProviderOptions& options) {
  if (options.linger <= Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::linger is {a} ns; must be at least 1",
                options.linger.count());
  if (options.half_close_grace < Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::half_close_grace is {a} ns; must be at least 0",
                options.half_close_grace.count());
  if (options.echo_watch < Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::echo_watch is {a} ns; must be at least 0",
                options.echo_watch.count());
  return {};
}

std::unique_ptr<IwarpProvider> make_iwarp_provider(const IwarpProviderOptions& options) {
  return std::make_unique<iwarp::Iwarp>(options);
}

namespace iwarp {
namespace {

// An id for which the user made no queue pair still needs one, for RTRs and Terminates; this depth is enough for that.
constexpr std::uint32_t small_qp_depth = 2;

auto stale() { return fail(Errc::wrong_state, "the id is not a connection, or it was destroyed"); }
auto not_deciding() {
  return fail(Errc::wrong_state, "only a connection that waits for accept() or reject() allows this");
}

/// Errors: unsupported (another transport's options), and those of mpa::check_options.
Result<mpa::StartupOptions> startup_options(mpa::Role role, const TransportOptions& options, Depths depths) {
  mpa::StartupOptions out{{}, depths.ird, depths.ord};
  if (const auto* mpa = std::get_if<mpa::Options>(&options))
    static_cast<mpa::Options&>(out) = *mpa;
  else if (!std::holds_alternative<std::monostate>(options))
    return fail(Errc::unsupported, "`transport` holds the options of InfiniBand CM, and this provider speaks MPA");
  if (const auto checked = mpa::check_options(role, out); !checked) return tl::unexpected(checked.error());
  return out;
}

}  // namespace

Iwarp::Iwarp(const IwarpProviderOptions& options)
    : options_(options), device_(nic::iwarp::make_device(options.tagged_offset_base)), devices_{device_.get()} {
  static_assert(EndpointTable::limit == 1U << slot_bits);
}

Iwarp::~Iwarp() = default;

void Iwarp::start(Core& core) {
  PARLEY_ASSERT(core_ == nullptr);  // a provider serves one Manager
  core_ = &core;
}

Slot& Iwarp::slot_for(EndpointId id) {
  const std::size_t slot = EndpointTable::slot(id);
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  commands_.make_room(core_->ids.alive());  // for last_command()
  return slots_[slot];
}

void Iwarp::free_slot(std::uint32_t slot) {
  Slot& s = slots_[slot];
  const EndpointId id = s.connection ? s.connection->id : s.listener->id;
  if (s.connection) {
    drop_qp(*s.connection);
    if (s.connection->stream != 0) unmap_stream(s.connection->stream);
    s.connection.reset();
  }
  s.listener.reset();
  deadlines_.set(slot, never);
  core_->release(id);
}

void Iwarp::free_retired() {
  for (const std::uint32_t slot : retired_) free_slot(slot);
  retired_.clear();
}

const Slot* Iwarp::slot_at(EndpointId endpoint) const {
  const std::size_t slot = EndpointTable::slot(endpoint);
  return endpoint != 0 && slot < slots_.size() ? &slots_[slot] : nullptr;
}

Connection* Iwarp::find(EndpointId endpoint) const {
  const Slot* slot = slot_at(endpoint);
  return slot != nullptr && slot->connection && slot->connection->id == endpoint ? slot->connection.get() : nullptr;
}

// Like find(), but null if the user has destroyed the id.
Connection* Iwarp::known(EndpointId endpoint) const {
  Connection* c = find(endpoint);
  return c != nullptr && !orphan(*c) ? c : nullptr;
}

Listener* Iwarp::find_listener(EndpointId endpoint) const {
  const Slot* slot = slot_at(endpoint);
  return slot != nullptr && slot->listener && slot->listener->id == endpoint ? slot->listener.get() : nullptr;
}

std::uint32_t Iwarp::slot_of(StreamId stream) const {
  if ((stream & 1) != 0) return static_cast<std::uint32_t>(stream >> 1) & ((1U << slot_bits) - 1);
  if (stream == last_found_) return last_found_slot_;
  const auto at = accepted_.find(stream);
  if (at == accepted_.end()) return 0xFFFFFFFF;
  last_found_ = stream;
  return last_found_slot_ = at->second;
}

Connection* Iwarp::by_stream(StreamId stream) {
  const std::uint32_t slot = slot_of(stream);
  Connection* c = slot < slots_.size() ? slots_[slot].connection.get() : nullptr;
  return c != nullptr && c->stream == stream ? c : nullptr;
}

Listener* Iwarp::listener_by_stream(StreamId stream) {
  const std::uint32_t slot = slot_of(stream);
  Listener* l = slot < slots_.size() ? slots_[slot].listener.get() : nullptr;
  return l != nullptr && l->stream == stream ? l : nullptr;
}

void Iwarp::command(const StreamCommand& command) {
  commands_.make_room(core_->ids.alive() + 1);
  commands_.push(command);
}

void Iwarp::command(StreamCommand::Kind kind, StreamId stream) { command({.kind = kind, .id = stream}); }

// Allocates no memory: slot_for() has reserved one command per endpoint. The caller frees the endpoint after this
// command.
void Iwarp::last_command(StreamCommand::Kind kind, StreamId stream) noexcept {
  commands_.push({.kind = kind, .id = stream});
}

Result<void> Iwarp::make_qp(Connection& c, const QpInit* init) {
  if (init == nullptr && default_pd_ == 0) {
    const auto pd = device_->alloc_pd();
    if (!pd) return tl::unexpected(pd.error());
    default_pd_ = *pd;
  }
  auto qp = init != nullptr ? device_->create_stream_qp(*init) : device_->create_lone_qp(default_pd_, small_qp_depth);
  if (!qp) return tl::unexpected(qp.error());
  c.qp = std::move(*qp);
  c.qp->owner = c.id;
  return {};
}

void Iwarp::drop_qp(Connection& c) { c.qp.reset(); }

// The user gets no more events of this id.
void Iwarp::end(Connection& c) {
  enter(c, Phase::over);
  core_->retries.forget(c.id);
  core_->ids.find(c.id)->over = true;
}

Result<Limits> Iwarp::limits(const TransportOptions& options, Depths depths) const {
  const auto mpa = startup_options(mpa::Role::initiator, options, depths);
  if (!mpa) return tl::unexpected(mpa.error());
  const std::size_t request = mpa::Startup::request_room(*mpa);
  return Limits{.request = request, .reply = request, .reject = request};
}

Result<Limits> Iwarp::limits(EndpointId endpoint) const {
  const Connection* c = known(endpoint);
  if (c == nullptr) return stale();
  if (c->phase != Phase::deciding) return not_deciding();
  const std::size_t reply = c->setup->startup->reply_room();
  return Limits{.request = reply, .reply = reply, .reject = reply};
}

// The system chooses the route when the stream is opened.
Result<Route> Iwarp::resolve(const Address& peer, const std::optional<Address>& local) {
  return Route{device_.get(), local.value_or(Address::any(peer.family, 0))};
}

Result<void> Iwarp::listen(EndpointId endpoint, const Address& local, const ListenOptions& options) {
  auto own = startup_options(mpa::Role::responder, options.transport, {options.ird, options.ord});
  if (!own) return tl::unexpected(own.error());
  slot_for(endpoint).listener =
      std::make_unique<Listener>(Listener{.id = endpoint,
                                          .stream = next_stream(EndpointTable::slot(endpoint)),
                                          .address = local,
                                          .options = std::move(*own),
                                          .backlog = options.backlog,
                                          .keepalive = options.keepalive.value_or(Duration{}),
                                          .dead_after = options.dead_after.value_or(Duration{})});
  return {};
}

Result<void> Iwarp::connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) {
  auto own = startup_options(mpa::Role::initiator, options.transport, {options.ird, options.ord});
  if (!own) return tl::unexpected(own.error());
  auto made = std::make_unique<Connection>();
  Connection& c = *made;
  c.id = endpoint;
  c.slot = EndpointTable::slot(endpoint);
  c.peer = peer;
  if (auto qp = make_qp(c, options.qp ? &*options.qp : nullptr); !qp) return qp;
  c.setup = std::make_unique<Setup>();
  c.setup->options = std::move(*own);
  if (core_->retries.has_plan(endpoint)) c.setup->asked = std::make_unique<mpa::StartupOptions>(c.setup->options);
  c.setup->private_data.assign(options.private_data.begin(), options.private_data.end());
  c.setup->transport_timeout = options.transport_timeout;
  c.setup->keepalive = options.keepalive.value_or(Duration{});
  c.dead_after = options.dead_after.value_or(Duration{});
  c.setup->bind_local = options.local.has_value();
  if (options.local) c.local = c.setup->local = *options.local;
  begin_trace(c);
  slot_for(endpoint).connection = std::move(made);
  return {};
}

Result<QueuePair*> Iwarp::create_qp(EndpointId endpoint, const QpInit& init) {
  Connection* c = known(endpoint);
  if (c == nullptr) return stale();
  if (c->qp) return fail(Errc::wrong_state, "the id has a queue pair already");
  if (c->phase != Phase::deciding) return not_deciding();
  if (auto made = make_qp(*c, &init); !made) return tl::unexpected(made.error());
  return c->qp.get();
}

QueuePair* Iwarp::qp(EndpointId endpoint) {
  const Connection* c = known(endpoint);
  return c == nullptr ? nullptr : c->qp.get();
}

Result<Address> Iwarp::local_address(EndpointId endpoint) const {
  if (const Listener* l = find_listener(endpoint)) return l->address;
  const Connection* c = known(endpoint);
  if (c == nullptr) return stale();
  if (c->local.port == 0) return fail(Errc::wrong_state, "TCP is not open yet, so there is no local address");
  return c->local;
}

Result<Address> Iwarp::peer_address(EndpointId endpoint) const {
  const Connection* c = known(endpoint);
  if (c == nullptr) return stale();
  return c->peer;
}

Result<void> Iwarp::accept(EndpointId endpoint, const AcceptOptions& options) {
  Connection& c = *find(endpoint);
  const mpa::StartupOptions& listener = c.setup->options;
  std::unique_ptr<mpa::StartupOptions> own;
  if (!std::holds_alternative<std::monostate>(options.transport) || options.ird || options.ord) {
    const TransportOptions& transport = std::holds_alternative<std::monostate>(options.transport)
                                            ? TransportOptions(static_cast<const mpa::Options&>(listener))
                                            : options.transport;
    auto merged = startup_options(mpa::Role::responder, transport,
                                  {options.ird.value_or(listener.ird), options.ord.value_or(listener.ord)});
    if (!merged) return tl::unexpected(merged.error());
    own = std::make_unique<mpa::StartupOptions>(std::move(*merged));
  }
  if (!c.qp) {
    if (auto made = make_qp(c, options.qp ? &*options.qp : nullptr); !made) return made;
  }
  c.setup->decision = Decision{.accept = true,
                               .options = std::move(own),
                               .private_data = {options.private_data.begin(), options.private_data.end()}};
  enter(c, Phase::decided);
  return {};
}

Result<void> Iwarp::reject(EndpointId endpoint, ConstBytes private_data) {
  Connection& c = *find(endpoint);
  c.setup->decision =
      Decision{.accept = false, .options = {}, .private_data = {private_data.begin(), private_data.end()}};
  enter(c, Phase::decided);
  return {};
}

Result<void> Iwarp::disconnect(EndpointId endpoint) {
  Connection* c = known(endpoint);
  if (c == nullptr) return stale();
  if (c->phase != Phase::open) return fail(Errc::wrong_state, "only an established connection can be disconnected");
  enter(*c, Phase::closing);
  return {};
}

// Copies what the queue pair still owes the peer (usually a Terminate), because the user may free memory and completion
// queues right after destroy(). False: no memory for the copy; nothing must be sent, since a part of an FPDU would be
// worse.
bool Iwarp::keep_tail(Connection& c) noexcept {
  if (!c.qp || !c.qp->has_transmit()) return true;
  try {
    std::array<ConstBytes, 64> pieces;
    const std::size_t n = c.qp->gather(pieces);
    for (std::size_t i = 0; i < n && c.tx.size() + pieces[i].size() <= tail_max; ++i)
      c.tx.insert(c.tx.end(), pieces[i].begin(), pieces[i].end());
    return true;
  } catch (...) {  // bad_alloc; nothing else is thrown there
    return false;
  }
}

void Iwarp::destroy(EndpointId endpoint) noexcept {
  if (Listener* l = find_listener(endpoint)) {
    if (l->up) last_command(StreamCommand::Kind::close, l->stream);
    free_slot(EndpointTable::slot(endpoint));
    return;
  }
  Connection* c = known(endpoint);
  if (c == nullptr) return;
  const bool on_wire =
      c->wire == Wire::opening || c->wire == Wire::up || c->wire == Wire::shut || c->wire == Wire::finishing;
  const bool rejecting = c->phase == Phase::decided && !c->setup->decision->accept;
  if (on_wire && (c->phase == Phase::over || rejecting) && keep_tail(*c)) {
    // The connection has ended for the user; the Reply with R=1, the Terminate or the FIN is still to be sent.
    drop_qp(*c);
    core_->ids.find(endpoint)->orphan = true;
    return;
  }
  if (c->trace && c->phase != Phase::over) trace_destroyed(*c);
  if (on_wire) last_command(StreamCommand::Kind::reset, c->stream);
  free_slot(c->slot);
}

bool Iwarp::poll_command(StreamCommand& out) {
  // The input has been handled, so no caller uses a retired endpoint. Free them now: there may never be another input.
  if (!retired_.empty()) free_retired();
  const auto next = commands_.pop();
  if (next) out = *next;
  return next.has_value();
}

void Iwarp::handle_listening(Instant now, StreamId listener, const Address& local) {
  now_ = now;
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return;
  l->address = local;
  if (options_.trace != nullptr) trace_of(*l, {}).record(trace::Listening{local});
  core_->push(Listening{core_->id(l->id), local});
}

void Iwarp::handle_listen_failed(Instant now, StreamId listener, std::error_code why) {
  now_ = now;
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return;
  l->up = false;
  ConnectFailed failed{core_->id(l->id), listen_failure(mpa::step::tcp_connect, why, l->address), true};
  if (options_.trace != nullptr) trace_of(*l, {}).record(trace::Failed{failed.why});
  core_->push(std::move(failed));
}

bool Iwarp::handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) {
  now_ = now;
  free_retired();
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return false;
  auto startup = mpa::Startup::create(mpa::Role::responder, l->options, {}, now);
  if (!startup) return false;
  EndpointId id = core_->ids.issue();
  if (id == 0 && make_room(now, ReachedLimit::endpoints_max)) id = core_->ids.issue();
  if (id == 0) {
    turn_away(l->id, ReachedLimit::endpoints_max, info.peer);
    return false;
  }
  core_->set_listener(id, l->id);
  Slot& slot = slot_for(id);
  slot.connection = std::make_unique<Connection>();
  Connection& c = *slot.connection;
  c.id = id;
  c.slot = EndpointTable::slot(id);
  c.role = mpa::Role::responder;
  enter(c, Phase::startup);
  c.wire = Wire::up;
  c.stream = stream;
  c.local = info.local;
  c.peer = info.peer;
  c.emss = info.emss;
  c.dead_after = l->dead_after;
  c.setup = std::make_unique<Setup>();
  c.setup->options = l->options;
  c.setup->start = now;
  c.setup->startup.emplace(std::move(*startup));
  if (!admit(c, now)) {
    free_slot(c.slot);
    return false;
  }
  accepted_.emplace(stream, c.slot);
  begin_trace(c);
  trace::record(c.trace.get(), trace::Admitted{});
  c.setup->startup->set_trace(c.trace.get());
  drain_startup(c, now);
  return true;
}

}  // namespace iwarp
}  // namespace parley::cm
