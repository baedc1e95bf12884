// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A peer that asks the tester for time by an MRA has it, and then gets the same message again: IBA §12.6.6, §12.9.
#include <map>
#include <set>

#include "ibcm_mangle.hpp"

namespace parley::conform::ibcm::mra_test {
namespace {

using namespace kit;

constexpr std::uint8_t half_a_second = 17;
const Duration told = wire::ib::timeout_of(half_a_second), way = wire::ib::timeout_of(14);

CmBody mra_of(std::uint32_t tester, std::uint8_t timeout) {
  return wire::ib::CmMra{.remote_comm_id = tester, .about = CmAbout::req, .service_timeout = timeout};
}

/// Without room for the first REQ of each connection, as `parley listen --roce` answers then: it knows nothing of it afterwards.
struct Full {
  std::uint8_t timeout = half_a_second;
  unsigned refusals = 1;
  std::map<std::uint32_t, std::vector<Instant>> came;

  Stage::Mangle in() {
    return [this](Stage& stage, const PacketPath&, Bytes& octets) {
      if (!carries<wire::ib::CmReq>(octets)) return true;
      const Seen seen = look(octets);
      std::vector<Instant>& times = came[seen.id];
      times.push_back(stage.now);
      if (times.size() > refusals) return true;
      stage.say(mra_of(seen.id, timeout), seen.transaction_id);
      return false;
    };
  }
};

bool is_plain(const Case& c) { return c.what.name == "plain-set-up"; }

TEST(ConformIbcmMra, APeerWithoutRoomForTheFirstReqPassesEachCase) {
  Full full;
  Stage stage;
  stage.in = full.in();
  // But those that are about the form of a packet, of which this peer knows nothing, and Parley's own back-off (docs/roce.md).
  const auto wanted = [](const Case& c) {
    const std::string_view name = c.what.name;
    return name != "rep-retries-are-counted" && name != "reserved-bits-ignored" && !name.starts_with("gsi-") &&
           !name.starts_with("q-key-");
  };
  for (const Result& r : stage.run(wanted)) {
    EXPECT_NE(r.finding.verdict, Verdict::fail) << r.what->name << ": " << r.finding.observed;
    EXPECT_NE(r.finding.verdict, Verdict::not_run) << r.what->name << ": " << r.finding.observed;
  }
  EXPECT_GT(full.came.size(), 60U);
}

TEST(ConformIbcmMra, TheReqGoesAgainAfterTheTimeThatWasToldAndThatOfTheWay) {
  Full full{.refusals = 3};
  Stage stage;
  stage.in = full.in();
  const auto results = stage.run(is_plain);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass) << results[0].finding.observed;
  ASSERT_EQ(full.came.size(), 2U) << "the probe, and the case";
  for (const auto& [id, times] : full.came) {
    ASSERT_EQ(times.size(), 4U);
    for (std::size_t i = 1; i < times.size(); ++i) {
      EXPECT_GE(times[i] - times[i - 1], told + way);
      EXPECT_LT(times[i] - times[i - 1], told + way + 1ms);
    }
  }
}

/// Linux, whose program is slow: the REQ is kept, and the REP comes by itself.
TEST(ConformIbcmMra, NoReqGoesWhileThePeerHasTime) {
  Stage stage;
  unsigned reqs = 0;
  stage.in = [&reqs](Stage& to, const PacketPath&, Bytes& octets) {
    if (!carries<wire::ib::CmReq>(octets)) return true;
    ++reqs;
    const Seen seen = look(octets);
    to.say(mra_of(seen.id, 20), seen.transaction_id);
    return true;
  };
  std::set<std::uint32_t> answered;
  stage.out = [&answered](Stage&, const PacketPath&, Bytes& octets) {
    // The first of each connection is lost: what Parley sends again 50 ms later comes in time.
    return !carries<wire::ib::CmRep>(octets) || !answered.insert(look(octets).id).second;
  };
  const auto results = stage.run(is_plain);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass) << results[0].finding.observed;
  EXPECT_EQ(reqs, 2U) << "that of the probe, and of the case";
}

TEST(ConformIbcmMra, AReqIsRefusedBehindAnMraAsWell) {
  Full full;
  Stage stage;
  stage.in = full.in();
  const auto results = stage.run([](const Case& c) { return c.what.name == "unknown-service"; });
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass) << results[0].finding.observed;
}

TEST(ConformIbcmMra, APeerThatAsksForMoreTimeThanThereIsIsNotJudged) {
  for (const Full& asks : {Full{.timeout = 24}, Full{.refusals = 1000}}) {
    Full full = asks;
    Stage stage;
    stage.in = full.in();
    const Instant begin = stage.now;
    const auto results = stage.run(is_plain);
    ASSERT_EQ(results.size(), 1U);
    EXPECT_EQ(results[0].finding.verdict, Verdict::not_run);
    EXPECT_EQ(stage.runner->why(), "the peer accepts no connection: MRA, which asks for more time than there is");
    EXPECT_LT(stage.now - begin, stage.settings.connect + 2s);
    ASSERT_EQ(full.came.size(), 1U);
    EXPECT_EQ(full.came.begin()->second.size(), full.timeout == 24 ? 1U : 9U);
  }
}

/// The program that connects takes its time for the RTU, and the REP was not kept.
TEST(ConformIbcmMra, TheRepGoesAgainAfterTheTimeThatWasTold) {
  Stage stage({.connects = 1});
  stage.settings.reply = 2s;
  std::map<std::uint32_t, std::vector<Instant>> came;
  stage.in = [&came](Stage& to, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    const auto* rep = seen.message ? std::get_if<wire::ib::CmRep>(&seen.message->body) : nullptr;
    if (rep == nullptr) return true;
    came[seen.id].push_back(to.now);
    if (came[seen.id].size() > 1) return true;
    to.say(wire::ib::CmMra{.local_comm_id = rep->remote_comm_id,
                           .remote_comm_id = seen.id,
                           .about = CmAbout::rep,
                           .service_timeout = half_a_second},
           seen.transaction_id);
    return false;
  };
  const auto results =
      stage.run([](const Case& c) { return c.what.name == "rtu-twice" || c.what.name == "disconnect"; });
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass) << results[0].finding.observed;
  ASSERT_EQ(came.size(), 2U);
  for (const auto& [id, times] : came) {
    ASSERT_EQ(times.size(), 2U);
    EXPECT_GE(times[1] - times[0], told);
    EXPECT_LT(times[1] - times[0], told + 1s);
  }
}

}  // namespace
}  // namespace parley::conform::ibcm::mra_test
