// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace events of a negotiation: adds the session's number and addresses, which the session itself does not know.
#pragma once
#include <utility>

#include "parley/neg.hpp"
#include "parley/trace.hpp"

namespace parley::neg {

/// Records an event if there is a sink for its level.
template <class E>
void record(trace::Sink* sink, Instant now, const E& event) {
  if (sink == nullptr || E::level > sink->up_to) [[likely]]
    return;
  const trace::Event any(std::in_place_type<E>, event);
  sink->record({now, 0, {}, {}, any});
}

/// The sink of one session, with its number and addresses.
class Traced final : public trace::Sink {
 public:
  Traced(trace::Sink& to, std::uint64_t connection, const Address& of_local, const Address& of_peer)
      : local(of_local), peer(of_peer), to_(to), connection_(connection) {
    up_to = to.up_to;
  }
  void record(const trace::Record& record) override { to_.record({record.at, connection_, local, peer, record.event}); }
  Address local, peer;

 private:
  trace::Sink& to_;
  std::uint64_t connection_;
};

inline trace::NegWhy why_of(const Failure& why) {
  return {.problem = to_string(why.problem),
          .stage = to_string(why.stage),
          .round = why.round,
          .by_peer = why.by_peer,
          .text = why.text,
          .advice = why.advice};
}

}  // namespace parley::neg
