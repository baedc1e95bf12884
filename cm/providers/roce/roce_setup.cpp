// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set-up of a connection, from the user's command to Established or a failure.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "cm/ibcm/busy.hpp"
#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm::roce {
namespace {

using wire::ib::CmReject;
using wire::ib::Departure;

constexpr std::uint8_t min_rnr_timer = 12;             // 0.64 ms; Linux's 0 is 655 ms
constexpr std::size_t listeners_per_port = 64;         // each at a different address
constexpr std::uint32_t agent_pending_max = 1U << 20;  // not reached: the Manager's limits apply first

std::uint8_t depth(std::uint16_t wanted, std::uint32_t device_max) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>({wanted, device_max, 255}));
}

/// The type of a queue pair in the REQ.
ibcm::QpType service_type_of(QpType type) {
  if (type == QpType::uc) return ibcm::QpType::uc;
  return type == QpType::xrc_ini || type == QpType::xrc_tgt ? ibcm::QpType::xrc : ibcm::QpType::rc;
}

}  // namespace

Failure local_failure(const Step& step, const Error& error) {
  return {
      .step = step, .code = error.code(), .received = error.message(), .advice = "look at the limits in docs/roce.md"};
}

void Roce::carry_out(EndpointId id, Instant now) {
  if (Listener* l = find_listener(id)) {
    if (l->bind == 0) l->bind = bind(id, l->address, Address::any(l->address.family, 0));
    return;
  }
  Connection* c = find(id);
  if (c == nullptr) return;
  switch (c->phase) {
    case Phase::noted:
      c->start = now;
      core_->retries.begin(id, now);
      return start_attempt(*c, now);
    case Phase::decided: return decide(*c, now);
    case Phase::closing:
      set_deadline(*c, after(now, options_.linger));
      if (c->qp->sends_open() != 0) closing_.push_back(id);
      return check_closing(*c, now);
    default: return;
  }
}

void Roce::start_listening(Listener& l, const Address&) {
  if (l.up) return;
  const QpType type = l.options.qp_type;
  if (l.address.port == 0) {
    for (int tries = 0; tries < 65536 && (l.address.port == 0 || services_.contains(service_of(type, l.address.port)));
         ++tries)
      l.address.port = next_port();
  }
  const std::uint64_t service = service_of(type, l.address.port);
  std::vector<EndpointId>& there = services_[service];
  const bool taken = std::any_of(there.begin(), there.end(), [&](EndpointId id) {
    const Listener* other = find_listener(id);
    return other != nullptr && other->address == l.address;
  });
  const auto failed = [&](Errc code) {
    if (there.empty()) services_.erase(service);
    core_->push(
        ConnectFailed{core_->id(l.id), listen_failure(ib::step::send_request, make_error_code(code), l.address), true});
  };
  if (taken) return failed(Errc::address_in_use);
  if (there.size() >= listeners_per_port) return failed(Errc::no_space);
  if (there.empty()) {
    ibcm::ListenOptions options;
    options.sidr = type == QpType::ud;
    options.connected = !options.sidr;
    options.pending_max = agent_pending_max;
    options.when_full = when_full();
    options.retry_after = options_.retry_after;
    if (const auto listening = agent_.listen(service, options); !listening) return failed(Errc::no_space);
  }
  there.push_back(l.id);
  l.up = true;
  core_->push(Listening{core_->id(l.id), l.address});
}

/// What the agent does if there is no room. on_request() handles RoceWhenFull::refuse without the agent.
ibcm::OverloadAction Roce::when_full() const {
  if (plays(Departure::drops_when_full) || options_.when_full == RoceWhenFull::drop) return ibcm::OverloadAction::drop;
  return options_.when_full == RoceWhenFull::retry_after ? ibcm::OverloadAction::reject : ibcm::OverloadAction::mra;
}

void Roce::start_attempt(Connection& c, Instant now) {
  leave_agent(c);
  release(c.bind);
  set_deadline(c, never);
  enter(c, Phase::binding);
  c.local = c.asked_local.value_or(Address::any(c.peer.family, 0));
  if (c.local.port == 0) c.local.port = next_port();
  if (c.local.scope_id != 0 && nic::roce::is_scoped(c.local) && nic::roce::is_scoped(c.peer)) {
    // RFC 4007 §9: a packet with a link-local source stays on its link.
    if (c.peer.scope_id != 0 && c.peer.scope_id != c.local.scope_id)
      return fail_setup(
          c, now,
          plain_failure(ib::step::resolve_addr, Errc::bad_address, {},
                        fmt::format("{} is not on the link of {}", c.peer.to_string(), c.local.to_string()),
                        "let both addresses name one interface, or give no source address"));
    c.peer.scope_id = c.local.scope_id;
  }
  c.bind = bind(c.id, c.local, c.peer);
}

void Roce::request(Connection& c, Instant now) {
  const auto index = addresses_.add(c.local, c.peer);
  if (!index)
    return fail_setup(c, now,
                      plain_failure(ib::step::resolve_addr, Errc::no_space, {},
                                    fmt::format("{} addresses of this host are in use, which is the most",
                                                nic::roce::Addresses::most),
                                    "set ConnectOptions::local to one of them"));
  c.steps.transport = now - c.start;
  c.psn = next_psn();
  c.mtu = c.mtu_named.value_or(options_.mtu);
  if (c.datagrams()) return request_service(c, now);
  c.ack_timeout = options_.ack_timeout;
  ibcm::ConnectParameters p;
  p.service_id = service_of(QpType::rc, c.peer.port);
  p.path = path_to_peer(c);
  p.path.primary.local_ack_timeout = c.ack_timeout;
  c.path = p.path.primary;
  p.qp_type = service_type_of(c.options.qp_type);
  p.qpn = c.qp->qp_num();
  p.starting_psn = c.psn;
  p.responder_resources = depth(c.depths.ird, attr_.max_qp_rd_atom);
  p.initiator_depth = depth(c.depths.ord, attr_.max_qp_init_rd_atom);
  c.depths = {p.responder_resources, p.initiator_depth};
  p.retry_count = c.options.retry_count;
  p.rnr_retry_count = c.options.rnr_retry_count;
  p.path_mtu = static_cast<std::uint8_t>(c.mtu);
  p.timers = timers_of(c);
  p.offer_retry_after = options_.offer_retry_after;
  RequestData data;
  p.private_data = private_data_of(c, data);
  enter(c, Phase::requesting);
  unreachable_ = {};
  const auto id = agent_.connect(now, p);
  if (!id) return fail_setup(c, now, local_failure(ib::step::send_request, id.error()));
  join_agent(c, *id);
  c.steps.request = now - c.start;
}

ibcm::Path Roce::path_to_peer(const Connection& c) const {
  ibcm::Path path = ibcm::Path::roce(gid_of(c.local), gid_of(c.peer));
  // The same formula as in Linux; the UDP source port is derived from the flow label.
  path.primary.flow_label = (c.local.port * 31U + c.peer.port) & 0xFFFFF;
  path.primary.traffic_class = options_.traffic_class;
  if (const auto* own = addresses_.find(c.local, c.peer)) path.sgid_index = own->index;
  return path;
}

ibcm::Timers Roce::timers_of(const Connection& c) const {
  using Kind = ibcm::Timers::Kind;
  return {.kind = options_.spec_timers ? Kind::spec : Kind::back_off,
          .first = options_.resend_first,
          .cap = options_.resend_cap,
          .total = c.reply_timeout,
          .silence = c.options.reply_timeout > Duration{} ? Duration{} : c.watch.dead_after};
}

/// The private data of the request: the header of IBA Annex A11, then the user's octets.
ConstBytes Roce::private_data_of(const Connection& c, RequestData& room) {
  const MutBytes data = MutBytes(room).first(PARLEY_CMA_HEADER_LEN + c.private_data.size());
  Address destination = c.peer;
  destination.port = 0;
  wire::ib::CmaHeader{.source = c.local, .destination = destination}.emit(data);
  std::copy(c.private_data.begin(), c.private_data.end(), data.begin() + PARLEY_CMA_HEADER_LEN);
  return data;
}

// The listener at exactly this address; if there is none, one for all addresses.
Listener* Roce::listener_for(std::uint64_t service, const Address& local) const {
  const auto at = services_.find(service);
  if (at == services_.end()) return nullptr;
  Listener* found = nullptr;
  for (const EndpointId id : at->second) {
    Listener* l = find_listener(id);
    if (l == nullptr || l->address.family != local.family) continue;
    if (l->address.octets == local.octets && l->address.scope_id == local.scope_id) return l;
    if (l->address.is_any()) found = l;
  }
  return found;
}

void Roce::refuse(Instant now, ibcm::ConnectionId id, CmReject reason) {
  (void)agent_.reject(now, id, {.reason = reason});
  agent_.destroy(now, id);
}

/// The longest wait without any message of the peer. An MRA counts as a message.
Duration Roce::reply_timeout_of(const ib::Options& options, const nic::roce::QpWatch& watch) const {
  if (options.reply_timeout > Duration{}) return options.reply_timeout;
  return watch.dead_after > Duration{} ? std::min(options_.reply_timeout, watch.dead_after) : options_.reply_timeout;
}

/// A new connection for a request to a listener, for any transport service.
std::unique_ptr<Connection> Roce::connection_at(const Listener& l, ibcm::ConnectionId cm, const Address& local,
                                                const Address& peer) {
  auto made = make_from(spare_connections_);
  Connection& c = *made;
  c.phase = Phase::deciding;
  c.initiator = false;
  c.cm = cm;
  c.peer = peer;
  c.local = local;
  c.local.port = l.address.port;
  c.options = l.options;
  c.watch = l.watch;
  c.reply_timeout = reply_timeout_of(l.options, l.watch);
  return made;
}

/// A new connection with the values of the REQ, from this side's view.
std::unique_ptr<Connection> Roce::connection_of(const Listener& l, const ibcm::RequestReceived& event,
                                                const Address& local, const Address& peer) {
  const wire::ib::CmReq& req = event.request;
  auto made = connection_at(l, event.id, local, peer);
  Connection& c = *made;
  // The peer's initiator depth is this side's responder resources, and vice versa (IBA §12.7.29, §12.7.30).
  if (!c.unreliable()) {
    c.offered = {req.initiator_depth, req.responder_resources};
    c.depths = l.depths;
  }
  c.remote_psn = req.starting_psn;
  c.remote_qpn = req.local_qpn;
  c.remote_ca_guid = req.local_ca_guid;
  c.ack_timeout = req.primary.local_ack_timeout;
  c.options.retry_count = req.retry_count;
  c.rnr_retry = req.rnr_retry_count;
  c.mtu = static_cast<Mtu>(req.path_mtu);
  if (plays(Departure::takes_path_mtu)) c.mtu = req.path_mtu == 0 ? options_.mtu : std::min(c.mtu, options_.mtu);
  c.path = req.primary;
  std::swap(c.path.local_gid, c.path.remote_gid);
  return made;
}

/// An id for the peer's request. 0: there is no room, which is already reported to the Manager and the trace.
EndpointId Roce::admit(const Listener& l, const Address& peer, Instant now) {
  const EndpointId id = core_->ids.issue();
  const auto no_room = [&](ReachedLimit scarce) {
    core_->refused(l.id, scarce, peer, ib::step::send_request);
    trace_refused(l, scarce, peer);
    return EndpointId{0};
  };
  if (id == 0) return no_room(ReachedLimit::endpoints_max);
  core_->set_listener(id, l.id);
  const Pending::Answer answer = core_->pending.admit(id, peer);
  if (answer.evicted != 0) give_way(answer.evicted, now);
  if (answer.admitted) return id;
  core_->release(id);
  return no_room(ReachedLimit::pending_max);
}

/// Announces the request to the program, which decides.
void Roce::ask(const Listener& l, EndpointId id, std::unique_ptr<Connection> made, Bytes private_data, Instant now) {
  Connection& c = *made;
  c.id = id;
  c.bind = bind(id, c.local, c.peer);
  c.start = now;
  join_agent(c, c.cm);
  slot_for(id).connection = std::move(made);
  core_->ids.find(id)->announced = true;
  core_->pending.our_turn(id);
  if (!c.datagrams()) {
    limit_patience(c);
    watch_asker(c, now);
  }
  begin_trace(c);
  trace::record(c.trace.get(), trace::Admitted{});
  push_event(c, ConnectRequest{.listener = core_->id(l.id),
                               .id = core_->id(id),
                               .peer = c.peer,
                               .offered = parameters_of(c),
                               .private_data = std::move(private_data),
                               .ird = c.offered.ird,
                               .ord = c.offered.ord});
}

void Roce::on_request(Instant now, ibcm::RequestReceived& event) {
  const wire::ib::CmReq& req = event.request;
  const auto header = wire::ib::CmaHeader::parse(req.private_data);
  auto [local, peer] = addresses_.ends_at(event.from.sgid_index, event.from.source);
  const Listener* l = listener_for(req.service_id, local);
  if (l == nullptr) return refuse(now, event.id, CmReject::invalid_service_id);
  // IBA Annex A11.
  if (!header) return refuse(now, event.id, CmReject::consumer);
  if (event.qp_type != service_type_of(l->options.qp_type))
    return refuse(now, event.id, CmReject::invalid_transport_service);
  const bool any_mtu = plays(Departure::takes_path_mtu);
  if (!any_mtu && (req.path_mtu < 1 || req.path_mtu > static_cast<std::uint8_t>(options_.mtu))) {
    const auto largest =
        static_cast<std::uint8_t>(static_cast<unsigned>(options_.mtu) << 4);  // in the same bits as in the REQ
    (void)agent_.reject(now, event.id, {.reason = CmReject::invalid_path_mtu, .info = ConstBytes(&largest, 1)});
    return agent_.destroy(now, event.id);
  }
  peer.port = header->source.port;
  const EndpointId id = admit(*l, peer, now);
  if (id == 0) {
    const bool refused = options_.when_full == RoceWhenFull::refuse && !plays(Departure::drops_when_full);
    return refused ? refuse(now, event.id, CmReject::no_resources) : agent_.turn_away(now, event.id);
  }
  ask(*l, id, connection_of(*l, event, local, peer), bytes_of(req.private_data, PARLEY_CMA_HEADER_LEN), now);
}

void Roce::decide(Connection& c, Instant now) {
  set_deadline(c, never);
  const Instant dead = c.datagrams() ? never : asker_dead_at(c);
  c.steps.decision = now - c.start;
  record(c, trace::Decided{c.accept});
  if (!c.accept) {
    send_refusal(c, now, true);
    core_->pending.leave(c.id);
    return end(c);
  }
  c.psn = next_psn();
  if (c.datagrams()) return grant_service(c, now);
  // IBA §12.9.7.1: RTR before the REP, RTS after the RTU. In between, COMM_EST reports the peer's first packet.
  if (auto moved = to_rtr(c); !moved) {
    send_refusal(c, now, false);
    return fail_setup(c, now, local_failure(ib::step::ulp_decision, moved.error()));
  }
  ibcm::AcceptParameters p;
  p.qpn = c.qp->qp_num();
  p.starting_psn = c.psn;
  p.responder_resources = static_cast<std::uint8_t>(c.depths.ird);
  p.initiator_depth = static_cast<std::uint8_t>(c.depths.ord);
  p.rnr_retry_count = c.options.rnr_retry_count;
  p.private_data = c.private_data;
  p.timers = timers_of(c);
  // The peer's silence began before the REP.
  if (p.timers->silence > Duration{}) p.timers->total = std::min(p.timers->total, std::max(dead - now, Duration(1)));
  if (auto accepted = agent_.accept(now, c.cm, p); !accepted)
    return fail_setup(c, now, local_failure(ib::step::ulp_decision, accepted.error()));
  enter(c, Phase::accepting);
  unreachable_ = {};
  c.steps.reply = now - c.start;
  core_->pending.peers_turn(c.id);
}

Result<AhAttr> Roce::way_to_peer(const Connection& c) {
  const auto index = addresses_.add(c.local, c.peer);
  if (!index)
    return fail(Errc::no_space, "{a} addresses of this host are in use, which is the most", nic::roce::Addresses::most);
  return AhAttr{.grh = GlobalRoute{.dgid = gid_of(c.peer),
                                   .flow_label = c.path.flow_label,
                                   .sgid_index = *index,
                                   .hop_limit = c.path.hop_limit == 0 ? std::uint8_t{64} : c.path.hop_limit,
                                   .traffic_class = c.path.traffic_class},
                .sl = c.path.sl};
}

/// Moves the queue pair to RTR with the values of the REQ and the REP: it receives the peer's packets from now on.
Result<void> Roce::to_rtr(Connection& c) {
  const auto way = way_to_peer(c);
  if (!way) return tl::unexpected(way.error());
  if (c.qp->state() != QpState::init)
    return fail(Errc::wrong_state, "the queue pair is not in INIT: give each connection a fresh one");
  QpAttr rtr{.state = QpState::rtr};
  rtr.ah = *way;
  rtr.path_mtu = c.mtu;
  rtr.dest_qp_num = c.remote_qpn;
  rtr.rq_psn = c.psn;
  // Only a responder of acknowledged requests has these attributes.
  if (c.options.qp_type != QpType::xrc_ini && !c.unreliable()) {
    rtr.max_dest_rd_atomic = c.depths.ird;
    rtr.min_rnr_timer = plays(Departure::slow_rnr_timer) ? std::uint8_t{0} : min_rnr_timer;
  }
  return c.qp->modify(rtr);
}

Result<void> Roce::to_rts(Connection& c) {
  QpAttr rts{.state = QpState::rts};
  rts.sq_psn = c.remote_psn;
  if (c.unreliable()) return c.qp->modify(rts);  // nothing is acknowledged
  rts.timeout = c.ack_timeout;
  if (c.options.qp_type == QpType::xrc_tgt) return c.qp->modify(rts);  // the other attributes are a requester's
  rts.retry_cnt = c.options.retry_count;
  rts.rnr_retry = c.rnr_retry;
  rts.max_rd_atomic = c.depths.ord;
  return c.qp->modify(rts);
}

void Roce::on_reply(Connection& c, Instant now, ibcm::ReplyReceived& event) {
  c.steps.reply = now - c.start;
  const wire::ib::CmRep& rep = event.reply;
  c.remote_qpn = event.remote_qpn;
  c.remote_ca_guid = rep.local_ca_guid;
  c.remote_psn = rep.starting_psn;
  c.rnr_retry = rep.rnr_retry_count;
  c.depths = {std::min<std::uint16_t>(c.depths.ird, rep.initiator_depth),
              std::min<std::uint16_t>(c.depths.ord, rep.responder_resources)};
  const auto in_rtr = to_rtr(c);
  if (const auto moved = in_rtr ? to_rts(c) : in_rtr; !moved) {
    (void)agent_.reject(now, c.cm, {});
    return fail_setup(c, now, local_failure(ib::step::wait_reply, moved.error()));
  }
  if (auto ready = agent_.ready(now, c.cm, {}); !ready)
    return fail_setup(c, now, local_failure(ib::step::wait_reply, ready.error()));
  established(c, now, bytes_of(rep.private_data));
}

/// IBA §12.6.7.2 reason 26: the additional information has the largest MTU that the peer can use, in the same bits as
/// in the REQ. None: there is no MTU that is smaller than the requested one.
std::optional<Mtu> Roce::mtu_named_by(const Connection& c, const wire::ib::CmRej& rej) {
  if (rej.reason != CmReject::invalid_path_mtu || rej.info_length == 0) return std::nullopt;
  const auto code = static_cast<Mtu>(rej.info[0] >> 4);
  if (code < Mtu::octets_256 || code >= c.mtu) return std::nullopt;
  return code;
}

void Roce::on_rejected(Connection& c, Instant now, ibcm::Rejected& event) {
  const CmReject reason = event.reject.reason;
  if (c.live()) {
    hang_up(c, now);
    return disconnected(c,
                        plain_failure(step::data, Errc::peer_reset, {}, reject_sentence(reason),
                                      "the peer's side gave the connection up: look at its log"),
                        false);
  }
  // Retry once with the MTU that the peer named. A second MTU from the same peer is not trusted.
  if (const auto named = mtu_named_by(c, event.reject); named && c.phase == Phase::requesting && !c.mtu_named) {
    c.mtu_named = *named;
    leave_agent(c);
    return request(c, now);
  }
  // The agent has already waited and retried up to its limits.
  if (c.phase == Phase::requesting && options_.offer_retry_after && reason == CmReject::consumer &&
      ibcm::busy::retry_after_of(event.reject.private_data))
    return fail_setup(c, now,
                      plain_failure(ib::step::wait_reply, Errc::no_space, {}, "a REJ: the listener is full, come later",
                                    "connect again later, or raise reply_timeout"));
  if (c.initiator && reason == CmReject::consumer) {
    set_deadline(c, never);
    push_event(c, Rejected{.id = id_of(c),
                           .private_data = bytes_of(event.reject.private_data),
                           .parameters = parameters_of(c),
                           .why = plain_failure(ib::step::wait_reply, Errc::rejected, {}, reject_sentence(reason),
                                                "look at the peer's log, or at its private data")});
    return end(c);
  }
  const bool nobody = reason == CmReject::invalid_service_id;
  fail_setup(c, now,
             plain_failure(step_of(c), nobody ? Errc::refused : errc_of(reason), {}, reject_sentence(reason),
                           reject_advice(reason)));
}

ib::Parameters Roce::parameters_of(const Connection& c) const {
  ib::Parameters out;
  out.qp_type = c.options.qp_type;
  out.qp_num = c.qp ? c.qp->qp_num() : 0;
  out.remote_qp_num = c.remote_qpn;
  out.port_num = 1;
  if (const auto* own = addresses_.find(c.local, c.peer)) out.sgid_index = own->index;
  out.sgid = gid_of(c.local);
  out.dgid = gid_of(c.peer);
  out.path_mtu = c.mtu;
  out.remote_qkey = c.remote_qkey;
  out.remote_ca_guid = c.remote_ca_guid;
  out.ah = c.ah;
  out.retry_count = c.options.retry_count;
  out.rnr_retry_count = c.rnr_retry;
  out.timeout = c.ack_timeout;
  return out;
}

void Roce::established(Connection& c, Instant now, Bytes private_data) {
  if (!c.initiator && !c.datagrams()) {
    if (auto moved = to_rts(c); !moved) return fail_setup(c, now, local_failure(ib::step::wait_ready, moved.error()));
  }
  set_deadline(c, never);
  c.steps.established = now - c.start;
  enter(c, Phase::open);
  core_->pending.leave(c.id);
  core_->retries.forget(c.id);
  c.qp->watch(now, watch_of(c));
  push_event(c, Established{.id = id_of(c),
                            .parameters = parameters_of(c),
                            .private_data = std::move(private_data),
                            .ird = c.depths.ird,
                            .ord = c.depths.ord,
                            .steps = c.steps});
}

void Roce::give_way(EndpointId who, Instant now) {
  Connection* c = find(who);
  if (c == nullptr) return;
  const EndpointId listener = core_->ids.find(who)->listener;
  record(*c, trace::Evicted{.limit = limit_word(ReachedLimit::pending_max), .waited = now - c->start});
  send_refusal(*c, now, false);
  fail_setup(*c, now, core_->evicted(listener, ReachedLimit::pending_max, ib::step::wait_ready, now - c->start));
}

bool Roce::try_again(Connection& c, Instant now, Failure& why) {
  if (!c.initiator || !c.qp || c.qp->state() != QpState::init) return false;
  const auto again = core_->retries.next(c.id, why, now);
  if (!again) return false;
  leave_agent(c);  // a late answer is ignored
  const Address failed = std::exchange(c.peer, again->peer);
  push_event(c, Retrying{id_of(c), std::move(why), failed, c.peer, again->wait});
  if (again->wait == Duration{}) {
    start_attempt(c, now);
  } else {
    enter(c, Phase::waiting);
    set_deadline(c, after(now, again->wait));
  }
  return true;
}

void Roce::fail_setup(Connection& c, Instant now, Failure why) {
  if (try_again(c, now, why)) return;
  core_->pending.our_turn(c.id);
  set_deadline(c, never);
  push_event(c, ConnectFailed{.id = id_of(c),
                              .why = std::move(why),
                              .responder = !c.initiator,
                              .attempts = core_->retries.attempts(c.id),
                              .elapsed = now - c.start});
  end(c);
  leave_agent(c);
  if (c.qp && c.qp->state() != QpState::init) stop_qp(c);
}

}  // namespace parley::cm::roce
