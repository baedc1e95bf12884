// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of InfiniBand's transport as text.
#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/report/text.hpp"

namespace parley::capture {
namespace {

void add_to(std::string& to, const std::string& part) { to += (to.empty() ? "" : ", ") + part; }

std::string messages_of_cm(const IbSeen& ib) {
  std::string out;
  const auto add = [&](std::uint64_t frame, std::string_view name) {
    if (frame != 0) add_to(out, fmt::format("{} (frame {})", name, frame));
  };
  add(ib.req_frame, ib.sidr ? "SIDR_REQ" : "REQ");
  if (!ib.sidr || !ib.reject) add(ib.rep_frame, ib.sidr ? "SIDR_REP" : "REP");
  add(ib.rtu_frame, "RTU");
  if (ib.reject) add(ib.reject->frame, ib.sidr ? "SIDR_REP" : "REJ");
  add(ib.dreq_frame, "DREQ");
  add(ib.drep_frame, "DREP");
  if (ib.retries > 0) add_to(out, fmt::format("{} sent again", ib.retries));
  return out.empty() ? "none in the capture" : out;
}

std::string agreed_of(const ConnectionReport& c) {
  if (const std::string_view why = c.not_agreed(); !why.empty()) return std::string(why);
  std::string out;
  if (c.ib->path_mtu != 0) add_to(out, fmt::format("path MTU {}", c.ib->path_mtu));
  if (c.ib->depths_known) add_to(out, fmt::format("IRD {} ORD {} (initiator)", c.ird, c.ord));
  return out.empty() ? "nothing but the queue pair" : out;
}

std::string steps_of(const IbSeen& ib) {
  std::string out;
  if (ib.reply)
    add_to(out, fmt::format("{} {}",
                            ib.reply_rejects ? "REJ"
                            : ib.sidr        ? "SIDR_REP"
                                             : "REP",
                            duration_text(*ib.reply)));
  if (ib.ready) add_to(out, fmt::format("RTU {}", duration_text(*ib.ready)));
  return out.empty() ? "not seen" : out;
}

std::string direction_of(const DirectionCounts& c, const IbDirection& end) {
  std::string out = fmt::format("{}, {}, {}", counted(end.packets, "packet"), counted(c.messages, "message"),
                                counted(c.octets, "octet"));
  if (c.retransmissions > 0) out += fmt::format(", {} sent again", c.retransmissions);
  if (end.rnr_naks > 0) out += ", " + counted(end.rnr_naks, "RNR NAK");
  if (end.sequence_naks > 0) out += ", " + counted(end.sequence_naks, "sequence NAK");
  if (end.missing_packets > 0) out += fmt::format(", {} missing", end.missing_packets);
  return out;
}

}  // namespace

std::string ib_kind_text(const IbSeen& ib) {
  std::string qp(to_string(ib.qp));
  for (char& c : qp) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return fmt::format("{}{}{}", ib.v2 ? "RoCEv2" : "RoCEv1", ib.qp == IbQp::unknown ? "" : " " + qp,
                     ib.sidr ? " (SIDR)" : "");
}

std::string ib_text(const ConnectionReport& c, const TextOptions& o) {
  constexpr std::size_t words_begin = 13;
  const IbSeen& ib = *c.ib;
  std::string out = fmt::format("{} -> {}  {}, {}\n", c.end_text(Side::initiator), c.end_text(Side::responder),
                                ib_kind_text(ib), result_text(c));
  const auto row = [&](std::string_view name, const std::string& words) {
    out += fmt::format("  {:<11}{}\n", name, wrap(words, o.width, words_begin));
  };
  if (const std::string service = ib.service(); !service.empty()) row("service", service);
  row("CM", messages_of_cm(ib));
  if (const std::string why = ib.reason(); !why.empty())
    row(c.outcome == Outcome::rejected ? "rejected" : "failed", ib.reject ? ib.reject->details() : why);
  row("agreed", agreed_of(c));
  if (c.outcome != Outcome::not_captured) row("steps", steps_of(ib));
  for (const auto& [side, counts] :
       {std::pair{Side::initiator, &c.from_initiator}, std::pair{Side::responder, &c.from_responder}})
    if (const IbDirection& end = ib.ends[static_cast<std::size_t>(side)]; end.packets > 0)
      row(to_string(side), direction_of(*counts, end));
  row("end", c.end);
  for (const Finding& f : c.findings) {
    if (f.severity == Severity::note && !o.notes) continue;
    row(to_string(f.severity), f.line());
  }
  return out;
}

}  // namespace parley::capture
