// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the users of both ends did and were told, as plain data: the workload writes it, the checkers judge it, and a
// test can write any history it likes. Of the code under test it holds only what that code told its user.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/cm.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::check {

enum class Told : std::uint8_t { request, established, rejected, failed, retrying, disconnected };
std::string_view to_string(Told told);

/// One event of the connection manager.
struct ToldEvent {
  Told what = Told::request;
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
  std::vector<ToldEvent> told;
  mpa::Parameters parameters{};        ///< of Established; of RoCE only the depths
  std::optional<ib::Parameters> ib{};  ///< of RoCE
  Bytes private_data_given, private_data_got;
  bool accepted = false, refused = false;  ///< responder: what its user decided
  bool asked_to_close = false;             ///< its user called disconnect()
  bool gave_up = false;                    ///< its user lost patience: disconnect() or destroy() before being done
  bool dropped = false;                    ///< the id was destroyed before its end was reported
  bool crashed = false;                    ///< its host crashed under it
  bool quirky = false;                     ///< plays another vendor's departures
  bool transfers_done = false;             ///< everything that was to be sent and received here was
  std::uint64_t messages_sent = 0;         ///< posted
  std::uint64_t messages_got = 0;          ///< delivered
  std::uint64_t octets_got = 0;
  Duration setup{};

  const ToldEvent* find(Told what) const {
    for (const ToldEvent& e : told)
      if (e.what == what) return &e;
    return nullptr;
  }
  bool established() const { return find(Told::established) != nullptr; }
  /// Its user knows that it is over, or there is no user any more.
  bool over() const {
    return crashed || dropped || refused || find(Told::rejected) != nullptr || find(Told::failed) != nullptr ||
           find(Told::disconnected) != nullptr;
  }
  /// It was up and asked to close, and then nothing more arrived in time.
  bool failed_in_close() const {
    const ToldEvent* end = find(Told::disconnected);
    return end != nullptr && !end->graceful && end->in_close;
  }
  /// RoCE: the peer had everything and left before the last acknowledgments, or a credit that nobody needs, had passed.
  bool left_when_done() const {
    const ToldEvent* end = find(Told::disconnected);
    return end != nullptr && end->hung_up && transfers_done;
  }
  bool graceful() const {
    const ToldEvent* end = find(Told::disconnected);
    return end != nullptr && end->graceful;
  }
};

/// One attempt at a connection, with every responder's end that it reached: more than one if the set-up was retried by
/// other means (RFC 6581 §10).
struct Attempt {
  std::string label;
  std::uint32_t number = 0;   ///< of all attempts of the run; the pattern of its octets comes from it
  std::uint32_t connect = 0;  ///< index in Scenario::connects
  std::uint32_t index = 0;    ///< of its connections, from 0
  std::uint32_t attempt = 0;  ///< retry number of this connection, from 0
  bool last = false;          ///< no other try followed
  Instant started{};
  End initiator;
  std::vector<std::unique_ptr<End>> responders;
  bool touched = false;    ///< a fault touched a frame of it, or a host under it
  Instant touched_at{};    ///< the last time
  bool corrupted = false;  ///< a fault changed what MPA sees
  bool roce = false;       ///< between two hosts with RoCE
  bool datagrams = false;  ///< UD: no connection, but a service and who asks for it
  bool xrc = false;        ///< to the shared receive queues of a node
  bool misled = false;     ///< touched was a host, or how hosts find each other, which lasts

  /// A fault may have lost or doubled a datagram: it touched the attempt when the initiator could already send, or lasts.
  bool datagrams_touched() const {
    const ToldEvent* up = initiator.find(Told::established);
    return touched && up != nullptr && (misled || touched_at >= up->at);
  }

  /// The one that the initiator is connected with, or the last. RoCE: a REQ that comes late, when the connection is forgotten, is a
  /// new one to the peer.
  const End* responder() const {
    for (const auto& r : responders)
      if (initiator.ib && r->ib && r->ib->qp_num == initiator.ib->remote_qp_num) return r.get();
    return responders.empty() ? nullptr : responders.back().get();
  }
};

}  // namespace parley::sim::check
