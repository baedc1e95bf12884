// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/settlement.hpp"

#include <fmt/format.h>

namespace parley::sim::check {
namespace {

constexpr std::string_view settlement_checker = "settlement";
constexpr int retries_max = 2;  // docs/cm.md: each kind of retry at most once per connection

std::string_view role_name(const End& end) {
  return end.role == mpa::Role::initiator ? "the initiator" : "the responder";
}

/// Which events of one end may follow which.
class Order {
 public:
  /// Empty, or the reason why this event is invalid at this point.
  std::string next(const End& end, const CmEventRecord& event) {
    const bool responder = end.role == mpa::Role::responder;
    const std::string name(to_string(event.what));
    if (over_) return name + " after the end";
    switch (event.what) {
      case CmEventKind::request:
        if (!responder || requested_) return requested_ ? "a second ConnectRequest" : "ConnectRequest at an initiator";
        requested_ = true;
        return {};
      case CmEventKind::retrying:
        if (responder || established_) return name + " at a place where nothing can be retried";
        return ++retries_ > retries_max ? "more than two Retrying" : std::string();
      case CmEventKind::established:
        if (established_) return "a second Established";
        if (responder && !end.accepted) return "Established without accept()";
        established_ = true;
        return {};
      case CmEventKind::rejected:
        over_ = true;
        return responder || established_ ? name + (responder ? " at a responder" : " after Established")
                                         : std::string();
      case CmEventKind::failed: over_ = true; return established_ ? "ConnectFailed after Established" : std::string();
      case CmEventKind::disconnected:
        over_ = true;
        return established_ ? std::string() : "Disconnected before Established";
    }
    return "an unknown event";
  }
  bool over() const { return over_; }
  bool established() const { return established_; }

 private:
  bool requested_ = false, established_ = false, over_ = false;
  int retries_ = 0;
};

bool needs_reason(const CmEventRecord& event) {
  return event.what == CmEventKind::failed || event.what == CmEventKind::rejected ||
         event.what == CmEventKind::retrying || (event.what == CmEventKind::disconnected && !event.graceful);
}

}  // namespace

std::string_view to_string(CmEventKind told) {
  switch (told) {
    case CmEventKind::request: return "ConnectRequest";
    case CmEventKind::established: return "Established";
    case CmEventKind::rejected: return "Rejected";
    case CmEventKind::failed: return "ConnectFailed";
    case CmEventKind::retrying: return "Retrying";
    case CmEventKind::disconnected: return "Disconnected";
  }
  return "?";
}

void check_settlement(const End& end, std::string_view label, bool ended, bool may_stay_open, Instant now,
                      Judge& judge) {
  Order order;
  for (const CmEventRecord& event : end.told) {
    if (const std::string wrong = order.next(end, event); !wrong.empty())
      judge.add(settlement_checker, event.at, label, fmt::format("{} was told: {}", role_name(end), wrong));
    if (needs_reason(event) && (event.words.empty() || !event.has_code))
      judge.add(settlement_checker, event.at, label,
                fmt::format("{} was notified of {} without {}", role_name(end), to_string(event.what),
                            event.words.empty() ? "a reason in words" : "an error code"));
  }
  const bool excused =
      end.crashed || end.stopped || end.dropped || end.refused || (may_stay_open && order.established());
  if (ended && !order.over() && !excused)
    judge.add(settlement_checker, now, label,
              fmt::format("{} was never told the end: its last event is {}", role_name(end),
                          end.told.empty() ? "none" : to_string(end.told.back().what)));
}

}  // namespace parley::sim::check
