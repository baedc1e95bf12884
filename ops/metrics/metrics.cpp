// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How each event is counted. metrics_text.cpp prints the counts.
#include "ops/metrics/metrics.hpp"

#include <utility>

namespace parley::ops {

namespace {

template <class Counts>
void count(Counts& counts, std::string_view traced, std::uint64_t by = 1) {
  counts[Counts::index(traced)] += by;
}

}  // namespace

void Metrics::begin(const trace::Record& record, Role role) {
  ++started_[static_cast<std::size_t>(role)];
  if (followed_.size() >= followed_max) return;
  followed_[record.connection] = {.role = role, .begun = record.at, .stage_begun = record.at};
}

Metrics::TrackedConnection* Metrics::find(const trace::Record& record) {
  const auto at = followed_.find(record.connection);
  return at == followed_.end() ? nullptr : &at->second;
}

/// A stage ends, and the next one begins.
void Metrics::done(TrackedConnection& c, Stage stage, Instant at) {
  if (c.established) return;
  stage_times_[static_cast<std::size_t>(c.role)][static_cast<std::size_t>(stage)].observe(at - c.stage_begun);
  c.stage_begun = at;
}

void Metrics::ended(TrackedConnection& c) {
  if (std::exchange(c.established, false)) --open_[static_cast<std::size_t>(c.role)];
}

void Metrics::forget(const trace::Record& record) {
  if (TrackedConnection* c = find(record)) ended(*c);
  followed_.erase(record.connection);
}

/// A second message of the same kind in one attempt is a duplicate: a set-up has one message of each kind.
void Metrics::message(const trace::Record& record, std::string_view kind, bool sent) {
  count(messages_[sent], kind);
  TrackedConnection* c = find(record);
  const std::size_t at = CountBy<message_words>::index(kind);
  if (sent || c == nullptr || at >= message_words.size()) return;
  const auto bit = static_cast<std::uint16_t>(1U << at);
  if ((c->received & bit) != 0) ++duplicates_[at];
  c->received |= bit;
}

struct Metrics::EventVisitor {
  Metrics& m;
  const trace::Record& record;

  void operator()(const trace::CmState& e) const {
    if (e.from == "noted") return m.begin(record, Role::initiator);
    if (e.to == "over" || e.to == "gone" || e.to == "moved") return m.forget(record);
    TrackedConnection* c = m.find(record);
    if (c == nullptr) return;
    // Parley's RoCE sends its REP in this phase. For a NIC, a KernelMessage event reports it.
    if (c->role == Role::responder && e.to == "accepting" && !c->of_kernel) m.done(*c, Stage::reply, record.at);
    if (c->role != Role::initiator) return;
    if (e.to == "requesting") m.done(*c, Stage::request, record.at);
    if (e.from == "requesting" && e.to == "open") m.done(*c, Stage::reply, record.at);
    if (e.from == "opening" && e.to == "startup") m.done(*c, Stage::transport, record.at);
    if (e.from == "addr" && e.to == "route") m.done(*c, Stage::resolve, record.at);
    if (e.from == "route" && (e.to == "connecting" || e.to == "resolved")) m.done(*c, Stage::route, record.at);
    // Exclude the time that the program took between resolve and connect.
    if (e.from == "resolved") c->begun += record.at - c->stage_begun;
    // A new attempt, immediately or after its back-off.
    if (e.to == "opening" || e.to == "addr" || e.to == "binding" || e.from == "queued")
      c->stage_begun = record.at, c->received = 0;
  }
  void operator()(const trace::Admitted&) const { m.begin(record, Role::responder); }
  void operator()(const trace::Refused& e) const { count(m.refused_, e.limit); }
  void operator()(const trace::Evicted& e) const {
    count(m.evicted_, e.limit);
    m.forget(record);
  }
  void operator()(const trace::Decided& e) const {
    if (!e.accept) count(m.rejects_[1], "rejected");
    if (TrackedConnection* c = m.find(record)) m.done(*c, Stage::decision, record.at);
  }
  void operator()(const trace::Established&) const {
    TrackedConnection* c = m.find(record);
    if (c == nullptr || c->established) return;
    const auto role = static_cast<std::size_t>(c->role);
    m.done(*c, Stage::ready, record.at);
    m.set_up_times_[role].observe(record.at - c->begun);
    c->established = true;
    ++m.established_[role];
    ++m.open_[role];
  }
  void operator()(const trace::Rejected&) const { count(m.rejects_[0], "rejected"); }
  void operator()(const trace::Failed& e) const {
    count(m.failures_[CountBy<step_words>::index(e.why.step.name)], reason_of(e.why.code));
  }
  void operator()(const trace::Retrying& e) const {
    count(m.retries_, reason_of(e.why.code));
    TrackedConnection* c = m.find(record);
    if (c != nullptr) c->stage_begun = record.at, c->received = 0;
  }
  void operator()(const trace::Disconnected&) const {
    ++m.disconnects_;
    if (TrackedConnection* c = m.find(record)) m.ended(*c);
  }
  void operator()(const trace::Lost& e) const {
    count(m.lost_, reason_of(e.why.code));
    if (TrackedConnection* c = m.find(record)) m.ended(*c);
  }
  void operator()(const trace::TimerExpired& e) const { count(m.expired_, e.timer); }
  void operator()(const trace::MpaFrame& e) const {
    m.message(record, e.kind, e.sent);
    TrackedConnection* c = m.find(record);
    if (c == nullptr) return;
    const bool by_initiator = e.sent == (c->role == Role::initiator);
    if (e.kind == "Request" && by_initiator) m.done(*c, Stage::request, record.at);
    if (e.kind == "Reply" && !by_initiator) m.done(*c, Stage::reply, record.at);
  }
  // The kernel reports only complete requests: a responder's set-up begins here.
  void operator()(const trace::Requested& e) const {
    if (e.device.empty() || m.find(record) != nullptr) return;
    m.begin(record, Role::responder);
    if (TrackedConnection* c = m.find(record)) c->of_kernel = true;
  }
  void operator()(const trace::KernelMessage& e) const {
    m.message(record, e.kind, e.sent);
    if (!e.reason.empty() && e.reason != "consumer_reject") count(m.rejs_[e.sent], e.reason);
    TrackedConnection* c = m.find(record);
    if (c == nullptr) return;
    const bool replies = e.kind == "REP" || e.kind == "Reply";
    // The kernel reports an iWARP device's Request only with the Reply, so that both are in one stage.
    if (e.kind == "REQ" && c->role == Role::initiator && e.sent) m.done(*c, Stage::request, record.at);
    if (replies && e.sent == (c->role == Role::responder)) m.done(*c, Stage::reply, record.at);
  }
  void operator()(const trace::Rtr& e) const { m.message(record, e.form, e.sent); }
  void operator()(const trace::Terminate& e) const { m.message(record, "Terminate", e.sent); }
  void operator()(const trace::Fpdu& e) const {
    count(m.fpdus_[e.sent], e.opcode);
    count(m.octets_[e.sent], e.opcode, e.octets);
  }
  template <class E>
  requires(E::name.starts_with("neg.")) void operator()(const E&) const { m.negotiations_.record(record); }
  // These events repeat others or are not counted.
  void operator()(const trace::Listening&) const {}
  void operator()(const trace::Resolved&) const {}
  void operator()(const trace::KernelEvent&) const {}
  void operator()(const trace::AddressChanged&) const {}
  void operator()(const trace::DeviceRemoved&) const {}
  void operator()(const trace::TimewaitExit&) const {}
  void operator()(const trace::TcpEnded&) const {}
  void operator()(const trace::TimerArmed&) const {}
  void operator()(const trace::MpaReason&) const {}
  void operator()(const trace::QpState&) const {}
};

void Metrics::record(const trace::Record& record) { std::visit(EventVisitor{*this, record}, record.event); }

}  // namespace parley::ops
