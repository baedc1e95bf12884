// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The actions and events of the users at both ends, as plain data: the workload writes it, the checkers judge it, and a
// test can write any history. From the code under test it contains only what that code reported to its user.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/cm.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::check {

enum class CmEventKind : std::uint8_t { request, established, rejected, failed, retrying, disconnected };
std::string_view to_string(CmEventKind told);

/// One event of the connection manager.
struct CmEventRecord {
  CmEventKind what = CmEventKind::request;
  Instant at{};
  bool graceful = false;  ///< disconnected
  bool has_code = false;  ///< the failure carries an error code
  bool in_close = false;  ///< it happened while the connection was being closed (cm::step::closing)
  bool hung_up = false;   ///< RoCE: the peer disconnected while requests of this end were not complete
  std::string words;      ///< the failure as text
};

/// One end of one attempt. A responder's end begins with its ConnectRequest.
struct End {
  mpa::Role role = mpa::Role::initiator;
  std::string host;
  std::uint32_t incarnation = 0;
  Address local{}, peer{};
  std::vector<CmEventRecord> told;
  mpa::Parameters parameters{};        ///< from Established; RoCE: only the depths
  std::optional<ib::Parameters> ib{};  ///< RoCE only
  Bytes private_data_given, private_data_got;
  bool accepted = false, refused = false;  ///< responder: what its user decided
  bool asked_to_close = false;             ///< its user called disconnect()
  bool gave_up = false;                    ///< its user timed out: disconnect() or destroy() before being done
  bool dropped = false;                    ///< the id was destroyed before its end was reported
  bool crashed = false;                    ///< its host crashed under it, or its process ended
  bool stopped = false;                    ///< its host is paused or its process stopped, for good, before its end
  bool quirky = false;                     ///< emulates another vendor's departures
  bool transfers_done = false;             ///< all data of this end was sent and received
  std::uint64_t messages_sent = 0;         ///< posted
  std::uint64_t messages_got = 0;          ///< delivered
  std::uint64_t octets_got = 0;
  Duration setup{};

  const CmEventRecord* find(CmEventKind what) const {
    for (const CmEventRecord& e : told)
      if (e.what == what) return &e;
    return nullptr;
  }
  bool established() const { return find(CmEventKind::established) != nullptr; }
  /// Its user has seen the end, or no longer exists.
  bool over() const {
    return crashed || dropped || refused || find(CmEventKind::rejected) != nullptr ||
           find(CmEventKind::failed) != nullptr || find(CmEventKind::disconnected) != nullptr;
  }
  /// It was established and asked to close, and then nothing more arrived in time.
  bool failed_in_close() const {
    const CmEventRecord* end = find(CmEventKind::disconnected);
    return end != nullptr && !end->graceful && end->in_close;
  }
  /// RoCE: the peer had received everything and left before the last acknowledgments, or an unneeded credit update,
  /// arrived.
  bool left_when_done() const {
    const CmEventRecord* end = find(CmEventKind::disconnected);
    return end != nullptr && end->hung_up && transfers_done;
  }
  bool graceful() const {
    const CmEventRecord* end = find(CmEventKind::disconnected);
    return end != nullptr && end->graceful;
  }
};

/// One attempt at a connection, with every responder's end that it reached: more than one if the set-up was retried by
/// other means (RFC 6581 §10).
struct Attempt {
  std::string label;
  std::uint32_t number = 0;   ///< unique in the run; selects the pattern of its octets
  std::uint32_t connect = 0;  ///< index in Scenario::connects
  std::uint32_t index = 0;    ///< among its connections, from 0
  std::uint32_t attempt = 0;  ///< retry number of this connection, from 0
  bool last = false;          ///< no other try followed
  Instant started{};
  End initiator;
  std::vector<std::unique_ptr<End>> responders;
  bool touched = false;    ///< a fault touched a frame of it, or a host under it
  Instant touched_at{};    ///< when it was last touched
  bool corrupted = false;  ///< a fault changed octets of MPA
  bool roce = false;       ///< between two hosts with RoCE
  bool datagrams = false;  ///< UD: no connection, only a service and its requester
  bool xrc = false;        ///< to the shared receive queues of a node
  bool misled = false;     ///< a fault touched a host, or address resolution; such an effect lasts

  /// A fault may have lost or duplicated a datagram: it touched the attempt when the initiator could already send, or
  /// it lasts.
  bool datagrams_touched() const {
    const CmEventRecord* up = initiator.find(CmEventKind::established);
    return touched && up != nullptr && (misled || touched_at >= up->at);
  }

  /// The end that the initiator is connected with, or else the last one. RoCE: a late REQ, after the connection is
  /// forgotten, is a new one to the peer.
  const End* responder() const {
    for (const auto& r : responders)
      if (initiator.ib && r->ib && r->ib->qp_num == initiator.ib->remote_qp_num) return r.get();
    return responders.empty() ? nullptr : responders.back().get();
  }
};

}  // namespace parley::sim::check
