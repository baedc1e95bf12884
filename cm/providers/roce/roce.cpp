// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Endpoints and commands: arguments are checked at once; most work is done at the driver's next turn.
#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/gid.hpp"
#include "cm/ibcm/busy.hpp"
#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm {
namespace roce {
namespace {

constexpr std::uint16_t port_first = 32768, port_last = 60999;  // as Linux's net.ipv4.ip_local_port_range
constexpr std::uint16_t depth_max = 255;                        // rdma_conn_param's 8 bits

auto stale() { return fail(Errc::wrong_state, "the id is not a connection, or it was destroyed"); }
auto not_deciding() {
  return fail(Errc::wrong_state, "only a connection that waits for accept() or reject() allows this");
}

Result<ib::Options> options_of(const TransportOptions& options, std::optional<QpType> wrong = {}) {
  return ib_options(options, "`transport` holds MPA's options; RoCE has ib::Options", wrong);
}

/// Checks that the address can be a GID of one queue pair: unicast, and IPv4 given as IPv4.
Result<void> check_unicast(const Address& address) {
  if (is_multicast(gid_of(address)))
    return fail(Errc::bad_address, "RoCE connects two hosts, and a multicast address belongs to no single host");
  if (address.family == Address::Family::v6 && is_v4_gid(gid_of(address)))
    return fail(Errc::bad_address, "::ffff:a.b.c.d is how a GID has an IPv4 address: give the address as IPv4");
  return {};
}

/// It goes into the REQ as the peer's GID (IBA §12.6.5).
Result<void> check_peer(const Address& peer) {
  if (peer.is_any())
    return fail(Errc::bad_address, "the peer's address is that of all addresses: give one of them, such as 127.0.0.1");
  return check_unicast(peer);
}

}  // namespace

Roce::Roce(const RoceProviderOptions& options, ibcm::Agent agent, std::unique_ptr<nic::roce::RoceDevice> device)
    : options_(options),
      play_((*wire::ib::find_quirk(options.play_quirk))->departures),
      rng_(options.seed),
      agent_(std::move(agent)),
      device_(std::move(device)),
      addresses_(*device_),
      attr_(device_->query()),
      shown_(device_.get()) {
  last_port_ = static_cast<std::uint16_t>(rng_.between(port_first, port_last));
  device_->set_groups(nullptr);
}

Roce::~Roce() = default;

void Roce::start(Core& core) {
  PARLEY_ASSERT(core_ == nullptr);  // a provider serves one Manager
  core_ = &core;
}

Slot& Roce::slot_for(EndpointId id) {
  const std::size_t slot = EndpointTable::slot(id);
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  return slots_[slot];
}

Connection* Roce::find(EndpointId endpoint) const {
  const std::size_t slot = EndpointTable::slot(endpoint);
  if (endpoint == 0 || slot >= slots_.size()) return nullptr;
  Connection* c = slots_[slot].connection.get();
  return c != nullptr && c->id == endpoint ? c : nullptr;
}

Listener* Roce::find_listener(EndpointId endpoint) const {
  const std::size_t slot = EndpointTable::slot(endpoint);
  if (endpoint == 0 || slot >= slots_.size()) return nullptr;
  Listener* l = slots_[slot].listener.get();
  return l != nullptr && l->id == endpoint ? l : nullptr;
}

Connection* Roce::by_cm(ibcm::ConnectionId id) const {
  const std::size_t slot = EndpointTable::slot(id);
  if (id == 0 || slot >= by_cm_.size()) return nullptr;
  Connection* c = find(by_cm_[slot]);
  return c != nullptr && c->cm == id ? c : nullptr;
}

void Roce::join_agent(Connection& c, ibcm::ConnectionId cm) {
  const std::size_t slot = EndpointTable::slot(cm);
  c.cm = cm;
  if (slot >= by_cm_.size()) by_cm_.resize(slot + 1);
  by_cm_[slot] = c.id;
}

// The agent still sends the messages owed to the peer, and remembers the connection for as long as it must.
void Roce::leave_agent(Connection& c) noexcept {
  if (c.cm == 0) return;
  try {
    const std::size_t left = c.qp ? c.qp->sends_open() : 0;
    agent_.destroy(now_, std::exchange(c.cm, 0), ibcm::end_note(ibcm::EndNote::How::abandoned, left));
  } catch (...) {  // no message to the peer, as if it were lost
  }
}

void Roce::free_slot(EndpointId endpoint) {
  Slot& slot = slots_[EndpointTable::slot(endpoint)];
  if (slot.connection) {
    Connection& c = *slot.connection;
    set_deadline(c, never);
    const bool owes = c.cm != 0;
    leave_agent(c);
    if (owes)
      release_later(c);
    else
      release(c.bind);
    drop_qp(c);
    spare_connections_.keep(std::move(slot.connection));
  }
  if (slot.listener) {
    Listener& l = *slot.listener;
    if (const auto at = services_.find(service_of(l.options.qp_type, l.address.port)); at != services_.end()) {
      std::erase(at->second, l.id);
      if (at->second.empty()) {
        agent_.unlisten(at->first);
        services_.erase(at);
      }
    }
    release(l.bind);
    slot.listener.reset();
  }
  std::erase(closing_, endpoint);
  core_->release(endpoint);
}

Result<void> Roce::make_qp(Connection& c, const QpInit* init) {
  const QpType type = c.options.qp_type;
  QpInit small;
  if (init == nullptr && type == QpType::xrc_tgt)
    return fail(Errc::invalid_argument, "an XRC_TGT queue pair needs QpInit::xrcd: the program must create it");
  if (init == nullptr) {
    c.own = spare_queues_.take();
    auto made = c.own ? Result<QpInit>(c.own.init()) : c.own.make(*device_);
    if (!made) return tl::unexpected(made.error());
    small = *made;
    small.type = type;
    init = &small;
  }
  if (auto fits = check_qp_type(init->type, type); !fits) return fits;
  auto qp = device_->create_roce_qp(*init);
  // Receives can be posted from INIT on.
  QpAttr attr{.state = QpState::init, .pkey_index = std::uint16_t{0}, .port_num = std::uint8_t{1}};
  if (type == QpType::ud)
    attr.qkey = wire::ib::udp_q_key;
  else if (type == QpType::uc)
    attr.access = Access::remote_write;  // IBA §9.4: neither Reads nor Atomics
  else
    attr.access = Access::remote_write | Access::remote_read | Access::remote_atomic;
  const Result<void> ready = qp ? (*qp)->modify(attr) : Result<void>(tl::unexpected(qp.error()));
  if (!ready) {
    if (qp) qp->reset();
    drop_qp(c);
    return ready;
  }
  c.qp = std::move(*qp);
  c.qp->owner = c.id;
  return {};
}

void Roce::drop_qp(Connection& c) {
  c.qp.reset();
  if (c.own && !spare_queues_.full()) {
    c.own.clear();
    spare_queues_.keep(std::exchange(c.own, OwnQueues()));
  }
  c.own.drop(*device_);
}

Device* Roce::device(EndpointId endpoint) const { return find(endpoint) == nullptr ? nullptr : shown_; }

Result<Limits> Roce::limits(const TransportOptions& options, Depths) const {
  const auto checked = options_of(options);
  if (!checked) return tl::unexpected(checked.error());
  Limits out = ib_limits(checked->qp_type);
  if (options_.offer_retry_after && checked->qp_type != QpType::ud) out.request -= ibcm::busy::marker_len;
  return out;
}

Result<Limits> Roce::limits(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->phase != Phase::deciding) return not_deciding();
  return ib_limits(c->options.qp_type);
}

// The system chooses the route when an address is bound.
Result<Route> Roce::resolve(const Address& peer, const std::optional<Address>& local) {
  return Route{shown_, local.value_or(Address::any(peer.family, 0))};
}

Result<void> Roce::listen(EndpointId endpoint, const Address& local, const ListenOptions& options) {
  const auto ib = options_of(options.transport, QpType::xrc_ini);
  if (!ib) return tl::unexpected(ib.error());
  if (auto ours = check_unicast(local); !ours) return ours;
  slot_for(endpoint).listener = std::make_unique<Listener>(
      Listener{.id = endpoint,
               .address = local,
               .depths = {options.ird, options.ord},
               .options = *ib,
               .watch = {options.keepalive.value_or(Duration{}), options.dead_after.value_or(Duration{})}});
  return {};
}

Result<void> Roce::connect(EndpointId endpoint, const Address& peer, const ConnectOptions& options) {
  const auto ib = options_of(options.transport, QpType::xrc_tgt);
  if (!ib) return tl::unexpected(ib.error());
  if (auto there = check_peer(peer); !there) return there;
  auto made = make_from(spare_connections_);
  Connection& c = *made;
  c.id = endpoint;
  c.peer = peer;
  c.asked_local = options.local;
  c.options = *ib;
  if (!c.datagrams() && !c.unreliable())
    c.depths = {std::min(options.ird, depth_max), std::min(options.ord, depth_max)};
  c.watch = {options.keepalive.value_or(Duration{}), options.dead_after.value_or(Duration{})};
  c.reply_timeout = reply_timeout_of(*ib, c.watch);
  c.private_data.assign(options.private_data.begin(), options.private_data.end());
  if (auto qp = make_qp(c, options.qp ? &*options.qp : nullptr); !qp) return qp;
  begin_trace(c);
  slot_for(endpoint).connection = std::move(made);
  return {};
}

Result<QueuePair*> Roce::create_qp(EndpointId endpoint, const QpInit& init) {
  Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->qp) return fail(Errc::wrong_state, "the id has a queue pair already");
  if (c->phase != Phase::deciding) return not_deciding();
  if (auto made = make_qp(*c, &init); !made) return tl::unexpected(made.error());
  return c->qp.get();
}

QueuePair* Roce::qp(EndpointId endpoint) {
  const Connection* c = find(endpoint);
  return c == nullptr ? nullptr : c->qp.get();
}

Result<Address> Roce::local_address(EndpointId endpoint) const {
  if (const Listener* l = find_listener(endpoint)) return l->address;
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->local.port == 0) return fail(Errc::wrong_state, "there is no local address yet: it is bound at the next turn");
  return c->local;
}

Result<Address> Roce::peer_address(EndpointId endpoint) const {
  const Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  return c->peer;
}

Result<void> Roce::accept(EndpointId endpoint, const AcceptOptions& options) {
  Connection& c = *find(endpoint);
  const auto ib = options_of(options.transport);
  if (!ib) return tl::unexpected(ib.error());
  const bool given = !std::holds_alternative<std::monostate>(options.transport);
  if (given && ib->qp_type != c.options.qp_type)
    return fail(Errc::invalid_argument, "ib::Options::qp_type is {a}, and the listener's {b}; they are the same",
                static_cast<int>(ib->qp_type), static_cast<int>(c.options.qp_type));
  if (!c.qp)
    if (auto made = make_qp(c, options.qp ? &*options.qp : nullptr); !made) return made;
  if (given) c.options = *ib;
  if (ib->reply_timeout > Duration{}) c.reply_timeout = ib->reply_timeout;
  // The peer's offer and the device's attributes are upper bounds (IBA §12.7.29, §12.7.30).
  const auto least = [](std::uint32_t own, std::uint32_t offer, std::uint32_t most) {
    return static_cast<std::uint16_t>(std::min({own, offer, most}));
  };
  c.depths = {least(options.ird.value_or(c.depths.ird), c.offered.ird, attr_.max_qp_rd_atom),
              least(options.ord.value_or(c.depths.ord), c.offered.ord, attr_.max_qp_init_rd_atom)};
  c.private_data.assign(options.private_data.begin(), options.private_data.end());
  c.accept = true;
  enter(c, Phase::decided);
  return {};
}

Result<void> Roce::reject(EndpointId endpoint, ConstBytes private_data) {
  Connection& c = *find(endpoint);
  c.private_data.assign(private_data.begin(), private_data.end());
  c.accept = false;
  enter(c, Phase::decided);
  return {};
}

Result<void> Roce::disconnect(EndpointId endpoint) {
  Connection* c = find(endpoint);
  if (c == nullptr) return stale();
  if (c->phase != Phase::open) return fail(Errc::wrong_state, "only an established connection can be disconnected");
  enter(*c, Phase::closing);
  return {};
}

void Roce::destroy(EndpointId endpoint) noexcept {
  Connection* c = find(endpoint);
  if (c == nullptr) {
    if (find_listener(endpoint) != nullptr) free_slot(endpoint);
    return;
  }
  try {
    // destroy() right after reject(), before the driver's turn: the peer still gets the answer.
    if (c->phase == Phase::decided && !c->accept) send_refusal(*c, now_, true);
  } catch (...) {  // no message to the peer, as if it were lost
  }
  trace_destroyed(*c);
  free_slot(endpoint);
}

std::uint16_t Roce::next_port() {
  last_port_ = last_port_ >= port_last ? port_first : static_cast<std::uint16_t>(last_port_ + 1);
  return last_port_;
}

bool Roce::has_work() const {
  return core_->has_noted() || !commands_.empty() || device_->has_transmit() ||
         (agent_.has_work() && (agent_.has_event() || agent_.has_transmit()));
}

Instant Roce::next_deadline() const {
  return std::min(own_deadline(), std::min(agent_.next_deadline(), device_->next_deadline()));
}

void Roce::handle_deadline(Instant now) {
  now_ = now;
  core_->for_each_noted([&](EndpointId id) { carry_out(id, now); });
  device_->handle_deadline(now);
  agent_.handle_deadline(now);
  for (; !leaving_.empty() && leaving_.front().until <= now; leaving_.erase(leaving_.begin()))
    release(leaving_.front().bind);
  while (const auto due = deadlines_.pop_due(now))
    if (Connection* c = slots_[*due].connection.get()) on_deadline(*c, now);
  while (const auto late = core_->retries.pop_late(now))
    if (Connection* c = find(*late)) out_of_time(*c, now);
  settle(now);
}

}  // namespace roce

constexpr Duration ack_delay_max = std::chrono::milliseconds(10);  // far less than any peer's ACK timeout

std::string_view to_string(RoceWhenFull answer) {
  constexpr std::array<std::string_view, 4> words{"mra", "retry_after", "refuse", "drop"};
  return words[static_cast<std::size_t>(answer)];
}

Result<void> check_options(const RoceProviderOptions& options) {
  const auto positive = [](Duration time, std::string_view sentence) -> Result<void> {
    if (time > Duration{}) return {};
    return fail(Errc::invalid_argument, sentence, time.count());
  };
  if (options.mtu < Mtu::octets_256 || options.mtu > Mtu::octets_4096)
    return fail(Errc::invalid_argument, "RoceProviderOptions::mtu is {a}; must be 1 to 5",
                static_cast<std::int64_t>(options.mtu));
  if (const auto quirk = wire::ib::find_quirk(options.play_quirk); !quirk) return tl::unexpected(quirk.error());
  if (options.ack_timeout == 0 || options.ack_timeout > 31)
    return fail(Errc::invalid_argument, "RoceProviderOptions::ack_timeout is {a}; must be 1 to 31",
                options.ack_timeout);
  if (options.ack_delay < Duration{} || options.ack_delay > ack_delay_max)
    return fail(Errc::invalid_argument, "RoceProviderOptions::ack_delay is {a} ns; must be 0 to {b}",
                options.ack_delay.count(), ack_delay_max.count());
  if (auto r = positive(options.reply_timeout, "RoceProviderOptions::reply_timeout is {a} ns; it is more than 0"); !r)
    return r;
  if (auto r = positive(options.resend_first, "RoceProviderOptions::resend_first is {a} ns; it is more than 0"); !r)
    return r;
  if (options.resend_cap < options.resend_first)
    return fail(Errc::invalid_argument,
                "RoceProviderOptions::resend_cap is {a} ns, and resend_first {b}, which is more",
                options.resend_cap.count(), options.resend_first.count());
  if (options.retry_after < ibcm::busy::retry_after_min || options.retry_after > ibcm::busy::retry_after_max)
    return fail(Errc::invalid_argument, "RoceProviderOptions::retry_after is {a} ns; must be 1 ms to 65535 ms",
                options.retry_after.count());
  return positive(options.linger, "RoceProviderOptions::linger is {a} ns; it is more than 0");
}

namespace {

constexpr std::uint32_t agent_connections_max = 1U << 20;  // usually above the Manager's limit
// 4.3 s: after that time the peer retransmits its REQ, and gets another MRA until the user has decided. So an answer
// that is lost after an MRA, or a host that crashes, costs no more than that time (IBA §12.6.6).
constexpr std::uint8_t mra_timeout = 20;

}  // namespace

std::unique_ptr<RoceProvider> make_roce_provider(const RoceProviderOptions& given) {
  const auto found = wire::ib::find_quirk(given.play_quirk);
  PARLEY_ASSERT(found.has_value());
  const wire::ib::Quirk& quirk = **found;
  RoceProviderOptions options = given;
  options.spec_timers = options.spec_timers || quirk.spec_timers;
  if (quirk.ack_timeout != 0) options.ack_timeout = quirk.ack_timeout;
  ibcm::AgentOptions cm;
  cm.ca_guid = options.ca_guid;
  cm.seed = options.seed;
  cm.connections_max = agent_connections_max;
  cm.mra_timeout = mra_timeout;
  cm.play = quirk.departures;
  cm.timers = {.kind = ibcm::Timers::Kind::back_off,
               .first = options.resend_first,
               .cap = options.resend_cap,
               .total = options.reply_timeout};
  auto agent = ibcm::Agent::create(cm);
  nic::roce::DeviceOptions nic;
  nic.port_mtu = options.mtu;
  nic.seed = options.seed;
  nic.address_base = options.address_base;
  nic.play = quirk.departures;
  nic.ack_delay = options.ack_delay;
  nic.first_qpn = nic.first_srqn = 0;  // random: an earlier host at the same address may have used the first numbers
  auto device = nic::roce::make_device(nic);
  PARLEY_ASSERT(agent.has_value() && device.has_value());
  return std::make_unique<roce::Roce>(options, std::move(*agent), std::move(*device));
}

}  // namespace parley::cm
