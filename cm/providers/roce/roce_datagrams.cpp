// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// UD: SIDR returns the queue pair that receives the datagrams of a service in the port space UDP (IBA §12.11).
#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm::roce {

using wire::ib::SidrStatus;

void Roce::request_service(Connection& c, Instant now) {
  ibcm::SidrParameters p;
  p.service_id = service_of(QpType::ud, c.peer.port);
  p.path = path_to_peer(c);
  c.path = p.path.primary;
  p.timers = timers_of(c);
  RequestData data;
  p.private_data = private_data_of(c, data);
  enter(c, Phase::requesting);
  unreachable_ = {};
  const auto id = agent_.sidr_request(now, p);
  if (!id) return fail_setup(c, now, local_failure(ib::step::send_request, id.error()));
  join_agent(c, *id);
  c.steps.request = now - c.start;
}

void Roce::on_service_request(Instant now, ibcm::SidrRequested& event) {
  const wire::ib::CmSidrReq& req = event.request;
  const auto answer = [&](SidrStatus status) {
    (void)agent_.sidr_reply(now, event.id, {.status = status});
    agent_.destroy(now, event.id);
  };
  auto [local, peer] = addresses_.ends_at(event.from.sgid_index, event.from.source);
  const Listener* l = listener_for(req.service_id, local);
  if (l == nullptr) return answer(SidrStatus::unsupported_service_id);
  // IBA Annex A11.
  const auto header = wire::ib::CmaHeader::parse(req.private_data);
  if (!header) return answer(SidrStatus::rejected);
  peer.port = header->source.port;
  const EndpointId id = admit(*l, peer, now);
  if (id == 0) return answer(SidrStatus::no_qp);
  auto made = connection_at(*l, event.id, local, peer);
  made->mtu = options_.mtu;
  made->path = path_to_peer(*made).primary;
  ask(*l, id, std::move(made), bytes_of(req.private_data, PARLEY_CMA_HEADER_LEN), now);
}

/// A UD queue pair is not connected to a peer: it moves to RTS at once.
Result<void> Roce::to_rts_for_datagrams(Connection& c) {
  auto way = way_to_peer(c);
  if (!way) return tl::unexpected(way.error());
  if (c.qp->state() != QpState::init)
    return fail(Errc::wrong_state, "the queue pair is not in INIT: give each service a fresh one");
  if (auto moved = c.qp->modify({.state = QpState::rtr}); !moved) return moved;
  QpAttr rts{.state = QpState::rts};
  rts.sq_psn = c.psn;
  if (auto moved = c.qp->modify(rts); !moved) return moved;
  c.ah = *way;
  return {};
}

/// Sends the SIDR_REP with the queue pair, which receives from now on. The peer does not confirm a SIDR_REP.
void Roce::grant_service(Connection& c, Instant now) {
  if (auto moved = to_rts_for_datagrams(c); !moved) {
    send_refusal(c, now, false);
    return fail_setup(c, now, local_failure(ib::step::ulp_decision, moved.error()));
  }
  const auto granted = agent_.sidr_reply(now, c.cm,
                                         {.qpn = c.qp->qp_num(),
                                          .q_key = c.qp->query().qkey.value_or(wire::ib::udp_q_key),
                                          .private_data = c.private_data});
  if (!granted) return fail_setup(c, now, local_failure(ib::step::ulp_decision, granted.error()));
  c.steps.reply = now - c.start;
  established(c, now, {});
}

void Roce::on_service_reply(Connection& c, Instant now, ibcm::SidrReplied& event) {
  const wire::ib::CmSidrRep& rep = event.reply;
  c.steps.reply = now - c.start;
  if (rep.status == SidrStatus::valid) {
    c.remote_qpn = rep.qpn;
    c.remote_qkey = rep.q_key;
    leave_agent(c);
    if (auto moved = to_rts_for_datagrams(c); !moved)
      return fail_setup(c, now, local_failure(ib::step::wait_reply, moved.error()));
    return established(c, now, bytes_of(rep.private_data));
  }
  if (rep.status == SidrStatus::rejected) {
    set_deadline(c, never);
    push_event(c, Rejected{.id = id_of(c),
                           .private_data = bytes_of(rep.private_data),
                           .parameters = parameters_of(c),
                           .why = sidr_failure(rep.status)});
    return end(c);
  }
  fail_setup(c, now, sidr_failure(rep.status));
}

/// Refuses a request that waits: as a rejection by the program, with its private data, or because there is no room.
void Roce::send_refusal(Connection& c, Instant now, bool by_program) {
  using wire::ib::CmReject;
  const ConstBytes data = by_program ? ConstBytes(c.private_data) : ConstBytes();
  if (c.datagrams())
    (void)agent_.sidr_reply(now, c.cm,
                            {.status = by_program ? SidrStatus::rejected : SidrStatus::no_qp, .private_data = data});
  else
    (void)agent_.reject(now, c.cm,
                        {.reason = by_program ? CmReject::consumer : CmReject::no_resources, .private_data = data});
}

}  // namespace parley::cm::roce
