// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/ladder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "draw/ladder_text.hpp"

namespace parley::capture {
namespace {

using Kind = LadderEvent::Kind;

std::string_view layer_of(Kind kind) {
  switch (kind) {
    case Kind::tcp:
    case Kind::repeated:
    case Kind::gap: return "tcp";
    case Kind::startup: return "mpa";
    case Kind::fpdu: return "rdmap";
    case Kind::terminate: return "terminate";
  }
  return "other";
}

class Filler {
 public:
  Filler(std::string_view file, const ConnectionReport& c, const CaptureLadderOptions& o) : c_(c), o_(o) {
    const std::string ends = fmt::format("{} -> {}", c.end_text(Side::initiator), c.end_text(Side::responder));
    p_.title = fmt::format("{}: {}", ends, to_string(c.outcome));
    p_.connections = {{ends, standing_text(c.judgement), std::string(to_string(c.outcome))}};
    p_.subtitle = o.number == 0 ? std::string(file) : fmt::format("{}, connection {}", file, o.number);
    p_.columns = {"initiator", "responder"};
    p_.addresses = {c.end_text(Side::initiator), c.end_text(Side::responder)};
    p_.rows_dropped = c.events_dropped;
  }

  draw::Ladder fill() {
    auto finding = c_.findings.begin();
    for (std::size_t i = 0; i < c_.events.size(); ++i) {
      const LadderEvent& e = c_.events[i];
      // Findings in frames without an event are placed before the next event.
      for (; finding != c_.findings.end() && finding->frame < e.frame; ++finding) tell(*finding);
      now_ = Instant{} + (e.at - c_.first_at);
      show(e);
      const bool frame_ends = i + 1 == c_.events.size() || c_.events[i + 1].frame != e.frame;
      if (!frame_ends) continue;
      for (; finding != c_.findings.end() && finding->frame <= e.frame; ++finding) tell(*finding);
    }
    for (; finding != c_.findings.end(); ++finding) tell(*finding);
    facts();
    return std::move(p_);
  }

 private:
  void add(draw::LadderRow row) {
    // Row times must not decrease, even if the capture's clock was set back.
    latest_ = std::max(latest_, now_);
    row.at = row.arrived = latest_;
    if (p_.rows.size() >= o_.rows_max && !row.finding())
      ++p_.rows_dropped;
    else
      p_.rows.push_back(std::move(row));
  }

  void show(const LadderEvent& e) {
    draw::LadderRow row;
    row.frame = e.frame;
    row.from = e.from == Side::initiator ? 0 : 1;
    row.to = 1 - row.from;
    row.layer = !c_.ib ? layer_of(e.kind) : e.kind == Kind::terminate ? "terminate" : "other";
    row.repeated = e.kind == Kind::repeated;
    const std::size_t name = e.name == 0 ? e.text.size() : std::min(e.name, e.text.size());
    row.text = e.text.substr(0, name);
    // The page itself adds "again" to repeated rows.
    if (row.repeated && row.text.ends_with(" again")) row.text.resize(row.text.size() - 6);
    if (name < e.text.size()) row.detail = e.text.substr(name + (e.text[name] == ' ' ? 1 : 0));
    if (e.kind == Kind::gap) {
      row.kind = draw::LadderRow::Kind::note;
      row.layer = "note";
    }
    row.fields = {{"Capture", ""},
                  {"Frame", fmt::format("{}", e.frame)},
                  {"Seconds since the first packet", draw::ladder_exact_time(Instant{} + (e.at - c_.first_at))},
                  {"Sent by", std::string(to_string(e.from))}};
    row.fields.insert(row.fields.end(), e.fields.begin(), e.fields.end());
    add(std::move(row));
  }

  void tell(const Finding& f) {
    if (f.severity == Severity::note && !o_.notes) return;
    draw::LadderRow row;
    row.frame = f.frame;
    const std::string where = f.frame == 0 ? "" : fmt::format("frame {}", f.frame);
    row.fields = {{"Finding", ""}, {"Severity", std::string(to_string(f.severity))}};
    if (!where.empty()) row.fields.emplace_back("Frame", fmt::format("{}", f.frame));
    row.fields.emplace_back("What was found", f.text);
    if (!f.rule.empty()) row.fields.emplace_back("Rule", f.rule);
    if (f.broken) row.fields.emplace_back("Key", f.key());
    if (f.severity == Severity::note) {
      const std::size_t left = f.text.find("initiator"), right = f.text.find("responder");
      row.kind = draw::LadderRow::Kind::note;
      row.from = row.to = right < left ? 1 : 0;
      row.layer = "note";
      row.text = f.text;
      if (!f.rule.empty()) row.detail = fmt::format("[{}]", f.rule);
    } else {
      const bool error = f.severity == Severity::error;
      row.kind = error ? draw::LadderRow::Kind::violation : draw::LadderRow::Kind::warning;
      row.layer = error ? "violation" : "warning";
      row.text = f.text;
      row.detail = fmt::format("{}{}{}", to_string(f.severity), where.empty() ? "" : ", ", where);
      row.why = f.rule;
    }
    add(std::move(row));
  }

  void facts() {
    p_.facts = {{"result", standing_text(c_.judgement)},
                {"findings", fmt::format("{}, {}", counted(c_.count(Severity::error), "error"),
                                         counted(c_.count(Severity::warning), "warning"))},
                {"outcome", std::string(to_string(c_.outcome))},
                {"frames", fmt::format("{} to {}", c_.first_frame, c_.last_frame)}};
    if (const std::string_view why = c_.not_agreed(); !why.empty()) {
      p_.facts.emplace_back("agreed", std::string(why));
    } else if (c_.ib) {
      p_.facts.emplace_back("transport", ib_kind_text(*c_.ib));
      if (c_.ib->path_mtu != 0) p_.facts.emplace_back("path MTU", fmt::format("{}", c_.ib->path_mtu));
      if (c_.ib->depths_known) p_.facts.emplace_back("IRD, ORD", fmt::format("{}, {}", c_.ird, c_.ord));
    } else {
      p_.facts.emplace_back("revision", fmt::format("{}", c_.revision));
      p_.facts.emplace_back("CRC", c_.crc ? "on" : "off");
      p_.facts.emplace_back("markers", markers());
      p_.facts.emplace_back("RTR", rtr_text(c_));
      if (c_.depths_negotiated) p_.facts.emplace_back("IRD, ORD", fmt::format("{}, {}", c_.ird, c_.ord));
    }
    if (c_.ib && !c_.ib->service().empty()) p_.facts.emplace_back("service", c_.ib->service());
    if (c_.ib && !c_.ib->reason().empty()) p_.facts.emplace_back("reason", c_.ib->reason());
    p_.facts.emplace_back("end", c_.end);
  }
  std::string markers() const {
    if (c_.markers_to_initiator && c_.markers_to_responder) return "both ways";
    return c_.markers_to_initiator ? "to the initiator" : c_.markers_to_responder ? "to the responder" : "none";
  }

  const ConnectionReport& c_;
  const CaptureLadderOptions& o_;
  draw::Ladder p_;
  Instant now_{}, latest_{};
};

}  // namespace

draw::Ladder ladder_of(std::string_view file, const ConnectionReport& connection, const CaptureLadderOptions& options) {
  return Filler(file, connection, options).fill();
}

}  // namespace parley::capture
