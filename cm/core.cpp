// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/core.hpp"

#include "base/text.hpp"
#include "cm/failure_text.hpp"

namespace parley::cm {
namespace {

std::string half_open_text(Duration waited) { return "evicted for a newcomer, half-open for " + limit_text(waited); }

}  // namespace

std::uint32_t Core::limit_of(EndpointId listener, Scarce scarce) const {
  return scarce == Scarce::endpoints_max ? ids.max() : pending.limit_of(listener);
}

Turned* Core::note_turned(EndpointId listener, Scarce scarce, const Address& peer, const Step& step) {
  Turned* note = pending.turned(listener);
  if (note == nullptr) return nullptr;
  if (!note->any()) events.push(TurnedAway{.id = id(listener), .peer = peer, .why = {}});
  note->scarce = scarce;
  note->peer = peer;
  note->waited = {};
  note->step = step;
  return note;
}

void Core::tell_turned(TurnedAway& event) {
  Turned* kept = pending.turned(event.id.number());
  if (kept == nullptr) return;
  const Turned note = std::exchange(*kept, {});
  event.peer = note.peer;
  event.gave_way = note.gave_way;
  event.refused = note.refused;
  event.why = no_room(note.step, note.scarce, limit_of(event.id.number(), note.scarce),
                      note.waited ? half_open_text(*note.waited) : "refused: no connection could be evicted");
}

Failure Core::evicted(EndpointId listener, Scarce scarce, const Step& step, Duration waited) const {
  return no_room(step, scarce, limit_of(listener, scarce), half_open_text(waited));
}

}  // namespace parley::cm
