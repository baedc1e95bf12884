// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Addresses, and packets between the driver, the device and the agent.
#include <fmt/format.h>

#include <algorithm>

#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm::roce {
namespace {

constexpr int rounds_max = 64;  // exchanges between device and agent in one turn
constexpr Duration unreachable_pause = std::chrono::milliseconds(20);

/// Linux's errors for ICMP destination unreachable (RFC 792, RFC 1812 §5.2.7.1; RFC 4443 §3.1), except "port
/// unreachable". permission_denied is ICMPv6's "administratively prohibited" (codes 1, 5 and 6). In IPv4 (codes 9, 10
/// and 13) Linux reports that as one of the other two.
bool is_unreachable(std::error_code why) {
  return why == std::errc::host_unreachable || why == std::errc::network_unreachable ||
         why == std::errc::permission_denied;
}

}  // namespace

BindId Roce::bind(EndpointId owner, const Address& local, const Address& peer) {
  const BindId id = ++binds_ * EndpointTable::limit + EndpointTable::slot(owner);
  commands_.push(
      {.kind = PacketCommand::Kind::bind, .id = id, .local = without_port(local), .peer = without_port(peer)});
  return id;
}

/// The slot of the connection or listener that requested this bind. Null: it no longer needs it.
Slot* Roce::owner_of(BindId bind) {
  const std::size_t slot = bind % EndpointTable::limit;
  if (slot >= slots_.size()) return nullptr;
  Slot& owner = slots_[slot];
  const bool of_connection = owner.connection && owner.connection->bind == bind;
  return of_connection || (owner.listener && owner.listener->bind == bind) ? &owner : nullptr;
}

// If memory is short, the address stays bound until the host ends.
void Roce::release(BindId& bind) noexcept {
  if (bind == 0) return;
  try {
    commands_.push({.kind = PacketCommand::Kind::release, .id = bind});
  } catch (...) {
  }
  bind = 0;
}

// Keeps the address for `linger`, so that messages owed to the peer can be sent, and a lost answer repeated. There is
// one entry per address: the connection that leaves last keeps it bound for those that left before.
void Roce::release_later(Connection& c) noexcept {
  if (c.bind == 0) return;
  const Address local = without_port(c.local);
  const auto before =
      std::find_if(leaving_.begin(), leaving_.end(), [&](const LingeringAddress& l) { return l.local == local; });
  if (before != leaving_.end()) {
    release(before->bind);
    leaving_.erase(before);
  }
  try {
    leaving_.push_back({.until = after(now_, options_.linger), .local = local, .bind = c.bind});
  } catch (...) {
  }
  c.bind = 0;
}

void Roce::reset_all(Instant now) noexcept {
  now_ = now;
  for (const Slot& slot : slots_)
    if (slot.connection) leave_agent(*slot.connection);
}

bool Roce::poll_command(PacketCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.drop();
  return true;
}

void Roce::handle_bound(Instant now, BindId id, const Address& local) {
  now_ = now;
  const Slot* owner = owner_of(id);
  if (owner == nullptr) return;
  if (owner->listener) {
    if (!local.is_any()) (void)addresses_.add(local);  // for datagrams; connections report a full table themselves
    return start_listening(*owner->listener, local);
  }
  Connection* c = owner->connection.get();
  if (c->phase != Phase::binding) return;
  c->local.family = local.family;
  c->local.octets = local.octets;
  c->local.scope_id = local.scope_id;
  request(*c, now);
  settle(now);
}

void Roce::handle_bind_failed(Instant now, BindId id, const Error& why, const Address& local) {
  now_ = now;
  const Slot* owner = owner_of(id);
  if (owner == nullptr) return;
  if (Listener* l = owner->listener.get()) {
    l->bind = 0;
    Failure out = listen_failure(ib::step::send_request, why, l->address);
    if (!why.sentence().empty())
      out.received = fmt::format("cannot listen on {}: {}", l->address.to_string(), why.sentence());
    core_->push(ConnectFailed{core_->id(l->id), std::move(out), true});
    return;
  }
  Connection* c = owner->connection.get();
  if (c->phase != Phase::binding) return;
  c->bind = 0;
  Failure out = system_failure(ib::step::resolve_addr, why, c->peer);
  if (!why.sentence().empty()) out.received = local.to_string() + ": " + why.sentence();
  fail_setup(*c, now, std::move(out));
}

void Roce::handle_packet(Instant now, const PacketPath& from, ConstBytes packet) {
  now_ = now;
  addresses_.handle_packet(now, from, packet);
  settle(now);
}

void Roce::handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets) {
  now_ = now;
  addresses_.handle_placed(now, from, size, packets);
  settle(now);
}

/// Must be called before packets are polled. False: there are none.
bool Roce::prepare_to_poll(Instant now) {
  now_ = now;
  if (at_rest()) return device_->has_transmit();
  settle(now);
  return true;
}

std::size_t Roce::poll_packet(Instant now, PacketPath& to, MutBytes out) {
  if (!prepare_to_poll(now)) return 0;
  if (const std::size_t size = addresses_.poll_packet(now, to, out); size > 0) return size;
  settle(now);  // a request may have failed instead
  return addresses_.poll_packet(now, to, out);
}

PacketRun Roce::poll_packets(Instant now, std::size_t most, PacketPath& to, MutBytes out) {
  if (!prepare_to_poll(now)) return {};
  if (const PacketRun run = addresses_.poll_packets(now, most, to, out); run.count > 0) return run;
  settle(now);  // as above
  return addresses_.poll_packets(now, most, to, out);
}

/// Passes received MADs to the agent, the agent's events to the users, and its MADs to the device. Limited to
/// rounds_max; the rest follows in a later turn.
void Roce::settle(Instant now) {
  if (at_rest()) return;  // the case after nearly every packet
  for (int round = 0; round < rounds_max && settle_once(now) && !at_rest(); ++round) {
  }
}

bool Roce::settle_once(Instant now) {
  bool any = false;
  for (const nic::roce::MadIn& in = mad_in_; device_->poll_mad(mad_in_); any = true)
    agent_.handle_mad(now,
                      {.source = in.source,
                       .destination = in.destination,
                       .sgid_index = in.sgid_index,
                       .source_qpn = in.source_qpn,
                       .p_key = in.p_key},
                      in.octets);
  while (const auto notice = device_->poll_notice()) {
    on_notice(now, *notice);
    any = true;
  }
  while (auto event = agent_.poll_event()) {
    on_event(now, *event);
    any = true;
  }
  if (!closing_.empty())
    for (const EndpointId id : std::vector(closing_))
      if (Connection* c = find(id)) check_closing(*c, now);
  ibcm::MadTo to;
  nic::roce::MadOut& out = mad_out_;
  while (agent_.poll_transmit(to, out.octets)) {
    any = true;
    out.source = to.source;
    out.destination = to.destination;
    out.sgid_index = to.sgid_index;
    out.dest_qpn = to.destination_qpn;
    out.p_key = to.p_key;
    out.traffic_class = to.traffic_class;
    out.hop_limit = to.hop_limit;
    out.flow_label = to.flow_label;
    (void)device_->send_mad(out);  // without room it is lost, as on a wire
  }
  return any;
}

// ICMP is only a hint: a set-up accepts it in both roles, a queue pair only "port unreachable", the second time. A
// burst of packets may return many errors: they cause one search of all connections, unless a set-up has begun since.
void Roce::handle_unreachable(Instant now, const PacketPath& path, std::error_code why) {
  now_ = now;
  const bool refused = why == std::errc::connection_refused;
  if (!refused && !is_unreachable(why)) return;
  const Address peer = without_port(path.peer);
  if (peer == unreachable_ && now - unreachable_at_ < unreachable_pause) return;
  unreachable_ = peer;
  unreachable_at_ = now;
  for (const Slot& slot : slots_) {
    Connection* c = slot.connection.get();
    if (c == nullptr || without_port(c->peer) != peer) continue;
    if (c->live() && refused && c->qp) {
      c->qp->handle_unreachable(now);
    } else if (c->phase == Phase::requesting || (!c->initiator && c->in_set_up())) {
      Failure failure = system_failure(step_of(*c), why, c->peer);
      if (refused && !c->initiator) {
        failure =
            plain_failure(step_of(*c), Errc::peer_reset, {}, "ICMP: nothing receives UDP port 4791 there any more",
                          "the peer's process has ended: look at its log");
      } else if (refused) {
        failure.received = "ICMP: nothing receives UDP port 4791 there";
        failure.advice = "start the peer, or check that the host has a RoCEv2 device";
      }
      fail_setup(*c, now, std::move(failure));
    }
  }
  settle(now);
}

}  // namespace parley::cm::roce
