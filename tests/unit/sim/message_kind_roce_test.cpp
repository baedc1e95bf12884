// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which kinds a RoCEv2 frame has: of each message and packet, and of what Linux sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cctype>
#include <map>

#include "roce_kit.hpp"

namespace parley::sim::test::message_kind_roce_test {
namespace {

using ::testing::ElementsAre;
using wire::ib::Operation;
using wire::ib::Service;

TEST(SimMessageKindRoce, NamesEachMessageOfTheCm) {
  for (const bool ipv6 : {false, true}) {
    std::vector<std::string> seen;
    for (const wire::ib::CmBody& body : one_of_each_message()) {
      const Bytes frame = RoceSender{.ipv6 = ipv6}.cm(body);
      seen.push_back(roce_kinds(frame));
      const FrameLayout layout = lay_out(frame);
      EXPECT_TRUE(layout.kinds.has(MessageKind::roce_packet) && layout.kinds.has(MessageKind::cm_message));
      EXPECT_EQ(to_string(layout.kind), seen.back());
      EXPECT_EQ(layout.psn, 9u);
    }
    EXPECT_THAT(seen, ElementsAre("cm_req", "cm_mra", "cm_rej", "cm_rep", "cm_rtu", "cm_dreq", "cm_drep", "cm_lap",
                                  "cm_apr", "cm_sidr_req", "cm_sidr_rep"));
  }
}

TEST(SimMessageKindRoce, NamesEachPacketByWhatItDoes) {
  struct Case {
    Service service;
    std::vector<Operation> operations;
    std::string_view kinds;
  };
  using O = Operation;
  const Case cases[] = {
      {Service::rc,
       {O::send_first, O::send_middle, O::send_last, O::send_last_imm, O::send_only, O::send_only_imm, O::send_last_inv,
        O::send_only_inv},
       "roce_send"},
      {Service::rc,
       {O::write_first, O::write_middle, O::write_last, O::write_last_imm, O::write_only, O::write_only_imm},
       "roce_write"},
      {Service::rc, {O::read_request}, "roce_read_request"},
      {Service::rc,
       {O::read_response_first, O::read_response_middle, O::read_response_last, O::read_response_only},
       "roce_read_response"},
      {Service::rc, {O::cmp_swap, O::fetch_add}, "roce_atomic"},
      {Service::rc, {O::atomic_acknowledge}, "roce_atomic_ack"},
      {Service::rc, {O::acknowledge}, "roce_ack"},
      {Service::uc, {O::send_only, O::send_middle}, "roce_send"},
      {Service::uc, {O::write_only_imm}, "roce_write"},
      {Service::xrc, {O::send_only, O::send_only_inv}, "roce_send"},
      {Service::xrc, {O::acknowledge}, "roce_ack"},
      {Service::ud, {O::send_only, O::send_only_imm}, "roce_datagram"},
      // What no service has is a packet and no more.
      {Service::uc, {O::read_request, O::acknowledge, O::fetch_add}, ""},
      {Service::ud, {O::write_only}, ""},
      {Service::rd, {O::send_only}, ""},
  };
  for (const Case& c : cases)
    for (const Operation operation : c.operations) {
      const Bytes frame = RoceSender{.ipv6 = c.service == Service::uc}.packet(c.service, operation, 0xFFFFFF);
      EXPECT_EQ(roce_kinds(frame), c.kinds) << +wire::ib::opcode_of(c.service, operation);
      EXPECT_TRUE(lay_out(frame).kinds.has(MessageKind::roce_packet));
      EXPECT_EQ(lay_out(frame).psn, 0xFFFFFFu);
    }
}

TEST(SimMessageKindRoce, TellsAcknowledgementsByTheirSyndrome) {
  const std::pair<int, std::string_view> cases[] = {
      {0x00, "roce_ack"},
      {0x1F, "roce_ack"},
      {0x20, "roce_nak roce_nak_rnr"},
      {0x3F, "roce_nak roce_nak_rnr"},
      {0x60, "roce_nak roce_nak_sequence"},
      {0x61, "roce_nak roce_nak_request"},
      {0x62, "roce_nak roce_nak_access"},
      {0x63, "roce_nak roce_nak_operational"},
      {0x64, "roce_nak"},
      {0x40, ""},  // reserved
      {0x80, ""},
  };
  for (const auto& [syndrome, kinds] : cases)
    EXPECT_EQ(roce_kinds(RoceSender{}.ack(5, static_cast<std::uint8_t>(syndrome))), kinds) << syndrome;
}

TEST(SimMessageKindRoce, NamesACnp) {
  wire::ib::Packet p;
  p.bth.opcode = PARLEY_IB_OPCODE_CNP;
  const Bytes reserved(PARLEY_IB_CNP_PAYLOAD_LEN);
  p.payload = reserved;
  EXPECT_EQ(roce_kinds(RoceSender{}.frame(p)), "roce_cnp");
}

TEST(SimMessageKindRoce, LeavesOtherDatagramsAlone) {
  const RoceSender s;
  const Bytes good = s.cm(wire::ib::CmReq{});
  const auto with = [&good](std::size_t at, std::uint8_t octet) {
    Bytes out = good;
    out[at] = octet;
    return out;
  };
  constexpr std::size_t mad = 14 + 20 + 8 + 12 + 8;
  EXPECT_EQ(lay_out(with(36, 0x13)).kind, MessageKind::any) << "another UDP port";
  EXPECT_EQ(lay_out(with(23, 6)).kinds.has(Layer::roce), false) << "another protocol";
  EXPECT_EQ(lay_out(with(20, 0x20)).kind, MessageKind::any) << "a fragment";
  EXPECT_EQ(lay_out(with(38, 0xFF)).kind, MessageKind::any) << "longer than the packet";
  EXPECT_EQ(lay_out(with(mad + 1, 0x04)).kind, MessageKind::roce_packet) << "a MAD of another class";
  EXPECT_EQ(lay_out(with(mad + 17, 0x1B)).kind, MessageKind::cm_message) << "an attribute that is not a message";
  EXPECT_EQ(lay_out(with(14 + 28 + 7, 0x22)).kind, MessageKind::roce_datagram) << "to another queue pair";
  EXPECT_EQ(lay_out(s.mad(Bytes(255))).kind, MessageKind::roce_packet) << "too short for a MAD";
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(lay_out(ConstBytes(good).first(size)).kind, MessageKind::any) << size;
}

TEST(SimMessageKindRoce, CountsWhatLinuxSent) {
  // As tshark counts their opcodes, attributes and syndromes.
  const std::pair<std::string, std::string_view> captures[] = {
      {"rxe61_cm",
       "cm_drep 5, cm_dreq 5, cm_rej 5, cm_rep 6, cm_req 10, cm_rtu 5, roce_ack 25, roce_read_request 5, "
       "roce_read_response 5, roce_send 20, roce_write 5"},
      {"rxe61_sidr_stale_abort", "cm_rej 2, cm_req 2, cm_sidr_rep 1, cm_sidr_req 1, roce_datagram 4"},
      {"rxe61_mra_mcast_ll", "cm_drep 2, cm_dreq 2, cm_mra 1, cm_rej 1, cm_rep 2, cm_req 4, cm_rtu 2, roce_datagram 3"},
      {"rxe61_data",
       "cm_drep 16, cm_dreq 16, cm_rep 13, cm_req 13, cm_rtu 13, cm_sidr_rep 1, cm_sidr_req 1, roce_ack 225, "
       "roce_atomic 10, roce_atomic_ack 10, roce_datagram 11, roce_read_request 5, roce_read_response 10, "
       "roce_send 243, roce_write 23"},
      {"rxe61_errors_loss",
       "cm_drep 6, cm_dreq 12, cm_rep 5, cm_req 5, cm_rtu 5, roce_ack 214, roce_nak roce_nak_access 2, "
       "roce_nak roce_nak_rnr 3, roce_nak roce_nak_sequence 21, roce_read_request 2, roce_read_response 1, "
       "roce_send 702, roce_write 2"},
      {"rxe61_unreachable", "cm_drep 1, cm_dreq 1, cm_rep 1, cm_req 17, cm_rtu 1"}};
  for (const auto& [name, expected] : captures) {
    std::map<std::string, int> seen;
    for (const Bytes& frame : captured(name)) {
      const auto read = read_roce(frame);
      const FrameLayout layout = lay_out(frame);
      ASSERT_EQ(layout.kinds.has(MessageKind::roce_packet), read.has_value()) << name;
      if (!read) continue;
      EXPECT_EQ(layout.psn, read->packet.bth.psn);
      if (read->message) {
        std::string word = "cm_";
        for (const char c : wire::ib::to_string(read->message->type())) word += static_cast<char>(std::tolower(c));
        EXPECT_EQ(roce_kinds(frame), word);
      }
      ++seen[roce_kinds(frame)];
    }
    std::string counted;
    for (const auto& [word, count] : seen) counted += fmt::format("{}{} {}", counted.empty() ? "" : ", ", word, count);
    EXPECT_EQ(counted, expected) << name;
  }
}

}  // namespace
}  // namespace parley::sim::test::message_kind_roce_test
