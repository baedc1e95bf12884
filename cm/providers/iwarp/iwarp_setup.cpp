// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set-up of a connection, from the user's command to Established or a failure. mpa::Startup controls it.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "cm/providers/iwarp/iwarp_impl.hpp"
#include "mpa/quirks.hpp"
#include "wire/rdmap.hpp"

namespace parley::cm::iwarp {
namespace {

bool is_fpdu_form(mpa::Rtr rtr) { return rtr == mpa::Rtr::send || rtr == mpa::Rtr::write || rtr == mpa::Rtr::read; }

bool offers_rtr_frame(const mpa::Options& options) { return options.revision == 1 && options.rtr == mpa::Rtr::frame; }

// OFA 2007-10 Rtr §2: for a peer that does not support the Rtr frame, use the user's rtr_fallback, with S=0.
void give_up_rtr_frame(mpa::Options& options) {
  options.rtr = options.rtr_fallback == mpa::Rtr::frame ? mpa::Rtr::none : options.rtr_fallback;
  options.rtr_by_s = false;
}

}  // namespace

void Iwarp::carry_out(Listener& l) {
  if (l.up) return;
  StreamCommand listen;
  listen.kind = StreamCommand::Kind::listen;
  listen.id = l.stream;
  listen.address = l.address;
  listen.backlog = l.backlog;
  listen.keepalive = l.keepalive;
  listen.dead_after = l.dead_after;
  command(listen);
  l.up = true;
}

void Iwarp::carry_out(Connection& c, Instant now) {
  switch (c.phase) {
    case Phase::noted:
      c.setup->start = now;
      core_->retries.begin(c.id, now);
      open_stream(c, now);
      break;
    case Phase::decided: decide(c, now); break;
    case Phase::closing:
      c.qp->begin_close();
      poll_qp(c, now);
      if (c.phase != Phase::closing) break;
      c.deadline = after(now, options_.linger);
      settle(c, now);
      break;
    default: poll_qp(c, now);  // the user's modify() ended it; or it ended before its command was carried out
  }
}

void Iwarp::open_stream(Connection& c, Instant now) {
  if (offers_rtr_frame(c.setup->options) && c.setup->options.peer_quirk.empty() &&
      echoes_.of(c.peer) == EchoMemory::Trait::echoes) {
    give_up_rtr_frame(c.setup->options);
    push_event(c,
               Retrying{id_of(c),
                        plain_failure(mpa::step::send_request, Errc::unsupported, "OFA 2007-10 Rtr §2",
                                      "S=1 echoed and the Rtr frame refused, on an earlier connection",
                                      fmt::format("going on without S, with RTR {}", to_string(c.setup->options.rtr))),
                        c.peer, c.peer});
  }
  c.stream = next_stream(c.slot);
  enter(c, Phase::opening);
  c.wire = Wire::opening;
  c.peer_fin = c.want_fin = false;
  c.tx.clear();
  c.tx_at = 0;
  StreamCommand open;
  open.kind = StreamCommand::Kind::open;
  open.id = c.stream;
  open.address = c.peer;
  open.local = c.setup->bind_local ? c.setup->local : Address::any(c.peer.family, 0);
  open.keepalive = c.setup->keepalive;
  open.dead_after = c.dead_after;
  command(open);
  c.deadline = after(now, c.setup->transport_timeout);
  refresh_deadline(c);
}

void Iwarp::begin_startup(Connection& c, Instant now) {
  Setup& setup = *c.setup;
  setup.times.transport = now - setup.start;
  auto startup = mpa::Startup::create(mpa::Role::initiator, setup.options, setup.private_data, now);
  if (!startup) {
    // Only possible in a retry: connect() refuses contradictory options.
    fail_setup(c, now,
               plain_failure(mpa::step::send_request, Errc::invalid_argument, {}, startup.error().message(),
                             "choose options that hold for the fall-back too"),
               mpa::StartupEvent::Close::graceful);
    return;
  }
  enter(c, Phase::startup);
  c.deadline = never;
  setup.startup.emplace(std::move(*startup));
  setup.startup->set_trace(c.trace.get());
  drain_startup(c, now);
}

void Iwarp::drain_startup(Connection& c, Instant now) {
  // An event may end the set-up and free the Startup, or replace it.
  while (c.setup && c.setup->startup) {
    mpa::Startup& startup = *c.setup->startup;
    for (Bytes out = startup.poll_transmit(); !out.empty(); out = startup.poll_transmit()) {
      if (c.tx.empty())
        c.tx = std::move(out);
      else
        c.tx.insert(c.tx.end(), out.begin(), out.end());
    }
    auto event = startup.poll_event();
    if (!event) break;
    on_startup_event(c, now, *event);
    if (c.phase == Phase::opening || c.phase == Phase::waiting || c.phase == Phase::over) break;
  }
  settle(c, now);
}

void Iwarp::on_startup_event(Connection& c, Instant now, mpa::StartupEvent& event) {
  using Kind = mpa::StartupEvent::Kind;
  // The reasons are recorded at the end of the set-up.
  if (c.trace && event.kind != Kind::request && event.kind != Kind::fpdu_mode)
    trace_reasons(*c.trace, event.parameters.reasons);
  switch (event.kind) {
    case Kind::request: {
      enter(c, Phase::deciding);
      core_->ids.find(c.id)->announced = true;
      core_->pending.our_turn(c.id);
      c.setup->times.request = now - c.setup->start;
      const std::uint16_t ird = event.parameters.peer_ord, ord = event.parameters.peer_ird;
      push_event(c, ConnectRequest{core_->id(listener_of(c)), id_of(c), c.peer, std::move(event.parameters),
                                   std::move(event.private_data), ird, ord});
      return;
    }
    case Kind::fpdu_mode:
      if (attach(c, now, event.parameters, mpa::Rtr::none, true) && !c.setup->startup->leftover().empty()) {
        const ConstBytes head = c.setup->startup->leftover();
        c.setup->early.assign(head.begin(), head.end());  // fed before the octets that follow in the same input
      }
      return;
    case Kind::established:
      if (c.role == mpa::Role::initiator) {
        on_reply(c, now, event);
      } else if (c.attached || attach(c, now, event.parameters, mpa::Rtr::none, true)) {
        c.qp->release_fence();
        establish(c, now, event);
      }
      return;
    case Kind::rejected: {
      if (c.role == mpa::Role::responder) return;  // decide() has done it
      push_event(
          c, Rejected{id_of(c), std::move(event.private_data), std::move(event.parameters), std::move(event.failure)});
      end(c);
      begin_linger(c, now);
      return;
    }
    case Kind::terminate: refuse_with_terminate(c, now, event); return;
    case Kind::failed: fail_setup(c, now, std::move(event.failure), event.close); return;
    case Kind::retry_v1: {
      if (c.setup->retried_v1) {
        fail_setup(c, now, std::move(event.failure), mpa::StartupEvent::Close::graceful);
        return;
      }
      c.setup->retried_v1 = true;
      c.setup->options.revision = 1;  // RFC 6581 §10
      // Without S, the peer would deliver a Send to its ULP as a message. A zero-length Write serves MPA equally, and
      // the ULP does not see it.
      if (c.setup->options.rtr == mpa::Rtr::send && !c.setup->options.rtr_by_s) c.setup->options.rtr = mpa::Rtr::write;
      retry(c, now, std::move(event.failure), c.peer);
      return;
    }
  }
}

void Iwarp::on_reply(Connection& c, Instant now, mpa::StartupEvent& event) {
  Setup& setup = *c.setup;
  setup.times.reply = now - setup.start;
  const Duration delay = setup.startup->peer_quirk().first_fpdu_delay;
  // A peer that echoes reserved bits seems to confirm S, but does not support it: it sends a Terminate right after the
  // Rtr frame. Only a wait distinguishes it from an honest peer, so an unknown peer is watched once.
  setup.watching = event.parameters.rtr == mpa::Rtr::frame && setup.options.peer_quirk.empty() &&
                   options_.echo_watch > Duration{} && echoes_.of(c.peer) == EchoMemory::Trait::unknown;
  const Duration hold = std::max(delay, setup.watching ? options_.echo_watch : Duration{});
  if (hold > Duration{}) {
    enter(c, Phase::holding);
    setup.reply = std::make_unique<mpa::StartupEvent>(std::move(event));
    c.deadline = after(now, hold);
    return;
  }
  const mpa::Rtr rtr = is_fpdu_form(event.parameters.rtr) ? event.parameters.rtr : mpa::Rtr::none;
  if (attach(c, now, event.parameters, rtr, false)) establish(c, now, event);
}

void Iwarp::end_hold(Connection& c, Instant now) {
  mpa::StartupEvent event = std::move(*c.setup->reply);
  if (c.setup->watching) echoes_.note(c.peer, EchoMemory::Trait::honest);
  const Bytes early = std::move(c.setup->early);
  const mpa::Rtr rtr = is_fpdu_form(event.parameters.rtr) ? event.parameters.rtr : mpa::Rtr::none;
  if (!attach(c, now, event.parameters, rtr, false)) return;
  establish(c, now, event);
  if (!early.empty()) feed_qp(c, now, early);
}

// Octets that arrive before the queue pair is attached.
void Iwarp::early_octets(Connection& c, Instant now, ConstBytes in) {
  Setup& setup = *c.setup;
  setup.early.insert(setup.early.end(), in.begin(), in.end());
  if (setup.watching) {
    Reader first(setup.early);
    if (setup.reply->parameters.rx_markers) first.skip(4);  // RFC 5044 §7.1.2 rule 7: the stream begins with a marker
    first.skip(3);                                          // ULPDU_Length and the DDP control octet
    const std::uint8_t control = first.u8();
    if (!first.ok()) return;
    if ((control & PARLEY_RDMAP_OPCODE_MASK) == static_cast<std::uint8_t>(wire::RdmapOpcode::terminate)) {
      echo_found(c, now, "a Terminate right after the Rtr frame");
      return;
    }
  }
  if (setup.watching || setup.early.size() > early_max) end_hold(c, now);
}

void Iwarp::echo_found(Connection& c, Instant now, std::string received) {
  echoes_.note(c.peer, EchoMemory::Trait::echoes);
  if (core_->retries.is_late(c.id, now))
    return fail_setup(c, now, cm::out_of_time(mpa::step::send_rtr, core_->retries.timeout(c.id)),
                      mpa::StartupEvent::Close::reset);
  give_up_rtr_frame(c.setup->options);
  retry(c, now,
        plain_failure(
            mpa::step::send_rtr, Errc::unsupported, "OFA 2007-10 Rtr §2", std::move(received),
            fmt::format("the peer echoes S without knowing the Rtr frame; connecting again without S, with RTR {}",
                        to_string(c.setup->options.rtr))),
        c.peer);
}

bool Iwarp::attach(Connection& c, Instant now, mpa::Parameters& parameters, mpa::Rtr send_rtr, bool fenced) {
  const mpa::Quirk& played = c.setup->startup->play_quirk();
  nic::iwarp::AttachOptions options;
  options.role = c.role;
  // The reasons are for the user. They are moved aside, so that the queue pair does not copy them.
  mpa::Reasons reasons = std::move(parameters.reasons);
  parameters.reasons = {};
  options.parameters = parameters;
  parameters.reasons = std::move(reasons);
  options.emss = c.emss;
  options.send_rtr = send_rtr;
  options.fenced = fenced && !played.no_fence;
  options.trace = c.trace.get();
  options.rtr_stag_zero = played.rtr_stag_zero;
  options.refuses_stag_zero = played.refuses_stag_zero;
  options.terminate_nibbles_swapped = played.terminate_nibbles_swapped;
  options.terminate_llp_etype = played.terminate_llp_etype;
  if (auto attached = c.qp->attach(options); !attached) {
    fail_setup(
        c, now,
        plain_failure(c.role == mpa::Role::initiator ? mpa::step::send_rtr : mpa::step::ulp_decision, Errc::wrong_state,
                      {}, "the queue pair could not be attached: " + attached.error().message(),
                      "give each connection a fresh queue pair"),
        mpa::StartupEvent::Close::reset);
    return false;
  }
  c.attached = true;
  if (send_rtr != mpa::Rtr::none)
    trace::record(c.trace.get(), trace::Rtr{.sent = true, .form = mpa::to_string(send_rtr)});
  return true;
}

void Iwarp::establish(Connection& c, Instant now, mpa::StartupEvent& event) {
  c.setup->times.established = now - c.setup->start;
  const std::uint16_t ird = event.parameters.ird, ord = event.parameters.ord;
  push_event(
      c, Established{id_of(c), std::move(event.parameters), std::move(event.private_data), ird, ord, c.setup->times});
  enter(c, Phase::open);
  c.deadline = never;
  c.setup.reset();
  if (c.role == mpa::Role::responder)
    core_->pending.leave(c.id);
  else
    core_->retries.forget(c.id);
}

// RFC 6581 §8: the Reply is valid MPA but unacceptable. A Terminate, which is an FPDU, reports this to the peer.
void Iwarp::refuse_with_terminate(Connection& c, Instant now, mpa::StartupEvent& event) {
  if (!attach(c, now, event.parameters, mpa::Rtr::none, false)) return;
  c.qp->send_terminate(PARLEY_RDMAP_LAYER_LLP, 0, event.terminate_code);
  fail_setup(c, now, std::move(event.failure), mpa::StartupEvent::Close::graceful);
}

void Iwarp::decide(Connection& c, Instant now) {
  Setup& setup = *c.setup;
  const Decision decision = std::move(*setup.decision);
  setup.decision.reset();
  setup.times.decision = now - setup.start;
  trace::record(c.trace.get(), trace::Decided{decision.accept});
  if (!decision.accept) {
    if (!setup.startup->reject(now, decision.private_data)) {
      fail_setup(c, now,
                 plain_failure(mpa::step::ulp_decision, Errc::invalid_argument, {}, "the rejection could not be sent",
                               "use less private data"),
                 mpa::StartupEvent::Close::reset);
      return;
    }
    drain_startup(c, now);
    if (c.phase == Phase::over) return;  // the peer had already gone
    end(c);
    c.setup.reset();
    core_->pending.leave(c.id);
    if (c.wire == Wire::up) begin_linger(c, now);
    settle(c, now);
    return;
  }
  if (decision.options) setup.options = *decision.options;
  enter(c, Phase::startup);
  if (auto accepted = setup.startup->accept(now, setup.options, decision.private_data); !accepted) {
    fail_setup(c, now,
               plain_failure(mpa::step::ulp_decision, Errc::invalid_argument, {}, accepted.error().message(),
                             "choose options for accept() that fit the Request"),
               mpa::StartupEvent::Close::reset);
    return;
  }
  // RFC 5044 §7.1.2 rule 4: from here on a classic initiator may be silent without a time limit. The ULP on this side
  // knows the connection and can end it, so it no longer takes a place of pending connections.
  if (setup.startup->parameters().rtr == mpa::Rtr::none)
    core_->pending.await_first_message(c.id, c.peer);
  else
    core_->pending.peers_turn(c.id);
  drain_startup(c, now);
}

void Iwarp::retry(Connection& c, Instant now, Failure why, const Address& failed, Duration wait) {
  push_event(c, Retrying{id_of(c), std::move(why), failed, c.peer, wait});
  if (c.wire == Wire::up) drop_stream(c, StreamCommand::Kind::reset);
  c.setup->startup.reset();
  c.setup->reply.reset();
  c.setup->early.clear();
  c.setup->watching = c.setup->request_timed = false;
  c.local = c.setup->local;  // the previous stream's port is gone
  if (wait <= Duration{}) {
    open_stream(c, now);
    return;
  }
  enter(c, Phase::waiting);
  c.wire = Wire::none;
  c.deadline = after(now, wait);
  refresh_deadline(c);
}

// A new stream to the address that cm/retries.hpp chooses, with the user's original options.
bool Iwarp::try_again(Connection& c, Instant now, Failure& why) {
  if (c.role == mpa::Role::responder || c.attached) return false;
  const auto again = core_->retries.next(c.id, why, now);
  if (!again) return false;
  c.setup->options = *c.setup->asked;
  c.setup->retried_v1 = false;
  const Address failed = std::exchange(c.peer, again->peer);
  retry(c, now, std::move(why), failed, again->wait);
  return true;
}

void Iwarp::fail_setup(Connection& c, Instant now, Failure why, mpa::StartupEvent::Close close) {
  if (try_again(c, now, why)) return;
  core_->pending.our_turn(c.id);
  ConnectFailed failed{.id = id_of(c),
                       .why = std::move(why),
                       .responder = c.role == mpa::Role::responder,
                       .attempts = core_->retries.attempts(c.id),
                       .elapsed = now - c.setup->start};
  if (!orphan(c)) push_event(c, std::move(failed));
  end(c);
  if (c.wire == Wire::up && close == mpa::StartupEvent::Close::reset)
    drop_stream(c, StreamCommand::Kind::reset);
  else if (c.wire == Wire::up)
    begin_linger(c, now);
  if (c.wire == Wire::gone || c.wire == Wire::none) stream_finished(c, now);
}

void Iwarp::handle_connected(Instant now, StreamId stream, const StreamInfo& info) {
  now_ = now;
  free_retired();
  Connection* c = by_stream(stream);
  if (c == nullptr || c->phase != Phase::opening) return;
  c->wire = Wire::up;
  c->local = info.local;
  c->emss = info.emss;
  begin_startup(*c, now);
}

void Iwarp::handle_connect_failed(Instant now, StreamId stream, std::error_code why) {
  now_ = now;
  free_retired();
  Connection* c = by_stream(stream);
  if (c == nullptr || c->phase != Phase::opening) return;
  unmap_stream(stream);
  c->stream = 0;
  c->wire = Wire::gone;
  // If no local address was requested, the address cannot be the cause: no local port is free.
  const bool out_of_ports = why == std::errc::address_not_available && !c->setup->bind_local;
  fail_setup(*c, now,
             out_of_ports ? ports_exhausted(mpa::step::tcp_connect, c->peer)
                          : system_failure(mpa::step::tcp_connect, why, c->peer),
             mpa::StartupEvent::Close::none);
  refresh_deadline(*c);
}

}  // namespace parley::cm::iwarp
