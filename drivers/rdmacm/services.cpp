// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Types of queue pairs other than RC: how to get an id for one from librdmacm, and services of UD (SIDR, IBA §12.11).
#include <cerrno>

#include "drivers/asio/sockaddr.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"

namespace parley::rdmacm {

using wire::ib::SidrStatus;

/// False: see errno. The kernel supports RC in the port space TCP, UD in UDP, and any type in IB. Only rdma_create_ep()
/// passes a type on: it binds an id with its own channel, which is replaced here. No packet is sent and no event
/// awaited.
bool Rdmacm::create_id(rdma_cm_id*& id, EndpointId owner, QpType type, const Address& local) {
  auto* context = reinterpret_cast<void*>(owner);
  if (!is_bound(type))
    return rdma_create_id(channel_, &id, context, type == QpType::ud ? RDMA_PS_UDP : RDMA_PS_TCP) == 0;
  asio_driver::SockAddr from = asio_driver::to_sockaddr(local);
  rdma_addrinfo info{};
  info.ai_flags = RAI_PASSIVE;
  info.ai_family = from.get()->sa_family;
  info.ai_qp_type = verbs::to_ibv(type);
  info.ai_port_space = RDMA_PS_IB;
  info.ai_src_addr = from.get();
  info.ai_src_len = from.size;
  rdma_cm_id* made = nullptr;
  if (rdma_create_ep(&made, &info, nullptr, nullptr) != 0) return false;
  if (rdma_migrate_id(made, channel_) != 0) {
    const int why = errno;
    rdma_destroy_ep(made);
    errno = why;
    return false;
  }
  made->context = context;
  id = made;
  return true;
}

/// A datagram queue pair has no single peer: it moves to RTS at once.
Result<void> Rdmacm::ready_for_datagrams(Connection& c) {
  if (auto moved = advance(c, IBV_QPS_INIT); !moved) return moved;
  if (auto moved = c.qp->modify({.state = QpState::rtr}); !moved) return moved;
  return c.qp->modify({.state = QpState::rts, .sq_psn = 0});
}

void Rdmacm::peer_gave_up(Connection& c, Instant now) {
  fail_setup(c, now,
             cm::plain_failure(ib::step::ulp_decision, Errc::peer_closed, {}, "the request is gone",
                               "the peer gave up: decide sooner, or look at its log"));
}

/// The answer names the queue pair, which receives from here on; there is no confirmation.
void Rdmacm::grant(Connection& c, Instant now) {
  if (!accept(c, now, ready_for_datagrams(c))) return;
  // The kernel reports no return path, only the GIDs of both ends.
  Service client{.ah = {.grh = GlobalRoute{}, .port_num = c.cm->port_num}};
  const rdma_ib_addr& gids = c.cm->route.addr.addr.ibaddr;
  std::copy(std::begin(gids.dgid.raw), std::end(gids.dgid.raw), client.ah.grh->dgid.begin());
  if (const auto own = source_gid(c)) client.ah.grh->sgid_index = static_cast<std::uint8_t>(own->index);
  c.service = client;
  c.steps.reply = now - c.start;
  established(c, now, {});
}

void Rdmacm::on_granted(Connection& c, Instant now, CmEvent& event) {
  c.steps.reply = now - c.start;
  if (auto moved = ready_for_datagrams(c); !moved)
    return fail_setup(c, now, call_failure(ib::step::wait_reply, moved.error(), c.peer));
  c.service = event.service;
  established(c, now, std::move(event.private_data));
}

void Rdmacm::on_refused(Connection& c, Instant now, CmEvent& event) {
  const auto status = static_cast<SidrStatus>(event.status);
  if (status != SidrStatus::rejected) return fail_setup(c, now, cm::sidr_failure(status));
  set_deadline(c, never);
  push_event(c, cm::Rejected{.id = id_of(c),
                             .private_data = std::move(event.private_data),
                             .parameters = {},
                             .why = cm::sidr_failure(status)});
  end(c);
}

}  // namespace parley::rdmacm
