// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios made in code, which no reader has looked at before: each thing that is wrong is named with its line, its key
// and the right form, and nothing else is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

/// Lines 10 to 50: a host, its partner, the link, the listener, the connection.
Scenario small() {
  Scenario s;
  s.file = "made";
  s.hosts = {{.name = "a", .line = 10}, {.name = "b", .line = 11}};
  s.links = {{.name = "wire", .ends = {"a", "b"}, .line = 20}};
  s.listens.resize(1);
  s.listens[0].host = "b";
  s.listens[0].line = 40;
  s.connects.resize(1);
  s.connects[0].from = "a";
  s.connects[0].to = "b";
  s.connects[0].line = 50;
  return s;
}

struct Mistake {
  void (*make)(Scenario&);
  std::string_view said;
};

void expect_each_said(std::initializer_list<Mistake> mistakes) {
  for (const Mistake& mistake : mistakes) {
    Scenario s = small();
    mistake.make(s);
    std::vector<std::string> said;
    for (const ScenarioError& error : check_scenario(s)) said.push_back(error.to_string());
    if (mistake.said.empty())
      EXPECT_THAT(said, IsEmpty());
    else
      EXPECT_THAT(said, ElementsAre(mistake.said));
  }
}

TEST(SimScenarioCode, ASmallOneIsRight) { EXPECT_THAT(check_scenario(small()), IsEmpty()); }

TEST(SimScenarioCode, BoundsAreAboveNone) {
  expect_each_said({
      {[](Scenario& s) { s.bounds.time = 1ns; }, ""},
      {[](Scenario& s) { s.bounds.time = 0ns; },
       "made: time: a run of no time ends before it began: write a time above 0s, as \"120s\""},
      {[](Scenario& s) { s.bounds.converge = 0ns; }, "made: converge: write a time above 0s, as \"60s\""},
      {[](Scenario& s) { s.bounds.events = 0; }, "made: events: write a number above 0"},
      {[](Scenario& s) { s.bounds.send_queue = 0; }, "made: send_queue: write a size above 0B"},
      {[](Scenario& s) { s.bounds.reassembly = 0; }, "made: reassembly: write a size above 0B"},
      {[](Scenario& s) { s.bounds.frames = 0; }, "made: frames: write a number above 0"},
      {[](Scenario& s) { s.connects.clear(); },
       "made: nothing happens here: add a [[connect]], or a [[send]] to a multicast group"},
  });
}

TEST(SimScenarioCode, HostsAndLinksAreWithinTheirBounds) {
  expect_each_said({
      {[](Scenario& s) { s.hosts[0].options.tcp.send_buffer = 2048; }, ""},
      {[](Scenario& s) { s.hosts[0].options.tcp.send_buffer = 2047; },
       "made:10: tcp: send_buffer is not in 2KiB..1GiB"},
      {[](Scenario& s) { s.hosts[0].options.tcp.receive_buffer = 1 << 30; }, ""},
      {[](Scenario& s) { s.hosts[1].options.tcp.receive_buffer = (1 << 30) + 1; },
       "made:11: tcp: receive_buffer is not in 2KiB..1GiB"},
      {[](Scenario& s) { s.hosts[0].options.tcp.rto_min = 0ns; },
       "made:10: tcp: rto_min and rto_initial must be above 0s"},
      {[](Scenario& s) { s.hosts[0].options.tcp.rto_initial = 0ns; },
       "made:10: tcp: rto_min and rto_initial must be above 0s"},
      {[](Scenario& s) { s.hosts[0].options.tcp.rto_max = 1s; }, ""},
      {[](Scenario& s) { s.hosts[0].options.tcp.rto_max = 999ms; },
       "made:10: tcp: rto_max is below rto_min or rto_initial: raise it"},
      {[](Scenario& s) { s.hosts[0].options.tcp.rto_min = 61s; },
       "made:10: tcp: rto_max is below rto_min or rto_initial: raise it"},
      {[](Scenario& s) { s.hosts[0].options.tcp.delayed_ack = -1ns; }, "made:10: tcp: a time is negative"},
      {[](Scenario& s) { s.hosts[0].options.tcp.time_wait = -1ns; }, "made:10: tcp: a time is negative"},
      {[](Scenario& s) { s.hosts[0].options.manager.endpoints_max = 0; },
       "made:10: rnic: endpoints_max must be above 0"},
      {[](Scenario& s) { s.hosts.push_back({.name = "c", .line = 12}); },
       "made:12: host 'c' has no link: add a [[link]] with ends = [\"c\", ...]"},
      {[](Scenario& s) { s.hosts.push_back({.name = "c", .is_switch = true, .line = 12}); }, ""},
      {[](Scenario& s) { s.hosts.push_back({.name = std::string(64, 's'), .is_switch = true}); }, ""},
      {[](Scenario& s) { s.hosts.push_back({.name = "Az09._-", .is_switch = true}); }, ""},
      {[](Scenario& s) { s.hosts.push_back({.name = "a/b", .is_switch = true, .line = 12}); },
       "made:12: name: 'a/b' is not a name: use up to 64 letters, digits, '.', '_' and '-'"},
      {[](Scenario& s) { s.hosts.push_back({.name = "", .is_switch = true, .line = 12}); },
       "made:12: this switch has no name: add name = \"...\""},
      {[](Scenario& s) { s.links[0].options.mtu = 576; }, ""},
      {[](Scenario& s) { s.links[0].options.mtu = 575; }, "made:20: mtu: 575 is not in 576..9000"},
      {[](Scenario& s) { s.links[0].options.mtu = 9000; }, ""},
      {[](Scenario& s) { s.links[0].options.mtu = 9001; }, "made:20: mtu: 9001 is not in 576..9000"},
      {[](Scenario& s) { s.links[0].options.delay = -1ns; }, "made:20: delay: a time is not negative"},
      {[](Scenario& s) { s.links[0].options.queue_octets = 1513; },
       "made:20: queue: 1513 octets do not hold one frame of the MTU (1500 and 14 of Ethernet)"},
      {[](Scenario& s) { s.links[0].options.rate_bps = 0; },
       "made:20: rate: nothing crosses a link of rate 0; for a dead link use a fault with action = \"drop\""},
      {[](Scenario& s) { s.links[0].name = "the wire"; },
       "made:20: name: 'the wire' is not a name: use letters, digits, '.', '_' and '-'"},
  });
}

TEST(SimScenarioCode, ListenersAreWithinTheirBounds) {
  expect_each_said({
      {[](Scenario& s) {
         s.listens[0].host.clear();
         s.connects[0].expect = Expect::failed;
       },
       "made:40: host is missing: add host = \"<name of a host>\""},
      {[](Scenario& s) {
         s.listens[0].port = 0;
         s.connects[0].expect = Expect::failed;
       },
       "made:40: port: write 1..65535"},
      {[](Scenario& s) { s.listens[0].at = never; }, "made:40: at: write a time from 0s on"},
      {[](Scenario& s) { s.listens[0].at = Instant(-1ns); }, "made:40: at: write a time from 0s on"},
      {[](Scenario& s) { s.listens[0].accept_after = -1ns; }, "made:40: accept_after: a time is not negative"},
      {[](Scenario& s) { s.listens[0].pending_max = 0; }, "made:40: pending_max: 0 lets no peer connect"},
      {[](Scenario& s) { s.listens.push_back(s.listens[0]); },
       "made:40: port: 7471 of 'b' is taken by the listener of line 40; choose another"},
      {[](Scenario& s) {
         s.listens[0].line = 0;
         s.listens.push_back(s.listens[0]);
       },
       "made: port: 7471 of 'b' is taken by the listener number 1; choose another"},
      {[](Scenario& s) { s.listens[0].mpa.revision = 3; }, "made:40: revision: write 1 (RFC 5044) or 2 (RFC 6581)"},
      {[](Scenario& s) { s.listens[0].mpa.revision = 0; }, "made:40: revision: write 1 (RFC 5044) or 2 (RFC 6581)"},
      {[](Scenario& s) {
         s.listens[0].mpa.ird = 16382;
         s.listens[0].mpa.ord = 16382;
       },
       ""},
      {[](Scenario& s) {
         s.listens[0].mpa.ird = 16383;
         s.listens[0].mpa.ord = 16383;
       },
       ""},
      {[](Scenario& s) { s.listens[0].mpa.ird = 16384; }, "made:40: ird: write 0..16382 or \"none\" (RFC 6581 §9.1)"},
      {[](Scenario& s) { s.listens[0].mpa.ord = 16384; }, "made:40: ord: write 0..16382 or \"none\" (RFC 6581 §9.1)"},
      {[](Scenario& s) { s.listens[0].mpa.timeouts.request = 0ns; }, "made:40: request_timeout: write a time above 0s"},
      {[](Scenario& s) { s.listens[0].mpa.timeouts.rtr = 0ns; }, "made:40: rtr_timeout: write a time above 0s"},
      {[](Scenario& s) { s.listens[0].mpa.timeouts.first_fpdu = -1ns; },
       "made:40: first_fpdu_timeout: a time is not negative"},
      {[](Scenario& s) { s.listens[0].private_data.assign(508, 'x'); }, ""},
      {[](Scenario& s) { s.listens[0].private_data.assign(509, 'x'); },
       "made:40: private_data: 509 octets, at most 508 fit into the Reply (RFC 6581 §6 takes 4 of 512)"},
      {[](Scenario& s) {
         s.listens[0].private_data.assign(512, 'x');
         s.listens[0].mpa.revision = 1;
       },
       ""},
      {[](Scenario& s) {
         s.listens[0].private_data.assign(513, 'x');
         s.listens[0].mpa.revision = 1;
       },
       "made:40: private_data: 513 octets, at most 512 fit into the Reply (RFC 5044 §7.1.1)"},
      {[](Scenario& s) {
         s.listens[0].private_data.assign(512, 'x');
         s.connects[0].mpa.revision = 1;
       },
       ""},
      {[](Scenario& s) {
         s.hosts[1].options.ipv6 = false;
         s.listens[0].address = AddressKind::v6;
         s.connects[0].expect = Expect::failed;
       },
       "made:40: address: host 'b' has ipv6 = false"},
  });
}

TEST(SimScenarioCode, ConnectionsAreWithinTheirBounds) {
  expect_each_said({
      {[](Scenario& s) {
         s.connects[0].port = 0;
         s.connects[0].expect = Expect::failed;
       },
       "made:50: port: write 1..65535"},
      {[](Scenario& s) {
         s.connects[0].count = 0;
         s.connects[0].interval = 1ms;
       },
       "made:50: count: write a number above 0, or take the [[connect]] out"},
      {[](Scenario& s) { s.connects[0].at = never; }, "made:50: at: write a time from 0s on"},
      {[](Scenario& s) { s.connects[0].at = Instant(-1ns); }, "made:50: at: write a time from 0s on"},
      {[](Scenario& s) {
         s.connects[0].at = Instant(120s - 1ns);
         s.connects[0].interval = 1h;
       },
       ""},
      {[](Scenario& s) { s.connects[0].at = Instant(120s); },
       "made:50: the last connection would start when the run is over: [bounds] time is 120s"},
      {[](Scenario& s) {
         s.connects[0].count = 121;
         s.connects[0].interval = 1s - 1ns;
       },
       ""},
      {[](Scenario& s) {
         s.connects[0].count = 121;
         s.connects[0].interval = 1s;
       },
       "made:50: the last connection would start when the run is over: [bounds] time is 120s"},
      {[](Scenario& s) { s.connects[0].interval = -1ns; }, "made:50: interval: a time is not negative"},
      {[](Scenario& s) { s.connects[0].close_after = -1ns; }, "made:50: close_after: a time is not negative"},
      {[](Scenario& s) { s.connects[0].established_within = -1ns; },
       "made:50: established_within: a time is not negative"},
      {[](Scenario& s) { s.connects[0].retry_after = -1ns; }, "made:50: retry_after: a time is not negative"},
      {[](Scenario& s) { s.connects[0].transport_timeout = 0ns; }, "made:50: transport_timeout: write a time above 0s"},
      {[](Scenario& s) { s.connects[0].timeout = -1ns; }, "made:50: timeout: a time is not negative"},
  });
}

TEST(SimScenarioCode, WhatConnectionsTransferAndWhomTheyMeetIsWithinTheirBounds) {
  expect_each_said({
      {[](Scenario& s) {
         s.connects[0].octets = 16 << 20;
         s.connects[0].messages = 64;
       },
       ""},
      {[](Scenario& s) {
         s.connects[0].octets = 16 << 20;
         s.connects[0].messages = 65;
       },
       "made:50: messages: more than 1GiB over one connection"},
      {[](Scenario& s) {
         s.connects[0].octets = (16 << 20) + 1;
         s.connects[0].messages = 65;
       },
       "made:50: octets: at most 16MiB in one message"},
      {[](Scenario& s) {
         s.connects[0].transfer = Transfer::read;
         s.connects[0].mpa.ord = 1;
       },
       ""},
      {[](Scenario& s) {
         s.connects[0].transfer = Transfer::read;
         s.connects[0].mpa.ord = 0;
       },
       "made:50: ord: an RDMA Read needs an ORD of 1 or more"},
      {[](Scenario& s) {
         s.connects[0].transfer = Transfer::read;
         s.connects[0].mpa.ord = 0;
         s.connects[0].messages = 0;
       },
       ""},
      {[](Scenario& s) {
         s.connects[0].transfer = Transfer::write;
         s.connects[0].mpa.ord = 0;
       },
       ""},
      {[](Scenario& s) { s.connects[0].mpa.timeouts.reply = 0ns; }, "made:50: reply_timeout: write a time above 0s"},
      {[](Scenario& s) {
         s.connects[0].private_data.assign(512, 'x');
         s.connects[0].mpa.revision = 1;
       },
       ""},
      {[](Scenario& s) {
         s.connects[0].private_data.assign(513, 'x');
         s.connects[0].mpa.revision = 1;
       },
       "made:50: private_data: 513 octets, at most 512 fit into a Request of revision 1 (RFC 5044 §7.1.1)"},
      {[](Scenario& s) { s.connects[0].from = "b"; },
       "made:50: to: 'b' connects to itself; nothing of that would cross a link"},
      {[](Scenario& s) { s.connects[0].from.clear(); }, "made:50: from is missing: add from = \"<name of a host>\""},
      {[](Scenario& s) { s.listens.clear(); },
       "made:50: port: there is no listener on 'b': add a [[listen]], or expect = \"failed\""},
      {[](Scenario& s) { s.listens[0].address = AddressKind::v6; },
       "made:50: address: 'b' listens on port 7471 with address = \"v6\" only"},
      {[](Scenario& s) {
         s.listens[0].address = AddressKind::v6;
         s.connects[0].address = AddressKind::link_local;
       },
       ""},
      {[](Scenario& s) {
         s.hosts[0].options.ipv6 = false;
         s.connects[0].address = AddressKind::v6;
       },
       "made:50: address: one of the two hosts has ipv6 = false"},
  });
}

TEST(SimScenarioCode, FaultsAreWhereTheyCanHappen) {
  expect_each_said({
      {[](Scenario& s) { s.faults.push_back({.link = "wire", .line = 60}); }, ""},
      {[](Scenario& s) { s.faults.push_back({.line = 60}); },
       "made:60: link is missing: drop happens to frames of a link"},
      {[](Scenario& s) { s.faults.push_back({.link = "wire", .host = "a", .line = 60}); },
       "made:60: host: drop happens to frames, not to a host: leave it out"},
      {[](Scenario& s) { s.faults.push_back({.link = "wire", .toward = "c", .line = 60}); },
       "made:60: to: 'c' is not an end of wire: write \"a\" or \"b\""},
      {[](Scenario& s) { s.faults.push_back({.host = "a", .rule = {.action = FaultAction::crash}, .line = 60}); }, ""},
      {[](Scenario& s) {
         s.faults.push_back({.toward = "a", .host = "a", .rule = {.action = FaultAction::pause}, .line = 60});
       },
       "made:60: to is an end of a link: add link = \"...\""},
      {[](Scenario& s) {
         s.faults.push_back({.host = "a", .rule = {.chance = {1, 2}, .action = FaultAction::pause}, .line = 60});
       },
       "made:60: without a link no frame can match: add link = \"...\", or leave match, nth, times, chance and mask "
       "out"},
      {[](Scenario& s) {
         s.faults.push_back({.host = "a", .rule = {.mask = 1, .action = FaultAction::restart}, .line = 60});
       },
       "made:60: without a link no frame can match: add link = \"...\", or leave match, nth, times, chance and mask "
       "out"},
      {[](Scenario& s) { s.faults.push_back({.link = "other", .line = 60}); },
       "made:60: link: no link is called 'other'; there are wire"},
      {[](Scenario& s) { s.faults.assign(256, {.link = "wire"}); }, ""},
      {[](Scenario& s) { s.faults.assign(257, {.link = "wire", .line = 60}); },
       "made:60: link: more than 256 faults of one link"},
      {[](Scenario& s) { s.faults.assign(300, {.link = "wire", .line = 60}); },
       "made:60: link: more than 256 faults of one link"},
  });
}

}  // namespace
}  // namespace parley::sim
