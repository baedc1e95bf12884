// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The system's events, and how connections end.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/text.hpp"
#include "drivers/clock.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"

namespace parley::rdmacm {
namespace {

constexpr int events_per_turn = 256;

CmEvent copy(const rdma_cm_event& event) {
  CmEvent out;
  out.type = event.event;
  out.status = event.status;
  out.cm = event.id;
  const rdma_cm_id* named = event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? event.listen_id : event.id;
  out.id = reinterpret_cast<EndpointId>(named->context);
  const rdma_conn_param& conn = event.param.conn;
  out.depths = {conn.responder_resources, conn.initiator_depth};
  if (conn.private_data != nullptr && conn.private_data_len != 0) {
    const auto* octets = static_cast<const std::uint8_t*>(conn.private_data);
    out.private_data.assign(octets, octets + conn.private_data_len);
  }
  // For datagrams the union has other fields from here on.
  if (event.id->qp_type == IBV_QPT_UD) {
    const rdma_ud_param& ud = event.param.ud;
    out.depths = {};
    out.service = {.ah = verbs::from_ibv(ud.ah_attr), .qp_num = ud.qp_num, .qkey = ud.qkey};
  }
  return out;
}

/// The step of a connection's set-up.
const cm::Step& step_of(const Connection& c) {
  switch (c.phase) {
    case Phase::route: return ib::step::resolve_route;
    case Phase::connecting: return ib::step::wait_reply;
    case Phase::accepting: return ib::step::wait_ready;
    default: return ib::step::resolve_addr;
  }
}

cm::Failure linger_over() {
  return cm::plain_failure(cm::step::closing, Errc::timed_out, {},
                           "requests were not complete when the time for them was over",
                           "raise RdmaHostOptions::linger, or see why the peer takes so long");
}

}  // namespace

cm::Failure event_failure(const cm::Step& step, int status, const Address& peer, std::string advice) {
  cm::Failure failure = cm::system_failure(step, {status < 0 ? -status : status, std::generic_category()}, peer);
  if (!advice.empty()) failure.advice = std::move(advice);
  return failure;
}

cm::Failure call_failure(const cm::Step& step, const Error& error, const Address& peer) {
  return {.step = step,
          .code = error.code(),
          .received = fmt::format("{}: {}", peer.to_string(), error.sentence()),
          .advice = "look at the device's limits and at the kernel's log"};
}

bool Rdmacm::poll_channel() {
  // Bounded, so that a flood of requests does not delay data and deadlines.
  for (int n = 0; n < events_per_turn; ++n) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event) != 0) return n != 0;
    CmEvent copied = copy(*event);
    rdma_ack_cm_event(event);     // at once: an id with an unacknowledged event could not be destroyed
    handle(copied, clock_now());  // calls of librdmacm take time, which the steps must include
  }
  return true;
}

void Rdmacm::handle(CmEvent& event, Instant now) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    if (Listener* l = find_listener(event.id)) return on_request(*l, now, event);
    rdma_destroy_id(event.cm);
    return;
  }
  Connection* c = find(event.id);
  if (c == nullptr || c->cm != event.cm) {
    Listener* l = find_listener(event.id);
    if (l == nullptr || l->cm != event.cm || event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
    rdma_destroy_id(std::exchange(l->cm, nullptr));
    push_event(*l, cm::ConnectFailed{core_->id(l->id),
                                     cm::plain_failure(ib::step::send_request, Errc::unreachable, {},
                                                       "the device under " + l->address.to_string() + " was removed",
                                                       "listen again when it is back"),
                                     true});
    return;
  }
  if (event.type == RDMA_CM_EVENT_DISCONNECTED) c->peer_left = true;
  if (c->trace) [[unlikely]]
    trace_kernel_event(*c, event);
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (c->phase == Phase::addr) on_address(*c, now);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (c->phase == Phase::route) on_route(*c, now);
      return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (c->phase == Phase::connecting) on_response(*c, now, event);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      if (c->datagrams()) {
        if (c->phase == Phase::connecting) on_granted(*c, now, event);
        return;
      }
      if (c->phase == Phase::connecting || c->phase == Phase::accepting)
        established(*c, now, c->initiator ? std::move(event.private_data) : Bytes{});
      return;
    case RDMA_CM_EVENT_REJECTED:
      if (c->phase == Phase::connecting || c->phase == Phase::accepting) return on_rejected(*c, now, event);
      if (!c->live()) return;
      hang_up(*c);
      return disconnected(*c,
                          cm::plain_failure(cm::step::data, Errc::peer_reset, {},
                                            cm::reject_sentence(static_cast<wire::ib::CmReject>(event.status)),
                                            "the peer's side gave the connection up: look at its log"),
                          false);
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return removed(*c, now);
    default: return handle_end(*c, now, event);
  }
}

void Rdmacm::handle_end(Connection& c, Instant now, CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      if (c.phase == Phase::addr)
        fail_setup(
            c, now,
            event_failure(ib::step::resolve_addr, event.status, c.peer,
                          event.status == -ENODEV ? "no RDMA device belongs to the interface that leads there" : ""));
      return;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      if (c.phase == Phase::route) fail_setup(c, now, event_failure(ib::step::resolve_route, event.status, c.peer, {}));
      return;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
      if (c.phase == Phase::resolved || c.phase == Phase::noted) {
        core_->resolver.forget(c.peer);
        drop_cm(c);  // the neighbour has moved: the path is no longer right, and is searched again
      } else if (c.phase == Phase::connecting && c.datagrams() && event.status > 0) {
        on_refused(c, now, event);
      } else if (c.phase == Phase::connecting || c.phase == Phase::accepting) {
        const cm::Step& step = c.initiator ? ib::step::wait_reply : ib::step::wait_ready;
        fail_setup(c, now, event_failure(step, event.status, c.peer, {}));
      } else if (c.phase == Phase::open || c.phase == Phase::closing) {
        core_->resolver.forget(c.peer);
        // Since Linux 6.0: the neighbour has another link-layer address. The connection continues.
        push_event(c, cm::AddressChanged{
                          id_of(c), cm::plain_failure(cm::step::data, Errc::unreachable, {},
                                                      "the link-layer address of " + c.peer.to_string() + " changed",
                                                      "nothing, if traffic continues; else connect again")});
      }
      return;
    case RDMA_CM_EVENT_ADDR_CHANGE:
      core_->resolver.forget(c.peer);
      if (c.phase != Phase::over)
        push_event(c, cm::AddressChanged{id_of(c), cm::plain_failure(cm::step::data, Errc::unreachable, {},
                                                                     "the address " + c.local.to_string() +
                                                                         " moved to another interface of this machine",
                                                                     "connect again if traffic stops")});
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      // The peer's confirmation was lost, but its disconnect also proves that it was there.
      if (c.phase == Phase::accepting) established(c, now, {});
      return on_disconnected(c, event);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      if (c.phase == Phase::over && c.told_disconnected && c.device->transport() != Transport::iwarp &&
          !std::exchange(c.told_exit, true))
        push_event(c, cm::TimewaitExit{id_of(c)});
      return;
    default: return;  // multicast
  }
}

void Rdmacm::on_disconnected(Connection& c, const CmEvent& event) {
  if (!c.live()) return;
  const bool asked = c.phase == Phase::closing;
  hang_up(c);
  if (c.silent > Duration{}) return silent_end(c, event.status == 0);
  if (c.broken != WcStatus::success) return broke(c);
  if (event.status != 0)
    return disconnected(c, event_failure(asked ? cm::step::closing : cm::step::data, event.status, c.peer, {}), false);
  if (c.forced) return disconnected(c, linger_over(), false);
  ended_by_itself(c, asked);
}

/// As far as is known, nothing failed. The kernel's DREQ has no private data, and its iWARP drivers do not report how
/// the peer's stream ended: only this side's own requests show whether everything was delivered.
void Rdmacm::ended_by_itself(Connection& c, bool asked) {
  if (c.left == 0) return disconnected(c, {}, true);
  disconnected(c, cm::requests_left(asked ? cm::step::closing : cm::step::data, c.left, asked), false);
}

void Rdmacm::on_broken(NicDevice& device, Instant now) {
  for (const auto& [qp_num, status] : device.take_broken()) {
    const auto at = by_qp_.find({&device, qp_num});
    Connection* c = at == by_qp_.end() ? nullptr : find(at->second);
    // A queue pair in RTS may break before the peer's confirmation arrives.
    if (c == nullptr || (!c->live() && c->phase != Phase::accepting)) continue;
    // Flushed requests do not show the cause.
    if (status != WcStatus::wr_flush_err && c->broken == WcStatus::success) c->broken = status;
    if (c->phase != Phase::open) continue;
    enter(*c, Phase::breaking);
    set_deadline(*c, now + settle_time);
  }
}

// The time limit for all attempts has passed.
void Rdmacm::out_of_time(Connection& c, Instant now) {
  if (!c.initiator || c.phase > Phase::connecting) return;
  core_->resolver.leave(c.id);  // the duration of this attempt is independent of the peer
  fail_setup(c, now, cm::out_of_time(step_of(c), core_->retries.timeout(c.id)));
}

void Rdmacm::on_deadline(Connection& c, Instant now) {
  if (c.phase == Phase::open) return watch(c, now);
  if (c.trace) [[unlikely]]
    trace_expired(c);
  switch (c.phase) {
    case Phase::waiting: return start_attempt(c, now);
    case Phase::addr:
    case Phase::route:
    case Phase::connecting:
    case Phase::accepting:
      return fail_setup(
          c, now,
          cm::plain_failure(step_of(c), Errc::timed_out, {}, "nothing for " + duration_text(now - c.start),
                            "check that the peer is up and that no firewall drops UDP port 4791"));
    case Phase::breaking: return c.silent > Duration{} ? silent_end(c, false) : broke(c);
    case Phase::closing:
      if (!c.disconnected && c.datagrams()) {
        hang_up(c);
        return disconnected(c, linger_over(), false);
      }
      if (!c.disconnected) {  // linger is over; the peer is notified anyway
        c.forced = true;
        hang_up(c);
        return set_deadline(c, after(now, options_.linger));
      }
      return disconnected(c,
                          cm::plain_failure(cm::step::closing, Errc::timed_out, {}, "no answer to the disconnect",
                                            "check that the peer is up"),
                          false);
    default: return;
  }
}

// Posted requests complete first, as Id::disconnect() promises.
void Rdmacm::check_closing(Connection& c, Instant now) {
  if (c.phase != Phase::closing || c.disconnected || (c.qp && c.qp->sends_open() != 0)) return;
  hang_up(c);
  if (c.datagrams()) return ended_by_itself(c, true);  // there is no peer to notify
  set_deadline(c, after(now, options_.linger));
}

// Reports how a connection with a failed request ended.
void Rdmacm::broke(Connection& c) {
  hang_up(c);
  const WcStatus status = std::exchange(c.broken, WcStatus::success);
  if (status == WcStatus::success)
    return disconnected(
        c,
        cm::plain_failure(cm::step::data, Errc::io, {}, "the queue pair went to ERR", "look for what moved it there"),
        false);
  const bool lost = status == WcStatus::retry_exc_err || status == WcStatus::resp_timeout_err;
  disconnected(c,
               cm::plain_failure(cm::step::data, lost ? Errc::timed_out : Errc::terminated, {},
                                 fmt::format("a request failed: {}", to_string(status)),
                                 lost ? "the peer does not acknowledge any more: check that it is up"
                                      : "look up the status in docs/verbs.md"),
               false);
}

void Rdmacm::drop_cm(Connection& c) {
  if (c.cm != nullptr) rdma_destroy_id(std::exchange(c.cm, nullptr));
}

void Rdmacm::hang_up(Connection& c) {
  if (std::exchange(c.disconnected, true)) return;
  (void)c.device->collect();  // requests confirmed so far; an iWARP driver may have flushed the rest
  c.left = c.qp ? c.qp->sends_unconfirmed() : 0;
  if (c.qp && c.device->transport() != Transport::iwarp) (void)c.qp->modify({.state = QpState::err});
  if (!c.datagrams() && rdma_disconnect(c.cm) == 0) called(c, "rdma_disconnect");
}

void Rdmacm::disconnected(Connection& c, cm::Failure why, bool graceful) {
  set_deadline(c, never);
  (void)c.device->collect();  // messages that the peer sent before, and flushed requests
  push_event(c, cm::Disconnected{.id = id_of(c), .graceful = graceful, .why = std::move(why)});
  c.told_disconnected = true;
  end(c);
}

void Rdmacm::removed(Connection& c, Instant now) {
  if (c.device != nullptr) core_->resolver.forget(*c.device);
  const std::string name = c.device != nullptr ? c.device->name() : "its device";
  const auto gone = [&](const cm::Step& step) {
    return cm::plain_failure(step, Errc::unreachable, {}, "the device " + name + " was removed",
                             "destroy what was made on it; connect through another");
  };
  if (c.phase != Phase::over) push_event(c, cm::DeviceRemoved{id_of(c), c.device, gone(cm::step::data)});
  if (c.live()) {
    hang_up(c);
    disconnected(c, gone(cm::step::data), false);
  } else if (c.phase != Phase::over) {
    set_deadline(c, never);
    report_failed(c, now, gone(c.initiator ? ib::step::send_request : ib::step::ulp_decision));
    end(c);
  }
  drop_cm(c);
  if (c.own) drop_qp(c);
  if (c.device != nullptr) c.device->mark_gone();
}

void Rdmacm::remove_device(const NicDevice& device, Instant now) {
  core_->resolver.forget(device);
  for (Slot& slot : slots_)
    if (slot.connection && slot.connection->device == &device &&
        (slot.connection->cm != nullptr || slot.connection->phase == Phase::resolved))
      removed(*slot.connection, now);
}

// Objects on the device are destroyed when the program releases it; the system's removal waits for that.
void Rdmacm::release_removed() {
  for (const auto& device : devices_) {
    if (!device->node_gone() || device->released() || !device->idle()) continue;
    device->release();
    if (shown_.size() > 1) std::erase(shown_, device.get());  // devices() has at least one; calls on this one fail
  }
}

void Rdmacm::handle_node_removed(std::string_view node) {
  for (const auto& device : devices_)
    if (!device->released() && device->node() == node) {
      device->mark_node_gone();
      remove_device(*device, clock_now());
    }
}

void Rdmacm::end(Connection& c) {
  enter(c, Phase::over);
  set_deadline(c, never);
  core_->retries.forget(c.id);
  std::erase(closing_, c.id);
  core_->ids.find(c.id)->over = true;
}

}  // namespace parley::rdmacm
