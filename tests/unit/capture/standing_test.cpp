// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What passed, what failed and what is partial: one table, which every report follows; and what a file without a
// connection is said to hold.
#include "capture/report/standing.hpp"

#include <gtest/gtest.h>

#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;

struct Row {
  std::string_view what;
  Outcome outcome = Outcome::established;
  std::vector<Severity> findings{};
  bool terminate = false;
  std::uint64_t missing = 0;
  Severity fail_on = Severity::error;
  Standing standing = Standing::passed;
  std::string_view why = "";
};

const Row rows[] = {
    {"a clean connection"},
    {"a rejection in good order", Outcome::rejected},
    {"notes", Outcome::established, {Severity::note, Severity::note}},
    {"a warning", Outcome::established, {Severity::warning}},
    {"an error",
     Outcome::established,
     {Severity::error, Severity::warning},
     false,
     0,
     Severity::error,
     Standing::failed,
     "1 error"},
    {"a warning that is to fail",
     Outcome::established,
     {Severity::warning, Severity::warning, Severity::note},
     false,
     0,
     Severity::warning,
     Standing::failed,
     "2 warnings"},
    {"notes never fail", Outcome::established, {Severity::note}, false, 0, Severity::warning},
    {"a failed set-up", Outcome::failed, {}, false, 0, Severity::error, Standing::failed, "the set-up failed"},
    {"a Terminate",
     Outcome::established,
     {},
     true,
     0,
     Severity::error,
     Standing::failed,
     "ended by a Terminate of the responder (frame 7)"},
    {"a set-up that goes on",
     Outcome::incomplete,
     {},
     false,
     0,
     Severity::error,
     Standing::partial,
     "the set-up was not completed"},
    {"a set-up before the capture",
     Outcome::not_captured,
     {},
     false,
     0,
     Severity::error,
     Standing::partial,
     "the set-up is not in the capture"},
    {"a hole", Outcome::established, {}, false, 1, Severity::error, Standing::partial, "1 octet is not in the capture"},
    {"a hole beside an error",
     Outcome::established,
     {Severity::error},
     false,
     9,
     Severity::error,
     Standing::failed,
     "1 error"},
    {"a rejection with an error",
     Outcome::rejected,
     {Severity::error},
     false,
     0,
     Severity::error,
     Standing::failed,
     "1 error"},
};

TEST(CaptureStanding, ARejectionOfWhatTheCaptureLacksIsPartial) {
  ConnectionReport c;
  c.outcome = Outcome::rejected;
  EXPECT_EQ(judge(c, Severity::error).standing, Standing::partial);
  c.request.emplace();
  EXPECT_EQ(judge(c, Severity::error).standing, Standing::passed);
  c.ib = std::make_shared<IbSeen>();
  EXPECT_EQ(judge(c, Severity::error).standing, Standing::partial);
  c.ib->req_frame = 1;
  EXPECT_EQ(judge(c, Severity::error).standing, Standing::passed);
}

TEST(CaptureStanding, WhatGoesToAMulticastGroupHasNoSetUpToMiss) {
  ConnectionReport c;
  c.outcome = Outcome::not_captured;
  c.ib = std::make_shared<IbSeen>();
  c.initiator = Address::v4(192, 0, 2, 1, 0);
  c.responder = Address::v4(239, 1, 2, 3, 0);
  c.ib->ends[1].qpn = 0xFFFFFF;
  c.judgement = judge(c, Severity::error);
  EXPECT_EQ(result_text(c), "to a multicast group, passed");
  EXPECT_EQ(c.not_agreed(), "nothing: datagrams to a multicast group have no set-up");
  // Neither the queue pair nor the address alone makes a group.
  ConnectionReport to_one_host = c;
  to_one_host.responder = Address::v4(192, 0, 2, 2, 0);
  EXPECT_EQ(judge(to_one_host, Severity::error).standing, Standing::partial);
  c.ib->ends[1].qpn = 0x11;
  EXPECT_EQ(judge(c, Severity::error).standing, Standing::partial);
}

TEST(Standing, OfAConnectionIsThatOfTheTable) {
  for (const Row& row : rows) {
    ConnectionReport c;
    c.outcome = row.outcome;
    c.request.emplace();
    for (const Severity s : row.findings) c.findings.push_back({1, s, "", "x"});
    if (row.terminate) c.terminate = TerminateSeen{Side::responder, 7};
    c.from_responder.missing_octets = row.missing;
    const Judgement judged = judge(c, row.fail_on);
    EXPECT_EQ(judged.standing, row.standing) << row.what;
    EXPECT_EQ(judged.why, row.why) << row.what;
  }
}

ConnectionReport with(Standing standing) {
  ConnectionReport c;
  c.judgement.standing = standing;
  return c;
}

TEST(Standing, OfAFileIsThatOfItsWorstConnection) {
  FileReport r;
  r.packets = r.tcp_packets = 9;
  r.connections = {with(Standing::passed), with(Standing::passed)};
  EXPECT_EQ(judge(r).standing, Standing::passed);
  EXPECT_EQ(judge(r, 2).standing, Standing::passed);
  EXPECT_EQ(judge(r, 3).standing, Standing::failed);
  EXPECT_EQ(judge(r, 3).why, "2 connections, at least 3 expected");
  r.not_followed = 4;
  EXPECT_EQ(judge(r).standing, Standing::partial);
  EXPECT_EQ(judge(r).why, "4 packets not looked at");
  r.unread = "offset 9: the file is truncated";
  r.connections.push_back(with(Standing::partial));
  EXPECT_EQ(judge(r).why, "1 connection partial, not read to its end, 4 packets not looked at");
  r.unlisted.connections = 5;
  r.unlisted.standings[static_cast<std::size_t>(Standing::failed)] = 2;
  EXPECT_EQ(judge(r).standing, Standing::failed);
  EXPECT_EQ(judge(r).why, "2 connections failed");
  EXPECT_EQ(judge(r, 8).standing, Standing::failed);
  EXPECT_EQ(judge(r, 8).why, "2 connections failed") << "unlisted connections are connections";
}

/// A UDP packet over Ethernet and IPv4.
Bytes udp(std::uint16_t to) {
  Bytes f(14 + 20 + 8 + 12);
  f[12] = 0x08;
  f[14] = 0x45;
  f[17] = 40;
  f[23] = 17;
  f[36] = static_cast<std::uint8_t>(to >> 8);
  f[37] = static_cast<std::uint8_t>(to);
  return f;
}
Bytes ethernet(std::uint16_t type) {
  Bytes f(60);
  f[12] = static_cast<std::uint8_t>(type >> 8);
  f[13] = static_cast<std::uint8_t>(type);
  return f;
}

TEST(Standing, AFileWithoutAConnectionSaysWhatItHolds) {
  EXPECT_EQ(test::analyse({}).judgement.why, "no connection of a known protocol; the capture holds no packet");
  Exchange web(Address::v4(192, 0, 2, 1, 40000), Address::v4(192, 0, 2, 2, 80), 1, 2);
  const Bytes get{'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P'};
  web.open().send(0, get).close();
  test::Frames frames = web.frames;
  for (const Bytes& f : {udp(4791), udp(4791), udp(53), ethernet(0x8915), ethernet(0x0806)}) frames.push_back({f});
  const FileReport r = test::analyse(frames);
  EXPECT_EQ(r.judgement.standing, Standing::failed);
  EXPECT_EQ(r.judgement.why,
            "no connection of a known protocol; the capture holds 2 packets of RoCEv2 (UDP port 4791), 1 packet of "
            "InfiniBand over Ethernet (RoCEv1, type 0x8915), 1 TCP connection that is not MPA (7 packets), 1 packet of "
            "other UDP, 1 other packet");
  EXPECT_NE(to_text("a", r).find("a: failed: no connection of a known protocol; the capture holds 2 packets of RoCEv2"),
            std::string::npos);
  EXPECT_NE(to_json("a", r).find(R"("verdict":"failed","reason":"no connection of)"), std::string::npos);
  EXPECT_NE(to_json("a", r).find(R"("holds":{"tcp":7,"rocev2":2,"rocev1":1,"other_udp":1})"), std::string::npos);
}

TEST(Standing, ATerminateOfEitherSideFailsTheConnection) {
  wire::DdpHeader h;
  h.opcode = wire::RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  for (const unsigned from : {0u, 1u}) {
    Exchange x;
    x.set_up().send(0, fpdu(send_segment(1, 8)));
    x.send(from, fpdu(test::segment(h, Bytes{0, 0, 0, 0}))).close();
    const FileReport r = test::analyse(x.frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.count(Severity::error), 0u) << test::words(r);
    const Judgement& judged = r.connections[0].judgement;
    EXPECT_EQ(judged.standing, Standing::failed);
    EXPECT_EQ(judged.why, from == 0 ? "ended by a Terminate of the initiator (frame 7)"
                                    : "ended by a Terminate of the responder (frame 7)");
    EXPECT_EQ(r.judgement.standing, Standing::failed);
    EXPECT_EQ(r.count(Standing::failed), 1u);
  }
}

TEST(Standing, WarningsFailWhenAskedTo) {
  Exchange x;
  x.open()
      .send(0, startup(wire::MpaKey::req, 0, 1))  // C=0
      .send(1, startup(wire::MpaKey::rep, 0, 1))
      .send(0, fpdu(send_segment(1, 8), 0, false, false))
      .close();
  for (const auto& [severity, standing] :
       {std::pair{Severity::error, Standing::passed}, std::pair{Severity::warning, Standing::failed}}) {
    EXPECT_EQ(test::analyse(x.frames, AnalyzerOptions{.fail_on = severity}).judgement.standing, standing);
  }
}

}  // namespace
}  // namespace parley::capture
