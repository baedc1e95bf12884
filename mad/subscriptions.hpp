// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Subscriptions to events (IBA §13.4.8.3, §13.4.11): what subnet administration stores for each Set(InformInfo), and
// the Reports with which it forwards a notice. Single-threaded; no clock.
//
//   Subscriptions subscriptions;
//   Bytes reply = subscriptions.answer(request->from, gid, request->mad);      // for InformInfo and InformInfoRecord
//   if (!reply.empty()) port.post(request->from, reply);
//   scope.spawn(report(port, subscriptions, notice, issuer));                  // to each subscriber
#pragma once
#include "mad/port.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad {

struct SubscriptionOptions {
  std::size_t most = 1024;              ///< subscriptions; more are refused with "no resources"
  std::size_t most_of_port = 64;        ///< of one port, over all its queue pairs
  std::size_t under_way = 64;           ///< Reports of one event at a time
  unsigned under_way_of_one = 16;       ///< Reports of one subscription at a time; further ones are not sent
  unsigned unanswered_max = 3;          ///< unanswered Reports in a row, each with its retries, that end a subscription
  std::uint8_t retries = 3;             ///< of a Report
  std::uint8_t packet_life_time = 18;   ///< to subscribers; exponent: 4.096 us * 2^n
  std::uint8_t response_time_max = 20;  ///< upper bound of what a subscriber requests; exponent
};

/// One subscription of a port.
struct Subscription {
  std::uint32_t id = 0;  ///< never reused
  Address to;            ///< the sender of the Set(InformInfo)
  Gid subscriber{};
  std::uint16_t enumeration = 0;         ///< among the subscriptions of the port
  wire::mad::InformInfo info;            ///< its QPN is that of `to`
  unsigned unanswered = 0, reports = 0;  ///< Reports: in a row without an answer; in progress
};

/// Since construction.
struct SubscriptionCounters {
  std::uint64_t subscribed = 0, unsubscribed = 0, refused = 0;  ///< Set(InformInfo); refused: with an error
  std::uint64_t reported = 0, answered = 0, unanswered = 0;     ///< Reports
  std::uint64_t missed = 0;   ///< Reports not sent, because too many for the same subscription are in progress
  std::uint64_t dropped = 0;  ///< subscriptions that did not answer
};

/// Whether `info` subscribes to the notice (IBA §13.4.8.3). If `info` has a GID, its range of LIDs is ignored.
bool is_wanted(const wire::mad::InformInfo& info, const wire::mad::Notice& notice, const Gid& issuer);

class Subscriptions {
 public:
  explicit Subscriptions(const SubscriptionOptions& options = {}) : options_(options) {}

  /// The answer to SubnAdmSet(InformInfo), which may change the list, or to SubnAdmGet and SubnAdmGetTable of
  /// InformInfoRecord. Empty: the request is none of these. `gid`: that of the sender's port, as `from` may only have a
  /// LID.
  Bytes answer(const Address& from, const Gid& gid, ConstBytes mad);

  std::size_t size() const { return all_.size(); }
  const std::vector<Subscription>& all() const { return all_; }
  /// IDs of the subscriptions to the notice.
  std::vector<std::uint32_t> wanting(const wire::mad::Notice& notice, const Gid& issuer) const;

  /// The path of a Report for the subscription. None: it is gone, or too many Reports are in progress. Each path must
  /// be followed by one end_report().
  std::optional<Path> begin_report(std::uint32_t id);
  /// `fault`: why there is no answer; none: there is one. After unanswered_max Reports without an answer the
  /// subscription is dropped.
  void end_report(std::uint32_t id, std::optional<Fault> fault);

  const SubscriptionCounters& counters() const { return counters_; }
  const SubscriptionOptions& options() const { return options_; }

 private:
  Bytes set(const Address& from, const Gid& gid, ConstBytes mad);
  Bytes get(ConstBytes mad, bool table) const;
  std::uint16_t subscribe(Subscription wanted);
  std::uint16_t unsubscribe(const Subscription& wanted);
  Subscription* find(std::uint32_t id);

  SubscriptionOptions options_;
  SubscriptionCounters counters_;
  std::vector<Subscription> all_;  // at most options_.most
  std::uint32_t next_id_ = 0;
};

/// A Report's notice, and the issuer's GID, which follows it (IBA §13.4.8.2).
struct ReportedNotice {
  wire::mad::Notice notice;
  Gid issuer{};
};
/// Parses a Report that a subscriber has received. Errors: truncated.
Result<ReportedNotice> parse_report(ConstBytes mad);

/// Sends Report(Notice) to each subscriber, and waits for the answers. Returns their number. `subscriptions` must
/// outlive it.
Task<std::size_t> report(Port& port, Subscriptions& subscriptions, wire::mad::Notice notice, Gid issuer);

}  // namespace parley::mad
