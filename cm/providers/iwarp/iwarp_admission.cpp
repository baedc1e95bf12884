// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who may be pending, and who is evicted when pending_max, endpoints or the driver's streams run out: cm/admission.hpp
// chooses, this file carries it out and reports it. docs/cm.md has the rules as a user sees them.
#include <utility>

#include "base/assert.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"

namespace parley::cm::iwarp {

bool Iwarp::admit(Connection& c, Instant now) {
  Listener& l = *find_listener(c.listener);
  const Admission::Answer answer = l.pending.arrive(c.peer, c.id);
  if (!answer.ticket) {
    ++turned(l, Scarce::pending_max, c.peer).refused;
    return false;
  }
  c.pending = answer.ticket;
  if (answer.gave_way != 0) give_way(answer.gave_way, now, Scarce::pending_max);
  return true;
}

// The ULP has to decide, or the end waits to be polled: it still takes room, but there is nothing its peer can do.
void Iwarp::our_turn(Connection& c) {
  silent_.leave(std::exchange(c.silent, {}));
  if (Listener* l = find_listener(c.listener)) l->pending.hold(c.pending);
}

void Iwarp::peers_turn(Connection& c) {
  if (Listener* l = find_listener(c.listener)) l->pending.release(c.pending);
}

// RFC 5044 §7.1.2 rule 4: nothing obliges an accepted classic initiator to send first within any time.
void Iwarp::await_first_message(Connection& c) {
  uncount(c);
  c.silent = silent_.arrive(c.peer, c.id).ticket;
}

void Iwarp::uncount(Connection& c) {
  silent_.leave(std::exchange(c.silent, {}));
  if (!c.pending) return;
  const Admission::Ticket ticket = std::exchange(c.pending, {});
  if (Listener* l = find_listener(c.listener)) l->pending.leave(ticket);
}

// Something other than pending_max ran out: first to go is a half-open connection, at the listener with most of them.
bool Iwarp::make_room(Instant now, Scarce scarce) {
  Listener* most = nullptr;
  for (const EndpointId id : listeners_) {
    Listener* l = find_listener(id);
    if (most == nullptr || l->pending.half_open() > most->pending.half_open()) most = l;
  }
  EndpointId who = most == nullptr ? 0 : most->pending.give_way();
  if (who == 0) who = silent_.give_way();
  if (who == 0) return false;
  give_way(who, now, scarce);
  return true;
}

void Iwarp::give_way(EndpointId who, Instant now, Scarce scarce) {
  Connection* c = find(who);
  PARLEY_ASSERT(c != nullptr && c->setup && c->wire == Wire::up);
  c->pending = c->silent = {};  // its place is already free
  const Duration waited = now - c->setup->start;
  Listener* l = find_listener(c->listener);
  if (!c->announced && l != nullptr) {
    // The user never saw it, so it needs no event of its own and is only counted.
    Turned& note = turned(*l, scarce, c->peer);
    ++note.gave_way;
    note.waited = waited;
    command(StreamCommand::Kind::reset, c->stream);
    free_slot(c->slot);
    return;
  }
  const bool owes_rtr = c->setup->startup->parameters().rtr != mpa::Rtr::none;
  const mpa::Stage stage = !c->announced ? mpa::Stage::wait_request
                           : owes_rtr    ? mpa::Stage::wait_rtr
                                         : mpa::Stage::wait_first_fpdu;
  const std::uint32_t limit = scarce == Scarce::endpoints_max ? options_.endpoints_max
                              : l != nullptr                  ? l->options.pending_max
                                                              : 0;
  fail_setup(*c, now, no_room(stage, scarce, limit, "evicted for a newcomer, half-open for " + seconds_text(waited)),
             mpa::StartupEvent::Close::reset);
  refresh_deadline(*c);
}

Turned& Iwarp::turned(Listener& l, Scarce scarce, const Address& peer) {
  if (!l.turned.any()) {
    ProviderEvent event;
    event.kind = ProviderEvent::Kind::turned_away;
    event.endpoint = l.id;
    push_event(std::move(event));
  }
  l.turned.scarce = scarce;
  l.turned.peer = peer;
  l.turned.waited = {};
  return l.turned;
}

// What has accumulated until the event is polled.
void Iwarp::tell_turned(Listener& l, ProviderEvent& event) {
  const Turned note = std::exchange(l.turned, {});
  event.address = note.peer;
  event.responder = true;
  event.gave_way = note.gave_way;
  event.refused = note.refused;
  const std::uint32_t limit = note.scarce == Scarce::endpoints_max ? options_.endpoints_max : l.options.pending_max;
  event.why = no_room(mpa::Stage::wait_request, note.scarce, limit,
                      note.waited ? "evicted for a newcomer, half-open for " + seconds_text(*note.waited)
                                  : "refused: no connection could be evicted");
}

bool Iwarp::handle_no_room(Instant now, StreamId listener) {
  now_ = now;
  free_retired();
  (void)listener;
  return make_room(now, Scarce::streams);
}

}  // namespace parley::cm::iwarp
