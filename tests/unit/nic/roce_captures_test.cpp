// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What Linux's rxe sent in the captures, this device sends as well: the same message, posted with the same parameters, gives the
// same packets; and the same requests are answered with the same packets. From the BTH to the pad, octet by octet.
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include "base/bytes_io.hpp"

#include "roce_link.hpp"
#include "wire/ib/roce.hpp"
#include "wire/pcap.hpp"

namespace parley::nic::roce::test::roce_captures_test {
namespace {

using wire::ib::Packet;
using wire::ib::Service;

struct Seen {
  wire::ib::RoceHeader network;
  Bytes whole;  // BTH to ICRC
  ConstBytes octets() const { return ConstBytes(whole).first(whole.size() - PARLEY_IB_ICRC_LEN); }
  Packet packet() const { return Packet::parse(whole).value(); }
  Service service() const { return wire::ib::service_of(whole[0]); }
  Operation operation() const { return wire::ib::operation_of(whole[0]); }
};

std::vector<Seen> frames_of(const std::string& name) {
  std::vector<Seen> out;
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/captures/roce/" + name + ".pcap", std::ios::binary);
  const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  wire::PcapReader reader;
  ConstBytes window = file;
  wire::CapturedPacket packet;
  std::size_t consumed = 0;
  while (reader.next(window, packet, consumed) == wire::CaptureStatus::packet) {
    window = window.subspan(consumed);
    Reader r(packet.octets);
    r.skip(12);
    const std::uint16_t type = r.be16();
    const auto roce = wire::ib::RoceHeader::parse(type, r.rest());
    if (!roce) continue;
    out.push_back({roce->header, Bytes(roce->packet.begin(), roce->packet.end())});
  }
  EXPECT_FALSE(out.empty()) << name;
  return out;
}
const std::vector<std::string> captures = {"rxe61_cm", "rxe61_data", "rxe61_errors_loss", "rxe61_sidr_stale_abort",
                                           "rxe61_mra_mcast_ll"};

std::string hex(ConstBytes in) {
  std::string out;
  for (const std::uint8_t octet : in) out += fmt::format("{:02x}", octet);
  return out;
}

bool begins(Operation operation) {
  return operation == Operation::send_first || operation == Operation::send_only ||
         operation == Operation::send_only_imm || operation == Operation::write_first ||
         (operation >= Operation::write_only && operation <= Operation::read_request) ||
         operation == Operation::cmp_swap || operation == Operation::fetch_add || operation == Operation::send_only_inv;
}
bool ends(Operation operation) {
  return operation != Operation::send_first && operation != Operation::send_middle &&
         operation != Operation::write_first && operation != Operation::write_middle;
}

/// The requests of a capture, put together to messages; those that are whole.
std::vector<std::vector<Seen>> messages_of(const std::vector<Seen>& frames) {
  std::vector<std::vector<Seen>> out;
  std::map<std::pair<Gid, std::uint32_t>, std::vector<Seen>> open;
  for (const Seen& seen : frames) {
    const Packet packet = seen.packet();
    if (wire::ib::rule_of(packet.bth.opcode).response || packet.bth.dest_qpn == PARLEY_IB_GSI_QPN) continue;
    auto& message = open[{seen.network.source, packet.bth.dest_qpn}];
    if (begins(seen.operation()))
      message.clear();
    else if (message.empty() || message.back().packet().bth.psn + 1 != packet.bth.psn)
      continue;
    message.push_back(seen);
    if (!ends(seen.operation())) continue;
    out.push_back(std::move(message));
    message.clear();
  }
  return out;
}

SendWr::Opcode opcode_of(const Packet& last) {
  const auto operation = wire::ib::operation_of(last.bth.opcode);
  const unsigned headers = wire::ib::rule_of(last.bth.opcode).headers;
  if (operation == Operation::read_request) return SendWr::Opcode::rdma_read;
  if (operation == Operation::cmp_swap) return SendWr::Opcode::atomic_cmp_and_swp;
  if (operation == Operation::fetch_add) return SendWr::Opcode::atomic_fetch_and_add;
  const bool write = operation >= Operation::write_first && operation <= Operation::write_only_imm;
  if ((headers & PARLEY_IB_IMM) != 0)
    return write ? SendWr::Opcode::rdma_write_with_imm : SendWr::Opcode::send_with_imm;
  return write ? SendWr::Opcode::rdma_write : SendWr::Opcode::send;
}

Terms setup_of(Service service, std::size_t mtu) {
  Terms setup{.type = service == Service::rc ? QpType::rc : service == Service::uc ? QpType::uc : QpType::ud};
  setup.mtu = Mtu::octets_256;
  while ((128U << static_cast<unsigned>(setup.mtu)) < mtu)
    setup.mtu = static_cast<Mtu>(static_cast<int>(setup.mtu) + 1);
  setup.depth = 8;
  return setup;
}

std::string expect_same_message(const std::vector<Seen>& message) {
  const Packet first = message.front().packet(), last = message.back().packet();
  const Service service = message.front().service();
  Terms setup = setup_of(service, message.size() > 1 ? first.payload.size() : 4096);
  DeviceOptions options;
  options.gids = {message.front().network.source};
  options.port_mtu = Mtu::octets_4096;
  if (service == Service::ud) options.first_qpn = first.deth.source_qpn;
  Side side(options);
  side.make(setup.type);
  EXPECT_TRUE(side.qp->modify(init_attr(setup)));
  const Gid peer = message.front().network.destination;
  EXPECT_TRUE(side.qp->modify(rtr_attr(setup, first.bth.dest_qpn, peer, 0)));
  EXPECT_TRUE(side.qp->modify(rts_attr(setup, first.bth.psn)));
  Bytes data;
  for (const Seen& seen : message) {
    const Packet packet = seen.packet();
    data.insert(data.end(), packet.payload.begin(), packet.payload.end());
  }
  const auto opcode = opcode_of(last);
  if (opcode == SendWr::Opcode::rdma_read) data.resize(first.reth.dma_length);
  if (opcode == SendWr::Opcode::atomic_cmp_and_swp || opcode == SendWr::Opcode::atomic_fetch_and_add) data.resize(8);
  Buffer buffer(*side.device, side.pd, std::max<std::size_t>(data.size(), 1));
  std::copy(data.begin(), data.end(), buffer.memory.begin());
  const bool atomic = opcode == SendWr::Opcode::atomic_cmp_and_swp || opcode == SendWr::Opcode::atomic_fetch_and_add;
  const auto ah = side.device->create_ah(side.pd, {.grh = GlobalRoute{.dgid = peer}});
  const Sge sge = buffer.sge(0, data.size());
  SendWr wr{.opcode = opcode,
            .sges = {&sge, 1},
            .solicited = last.bth.solicited,
            .remote_addr = atomic ? first.atomic.va : first.reth.va,
            .rkey = atomic ? first.atomic.r_key : first.reth.r_key,
            .imm_data = Reader(last.imm).be32(),
            .compare_add = opcode == SendWr::Opcode::atomic_cmp_and_swp ? first.atomic.compare : first.atomic.swap_add,
            .swap = first.atomic.swap_add};
  if (service == Service::ud) {
    wr.ah = ah->get();
    wr.remote_qp_num = first.bth.dest_qpn;
    wr.remote_qkey = first.deth.q_key;
  }
  const auto posted = side.qp->post_send(wr);
  EXPECT_TRUE(posted) << posted.error().message();
  std::array<std::uint8_t, packet_max> out;
  for (const Seen& seen : message) {
    PacketTo to;
    EXPECT_TRUE(side.device->poll_transmit({}, to, out));
    EXPECT_EQ(hex(ConstBytes(out).first(to.size)), hex(seen.octets()));
    EXPECT_EQ(to.destination, peer);
    if (service == Service::ud) {
      EXPECT_EQ(to.source_port, seen.network.source_port);
    }
  }
  PacketTo to;
  EXPECT_FALSE(side.device->poll_transmit({}, to, out));
  return wire::ib::opcode_text(first.bth.opcode);
}

TEST(NicRoceCaptures, TheSameMessageGivesTheSamePackets) {
  std::map<std::string, int> kinds;
  for (const std::string& name : captures)
    for (const auto& message : messages_of(frames_of(name))) ++kinds[expect_same_message(message)];
  EXPECT_GT(kinds["RC SEND First"], 50);
  EXPECT_GT(kinds["RC SEND Only"], 100);
  EXPECT_GE(kinds["RC RDMA WRITE First"], 5);
  EXPECT_GE(kinds["RC RDMA WRITE Only"], 5);
  EXPECT_GE(kinds["RC RDMA WRITE Only with Immediate"], 10);
  EXPECT_GE(kinds["RC RDMA READ Request"], 10);
  EXPECT_EQ(kinds["RC CmpSwap"], 5);
  EXPECT_EQ(kinds["RC FetchAdd"], 5);
  EXPECT_EQ(kinds["UC SEND First"], 6);
  EXPECT_EQ(kinds["UD SEND Only"], 11);
  EXPECT_EQ(kinds["UD SEND Only with Immediate"], 7);
}

// The answers of one connection of a capture without losses, to the requests as they came.
int expect_same_answers(const std::vector<Seen>& frames, const Gid& client, std::uint32_t server_qpn) {
  std::vector<Seen> requests, answers;
  Gid server{};
  std::uint32_t client_qpn = 0;
  for (const Seen& seen : frames)
    if (seen.service() == Service::rc && seen.network.source == client && seen.packet().bth.dest_qpn == server_qpn &&
        !wire::ib::rule_of(seen.whole[0]).response) {
      requests.push_back(seen);
      server = seen.network.destination;
    }
  for (const Seen& seen : frames)
    if (seen.service() == Service::rc && wire::ib::rule_of(seen.whole[0]).response && seen.network.source == server &&
        seen.network.destination == client && seen.network.source_port == requests.front().network.source_port) {
      answers.push_back(seen);
      client_qpn = seen.packet().bth.dest_qpn;
    }
  if (answers.empty()) return 0;
  std::size_t mtu = 4096;
  for (const Seen& seen : frames)  // as whichever side has sent a message of several packets
    if (!ends(seen.operation()) || seen.operation() == Operation::read_response_first)
      if (seen.network.source_port == requests.front().network.source_port) mtu = seen.packet().payload.size();
  const Terms setup = setup_of(Service::rc, mtu);
  DeviceOptions options;
  options.gids = {server};
  options.port_mtu = Mtu::octets_4096;
  options.first_qpn = server_qpn;
  Side side(options);
  side.make(QpType::rc, 4096);
  EXPECT_TRUE(side.qp->modify(init_attr(setup)));
  EXPECT_TRUE(side.qp->modify(rtr_attr(setup, client_qpn, client, requests.front().packet().bth.psn)));
  Buffer buffer(*side.device, side.pd, 1 << 20);
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(side.recv(1, {buffer.all()}));
  std::array<std::uint8_t, packet_max> out;
  std::size_t next = 0;
  for (const Seen& request : requests) {
    Packet packet = request.packet();
    packet.reth.va = packet.atomic.va = buffer.region.addr;  // this side's memory, in place of rxe's
    packet.reth.r_key = packet.atomic.r_key = buffer.region.rkey;
    Bytes octets(packet.size());
    packet.emit(octets);
    side.device->handle_packet({}, {.source = client, .destination = server}, octets);
    PacketTo to;
    while (side.device->poll_transmit({}, to, out)) {
      if (next >= answers.size()) {
        ADD_FAILURE() << "rxe did not send " << hex(ConstBytes(out).first(to.size));
        return 0;
      }
      const Seen& seen = answers[next++];
      EXPECT_EQ(to.size, seen.octets().size());
      // The data is memory's; the headers are compared.
      const std::size_t headers = 12 + wire::ib::size_of_headers(wire::ib::rule_of(seen.whole[0]).headers) -
                                  (seen.operation() == Operation::atomic_acknowledge ? 8U : 0U);
      EXPECT_EQ(hex(ConstBytes(out).first(headers)), hex(seen.octets().first(headers)));
    }
  }
  EXPECT_EQ(next, answers.size());
  return static_cast<int>(next);
}

TEST(NicRoceCaptures, TheSameRequestsGetTheSameAnswers) {
  int answers = 0, connections = 0;
  for (const std::string name : {"rxe61_cm", "rxe61_data"}) {
    const auto frames = frames_of(name);
    std::set<std::pair<Gid, std::uint32_t>> done;
    for (const Seen& seen : frames) {
      if (seen.service() != Service::rc || wire::ib::rule_of(seen.whole[0]).response) continue;
      if (!done.insert({seen.network.source, seen.packet().bth.dest_qpn}).second) continue;
      answers += expect_same_answers(frames, seen.network.source, seen.packet().bth.dest_qpn);
      ++connections;
    }
  }
  EXPECT_GE(connections, 10);
  EXPECT_GE(answers, 150);
}

// QP1: rxe counts PSNs from 0, and asks for an ACK that there is not.
TEST(NicRoceCaptures, ManagementDatagramsAreTheSame) {
  std::uint32_t total = 0;
  for (const std::string name : {"rxe61_cm", "rxe61_sidr_stale_abort", "rxe61_data"}) {
    std::map<Gid, std::vector<Seen>> senders;  // by the host: its IPv4 and IPv6 addresses share QP1
    const auto frames = frames_of(name);
    for (const Seen& seen : frames)
      if (seen.packet().bth.dest_qpn == PARLEY_IB_GSI_QPN) {
        Gid host{};
        host[0] = seen.network.source[15];
        senders[host].push_back(seen);
      }
    EXPECT_EQ(senders.size(), 2U);
    for (const auto& [host, sent] : senders) {
      DeviceOptions options;
      for (const Seen& seen : sent) options.gids.push_back(seen.network.source);
      const auto device = make_device(options).value();
      std::array<std::uint8_t, packet_max> out;
      std::uint32_t psn = 0;
      for (const Seen& seen : sent) {
        const Packet packet = seen.packet();
        if (packet.bth.psn != psn) break;  // another run of the guest
        ++psn;
        MadOut mad{.source = seen.network.source, .destination = seen.network.destination};
        std::copy(packet.payload.begin(), packet.payload.end(), mad.octets.begin());
        ASSERT_TRUE(device->send_mad(mad));
        PacketTo to;
        ASSERT_TRUE(device->poll_transmit({}, to, out));
        EXPECT_EQ(hex(ConstBytes(out).first(to.size)), hex(seen.octets()));
        EXPECT_EQ(to.source_port, seen.network.source_port);
        EXPECT_EQ(to.hop_limit, seen.network.hop_limit);
        EXPECT_FALSE(device->has_transmit());
      }
      total += psn;
    }
  }
  EXPECT_GE(total, 60U);
}

}  // namespace
}  // namespace parley::nic::roce::test::roce_captures_test
