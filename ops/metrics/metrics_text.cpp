// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The families of metrics, with their names and help texts. Samples with at most one label exist from the start, so
// that rates can be computed from the first event. Samples with more labels exist only after their first event.
#include <utility>

#include "ops/metrics/metrics.hpp"

namespace parley::ops {
namespace {

using Type = Exposition::Type;
constexpr std::array<std::string_view, 2> direction_words{"received", "sent"};
constexpr std::array<std::string_view, 2> role_words{"initiator", "responder"};
constexpr std::array<std::string_view, 7> stage_words{"resolve",  "route", "transport", "request",
                                                      "decision", "reply", "ready"};

/// Samples with one label. The label "other" appears only if it was counted.
template <const auto& words>
void write(Exposition& out, std::string_view label, const CountBy<words>& counts) {
  for (std::size_t i = 0; i < counts.size; ++i)
    if (i < words.size() || counts[i] > 0) out.sample({{label, counts.label(i)}}, counts[i]);
}

/// Samples with a direction and another label.
template <const auto& words>
void write(Exposition& out, std::string_view label, const std::array<CountBy<words>, 2>& counts, bool all) {
  for (std::size_t sent = 0; sent < counts.size(); ++sent)
    for (std::size_t i = 0; i < CountBy<words>::size; ++i)
      if ((all && i < words.size()) || counts[sent][i] > 0)
        out.sample({{label, CountBy<words>::label(i)}, {"direction", direction_words[sent]}}, counts[sent][i]);
}

/// Rejects by programs are counted with the program's decision, not here.
void write_rejects(Exposition& out, const std::vector<CmRejectCounts>& rejects) {
  for (std::size_t sent = 0; sent < 2; ++sent)
    for (const CmRejectCounts& of : rejects)
      if (const std::uint64_t n = sent != 0 ? of.sent : of.received; n > 0 && of.reason != "consumer_reject")
        out.sample({{"reason", of.reason}, {"direction", direction_words[sent]}}, n);
}

void write_roles(Exposition& out, const std::array<std::uint64_t, 2>& counts) {
  for (std::size_t role = 0; role < counts.size(); ++role) out.sample({{"role", role_words[role]}}, counts[role]);
}

}  // namespace

std::string Metrics::text() const {
  Exposition out;
  out.family("parley_build_info", Type::gauge, "Always 1; the label has the version.");
  out.sample({{"version", version_}}, 1);
  const auto packets = packets_ ? std::optional(packets_()) : std::nullopt;
  if (of_ == CommandKind::negotiations) {
    negotiations_.write(out);
    write_turned_away(out);
    if (packets) write_packets(out, *packets);
    return out.text();
  }
  write_messages(out, packets);
  write_outcomes(out, packets);
  write_times(out);
  if (packets) write_packets(out, *packets);
  return out.text();
}

void Metrics::write_messages(Exposition& out, const std::optional<PacketCounts>& packets) const {
  out.family("parley_messages_total", Type::counter, "Messages of connection set-up, and Terminates.");
  write(out, "type", messages_, !packets);
  if (packets)
    for (const CmMessageCounts& of : packets->messages) {
      out.sample({{"type", of.type}, {"direction", direction_words[0]}}, of.received);
      out.sample({{"type", of.type}, {"direction", direction_words[1]}}, of.sent);
    }
  out.family("parley_duplicates_total", Type::counter,
             "Messages received again in one attempt to set up a connection.");
  write(out, "type", duplicates_);
  out.family("parley_fpdus_total", Type::counter, "FPDUs, by the RDMAP opcode.");
  write(out, "opcode", fpdus_, false);
  out.family("parley_fpdu_payload_bytes_total", Type::counter, "Octets in FPDUs behind the DDP header.");
  write(out, "opcode", octets_, false);
}

void Metrics::write_outcomes(Exposition& out, const std::optional<PacketCounts>& packets) const {
  out.family("parley_connections_started_total", Type::counter, "Connections that this side opened or admitted.");
  write_roles(out, started_);
  out.family("parley_connections_established_total", Type::counter, "Connections that were set up.");
  write_roles(out, established_);
  out.family("parley_connections", Type::gauge, "Connections that are established now.");
  write_roles(out, open_);
  out.family("parley_rejects_total", Type::counter,
             "Rejections of a connection by a program, or by a connection manager, this side's or the peer's.");
  write(out, "reason", rejects_, false);
  write(out, "reason", rejs_, false);
  if (packets) write_rejects(out, packets->rejects);
  out.family("parley_setup_failures_total", Type::counter,
             "Set-ups that failed otherwise, by what this side was doing.");
  for (std::size_t step = 0; step < failures_.size(); ++step)
    for (std::size_t reason = 0; reason < CountBy<reason_words>::size; ++reason)
      if (failures_[step][reason] > 0)
        out.sample({{"step", CountBy<step_words>::label(step)}, {"reason", CountBy<reason_words>::label(reason)}},
                   failures_[step][reason]);
  out.family("parley_retries_total", Type::counter, "Set-ups that went on at another address or by other means.");
  write(out, "reason", retries_);
  write_turned_away(out);
  out.family("parley_disconnects_total", Type::counter, "Connections that ended gracefully.");
  out.sample({}, disconnects_);
  out.family("parley_connections_lost_total", Type::counter, "Connections that ended otherwise.");
  write(out, "reason", lost_);
  out.family("parley_timer_expirations_total", Type::counter, "Deadlines that passed.");
  write(out, "timer", expired_);
}

void Metrics::write_turned_away(Exposition& out) const {
  out.family("parley_turned_away_total", Type::counter,
             "Peers reset for lack of room: refused at once, or evicted while half-open.");
  for (const auto& [how, counts] : {std::pair{"refused", &refused_}, std::pair{"evicted", &evicted_}})
    for (std::size_t i = 0; i < counts->size; ++i)
      if (i < limit_words.size() || (*counts)[i] > 0)
        out.sample({{"how", how}, {"limit", counts->label(i)}}, (*counts)[i]);
}

void Metrics::write_times(Exposition& out) const {
  out.family("parley_setup_seconds", Type::histogram,
             "From the first attempt, or the peer's TCP connection, until established.");
  for (std::size_t role = 0; role < roles; ++role) out.sample({{"role", role_words[role]}}, set_up_times_[role]);
  out.family("parley_setup_stage_seconds", Type::histogram,
             "Time in each stage of a set-up; of a retried one, in each stage of each attempt.");
  for (std::size_t role = 0; role < roles; ++role)
    for (std::size_t stage = 0; stage < stages; ++stage) {
      // For the initiator, the peer's decision is part of the wait for its Reply. A responder's transport exists
      // already.
      const auto unlike = static_cast<std::size_t>(role == 0 ? Stage::decision : Stage::transport);
      // Resolve and route exist only for an initiator on a NIC.
      const bool nic = stage <= static_cast<std::size_t>(Stage::route);
      if (nic ? stage_times_[role][stage].count() > 0 : stage != unlike)
        out.sample({{"role", role_words[role]}, {"stage", stage_words[stage]}}, stage_times_[role][stage]);
    }
}

void Metrics::write_packets(Exposition& out, const PacketCounts& counts) {
  out.family("parley_roce_packets_total", Type::counter,
             "RoCE packets over UDP sockets, received ones before any check.");
  out.sample({{"direction", direction_words[0]}}, counts.received);
  out.sample({{"direction", direction_words[1]}}, counts.sent);
  out.family("parley_roce_packets_unsent_total", Type::counter, "RoCE packets that the system refused to send.");
  out.sample({}, counts.unsent);
  out.family("parley_roce_packets_dropped_total", Type::counter, "RoCE packets that were received and dropped.");
  for (const auto& [reason, packets] : counts.dropped) out.sample({{"reason", reason}}, packets);
  if (counts.messages.empty()) return;
  out.family("parley_roce_cm_retransmissions_total", Type::counter,
             "CM messages retransmitted, after a timeout or a duplicate.");
  for (const CmMessageCounts& of : counts.messages) out.sample({{"type", of.type}}, of.resent);
}

}  // namespace parley::ops
