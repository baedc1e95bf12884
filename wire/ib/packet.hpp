// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// InfiniBand transport packets from the BTH to the ICRC, as RoCE carries them: IBA vol. 1 §9. The parsers check lengths
// only; the caller validates the values. A parsed packet is emitted as the same octets, reserved bits included. Only
// the pad may differ: its size follows from the payload, and its octets are zeros.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"
#include "parley/wire/ib.h"

namespace parley::wire::ib {

enum class Service : std::uint8_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_IB_SERVICES(PARLEY_X)
#undef PARLEY_X
};
/// "reserved" for values that have no name.
std::string_view to_string(Service service);

/// The low five bits of an opcode.
enum class Operation : std::uint8_t {
#define PARLEY_X(name, value, services, headers, response, text) name = value,
  PARLEY_IB_OPERATIONS(PARLEY_X)
#undef PARLEY_X
};

constexpr Service service_of(std::uint8_t opcode) { return static_cast<Service>(opcode & PARLEY_IB_SERVICE_MASK); }
constexpr Operation operation_of(std::uint8_t opcode) {
  return static_cast<Operation>(opcode & PARLEY_IB_OPERATION_MASK);
}
constexpr std::uint8_t opcode_of(Service service, Operation operation) {
  return static_cast<std::uint8_t>(static_cast<int>(service) | static_cast<int>(operation));
}

struct OpcodeRule {
  bool assigned = false;  ///< the service has this operation; CNP counts
  bool response = false;  ///< goes to the requester
  unsigned headers = 0;   ///< PARLEY_IB_HEADERS' masks; none if the opcode is not assigned
};
OpcodeRule rule_of(std::uint8_t opcode);
/// "RC SEND First", "CNP", "unassigned opcode".
std::string opcode_text(std::uint8_t opcode);
/// Size of these headers (PARLEY_IB_HEADERS' masks) in octets.
std::size_t size_of_headers(unsigned headers);

/// IBA §10.9: the low 15 bits are equal, and at least one side is a full member.
constexpr bool p_keys_match(std::uint16_t x, std::uint16_t y) {
  return ((x ^ y) & 0x7FFF) == 0 && ((x | y) & 0x8000) != 0;
}

/// Base Transport Header, IBA §9.2: 12 octets.
struct Bth {
  std::uint8_t opcode = 0;
  bool solicited = false, mig_req = false;
  std::uint8_t pad_count = 0;  ///< 0..3
  std::uint8_t tver = 0;       ///< transport header version, 4 bits
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  bool fecn = false, becn = false;
  std::uint8_t reserved6 = 0;  ///< after BECN
  std::uint32_t dest_qpn = 0;  ///< 24 bits
  bool ack_req = false;
  std::uint8_t reserved7 = 0;  ///< after AckReq
  std::uint32_t psn = 0;       ///< 24 bits

  /// Errors: truncated.
  static Result<Bth> parse(ConstBytes in);
  void read(ConstBytes in);       ///< 12 octets or more
  void emit(MutBytes out) const;  ///< 12 octets
  bool operator==(const Bth&) const = default;
};

/// Datagram Extended Transport Header, IBA §9.3.1.
struct Deth {
  std::uint32_t q_key = 0;
  std::uint32_t source_qpn = 0;  ///< 24 bits
  std::uint8_t reserved = 0;
  bool operator==(const Deth&) const = default;
};

/// XRC Extended Transport Header: the shared receive queue, 24 bits (IBA Annex A14).
struct Xrceth {
  std::uint32_t srqn = 0;
  std::uint8_t reserved = 0;
  bool operator==(const Xrceth&) const = default;
};

/// RDMA Extended Transport Header, IBA §9.3.3.
struct Reth {
  std::uint64_t va = 0;
  std::uint32_t r_key = 0;
  std::uint32_t dma_length = 0;
  bool operator==(const Reth&) const = default;
};

/// Atomic Extended Transport Header, IBA §9.3.4.
struct AtomicEth {
  std::uint64_t va = 0;
  std::uint32_t r_key = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;
  bool operator==(const AtomicEth&) const = default;
};

/// ACK Extended Transport Header, IBA §9.3.5.
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;  ///< 24 bits
  bool operator==(const Aeth&) const = default;
};
enum class Nak : std::uint8_t {
#define PARLEY_X(name, code, text) name = code,
  PARLEY_IB_NAKS(PARLEY_X)
#undef PARLEY_X
};
/// "reserved NAK code" for others.
std::string_view to_string(Nak nak);
/// "ACK", "ACK, 4 credits", "RNR NAK, 0.01 ms", "NAK: PSN sequence error", "reserved syndrome 0x40".
std::string syndrome_text(std::uint8_t syndrome);
/// IBA §9.7.5.2.8, table 45: 10 us to 655.36 ms. Only the low five bits count.
Duration rnr_timer(std::uint8_t code);
/// End-to-end credits of a code 0..30, IBA §9.7.7.2; none for 31.
std::optional<std::uint16_t> credits_of(std::uint8_t code);
/// 4.096 us times 2^code (IBA §9.9.1 and §12.7); only the low five bits count. For a queue pair code 0 means "no
/// timer"; the caller must handle it.
Duration timeout_of(std::uint8_t code);

/// A packet from the BTH to the ICRC. `bth.opcode` determines which headers are present.
struct Packet {
  Bth bth;
  Deth deth;
  Xrceth xrceth;
  Reth reth;
  AtomicEth atomic;
  Aeth aeth;
  std::uint64_t atomic_original = 0;  ///< AtomicAckETH
  std::array<std::uint8_t, 4> imm{};  ///< as on the wire; verbs pass it to a program unchanged
  std::uint32_t invalidate = 0;       ///< IETH: the R_Key
  ConstBytes payload;                 ///< a view into the parsed octets
  ConstBytes pad;                     ///< bth.pad_count octets; emitted as zeros
  std::uint32_t icrc = 0;

  /// `in` ends with the ICRC. If the opcode is not assigned, all octets between the BTH and the ICRC are payload and
  /// pad. Errors: truncated (shorter than its headers and ICRC), malformed (the pad count exceeds the octets left).
  static Result<Packet> parse(ConstBytes in);
  /// As parse(), into this object. It must be default-constructed or the result of read(). After an error its contents
  /// are unspecified.
  Result<void> read(ConstBytes in);
  /// From the BTH to the ICRC.
  std::size_t size() const;
  /// Writes size() octets and returns the number written; 0 if `out` is shorter. The pad count follows from the
  /// payload; the ICRC is copied from `icrc`.
  std::size_t emit(MutBytes out) const;
  /// Writes the headers alone, for a payload of `payload_size` octets. Returns their size; 0 if `out` is too short.
  std::size_t emit_headers(std::size_t payload_size, MutBytes out) const;
};
/// The number of zero octets after a payload that align its end to 4 octets (IBA §9.4).
constexpr std::uint8_t pad_of(std::size_t payload) { return static_cast<std::uint8_t>((4 - payload % 4) % 4); }

/// The invariant CRC (IBA §7.8.1, Annexes A16.3 and A17.3.3). `network`: the GRH, or the IP and UDP headers, or the LRH
/// of a packet that has neither, as on the wire; the values of fields that change on the way do not matter. Its length
/// distinguishes them: 20 + 8 (IPv4), 40 + 8 (IPv6), 40 (GRH), 8 (LRH). `packet`: from the BTH up to, not including,
/// the ICRC. Errors: invalid_argument for other lengths of `network`, another IP version, or a `packet` shorter than a
/// BTH.
Result<std::uint32_t> icrc(ConstBytes network, ConstBytes packet);

}  // namespace parley::wire::ib
