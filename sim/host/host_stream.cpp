// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Between the machine and TCP: the machine's commands, its octets, and the events of connections.
#include <algorithm>

#include "base/pump.hpp"
#include "sim/host/host_impl.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t small_write = 4096;  // below this size, polling again is not worth the cost

bool same_prefix(const Address& a, const Address& b, std::size_t octets) {
  return std::equal(a.octets.begin(), a.octets.begin() + static_cast<std::ptrdiff_t>(octets), b.octets.begin());
}

}  // namespace

void SimHost::carry_out(const StreamCommand& command) {
  using Kind = StreamCommand::Kind;
  if (command.kind == Kind::open) {
    open(command);
    return;
  }
  if (command.kind == Kind::listen) {
    listen(command);
    return;
  }
  const std::uint32_t slot = stack_->find_stream(command.id);
  if (slot == SlotIndex::none) {
    if (command.kind == Kind::close || command.kind == Kind::reset) (void)close_listener(command.id);
    return;
  }
  Tcp& tcp = *stack_->at(slot).tcp;
  switch (command.kind) {
    case Kind::shutdown: tcp.shutdown(now()); break;
    case Kind::finish: return finish(slot);
    case Kind::close:
    case Kind::reset: close(slot, command.kind == Kind::reset); return;
    case Kind::pause: tcp.pause(); break;
    case Kind::resume: tcp.resume(now()); break;  // flush() delivers the waiting octets
    default: break;
  }
  mark_dirty(slot);
}

std::optional<std::errc> SimHost::route_to(const Address& peer, const Address& local, Route& out) const {
  const bool v4 = peer.family == Address::Family::v4;
  if (!v4 && !options_.ipv6) return std::errc::address_family_not_supported;
  if (!v4 && peer.is_link_local()) {
    // RFC 4007 §6: a link-local address is ambiguous without its link.
    if (peer.scope_id == 0) return std::errc::invalid_argument;
    if (peer.scope_id > nics_.size() || !nics_[peer.scope_id - 1].usable()) return std::errc::network_unreachable;
    out = {static_cast<std::uint16_t>(peer.scope_id - 1), LocalKind::link_local};
  } else {
    // 10.N.0.0/16 and 2001:db8:N::/64.
    const auto at = std::find_if(nics_.begin(), nics_.end(), [&](const Nic& nic) {
      return nic.usable() && (v4 ? same_prefix(nic.addresses.v4, peer, 2) : same_prefix(nic.addresses.v6, peer, 8));
    });
    if (at == nics_.end()) return std::errc::network_unreachable;
    out = {static_cast<std::uint16_t>(at - nics_.begin()), v4 ? LocalKind::v4 : LocalKind::v6};
  }
  const Address& own = nics_[out.port].addresses.of(out.kind);
  if (peer.octets == own.octets) return std::errc::host_unreachable;  // no loopback
  const bool own_source = local.family == own.family && local.octets == own.octets && local.scope_id == own.scope_id;
  if (!local.is_any() && !own_source) return std::errc::address_not_available;
  return std::nullopt;
}

void SimHost::open(const StreamCommand& command) {
  if (const auto error = open_connection(command)) {
    machine_->handle_connect_failed(now(), command.id, std::make_error_code(*error));
    stirred_ = true;
  }
}

std::optional<std::errc> SimHost::open_connection(const StreamCommand& command) {
  Route route;
  if (const auto error = route_to(command.address, command.local, route)) return error;
  ConnectionKey key{.peer = command.address.octets,
                    .local_port = command.local.port,
                    .peer_port = command.address.port,
                    .port = route.port,
                    .kind = route.kind};
  if (key.local_port == 0) {
    key.local_port = stack_->pick_port(key);
    if (key.local_port == 0) return std::errc::address_not_available;  // as Linux does when all ports are in use
  } else if (stack_->find(key) != SlotIndex::none || stack_->listens_on(command.address.family, key.local_port)) {
    return std::errc::address_in_use;
  }
  const std::uint32_t slot = stack_->add(key);
  if (slot == SlotIndex::none) return std::errc::too_many_files_open;
  const std::uint64_t drawn = rng_.next();
  TcpConnection& c = stack_->at(slot);
  c.tcp.emplace(options_.tcp, engine_.buffers, mss_of(route), static_cast<std::uint32_t>(drawn >> 32));
  c.phase = ConnectionPhase::opening;
  stack_->name(slot, command.id);
  count_stream();
  c.tcp->watch_peer(command.keepalive, command.dead_after);
  c.tcp->connect(now());
  mark_dirty(slot);
  return std::nullopt;
}

std::optional<std::errc> SimHost::check_local(const Address& local) const {
  if (local.family == Address::Family::v6 && !options_.ipv6) return std::errc::address_family_not_supported;
  if (local.is_any()) return std::nullopt;
  if (local.family == Address::Family::v6 && local.is_link_local() && local.scope_id == 0)
    return std::errc::invalid_argument;
  for (const Nic& nic : nics_) {
    if (nic.options.engine == NicEngine::none) continue;
    for (const LocalKind kind : {LocalKind::v4, LocalKind::v6, LocalKind::link_local}) {
      Address own = nic.addresses.of(kind);
      own.port = local.port;
      if (own == local) return std::nullopt;
    }
  }
  return std::errc::address_not_available;
}

void SimHost::listen(const StreamCommand& command) {
  Address local = command.address;
  auto error = check_local(local);
  if (!error) error = stack_->listen(command.id, local, command.backlog);
  if (Listener* listener = error ? nullptr : stack_->find_listener(command.id)) {
    listener->keepalive = command.keepalive;
    listener->dead_after = command.dead_after;
  }
  stirred_ = true;
  if (error)
    machine_->handle_listen_failed(now(), command.id, std::make_error_code(*error));
  else
    machine_->handle_listening(now(), command.id, local);
}

// Half-open connections are closed with their listener, silently: the peer's next segment is answered by RST.
bool SimHost::close_listener(StreamId id) {
  if (!stack_->unlisten(id)) return false;
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) {
    const TcpConnection& c = stack_->at(slot);
    if (c.phase == ConnectionPhase::half_open && c.listener == id) free_connection(slot);
  }
  return true;
}

void SimHost::close(std::uint32_t slot, bool reset) {
  TcpConnection& c = stack_->at(slot);
  if (c.phase == ConnectionPhase::opening) {
    free_connection(slot);  // RFC 9293 §3.10.4, §3.10.5: nothing is sent in SYN-SENT
    return;
  }
  if (reset)
    c.tcp->abort(now());
  else
    c.tcp->close(now());
  stack_->unname(slot);
  c.phase = ConnectionPhase::forgotten;
  c.blocked = false;
  --counters_.streams;
  mark_dirty(slot);
}

void SimHost::finish(std::uint32_t slot) {
  TcpConnection& c = stack_->at(slot);
  if (c.tcp->send_queue() != 0) {
    c.tcp->shutdown(now());
    c.finishing = true;
    return mark_dirty(slot);
  }
  const StreamId stream = c.stream;
  close(slot, false);
  delivered(stream);
}

void SimHost::delivered(StreamId stream) {
  machine_->handle_end(now(), stream, StreamEnd::delivered);
  stirred_ = true;
}

// Gathers the machine's output for the stream and queues as much as fits.
void SimHost::write(StreamId stream) {
  const std::uint32_t slot = stack_->find_stream(stream);
  if (slot == SlotIndex::none) return;
  TcpConnection& c = stack_->at(slot);
  if (c.phase != ConnectionPhase::up || c.blocked || stopped_) return;
  for (;;) {
    const std::size_t count = machine_->gather(stream, engine_.pieces);
    if (count == 0) return;
    std::size_t offered = 0, taken = 0;
    for (std::size_t i = 0; i < count; ++i) {
      offered += engine_.pieces[i].size();
      if (taken + engine_.pieces[i].size() == offered) taken += c.tcp->write(now(), engine_.pieces[i]);
    }
    if (taken != 0) {
      machine_->sent(now(), stream, taken);
      stirred_ = true;
      mark_dirty(slot);
      counters_.send_queue_peak = std::max(counters_.send_queue_peak, c.tcp->send_queue());
    }
    if (taken < offered) {
      c.blocked = true;
      return;
    }
    if (offered < small_write && count < engine_.pieces.size()) return;  // the machine names it again if there is more
  }
}

void SimHost::pump_machine() {
  if (stopped_) return;
  if (packets_ != nullptr)
    stirred_ = pump_packets() || stirred_;
  else
    (void)pump(*machine_, *this);
}

// Passes a connection's events to the machine, in order: established, octets, end. `in` points into a frame.
void SimHost::digest(ConnectionRef ref, ConstBytes in) {
  if (stopped_) return;
  bool delivered = false;
  for (;;) {
    TcpConnection* c = stack_->get(ref);
    if (c == nullptr || !c->tcp) return;
    const TcpEvent event = c->tcp->poll_event();
    if (event == TcpEvent::connected) {
      on_connected(ref);
      continue;
    }
    if (!delivered) {
      delivered = true;
      if (!in.empty() && !deliver(ref, in)) return;
      for (ConstBytes more = c->tcp->poll_received(); !more.empty(); more = c->tcp->poll_received())
        if (!deliver(ref, more)) return;
    }
    if (event != TcpEvent::none) {
      on_ended(ref, event);
      continue;
    }
    // An event that had to follow the octets.
    const TcpEvent late = c->tcp->poll_event();
    if (late == TcpEvent::none) {
      if (!c->finishing || c->phase != ConnectionPhase::up || c->tcp->send_queue() != 0) return;
      finish(ref.slot);
      return pump_machine();
    }
    on_ended(ref, late);
  }
}

// False if the connection is gone afterwards.
bool SimHost::deliver(ConnectionRef ref, ConstBytes in) {
  const TcpConnection* c = stack_->get(ref);
  if (c->phase == ConnectionPhase::up) {
    machine_->handle_bytes(now(), c->stream, in);
    stirred_ = true;
    pump_machine();
  }
  c = stack_->get(ref);
  return c != nullptr && c->tcp.has_value();
}

void SimHost::on_connected(ConnectionRef ref) {
  TcpConnection& c = *stack_->get(ref);
  if (c.phase == ConnectionPhase::opening) {
    c.phase = ConnectionPhase::up;
    machine_->handle_connected(now(), c.stream, info_of(c));
    stirred_ = true;
    pump_machine();
    return;
  }
  if (c.phase != ConnectionPhase::half_open) return;
  const StreamId listener = c.listener;
  if (Listener* l = stack_->find_listener(listener)) --l->half_open;
  c.phase = ConnectionPhase::up;
  stack_->name(ref.slot, serial_ += 2);
  count_stream();
  const bool taken = machine_->handle_accepted(now(), listener, c.stream, info_of(c));
  stirred_ = true;
  if (!taken)
    close(ref.slot, true);
  else
    pump_machine();
}

void SimHost::on_ended(ConnectionRef ref, TcpEvent event) {
  TcpConnection& c = *stack_->get(ref);
  const StreamId stream = c.phase == ConnectionPhase::up ? c.stream : 0;
  const bool opening = c.phase == ConnectionPhase::opening;
  const bool finishing = c.finishing && stream != 0;
  if (event == TcpEvent::fin) {
    if (stream == 0) return;
    machine_->handle_end(now(), stream, StreamEnd::fin);
    stirred_ = true;
    pump_machine();
    return;
  }
  if (event == TcpEvent::timeout) ++counters_.tcp_timeouts;
  send_segments(c);  // possibly a RST
  const StreamId opened = c.stream;
  free_connection(ref.slot);
  if (event == TcpEvent::closed) {
    if (!finishing) return;
    delivered(stream);
    return pump_machine();
  }
  if (opening) {
    const std::errc why = event == TcpEvent::timeout ? std::errc::timed_out : std::errc::connection_refused;
    machine_->handle_connect_failed(now(), opened, std::make_error_code(why));
  } else if (stream != 0) {
    machine_->handle_end(now(), stream, event == TcpEvent::timeout ? StreamEnd::timeout : StreamEnd::rst);
  } else {
    return;
  }
  stirred_ = true;
  pump_machine();
}

void SimHost::free_connection(std::uint32_t slot) {
  const TcpConnection& c = stack_->at(slot);
  if (c.phase == ConnectionPhase::half_open) {
    if (Listener* l = stack_->find_listener(c.listener)) --l->half_open;
  }
  if (c.phase == ConnectionPhase::opening || c.phase == ConnectionPhase::up) --counters_.streams;
  if (c.tcp) {
    retransmits_gone_ += c.tcp->retransmits();
    out_of_order_gone_ += c.tcp->out_of_order();
  }
  deadlines_.set(slot, never);
  stack_->at(slot).armed = never;
  stack_->remove(slot);
}

void SimHost::mark_dirty(std::uint32_t slot) {
  TcpConnection& c = stack_->at(slot);
  if (c.dirty) return;
  c.dirty = true;
  dirty_.push_back(stack_->ref(slot));
}

// After all other work: sends segments, handles their results, sets the next deadline.
void SimHost::flush() {
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    const ConnectionRef ref = dirty_[i];
    stack_->at(ref.slot).dirty = false;
    TcpConnection* c = stack_->get(ref);
    if (c == nullptr || !c->tcp) {
      // The slot now has another connection, which is queued after this one if it has something to send.
      if (stack_->at(ref.slot).tcp) mark_dirty(ref.slot);
      continue;
    }
    send_segments(*c);
    digest(ref, {});
    c = stack_->get(ref);
    if (c == nullptr || !c->tcp) continue;
    if (!c->time_wait && c->tcp->state() == TcpState::time_wait) stack_->note_time_wait(ref.slot);
    watch(ref.slot);
  }
  dirty_.clear();
}

void SimHost::watch(std::uint32_t slot) {
  TcpConnection& c = stack_->at(slot);
  const Instant at = c.tcp->next_deadline();
  if (at >= c.armed) return;  // too early; it was rearmed
  c.armed = at;
  deadlines_.set(slot, at);
}

void SimHost::send_segments(TcpConnection& c) {
  TcpOutput out;
  while (c.tcp->poll_segment(now(), out)) {
    if (out.header.rst()) ++counters_.resets_sent;
    out.header.source_port = c.key.local_port;
    out.header.destination_port = c.key.peer_port;
    send(c.key, out.header, out.payload, c.neighbour);
  }
}

void SimHost::send(const ConnectionKey& key, const wire::TcpHeader& header, std::span<const ConstBytes> payload,
                   NeighbourRef& neighbour) {
  const std::uint16_t id = key.kind == LocalKind::v4 ? ip_id_++ : std::uint16_t{0};
  FramePtr frame = write_segment(engine_.frames, nics_[key.port].addresses, key.kind, key.peer, header, payload, id);
  if (!neighbours_.valid(neighbour)) neighbour = neighbours_.find(key.port, peer_of(key), nics_[key.port].directory);
  const wire::Mac* mac = neighbours_.resolve(now(), neighbour);
  if (mac == nullptr) {
    neighbours_.wait(neighbour, std::move(frame));
    return;
  }
  std::copy(mac->begin(), mac->end(), frame->data());
  transmit(key.port, std::move(frame));
}

void SimHost::transmit(std::uint16_t port, FramePtr frame) {
  if (nics_[port].link == nullptr) return;
  ++counters_.frames_out;
  nics_[port].link->transmit(std::move(frame));
}

Address SimHost::local_of(const TcpConnection& c) const {
  Address local = nics_[c.key.port].addresses.of(c.key.kind);
  local.port = c.key.local_port;
  return local;
}

Address SimHost::peer_of(const ConnectionKey& key) const {
  Address peer;
  peer.family = key.kind == LocalKind::v4 ? Address::Family::v4 : Address::Family::v6;
  peer.octets = key.peer;
  peer.port = key.peer_port;
  if (key.kind == LocalKind::link_local) peer.scope_id = key.port + 1U;
  return peer;
}

StreamInfo SimHost::info_of(const TcpConnection& c) const {
  return {.local = local_of(c), .peer = peer_of(c.key), .emss = c.tcp->emss()};
}

std::uint16_t SimHost::mss_of(Route route) const {
  const Nic& nic = nics_[route.port];
  const std::size_t mtu = nic.options.mtu == 0 ? nic.link->mtu() : std::min(nic.options.mtu, nic.link->mtu());
  return static_cast<std::uint16_t>(mtu - std::min(mtu, ip_size(route.kind) + 20));
}

void SimHost::count_stream() {
  ++counters_.streams;
  counters_.streams_peak = std::max(counters_.streams_peak, counters_.streams);
}

}  // namespace parley::sim
