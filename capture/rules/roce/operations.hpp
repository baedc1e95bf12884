// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How the operations of IBA vol. 1 §9.2.1 form messages.
#pragma once
#include <cstdint>
#include <string>

#include "wire/ib/packet.hpp"

namespace parley::capture {

/// Whether MSN a is less than MSN b, modulo 2^24 (IBA §9.7.5.1).
constexpr bool is_behind(std::uint32_t a, std::uint32_t b) { return ((a - b) & 0xFFFFFF) >= 0x800000; }

/// The name without the service: "SEND Only".
inline std::string operation_text(wire::ib::Operation o) {
  return wire::ib::opcode_text(wire::ib::opcode_of(wire::ib::Service::rc, o)).substr(3);
}

/// First and Middle: the next packet continues the message.
constexpr bool expects_more(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o == send_first || o == send_middle || o == write_first || o == write_middle;
}

/// Middle and Last: an earlier packet began the message.
constexpr bool continues_message(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o == send_middle || o == send_last || o == send_last_imm || o == send_last_inv || o == write_middle ||
         o == write_last || o == write_last_imm;
}

constexpr bool is_send(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o <= send_only_imm || o == send_last_inv || o == send_only_inv;
}

/// This is the last packet of a message that consumes a receive of its receiver.
constexpr bool consumes_receive(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return (is_send(o) && o != send_first && o != send_middle) || o == write_last_imm || o == write_only_imm;
}

constexpr bool ends_message(wire::ib::Operation o) { return !expects_more(o); }

constexpr bool carries_no_payload(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o == read_request || o == cmp_swap || o == fetch_add;
}

constexpr bool is_atomic(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o == cmp_swap || o == fetch_add;
}

constexpr bool is_read_response(wire::ib::Operation o) {
  using enum wire::ib::Operation;
  return o == read_response_first || o == read_response_middle || o == read_response_last || o == read_response_only;
}

}  // namespace parley::capture
