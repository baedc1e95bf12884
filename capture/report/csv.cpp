// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/csv.hpp"

#include <fmt/format.h>

#include <array>

#include "base/escape.hpp"
#include "base/json_text.hpp"

namespace parley::capture {
namespace {

constexpr std::array<std::string_view, 45> columns_of_a_connection{"file",
                                                                   "connection",
                                                                   "initiator",
                                                                   "responder",
                                                                   "outcome",
                                                                   "end",
                                                                   "revision",
                                                                   "crc",
                                                                   "markers_to_responder",
                                                                   "markers_to_initiator",
                                                                   "peer_to_peer",
                                                                   "rtr",
                                                                   "rtr_agreed",
                                                                   "depths_negotiated",
                                                                   "ird",
                                                                   "ord",
                                                                   "first_frame",
                                                                   "last_frame",
                                                                   "begin_s",
                                                                   "duration_s",
                                                                   "reply_ms",
                                                                   "initiator_octets",
                                                                   "initiator_fpdus",
                                                                   "initiator_messages",
                                                                   "initiator_retransmissions",
                                                                   "initiator_missing_octets",
                                                                   "responder_octets",
                                                                   "responder_fpdus",
                                                                   "responder_messages",
                                                                   "responder_retransmissions",
                                                                   "responder_missing_octets",
                                                                   "errors",
                                                                   "warnings",
                                                                   "notes",
                                                                   "first_error_frame",
                                                                   "first_error_rule",
                                                                   "first_error",
                                                                   "verdict",
                                                                   "reason",
                                                                   "agreed",
                                                                   "protocol",
                                                                   "service",
                                                                   "qp",
                                                                   "retries",
                                                                   "first_error_key"};

constexpr std::size_t standing_columns = 3, roce_columns = 4, key_columns = 1;

class Line {
 public:
  Line& text(std::string_view v) { return add(csv_quote(v)); }
  Line& flag(bool v) { return add(v ? "true" : "false"); }
  Line& number(std::uint64_t v) { return add(fmt::format("{}", v)); }
  Line& none() { return add(""); }
  /// `ns` divided by `unit` as a decimal number with `digits` decimals; `unit` must be 10^digits.
  Line& decimal(std::int64_t ns, std::int64_t unit, int digits) {
    const bool minus = ns < 0;
    const auto size = static_cast<std::uint64_t>(minus ? -ns : ns), one = static_cast<std::uint64_t>(unit);
    return add(fmt::format("{}{}.{:0{}}", minus ? "-" : "", size / one, size % one, digits));
  }
  std::string take() { return std::move(out_); }

 private:
  Line& add(std::string_view v) {
    if (!first_) out_ += ',';
    first_ = false;
    out_ += v;
    return *this;
  }
  std::string out_;
  bool first_ = true;
};

void direction(Line& l, const DirectionCounts& c) {
  l.number(c.octets).number(c.fpdus).number(c.messages).number(c.retransmissions).number(c.missing_octets);
}

std::string standing(Line& l, const ConnectionReport& c, std::string_view first_error_key = {}) {
  const std::string why = c.ib && c.judgement.why.empty() ? c.ib->reason() : c.judgement.why;
  l.text(to_string(c.judgement.standing)).text(why).flag(c.not_agreed().empty());
  if (!c.ib) return l.text("mpa").none().none().none().text(first_error_key).take();
  return l.text("ibcm")
      .text(c.ib->service())
      .text(to_string(c.ib->qp))
      .number(c.ib->retries)
      .text(first_error_key)
      .take();
}

std::string connection(std::string_view file, std::uint64_t number, const ConnectionReport& c) {
  Line l;
  l.text(file).number(number).text(c.end_text(Side::initiator)).text(c.end_text(Side::responder));
  l.text(json_word(to_string(c.outcome))).text(c.end);
  if (c.outcome == Outcome::not_captured || c.ib)
    l.none();
  else
    l.number(c.revision);
  l.flag(c.crc);
  l.flag(c.markers_to_responder).flag(c.markers_to_initiator).flag(c.peer_to_peer);
  l.text(mpa::to_string(c.rtr)).text(mpa::to_string(c.rtr_agreed)).flag(c.depths_negotiated);
  if (c.ib && !c.ib->depths_known)
    l.none().none();
  else
    l.number(c.ird).number(c.ord);
  l.number(c.first_frame).number(c.last_frame);
  l.decimal(c.first_at.time_since_epoch().count(), 1'000'000'000, 9);
  l.decimal((c.last_at - c.first_at).count(), 1'000'000'000, 9);
  if (c.steps.reply)
    l.decimal(c.steps.reply->count(), 1'000'000, 6);
  else
    l.none();
  direction(l, c.from_initiator);
  direction(l, c.from_responder);
  l.number(c.count(Severity::error)).number(c.count(Severity::warning)).number(c.count(Severity::note));
  for (const Finding& f : c.findings)
    if (f.severity == Severity::error) {
      l.number(f.frame).text(f.rule).text(f.text);
      return standing(l, c, f.key());
    }
  l.none().none().none();
  return standing(l, c);
}

std::string end_of_line(std::string_view file, const draw::Provenance* provenance) {
  return (provenance != nullptr ? draw::csv_report(*provenance, file) : "") + "\n";
}

}  // namespace

std::string csv_header(const draw::Provenance* provenance) {
  std::string out;
  for (const std::string_view name : columns_of_a_connection) {
    if (!out.empty()) out += ',';
    out += name;
  }
  if (provenance != nullptr) out += draw::csv_report_names();
  return out + "\n";
}

std::string to_csv(std::string_view file, std::uint64_t number, const ConnectionReport& c,
                   const draw::Provenance* provenance) {
  return connection(file, number, c) + end_of_line(file, provenance);
}

std::string to_csv(std::string_view file, const FileReport& report, const draw::Provenance* provenance) {
  const std::string end = end_of_line(file, provenance);
  std::string out;
  std::uint64_t number = 0;
  for (const auto& c : report.connections) out += connection(file, ++number, c) + end;
  if (report.all_connections() > 0) return out;
  // A file without connections needs a line, or it would look as if it had not been read.
  Line l;
  l.text(file);
  for (std::size_t i = 1; i + standing_columns + roce_columns + key_columns < columns_of_a_connection.size(); ++i)
    l.none();
  l.text(to_string(report.judgement.standing)).text(report.judgement.why).none();
  return l.none().none().none().none().none().take() + end;
}

}  // namespace parley::capture
