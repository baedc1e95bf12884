// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Alternate paths of an established connection: LAP and APR. IBA §12.8.
#include <fmt/format.h>

#include "conform/ibcm/judge.hpp"
#include "conform/ibcm/table.hpp"

namespace parley::conform::ibcm {
namespace alternate_table {
namespace {

using wire::ib::ApStatus;
using wire::ib::CmApr;
using wire::ib::CmLap;

CmLap lap_of(const Link& link) {
  return {.local_comm_id = link.id(),
          .remote_comm_id = link.peer_id(),
          .remote_qpn = link.peer_qpn(),
          .remote_cm_response_timeout = 16,
          .alternate = link.req.primary};
}

std::string status_text(const CmApr& apr) {
  return fmt::format("APR with status {} ({})", static_cast<int>(apr.status), to_string(apr.status));
}

Task<Observation> answered_lap(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  link.transaction_id ^= 0x3333;
  const CmLap lap = lap_of(link);
  b.send(link, lap);
  const PeerPacket heard = co_await response(b, link, b.settings().reply);
  const auto* apr = heard.as<CmApr>();
  const std::string wrong = co_await still_serves(b, link);
  if (apr == nullptr) co_return failed(heard.text());
  if (apr->local_comm_id != link.peer_id()) co_return failed("APR with a communication ID that is not its own");
  if (heard.message->transaction_id != link.transaction_id) co_return failed("APR with another TransactionID");
  co_return wrong.empty() ? pass("APR, and the connection stays up")
                          : failed("then a request was answered by " + wrong);
}

Task<Observation> lap_for_nobody(Tester& b) {
  Link& link = b.link();
  CmLap lap = lap_of(link);
  lap.remote_comm_id = unknown_id(link);
  b.send(link, lap);
  const PeerPacket heard = co_await b.answer(link);
  const auto* apr = heard.as<CmApr>();
  if (apr == nullptr) co_return failed(heard.text());
  co_return apr->status == ApStatus::invalid_comm_id ? pass(status_text(*apr)) : failed(status_text(*apr));
}

Task<Observation> apr_unasked(Tester& b) {
  Link& link = b.link();
  const bool up = co_await b.set_up(link);
  if (!up) co_return b.trouble();
  b.send(link, CmApr{.local_comm_id = link.id(), .remote_comm_id = link.peer_id(), .status = ApStatus::accepted});
  const PeerPacket heard = co_await response(b, link, b.settings().quiet);
  if (!heard.silence) co_return failed(heard.text());
  const std::string wrong = co_await still_serves(b, link);
  co_return wrong.empty() ? pass("silence, and the connection stays up")
                          : failed("then a request was answered by " + wrong);
}

constexpr Case table[] = {
    row("122", "lap-is-answered", "IBA §12.8.2", must, "LAP with the primary path as the alternate one",
        "APR of any status with its TransactionID; the connection stays up", answered_lap),
    row("123", "lap-for-nobody", "IBA §12.8.2", must, "LAP for an unknown communication ID",
        "APR with status 1 (invalid communication ID)", lap_for_nobody),
    row("124", "apr-without-lap", "IBA §12.8", must, "APR on an established connection",
        "silence; the connection stays up", apr_unasked),
};

}  // namespace
}  // namespace alternate_table

std::span<const Case> alternate_cases() { return alternate_table::table; }

}  // namespace parley::conform::ibcm
