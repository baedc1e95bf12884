// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/json.hpp"

#include <fmt/format.h>

#include "base/json_text.hpp"

namespace parley::capture {
namespace {

Json milliseconds(const std::optional<Duration>& d) {
  if (!d) return nullptr;
  return in_milliseconds(*d);
}

Json startup(const std::optional<StartupSeen>& s) {
  if (!s) return nullptr;
  Json j{{"frame", s->frame},
         {"revision", s->revision},
         {"flags", fmt::format("0x{:02x}", s->flags)},
         {"pd_length", s->pd_length}};
  if (s->enhanced) {
    const auto& e = *s->enhanced;
    j.update({{"a", e.a}, {"b", e.b}, {"c", e.c}, {"d", e.d}, {"ird", e.ird}, {"ord", e.ord}});
  }
  j["private_data"] = json_octets(s->private_data);
  return j;
}

Json direction(const DirectionCounts& c) {
  return {{"octets", c.octets},
          {"fpdus", c.fpdus},
          {"messages", c.messages},
          {"retransmissions", c.retransmissions},
          {"out_of_order", c.out_of_order},
          {"missing_octets", c.missing_octets}};
}

/// Times are printed in milliseconds with all six decimals.
std::string nanoseconds_shown(double milliseconds) { return fmt::format("{:.6f}", milliseconds); }

}  // namespace

Json json(const Judgement& judged) { return {{"verdict", to_string(judged.standing)}, {"reason", judged.why}}; }

Json json(const Finding& f) {
  Json j{{"frame", f.frame},
         {"severity", to_string(f.severity)},
         {"side", f.side ? Json(to_string(*f.side)) : Json()},
         {"rule", f.rule},
         {"text", f.text}};
  if (f.broken) j["key"] = f.key();
  return j;
}

Json json(const RuleCounts& ignored) {
  Json j = Json::object();
  for (const auto& [rule, count] : ignored) j[facts_of(rule).id] = count;
  return j;
}

/// The members that only MPA has.
Json mpa_part(const ConnectionReport& c) {
  return {{"revision", c.outcome == Outcome::not_captured ? Json() : Json(c.revision)},
          {"crc", c.crc},
          {"markers", {{"to_responder", c.markers_to_responder}, {"to_initiator", c.markers_to_initiator}}},
          {"rtr", mpa::to_string(c.rtr)},
          {"rtr_agreed", mpa::to_string(c.rtr_agreed)},
          {"peer_to_peer", c.peer_to_peer},
          {"request", startup(c.request)},
          {"reply", startup(c.reply)}};
}

Json json(const ConnectionReport& c) {
  if (c.ib) return ib_json(c);
  Json mpa = mpa_part(c);
  // `revision`, `crc`, `markers` and `rtr` are repeated here for compatibility: they are older than the object `mpa`.
  Json j{{"transport", "iwarp"},
         {"protocol", "mpa"},
         {"initiator", c.initiator.to_string()},
         {"responder", c.responder.to_string()},
         {"revision", mpa["revision"]},
         {"crc", mpa["crc"]},
         {"markers", mpa["markers"]},
         {"rtr", mpa["rtr"]},
         {"ird", c.ird},
         {"ord", c.ord},
         {"depths_negotiated", c.depths_negotiated},
         {"agreed", c.not_agreed().empty()},
         {"outcome", json_word(to_string(c.outcome))},
         {"end", c.end}};
  j.update(json(c.judgement));
  j.update({{"first_frame", c.first_frame},
            {"last_frame", c.last_frame},
            {"mpa", std::move(mpa)},
            {"steps_ms",
             {{"transport", milliseconds(c.steps.tcp)},
              {"request", milliseconds(c.steps.request)},
              {"reply", milliseconds(c.steps.reply)},
              {"first_fpdu", milliseconds(c.steps.first_fpdu)}}},
            {"from_initiator", direction(c.from_initiator)},
            {"from_responder", direction(c.from_responder)},
            {"findings", Json::array()}});
  for (const Finding& f : c.findings) j["findings"].push_back(json(f));
  return j;
}

Json json(std::string_view file, const FileReport& r) {
  Json j{{"file", file}, {"packets", r.packets}, {"tcp_connections", r.tcp_connections}};
  Json& connections = j["connections"] = Json::array();
  for (const auto& c : r.connections) connections.push_back(json(c));
  if (r.all_negotiations() > 0) {
    Json& negotiations = j["negotiations"] = Json::array();
    for (const auto& n : r.negotiations) negotiations.push_back(json(n));
  }
  j["errors"] = r.count(Severity::error);
  j["warnings"] = r.count(Severity::warning);
  j["notes"] = r.notes;
  if (!r.ignored.empty()) j["ignored"] = json(r.ignored);
  j.update(json(r.judgement));
  for (const Standing s : {Standing::passed, Standing::partial, Standing::failed}) j[to_string(s)] = r.count(s);
  j["holds"] = {
      {"tcp", r.tcp_packets}, {"rocev2", r.other.rocev2}, {"rocev1", r.other.rocev1}, {"other_udp", r.other.udp}};
  return j;
}

Json error_json(std::string_view file, std::string_view error) {
  return {{"file", file}, {"connections", Json::array()}, {"error", error}, {"verdict", to_string(Standing::failed)}};
}

std::string to_json(std::string_view file, const FileReport& report, int indent) {
  return json(file, report).dump(nanoseconds_shown, indent);
}

std::string to_json(const ConnectionReport& connection) { return json(connection).dump(nanoseconds_shown); }

}  // namespace parley::capture
