// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection of InfiniBand's transport as JSON.
#include <fmt/format.h>

#include "base/json_text.hpp"
#include "capture/report/json.hpp"

namespace parley::capture {
namespace {

Json frame_or_null(std::uint64_t frame) { return frame != 0 ? Json(frame) : Json(); }
Json depth_or_null(const IbSeen& seen, std::uint16_t depth) { return seen.depths_known ? Json(depth) : Json(); }
Json step_of(const std::optional<Duration>& d) { return d ? Json(in_milliseconds(*d)) : Json(); }

Json end_json(const IbDirection& end) {
  return {{"qpn", end.qpn ? Json(*end.qpn) : Json()},
          {"starting_psn", end.starting_psn ? Json(*end.starting_psn) : Json()}};
}

Json direction_json(const DirectionCounts& c, const IbDirection& end) {
  return {{"octets", c.octets},
          {"packets", end.packets},
          {"messages", c.messages},
          {"retransmissions", c.retransmissions},
          {"out_of_order", c.out_of_order},
          {"missing_octets", c.missing_octets},
          {"missing_packets", end.missing_packets},
          {"rnr_naks", end.rnr_naks},
          {"sequence_naks", end.sequence_naks}};
}

Json reject_json(const IbSeen& seen) {
  if (!seen.reject) return nullptr;
  const IbReject& r = *seen.reject;
  return {{"side", to_string(r.from)},
          {"frame", r.frame},
          {"about", r.sidr ? "SIDR_REQ" : to_string(r.about)},
          {"code", r.code},
          {"text", r.text()},
          {"private_data", r.private_data.empty() ? Json() : json_octets(r.private_data)},
          {"ulp_status", r.ulp_status.empty() ? Json() : Json(r.ulp_status)}};
}

}  // namespace

Json ib_json(const ConnectionReport& c) {
  const IbSeen& ib = *c.ib;
  Json j{{"transport", "roce"},
         {"protocol", "ibcm"},
         {"initiator", c.end_text(Side::initiator)},
         {"responder", c.end_text(Side::responder)},
         {"service", ib.service_id ? Json(ib.service()) : Json()},
         {"qp", to_string(ib.qp)},
         {"ird", depth_or_null(ib, c.ird)},
         {"ord", depth_or_null(ib, c.ord)},
         {"depths_negotiated", c.depths_negotiated},
         {"agreed", c.not_agreed().empty()},
         {"outcome", json_word(to_string(c.outcome))},
         {"end", c.end},
         {"verdict", to_string(c.judgement.standing)},
         {"reason", c.judgement.why.empty() ? ib.reason() : c.judgement.why},
         {"retries", ib.retries},
         {"first_frame", c.first_frame},
         {"last_frame", c.last_frame}};
  j["ibcm"] = {{"roce", ib.v2 ? 2 : 1},
               {"sidr", ib.sidr},
               {"service_id", ib.service_id ? Json(fmt::format("{:#018x}", *ib.service_id)) : Json()},
               {"source_port", ib.source_port != 0 ? Json(ib.source_port) : Json()},
               {"path_mtu", ib.path_mtu != 0 ? Json(ib.path_mtu) : Json()},
               {"req_frame", frame_or_null(ib.req_frame)},
               {"rep_frame", frame_or_null(ib.rep_frame)},
               {"rtu_frame", frame_or_null(ib.rtu_frame)},
               {"dreq_frame", frame_or_null(ib.dreq_frame)},
               {"drep_frame", frame_or_null(ib.drep_frame)},
               {"reject", reject_json(ib)},
               {"initiator", end_json(ib.ends[0])},
               {"responder", end_json(ib.ends[1])}};
  j.update(
      {{"steps_ms",
        {{"transport", nullptr}, {"request", nullptr}, {"reply", step_of(ib.reply)}, {"ready", step_of(ib.ready)}}},
       {"from_initiator", direction_json(c.from_initiator, ib.ends[0])},
       {"from_responder", direction_json(c.from_responder, ib.ends[1])},
       {"findings", Json::array()}});
  for (const Finding& f : c.findings) j["findings"].push_back(json(f));
  return j;
}

}  // namespace parley::capture
