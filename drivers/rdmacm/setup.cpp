// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// From the start to Established, or to a failure.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/clock.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"

namespace parley::rdmacm {
namespace {

using asio_driver::from_sockaddr;
using asio_driver::SockAddr;
using asio_driver::to_sockaddr;
using wire::ib::CmReject;

Address address_of(const sockaddr* address) {
  SockAddr from;
  const std::size_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&from.storage, address, size);
  from.size = static_cast<socklen_t>(size);
  return from_sockaddr(from);
}

int milliseconds(Duration time) {
  return static_cast<int>(std::clamp<std::int64_t>(time.count() / 1'000'000, 1, 3'600'000));
}

Mtu port_mtu(const NicDevice& device, std::uint8_t port) {
  ibv_port_attr attr{};
  return ibv_query_port(device.context(), port, &attr) == 0 ? static_cast<Mtu>(attr.active_mtu) : Mtu::octets_256;
}

/// In the format of rdma_conn_param: 8 bits, within the device's capability.
std::uint8_t depth(std::uint16_t wanted, std::uint32_t device_max) {
  return static_cast<std::uint8_t>(std::min<std::uint32_t>({wanted, device_max, 254}));
}

Error last_error(std::string_view call) { return verbs::refused(errno, call).value(); }

}  // namespace

rdma_conn_param param_of(const Connection& c) {
  rdma_conn_param param{};
  param.private_data = c.private_data.data();
  param.private_data_len = static_cast<std::uint8_t>(c.private_data.size());
  const DeviceAttr& attr = c.device->attr();
  param.responder_resources = depth(c.depths.ird, attr.max_qp_rd_atom);
  param.initiator_depth = depth(c.depths.ord, attr.max_qp_init_rd_atom);
  param.retry_count = c.retry_count;
  param.rnr_retry_count = c.rnr_retry_count;
  param.qp_num = c.qp->qp_num();
  return param;
}

void Rdmacm::carry_out(EndpointId id, Instant now) {
  if (Listener* l = find_listener(id)) {
    if (l->cm == nullptr) start_listening(*l);
    return;
  }
  Connection* c = find(id);
  if (c == nullptr) return;
  if (c->phase == Phase::noted) {
    if (c->start == Instant{}) {  // not for a later attempt
      c->start = now;
      core_->retries.begin(id, now);
    }
    if (c->cm != nullptr && !c->search) return request(*c, now);  // resolved before
    start_attempt(*c, now);
  } else if (c->phase == Phase::decided) {
    decide(*c, now);
  } else if (c->phase == Phase::closing) {
    closing_.push_back(id);
    set_deadline(*c, after(now, options_.linger));
    check_closing(*c, now);
  }
}

void Rdmacm::start_listening(Listener& l) {
  const auto failed = [&] {
    const std::error_code why(errno, std::generic_category());
    push_event(l, cm::ConnectFailed{core_->id(l.id), cm::listen_failure(ib::step::send_request, why, l.address), true});
  };
  if (!create_id(l.cm, l.id, l.options.qp_type, l.address)) return failed();
  SockAddr local = to_sockaddr(l.address);
  if (!is_bound(l.options.qp_type) && rdma_bind_addr(l.cm, local.get()) != 0) return failed();
  if (rdma_listen(l.cm, l.backlog) != 0) return failed();
  l.address.port = ntohs(rdma_get_src_port(l.cm));
  push_event(l, cm::Listening{core_->id(l.id), l.address});
}

void Rdmacm::start_waiting(Instant now) {
  while (const auto turn = core_->resolver.next(now)) {
    Connection* c = find(turn->id);
    if (c == nullptr || c->phase != Phase::noted) {
      core_->resolver.leave(turn->id);
    } else if (turn->failed) {
      fail_setup(*c, now, turn->failed->of(c->peer, now - turn->at));
    } else {
      begin_search(*c, now);
    }
  }
}

void Rdmacm::start_attempt(Connection& c, Instant now) {
  enter(c, Phase::noted);
  set_deadline(c, never);
  if (c.search && report_known(c, now)) return;
  core_->resolver.ask(c.id, {c.peer, c.asked_local}, core_->retries.attempts(c.id) > 1, now);
}

// connect() must search in any case: the result belongs to another rdma_cm_id.
bool Rdmacm::report_known(Connection& c, Instant now) {
  const cm::Resolver::Key key(c.peer, c.asked_local);
  const cm::FoundPath* known = core_->resolver.known(key, now);
  if (known == nullptr || known->device == nullptr || known->reason.empty()) return false;
  cm::FoundPath way = *known;
  way.reason += ", as found " + duration_text(std::max(now - core_->resolver.known_since(key), Duration{})) + " ago";
  c.device = static_cast<NicDevice*>(way.device);
  c.local = way.local;
  enter(c, Phase::resolved);
  report_resolved(c, std::move(way));
  return true;
}

void Rdmacm::begin_search(Connection& c, Instant now) {
  drop_cm(c);
  enter(c, Phase::addr);
  c.nic = {};
  c.nic.create_id.begin = clock_now();
  if (!create_id(c.cm, c.id, c.type, c.asked_local.value_or(Address::any(c.peer.family, 0))))
    return fail_setup(c, now, call_failure(ib::step::resolve_addr, last_error("rdma_create_id: errno {a}"), c.peer));
  c.nic.create_id.end = c.nic.resolve_addr.begin = clock_now();
  SockAddr local = to_sockaddr(c.asked_local.value_or(Address{})), peer = to_sockaddr(c.peer);
  const Duration limit = c.resolve_timeout;
  const bool from = c.asked_local && !is_bound(c.type);
  if (rdma_resolve_addr(c.cm, from ? local.get() : nullptr, peer.get(), milliseconds(limit)) != 0)
    return fail_setup(c, now, cm::system_failure(ib::step::resolve_addr, {errno, std::generic_category()}, c.peer));
  set_deadline(c, after(after(now, limit), limit));
}

void Rdmacm::on_address(Connection& c, Instant now) {
  c.nic.resolve_addr.end = now;
  c.local = address_of(rdma_get_local_addr(c.cm));
  const auto device = device_for(c.cm->verbs);
  if (!device) return fail_setup(c, now, call_failure(ib::step::resolve_addr, device.error(), c.peer));
  if (c.own && c.device != *device) drop_qp(c);  // of an earlier attempt over another device
  if (c.qp && &c.qp->device() != *device) {
    return fail_setup(c, now,
                      cm::plain_failure(ib::step::resolve_addr, Errc::invalid_argument, {},
                                        "the route to " + c.peer.to_string() + " leads through " + (*device)->name() +
                                            ", and the queue pair is of " + c.qp->device().name(),
                                        "make the queue pair on the device that Id::device() of an attempt without one "
                                        "names, or set ConnectOptions::local"));
  }
  c.device = *device;
  enter(c, Phase::route);
  c.nic.resolve_route.begin = clock_now();
  if (rdma_resolve_route(c.cm, milliseconds(c.resolve_timeout)) != 0)
    return fail_setup(c, now, cm::system_failure(ib::step::resolve_route, {errno, std::generic_category()}, c.peer));
}

void Rdmacm::on_route(Connection& c, Instant now) {
  c.nic.resolve_route.end = now;
  if (c.trace && !c.search) [[unlikely]]
    trace_way(c);
  // The information for resolve() requires additional calls.
  cm::FoundPath way = c.search ? way_of(c) : cm::FoundPath{};
  core_->resolver.found(c.id, way, now);
  if (!c.search) return request(c, now);
  set_deadline(c, never);
  enter(c, Phase::resolved);
  report_resolved(c, std::move(way));
}

void Rdmacm::request(Connection& c, Instant now) {
  if (!c.qp) {
    c.nic.create_qp = {clock_now(), {}};
    if (auto made = make_qp(c, *c.device, nullptr); !made)
      return fail_setup(c, now, call_failure(ib::step::send_request, made.error(), c.peer));
    c.nic.create_qp->end = clock_now();
  }
  c.nic.connect.begin = clock_now();
  enter(c, Phase::connecting);
  c.steps.transport = now - c.start;
  rdma_conn_param param = param_of(c);
  if (rdma_connect(c.cm, &param) != 0)
    return fail_setup(c, now, cm::system_failure(ib::step::send_request, {errno, std::generic_category()}, c.peer));
  c.steps.request = now - c.start;
  called(c, "rdma_connect");
  set_deadline(c, after(now, c.reply_timeout));
}

// The kernel knows the negotiated values; an iWARP device has few attributes, and does most itself.
Result<void> Rdmacm::advance(Connection& c, ibv_qp_state state) {
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = state;
  if (rdma_init_qp_attr(c.cm, &attr, &mask) != 0) return verbs::refused(errno, "rdma_init_qp_attr: errno {a}");
  const DeviceAttr& device = c.device->attr();
  if (!c.initiator && (mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0)
    attr.max_dest_rd_atomic = depth(c.depths.ird, device.max_qp_rd_atom);
  if (!c.initiator && (mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    attr.max_rd_atomic = depth(c.depths.ord, device.max_qp_init_rd_atom);
  if (const int error = ibv_modify_qp(c.qp->qp(), &attr, mask); error != 0)
    return verbs::refused(error, "ibv_modify_qp: errno {a}");
  return {};
}

Result<void> Rdmacm::to_rts(Connection& c) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
    if (auto moved = advance(c, state); !moved) return moved;
  return {};
}

void Rdmacm::on_response(Connection& c, Instant now, CmEvent& event) {
  c.steps.reply = now - c.start;
  if (auto moved = to_rts(c); !moved) {
    if (rdma_reject(c.cm, nullptr, 0) == 0) called(c, "rdma_reject", consumer_reject);
    return fail_setup(c, now, call_failure(ib::step::wait_reply, moved.error(), c.peer));
  }
  if (rdma_establish(c.cm) != 0)
    return fail_setup(c, now, cm::system_failure(ib::step::wait_reply, {errno, std::generic_category()}, c.peer));
  called(c, "rdma_establish");
  established(c, now, std::move(event.private_data));
}

cm::TransportParameters Rdmacm::parameters_of(const Connection& c) const {
  if (c.device == nullptr || !c.qp || c.device->transport() == Transport::iwarp) return {};
  const QpAttr attr = c.qp->query();
  ib::Parameters out;
  out.qp_type = c.type;
  out.qp_num = c.qp->qp_num();
  out.port_num = attr.port_num.value_or(0);
  std::optional<AhAttr> way;
  if (c.service) {
    way = out.ah = c.service->ah;
    out.remote_qp_num = c.service->qp_num;
    out.remote_qkey = c.service->qkey;
    out.path_mtu = port_mtu(*c.device, out.port_num);
  } else {
    way = attr.ah;
    out.remote_qp_num = attr.dest_qp_num.value_or(0);
    out.path_mtu = attr.path_mtu.value_or(Mtu::octets_256);
  }
  if (c.reliable()) {
    out.retry_count = attr.retry_cnt.value_or(0);
    out.rnr_retry_count = attr.rnr_retry.value_or(0);
    out.timeout = attr.timeout.value_or(0);
  }
  if (way && way->grh) {
    out.sgid_index = way->grh->sgid_index;
    out.dgid = way->grh->dgid;
    ibv_gid gid{};
    if (ibv_query_gid(c.device->context(), out.port_num, out.sgid_index, &gid) == 0)
      std::copy(std::begin(gid.raw), std::end(gid.raw), out.sgid.begin());
  }
  return out;
}

/// The entry of the port's table with which the kernel's route begins. The same GID may be there as RoCE v1 and as v2.
std::optional<GidInfo> Rdmacm::source_gid(const Connection& c) const {
  Gid sgid{};
  const rdma_ib_addr& gids = c.cm->route.addr.addr.ibaddr;
  std::copy(std::begin(gids.sgid.raw), std::end(gids.sgid.raw), sgid.begin());
  const std::vector<GidInfo> known = gids_of(c.cm->verbs, c.cm->port_num, false);
  const auto order = [&](const GidInfo& g) { return std::pair(g.gid != sgid, g.rank); };
  const auto own = std::min_element(known.begin(), known.end(),
                                    [&](const GidInfo& a, const GidInfo& b) { return order(a) < order(b); });
  if (own == known.end() || own->gid != sgid) return std::nullopt;
  return *own;
}

cm::FoundPath Rdmacm::way_of(const Connection& c) const {
  cm::FoundPath out{.device = c.device, .local = c.local};
  const bool iwarp = c.device->transport() == Transport::iwarp;
  out.reason = fmt::format("the kernel's route to {} leaves through {}, from {}", c.peer.to_string(), c.device->name(),
                           c.local.to_string());
  if (!iwarp) {
    ib::Parameters way;
    way.port_num = c.cm->port_num;
    const rdma_ib_addr& gids = c.cm->route.addr.addr.ibaddr;
    std::copy(std::begin(gids.sgid.raw), std::end(gids.sgid.raw), way.sgid.begin());
    std::copy(std::begin(gids.dgid.raw), std::end(gids.dgid.raw), way.dgid.begin());
    if (c.cm->route.num_paths > 0) way.path_mtu = static_cast<Mtu>(c.cm->route.path_rec[0].mtu & 0x3F);
    out.reason += ", with the GID " + gid_text(way.sgid);
    if (const auto own = source_gid(c)) {
      way.sgid_index = static_cast<std::uint8_t>(own->index);
      out.reason += fmt::format(" (index {}: {})", own->index, own->reason);
    }
    out.parameters = way;
  }
  return out;
}

void Rdmacm::report_resolved(Connection& c, cm::FoundPath way) {
  push_event(c, cm::Resolved{.id = id_of(c),
                             .device = way.device,
                             .local = way.local,
                             .parameters = std::move(way.parameters),
                             .reason = std::move(way.reason)});
}

void Rdmacm::established(Connection& c, Instant now, Bytes private_data) {
  set_deadline(c, never);
  if (c.steps.reply == Duration{}) c.steps.reply = now - c.start;
  c.steps.established = now - c.start;
  c.nic.connect.end = clock_now();
  enter(c, Phase::open);
  const QpAttr attr = c.qp->query();
  if (c.reliable() && attr.max_dest_rd_atomic && attr.max_rd_atomic && c.device->transport() != Transport::iwarp)
    c.depths = {*attr.max_dest_rd_atomic, *attr.max_rd_atomic};
  core_->pending.leave(c.id);
  core_->retries.forget(c.id);
  begin_watch(c, now);
  if (c.broken != WcStatus::success) {  // while waiting for the confirmation
    enter(c, Phase::breaking);
    set_deadline(c, now + settle_time);
  }
  push_event(c, cm::Established{.id = id_of(c),
                                .parameters = parameters_of(c),
                                .private_data = std::move(private_data),
                                .ird = c.depths.ird,
                                .ord = c.depths.ord,
                                .steps = c.steps,
                                .nic = c.initiator ? std::optional(c.nic) : std::nullopt});
}

void Rdmacm::give_way(EndpointId who, Instant now) {
  Connection* c = find(who);
  if (c == nullptr) return;
  const EndpointId listener = core_->ids.find(who)->listener;
  record(*c, trace::Evicted{.limit = cm::limit_word(cm::ReachedLimit::pending_max), .waited = now - c->start});
  fail_setup(*c, now, core_->evicted(listener, cm::ReachedLimit::pending_max, ib::step::wait_ready, now - c->start));
}

void Rdmacm::on_request(Listener& l, Instant now, CmEvent& event) {
  const Address peer = address_of(rdma_get_peer_addr(event.cm));
  const auto refuse = [&](cm::ReachedLimit scarce) {
    core_->refused(l.id, scarce, peer, ib::step::send_request);
    if (options_.trace != nullptr) trace_refused(l, *event.cm, scarce, peer);
    rdma_reject(event.cm, nullptr, 0);
    rdma_destroy_id(event.cm);
  };
  const EndpointId id = core_->ids.issue();
  if (id == 0) return refuse(cm::ReachedLimit::endpoints_max);
  core_->set_listener(id, l.id);
  const cm::Pending::Answer answer = core_->pending.admit(id, peer);
  if (answer.evicted != 0) give_way(answer.evicted, now);
  const auto device = device_for(event.cm->verbs);
  if (!answer.admitted || !device) {
    core_->release(id);
    return refuse(cm::ReachedLimit::pending_max);
  }
  auto made = std::make_unique<Connection>();
  Connection& c = *made;
  c.id = id;
  c.type = l.options.qp_type;
  enter(c, Phase::deciding);
  c.initiator = false;
  c.cm = event.cm;
  c.cm->context = reinterpret_cast<void*>(id);
  c.device = *device;
  c.peer = peer;
  c.local = address_of(rdma_get_local_addr(c.cm));
  c.start = now;
  c.retry_count = l.options.retry_count;
  c.rnr_retry_count = l.options.rnr_retry_count;
  c.reply_timeout = l.options.reply_timeout > Duration{} ? l.options.reply_timeout : options_.reply_timeout;
  const cm::Depths offered = c.offered = c.reliable() ? event.depths : cm::Depths{};
  c.depths = l.depths;
  c.keepalive = l.keepalive;
  c.dead_after = l.dead_after;
  slot_for(id).connection = std::move(made);
  core_->ids.find(id)->announced = true;
  core_->pending.our_turn(id);
  begin_trace(c);
  if (c.trace) [[unlikely]]
    trace_kernel_event(c, event);
  push_event(c, cm::ConnectRequest{.listener = core_->id(l.id),
                                   .id = core_->id(id),
                                   .peer = peer,
                                   .offered = {},
                                   .private_data = std::move(event.private_data),
                                   .ird = offered.ird,
                                   .ord = offered.ord});
}

/// The kernel does not report a peer that gives up before the decision: these calls then fail. False: the connection
/// failed.
bool Rdmacm::accept(Connection& c, Instant now, Result<void> ready) {
  if (!ready) {
    if (rdma_reject(c.cm, nullptr, 0) == 0) called(c, "rdma_reject", consumer_reject);
    if (ready.error() == Errc::invalid_argument) return peer_gave_up(c, now), false;
    return fail_setup(c, now, call_failure(ib::step::ulp_decision, ready.error(), c.peer)), false;
  }
  rdma_conn_param param = param_of(c);
  if (rdma_accept(c.cm, &param) != 0) {
    if (errno == EINVAL) return peer_gave_up(c, now), false;
    return fail_setup(c, now, cm::system_failure(ib::step::ulp_decision, {errno, std::generic_category()}, c.peer)),
           false;
  }
  called(c, "rdma_accept");
  return true;
}

void Rdmacm::decide(Connection& c, Instant now) {
  c.steps.decision = now - c.start;
  record(c, trace::Decided{c.accept});
  if (!c.accept) {
    // It fails if the peer has given up meanwhile; then the peer needs no answer.
    if (rdma_reject(c.cm, c.private_data.data(), static_cast<std::uint8_t>(c.private_data.size())) == 0)
      called(c, "rdma_reject", consumer_reject);
    core_->pending.leave(c.id);
    return end(c);
  }
  if (c.datagrams()) return grant(c, now);
  if (!accept(c, now, to_rts(c))) return;
  enter(c, Phase::accepting);
  c.steps.reply = now - c.start;
  core_->pending.peers_turn(c.id);
  set_deadline(c, after(now, c.reply_timeout));
}

void Rdmacm::on_rejected(Connection& c, Instant now, CmEvent& event) {
  const bool iwarp = c.device != nullptr && c.device->transport() == Transport::iwarp;
  // RoCE: a reason of the InfiniBand CM; iWARP: a negative errno.
  const auto reason = static_cast<CmReject>(event.status);
  const bool nobody = !iwarp && reason == CmReject::invalid_service_id;
  // Linux's iWARP drivers report a rejecting Reply like a reset: either is final.
  const bool by_ulp =
      iwarp ? event.status == -ECONNREFUSED || event.status == -ECONNRESET : reason == CmReject::consumer;
  if (c.initiator && by_ulp) {
    set_deadline(c, never);
    push_event(c, cm::Rejected{
                      .id = id_of(c),
                      .private_data = std::move(event.private_data),
                      .parameters = {},
                      .why = cm::plain_failure(ib::step::wait_reply, Errc::rejected, {},
                                               iwarp ? "a Reply that rejects, or a reset: the kernel reports both as " +
                                                           std::generic_category().message(-event.status)
                                                     : cm::reject_sentence(reason),
                                               "look at the peer's log, or at its private data")});
    return end(c);
  }
  const Errc passing = iwarp ? Errc::rejected : cm::errc_of(reason);
  const cm::Step& step = c.initiator ? ib::step::wait_reply : ib::step::wait_ready;
  fail_setup(c, now,
             cm::plain_failure(step, nobody ? Errc::refused : passing, {},
                               iwarp ? std::generic_category().message(-event.status) : cm::reject_sentence(reason),
                               iwarp ? "look at the peer's log" : cm::reject_advice(reason)));
}

bool Rdmacm::try_again(Connection& c, Instant now, cm::Failure& why) {
  if (!c.initiator) return false;
  const auto again = core_->retries.next(c.id, why, now);
  if (!again) return false;
  drop_cm(c);  // a late answer is ignored
  const Address failed = std::exchange(c.peer, again->peer);
  push_event(c, cm::Retrying{id_of(c), std::move(why), failed, c.peer, again->wait});
  if (again->wait == Duration{}) {
    start_attempt(c, now);
  } else {
    enter(c, Phase::waiting);
    set_deadline(c, after(now, again->wait));
  }
  return true;
}

void Rdmacm::report_failed(Connection& c, Instant now, cm::Failure why) {
  core_->pending.our_turn(c.id);
  push_event(c, cm::ConnectFailed{.id = id_of(c),
                                  .why = std::move(why),
                                  .responder = !c.initiator,
                                  .attempts = core_->retries.attempts(c.id),
                                  .elapsed = c.start == Instant{} ? Duration{} : now - c.start});
}

void Rdmacm::fail_setup(Connection& c, Instant now, cm::Failure why) {
  if (c.phase == Phase::addr || c.phase == Phase::route) core_->resolver.not_found(c.id, why, now);
  // No answer at the end of the path: it may be the wrong one by now.
  if (c.phase == Phase::connecting && (why.code == Errc::unreachable || why.code == Errc::timed_out))
    core_->resolver.forget(c.peer);
  if (try_again(c, now, why)) return;
  set_deadline(c, never);
  report_failed(c, now, std::move(why));
  end(c);
  if (c.qp && c.device->transport() != Transport::iwarp) (void)c.qp->modify({.state = QpState::err});
  drop_cm(c);
}

}  // namespace parley::rdmacm
