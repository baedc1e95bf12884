// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE packets in memory for tests of the checker: a connection between 192.0.2.1 (QPN 0x11, asked by the CM) and 192.0.2.2
// (QPN 0x22). tests/adversary/roce.py makes many more, without this code.
#pragma once
#include "capture/rules/roce/rules.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::capture::test {

using namespace std::chrono_literals;
using wire::ib::Operation;

class RoceTalk {
 public:
  explicit RoceTalk(bool v2 = true) : v2_(v2) {}

  Frames frames;
  static constexpr std::uint32_t qpns[2] = {0x11, 0x22}, psns[2] = {0xFFFFFE, 500};  // starting PSNs of what each sends
  Duration now = 1s;

  wire::ib::Packet packet(unsigned from, Operation operation, std::uint32_t psn) const {
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(service, operation);
    p.bth.dest_qpn = qpns[1 - from];
    p.bth.psn = psn & 0xFFFFFF;
    p.xrceth.srqn = 7;
    return p;
  }
  wire::ib::Service service = wire::ib::Service::rc;

  std::size_t put(unsigned from, wire::ib::Packet p, Duration later = 10us) {
    wire::ib::RoceHeader h;
    h.v2 = v2_;
    h.source = gid(from);
    h.destination = gid(1 - from);
    h.source_port = 0xC123;
    Bytes network(h.size()), octets(p.size());
    h.emit(network, octets.size());
    p.emit(octets);
    const std::uint32_t flaw = p.icrc;  // 0: right
    p.icrc = *wire::ib::icrc(network, ConstBytes(octets).first(octets.size() - 4)) ^ flaw;
    p.emit(octets);
    Frame f;
    f.octets = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(2 - from), 2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + from)};
    const std::uint16_t type = v2_ ? wire::ethertype_ipv4 : std::uint16_t{PARLEY_ROCE_ETHERTYPE};
    f.octets.push_back(static_cast<std::uint8_t>(type >> 8));
    f.octets.push_back(static_cast<std::uint8_t>(type));
    f.octets.insert(f.octets.end(), network.begin(), network.end());
    f.octets.insert(f.octets.end(), octets.begin(), octets.end());
    now += later;
    f.at = Instant{} + now;
    frames.push_back(std::move(f));
    return frames.size();
  }
  std::size_t cm(unsigned from, wire::ib::CmBody body, Duration later = 100us, std::uint64_t transaction = 9) {
    Bytes mad(PARLEY_IB_MAD_LEN);
    wire::ib::CmMessage{.transaction_id = transaction, .body = std::move(body)}.emit(mad);
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, Operation::send_only);
    p.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    p.bth.psn = ++gsi_psn_[from];
    p.deth = {PARLEY_IB_GSI_Q_KEY, PARLEY_IB_GSI_QPN, 0};
    p.payload = mad;
    return put(from, p, later);
  }
  std::size_t data(unsigned from, Operation operation, std::uint32_t psn, std::size_t octets = 8,
                   Duration later = 10us) {
    const Bytes payload(octets, 0x5A);
    wire::ib::Packet p = packet(from, operation, psn);
    p.payload = payload;
    p.reth = {0x1000, 0x77, static_cast<std::uint32_t>(octets)};
    return put(from, p, later);
  }
  std::size_t ack(unsigned from, std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome = PARLEY_IB_CREDITS_NONE,
                  Duration later = 10us) {
    wire::ib::Packet p = packet(from, Operation::acknowledge, psn);
    p.aeth = {syndrome, msn};
    return put(from, p, later);
  }

  wire::ib::CmReq req() const {
    wire::ib::CmReq r;
    r.local_comm_id = 0xAAAA;
    r.service_id = wire::ib::service_id_of(wire::ib::PortSpace::tcp, 7174);
    r.local_ca_guid = 0x1122334455667788;
    r.local_qpn = qpns[0];
    r.responder_resources = 4;
    r.initiator_depth = 2;
    r.remote_cm_response_timeout = r.local_cm_response_timeout = 20;
    r.starting_psn = psns[1];
    r.path_mtu = 1;
    r.max_cm_retries = 3;
    r.primary.local_gid = gid(0);
    r.primary.remote_gid = gid(1);
    r.primary.local_ack_timeout = 19;
    if (service == wire::ib::Service::uc) r.service = wire::ib::CmService::uc;
    wire::ib::CmaHeader{address(0, 40000), address(1, 0)}.emit(r.private_data);
    return r;
  }
  wire::ib::CmRep rep() const {
    wire::ib::CmRep r;
    r.local_comm_id = 0xBBBB;
    r.remote_comm_id = 0xAAAA;
    r.local_qpn = qpns[1];
    r.starting_psn = psns[0];
    r.responder_resources = 16;
    r.initiator_depth = 3;
    return r;
  }
  static wire::ib::CmRtu rtu() { return {.local_comm_id = 0xAAAA, .remote_comm_id = 0xBBBB}; }
  static wire::ib::CmDreq dreq() { return {.local_comm_id = 0xAAAA, .remote_comm_id = 0xBBBB, .remote_qpn = qpns[1]}; }
  static wire::ib::CmDrep drep() { return {.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA}; }
  wire::ib::CmLap lap() const {
    wire::ib::CmLap l{.local_comm_id = 0xAAAA, .remote_comm_id = 0xBBBB, .remote_qpn = qpns[1]};
    l.remote_cm_response_timeout = 20;
    l.alternate.local_gid = gid(0);
    l.alternate.remote_gid = gid(1);
    return l;
  }
  static wire::ib::CmApr apr() { return {.local_comm_id = 0xBBBB, .remote_comm_id = 0xAAAA}; }
  static wire::ib::CmRej rej(unsigned from, wire::ib::CmSubject about, wire::ib::CmReject reason) {
    return {.local_comm_id = from == 0 ? 0xAAAAu : 0,
            .remote_comm_id = from == 0 ? 0xBBBBu : 0xAAAA,
            .about = about,
            .reason = reason};
  }
  RoceTalk& set_up() {
    cm(0, req());
    cm(1, rep());
    cm(0, rtu());
    return *this;
  }
  RoceTalk& close() {
    cm(0, dreq());
    cm(1, drep());
    return *this;
  }

  static Address address(unsigned which, std::uint16_t port) {
    return Address::v4(192, 0, 2, static_cast<std::uint8_t>(1 + which), port);
  }
  static Gid gid(unsigned which) { return gid_of(address(which, 0)); }

 private:
  bool v2_;
  std::array<std::uint32_t, 2> gsi_psn_{100, 200};
};

/// "error cm.role frame 4 responder" of each that is no note.
inline std::string keys_of(const FileReport& r) {
  std::string out;
  for (const auto& c : r.connections)
    for (const auto& f : c.findings)
      if (f.severity != Severity::note)
        out += std::string(out.empty() ? "" : "; ") + std::string(to_string(f.severity)) + " " + std::string(f.key()) +
               " frame " + std::to_string(f.frame) + " " + std::string(f.side ? to_string(*f.side) : "");
  return out;
}

}  // namespace parley::capture::test
