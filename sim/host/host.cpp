// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Lifecycle and timers of a host: start, crash, restart, pause, and the turn that ends every activity.
#include "sim/host/host.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"
#include "cm/ibcm/events.hpp"
#include "nic/roce/device.hpp"
#include "sim/host/host_impl.hpp"

namespace parley::sim {
namespace {

// Events carry the incarnation that they are meant for: those for an earlier one still arrive and are ignored.
constexpr std::uint32_t event_bits = 3;

// Tagged offsets start here instead of at memory addresses, so that no octet on the wire depends on the memory layout.
constexpr std::uint64_t default_offset_base = 0x1000'0000;
constexpr std::uint64_t guid_base = 0x0200'00FF'FE00'0001;  // like a MAC address, locally administered

}  // namespace

std::string_view to_string(NicEngine engine) {
  constexpr std::array<std::string_view, 3> words{"iwarp", "roce", "none"};
  return words[static_cast<std::size_t>(engine)];
}

std::string_view to_string(Neighbours neighbours) { return neighbours == Neighbours::known ? "known" : "discovered"; }

std::unique_ptr<HostNode> make_host(Engine& engine, NodeId id, std::uint32_t number, std::string name,
                                    const HostOptions& options, Rng rng) {
  return std::make_unique<SimHost>(engine, id, number, std::move(name), options, rng);
}

SimHost::SimHost(Engine& engine, NodeId id, std::uint32_t number, std::string name, const HostOptions& options, Rng rng)
    : engine_(engine), id_(id), number_(number), name_(std::move(name)), options_(options), rng_(rng) {
  if (options_.rnic.tagged_offset_base == 0) options_.rnic.tagged_offset_base = default_offset_base;
  if (options_.hca.address_base == 0) options_.hca.address_base = default_offset_base;
  for (const NicOptions& nic : options_.nics) add_nic(nic);
  if (options_.manager.seed == 0)
    options_.manager.seed = Rng(rng_).next();  // from a copy, so that other draws do not
                                               // change
  power_up();
}

SimHost::~SimHost() {
  manager_.reset();  // it uses the HCA
  drop_hca();
}

/// Queue pairs may outlive the HCA; they must not call it to leave their groups.
void SimHost::drop_hca() {
  if (hca_) hca_->set_groups(nullptr);
  hca_.reset();
  groups_.clear();
}

// All NICs with an engine use the same one.
NicEngine SimHost::engine() const {
  for (const NicOptions& nic : options_.nics)
    if (nic.engine != NicEngine::none) return nic.engine;
  return options_.nics.empty() ? options_.engine : NicEngine::iwarp;
}

void SimHost::power_up() {
  forget_ways();
  stack_ = std::make_unique<Stack>(rng_);
  ip_id_ = static_cast<std::uint16_t>(rng_.next() >> 48);
  ended_ = stopped_ = false;
  start_process();
}

void SimHost::start_process() {
  if (given_packets_ != nullptr) {
    packets_ = given_packets_;
  } else if (given_ == nullptr && engine() == NicEngine::roce) {
    cm::RoceProviderOptions options = options_.hca;
    options.ca_guid = guid_base + number_;
    options.seed = rng_.next() | 1;  // numbers that differ from those before a restart
    hca_ = cm::make_roce_provider(options);
    hca_->set_groups(this);
    packets_ = hca_.get();
    manager_ = std::make_unique<cm::Manager>(*hca_, options_.manager);
  } else if (given_ == nullptr) {
    provider_ = cm::make_iwarp_provider(options_.rnic);
    manager_ = std::make_unique<cm::Manager>(*provider_, options_.manager);
    machine_ = provider_.get();
  } else {
    machine_ = given_;
  }
}

void SimHost::add_nic(const NicOptions& options) {
  const auto index = static_cast<std::uint16_t>(nics_.size());
  nics_.push_back({options, make_addresses(number_, index, static_cast<std::uint8_t>(index), options.interface_id)});
}

std::string SimHost::nic_name(std::uint16_t nic) const {
  return nic < nics_.size() ? nics_[nic].options.name : std::string();
}

Address SimHost::address(Address::Family family, std::uint16_t nic) const {
  const LocalKind kind = family == Address::Family::v4 ? LocalKind::v4 : LocalKind::v6;
  if (nic < nics_.size()) return nics_[nic].addresses.of(kind);
  return make_addresses(number_, nic, static_cast<std::uint8_t>(nic)).of(kind);
}

Address SimHost::link_local(std::uint16_t nic) const {
  if (nic < nics_.size()) return nics_[nic].addresses.link_local;
  return make_addresses(number_, nic, static_cast<std::uint8_t>(nic)).link_local;
}

Checked<std::uint16_t> SimHost::free_nic(std::string_view name) const {
  const auto at = std::find_if(nics_.begin(), nics_.end(), [name](const Nic& nic) {
    return name.empty() ? nic.link == nullptr : nic.options.name == name;
  });
  const auto index = static_cast<std::uint16_t>(at - nics_.begin());
  if (at == nics_.end()) {
    if (name.empty() && options_.nics.empty()) return index;
    return tl::unexpected(name.empty() ? fmt::format("each NIC of host {} has a link", name_)
                                       : fmt::format("host {} has no NIC '{}'", name_, name));
  }
  if (at->link != nullptr) return tl::unexpected(fmt::format("NIC {}/{} has a link already", name_, name));
  return index;
}

void SimHost::attach(std::uint16_t nic, LinkPort& link) {
  if (nic == nics_.size()) add_nic({.name = fmt::format("p{}", nic + 1), .engine = options_.engine});
  nics_[nic].link = &link;
  forget_ways();
}

void SimHost::set_network(std::uint16_t nic, std::uint8_t network) {
  if (nic < nics_.size()) nics_[nic].addresses = make_addresses(number_, nic, network, nics_[nic].options.interface_id);
  forget_ways();
}

wire::Mac SimHost::use_directory(std::uint16_t nic, NeighbourDirectory& directory) {
  const PortAddresses& own = nics_[nic].addresses;
  directory.add(own.v4, own.mac);
  if (options_.ipv6) {
    directory.add(own.v6, own.mac);
    directory.add(own.link_local, own.mac);
  }
  nics_[nic].directory = &directory;
  return own.mac;
}

cm::Manager& SimHost::cm() {
  PARLEY_ASSERT(manager_ != nullptr);  // not while the host is down, nor with a machine that a test supplied
  kick();
  return *manager_;
}

Device& SimHost::device() {
  PARLEY_ASSERT(manager_ != nullptr);
  kick();
  return manager_->device();
}

cm::IwarpProvider& SimHost::provider() {
  PARLEY_ASSERT(provider_ != nullptr);
  kick();
  return *provider_;
}

std::size_t SimHost::endpoint_count() const {
  return provider_ != nullptr ? provider_->endpoint_count() : hca_ != nullptr ? hca_->endpoint_count() : 0;
}

void SimHost::set_machine(StreamMachine* machine) {
  given_ = machine;
  given_packets_ = nullptr;
  without_nic();
}

void SimHost::set_machine(PacketMachine* machine) {
  given_ = nullptr;
  given_packets_ = machine;
  without_nic();
}

void SimHost::without_nic() {
  manager_.reset();
  provider_.reset();
  drop_hca();
  machine_ = nullptr;
  packets_ = nullptr;
  if (up_) power_up();
}

void SimHost::note(NoteKind kind, std::string_view text) {
  if (engine_.tap != nullptr) engine_.tap->on_note(now(), id_, kind, text);
}

void SimHost::post(Instant at, Event event, std::uint64_t argument) {
  engine_.at(at, *this, incarnation_ << event_bits | event, argument);
}

void SimHost::set_timer(Instant at, std::uint64_t cookie) { post(at, event_timer, cookie); }

// A call from outside, between two steps of the world, may be about to request work. The host handles it in an event at
// the current time. A caller that calls repeatedly while it waits for time to pass must not stop time, so the number of
// such events at one time is bounded.
void SimHost::kick() {
  if (in_turn_ || kick_pending_ || !started_) return;
  if (kicked_at_ != now()) kicks_ = 0;
  if (kicks_ >= kicks_max) return;
  kicked_at_ = now();
  ++kicks_;
  kick_pending_ = true;
  post(now(), event_kick);
}

void SimHost::start() {
  if (started_) return;
  started_ = true;
  if (!up_) return;
  announce();
  if (paused_) return;
  in_turn_ = true;
  if (app_ != nullptr) app_->on_start(*this);
  in_turn_ = false;
  stirred_ = true;
  turn();
}

// RFC 5227 §3, RFC 4861 §7.2.6: peers and switches that knew the address learn its new location.
void SimHost::announce() {
  for (std::size_t i = 0; i < nics_.size(); ++i) {
    if (nics_[i].directory != nullptr) continue;  // they know
    const PortAddresses& own = nics_[i].addresses;
    wire::Ip4 ip{};
    std::copy_n(own.v4.octets.begin(), ip.size(), ip.begin());
    const wire::ArpPacket packet{
        .reply = false, .sender_mac = own.mac, .sender_ip = ip, .target_mac = {}, .target_ip = ip};
    transmit(static_cast<std::uint16_t>(i), write_arp(engine_.frames, wire::broadcast_mac, packet));
    if (!options_.ipv6) continue;
    for (const Address* address : {&own.link_local, &own.v6}) {
      const wire::NeighbourMessage advert{
          .advert = true, .overrides = true, .target = address->octets, .link_address = own.mac};
      transmit(static_cast<std::uint16_t>(i), write_neighbour(engine_.frames, own.mac, wire::group_mac(wire::all_nodes),
                                                              address->octets, wire::all_nodes, advert));
    }
  }
}

void SimHost::crash() {
  if (!up_) return;
  if (in_turn_) {
    post(now(), event_crash);  // the calling App still uses what would be destroyed
    return;
  }
  note(NoteKind::crashed, "host " + name_ + " crashed");
  drop_process();
  const HostCounters last = counters();
  retransmits_gone_ = last.tcp_retransmits;
  out_of_order_gone_ = last.tcp_out_of_order;
  counters_.streams = 0;
  up_ = paused_ = stopped_ = false;
  packets_from_ = refusals_from_ = Instant{};
  stack_.reset();
  neighbours_ = NeighbourTable();
  deadlines_ = DeadlineQueue();
  dirty_.clear();
  ring_.clear();
  ticks_.clear();
  resting_until_ = Instant{};
  kick_pending_ = stirred_ = false;
}

/// Destroys the process's part of the host. The App first: its queue pairs and memory regions belong to the device.
void SimHost::drop_process() {
  in_turn_ = true;
  if (app_ != nullptr && started_ && !ended_) app_->on_crash(*this);
  in_turn_ = false;
  const HostCounters last = counters();
  counters_.cnp_sent = last.cnp_sent;
  counters_.cnp_held = last.cnp_held;
  counters_.cnp_received = last.cnp_received;
  counters_.cm_resent = last.cm_resent;
  machine_ = nullptr;
  manager_.reset();
  provider_.reset();
  drop_hca();
  packets_ = nullptr;
  bound_.clear();
  socket_.clear();
  late_.clear();
}

void SimHost::restart() {
  if (in_turn_) {
    post(now(), event_restart);
    return;
  }
  if (up_) crash();
  ++incarnation_;
  up_ = true;
  note(NoteKind::restarted, "host " + name_ + " started again");
  power_up();
  if (!started_) return;
  started_ = false;
  start();
}

void SimHost::pause() {
  if (!up_ || paused_) return;
  paused_ = true;
  note(NoteKind::paused, "host " + name_ + " paused");
}

void SimHost::resume() {
  if (!up_ || !paused_) return;
  paused_ = false;
  note(NoteKind::resumed, "host " + name_ + " goes on");
  if (!started_) return;
  while (!ring_.empty()) {
    const RingFrame next = std::move(ring_.front());
    ring_.pop_front();
    handle_frame(next.port, *next.frame);
    turn();
  }
  run_late_timers();
  tick();
}

void SimHost::on_event(std::uint32_t kind, std::uint64_t argument) {
  if (kind >> event_bits != incarnation_ % (1U << (32 - event_bits)) || !up_) return;
  switch (kind % (1U << event_bits)) {
    case event_tick:
      while (!ticks_.empty() && ticks_.back() <= now()) ticks_.pop_back();
      if (!paused_) tick();
      return;
    case event_timer:
      if (paused_ || stopped_) {
        late_.push_back(argument);
        return;
      }
      app_timer(argument);
      return;
    case event_kick:
      kick_pending_ = false;
      if (!paused_) turn();
      return;
    case event_crash: crash(); return;
    case event_restart: restart(); return;
    case event_end_process: end_process(); return;
    default: return;
  }
}

// Runs all of this host's pending work.
void SimHost::tick() {
  neighbours_.handle_deadline(now());
  drain_neighbours();  // before a connection retransmits to a neighbour that does not answer
  while (const auto slot = deadlines_.pop_due(now())) {
    TcpConnection& c = stack_->at(*slot);
    c.armed = never;
    if (c.phase == ConnectionPhase::free) continue;
    if (c.tcp->next_deadline() <= now()) {
      c.tcp->handle_deadline(now());
      mark_dirty(*slot);
    }
    watch(*slot);
  }
  turn();
}

// Deadlines move later with nearly every segment. The event for an earlier deadline stays in the queue, finds no work
// and rearms. An event is therefore pushed only if all pending ones come later.
void SimHost::arm() {
  const Instant machine = machine_deadline();
  Instant at = std::min({deadlines_.next(), neighbours_.next_deadline(), machine});
  if (at == never) return;
  at = std::max({at, resting_until_, now()});
  if (!ticks_.empty() && ticks_.back() <= at) return;
  ticks_.push_back(at);
  post(at, event_tick);
}

bool SimHost::has_events() const {
  return manager_ != nullptr && (manager_->any_events() || (hca_ ? hca_->has_events() : provider_->has_events()));
}

Instant SimHost::machine_deadline() const {
  if (stopped_) return never;
  if (packets_ == nullptr) return machine_->next_deadline();
  const Instant at = packets_->next_deadline();
  return packets_from_ > now() ? std::min(at, packets_from_) : at;
}

void SimHost::machine_timer() {
  if (packets_ == nullptr) {
    if (machine_->next_deadline() > now() || resting_until_ > now()) return;
    machine_->handle_deadline(now());
    stirred_ = true;
    return;
  }
  const bool due = packets_->next_deadline() <= now() && resting_until_ <= now();
  if (!due && (hca_ == nullptr || !hca_->has_work())) return;
  packets_->handle_deadline(now());
  stirred_ = stirred_ || due || packets_from_ <= now();  // else the work may be packets that must wait
}

// One round: expired deadlines, the machine's requests, and the App's reaction. True if there was any work.
bool SimHost::work(int& rounds) {
  if (stopped_) return false;
  if (!hca_is_quiet()) {
    machine_timer();
    pump_machine();
  }
  const bool told = rounds == 0 && has_events();
  if (!stirred_ && !told) return false;
  stirred_ = false;
  ++rounds;
  if (app_ != nullptr && !ended_) app_->on_turn(*this);
  return true;
}

void SimHost::turn() {
  if (in_turn_ || !up_ || paused_ || !started_) return;
  in_turn_ = true;
  int rounds = 0;
  do {
    while (rounds < rounds_max && work(rounds)) {
    }
    flush();
    drain_neighbours();
  } while (rounds < rounds_max && ((stirred_ && !stopped_) || !dirty_.empty()));
  in_turn_ = false;
  if (rounds >= rounds_max) {
    resting_until_ = now() + rest;
    note(NoteKind::restless, "host " + name_ + " does not come to rest: after " + std::to_string(rounds_max) +
                                 " rounds its machine or App still asks for more; it continues in 1 ms");
  }
  arm();
}

HostCounters SimHost::counters() const {
  HostCounters out = counters_;
  out.tcp_retransmits = retransmits_gone_;
  out.tcp_out_of_order = out_of_order_gone_;
  for (std::uint32_t slot = 0; stack_ != nullptr && slot < stack_->slots(); ++slot) {
    const TcpConnection& c = stack_->at(slot);
    if (!c.tcp) continue;
    out.tcp_retransmits += c.tcp->retransmits();
    out.tcp_out_of_order += c.tcp->out_of_order();
  }
  if (hca_) {
    const nic::roce::Counters& hca = hca_->device_counters();
    out.cnp_sent += hca.cnp_sent;
    out.cnp_held += hca.cnp_held;
    out.cnp_received += hca.cnp_received;
    out.cm_resent += hca_->cm_counters().resent;
  }
  return out;
}

}  // namespace parley::sim
