// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who wants to be told of which events (IBA §13.4.8.3, §13.4.11): what subnet administration keeps of each Set(InformInfo), and the
// Reports that it forwards when a notice comes. One thread; no clock.
//
//   Subscriptions subscriptions;
//   Bytes reply = subscriptions.answer(request->from, gid, request->mad);      // of InformInfo and InformInfoRecord
//   if (!reply.empty()) port.post(request->from, reply);
//   scope.spawn(report(port, subscriptions, notice, issuer));                  // to each who wants it
#pragma once
#include "mad/port.hpp"
#include "wire/mad/sa.hpp"

namespace parley::mad {

struct SubscriptionOptions {
  std::size_t most = 1024;         ///< subscriptions; more are refused with "no resources"
  std::size_t most_of_port = 64;   ///< of one port, whatever its queue pairs
  std::size_t under_way = 64;      ///< Reports of one event at a time
  unsigned under_way_of_one = 16;  ///< Reports of one subscription at a time; it misses those beyond
  unsigned unanswered_max = 3;     ///< Reports in a row without an answer, each with its retries, before it is dropped
  std::uint8_t retries = 3;        ///< of a Report
  std::uint8_t packet_life_time = 18;   ///< to subscribers: 4.096 us times 2 to the power of it
  std::uint8_t response_time_max = 20;  ///< that a subscriber may ask for, as the power of 2
};

/// What one subscriber wants.
struct Subscription {
  std::uint32_t id = 0;  ///< another one for each, ever
  Address to;            ///< where it was asked for from
  Gid subscriber{};
  std::uint16_t enumeration = 0;         ///< among those of the subscriber
  wire::mad::InformInfo info;            ///< its QPN is that of `to`
  unsigned unanswered = 0, reports = 0;  ///< Reports: in a row without an answer; under way
};

/// Since the beginning.
struct SubscriptionCounters {
  std::uint64_t subscribed = 0, unsubscribed = 0, refused = 0;  ///< Set(InformInfo); refused: with an error
  std::uint64_t reported = 0, answered = 0, unanswered = 0;     ///< Reports
  std::uint64_t missed = 0;   ///< Reports that were not sent, since too many to the same subscription are under way
  std::uint64_t dropped = 0;  ///< subscriptions that never answered
};

/// Whether a notice is one that `info` asks for (IBA §13.4.8.3). A GID goes before the range of LIDs.
bool is_wanted(const wire::mad::InformInfo& info, const wire::mad::Notice& notice, const Gid& issuer);

class Subscriptions {
 public:
  explicit Subscriptions(const SubscriptionOptions& options = {}) : options_(options) {}

  /// The answer to SubnAdmSet(InformInfo), which may change the list, or to SubnAdmGet and GetTable of InformInfoRecord; empty to what is
  /// neither. `gid`: the sender's port, which a LID alone does not tell.
  Bytes answer(const Address& from, const Gid& gid, ConstBytes mad);

  std::size_t size() const { return all_.size(); }
  const std::vector<Subscription>& all() const { return all_; }
  /// IDs of those that want the notice.
  std::vector<std::uint32_t> wanting(const wire::mad::Notice& notice, const Gid& issuer) const;

  /// Where a Report to it goes; none: it is gone, or too many are under way. end_report() follows once for each.
  std::optional<Path> begin_report(std::uint32_t id);
  /// `fault`: why no answer came. After the last of unanswered_max it is dropped.
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

/// A Report's notice, and the GID of who noticed, which follows it (IBA §13.4.8.2).
struct ReportedNotice {
  wire::mad::Notice notice;
  Gid issuer{};
};
/// Of a Report that came to a subscriber. Errors: truncated.
Result<ReportedNotice> parse_report(ConstBytes mad);

/// Sends Report(Notice) to each who wants it, and waits for their answers: how many answered. `subscriptions` outlives it.
Task<std::size_t> report(Port& port, Subscriptions& subscriptions, wire::mad::Notice notice, Gid issuer);

}  // namespace parley::mad
