// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a connection is evicted when pending_max, endpoints or the driver's streams run out: cm/pending.hpp chooses which.
// docs/cm.md has the rules as a user sees them.
#include <utility>

#include "base/assert.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"

namespace parley::cm::iwarp {

bool Iwarp::admit(Connection& c, Instant now) {
  const Pending::Answer answer = core_->pending.admit(c.id, c.peer);
  if (!answer.admitted) turn_away(listener_of(c), ReachedLimit::pending_max, c.peer);
  if (answer.evicted != 0) give_way(answer.evicted, now, ReachedLimit::pending_max);
  return answer.admitted;
}

void Iwarp::turn_away(EndpointId listener, ReachedLimit scarce, const Address& peer) {
  core_->refused(listener, scarce, peer, mpa::step::wait_request);
  trace_refused(listener, scarce, peer);
}

bool Iwarp::make_room(Instant now, ReachedLimit scarce) {
  const EndpointId who = core_->pending.make_room();
  if (who != 0) give_way(who, now, scarce);
  return who != 0;
}

void Iwarp::give_way(EndpointId who, Instant now, ReachedLimit scarce) {
  Connection* c = find(who);
  PARLEY_ASSERT(c != nullptr && c->setup && c->wire == Wire::up);
  const Duration waited = now - c->setup->start;
  trace_evicted(*c, scarce, waited);
  const bool announced = core_->ids.find(who)->announced;
  const EndpointId listener = listener_of(*c);
  if (!announced && find_listener(listener) != nullptr) {
    // The user never saw it, so it needs no event of its own and is only counted.
    core_->gave_way(listener, scarce, c->peer, mpa::step::wait_request, waited);
    command(StreamCommand::Kind::reset, c->stream);
    free_slot(c->slot);
    return;
  }
  const bool owes_rtr = c->setup->startup->parameters().rtr != mpa::Rtr::none;
  const Step& step = !announced ? mpa::step::wait_request : owes_rtr ? mpa::step::wait_rtr : mpa::step::wait_first_fpdu;
  fail_setup(*c, now, core_->evicted(listener, scarce, step, waited), mpa::StartupEvent::Close::reset);
  refresh_deadline(*c);
}

bool Iwarp::handle_no_room(Instant now, StreamId listener) {
  now_ = now;
  free_retired();
  (void)listener;
  return make_room(now, ReachedLimit::streams);
}

}  // namespace parley::cm::iwarp
