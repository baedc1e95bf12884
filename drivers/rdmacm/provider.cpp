// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Endpoints and commands: arguments are checked at once, and most work is done in the driver's next turn.
#include "drivers/rdmacm/provider.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "drivers/asio/sockaddr.hpp"
#include "drivers/libraries/forward.hpp"
#include "drivers/verbs/convert.hpp"
#include "wire/ib/cma.hpp"

namespace parley::rdmacm {
namespace {

// Private data: rdma_conn_param's length has 8 bits.
constexpr cm::Limits iwarp_limits{.request = 255, .reply = 255, .reject = 255};

auto stale() { return fail(Errc::wrong_state, "the id is not a connection, or it was destroyed"); }
auto not_deciding() {
  return fail(Errc::wrong_state, "only a connection that waits for accept() or reject() allows this");
}

Result<ib::Options> options_of(const cm::TransportOptions& options, std::optional<QpType> wrong = {}) {
  return cm::ib_options(options, "`transport` holds MPA's options; on a real NIC the kernel and the NIC decide them",
                        wrong);
}

}  // namespace

Result<std::unique_ptr<Rdmacm>> Rdmacm::open(const RdmaHostOptions& options) {
  std::unique_ptr<Rdmacm> provider(new Rdmacm(options));
  provider->channel_ = rdma_create_event_channel();
  if (provider->channel_ == nullptr) {
    if (errno == ELIBACC) return fail(Errc::unsupported, libraries::no_librdmacm);
    if (errno == EMFILE || errno == ENFILE)
      return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
    if (errno == EACCES || errno == EPERM)
      return fail(Errc::not_permitted, "/dev/infiniband/rdma_cm may not be opened by this user");
    return fail(
        Errc::unreachable,
        "there is no /dev/infiniband/rdma_cm, or no RDMA device: load rdma_ucm and the NIC's driver (errno {a})",
        errno);
  }
  const int fd = provider->channel_->fd;
  if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
    return verbs::refused(errno, "the event channel cannot be made non-blocking: errno {a}");
  int count = 0;
  provider->held_ = rdma_get_devices(&count);
  for (int i = 0; provider->held_ != nullptr && i < count; ++i)
    (void)provider->device_for(provider->held_[i]);  // one unusable device does not exclude the others
  if (provider->shown_.empty())
    return fail(Errc::unreachable, "this machine has no RDMA device; the provider iwarp needs none");
  return provider;
}

Rdmacm::~Rdmacm() {
  for (Slot& slot : slots_) forget(slot);  // the core no longer exists
  devices_.clear();
  if (held_ != nullptr) rdma_free_devices(held_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

Result<NicDevice*> Rdmacm::device_for(ibv_context* context) {
  const auto at = std::find_if(devices_.begin(), devices_.end(), [&](const auto& d) {
    return !d->released() && d->context()->device == context->device;
  });
  if (at != devices_.end()) return at->get();
  // librdmacm's context is shared by every host of the process; queue pairs and asynchronous events need a separate
  // one.
  ibv_context* own = ibv_open_device(context->device);
  if (own == nullptr) return verbs::refused(errno, "the device cannot be opened: errno {a}");
  const bool held = held_ != nullptr && [&] {
    for (ibv_context** h = held_; *h != nullptr; ++h)
      if (*h == context) return true;
    return false;
  }();
  auto device = NicDevice::open(own, held ? context : nullptr);
  if (!device) return tl::unexpected(device.error());
  devices_.push_back(std::move(*device));
  std::erase_if(shown_, [this](const Device* shown) {
    return std::any_of(devices_.begin(), devices_.end(),
                       [&](const auto& d) { return d.get() == shown && d->released(); });
  });
  shown_.push_back(devices_.back().get());
  new_devices_.push_back(devices_.back().get());
  return devices_.back().get();
}

Slot& Rdmacm::slot_for(EndpointId id) {
  const std::size_t slot = cm::EndpointTable::slot(id);
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  return slots_[slot];
}

Connection* Rdmacm::find(EndpointId endpoint) const {
  const std::size_t slot = cm::EndpointTable::slot(endpoint);
  if (endpoint == 0 || slot >= slots_.size()) return nullptr;
  Connection* c = slots_[slot].connection.get();
  return c != nullptr && c->id == endpoint ? c : nullptr;
}

Listener* Rdmacm::find_listener(EndpointId endpoint) const {
  const std::size_t slot = cm::EndpointTable::slot(endpoint);
  if (endpoint == 0 || slot >= slots_.size()) return nullptr;
  Listener* l = slots_[slot].listener.get();
  return l != nullptr && l->id == endpoint ? l : nullptr;
}

void Rdmacm::set_deadline(Connection& c, Instant at) { deadlines_.set(cm::EndpointTable::slot(c.id), at); }

void Rdmacm::enter(Connection& c, Phase phase) {
  const auto searches = [](Phase p) { return p == Phase::addr || p == Phase::route; };
  if (searches(c.phase) && !searches(phase)) core_->resolver.leave(c.id);
  if (c.trace) [[unlikely]]
    trace_phase(c, phase);
  c.phase = phase;
}

void Rdmacm::drop_qp(Connection& c) {
  if (c.qp) by_qp_.erase({c.device, c.qp->qp_num()});
  c.qp.reset();
  if (c.device != nullptr) c.own.drop(*c.device);
}

// Releases the system's objects. Every event was acknowledged when it was taken, so this never waits for one.
void Rdmacm::forget(Slot& slot) {
  if (slot.connection) {
    drop_qp(*slot.connection);
    if (slot.connection->cm != nullptr) rdma_destroy_id(slot.connection->cm);
    slot.connection.reset();
  }
  if (slot.listener && slot.listener->cm != nullptr) rdma_destroy_id(slot.listener->cm);
  slot.listener.reset();
}

void Rdmacm::free_slot(EndpointId endpoint) {
  Slot& slot = slots_[cm::EndpointTable::slot(endpoint)];
  if (slot.connection) {
    set_deadline(*slot.connection, never);
    enter(*slot.connection, Phase::over);
  }
  std::erase(closing_, endpoint);
  forget(slot);
  core_->release(endpoint);
}

Result<void> Rdmacm::make_qp(Connection& c, NicDevice& device, const QpInit* init) {
  QpInit small;
  if (init == nullptr && c.type == QpType::xrc_tgt)
    return fail(Errc::invalid_argument, "an XRC_TGT queue pair needs QpInit::xrcd: the program must create it");
  if (init == nullptr) {
    auto made = c.own.make(device);
    if (!made) return tl::unexpected(made.error());
    c.device = &device;
    small = *made;
    small.type = c.type;
    init = &small;
  }
  if (auto fits = cm::check_qp_type(init->type, c.type); !fits) return fits;
  auto qp = device.make_qp(*init);
  if (!qp) {
    drop_qp(c);
    return tl::unexpected(qp.error());
  }
  // Receives can be posted from INIT on. The final port may differ: it is set again with the connection's.
  QpAttr attr{.state = QpState::init, .pkey_index = std::uint16_t{0}, .port_num = std::uint8_t{1}};
  if (c.datagrams())
    attr.qkey = wire::ib::udp_q_key;
  else
    attr.access = Access::none;
  if (device.transport() == Transport::iwarp) attr.pkey_index.reset();
  if (auto ready = (*qp)->modify(attr); !ready) {
    qp->reset();
    drop_qp(c);
    return ready;
  }
  c.device = &device;
  c.qp = std::move(*qp);
  by_qp_[{&device, c.qp->qp_num()}] = c.id;
  return {};
}

Device* Rdmacm::device(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  return c == nullptr ? nullptr : c->device;
}

// The device is unknown before the address is resolved: the limits are those that every device supports.
Result<cm::Limits> Rdmacm::limits(const cm::TransportOptions& options, cm::Depths) const {
  const auto checked = options_of(options);
  if (!checked) return tl::unexpected(checked.error());
  const bool all_iwarp =
      std::all_of(devices_.begin(), devices_.end(), [](const auto& d) { return d->transport() == Transport::iwarp; });
  return all_iwarp ? iwarp_limits : cm::ib_limits(checked->qp_type);
}

Result<cm::Limits> Rdmacm::limits(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->phase != Phase::deciding) return not_deciding();
  return c->device->transport() == Transport::iwarp ? iwarp_limits : cm::ib_limits(c->type);
}

// The kernel's routing table decides when the address is resolved.
Result<cm::Route> Rdmacm::resolve(const Address& peer, const std::optional<Address>& local) {
  return cm::Route{nullptr, local.value_or(Address::any(peer.family, 0))};
}

Result<void> Rdmacm::listen(EndpointId endpoint, const Address& local, const cm::ListenOptions& options) {
  const auto ib = options_of(options.transport, QpType::xrc_ini);
  if (!ib) return tl::unexpected(ib.error());
  auto made = std::make_unique<Listener>();
  made->id = endpoint;
  made->address = local;
  made->backlog = options.backlog;
  made->depths = {options.ird, options.ord};
  set_liveness(*made, options);
  made->options = *ib;
  slot_for(endpoint).listener = std::move(made);
  return {};
}

Result<void> Rdmacm::begin_resolve(EndpointId endpoint, const Address& peer, const cm::ResolveOptions& options) {
  auto made = std::make_unique<Connection>();
  made->id = endpoint;
  made->search = true;
  made->peer = peer;
  made->asked_local = options.local;
  made->resolve_timeout = options.timeout > Duration{} ? options.timeout : options_.manager.resolve.timeout;
  begin_trace(*made);
  slot_for(endpoint).connection = std::move(made);
  return {};
}

bool Rdmacm::is_resolved(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  return c != nullptr && c->phase == Phase::resolved;
}

Result<void> Rdmacm::connect(EndpointId endpoint, const Address& peer, const cm::ConnectOptions& options) {
  const auto ib = options_of(options.transport, QpType::xrc_tgt);
  if (!ib) return tl::unexpected(ib.error());
  const bool resolved = is_resolved(endpoint);
  auto made = resolved ? nullptr : std::make_unique<Connection>();
  Connection& c = resolved ? *find(endpoint) : *made;
  c.id = endpoint;
  c.peer = peer;
  if (!resolved) {
    c.asked_local = options.local;
    c.local = options.local.value_or(Address{});
  }
  if (c.search && ib->qp_type != QpType::rc) drop_cm(c);  // the resolved id is for RC; the search is repeated
  c.type = ib->qp_type;
  c.depths = c.reliable() ? cm::Depths{options.ird, options.ord} : cm::Depths{};
  c.retry_count = ib->retry_count;
  c.rnr_retry_count = ib->rnr_retry_count;
  c.reply_timeout = ib->reply_timeout > Duration{} ? ib->reply_timeout : options_.reply_timeout;
  set_liveness(c, options);
  c.private_data.assign(options.private_data.begin(), options.private_data.end());
  c.resolve_timeout = options.transport_timeout > Duration{}
                          ? std::min(options.transport_timeout, options_.manager.resolve.timeout)
                          : options_.manager.resolve.timeout;
  if (options.qp) {
    const auto owner =
        std::find_if(devices_.begin(), devices_.end(), [&](const auto& d) { return d->owns(*options.qp); });
    if (owner == devices_.end())
      return fail(Errc::invalid_argument, "ConnectOptions::qp has a domain or queues that no device of this host made");
    if (resolved && owner->get() != c.device)
      return fail(Errc::invalid_argument, "ConnectOptions::qp is not of the device that Resolved named");
    if (auto qp = make_qp(c, **owner, &*options.qp); !qp) return qp;
  }
  c.search = false;
  c.start = {};
  if (!resolved) begin_trace(c);
  enter(c, Phase::noted);
  if (!resolved) slot_for(endpoint).connection = std::move(made);
  return {};
}

Result<QueuePair*> Rdmacm::create_qp(EndpointId endpoint, const QpInit& init) {
  Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->qp) return fail(Errc::wrong_state, "the id has a queue pair already");
  if (c->phase != Phase::deciding) return not_deciding();
  if (auto made = make_qp(*c, *c->device, &init); !made) return tl::unexpected(made.error());
  return c->qp.get();
}

QueuePair* Rdmacm::qp(EndpointId endpoint) {
  const Connection* c = find(endpoint);
  return c == nullptr ? nullptr : c->qp.get();
}

Result<Address> Rdmacm::local_address(EndpointId endpoint) const {
  if (const Listener* l = find_listener(endpoint)) return l->address;
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->local.port == 0) return fail(Errc::wrong_state, "the address is not resolved yet, so there is no local one");
  return c->local;
}

Result<Address> Rdmacm::peer_address(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  return c->peer;
}

Result<void> Rdmacm::accept(EndpointId endpoint, const cm::AcceptOptions& options) {
  Connection& c = *find(endpoint);
  const auto ib = options_of(options.transport);
  if (!ib) return tl::unexpected(ib.error());
  const bool given = !std::holds_alternative<std::monostate>(options.transport);
  if (given && ib->qp_type != c.type)
    return fail(Errc::invalid_argument, "ib::Options::qp_type is {a}, and the listener's {b}; they are the same",
                static_cast<int>(ib->qp_type), static_cast<int>(c.type));
  if (!c.qp)
    if (auto made = make_qp(c, *c.device, options.qp ? &*options.qp : nullptr); !made) return made;
  if (given) c.rnr_retry_count = ib->rnr_retry_count;
  if (ib->reply_timeout > Duration{}) c.reply_timeout = ib->reply_timeout;
  // The peer's offer is the limit. An iWARP peer with MPA revision 1 offers none, so there is no limit. UC and UD have
  // no Reads.
  const bool any = c.device->transport() == Transport::iwarp && c.offered.ird == 0 && c.offered.ord == 0;
  const auto within = [&](std::uint16_t own, std::uint16_t offer) { return any ? own : std::min(own, offer); };
  c.depths = {within(options.ird.value_or(c.depths.ird), c.offered.ird),
              within(options.ord.value_or(c.depths.ord), c.offered.ord)};
  c.private_data.assign(options.private_data.begin(), options.private_data.end());
  c.accept = true;
  enter(c, Phase::decided);
  return {};
}

Result<void> Rdmacm::reject(EndpointId endpoint, ConstBytes private_data) {
  Connection& c = *find(endpoint);
  c.private_data.assign(private_data.begin(), private_data.end());
  c.accept = false;
  enter(c, Phase::decided);
  return {};
}

Result<void> Rdmacm::disconnect(EndpointId endpoint) {
  Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->phase == Phase::breaking) return {};  // its end will be reported
  if (c->phase != Phase::open) return fail(Errc::wrong_state, "only an established connection can be disconnected");
  enter(*c, Phase::closing);
  return {};
}

void Rdmacm::destroy(EndpointId endpoint) noexcept {
  Connection* c = find(endpoint);
  if (c == nullptr) {
    if (find_listener(endpoint) != nullptr) free_slot(endpoint);
    return;
  }
  // reject() directly followed by destroy(): the peer still gets the answer.
  const bool rejects = c->phase == Phase::decided && !c->accept && c->cm != nullptr;
  if (rejects) rdma_reject(c->cm, c->private_data.data(), static_cast<std::uint8_t>(c->private_data.size()));
  if (c->trace) trace_destroyed(*c);
  free_slot(endpoint);
}

bool Rdmacm::has_events() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const auto& d) { return d->has_events(); });
}

bool Rdmacm::has_work() const {
  return core_->has_noted() || core_->resolver.has_turn() ||
         std::any_of(devices_.begin(), devices_.end(), [](const auto& d) { return d->due(); });
}

std::vector<NicDevice*> Rdmacm::gone_devices() const {
  std::vector<NicDevice*> out;
  for (const auto& device : devices_)
    if (device->gone() && !device->released()) out.push_back(device.get());
  return out;
}

bool Rdmacm::arm() {
  bool any = false;
  for (const auto& device : devices_) any = device->arm() || any;
  return any;
}

bool Rdmacm::turn(Instant now) {
  bool any = core_->has_noted();
  for (const auto& device : devices_) device->settled();
  core_->for_each_noted([&](EndpointId id) { carry_out(id, now); });
  any = poll_channel() || any;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    any = devices_[i]->collect() || any;
    for (const std::uint32_t qp_num : devices_[i]->take_reached())
      if (const auto at = by_qp_.find({devices_[i].get(), qp_num}); at != by_qp_.end())
        if (Connection* c = find(at->second); c != nullptr && c->phase == Phase::accepting)
          c->notified = rdma_notify(c->cm, IBV_EVENT_COMM_EST) == 0 || c->notified;
    on_broken(*devices_[i], now);
    if (devices_[i]->gone()) remove_device(*devices_[i], now);
  }
  while (const auto due = deadlines_.pop_due(now)) {
    any = true;
    if (Connection* c = slots_[*due].connection.get()) on_deadline(*c, now);
  }
  while (const auto late = core_->retries.pop_late(now)) {
    any = true;
    if (Connection* c = find(*late)) out_of_time(*c, now);
  }
  start_waiting(now);
  release_removed();
  // Connections whose requests have completed meanwhile; each leaves the list when it ends.
  for (const EndpointId id : std::vector(closing_))
    if (Connection* c = find(id)) check_closing(*c, now);
  return any;
}

}  // namespace parley::rdmacm
