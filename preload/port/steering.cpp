// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port/steering.hpp"

#include <linux/filter.h>

#include "parley/wire/ib.h"
#include "wire/ib/cm.hpp"

namespace parley::preload::port {

namespace {

using wire::ib::CmMessageType;

// Offsets in the UDP payload: BTH (12 octets), DETH (8), MAD header (24), the CM's message.
constexpr std::uint32_t bth_qpn = 4;         // a reserved octet, then 24 bits
constexpr std::uint32_t mad_class = 20 + 1;  // IBA §13.4.2
constexpr std::uint32_t mad_attribute = 20 + 16;
constexpr std::uint32_t cm_local_id = 44;  // or the request ID of SIDR
constexpr std::uint32_t cm_remote_id = 48;
constexpr std::uint32_t cm_service = 52;  // 64 bits, of a REQ and of a SIDR_REQ (IBA §12.6.5, §12.11.1)
constexpr std::uint32_t qpn_bits = 0xFFFFFF;

constexpr Instruction load_octet(std::uint32_t at) { return {BPF_LD | BPF_B | BPF_ABS, 0, 0, at}; }
constexpr Instruction load_16(std::uint32_t at) { return {BPF_LD | BPF_H | BPF_ABS, 0, 0, at}; }
constexpr Instruction load_32(std::uint32_t at) { return {BPF_LD | BPF_W | BPF_ABS, 0, 0, at}; }
constexpr Instruction to_socket(std::uint32_t index) { return {BPF_RET | BPF_K, 0, 0, index}; }
constexpr Instruction if_equal(std::uint32_t k, std::uint8_t skip_if_true, std::uint8_t skip_if_false) {
  return {BPF_JMP | BPF_JEQ | BPF_K, skip_if_true, skip_if_false, k};
}

}  // namespace

std::vector<Instruction> steering(std::size_t sockets, const std::map<std::uint64_t, std::uint8_t>& services) {
  std::vector<Instruction> out;
  const auto to_loaded = [&] {  // three instructions
    out.push_back({BPF_JMP | BPF_JGE | BPF_K, 0, 1, static_cast<std::uint32_t>(sockets)});
    out.push_back(to_socket(0));
    out.push_back({BPF_RET | BPF_A, 0, 0, 0});
  };
  out.push_back(load_octet(bth_qpn + 1));
  out.push_back(if_equal(0, 3, 0));
  to_loaded();
  out.push_back(load_32(bth_qpn));
  out.push_back({BPF_ALU | BPF_AND | BPF_K, 0, 0, qpn_bits});
  out.push_back(if_equal(PARLEY_IB_GSI_QPN, 1, 0));
  out.push_back(to_socket(0));
  out.push_back(load_octet(mad_class));
  out.push_back(if_equal(PARLEY_IB_CLASS_CM, 1, 0));
  out.push_back(to_socket(0));
  out.push_back(load_16(mad_attribute));
  // Over 4 instructions for the other messages, and 4 for SIDR_REP.
  out.push_back(if_equal(static_cast<std::uint32_t>(CmMessageType::req), 10, 0));
  out.push_back(if_equal(static_cast<std::uint32_t>(CmMessageType::sidr_req), 9, 0));
  out.push_back(if_equal(static_cast<std::uint32_t>(CmMessageType::sidr_rep), 4, 0));
  out.push_back(load_octet(cm_remote_id));
  to_loaded();
  out.push_back(load_octet(cm_local_id));
  to_loaded();
  out.push_back(load_32(cm_service));
  out.push_back(if_equal(0, 1, 0));
  out.push_back(to_socket(0));
  out.push_back(load_32(cm_service + 4));
  for (const auto& [service, prefix] : services) {
    if (service >> 32 != 0) continue;
    out.push_back(if_equal(static_cast<std::uint32_t>(service), 0, 1));
    out.push_back(to_socket(prefix));
  }
  out.push_back(to_socket(0));
  return out;
}

}  // namespace parley::preload::port
