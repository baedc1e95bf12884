// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A negotiation as text.
#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "capture/rules/neg/message_check.hpp"
#include "wire/neg.hpp"

namespace parley::capture {
namespace {

/// Appends a row: a name, and its words, wrapped.
void add_row(std::string& out, std::string_view name, const std::string& words, std::size_t width) {
  constexpr std::size_t words_begin = 13;
  out += fmt::format("  {:<11}{}\n", name, wrap(words, width, words_begin));
}

void add_part(std::string& to, const std::string& part) { to += (to.empty() ? "" : ", ") + part; }

std::string hello_text(const NegotiationReport& n) {
  if (n.hello_frame == 0) return "not in the capture";
  std::string out = fmt::format("frame {}: {}/{}", n.hello_frame, n.plugin, n.variant);
  if (!n.label.empty()) out += fmt::format(" ({})", n.label);
  if (n.done_announced && *n.done_announced) out += ", with the stage done";
  return out;
}

std::string stages_text(const NegotiationReport& n) {
  std::string out;
  for (std::uint8_t i = 1; i < n.stages.size(); ++i) {
    const NegStageSeen& stage = n.stages[i];
    if (stage.turns[0] + stage.turns[1] == 0) continue;
    add_part(out, fmt::format("{} {}+{}{}", wire::neg_stage_text(i), stage.turns[0], stage.turns[1],
                              stage.over() ? "" : " (not over)"));
  }
  return out.empty() ? "none" : "Turns of the initiator and the responder: " + out;
}

std::string qp_text(const QpSeen& q) {
  std::string out = fmt::format("frame {}: {}", q.frame, qp_transport_text(q.transport));
  const auto hex = [&](std::string_view name, const auto& value, int digits) {
    if (value) add_part(out, fmt::format("{} 0x{:0{}x}", name, *value, digits));
  };
  const auto number = [&](std::string_view name, const auto& value) {
    if (value) add_part(out, fmt::format("{} {}", name, *value));
  };
  hex("QPN", q.qpn, 6);
  hex("PSN", q.psn, 6);
  number("LID", q.lid);
  if (q.gid) add_part(out, "GID " + gid_text(*q.gid));
  number("path MTU", q.mtu);
  number("IRD", q.ird);
  number("ORD", q.ord);
  hex("Q_Key", q.qkey, 8);
  hex("SRQ", q.srqn, 6);
  hex("QPN of the sending end", q.ini_qpn, 6);
  if (q.memory)
    add_part(out, fmt::format("R_Key 0x{:08x} at 0x{:x} ({})", q.memory->rkey, q.memory->vaddr,
                              counted(q.memory->length, "octet")));
  return out;
}

std::string times_text(const NegotiationReport& n) {
  std::string out;
  if (n.connecting) add_part(out, "TCP " + duration_text(*n.connecting));
  if (n.welcoming) add_part(out, "Welcome " + duration_text(*n.welcoming));
  if (n.took) add_part(out, "all " + duration_text(*n.took));
  return out.empty() ? "not seen" : out;
}

std::string abort_text(const NegAbortSeen& a) {
  const std::string_view error = neg_error_text(a.error);
  std::string out =
      fmt::format("frame {}: by the {}: {}", a.frame, to_string(a.from), error.empty() ? "without a reason" : error);
  if (!a.text.empty()) out += ": " + a.text;
  if (!a.advice.empty()) out += fmt::format(" ({})", a.advice);
  return out;
}

std::string heading(const NegotiationReport& n) {
  const std::string standing = standing_text(n.judgement);
  return fmt::format(
      "{} -> {}  QP negotiation, {}\n", n.initiator.to_string(), n.responder.to_string(),
      n.outcome == NegOutcome::failed ? standing : fmt::format("{}, {}", to_string(n.outcome), standing));
}

}  // namespace

std::string gid_text(const std::array<std::uint8_t, 16>& gid) {
  Address a;
  a.family = Address::Family::v6;
  a.octets = gid;
  const std::string text = a.to_string();  // "[fe80::1]:0"
  return text.substr(1, text.find(']') - 1);
}

std::string to_text(const NegotiationReport& n, const TextOptions& o) {
  std::string out = heading(n);
  const auto row = [&](std::string_view name, const std::string& words) { add_row(out, name, words, o.width); };
  row("hello", hello_text(n));
  row("stages", stages_text(n));
  for (const QpSeen& q : n.attributes) row(to_string(q.side), qp_text(q));
  if (n.abort) row("abort", abort_text(*n.abort));
  row("steps", times_text(n));
  row("end", n.end);
  for (const Finding& f : n.findings) {
    if (f.severity == Severity::note && !o.notes) continue;
    row(to_string(f.severity), f.line());
  }
  return out;
}

}  // namespace parley::capture
