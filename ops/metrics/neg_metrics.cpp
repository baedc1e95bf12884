// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ops/metrics/neg_metrics.hpp"

#include <utility>

namespace parley::ops {
namespace {

using Type = Exposition::Type;
constexpr std::array<std::string_view, 2> neg_roles{"initiator", "responder"};
constexpr std::array<std::string_view, 5> neg_stages{"transport", "hello", "info", "ready", "done"};
constexpr std::array<std::string_view, 2> neg_directions{"received", "sent"};
constexpr std::array<std::string_view, 2> deciders{"self", "peer"};
constexpr std::array<std::string_view, 2> next_addresses{"same", "backup"};

}  // namespace

struct NegMetrics::EventVisitor {
  NegMetrics& m;
  const trace::Record& record;

  void operator()(const trace::NegStarted& e) const {
    const std::size_t role = e.role == neg_roles[0] ? 0 : 1;
    ++m.started_[role];
    ++m.open_[role];
    if (m.followed_.size() < followed_max)
      m.followed_[record.connection] = {.role = role, .begun = record.at, .stage_begun = record.at};
  }
  void operator()(const trace::NegMessage& e) const {
    const std::size_t kind = CountBy<neg_message_words>::index(e.kind);
    ++m.messages_[e.sent][kind];
    // A responder waits for the Hello first.
    if (e.kind == "Hello" && !e.sent) m.done(record, Stage::hello);
  }
  void operator()(const trace::NegStage& e) const {
    const TrackedNegotiation* dial = m.find(record);
    // A dial enters the stage info when its connection is established.
    if (dial != nullptr && dial->role == 0 && e.to == "info") m.done(record, Stage::transport);
    if (e.from == "info") m.done(record, Stage::info);
    if (e.from == "ready") m.done(record, Stage::ready);
    if (e.from == "done") m.done(record, Stage::done);
    if (TrackedNegotiation* s = m.find(record)) s->stage_begun = record.at;
  }
  void operator()(const trace::NegRefused& e) const { ++m.refused_[CountBy<problem_words>::index(e.problem)]; }
  void operator()(const trace::NegAgreed&) const { m.forget(record, true); }
  void operator()(const trace::NegFailed& e) const {
    const std::size_t stage = CountBy<neg_stage_words>::index(e.why.stage);
    ++m.failures_[stage][e.why.by_peer][CountBy<problem_words>::index(e.why.problem)];
    m.forget(record, false);
  }
  void operator()(const trace::NegRetrying& e) const {
    ++m.retries_[e.backup][CountBy<problem_words>::index(e.why.problem)];
  }
  // Other events report requests too; the rest concerns connections.
  template <class E>
  void operator()(const E&) const {}
};

NegMetrics::TrackedNegotiation* NegMetrics::find(const trace::Record& record) {
  const auto at = followed_.find(record.connection);
  return at == followed_.end() ? nullptr : &at->second;
}

/// A stage ends, and the next one begins.
void NegMetrics::done(const trace::Record& record, Stage stage) {
  TrackedNegotiation* s = find(record);
  if (s == nullptr) return;
  stage_times_[s->role][static_cast<std::size_t>(stage)].observe(record.at - s->stage_begun);
  s->stage_begun = record.at;
}

bool NegMetrics::forget(const trace::Record& record, bool agreed) {
  const TrackedNegotiation* s = find(record);
  if (s == nullptr) return false;
  --open_[s->role];
  if (agreed) {
    ++agreed_[s->role];
    times_[s->role].observe(record.at - s->begun);
  }
  followed_.erase(record.connection);
  return true;
}

void NegMetrics::record(const trace::Record& record) { std::visit(EventVisitor{*this, record}, record.event); }

void NegMetrics::write(Exposition& out) const {
  const auto by_role = [&out](std::string_view name, Type type, std::string_view help, const auto& counts) {
    out.family(name, type, help);
    for (std::size_t role = 0; role < roles; ++role) out.sample({{"role", neg_roles[role]}}, counts[role]);
  };
  using Kinds = CountBy<neg_message_words>;
  using Problems = CountBy<problem_words>;
  out.family("parley_negotiation_messages_total", Type::counter, "Messages of negotiations.");
  for (std::size_t sent = 0; sent < 2; ++sent)
    for (std::size_t kind = 0; kind < Kinds::size; ++kind)
      if (kind < neg_message_words.size() || messages_[sent][kind] > 0)
        out.sample({{"type", Kinds::label(kind)}, {"direction", neg_directions[sent]}}, messages_[sent][kind]);
  by_role("parley_negotiations_started_total", Type::counter, "Dials, and peers that have connected.", started_);
  by_role("parley_negotiations_agreed_total", Type::counter, "Negotiations of which all stages are over.", agreed_);
  by_role("parley_negotiations", Type::gauge, "Negotiations that are under way now.", open_);
  out.family("parley_negotiation_refusals_total", Type::counter, "Requests for what this side does not offer.");
  for (std::size_t at = 0; at < Problems::size; ++at)
    if (refused_[at] > 0) out.sample({{"reason", Problems::label(at)}}, refused_[at]);
  out.family("parley_negotiation_failures_total", Type::counter, "Negotiations that failed, and where.");
  for (std::size_t stage = 0; stage < failures_.size(); ++stage)
    for (std::size_t peer = 0; peer < deciders.size(); ++peer)
      for (std::size_t at = 0; at < Problems::size; ++at)
        if (failures_[stage][peer][at] > 0)
          out.sample({{"stage", CountBy<neg_stage_words>::label(stage)},
                      {"reason", Problems::label(at)},
                      {"by", deciders[peer]}},
                     failures_[stage][peer][at]);
  out.family("parley_negotiation_retries_total", Type::counter, "Attempts of a dial that another one followed.");
  for (std::size_t backup = 0; backup < next_addresses.size(); ++backup)
    for (std::size_t at = 0; at < Problems::size; ++at)
      if (retries_[backup][at] > 0)
        out.sample({{"reason", Problems::label(at)}, {"next", next_addresses[backup]}}, retries_[backup][at]);
  out.family("parley_negotiation_seconds", Type::histogram,
             "From the dial, or the peer's TCP connection, until agreed.");
  for (std::size_t role = 0; role < roles; ++role) out.sample({{"role", neg_roles[role]}}, times_[role]);
  out.family("parley_negotiation_stage_seconds", Type::histogram,
             "Time in each stage of a negotiation; of a retried one, in each stage of each attempt.");
  for (std::size_t role = 0; role < roles; ++role)
    for (std::size_t stage = 0; stage < stages; ++stage)
      // A responder has no transport stage, and an initiator has no Hello stage.
      if (stage != (role == 0 ? static_cast<std::size_t>(Stage::hello) : static_cast<std::size_t>(Stage::transport)))
        out.sample({{"role", neg_roles[role]}, {"stage", neg_stages[stage]}}, stage_times_[role][stage]);
}

}  // namespace parley::ops
