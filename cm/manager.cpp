// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Implementation of Manager and Id: the argument checks shared by all transports, ids, and how events change them.
#include <algorithm>
#include <utility>

#include "cm/core.hpp"
#include "cm/provider.hpp"
#include "parley/cm.hpp"

namespace parley::cm {
namespace {

tl::unexpected<Error> no_id() {
  return fail(Errc::wrong_state, "this Id names nothing: it was never made, or destroy() was called on it");
}

/// `manager`: the handle's Manager, which does not have the id. Null: the handle is empty.
tl::unexpected<Error> not_here(const Manager* manager) {
  if (manager == nullptr) return no_id();
  return fail(Errc::wrong_state, "the id has migrated to another Manager, or its host is gone");
}

tl::unexpected<Error> no_endpoint(const EndpointTable& ids) {
  return fail(Errc::no_space, "{a} ids are alive, which is endpoints_max; destroy some, or raise it", ids.max());
}

Result<void> check_private_data(ConstBytes data, std::size_t max, std::string_view sentence) {
  if (data.size() <= max) return {};
  return fail(Errc::bad_private_data, sentence, std::ssize(data), static_cast<std::int64_t>(max));
}

Result<void> check_addresses(const Address& peer, const std::optional<Address>& local, std::string_view sentence) {
  if (peer.port == 0) return fail(Errc::bad_address, "the peer's port is 0; must be 1 to 65535");
  if (!local || local->family == peer.family) return {};
  return fail(Errc::bad_address, sentence, static_cast<int>(local->family), static_cast<int>(peer.family));
}

Result<void> check_connect(const Address& peer, const ConnectOptions& options) {
  if (auto addresses = check_addresses(peer, options.local,
                                       "ConnectOptions::local is of IP version {a}, and the peer of version {b}");
      !addresses)
    return addresses;
  if (options.transport_timeout < Duration{})
    return fail(Errc::invalid_argument, "ConnectOptions::transport_timeout is {a} ns; must be at least 0",
                options.transport_timeout.count());
  if (options.timeout < Duration{})
    return fail(Errc::invalid_argument, "ConnectOptions::timeout is {a} ns; must be at least 0",
                options.timeout.count());
  return Retries::check(options);
}

/// `options`, with the Manager's values for those that are not set.
template <class Options>
Result<Options> with_liveness(Options options, const Liveness& otherwise) {
  const auto merged = merge_liveness(options.keepalive, options.dead_after, otherwise);
  if (!merged) return tl::unexpected(merged.error());
  options.keepalive = merged->keepalive;
  options.dead_after = merged->dead_after;
  return options;
}

/// A new id. The destructor releases it, also after an exception, unless keep() was called.
class NewId {
 public:
  NewId(Core& core, const Channel& channel) : core_(core), id_(core.ids.issue()) {
    if (id_ != 0) core_.ids.find(id_)->channel = channel.number;
  }
  ~NewId() {
    if (id_ != 0) core_.release(id_);
  }
  NewId(const NewId&) = delete;
  NewId& operator=(const NewId&) = delete;
  EndpointId id() const { return id_; }
  EndpointId keep() { return std::exchange(id_, 0); }

 private:
  Core& core_;
  EndpointId id_;
};

std::uint32_t table_size(const ManagerOptions& options) {
  if (options.endpoints_max == 0) return endpoints_default;
  return std::min(options.endpoints_max, endpoints_limit);
}

}  // namespace

static_assert(endpoints_limit == EndpointTable::limit);

Result<void> check_options(const ManagerOptions& options) {
  if (options.endpoints_max > endpoints_limit)
    return fail(Errc::invalid_argument, "ManagerOptions::endpoints_max is {a}; at most {b}", options.endpoints_max,
                endpoints_limit);
  if (options.pending_max == 0)
    return fail(Errc::invalid_argument, "ManagerOptions::pending_max is 0; must be at least 1");
  const ResolvePolicy& resolve = options.resolve;
  if (resolve.searches_max == 0)
    return fail(Errc::invalid_argument, "ResolvePolicy::searches_max is 0; must be at least 1");
  if (resolve.timeout <= Duration{})
    return fail(Errc::invalid_argument, "ResolvePolicy::timeout is {a} ns; it is more than 0", resolve.timeout.count());
  if (resolve.found_kept < Duration{} || resolve.failed_kept < Duration{})
    return fail(Errc::invalid_argument, "ResolvePolicy::found_kept is {a} ns, and failed_kept {b}; must be at least 0",
                resolve.found_kept.count(), resolve.failed_kept.count());
  if (const auto sound = merge_liveness(options.liveness.keepalive, options.liveness.dead_after, {}); !sound)
    return tl::unexpected(sound.error());
  return {};
}

Result<Liveness> merge_liveness(std::optional<Duration> keepalive, std::optional<Duration> dead_after,
                                const Liveness& otherwise) {
  const auto in_range = [](Duration time) {
    return time == Duration{} || (time >= keepalive_min && time <= dead_after_max);
  };
  if (keepalive && !in_range(*keepalive))
    return fail(Errc::invalid_argument, "keepalive is {a} ns; must be 0 (never), or 1 ms to 24 h", keepalive->count());
  if (dead_after && !in_range(*dead_after))
    return fail(Errc::invalid_argument, "dead_after is {a} ns; must be 0 (never), or 1 ms to 24 h",
                dead_after->count());
  Liveness out{.keepalive = keepalive.value_or(otherwise.keepalive),
               .dead_after = dead_after.value_or(otherwise.dead_after)};
  const bool contradict =
      out.keepalive != Duration{} && out.dead_after != Duration{} && out.keepalive >= out.dead_after;
  if (!contradict) return out;
  if (keepalive && dead_after)
    return fail(Errc::invalid_argument, "keepalive is {a} ns and dead_after {b} ns; keepalive must be less",
                keepalive->count(), dead_after->count());
  if (keepalive)
    out.dead_after = std::min(2 * *keepalive, dead_after_max);
  else
    out.keepalive = std::max(out.dead_after / 2, Duration(1));
  return out;
}

DetachedRequest::DetachedRequest(std::unique_ptr<DetachedRequestBody> body, ConnectRequest&& request)
    : body_(std::move(body)), request_(std::move(request)) {}
DetachedRequest::DetachedRequest(DetachedRequest&& other) noexcept = default;
DetachedRequest& DetachedRequest::operator=(DetachedRequest&& other) noexcept = default;
DetachedRequest::~DetachedRequest() = default;

Manager::Manager(Provider& provider, const ManagerOptions& options)
    : provider_(provider),
      channel_(std::make_unique<Channel>(Channel{.manager = this})),
      core_(std::make_shared<Core>(*channel_, table_size(options), options.seed, options.resolve)) {
  core_->pending.open(Pending::adopted, std::max(options.pending_max, 1U));
  core_->liveness = options.liveness;
  provider_.start(*core_);
}

Manager::Manager(Manager& host, std::unique_ptr<Channel> channel)
    : provider_(host.provider_), channel_(std::move(channel)), core_(host.core_) {
  channel_->manager = this;
}

Manager::~Manager() {
  if (channel_->number != 0 && !core_->closed()) {
    // Listeners last: their newcomers refer to them.
    for (const bool listeners : {false, true})
      core_->ids.for_each([&](EndpointId id) {
        const bool of_listener = core_->ids.find(id)->listener != 0;
        if (core_->has(*channel_, id) && of_listener != listeners) destroy(id);
      });
  }
  core_->leave(*channel_);
}

Result<std::unique_ptr<Manager>> Manager::open_beside() {
  if (auto here = check_host(); !here) return tl::unexpected(here.error());
  auto channel = std::make_unique<Channel>();
  if (auto joined = core_->join(*channel); !joined) return tl::unexpected(joined.error());
  return std::unique_ptr<Manager>(new Manager(*this, std::move(channel)));
}

Result<void> Manager::check_host() const {
  if (core_->closed()) return fail(Errc::wrong_state, "the host of this Manager is gone");
  return {};
}

bool Manager::has(std::uint64_t number) const { return core_->has(*channel_, number); }

Device& Manager::device() { return *provider_.devices().front(); }

std::span<Device* const> Manager::devices() {
  return core_->closed() ? std::span<Device* const>() : provider_.devices();
}

Result<void> Manager::post_event(std::uint64_t value, Id id) {
  if (id && (core_->ids.find(id.number()) == nullptr || !has(id.number())))
    return fail(Errc::wrong_state, "the id is stale");
  if (channel_->user_events >= user_events_max)
    return fail(Errc::no_space, "{a} events of the program's own wait; poll them first", user_events_max);
  channel_->events.push(UserEvent{id, value});
  ++channel_->user_events;
  return {};
}

bool Manager::has_events() const { return !channel_->events.empty(); }

bool Manager::any_events() const { return core_->has_events(); }

Result<Id> Manager::listen(const Address& local, const ListenOptions& options) {
  if (auto here = check_host(); !here) return tl::unexpected(here.error());
  if (options.backlog <= 0)
    return fail(Errc::invalid_argument, "ListenOptions::backlog is {a}; must be at least 1", options.backlog);
  if (options.pending_max == 0)
    return fail(Errc::invalid_argument, "ListenOptions::pending_max is 0; must be at least 1");
  const auto whole = with_liveness(options, core_->liveness);
  if (!whole) return tl::unexpected(whole.error());
  NewId issued(*core_, *channel_);
  const EndpointId id = issued.id();
  if (id == 0) return no_endpoint(core_->ids);
  core_->pending.open(id, options.pending_max);
  core_->note(id);
  if (const auto listening = provider_.listen(id, local, *whole); !listening) return tl::unexpected(listening.error());
  core_->ids.find(id)->announced = true;
  return make_id(issued.keep());
}

Result<void> Manager::check(const Address& peer, const ConnectOptions& options) {
  if (auto here = check_host(); !here) return here;
  const auto limits = provider_.limits(options.transport, {options.ird, options.ord});
  if (!limits) return tl::unexpected(limits.error());
  if (auto fits = check_private_data(options.private_data, limits->request,
                                     "ConnectOptions::private_data has {a} octets; at most {b} fit into this Request");
      !fits)
    return fits;
  if (auto checked = check_connect(peer, options); !checked) return checked;
  if (const auto route = provider_.resolve(peer, options.local); !route) return tl::unexpected(route.error());
  for (const Address& backup : options.backups)
    if (const auto route = provider_.resolve(backup, options.local); !route) return tl::unexpected(route.error());
  return {};
}

Result<Id> Manager::connect(const Address& peer, const ConnectOptions& options) {
  if (const auto sound = check(peer, options); !sound) return tl::unexpected(sound.error());
  const auto whole = with_liveness(options, core_->liveness);
  if (!whole) return tl::unexpected(whole.error());
  NewId issued(*core_, *channel_);
  const EndpointId id = issued.id();
  if (id == 0) return no_endpoint(core_->ids);
  core_->ids.find(id)->announced = true;
  core_->retries.plan(id, peer, options);
  core_->note(id);
  if (const auto connecting = provider_.connect(id, peer, *whole); !connecting)
    return tl::unexpected(connecting.error());
  return make_id(issued.keep());
}

Result<Id> Manager::resolve(const Address& peer, const ResolveOptions& options) {
  if (auto here = check_host(); !here) return tl::unexpected(here.error());
  if (const auto sound = check_addresses(peer, options.local,
                                         "ResolveOptions::local is of IP version {a}, and the peer of version {b}");
      !sound)
    return tl::unexpected(sound.error());
  if (options.timeout < Duration{})
    return fail(Errc::invalid_argument, "ResolveOptions::timeout is {a} ns; must be at least 0",
                options.timeout.count());
  const auto route = provider_.resolve(peer, options.local);
  if (!route) return tl::unexpected(route.error());
  NewId issued(*core_, *channel_);
  const EndpointId id = issued.id();
  if (id == 0) return no_endpoint(core_->ids);
  core_->ids.find(id)->announced = true;
  core_->resolve_targets.emplace(id, ResolveTarget{peer, options.local, route->device});
  if (route->device != nullptr) {
    core_->push(Resolved{.id = make_id(id),
                         .device = route->device,
                         .local = route->local,
                         .parameters = {},
                         .reason = "there is one device, whose packets the system routes"});
    return make_id(issued.keep());
  }
  core_->note(id);
  if (const auto searching = provider_.begin_resolve(id, peer, options); !searching)
    return tl::unexpected(searching.error());
  return make_id(issued.keep());
}

Result<void> Manager::connect(std::uint64_t number, ConnectOptions options) {
  const auto way = core_->resolve_targets.find(number);
  if (way == core_->resolve_targets.end() || (way->second.device == nullptr && !provider_.is_resolved(number)))
    return fail(Errc::wrong_state, "only an id that was resolved, and not connected since, can be connected");
  const Address peer = way->second.peer;
  options.local = way->second.local;
  if (auto sound = check(peer, options); !sound) return sound;
  auto whole = with_liveness(std::move(options), core_->liveness);
  if (!whole) return tl::unexpected(whole.error());
  core_->retries.plan(number, peer, *whole);
  core_->note(number);
  if (auto connecting = provider_.connect(number, peer, *whole); !connecting) {
    core_->retries.forget(number);
    return connecting;
  }
  core_->resolve_targets.erase(number);
  return {};
}

Result<DetachedRequest> Manager::detach(ConnectRequest&& request) {
  if (!request.id) return no_id();
  if (request.id.manager_ != this || !has(request.id.number()))
    return fail(Errc::invalid_argument, "the request is another Manager's; detach() it from the one that announced it");
  auto body = provider_.detach(request.id.number());
  if (!body) return tl::unexpected(body.error());
  request.id = request.listener = Id();
  return DetachedRequest(std::move(*body), std::move(request));
}

Result<Id> Manager::adopt(DetachedRequest&& migrant) {
  if (auto here = check_host(); !here) return tl::unexpected(here.error());
  if (!migrant) return fail(Errc::invalid_argument, "the Migrant is empty: it was adopted already, or moved from");
  NewId issued(*core_, *channel_);
  const EndpointId id = issued.id();
  if (id == 0) return no_endpoint(core_->ids);
  Endpoint& endpoint = *core_->ids.find(id);
  endpoint.listener = Pending::adopted;
  endpoint.announced = true;
  core_->make_room(2);  // for the event of an evicted request, and for this one's
  if (const auto adopted = provider_.adopt(id, migrant.body_, migrant.request_); !adopted)
    return tl::unexpected(adopted.error());
  migrant.body_.reset();
  migrant.request_.id = make_id(id);
  core_->push(std::exchange(migrant.request_, {}));
  return make_id(issued.keep());
}

std::optional<Event> Manager::poll_event() {
  if (reported_dead_ != 0) destroy(std::exchange(reported_dead_, 0));
  while (auto event = channel_->events.pop()) {
    const EndpointId id = endpoint_of(*event);
    if (std::holds_alternative<UserEvent>(*event)) {
      --channel_->user_events;
      if (id == 0) return event;
    }
    const Endpoint* endpoint = core_->ids.find(id);
    if (endpoint == nullptr || endpoint->orphan) continue;  // destroyed meanwhile
    if (auto* away = std::get_if<TurnedAway>(&*event)) core_->fill_turned_away(*away);
    if (endpoint->over) core_->pending.leave(id);
    if (!endpoint->announced && std::holds_alternative<ConnectFailed>(*event)) reported_dead_ = id;
    return event;
  }
  return std::nullopt;
}

void Manager::destroy(std::uint64_t number) noexcept {
  if (reported_dead_ == number) reported_dead_ = 0;
  const Endpoint* endpoint = core_->ids.find(number);
  if (endpoint == nullptr || endpoint->orphan) return;
  if (const auto way = core_->resolve_targets.find(number);
      way != core_->resolve_targets.end() && way->second.device != nullptr)
    return core_->release(number);
  provider_.destroy(number);
}

Result<void> Manager::check_decision(std::uint64_t number, bool accept, ConstBytes private_data) const {
  const auto room = provider_.limits(number);
  if (!room) return tl::unexpected(room.error());
  if (accept)
    return check_private_data(private_data, room->reply,
                              "AcceptOptions::private_data has {a} octets; at most {b} fit into this Reply");
  return check_private_data(private_data, room->reject, "private_data has {a} octets; at most {b} fit into this Reply");
}

Result<void> Manager::accept(std::uint64_t number, const AcceptOptions& options) {
  if (auto due = check_decision(number, true, options.private_data); !due) return due;
  if (auto accepted = provider_.accept(number, options); !accepted) return accepted;
  core_->note(number);
  return {};
}

Result<void> Manager::reject(std::uint64_t number, ConstBytes private_data) {
  if (auto due = check_decision(number, false, private_data); !due) return due;
  if (auto rejected = provider_.reject(number, private_data); !rejected) return rejected;
  core_->note(number);
  return {};
}

Result<void> Manager::migrate(std::uint64_t number, Manager& to) {
  if (to.core_ != core_)
    return fail(Errc::invalid_argument,
                "the Manager is of another host: detach() and adopt() move requests from host to host");
  const Endpoint* endpoint = core_->ids.find(number);
  if (endpoint == nullptr || endpoint->orphan || !endpoint->announced) return no_id();
  return &to == this ? Result<void>{} : core_->migrate(number, *channel_, *to.channel_);
}

Result<void> Manager::disconnect(std::uint64_t number) {
  if (auto closing = provider_.disconnect(number); !closing) return closing;
  core_->note(number);
  return {};
}

Result<QueuePair*> Id::create_qp(const QpInit& init) {
  if (!is_here()) return not_here(manager_);
  return manager_->provider().create_qp(number_, init);
}

bool Id::is_here() const { return manager_ != nullptr && manager_->has(number_); }

QueuePair* Id::qp() const { return is_here() ? manager_->provider().qp(number_) : nullptr; }

Result<Address> Id::local_address() const {
  if (!is_here()) return not_here(manager_);
  return manager_->provider().local_address(number_);
}

Result<Address> Id::peer_address() const {
  if (!is_here()) return not_here(manager_);
  const auto way = manager_->core_->resolve_targets.find(number_);
  return way == manager_->core_->resolve_targets.end() ? manager_->provider().peer_address(number_) : way->second.peer;
}

Device* Id::device() const {
  if (!is_here()) return nullptr;
  const auto way = manager_->core_->resolve_targets.find(number_);
  const bool known = way != manager_->core_->resolve_targets.end() && way->second.device != nullptr;
  return known ? way->second.device : manager_->provider().device(number_);
}

Result<void> Id::connect(const ConnectOptions& options) {
  if (!is_here()) return not_here(manager_);
  return manager_->connect(number_, options);
}

Result<void> Id::accept(const AcceptOptions& options) {
  if (!is_here()) return not_here(manager_);
  return manager_->accept(number_, options);
}

Result<void> Id::reject(ConstBytes private_data) {
  if (!is_here()) return not_here(manager_);
  return manager_->reject(number_, private_data);
}

Result<void> Id::disconnect() {
  if (!is_here()) return not_here(manager_);
  return manager_->disconnect(number_);
}

Result<void> Id::migrate(Manager& to) {
  if (!is_here()) return not_here(manager_);
  if (auto moved = manager_->migrate(number_, to); !moved) return moved;
  manager_ = &to;
  return {};
}

void Id::destroy() noexcept {
  if (is_here()) manager_->destroy(number_);
  *this = Id();
}

}  // namespace parley::cm
