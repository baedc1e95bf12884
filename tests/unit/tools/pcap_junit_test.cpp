// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// JUnit of captures: a suite per file, cases by connection and family of rules, failures only for errors.
#include <gtest/gtest.h>

#include "tools/pcap/pcap_junit.hpp"

namespace parley::tools {
namespace {

using capture::Severity;

CaptureVerdict two_connections() {
  CaptureVerdict v;
  v.readable = true;
  v.report.connections.resize(2);
  auto& c = v.report.connections[1];
  c.initiator = Address::v4(192, 0, 2, 1, 40000);
  c.responder = Address::v4(192, 0, 2, 2, 9001);
  c.request.emplace();
  c.request->revision = 2;
  c.from_initiator.fpdus = 3;
  c.findings = {{5, Severity::error, "RFC 5044 §4.4", "a CRC"},
                {6, Severity::error, "RFC 5044 §4.1", "a pad"},
                {7, Severity::warning, "RFC 6581 §9.1", "an ORD"},
                {0, Severity::note, "", "octets are missing"}};
  v.report.connections[0].outcome = c.outcome = capture::Outcome::established;
  return v;
}
const JunitCase* find(const JunitSuite& s, std::string_view name) {
  for (const auto& c : s.cases)
    if (c.name == name) return &c;
  return nullptr;
}

TEST(PcapJunit, RulesHaveFamilies) {
  EXPECT_EQ(rule_family("RFC 5044 §7.1.2"), "MPA set-up");
  EXPECT_EQ(rule_family("RFC 5044 §8"), "MPA set-up");
  EXPECT_EQ(rule_family("RFC 5044 §4.3"), "MPA framing");
  EXPECT_EQ(rule_family("RFC 6581 §9.2"), "enhanced set-up");
  EXPECT_EQ(rule_family("OFA 2007-10 Rtr §2"), "Rtr frame of 2007");
  EXPECT_EQ(rule_family("RFC 5041 §4.3"), "DDP");
  EXPECT_EQ(rule_family("RFC 5040 §4.8"), "RDMAP");
  EXPECT_EQ(rule_family("RFC 6580 §3.3"), "RDMAP");
  EXPECT_EQ(rule_family("RFC 7306 §5.1"), "Atomics and Immediate Data");
  EXPECT_EQ(rule_family(""), "MPA set-up");
}

TEST(PcapJunit, ErrorsFailTheirFamilyAndNothingElse) {
  const JunitSuite s = junit_suite("a.pcap", two_connections());
  ASSERT_EQ(s.cases.size(), 2U + 2 * 8);
  const std::string head = "connection 2 192.0.2.1:40000 -> 192.0.2.2:9001: ";
  const JunitCase *framing = find(s, head + "MPA framing"), *enhanced = find(s, head + "enhanced set-up"),
                  *set_up = find(s, head + "MPA set-up"), *rtr = find(s, head + "Rtr frame of 2007");
  ASSERT_TRUE(framing != nullptr && enhanced != nullptr && set_up != nullptr && rtr != nullptr);
  EXPECT_EQ(framing->failure, "frame 5: a CRC [RFC 5044 §4.4]\nframe 6: a pad [RFC 5044 §4.1]");
  EXPECT_EQ(framing->class_name, "a.pcap");
  EXPECT_EQ(enhanced->failure, "");
  EXPECT_EQ(enhanced->output, "warning: frame 7: an ORD [RFC 6581 §9.1]");
  EXPECT_EQ(set_up->output, "note: octets are missing");
  EXPECT_EQ(rtr->skipped, "the Rtr frame is not offered");
  EXPECT_EQ(s.cases[6].skipped, "no FPDU in the capture") << s.cases[6].name;
}

TEST(PcapJunit, WhatIsWrongWithTheFileFailsItsFirstCase) {
  CaptureVerdict v = two_connections();
  EXPECT_EQ(junit_suite("a.pcap", v).cases[0].failure, "");
  v.error = "offset 77: the file is truncated";
  EXPECT_EQ(junit_suite("a.pcap", v).cases[0].failure, v.error);
  v.report.unlisted.connections = 9;
  v.report.unlisted.standings[static_cast<std::size_t>(capture::Standing::failed)] = 4;
  EXPECT_EQ(junit_suite("a.pcap", v).cases[1].failure, "4 of 9 that are not listed one by one failed");
}

TEST(PcapJunit, AConnectionThatDidNotEndWellFailsACaseOfItsOwn) {
  CaptureVerdict v = two_connections();
  const std::string name =
      "connection 2 192.0.2.1:40000 -> 192.0.2.2:9001: the connection was seen whole and ended well";
  EXPECT_EQ(find(junit_suite("a", v), name)->failure, "");
  v.report.connections[1].terminate = capture::TerminateSeen{capture::Side::initiator, 8};
  EXPECT_EQ(find(junit_suite("a", v), name)->failure, "ended by a Terminate of the initiator (frame 8)");
  v.report.connections[1].terminate.reset();
  v.report.connections[1].outcome = capture::Outcome::incomplete;
  EXPECT_EQ(find(junit_suite("a", v), name)->failure, "partial: the set-up was not completed");
  const JunitSuite lenient = junit_suite("a", v, {.partial_ok = true});
  EXPECT_EQ(find(lenient, name)->failure, "");
  EXPECT_EQ(find(lenient, name)->skipped, "partial: the set-up was not completed");
}

TEST(PcapJunit, WarningsFailTheirFamilyWhenAskedTo) {
  const JunitSuite s = junit_suite("a", two_connections(), {.fail_on = Severity::warning});
  const JunitCase* enhanced = find(s, "connection 2 192.0.2.1:40000 -> 192.0.2.2:9001: enhanced set-up");
  ASSERT_NE(enhanced, nullptr);
  EXPECT_EQ(enhanced->failure, "frame 7: an ORD [RFC 6581 §9.1]");
}

TEST(PcapJunit, ACaptureWithoutEnoughConnectionsFails) {
  CaptureVerdict v;
  v.readable = true;
  v.report.packets = v.report.other.rocev2 = 3;
  EXPECT_EQ(junit_suite("a", v).cases[1].failure,
            "no connection of a known protocol; the capture holds 3 packets of RoCEv2 (UDP port 4791)");
  EXPECT_EQ(junit_suite("a", two_connections(), {.expect = 3}).cases[1].failure, "2 connections, at least 3 expected");
  EXPECT_EQ(junit_suite("a", two_connections(), {.expect = 2}).cases[1].failure, "");
}

TEST(PcapJunit, ACaptureWithoutEndStaysWithinBoundsAndTellsWhatItLeavesOut) {
  const CaptureVerdict v = two_connections();
  JunitCapture live("lo", {});
  for (int i = 0; i < 120'000; ++i) live.connection(v.report.connections[1]);
  const JunitSuite s = live.finish({.report = {}, .error = {}, .readable = true});
  EXPECT_EQ(s.cases.size(), 2U + 100'000);
  EXPECT_EQ(s.cases[0].output, "left out: 796250 cases that did not fail");
  EXPECT_NE(s.cases[1].failure.find("left out: 63750 cases that failed"), std::string::npos) << s.cases[1].failure;
}

TEST(PcapJunit, SuitesAreCountedTogether) {
  const JunitSuite s = junit_suite("a & b.pcap", two_connections());
  const std::string xml = junit_xml("all", {s, s});
  EXPECT_NE(xml.find("<testsuites name=\"all\" tests=\"36\" failures=\"2\""), std::string::npos) << xml.substr(0, 200);
  EXPECT_NE(xml.find("<testsuite name=\"a &amp; b.pcap\" tests=\"18\" failures=\"1\""), std::string::npos);
}

}  // namespace
}  // namespace parley::tools
