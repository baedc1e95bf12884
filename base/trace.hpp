// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recording of trace events by machines (parley/trace.hpp), and the events as JSON.
#pragma once
#include <utility>

#include "base/json.hpp"
#include "parley/trace.hpp"

namespace parley::trace {

/// Records the events of one connection for a machine; adds the connection and the time, which is the last one passed
/// to the machine's owner.
struct Scope {
  Sink& sink;
  const Instant& now;
  std::uint64_t connection = 0;
  Address local{}, peer{};
  Instant armed = never;  ///< the last reported deadline

  template <class E>
  bool wants() const {
    return E::level <= sink.up_to;
  }
  template <class E>
  void record(const E& event) const {
    if (!wants<E>()) return;
    const Event any(std::in_place_type<E>, event);
    sink.record({now, connection, local, peer, any});
  }
};

/// Does nothing without a scope. If creating the event is expensive, check the scope first.
template <class E>
inline void record(const Scope* scope, const E& event) {
  if (scope != nullptr) [[unlikely]]
    scope->record(event);
}

/// {"event":"trace","name":"mpa.frame","level":"debug","at_us":42.1,"connection":1,"peer":"192.0.2.1:7471",
/// "fields":{...}}
Json to_json(const Record& record, Instant start);

}  // namespace parley::trace
