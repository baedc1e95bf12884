// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The open connection: octets between the stream and the queue pair, and every way in which it ends.
#include <algorithm>
#include <utility>

#include "cm/providers/iwarp/iwarp_impl.hpp"

#include "base/text.hpp"

namespace parley::cm::iwarp {

void Iwarp::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  now_ = now;
  if (!retired_.empty()) free_retired();
  Connection* c = by_stream(stream);
  if (c == nullptr) return;
  switch (c->phase) {
    case Phase::open:
      feed_qp(*c, now, in);
      if (c->phase == Phase::open && !c->peer_fin) {  // the common case, as in sent()
        if (has_transmit(*c)) mark_ready(*c);
        return;
      }
      break;
    case Phase::closing: feed_qp(*c, now, in); break;
    case Phase::startup:
    case Phase::deciding:
    case Phase::decided: {
      const std::size_t taken = c->setup->startup->handle_bytes(now, in);
      drain_startup(*c, now);
      const ConstBytes rest = in.subspan(taken);
      if (c->phase == Phase::holding) {
        if (!rest.empty()) early_octets(*c, now, rest);
        break;
      }
      if (!c->attached || c->phase == Phase::over) break;
      if (c->phase == Phase::startup && !c->setup->early.empty()) {
        const Bytes head = std::exchange(c->setup->early, {});
        feed_qp(*c, now, head);
      }
      if (!rest.empty() && c->phase != Phase::over) feed_qp(*c, now, rest);
      break;
    }
    case Phase::holding: early_octets(*c, now, in); break;
    case Phase::noted:
    case Phase::waiting:
    case Phase::opening:
    case Phase::over: break;  // after the end nothing is delivered any more (RFC 5044 §8)
  }
  settle(*c, now);
}

void Iwarp::feed_qp(Connection& c, Instant now, ConstBytes in) {
  c.qp->handle_bytes(in);
  poll_qp(c, now);
}

void Iwarp::poll_qp(Connection& c, Instant now) {
  while (c.qp) {
    const auto event = c.qp->poll_event();
    if (!event) return;
    on_qp_event(c, now, *event);
  }
}

void Iwarp::on_qp_event(Connection& c, Instant now, const nic::iwarp::QpEvent& event) {
  using Kind = nic::iwarp::QpEvent::Kind;
  if (event.kind == Kind::first_fpdu) {
    // RFC 5044 §7.1.2 rule 4: the first valid FPDU lifts the responder's fence.
    if (event.form != mpa::Rtr::none)
      trace::record(c.trace.get(), trace::Rtr{.sent = false, .form = mpa::to_string(event.form)});
    if (c.phase == Phase::startup && c.setup->startup) {
      c.setup->startup->handle_first_fpdu(now, event.form);
      drain_startup(c, now);
    }
    return;
  }
  if (c.phase == Phase::over) return;
  Failure why = event.failure;
  if (event.kind == Kind::terminate_received && why.received.empty() && c.qp->terminate())
    why.received = terminate_text(*c.qp->terminate());
  if (why.advice.empty()) why.advice = "look at the peer's log for its side of the story";
  if (!why.code) why.code = make_error_code(Errc::terminated);
  const bool can_close = event.kind != Kind::failed;
  if (c.phase == Phase::startup) {
    const mpa::Parameters& agreed = c.setup->startup->parameters();
    why.step = agreed.rtr == mpa::Rtr::none ? mpa::step::wait_first_fpdu : mpa::step::wait_rtr;
    fail_setup(c, now, std::move(why),
               can_close ? mpa::StartupEvent::Close::graceful : mpa::StartupEvent::Close::reset);
    return;
  }
  disconnected(c, now, std::move(why), false);
  // RFC 5040 §6.2.1: a graceful close, so that the Terminate is delivered.
  if (can_close)
    begin_linger(c, now);
  else if (c.wire == Wire::up || c.wire == Wire::shut)
    drop_stream(c, StreamCommand::Kind::reset), stream_finished(c, now);
}

void Iwarp::disconnected(Connection& c, Instant now, Failure why, bool graceful) {
  (void)now;
  Disconnected told{.id = id_of(c), .graceful = graceful, .why = std::move(why)};
  if (const auto& terminate = c.qp->terminate()) told.end = *terminate;
  push_event(c, std::move(told));
  end(c);
}

void Iwarp::handle_end(Instant now, StreamId stream, StreamEnd end) {
  now_ = now;
  if (!retired_.empty()) free_retired();
  Connection* c = by_stream(stream);
  if (c == nullptr) return;
  if (end == StreamEnd::delivered) {
    if (c->wire != Wire::finishing) return;
    unmap_stream(stream);
    c->stream = 0;
    stream_finished(*c, now);
    refresh_deadline(*c);
    return;
  }
  trace_end(*c, end);
  if (end != StreamEnd::fin) {
    lose_stream(*c, now, end);
    return;
  }
  c->peer_fin = true;
  switch (c->phase) {
    case Phase::startup:
    case Phase::deciding:
    case Phase::decided:
      c->setup->startup->handle_end(now, false);
      drain_startup(*c, now);
      // A Startup in full operation ignores a FIN; the fenced queue pair then never gets its first FPDU.
      if (c->phase == Phase::startup && c->attached)
        fail_setup(*c, now, stream_lost(mpa::step::wait_first_fpdu, end, *c), mpa::StartupEvent::Close::graceful);
      break;
    case Phase::holding:
      // An echoing peer sends a Terminate before it closes, so a FIN alone is an honest peer's half close. The peer is
      // not recorded as honest: its next connection is watched again.
      c->setup->watching = false;
      end_hold(*c, now);
      if (c->phase == Phase::open) {
        c->qp->handle_end(false);
        poll_qp(*c, now);
      }
      break;
    case Phase::open:
    case Phase::closing:
      c->qp->handle_end(false);
      poll_qp(*c, now);
      break;
    default: break;
  }
  settle(*c, now);
}

void Iwarp::lose_stream(Connection& c, Instant now, StreamEnd end) {
  unmap_stream(c.stream);
  c.stream = 0;
  const bool finishing = std::exchange(c.wire, Wire::gone) == Wire::finishing;
  switch (c.phase) {
    case Phase::startup:
    case Phase::deciding:
    case Phase::decided:
      if (end == StreamEnd::timeout) {
        fail_setup(c, now, stream_lost(c.setup->startup->step(), end, c), mpa::StartupEvent::Close::none);
        break;
      }
      c.setup->startup->handle_end(now, true);
      drain_startup(c, now);
      if (c.phase == Phase::startup || c.phase == Phase::deciding || c.phase == Phase::decided)
        fail_setup(c, now, stream_lost(mpa::step::wait_first_fpdu, end, c), mpa::StartupEvent::Close::none);
      break;
    case Phase::opening:
      fail_setup(c, now, stream_lost(mpa::step::tcp_connect, end, c), mpa::StartupEvent::Close::none);
      break;
    case Phase::holding:
      if (c.setup->watching)
        echo_found(c, now, "RST right after the Rtr frame");
      else
        fail_setup(c, now, stream_lost(mpa::step::send_rtr, end, c), mpa::StartupEvent::Close::none);
      break;
    case Phase::open:
    case Phase::closing: {
      const Step& step = c.phase == Phase::closing ? step::closing : step::data;
      // Octets that arrived before the loss are already delivered; the queue pair flushes its work.
      c.qp->handle_end(true);
      disconnected(c, now, finishing ? not_acknowledged(end, options_.linger) : stream_lost(step, end, c), false);
      stream_finished(c, now);
      break;
    }
    default: stream_finished(c, now); break;
  }
  refresh_deadline(c);
}

// The connection has ended for the user. The remaining octets and both FINs must pass within `linger`.
void Iwarp::begin_linger(Connection& c, Instant now) {
  c.want_fin = true;
  c.deadline = after(now, options_.linger);
}

void Iwarp::drop_stream(Connection& c, StreamCommand::Kind how) {
  command(how, c.stream);
  c.in_ready = false;  // the entry in ready_ names the old stream
  unmap_stream(c.stream);
  c.stream = 0;
  c.wire = Wire::gone;
}

void Iwarp::stream_finished(Connection& c, Instant now) {
  c.wire = Wire::gone;
  c.deadline = never;
  c.setup.reset();
  c.tx = Bytes();
  c.tx_at = 0;
  if (orphan(c)) {
    core_->pending.leave(c.id);
    retired_.push_back(c.slot);
  } else if (c.phase == Phase::closing) {
    disconnected(c, now, {}, true);
  }
  if (c.qp) c.qp->flush();
}

bool Iwarp::has_transmit(const Connection& c) const {
  return c.wire == Wire::up && (c.tx_at < c.tx.size() || (c.attached && c.qp && c.qp->has_transmit()));
}

void Iwarp::mark_ready(Connection& c) {
  if (c.in_ready) return;
  c.in_ready = true;
  ready_.push_back(c.stream);
}

// Called after every input: marks the stream as ready to send, sends the FIN, or finishes the stream, as the state
// allows.
void Iwarp::settle(Connection& c, Instant now) {
  if (c.wire == Wire::up) {
    if (has_transmit(c)) {
      mark_ready(c);
    } else {
      if (c.phase == Phase::closing && !c.want_fin && c.qp->drained()) begin_linger(c, now);
      if (c.want_fin && !c.peer_fin) {
        command(StreamCommand::Kind::shutdown, c.stream);
        c.wire = Wire::shut;
        if (c.qp) c.qp->end_transmit();
        c.deadline = after(now, options_.linger);
      }
    }
  }
  const bool fin_may_go = c.want_fin && !has_transmit(c);
  if (c.peer_fin && (c.wire == Wire::shut || (c.wire == Wire::up && fin_may_go))) {
    if (c.phase == Phase::closing) {  // graceful only if the peer acknowledges all
      command(StreamCommand::Kind::finish, c.stream);
      c.wire = Wire::finishing;
      if (c.qp) c.qp->end_transmit();
      c.deadline = after(now, options_.linger);
    } else {
      drop_stream(c, StreamCommand::Kind::close);
      stream_finished(c, now);
    }
  } else if (c.peer_fin && c.phase == Phase::open) {
    // RFC 5044 §7.2: only the peer's half is closed. Work that is posted, now or later, is still sent.
    const bool idle = !has_transmit(c) && c.qp->drained();
    if (idle != c.grace || c.deadline == never) {
      c.grace = idle;
      c.deadline = after(now, idle ? options_.half_close_grace : options_.linger);
    }
  }
  refresh_deadline(c);
}

void Iwarp::refresh_deadline(Connection& c) {
  Instant at = c.deadline;
  const bool machine = c.phase == Phase::startup || c.phase == Phase::deciding || c.phase == Phase::decided;
  if (machine && c.setup && c.setup->startup) at = std::min(at, c.setup->startup->next_deadline());
  if (c.trace) [[unlikely]]
    trace_deadline(c, at);
  deadlines_.set(c.slot, at);
}

void Iwarp::on_deadline(Connection& c, Instant now) {
  if (c.trace) trace_expired(c);
  switch (c.phase) {
    case Phase::opening: {
      const Duration waited = c.setup->transport_timeout;
      drop_stream(c, StreamCommand::Kind::reset);
      Failure why = system_failure(mpa::step::tcp_connect, make_error_code(Errc::timed_out), c.peer);
      why.received = "nothing for " + limit_text(waited);
      fail_setup(c, now, std::move(why), mpa::StartupEvent::Close::none);
      return;
    }
    case Phase::startup:
    case Phase::deciding:
    case Phase::decided:
      c.setup->startup->handle_deadline(now);
      drain_startup(c, now);
      return;
    case Phase::holding: end_hold(c, now); break;
    case Phase::waiting: open_stream(c, now); return;
    case Phase::open:
      if (c.peer_fin && c.grace && c.qp->drained()) {
        enter(c, Phase::closing);
        c.qp->begin_close();
      } else if (c.peer_fin && !c.grace) {
        drop_stream(c, StreamCommand::Kind::reset);
        disconnected(c, now,
                     plain_failure(step::closing, Errc::timed_out, "RFC 5044 §7.2",
                                   "FIN, and then no octet taken for " + limit_text(options_.linger),
                                   "let the peer read until it has our FIN"),
                     false);
        stream_finished(c, now);
      }
      break;
    case Phase::closing:
    case Phase::over: {
      const bool fin_sent = c.wire == Wire::shut, finishing = c.wire == Wire::finishing;
      if (c.wire != Wire::up && !fin_sent && !finishing) return;
      drop_stream(c, StreamCommand::Kind::reset);
      if (finishing)
        disconnected(c, now, not_acknowledged({}, options_.linger), false);
      else if (c.phase == Phase::closing)
        disconnected(c, now,
                     plain_failure(step::closing, Errc::timed_out, "RFC 5044 §7.2",
                                   (fin_sent ? "no FIN for " : "no octet taken for ") + limit_text(options_.linger),
                                   "let the peer close its half, or allow a longer linger"),
                     false);
      stream_finished(c, now);
      return;
    }
    case Phase::noted: break;
  }
  settle(c, now);
}

// The time for all attempts is over.
void Iwarp::out_of_time(Connection& c, Instant now) {
  if (c.phase > Phase::startup) return;  // established, or holding: for the peer it is established
  const Step step = c.phase == Phase::startup ? c.setup->startup->step() : mpa::step::tcp_connect;
  if (c.phase == Phase::opening) drop_stream(c, StreamCommand::Kind::reset);
  fail_setup(c, now, cm::out_of_time(step, core_->retries.timeout(c.id)), mpa::StartupEvent::Close::reset);
  refresh_deadline(c);
}

void Iwarp::handle_deadline(Instant now) {
  now_ = now;
  free_retired();
  // Commands first: a decision that the user made before the deadline was checked counts as in time.
  core_->for_each_noted([&](EndpointId endpoint) {
    if (Listener* l = find_listener(endpoint))
      carry_out(*l);
    else if (Connection* c = find(endpoint))
      carry_out(*c, now);
  });
  while (const auto slot = deadlines_.pop_due(now)) {
    if (Connection* c = slots_[*slot].connection.get()) on_deadline(*c, now);
  }
  while (const auto late = core_->retries.pop_late(now))
    if (Connection* c = find(*late)) out_of_time(*c, now);
}

Instant Iwarp::next_deadline() const {
  const Instant next = std::min(deadlines_.next(), core_->retries.next_deadline());
  return core_->has_noted() ? std::min(now_, next) : next;
}

StreamId Iwarp::poll_ready() {
  while (nic::iwarp::StreamQp* qp = device_->poll_dirty()) {
    Connection* c = find(qp->owner);  // none: created by the user on the device, without a stream
    if (c == nullptr) continue;
    if (c->phase != Phase::over && qp->has_event()) core_->note(qp->owner);  // caused by a call of the user
    if (!has_transmit(*c)) continue;
    if (ready_.empty()) return c->stream;
    mark_ready(*c);
  }
  while (!ready_.empty()) {
    const StreamId stream = ready_.front();
    ready_.pop_front();
    if (Connection* c = by_stream(stream)) {
      c->in_ready = false;
      return stream;
    }
  }
  return 0;
}

std::size_t Iwarp::gather(StreamId stream, std::span<ConstBytes> out) {
  Connection* c = by_stream(stream);
  if (c == nullptr || c->wire != Wire::up || out.empty()) return 0;
  std::size_t n = 0;
  if (c->tx_at < c->tx.size()) out[n++] = ConstBytes(c->tx).subspan(c->tx_at);
  if (c->attached && c->qp && n < out.size()) n += c->qp->gather(out.subspan(n));
  return n;
}

void Iwarp::sent(Instant now, StreamId stream, std::size_t n) {
  now_ = now;
  Connection* c = by_stream(stream);
  if (c == nullptr || n == 0) return;
  if (const std::size_t startup = std::min<std::size_t>(n, c->tx.size() - c->tx_at); startup > 0) {
    c->tx_at += static_cast<std::uint32_t>(startup);
    n -= startup;
    if (c->tx_at == c->tx.size()) {
      c->tx = Bytes();
      c->tx_at = 0;
      if (c->setup) {
        const Duration at = now - c->setup->start;
        if (c->role == mpa::Role::responder) {
          c->setup->times.reply = at;
        } else if (!c->setup->request_timed) {
          c->setup->times.request = at;
          c->setup->request_timed = true;
        }
      }
    }
  }
  if (n > 0 && c->attached && c->qp) c->qp->sent(n);
  // A close that makes progress is not stuck.
  if (c->wire == Wire::up && c->deadline != never && (c->phase == Phase::closing || c->phase == Phase::over))
    c->deadline = after(now, options_.linger);
  if (c->wire == Wire::up && c->peer_fin && c->phase == Phase::open && !c->grace) c->deadline = never;
  if (c->phase == Phase::open && !c->peer_fin) {  // the common case: no deadline, no FIN
    if (has_transmit(*c)) mark_ready(*c);
    return;
  }
  settle(*c, now);
}

}  // namespace parley::cm::iwarp
