// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The provider's trace (parley/trace.hpp). Nothing here changes the state of connections.
#include "base/gid.hpp"
#include "drivers/rdmacm/provider.hpp"

namespace parley::rdmacm {
namespace {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::resolved: return "resolved";
    case Phase::noted: return "noted";
    case Phase::waiting: return "waiting";
    case Phase::addr: return "addr";
    case Phase::route: return "route";
    case Phase::connecting: return "connecting";
    case Phase::deciding: return "deciding";
    case Phase::decided: return "decided";
    case Phase::accepting: return "accepting";
    case Phase::open: return "open";
    case Phase::breaking: return "breaking";
    case Phase::closing: return "closing";
    case Phase::over: return "over";
  }
  return "unknown";
}

/// A connection is "noted" once; waiting for a later turn, in another attempt, is "queued".
std::string_view word_of(const Connection& c, Phase phase) {
  return phase == Phase::noted && c.begun ? "queued" : to_string(phase);
}

/// The purpose of a connection's deadline.
std::string_view timer_of(const Connection& c) {
  switch (c.phase) {
    case Phase::addr: return "resolve_addr";
    case Phase::route: return "resolve_route";
    case Phase::connecting: return "wait_reply";
    case Phase::accepting: return "wait_ready";
    case Phase::waiting: return "back_off";
    case Phase::breaking: return "settle";
    case Phase::closing: return "linger";
    default: return "none";
  }
}

/// The name in rdma/rdma_cma.h, without "RDMA_CM_EVENT_".
std::string_view word_of(rdma_cm_event_type type) {
  switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED: return "ADDR_RESOLVED";
    case RDMA_CM_EVENT_ADDR_ERROR: return "ADDR_ERROR";
    case RDMA_CM_EVENT_ROUTE_RESOLVED: return "ROUTE_RESOLVED";
    case RDMA_CM_EVENT_ROUTE_ERROR: return "ROUTE_ERROR";
    case RDMA_CM_EVENT_CONNECT_REQUEST: return "CONNECT_REQUEST";
    case RDMA_CM_EVENT_CONNECT_RESPONSE: return "CONNECT_RESPONSE";
    case RDMA_CM_EVENT_CONNECT_ERROR: return "CONNECT_ERROR";
    case RDMA_CM_EVENT_UNREACHABLE: return "UNREACHABLE";
    case RDMA_CM_EVENT_REJECTED: return "REJECTED";
    case RDMA_CM_EVENT_ESTABLISHED: return "ESTABLISHED";
    case RDMA_CM_EVENT_DISCONNECTED: return "DISCONNECTED";
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return "DEVICE_REMOVAL";
    case RDMA_CM_EVENT_ADDR_CHANGE: return "ADDR_CHANGE";
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: return "TIMEWAIT_EXIT";
    default: return "unknown";
  }
}

bool is_iwarp(const Connection& c) { return c.device != nullptr && c.device->transport() == Transport::iwarp; }

}  // namespace

void Rdmacm::begin_trace(Connection& c) {
  if (options_.trace == nullptr) return;
  c.trace = std::make_unique<trace::Scope>(trace::Scope{
      .sink = *options_.trace, .now = now_, .connection = ++connections_traced_, .local = c.local, .peer = c.peer});
}

void Rdmacm::trace_moved(Connection& c) { record(c, trace::CmState{.from = to_string(c.phase), .to = "moved"}); }

trace::Scope Rdmacm::trace_of(const Listener& l, const Address& peer) {
  now_ = clock_now();
  return {.sink = *options_.trace, .now = now_, .local = l.address, .peer = peer};
}

void Rdmacm::trace_phase(Connection& c, Phase to) {
  c.trace->local = c.local;
  c.trace->peer = c.peer;
  if (c.phase == to) return;
  const std::string_view from = word_of(c, c.phase);
  c.begun = true;
  record(c, trace::CmState{.from = from, .to = word_of(c, to)});
}

// destroy() does not fail: if a sink throws, the event is lost.
void Rdmacm::trace_destroyed(Connection& c) noexcept {
  try {
    if (c.phase == Phase::decided && !c.accept) {
      record(c, trace::Decided{false});
      called(c, "rdma_reject", consumer_reject);
    }
    if (c.phase != Phase::over) record(c, trace::CmState{.from = word_of(c, c.phase), .to = "gone"});
  } catch (...) {
  }
  c.trace.reset();
}

void Rdmacm::trace_expired(const Connection& c) { record(c, trace::TimerExpired{timer_of(c)}); }

void Rdmacm::trace_way(const Connection& c) {
  Gid gid{};
  const rdma_ib_addr& gids = c.cm->route.addr.addr.ibaddr;
  std::copy(std::begin(gids.sgid.raw), std::end(gids.sgid.raw), gid.begin());
  const std::string text = is_iwarp(c) ? std::string() : gid_text(gid), device = c.device->name();
  c.trace->local = c.local;
  record(c, trace::Resolved{.local = c.local, .device = device, .gid = text});
}

void Rdmacm::trace_refused(const Listener& l, rdma_cm_id& request, cm::ReachedLimit scarce, const Address& peer) {
  const trace::Scope scope = trace_of(l, peer);
  const auto device = device_for(request.verbs);
  const bool iwarp = device && (*device)->transport() == Transport::iwarp;
  const bool datagrams = l.options.qp_type == QpType::ud;
  cm::trace_kernel_messages(scope, {.by = "CONNECT_REQUEST", .iwarp = iwarp, .datagrams = datagrams});
  scope.record(trace::Refused{cm::limit_word(scarce)});
  cm::trace_kernel_messages(scope,
                            {.by = "rdma_reject", .iwarp = iwarp, .datagrams = datagrams, .status = consumer_reject});
}

void Rdmacm::trace_kernel_event(Connection& c, const CmEvent& event) {
  record(c, trace::KernelEvent{.event = word_of(event.type), .status = event.status});
  // The peer's RTU, or its first message, which the device reported.
  if (event.type == RDMA_CM_EVENT_ESTABLISHED && c.notified) return;
  trace_kernel_messages(c, {.by = word_of(event.type),
                            .answer = event.type == RDMA_CM_EVENT_DISCONNECTED && c.disconnected,
                            .status = event.status});
}

void Rdmacm::trace_kernel_messages(const Connection& c, cm::RdmaCmStep told) {
  now_ = clock_now();
  told.initiator = c.initiator;
  told.iwarp = is_iwarp(c);
  told.datagrams = c.datagrams();
  told.answer = told.answer || (told.by == "rdma_disconnect" && c.peer_left);
  cm::trace_kernel_messages(*c.trace, told);
}

void Rdmacm::trace_event(const Connection& c, const cm::Event& event) {
  now_ = clock_now();
  const std::string device = c.device == nullptr ? std::string() : c.device->name();
  cm::trace_event(*c.trace, event, device);
}

void Rdmacm::push_event(const Listener& l, cm::Event event) {
  if (options_.trace != nullptr) cm::trace_event(trace_of(l, {}), event);
  core_->push(std::move(event));
}

}  // namespace parley::rdmacm
