// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A negotiation as JSON.
#include <fmt/format.h>

#include "base/json_text.hpp"
#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "capture/rules/neg/message_check.hpp"
#include "wire/neg.hpp"

namespace parley::capture {
namespace {

Json neg_step(const std::optional<Duration>& d) { return d ? Json(in_milliseconds(*d)) : Json(); }

Json neg_direction(const DirectionCounts& c) {
  return {{"octets", c.octets},
          {"messages", c.messages},
          {"retransmissions", c.retransmissions},
          {"out_of_order", c.out_of_order},
          {"missing_octets", c.missing_octets}};
}

Json neg_stages(const NegotiationReport& n) {
  Json out = Json::array();
  for (std::uint8_t i = 1; i < n.stages.size(); ++i) {
    const NegStageSeen& stage = n.stages[i];
    if (stage.turns[0] + stage.turns[1] == 0) continue;
    out.push_back({{"stage", wire::neg_stage_text(i)},
                   {"rounds", {{"initiator", stage.turns[0]}, {"responder", stage.turns[1]}}},
                   {"over", stage.over()}});
  }
  return out;
}

/// GID and virtual address are texts, the other values numbers.
Json qp_json(const QpSeen& q) {
  Json j{{"frame", q.frame},
         {"side", to_string(q.side)},
         {"version", q.version},
         {"transport", qp_transport_text(q.transport)}};
  const auto number = [&](std::string_view name, const auto& value) {
    if (value) j[std::string(name)] = *value;
  };
  number("qpn", q.qpn);
  number("psn", q.psn);
  number("lid", q.lid);
  if (q.gid) j["gid"] = gid_text(*q.gid);
  number("mtu", q.mtu);
  number("ird", q.ird);
  number("ord", q.ord);
  number("qkey", q.qkey);
  number("srqn", q.srqn);
  number("ini_qpn", q.ini_qpn);
  if (q.memory)
    j["memory"] = {
        {"rkey", q.memory->rkey}, {"vaddr", fmt::format("0x{:x}", q.memory->vaddr)}, {"length", q.memory->length}};
  j["tests"] = q.tests;
  return j;
}

Json abort_json(const std::optional<NegAbortSeen>& a) {
  if (!a) return nullptr;
  return {{"side", to_string(a->from)},
          {"frame", a->frame},
          {"error", neg_error_text(a->error)},
          {"text", a->text},
          {"advice", a->advice}};
}

}  // namespace

Json json(const NegotiationReport& n) {
  Json j{{"protocol", "neg"},
         {"initiator", n.initiator.to_string()},
         {"responder", n.responder.to_string()},
         {"plugin", n.plugin},
         {"variant", n.variant},
         {"label", n.label},
         {"done_announced", n.done_announced ? Json(*n.done_announced) : Json()},
         {"outcome", to_string(n.outcome)},
         {"end", n.end}};
  j.update(json(n.judgement));
  j.update({{"first_frame", n.first_frame},
            {"last_frame", n.last_frame},
            {"hello_frame", n.hello_frame != 0 ? Json(n.hello_frame) : Json()},
            {"welcome_frame", n.welcome_frame != 0 ? Json(n.welcome_frame) : Json()},
            {"stages", neg_stages(n)},
            {"attributes", Json::array()},
            {"abort", abort_json(n.abort)},
            {"steps_ms",
             {{"transport", neg_step(n.connecting)}, {"welcome", neg_step(n.welcoming)}, {"all", neg_step(n.took)}}},
            {"from_initiator", neg_direction(n.from_initiator)},
            {"from_responder", neg_direction(n.from_responder)},
            {"findings", Json::array()}});
  for (const QpSeen& q : n.attributes) j["attributes"].push_back(qp_json(q));
  for (const Finding& f : n.findings) j["findings"].push_back(json(f));
  return j;
}

}  // namespace parley::capture
