// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Conversations that tests alter: every form of a set-up, and every message in its surroundings.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::test {

struct Said {
  unsigned from;
  Bytes octets;
};
struct Story {
  std::string name;
  std::vector<Said> said;
};

/// The FPDUs that stand behind most set-ups: both sides, one of two segments.
inline void talk(Story& s, bool to_responder = false, bool to_initiator = false, std::uint32_t msn = 1,
                 bool crc = true) {
  std::uint64_t at = 0, back = 0;
  for (const Said& x : s.said)
    if (x.octets[0] != 'M' && x.from == 0) at += x.octets.size();
  const auto say = [&](unsigned from, const Bytes& ulpdu) {
    s.said.push_back({from, fpdu(ulpdu, from == 0 ? at : back, from == 0 ? to_responder : to_initiator, crc)});
    (from == 0 ? at : back) += s.said.back().octets.size();
  };
  say(0, send_segment(msn, 5));
  say(1, send_segment(1, 6, 0, false));
  say(1, send_segment(1, 6, 6));
  say(0, send_segment(msn + 1, 7));
}

inline std::vector<Story> set_ups() {
  constexpr std::uint8_t M = PARLEY_MPA_FLAG_M, C = PARLEY_MPA_FLAG_C, R = PARLEY_MPA_FLAG_R, S = PARLEY_MPA_FLAG_S;
  std::vector<Story> out;
  const auto begin = [&](std::string name, const Bytes& request, const Bytes& reply) -> Story& {
    out.push_back({std::move(name), {{0, request}, {1, reply}}});
    return out.back();
  };
  const Bytes words{'h', 'i'};
  talk(begin("revision 1, private data", startup(wire::MpaKey::req, C, 1, {}, words),
             startup(wire::MpaKey::rep, C, 1, {}, words)));
  talk(begin("markers, no CRC", startup(wire::MpaKey::req, M, 1), startup(wire::MpaKey::rep, M, 1)), true, true, 1,
       false);
  Story& frame = begin("Rtr frame", startup(wire::MpaKey::req, C | S, 1), startup(wire::MpaKey::rep, C | S, 1));
  frame.said.push_back({0, startup(wire::MpaKey::rtr, C, 1)});
  talk(frame);
  const wire::MpaEnhanced plain{.ird = 3, .ord = 5}, answer{.ird = 5, .ord = 3};
  talk(begin("revision 2", startup(wire::MpaKey::req, C | S, 2, plain),
             startup(wire::MpaKey::rep, C | S, 2, answer, words)));
  const wire::MpaEnhanced bd{.a = true, .b = true, .d = true, .ird = 3, .ord = 5},
      d{.a = true, .d = true, .ird = 5, .ord = 3};
  Story& rtr =
      begin("RTR by RDMA Read", startup(wire::MpaKey::req, C | S, 2, bd), startup(wire::MpaKey::rep, C | S, 2, d));
  rtr.said.push_back({0, fpdu(read_request(1, {1, 0, 0, 1, 0}))});
  rtr.said.push_back({1, fpdu(tagged(wire::RdmapOpcode::read_response, 1, 0, 0))});
  talk(rtr);
  begin("rejected", startup(wire::MpaKey::req, C, 1), startup(wire::MpaKey::rep, C | R, 1, {}, words));
  Story& again =
      begin("rejected, then again", startup(wire::MpaKey::req, C, 1, {}, words), startup(wire::MpaKey::rep, C | R, 1));
  again.said.push_back({0, startup(wire::MpaKey::req, C, 1)});
  again.said.push_back({1, startup(wire::MpaKey::rep, C, 1, {}, words)});
  talk(again);
  return out;
}

inline Exchange told(const Story& s, bool close = true) {
  Exchange x;
  x.open();
  for (const Said& one : s.said) x.send(one.from, one.octets);
  return close ? x.close() : x;
}

/// A conversation after the set-up, of which one FPDU is looked at.
struct Message {
  std::string name;
  std::vector<std::pair<unsigned, Bytes>> ulpdus;
  std::size_t looked_at;
};
inline Bytes untagged(wire::RdmapOpcode opcode, std::uint32_t qn, std::uint32_t msn, const Bytes& body,
                      std::uint32_t word = 0) {
  wire::DdpHeader h;
  h.opcode = opcode;
  h.qn = qn;
  h.msn = msn;
  h.stag = word;
  return segment(h, body);
}
inline Bytes atomic_request(std::uint32_t msn, std::uint32_t id) {
  Bytes body(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
  body[7] = static_cast<std::uint8_t>(id);
  body[11] = 9;
  return untagged(wire::RdmapOpcode::atomic_request, 1, msn, body);
}
inline Bytes atomic_response(std::uint32_t msn, std::uint32_t id) {
  Bytes body(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
  body[3] = static_cast<std::uint8_t>(id);
  return untagged(wire::RdmapOpcode::atomic_response, 3, msn, body);
}
inline Bytes terminate(std::uint8_t octet0, std::uint8_t code, std::uint8_t bits, const Bytes& of = {},
                       bool request = false) {
  Bytes body{octet0, code, bits, 0};
  if (!of.empty()) {
    body.push_back(static_cast<std::uint8_t>(of.size() >> 8));
    body.push_back(static_cast<std::uint8_t>(of.size()));
    const std::size_t n = (of[0] & PARLEY_DDP_T) != 0 ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN;
    body.insert(body.end(), of.begin(), of.begin() + static_cast<std::ptrdiff_t>(request ? of.size() : n));
  }
  return untagged(wire::RdmapOpcode::terminate, 2, 1, body);
}

inline std::vector<Message> messages() {
  const Bytes go = send_segment(1, 4), write = tagged(wire::RdmapOpcode::rdma_write, 5, 0x100, 4);
  const Bytes ask = read_request(1, {7, 0x100, 4, 8, 0x40});
  constexpr std::uint8_t MD = PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D, MDR = MD | PARLEY_RDMAP_TERM_R;
  std::vector<Message> out;
  out.push_back({"Send", {{0, go}, {0, send_segment(2, 4)}, {1, send_segment(1, 4)}}, 1});
  out.push_back({"Send, first segment",
                 {{0, go}, {0, send_segment(2, 4, 0, false)}, {0, send_segment(2, 4, 4)}, {0, send_segment(3, 4)}},
                 1});
  out.push_back({"Send, second segment",
                 {{0, go}, {0, send_segment(2, 4, 0, false)}, {0, send_segment(2, 4, 4)}, {0, send_segment(3, 4)}},
                 2});
  out.push_back({"Send with Invalidate", {{0, go}, {0, untagged(wire::RdmapOpcode::send_inv, 0, 2, {1, 2}, 0x55)}}, 1});
  out.push_back({"RDMA Write", {{0, write}, {0, go}}, 0});
  out.push_back({"RDMA Write, first segment",
                 {{0, tagged(wire::RdmapOpcode::rdma_write, 5, 0xFC, 4, false)}, {0, write}, {0, go}},
                 0});
  out.push_back({"RDMA Write, last segment",
                 {{0, tagged(wire::RdmapOpcode::rdma_write, 5, 0xFC, 4, false)}, {0, write}, {0, go}},
                 1});
  const std::pair<unsigned, Bytes> answer{1, tagged(wire::RdmapOpcode::read_response, 7, 0x100, 4)};
  out.push_back({"Read Request", {{0, ask}, answer, {0, go}}, 0});
  out.push_back({"Read Response", {{0, ask}, answer, {0, go}}, 1});
  out.push_back({"Read Response, first segment",
                 {{0, ask},
                  {1, tagged(wire::RdmapOpcode::read_response, 7, 0x100, 2, false)},
                  {1, tagged(wire::RdmapOpcode::read_response, 7, 0x102, 2)}},
                 1});
  const std::pair<unsigned, Bytes> add{0, atomic_request(1, 3)}, added{1, atomic_response(1, 3)};
  out.push_back({"Atomic Request", {add, added, {0, go}}, 0});
  out.push_back({"Atomic Response", {add, added, {0, go}}, 1});
  out.push_back({"Immediate Data", {{0, go}, {0, untagged(wire::RdmapOpcode::immediate, 0, 2, Bytes(8))}}, 1});
  out.push_back({"Terminate of an RDMA Write", {{0, go}, {0, write}, {1, terminate(0x01, 0, MD, write)}}, 2});
  out.push_back({"Terminate of a Read Request", {{0, ask}, {1, terminate(0x01, 1, MDR, ask, true)}}, 1});
  out.push_back({"Terminate of DDP, untagged", {{0, go}, {1, terminate(0x12, 2, MD, go)}}, 1});
  out.push_back({"Terminate of MPA", {{0, go}, {1, terminate(0x20, 1, 0)}}, 1});
  out.push_back({"Terminate of a local error", {{0, go}, {1, terminate(0x00, 0, 0)}}, 1});
  return out;
}

}  // namespace parley::capture::test
