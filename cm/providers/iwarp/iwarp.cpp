// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Endpoints and commands: what the user calls, checked at once and queued for the driver's next turn.
#include "cm/providers/iwarp/iwarp.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"
#include "parley/wire/mpa.h"

namespace parley::cm {

Result<void> check_options(const IwarpProviderOptions& options) {
  if (options.endpoints_max > endpoints_limit)
    return fail(Errc::invalid_argument, "IwarpProviderOptions::endpoints_max is {a}; at most {b}",
                options.endpoints_max, endpoints_limit);
  if (options.linger <= Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::linger is {a} ns; it is at least 1",
                options.linger.count());
  if (options.half_close_grace < Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::half_close_grace is {a} ns; it is at least 0",
                options.half_close_grace.count());
  if (options.echo_watch < Duration{})
    return fail(Errc::invalid_argument, "IwarpProviderOptions::echo_watch is {a} ns; it is at least 0",
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

constexpr std::size_t events_kept = 64;  // events already read that may precede the others

// An endpoint's number is its slot's generation above its slot, plus one: never 0, never reused.
constexpr EndpointId endpoint_of(std::uint32_t generation, std::uint32_t slot) {
  return EndpointId{generation} << 32 | (EndpointId{slot} + 1);
}
constexpr std::uint32_t slot_index(EndpointId endpoint) { return static_cast<std::uint32_t>(endpoint - 1); }

auto stale() { return fail(Errc::wrong_state, "the id is not a connection, or it was destroyed"); }
auto not_deciding() {
  return fail(Errc::wrong_state, "only a connection that waits for accept() or reject() allows this");
}

// RFC 6581 §6: the enhanced data takes four octets of the private data of an enhanced Reply.
std::size_t reply_room(const mpa::Parameters& offered) {
  const bool enhanced = offered.revision >= 2 && (offered.peer_flags & PARLEY_MPA_FLAG_S) != 0;
  return enhanced ? PARLEY_MPA_ENH_PD_MAX : PARLEY_MPA_PD_MAX;
}

}  // namespace

Iwarp::Iwarp(const IwarpProviderOptions& options)
    : options_(options), device_(nic::iwarp::make_device(options.tagged_offset_base)) {
  static_assert(endpoints_limit == 1U << slot_bits);
  if (options_.endpoints_max == 0) options_.endpoints_max = endpoints_default;
  options_.endpoints_max = std::min(options_.endpoints_max, endpoints_limit);
}

Iwarp::~Iwarp() = default;

tl::unexpected<Error> Iwarp::no_endpoint() const {
  return fail(Errc::no_space, "{a} ids are alive, which is endpoints_max; destroy some, or raise it",
              options_.endpoints_max);
}

Slot* Iwarp::new_slot(EndpointId& id) {
  if (alive_ >= options_.endpoints_max) return nullptr;
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  ++alive_;
  id = endpoint_of(++slots_[slot].generation, slot);
  return &slots_[slot];
}

void Iwarp::free_slot(std::uint32_t slot) {
  Slot& s = slots_[slot];
  if (s.connection) {
    uncount(*s.connection);
    drop_qp(*s.connection);
    if (s.connection->stream != 0) unmap_stream(s.connection->stream);
    s.connection.reset();
  }
  s.listener.reset();
  deadlines_.set(slot, never);
  free_slots_.push_back(slot);
  --alive_;
}

void Iwarp::free_retired() {
  for (const std::uint32_t slot : retired_) free_slot(slot);
  retired_.clear();
}

const Slot* Iwarp::slot_at(EndpointId endpoint) const {
  const std::size_t slot = slot_index(endpoint);
  if (endpoint == 0 || slot >= slots_.size() || slots_[slot].generation != endpoint >> 32) return nullptr;
  return &slots_[slot];
}

Connection* Iwarp::find(EndpointId endpoint) const {
  const Slot* slot = slot_at(endpoint);
  return slot == nullptr ? nullptr : slot->connection.get();
}

Listener* Iwarp::find_listener(EndpointId endpoint) const {
  const Slot* slot = slot_at(endpoint);
  return slot == nullptr ? nullptr : slot->listener.get();
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

void Iwarp::command(StreamCommand::Kind kind, StreamId stream) {
  StreamCommand command;
  command.kind = kind;
  command.id = stream;
  commands_.push_back(command);
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

ProviderEvent Iwarp::event_of(const Connection& c, ProviderEvent::Kind kind) const {
  ProviderEvent event;
  event.kind = kind;
  event.endpoint = c.id;
  event.listener = c.listener;
  event.address = c.peer;
  event.responder = c.role == mpa::Role::responder;
  return event;
}

Result<EndpointId> Iwarp::listen(const Address& local, const ListenOptions& options) {
  // The options are checked now, so that a contradiction is the caller's error, not one for each peer.
  if (const auto checked = mpa::check_options(mpa::Role::responder, options.mpa); !checked)
    return tl::unexpected(checked.error());
  if (options.backlog <= 0)
    return fail(Errc::invalid_argument, "ListenOptions::backlog is {a}; it is at least 1", options.backlog);
  if (options.pending_max == 0)
    return fail(Errc::invalid_argument, "ListenOptions::pending_max is 0; it is at least 1");
  EndpointId id = 0;
  Slot* slot = new_slot(id);
  if (slot == nullptr) return no_endpoint();
  slot->listener = std::make_unique<Listener>(id, next_stream(slot_index(id)), local, options);
  listeners_.push_back(id);
  note(id);
  return id;
}

Result<EndpointId> Iwarp::connect(const Address& peer, const ConnectOptions& options) {
  if (const auto checked = mpa::Startup::check_request(options.mpa, options.private_data); !checked)
    return tl::unexpected(checked.error());
  if (peer.port == 0) return fail(Errc::bad_address, "the peer's port is 0; it is 1 to 65535");
  if (options.local && options.local->family != peer.family)
    return fail(Errc::bad_address, "ConnectOptions::local is of IP version {a}, and the peer of version {b}",
                static_cast<int>(options.local->family), static_cast<int>(peer.family));
  if (options.tcp_timeout < Duration{})
    return fail(Errc::invalid_argument, "ConnectOptions::tcp_timeout is {a} ns; it is at least 0",
                options.tcp_timeout.count());
  EndpointId id = 0;
  Slot* slot = new_slot(id);
  if (slot == nullptr) return no_endpoint();
  slot->connection = std::make_unique<Connection>();
  Connection& c = *slot->connection;
  c.id = id;
  c.slot = slot_index(id);
  c.announced = true;
  c.peer = peer;
  if (auto made = make_qp(c, options.qp ? &*options.qp : nullptr); !made) {
    free_slot(c.slot);
    return tl::unexpected(made.error());
  }
  c.setup = std::make_unique<Setup>();
  c.setup->options = options.mpa;
  c.setup->private_data.assign(options.private_data.begin(), options.private_data.end());
  c.setup->tcp_timeout = options.tcp_timeout;
  c.setup->bind_local = options.local.has_value();
  if (options.local) c.local = c.setup->local = *options.local;
  note(id);
  return id;
}

Result<QueuePair*> Iwarp::create_qp(EndpointId endpoint, const QpInit& init) {
  Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  if (c->qp) return fail(Errc::wrong_state, "the id has a queue pair already");
  if (c->phase != Phase::deciding) return not_deciding();
  if (auto made = make_qp(*c, &init); !made) return tl::unexpected(made.error());
  return c->qp.get();
}

QueuePair* Iwarp::qp(EndpointId endpoint) {
  const Connection* c = find(endpoint);
  return c == nullptr || c->orphan ? nullptr : c->qp.get();
}

Result<Address> Iwarp::local_address(EndpointId endpoint) const {
  if (const Listener* l = find_listener(endpoint)) return l->address;
  const Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  if (c->local.port == 0) return fail(Errc::wrong_state, "TCP is not open yet, so there is no local address");
  return c->local;
}

Result<Address> Iwarp::peer_address(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  return c->peer;
}

Result<void> Iwarp::accept(EndpointId endpoint, const AcceptOptions& options) {
  Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  if (c->phase != Phase::deciding) return not_deciding();
  if (const std::size_t room = reply_room(c->setup->startup->parameters()); options.private_data.size() > room)
    return fail(Errc::bad_private_data, "AcceptOptions::private_data has {a} octets; at most {b} fit into this Reply",
                std::ssize(options.private_data), static_cast<std::int64_t>(room));
  if (options.mpa) {
    if (auto checked = mpa::check_options(mpa::Role::responder, *options.mpa); !checked) return checked;
  }
  if (!c->qp) {
    if (auto made = make_qp(*c, options.qp ? &*options.qp : nullptr); !made) return made;
  }
  c->setup->decision = Decision{.accept = true,
                                .mpa = options.mpa ? std::make_unique<mpa::Options>(*options.mpa) : nullptr,
                                .private_data = {options.private_data.begin(), options.private_data.end()}};
  c->phase = Phase::decided;
  note(endpoint);
  return {};
}

Result<void> Iwarp::reject(EndpointId endpoint, ConstBytes private_data) {
  Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  if (c->phase != Phase::deciding) return not_deciding();
  if (const std::size_t room = reply_room(c->setup->startup->parameters()); private_data.size() > room)
    return fail(Errc::bad_private_data, "private_data has {a} octets; at most {b} fit into this Reply",
                std::ssize(private_data), static_cast<std::int64_t>(room));
  c->setup->decision = Decision{.accept = false, .mpa = {}, .private_data = {private_data.begin(), private_data.end()}};
  c->phase = Phase::decided;
  note(endpoint);
  return {};
}

Result<void> Iwarp::disconnect(EndpointId endpoint) {
  Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return stale();
  if (c->phase != Phase::open) return fail(Errc::wrong_state, "only an established connection can be disconnected");
  c->phase = Phase::closing;
  note(endpoint);
  return {};
}

// Keeps what the queue pair still owes the peer (a Terminate, usually), because the user's memory and completion queues
// may go right after destroy().
void Iwarp::keep_tail(Connection& c) {
  if (!c.qp || !c.qp->has_transmit()) return;
  std::array<ConstBytes, 64> pieces;
  const std::size_t n = c.qp->gather(pieces);
  for (std::size_t i = 0; i < n && c.tx.size() + pieces[i].size() <= tail_max; ++i)
    c.tx.insert(c.tx.end(), pieces[i].begin(), pieces[i].end());
}

void Iwarp::destroy(EndpointId endpoint) {
  if (reported_dead_ == endpoint) reported_dead_ = 0;
  if (Listener* l = find_listener(endpoint)) {
    if (l->up) command(StreamCommand::Kind::close, l->stream);
    std::erase(listeners_, endpoint);
    free_slot(slot_index(endpoint));
    return;
  }
  Connection* c = find(endpoint);
  if (c == nullptr || c->orphan) return;
  const bool on_wire = c->wire == Wire::opening || c->wire == Wire::up || c->wire == Wire::shut;
  const bool rejecting = c->phase == Phase::decided && !c->setup->decision->accept;
  if (on_wire && (c->phase == Phase::over || rejecting)) {
    // The connection has ended for the user; the Reply with R=1, the Terminate or the FIN is still on its way.
    keep_tail(*c);
    drop_qp(*c);
    c->orphan = true;
    return;
  }
  if (on_wire) command(StreamCommand::Kind::reset, c->stream);
  free_slot(c->slot);
}

std::optional<ProviderEvent> Iwarp::poll_event() {
  if (reported_dead_ != 0) destroy(std::exchange(reported_dead_, 0));
  while (events_at_ < events_.size()) {
    ProviderEvent event = std::move(events_[events_at_++]);
    // What was read is erased all at once, or half at a time if the user never catches up.
    if (events_at_ == events_.size() || events_at_ >= std::max(events_kept, events_.size() / 2)) {
      events_.erase(events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(events_at_));
      events_at_ = 0;
    }
    if (Listener* l = find_listener(event.endpoint)) {
      if (event.kind == ProviderEvent::Kind::turned_away) tell_turned(*l, event);
      return event;
    }
    Connection* c = find(event.endpoint);
    if (c == nullptr || c->orphan) continue;  // destroyed meanwhile
    if (c->phase == Phase::over) uncount(*c);
    if (!c->announced && event.kind == ProviderEvent::Kind::connect_failed) reported_dead_ = event.endpoint;
    return event;
  }
  return std::nullopt;
}

bool Iwarp::poll_command(StreamCommand& out) {
  // The input is over and no one uses an endpoint any more; there may never be another input.
  if (!retired_.empty()) free_retired();
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

void Iwarp::handle_listening(Instant now, StreamId listener, const Address& local) {
  now_ = now;
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return;
  l->address = local;
  ProviderEvent event;
  event.kind = ProviderEvent::Kind::listening;
  event.endpoint = l->id;
  event.address = local;
  push_event(std::move(event));
}

void Iwarp::handle_listen_failed(Instant now, StreamId listener, std::error_code why) {
  now_ = now;
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return;
  l->up = false;
  ProviderEvent event;
  event.kind = ProviderEvent::Kind::connect_failed;
  event.endpoint = l->id;
  event.address = l->address;
  event.responder = true;
  event.why = listen_failure(why, l->address);
  push_event(std::move(event));
}

bool Iwarp::handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) {
  now_ = now;
  free_retired();
  Listener* l = listener_by_stream(listener);
  if (l == nullptr) return false;
  auto startup = mpa::Startup::create(mpa::Role::responder, l->options.mpa, {}, now);
  if (!startup) return false;
  EndpointId id = 0;
  Slot* slot = new_slot(id);
  if (slot == nullptr && make_room(now, Scarce::endpoints_max)) slot = new_slot(id);
  if (slot == nullptr) {
    ++turned(*l, Scarce::endpoints_max, info.peer).refused;
    return false;
  }
  slot->connection = std::make_unique<Connection>();
  Connection& c = *slot->connection;
  c.id = id;
  c.slot = slot_index(id);
  c.role = mpa::Role::responder;
  c.phase = Phase::startup;
  c.wire = Wire::up;
  c.stream = stream;
  c.listener = l->id;
  c.local = info.local;
  c.peer = info.peer;
  c.emss = info.emss;
  c.setup = std::make_unique<Setup>();
  c.setup->options = l->options.mpa;
  c.setup->start = now;
  c.setup->startup.emplace(std::move(*startup));
  if (!admit(c, now)) {
    free_slot(c.slot);
    return false;
  }
  accepted_.emplace(stream, c.slot);
  drain_startup(c, now);
  return true;
}

}  // namespace iwarp
}  // namespace parley::cm
