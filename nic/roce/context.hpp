// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The state shared by the two halves of a queue pair.
#pragma once
#include "base/bytes_io.hpp"
#include "nic/roce/nic.hpp"
#include "nic/roce/psn.hpp"

namespace parley::nic::roce {

inline constexpr std::uint32_t message_max = 1U << 31;  // octets, IBA §9.4

/// Immediate data as a number.
inline std::uint32_t imm_of(const wire::ib::Packet& packet) { return Reader(packet.imm).be32(); }

struct QpContext {
  Ref<Nic> nic;
  Ref<CqRing> send_cq, recv_cq;  // null if the type has none
  Ref<SrqRing> srq;              // null: none
  Ref<XrcDomainRing> domain;     // XRC_TGT
  QpType type = QpType::rc;
  PdHandle pd = 0;  // 0: XRC_TGT has none
  std::uint32_t number = 0;
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;

  QpState state = QpState::reset;
  QpAttr attr;  // all settings since RESET
  Path path;
  std::uint32_t mtu = 1024;  // octets
  std::uint32_t dest_qpn = 0;
  parley::roce::QpCounters counters;
  QpFailure failure;
  QpWatch watch;

  /// Only the first cause is kept.
  void fails(const QpFailure& why) {
    if (failure.cause == QpFailure::Cause::none) failure = why;
  }
  wire::ib::Service service() const {
    switch (type) {
      case QpType::rc: return wire::ib::Service::rc;
      case QpType::uc: return wire::ib::Service::uc;
      case QpType::ud: return wire::ib::Service::ud;
      case QpType::xrc_ini:
      case QpType::xrc_tgt: break;
    }
    return wire::ib::Service::xrc;
  }
  bool reliable() const { return type != QpType::uc && type != QpType::ud; }
  bool sends() const { return type != QpType::xrc_tgt; }
  bool receives() const { return type != QpType::xrc_ini; }

  /// A packet to the peer; the caller fills in its headers other than the BTH. The object is reused for the next
  /// packet.
  wire::ib::Packet& packet(wire::ib::Operation operation, Psn psn) const {
    wire::ib::Packet& out = nic->going_out;
    out.bth = {};
    out.bth.opcode = wire::ib::opcode_of(service(), operation);
    out.bth.dest_qpn = dest_qpn;
    out.bth.psn = wire_psn(psn);
    return out;
  }
  Tables& tables() const { return *nic->tables; }
  Counters& device() const { return nic->counters; }
  bool plays(wire::ib::Departure what) const { return nic->options.play.has(what); }
};

}  // namespace parley::nic::roce
