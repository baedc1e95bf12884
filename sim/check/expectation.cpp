// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/expectation.hpp"

#include <fmt/format.h>

namespace parley::sim::check {
namespace {

constexpr std::string_view expectation_checker = "expectation";

/// Its user has seen the end, or sees nothing more.
bool left(const End& end) { return end.over() || end.stopped; }

/// Empty if this end was up, transferred everything and ended as asked; else what is missing.
std::string lacks_establishment(const End* end, std::string_view name, ClosingSide closer, bool touched, bool roce) {
  if (end == nullptr) return fmt::format("{} never heard of it", name);
  if (!end->established()) return fmt::format("{}: {}", name, outcome_text(end));
  if (!end->transfers_done) return fmt::format("{} has not transferred everything ({})", name, outcome_text(end));
  if (closer == ClosingSide::nobody) return end->over() ? fmt::format("{}: {}", name, outcome_text(end)) : "";
  if (!end->over() && !end->stopped) return fmt::format("{} was not closed", name);
  // After all transfers, a crash, a stop, a lost FIN or an early DREQ is harmless.
  if (end->crashed || end->stopped || end->left_when_done() || (touched && end->failed_in_close())) return {};
  // RoCE: the peer is no longer there to acknowledge the last message.
  if (touched && roce) return {};
  if (!end->graceful()) return fmt::format("{}: {}", name, outcome_text(end));
  return {};
}

std::string came_late(const End& end, std::string_view name, Duration longest) {
  if (longest == Duration{} || end.setup <= longest) return {};
  const auto us = [](Duration time) { return time / std::chrono::microseconds(1); };
  return fmt::format("{} took {} us to come up, and {} us were allowed", name, us(end.setup), us(longest));
}

std::string lacks_establishment(const Attempt& attempt, const ScenarioConnect& wanted) {
  const End &i = attempt.initiator, *r = attempt.responder();
  std::string wrong = lacks_establishment(&i, "the initiator", wanted.closer, attempt.touched, attempt.roce);
  // RoCE: a host that crashed and restarted answers the DREQ of a connection that it no longer knows.
  const bool forgotten = attempt.roce && r != nullptr && r->crashed;
  if (wrong.empty() && !forgotten)
    wrong = lacks_establishment(r, "the responder", wanted.closer, attempt.touched, attempt.roce);
  if (wrong.empty()) wrong = came_late(attempt.initiator, "the initiator", wanted.established_within);
  if (wrong.empty()) wrong = came_late(*attempt.responder(), "the responder", wanted.established_within);
  return wrong;
}

std::string lacks_rejection(const Attempt& attempt) {
  if (attempt.initiator.find(CmEventKind::rejected) == nullptr)
    return fmt::format("the initiator: {}", outcome_text(&attempt.initiator));
  const End* r = attempt.responder();
  if (r == nullptr || !r->refused) return fmt::format("the responder: {}", outcome_text(r));
  return {};
}

/// Every end that knew of the connection ended with a reason, or its host crashed or its process stopped.
std::string lacks_failure(const Attempt& attempt) {
  const auto judge = [](const End& end, std::string_view name) -> std::string {
    if (end.crashed || end.stopped || end.dropped) return {};
    if (end.find(CmEventKind::failed) != nullptr) return {};
    const CmEventRecord* cut = end.find(CmEventKind::disconnected);
    if (cut != nullptr && !cut->graceful) return {};
    return fmt::format("{}: {}", name, outcome_text(&end));
  };
  std::string wrong = judge(attempt.initiator, "the initiator");
  for (const auto& r : attempt.responders)
    if (wrong.empty()) wrong = judge(*r, "the responder");
  return wrong;
}

}  // namespace

std::string outcome_text(const End* end) {
  if (end == nullptr) return "unknown";
  if (end->crashed) return "crashed";
  if (end->stopped) return "stopped";
  if (const CmEventRecord* e = end->find(CmEventKind::rejected)) return "rejected: " + e->words;
  if (const CmEventRecord* e = end->find(CmEventKind::failed)) return "failed: " + e->words;
  if (end->refused) return "rejected: by its user";
  const CmEventRecord* cut = end->find(CmEventKind::disconnected);
  if (end->established() && (cut == nullptr || cut->graceful || end->left_when_done())) return "established";
  if (cut != nullptr) return "failed: " + cut->words;
  return end->dropped ? "given up" : "unknown";
}

void check_expectation(const Attempt& attempt, const ScenarioConnect& wanted, Instant now, Judge& judge) {
  std::string_view expected;
  std::string wrong;
  switch (wanted.expect) {
    case Expect::established:
      expected = "to be established, transferred and closed";
      wrong = lacks_establishment(attempt, wanted);
      break;
    case Expect::rejected:
      expected = "to be rejected";
      wrong = lacks_rejection(attempt);
      break;
    case Expect::failed:
      expected = "to fail with a reason on every end that knew of it";
      wrong = lacks_failure(attempt);
      break;
    case Expect::settled:
      expected = "to be established, rejected or failed on both ends alike";
      wrong = lacks_establishment(attempt, wanted);
      if (!wrong.empty() && lacks_rejection(attempt).empty()) wrong.clear();
      if (!wrong.empty()) wrong = lacks_failure(attempt);
      // Two ends separated by a fault may end differently (two generals problem), as long as both end.
      if (attempt.touched && left(attempt.initiator) && (!attempt.responder() || left(*attempt.responder())))
        wrong.clear();
      break;
  }
  if (!wrong.empty())
    judge.add(expectation_checker, now, attempt.label, fmt::format("was {}, but {}", expected, wrong));
}

}  // namespace parley::sim::check
