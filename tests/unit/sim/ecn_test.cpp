// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Switches that mark congestion, and hosts that answer the marks.
#include "sim/net/ecn.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "roce_kit.hpp"
#include "sim/check/congestion.hpp"
#include "sim/run/run.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using wire::ib::Operation;
using wire::ib::Service;

/// A Send with this ECN field, from a host that speaks IPv4 or IPv6.
Bytes with_ecn(bool ipv6, std::uint8_t ecn) {
  const RoceSender sender{.ipv6 = ipv6};
  Bytes frame = sender.send(7);
  if (ipv6) {
    frame[15] = static_cast<std::uint8_t>(frame[15] | ecn << 4);
    return frame;
  }
  frame[15] = ecn;
  frame[24] = frame[25] = 0;
  const ConstBytes header[] = {ConstBytes(frame).subspan(14, 20)};
  Writer(MutBytes(frame).subspan(24, 2)).be16(wire::internet_checksum(header));
  return frame;
}

std::uint16_t ipv4_sum(ConstBytes frame) {
  const ConstBytes header[] = {frame.subspan(14, 20)};
  return wire::internet_checksum(header);
}

TEST(SimEcn, MarksWhatSaysThatItCanBeMarkedAndKeepsChecksumAndIcrcRight) {
  for (const bool ipv6 : {false, true})
    for (std::uint8_t ecn = 0; ecn < 4; ++ecn) {
      const Bytes before = with_ecn(ipv6, ecn);
      Bytes frame = before;
      EXPECT_EQ(mark_congestion(frame), ecn == 1 || ecn == 2) << ipv6 << int{ecn};
      EXPECT_EQ(is_congestion_marked(frame), ecn != 0) << ipv6 << int{ecn};
      if (!ipv6) {
        EXPECT_EQ(ipv4_sum(frame), 0) << int{ecn};
      }
      const auto roce = wire::ib::RoceHeader::parse(ipv6 ? wire::ethertype_ipv6 : wire::ethertype_ipv4,
                                                    ConstBytes(frame).subspan(14));
      ASSERT_TRUE(roce);
      EXPECT_TRUE(wire::ib::is_sealed(roce->header, roce->packet)) << "the ICRC leaves the traffic class out";
      EXPECT_EQ(roce->header.traffic_class & 3, ecn == 0 ? 0 : 3);
      if (ecn == 0) {
        EXPECT_EQ(frame, before);
      }
    }
}

TEST(SimEcn, LeavesWhatIsNoIpPacketAlone) {
  Bytes arp(60);
  arp[12] = 0x08;
  arp[13] = 0x06;
  arp[15] = 2;
  const Bytes before = arp;
  EXPECT_FALSE(mark_congestion(arp));
  EXPECT_EQ(arp, before);
  const Bytes whole = with_ecn(false, 2);
  for (std::size_t size = 0; size < 34; ++size) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(mark_congestion(cut)) << size;
  }
}

Scenario library(const std::string& name) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/sim/scenarios/" + name + ".toml");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto read = parse_scenario(text, name);
  EXPECT_TRUE(read) << read.error().front().to_string();
  return read ? *read : Scenario{};
}

ScenarioHost& node(Scenario& s, std::string_view name) {
  return *std::find_if(s.hosts.begin(), s.hosts.end(), [name](const ScenarioHost& h) { return h.name == name; });
}

TEST(SimEcn, ReceiversAnswerMarksWithNotificationsAndSendersCountThem) {
  for (const char* name : {"roce_ecn", "roce_ecn_ipv6"}) {
    const RunReport report = run_scenario(library(name), {.seed = 1});
    EXPECT_TRUE(report.passed()) << name;
    EXPECT_GT(report.counters.ecn_marked, 100U) << name;
    EXPECT_GT(report.cnp_sent, 2U) << name;
    EXPECT_EQ(report.cnp_received, report.cnp_sent) << name;
    EXPECT_GT(report.cnp_held, report.cnp_sent) << "at most one in 50 us for each queue pair";
    EXPECT_EQ(report.counters.dropped, 0U) << name;
  }
}

TEST(SimEcn, NoPacketIsMarkedThatMayNotBeOrWhileTheQueueIsShort) {
  Scenario deaf = library("roce_ecn");
  for (ScenarioHost& host : deaf.hosts) host.options.hca.traffic_class = 104;  // the same DSCP, not ECT
  Scenario patient = library("roce_ecn");
  node(patient, "s").switching.ecn_threshold = 1 << 20;
  Scenario plain = library("roce_ecn");
  node(plain, "s").switching = {};
  for (const Scenario& s : {deaf, patient, plain}) {
    const RunReport report = run_scenario(s, {.seed = 1});
    EXPECT_TRUE(report.passed());
    EXPECT_EQ(report.counters.ecn_marked, 0U);
    EXPECT_EQ(report.cnp_sent + report.cnp_held, 0U);
  }
}

TEST(SimEcn, TheKeysAreReadAndWritten) {
  const Scenario s = library("roce_ecn");
  const std::string text = to_toml(s);
  EXPECT_THAT(text, HasSubstr("ecn_threshold = \"32KiB\"\n"));
  EXPECT_THAT(text, HasSubstr("hca = { traffic_class = 106 }\n"));
  const auto again = parse_scenario(text, "x.toml");
  ASSERT_TRUE(again);
  EXPECT_EQ(to_toml(*again), text);
}

/// Packets between a queue pair of "b", 0x11, and one of "a", 0x11 too, as b's own capture shows them.
struct Judged {
  check::Congestion checker;
  check::Judge judge;
  std::deque<check::Attempt> attempts{1};

  Judged() {
    check::Attempt& a = attempts.front();
    a.roce = true;
    a.initiator.host = "a";
    a.responders.push_back(std::make_unique<check::End>());
    check::End& b = *a.responders.back();
    b.host = "b";
    b.ib.emplace();
    b.ib->qp_num = b.ib->remote_qp_num = 0x11;
    b.ib->dgid = RoceSender().header().destination;
  }
  void pass(Duration at, bool outbound, const Bytes& octets) {
    TapFrame frame;
    frame.at = Instant(at);
    frame.outbound = outbound;
    frame.octets = octets;
    checker.frame("b", frame);
  }
  std::string said() {
    checker.finish(attempts, judge);
    return judge.list().empty() ? "" : judge.list().front().text;
  }
};

Bytes cnp() {
  wire::ib::Packet p;
  p.bth.opcode = PARLEY_IB_OPCODE_CNP;
  p.bth.dest_qpn = 0x11;
  const Bytes reserved(PARLEY_IB_CNP_PAYLOAD_LEN);
  p.payload = reserved;
  return RoceSender().frame(p);
}

TEST(SimEcn, AMarkThatIsAcknowledgedAndNotAnsweredIsFound) {
  using namespace std::chrono_literals;
  const Bytes marked = with_ecn(false, 3), ack = RoceSender().ack(7);
  Judged silent;
  silent.pass(1us, false, marked);
  silent.pass(2us, true, ack);
  EXPECT_THAT(silent.said(), HasSubstr("b acknowledged PSN 0x000007"));

  Judged answered;
  answered.pass(1us, false, marked);
  answered.pass(2us, true, cnp());
  answered.pass(2us, true, ack);
  EXPECT_THAT(answered.said(), IsEmpty());

  Judged once;  // and a mark long after it
  once.pass(1us, false, marked);
  once.pass(2us, true, cnp());
  once.pass(60us, false, marked);
  once.pass(61us, true, ack);
  EXPECT_THAT(once.said(), HasSubstr("sent no CNP"));

  Judged soon_after;
  soon_after.pass(1us, false, marked);
  soon_after.pass(2us, true, cnp());
  soon_after.pass(40us, false, marked);
  soon_after.pass(41us, true, ack);
  EXPECT_THAT(soon_after.said(), IsEmpty()) << "one in 50 us is enough";

  Judged ended;  // a queue pair in ERR takes nothing
  ended.pass(1us, false, marked);
  EXPECT_THAT(ended.said(), IsEmpty());

  Judged touched;
  touched.attempts.front().touched = true;
  touched.pass(1us, false, marked);
  touched.pass(2us, true, ack);
  EXPECT_THAT(touched.said(), IsEmpty());
}

}  // namespace
}  // namespace parley::sim::test
