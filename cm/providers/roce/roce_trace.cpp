// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Trace records of the provider (parley/trace.hpp).
#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm::roce {
namespace {

std::string_view word_of(Phase phase) {
  switch (phase) {
    case Phase::noted: return "noted";
    case Phase::waiting: return "waiting";
    case Phase::binding: return "binding";
    case Phase::requesting: return "requesting";
    case Phase::deciding: return "deciding";
    case Phase::decided: return "decided";
    case Phase::accepting: return "accepting";
    case Phase::open: return "open";
    case Phase::closing: return "closing";
    case Phase::over: return "over";
  }
  return "over";
}

}  // namespace

void Roce::begin_trace(Connection& c) {
  if (options_.trace == nullptr) return;
  c.trace = std::make_unique<trace::Scope>(trace::Scope{
      .sink = *options_.trace, .now = now_, .connection = ++connections_traced_, .local = c.local, .peer = c.peer});
}

void Roce::enter(Connection& c, Phase phase) {
  if (c.trace) [[unlikely]] {
    c.trace->local = c.local;
    c.trace->peer = c.peer;
    if (c.phase != phase) c.trace->record(trace::CmState{.from = word_of(c.phase), .to = word_of(phase)});
  }
  c.phase = phase;
}

// destroy() must not fail: if the sink throws, the event is lost.
void Roce::trace_destroyed(Connection& c) noexcept {
  if (!c.trace) return;
  try {
    if (c.phase != Phase::over) c.trace->record(trace::CmState{.from = word_of(c.phase), .to = "gone"});
  } catch (...) {
  }
  c.trace.reset();
}

void Roce::trace_refused(const Listener& l, ReachedLimit scarce, const Address& peer) {
  if (options_.trace == nullptr) return;
  const trace::Scope scope{.sink = *options_.trace, .now = now_, .local = l.address, .peer = peer};
  scope.record(trace::Refused{limit_word(scarce)});
}

}  // namespace parley::cm::roce
