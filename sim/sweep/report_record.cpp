// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/report_record.hpp"

#include <algorithm>

#include "sim/sweep/packing.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t text_max = 4096;  ///< octets of one text
constexpr std::size_t violations_max = 100, pending_max = 100;
constexpr std::size_t list_max = 10'000;  ///< members of groups, nodes and processes of XRC

/// In one line, as a record must be: a control character becomes a space.
void pack_text(Packer& out, std::string_view text) {
  std::string line(text.substr(0, text_max));
  for (std::size_t i = 0; i < line.size(); ++i)
    if (is_control(line, i)) line[i] = line[i] == '\xC2' ? '?' : ' ';
  out.text(line);
}

void pack(Packer& out, const Violation& v) {
  pack_text(out, v.checker);
  out.time(v.at - Instant{});
  pack_text(out, v.connection);
  pack_text(out, v.text);
  pack_text(out, v.rule);
}

Violation unpack_violation(Unpacker& in) {
  Violation v;
  v.checker = in.line(text_max);
  v.at = Instant(in.time());
  v.connection = in.line(text_max);
  v.text = in.line(text_max);
  v.rule = in.line(text_max);
  return v;
}

void pack(Packer& out, const XrcOutcome& node) {
  pack_text(out, node.label);
  for (const std::uint64_t n : {node.created, node.destroyed, node.reaped}) out.number(n);
  out.number(node.processes.size());
  for (const auto& process : node.processes) {
    out.flag(process.exited);
    out.number(process.messages);
    out.number(process.octets);
  }
}

XrcOutcome unpack_xrc(Unpacker& in) {
  XrcOutcome node;
  node.label = in.line(text_max);
  for (std::uint64_t* n : {&node.created, &node.destroyed, &node.reaped}) *n = in.number();
  for (std::size_t left = in.length(list_max); left > 0 && in.ok(); --left) {
    auto& process = node.processes.emplace_back();
    process.exited = in.flag();
    process.messages = in.number();
    process.octets = in.number();
  }
  return node;
}

void pack(Packer& out, const GroupOutcome& group) {
  pack_text(out, group.label);
  out.flag(group.sends);
  out.number(group.datagrams);
  out.number(group.octets);
}

GroupOutcome unpack_group(Unpacker& in) {
  GroupOutcome group;
  group.label = in.line(text_max);
  group.sends = in.flag();
  group.datagrams = in.number();
  group.octets = in.number();
  return group;
}

/// The numbers of a report, in the order in which a record has them.
template <class Report>
auto numbers_of(Report& r) {
  return std::array{&r.seed,
                    &r.established,
                    &r.rejected,
                    &r.failed,
                    &r.retries,
                    &r.faults_hit,
                    &r.lost_at_hosts,
                    &r.queue_drops,
                    &r.counters.events,
                    &r.counters.packet_hops,
                    &r.counters.dropped,
                    &r.counters.ecn_marked,
                    &r.cnp_sent,
                    &r.cnp_held,
                    &r.cnp_received};
}

/// The bounds that a report names.
void pack(Packer& out, const ScenarioBounds& bounds) {
  out.time(bounds.time);
  out.number(bounds.events.value_or(0));
  out.time(bounds.converge);
}

template <class T, class Pack>
void pack_list(Packer& out, const std::vector<T>& list, std::size_t max, Pack pack_one) {
  const std::size_t n = std::min(list.size(), max);
  out.number(n);
  for (std::size_t i = 0; i < n; ++i) pack_one(list[i]);
}

template <class T, class Unpack>
void unpack_list(Unpacker& in, std::vector<T>& list, std::size_t max, Unpack unpack_one) {
  for (std::size_t left = in.length(max); left > 0 && in.ok(); --left) list.push_back(unpack_one());
}

}  // namespace

Bytes encode_record(const ReportRecord& record) {
  const RunReport& r = record.report;
  Packer out;
  out.number(static_cast<std::uint64_t>(r.end));
  for (const std::uint64_t* n : numbers_of(r)) out.number(*n);
  out.number(record.cpu_us);
  out.time(r.finished_at - Instant{});
  pack(out, r.bounds);
  pack_text(out, r.scenario);
  const auto one = [&out](const auto& each) { pack(out, each); };
  pack_list(out, r.violations, violations_max, one);
  pack_list(out, r.pending, pending_max, [&out](const std::string& text) { pack_text(out, text); });
  pack_list(out, r.groups, list_max, one);
  pack_list(out, r.xrc, list_max, one);
  return out.take();
}

std::optional<ReportRecord> decode_record(ConstBytes octets) {
  if (octets.size() > report_record_max) return std::nullopt;
  ReportRecord record;
  RunReport& r = record.report;
  Unpacker in(octets);
  r.end = static_cast<RunEnd>(in.number(static_cast<std::uint64_t>(RunEnd::exhausted)));
  for (std::uint64_t* n : numbers_of(r)) *n = in.number();
  record.cpu_us = in.number();
  r.finished_at = Instant(in.time());
  r.bounds.time = in.time();
  r.bounds.events = in.number();
  r.bounds.converge = in.time();
  r.scenario = in.line(text_max);
  unpack_list(in, r.violations, violations_max, [&in] { return unpack_violation(in); });
  unpack_list(in, r.pending, pending_max, [&in] { return in.line(text_max); });
  unpack_list(in, r.groups, list_max, [&in] { return unpack_group(in); });
  unpack_list(in, r.xrc, list_max, [&in] { return unpack_xrc(in); });
  if (!in.at_end()) return std::nullopt;
  return record;
}

}  // namespace parley::sim
