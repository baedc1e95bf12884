// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The judge of multicast groups over made-up histories: what it accuses, and what it excuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parley/wire/ib.h"
#include "sim/check/groups.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::sim::check_groups_test {
namespace {
using namespace check;

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Instant noon{Duration(1h)};
const Address group = Address::v4(239, 1, 2, 3, 0), address_a = Address::v4(10, 0, 0, 1, 0);

/// A sends three datagrams to the group at noon; b is a member since long before.
struct History {
  History() {
    history.add_host(gid_of(address_a), "a");
    history.sources.push_back(
        {.host = "a", .group = group, .posted = {noon, noon, noon}, .left = {never, never, never}});
    history.name_source("a", 18, 0);
    history.receivers.push_back({.label = "b", .host = "b", .group = group, .stays = {{.from = Instant{}}}});
  }
  /// Datagram `psn` at an end of a link: of a, of the switch towards b, or of b.
  void frame(std::uint32_t psn, const std::string* here, const std::string* there, bool outbound, Instant at,
             std::string_view note = {}, bool forged = false) {
    wire::ib::Packet packet;
    packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
    packet.bth.dest_qpn = PARLEY_IB_QPN_MULTICAST;
    packet.bth.psn = psn;
    packet.deth.source_qpn = 18;
    wire::ib::RoceHeader header{.source = gid_of(address_a), .destination = gid_of(group)};
    Bytes octets(14 + header.size() + packet.size());
    octets[0] = 1;
    octets[12] = 8;
    packet.emit(MutBytes(octets).subspan(14 + header.size()));
    header.emit(MutBytes(octets).subspan(14), packet.size());
    history.frame({.at = at,
                   .outbound = outbound,
                   .octets = octets,
                   .drop = note.empty() || !outbound ? DropReason::none : DropReason::rule,
                   .changes_stream = forged,
                   .note = note},
                  here, there);
  }
  void leaves(std::uint32_t psn, std::string_view note = {}) { frame(psn, &a, nullptr, true, noon, note); }
  void comes(std::uint32_t psn, Instant at = noon + 2us) { frame(psn, &b, nullptr, false, at); }
  void heard(std::uint32_t psn, std::uint32_t times = 1) { history.receivers[0].heard[{0, psn}] = times; }
  void whole(std::uint32_t psn) { leaves(psn), comes(psn), heard(psn); }
  std::vector<std::string> said() {
    Judge judge;
    history.judge(noon + 1s, judge);
    std::vector<std::string> out;
    for (const Violation& violation : judge.list()) out.push_back(violation.text);
    return out;
  }
  GroupHistory history;
  const std::string a = "a", b = "b", c = "c";
};

TEST(GroupCheck, WhatComesAndIsDeliveredIsRight) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.whole(psn);
  EXPECT_THAT(h.said(), IsEmpty());
  EXPECT_EQ(h.history.waits_for(), "");
}

TEST(GroupCheck, WhatIsMissingIsNamedWithItsPlace) {
  History h;
  h.whole(0);
  h.leaves(1);
  EXPECT_EQ(h.history.waits_for(), "b waits for datagram 3 from a to 239.1.2.3 (send 1)");
  h.leaves(2);
  h.comes(2);
  EXPECT_THAT(h.said(),
              ElementsAre("datagram 2 from a to 239.1.2.3 (send 1) did not come to this member's host, and no "
                          "fault has lost it",
                          "datagram 3 from a to 239.1.2.3 (send 1) came to this member's host and was not "
                          "delivered"));
}

TEST(GroupCheck, WhatWasPostedMustLeave) {
  History h;
  h.whole(0);
  h.whole(1);
  EXPECT_THAT(h.said(), ElementsAre("datagram 3 from a to 239.1.2.3 (send 1) was posted and never left"));
  h.history.touch("a", noon + 1us);
  EXPECT_THAT(h.said(), IsEmpty()) << "its host crashed";
}

TEST(GroupCheck, AFaultExcusesItsDatagramBehindItsLinkAlone) {
  History h;
  h.whole(0);
  h.leaves(1);
  h.frame(1, nullptr, &h.c, true, noon + 1us, "dropped");
  h.leaves(2, "dropped");
  EXPECT_THAT(h.said(), ElementsAre(HasSubstr("datagram 2"))) << "it was lost towards c; the third one for all";
  h.frame(1, nullptr, &h.b, true, noon + 1us, "dropped");
  EXPECT_THAT(h.said(), IsEmpty());
}

TEST(GroupCheck, OneThatCameOnceIsDeliveredOnce) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.whole(psn);
  h.heard(1, 2);
  EXPECT_THAT(h.said(), ElementsAre(HasSubstr("datagram 2 from a to 239.1.2.3 (send 1) was delivered 2 times, and came "
                                              "once")));
  h.comes(1);
  EXPECT_THAT(h.said(), IsEmpty()) << "two copies came";
  h.heard(1, 3);
  EXPECT_THAT(h.said(), ElementsAre(HasSubstr("was delivered 3 times, and came 2 times")));
}

TEST(GroupCheck, OnlyStaysCount) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.whole(psn);
  auto& stays = h.history.receivers[0].stays;
  stays = {{.from = noon, .to = noon + 1us}, {.from = noon + 3us}};
  EXPECT_THAT(h.said(), testing::Each(HasSubstr("was delivered, and this was no member when it came")));
  EXPECT_EQ(h.said().size(), 3U);
  h.history.touch("b", noon + 4us);
  EXPECT_THAT(h.said(), IsEmpty()) << "it was paused, and looked at the datagram when it had joined again";
  h.history.receivers[0].touched_at = Instant::min();
  stays = {{.from = Instant{}, .to = noon + 2us}};
  EXPECT_THAT(h.said(), IsEmpty()) << "just then";
  stays.clear();
  h.history.receivers[0].heard.clear();
  EXPECT_THAT(h.said(), IsEmpty());
  EXPECT_EQ(h.history.waits_for(), "");
  h.heard(0);
  EXPECT_THAT(h.said(), ElementsAre(HasSubstr("no member when it came")));
}

TEST(GroupCheck, WhatNoHostOfAMemberWasGivenCannotBeDelivered) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.leaves(psn), h.heard(psn);
  EXPECT_THAT(h.said(), testing::Each(HasSubstr("was delivered, and no host of a member was given it")));
  EXPECT_EQ(h.said().size(), 3U);
}

TEST(GroupCheck, AHostHearsItselfWithoutALink) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.leaves(psn, psn == 1 ? "dropped" : "");
  h.history.receivers[0].host = h.history.receivers[0].label = "a";
  h.heard(0), h.heard(1);
  EXPECT_THAT(h.said(), ElementsAre(HasSubstr("datagram 3 from a to 239.1.2.3 (send 1) came to this member's host")));
}

TEST(GroupCheck, ForgedDatagramsProveNothing) {
  History h;
  h.frame(0, &h.a, nullptr, true, noon, "damaged", true);
  h.leaves(1);
  h.leaves(2);
  h.heard(2, 5);
  EXPECT_THAT(h.said(), IsEmpty());
}

TEST(GroupCheck, WhoLeftIsNotWaitedFor) {
  History h;
  for (std::uint32_t psn : {0, 1, 2}) h.leaves(psn);
  h.history.receivers[0].stays = {{.from = Instant{}, .to = noon + 1us}};
  EXPECT_EQ(h.history.waits_for(), "");
  EXPECT_THAT(h.said(), IsEmpty()) << "it may have been under way";
  h.history.receivers[0].stays = {{.from = Instant{}}};
  h.history.changed();
  EXPECT_THAT(h.history.waits_for(), HasSubstr("b waits for datagram 3"));
}

}  // namespace
}  // namespace parley::sim::check_groups_test
