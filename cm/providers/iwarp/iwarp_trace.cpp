// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace records of the provider (parley/trace.hpp). These functions change no connection.
#include "cm/providers/iwarp/iwarp_impl.hpp"

namespace parley::cm::iwarp {
namespace {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::noted: return "noted";
    case Phase::waiting: return "waiting";
    case Phase::opening: return "opening";
    case Phase::startup: return "startup";
    case Phase::deciding: return "deciding";
    case Phase::decided: return "decided";
    case Phase::holding: return "holding";
    case Phase::open: return "open";
    case Phase::closing: return "closing";
    case Phase::over: return "over";
  }
  return "unknown";
}

/// What a connection's deadline is for.
std::string_view timer_of(const Connection& c) {
  switch (c.phase) {
    case Phase::opening: return "tcp_connect";
    case Phase::waiting: return "back_off";
    case Phase::holding: return "hold";
    case Phase::open: return c.grace ? "half_close" : "linger";
    case Phase::closing:
    case Phase::over: return "linger";
    default: return c.setup && c.setup->startup ? mpa::to_string(c.setup->startup->state()) : "none";
  }
}

std::string_view to_string(StreamEnd end) {
  switch (end) {
    case StreamEnd::fin: return "FIN";
    case StreamEnd::rst: return "RST";
    case StreamEnd::timeout: return "timeout";
    case StreamEnd::delivered: return "last ACK";
  }
  return "unknown";
}

}  // namespace

void Iwarp::begin_trace(Connection& c) {
  if (options_.trace == nullptr) return;
  c.trace = std::make_unique<trace::Scope>(trace::Scope{
      .sink = *options_.trace, .now = now_, .connection = ++connections_traced_, .local = c.local, .peer = c.peer});
}

trace::Scope Iwarp::trace_of(const Listener& l, const Address& peer) const {
  return {.sink = *options_.trace, .now = now_, .local = l.address, .peer = peer};
}

void Iwarp::trace_phase(const Connection& c, Phase to) {
  c.trace->local = c.local;
  c.trace->peer = c.peer;
  if (c.phase != to) c.trace->record(trace::CmState{.from = to_string(c.phase), .to = to_string(to)});
}

// destroy() must not fail: if the sink throws, the event is lost.
void Iwarp::trace_destroyed(const Connection& c) noexcept {
  try {
    c.trace->record(trace::CmState{.from = to_string(c.phase), .to = "gone"});
  } catch (...) {
  }
}

void Iwarp::trace_moved(const Connection& c) {
  c.trace->record(trace::CmState{.from = to_string(c.phase), .to = "moved"});
}

void Iwarp::trace_reasons(const trace::Scope& scope, const mpa::Reasons& reasons) {
  if (!scope.wants<trace::MpaReason>()) return;
  for (const std::string& reason : reasons) scope.record(trace::MpaReason{reason});
}

void Iwarp::trace_deadline(Connection& c, Instant at) const {
  if (at == c.trace->armed) return;
  c.trace->armed = at;
  if (at != never) c.trace->record(trace::TimerArmed{.timer = timer_of(c), .wait = at - now_});
}

void Iwarp::trace_expired(const Connection& c) {
  c.trace->armed = never;
  c.trace->record(trace::TimerExpired{timer_of(c)});
}

void Iwarp::trace_end(const Connection& c, StreamEnd end) const {
  trace::record(c.trace.get(), trace::TcpEnded{to_string(end)});
}

void Iwarp::trace_refused(EndpointId listener, ReachedLimit scarce, const Address& peer) const {
  const Listener* l = options_.trace == nullptr ? nullptr : find_listener(listener);
  if (l != nullptr) trace_of(*l, peer).record(trace::Refused{limit_word(scarce)});
}

void Iwarp::trace_evicted(const Connection& c, ReachedLimit scarce, Duration waited) const {
  trace::record(c.trace.get(), trace::Evicted{.limit = limit_word(scarce), .waited = waited});
}

}  // namespace parley::cm::iwarp
