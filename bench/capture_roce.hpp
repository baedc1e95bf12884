// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Makes captures of RoCEv2 traffic, packet by packet, always the same: REQ, REP and RTU, Sends of one packet both ways
// with an ACK for every eighth, DREQ and DREP; each with its correct ICRC (IBA §7.8.1). It counts what it sent, so that
// a reader of the capture can be checked. Header-only, as bench/capture_mix.hpp.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/bytes_io.hpp"
#include "parley/time.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::bench {

struct RoceTotals {
  std::uint64_t packets = 0, octets = 0, connections = 0;
  std::uint64_t messages = 0;  ///< Sends
};

class CaptureRoce {
 public:
  using Sink = std::function<void(Instant, ConstBytes)>;

  /// Passes about `packets` packets on 16 connections to `sink`, each Send with `payload` octets, at most 1024.
  CaptureRoce(std::size_t payload, std::uint64_t packets, Sink sink)
      : payload_(payload, 0x5A), wanted_(packets), sink_(std::move(sink)) {}

  RoceTotals run() {
    std::vector<Connection> connections(16);
    for (Connection& c : connections) open(c);
    while (totals_.packets < wanted_)
      for (Connection& c : connections)
        for (unsigned from = 0; from < 2; ++from) burst(c, from);
    for (Connection& c : connections) close(c);
    return totals_;
  }

 private:
  static constexpr std::uint32_t psn_mask = 0xFFFFFF, ack_every = 8, mtu_code_1024 = 3;
  struct End {
    Address address;
    std::uint32_t comm_id = 0, qpn = 0, psn = 0, msn = 0;  // psn: of its next request; msn: of received requests
    std::uint32_t mad_psn = 0;
  };
  struct Connection {
    std::array<End, 2> ends;
    std::uint64_t transaction = 0;
  };

  void open(Connection& c) {
    const auto n = static_cast<std::uint32_t>(++totals_.connections);
    c.transaction = n;
    for (std::uint32_t i = 0; i < 2; ++i) {
      End& e = c.ends[i];
      const auto port = static_cast<std::uint16_t>(i == 0 ? 40000 + n : 7174);
      e = {.address = Address::v4(10, 0, static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(n), port),
           .comm_id = 0x100 * (i + 1) + n,
           .qpn = 0x1000 * (i + 1) + n,
           .psn = 0x10000 * n + i};
    }
    wire::ib::CmReq req;
    req.local_comm_id = c.ends[0].comm_id;
    req.service_id = wire::ib::service_id_of(wire::ib::PortSpace::tcp, c.ends[1].address.port);
    req.local_ca_guid = 1;
    req.local_qpn = c.ends[0].qpn;
    req.starting_psn = c.ends[1].psn;  // the first PSN that its receiver sends
    req.retry_count = req.rnr_retry_count = 7;
    req.path_mtu = mtu_code_1024;
    req.primary.local_gid = gid_of(c.ends[0].address);
    req.primary.remote_gid = gid_of(c.ends[1].address);
    req.primary.hop_limit = 64;
    Address to = c.ends[1].address;
    to.port = 0;
    wire::ib::CmaHeader{c.ends[0].address, to}.emit(req.private_data);
    message(c, 0, req);
    wire::ib::CmRep rep;
    rep.local_comm_id = c.ends[1].comm_id;
    rep.remote_comm_id = c.ends[0].comm_id;
    rep.local_qpn = c.ends[1].qpn;
    rep.starting_psn = c.ends[0].psn;
    rep.rnr_retry_count = 7;
    rep.local_ca_guid = 2;
    message(c, 1, rep);
    message(c, 0, wire::ib::CmRtu{.local_comm_id = c.ends[0].comm_id, .remote_comm_id = c.ends[1].comm_id});
  }

  void close(Connection& c) {
    const std::uint32_t a = c.ends[0].comm_id, b = c.ends[1].comm_id;
    c.transaction += 1000;
    message(c, 0, wire::ib::CmDreq{.local_comm_id = a, .remote_comm_id = b, .remote_qpn = c.ends[1].qpn});
    message(c, 1, wire::ib::CmDrep{.local_comm_id = b, .remote_comm_id = a});
  }

  /// Sends messages, and the ACK of the last one, which acknowledges all.
  void burst(Connection& c, unsigned from) {
    using wire::ib::Operation;
    End &sender = c.ends[from], &receiver = c.ends[1 - from];
    for (std::uint32_t i = 0; i < ack_every; ++i) {
      wire::ib::Packet p = packet(Operation::send_only, receiver.qpn, sender.psn);
      p.bth.ack_req = i + 1 == ack_every;
      p.payload = payload_;
      p.bth.pad_count = static_cast<std::uint8_t>((4 - payload_.size() % 4) % 4);
      emit(c, from, p);
      sender.psn = (sender.psn + 1) & psn_mask;
      ++receiver.msn;
      ++totals_.messages;
    }
    wire::ib::Packet ack = packet(Operation::acknowledge, sender.qpn, (sender.psn - 1) & psn_mask);
    ack.aeth = {PARLEY_IB_SYNDROME_ACK | 31, receiver.msn & psn_mask};
    emit(c, 1 - from, ack);
  }

  static wire::ib::Packet packet(wire::ib::Operation operation, std::uint32_t qpn, std::uint32_t psn) {
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, operation);
    p.bth.dest_qpn = qpn;
    p.bth.psn = psn;
    return p;
  }

  void message(Connection& c, unsigned from, wire::ib::CmBody body) {
    std::array<std::uint8_t, PARLEY_IB_MAD_LEN> mad{};
    wire::ib::CmMessage{.transaction_id = c.transaction, .body = std::move(body)}.emit(mad);
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
    p.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    p.bth.psn = c.ends[from].mad_psn++;
    p.deth = {PARLEY_IB_GSI_Q_KEY, PARLEY_IB_GSI_QPN, 0};
    p.payload = mad;
    emit(c, from, p);
  }

  void emit(const Connection& c, unsigned from, const wire::ib::Packet& p) {
    wire::ib::RoceHeader h;
    h.source = gid_of(c.ends[from].address);
    h.destination = gid_of(c.ends[1 - from].address);
    h.source_port = wire::ib::roce_source_port(0, c.ends[0].qpn, c.ends[1].qpn);
    const std::size_t network = 14 + h.size();
    frame_.resize(network + p.size());
    const auto side = static_cast<std::uint8_t>(from);
    Writer w(frame_);
    w.bytes(std::array<std::uint8_t, 6>{2, 0, 0, 0, 0, static_cast<std::uint8_t>(2 - side)});
    w.bytes(std::array<std::uint8_t, 6>{2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + side)});
    w.be16(0x0800);
    h.emit(MutBytes(frame_).subspan(14), p.size());
    p.emit(MutBytes(frame_).subspan(network));
    wire::ib::seal(h, MutBytes(frame_).subspan(network));
    ++totals_.packets;
    totals_.octets += frame_.size();
    at_ += std::chrono::microseconds(2);
    sink_(at_, frame_);
  }

  Bytes payload_;
  std::uint64_t wanted_;
  Sink sink_;
  RoceTotals totals_;
  Instant at_{std::chrono::seconds(1'700'000'000)};
  Bytes frame_;
};

}  // namespace parley::bench
