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
  return wire::ib::CmMra{.remote_comm_id = tester, .about = CmSubject::req, .service_timeout = timeout};
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
    return name != "rep-retries-are-counted" && !name.starts_with("gsi-") && !name.starts_with("q-key-");
  };
  for (const Result& r : stage.run(wanted)) {
    EXPECT_NE(r.finding.verdict, Verdict::fail) << r.what->name << ": " << r.finding.observed;
    EXPECT_NE(r.finding.verdict, Verdict::not_run) << r.what->name << ": " << r.finding.observed;
  }
  EXPECT_GT(full.came.size(), 60U);
}

/// Parley's own listener, whose backlog others have filled whenever the tester asks for a connection, and leave once it was told to
/// wait: what answers is the stack under test, not this file.
struct Backlog {
  std::optional<wire::ib::CmReq> sound;  ///< that of the probe
  std::set<std::uint32_t> asked, held;   ///< the tester's IDs; of REQs, and of MRAs to them
  std::map<std::uint32_t, std::vector<Instant>> came;
  std::string wrong;  ///< with an MRA

  void stand_before(Stage& stage) {
    stage.in = [this](Stage& to, const PacketPath&, Bytes& octets) {
      const Seen seen = look(octets);
      const auto* req = seen.message ? std::get_if<wire::ib::CmReq>(&seen.message->body) : nullptr;
      if (req == nullptr) return true;
      if (!sound) sound = *req;
      came[seen.id].push_back(to.now);
      if (asked.insert(seen.id).second) to.fill(*sound);
      return true;
    };
    stage.out = [this](Stage& from, const PacketPath&, Bytes& octets) {
      const Seen seen = look(octets);
      const auto* mra = seen.message ? std::get_if<wire::ib::CmMra>(&seen.message->body) : nullptr;
      if (mra == nullptr) return true;
      held.insert(mra->remote_comm_id);
      if (mra->about != CmSubject::req || mra->service_timeout != half_a_second) wrong += " " + mra_words(*mra);
      from.make_room();
      return true;
    };
  }
  static std::string mra_words(const wire::ib::CmMra& mra) {
    return fmt::format("{:#x}: {}", mra.remote_comm_id, unsigned{mra.service_timeout});
  }
};

TEST(ConformIbcmMra, ParleysOwnListenerWhoseBacklogIsFullPassesEachCase) {
  Backlog backlog;
  Stage stage({.pending_max = 4});
  backlog.stand_before(stage);
  std::size_t passed = 0;
  for (const Result& r : stage.run()) {
    if (r.what->name == "rep-retries-are-counted") continue;  // its own back-off (docs/roce.md)
    EXPECT_NE(r.finding.verdict, Verdict::fail) << r.what->name << ": " << r.finding.observed;
    EXPECT_NE(r.finding.verdict, Verdict::not_run) << r.what->name << ": " << r.finding.observed;
    passed += r.finding.verdict == Verdict::pass ? 1 : 0;
  }
  EXPECT_GT(passed, 60U);
  EXPECT_GT(backlog.held.size(), 60U) << "so many connections were asked for while the backlog was full";
  EXPECT_EQ(backlog.wrong, "");
}

TEST(ConformIbcmMra, ACaseShowsTheMraOfAFullBacklogAndTheReqBehindIt) {
  Backlog backlog;
  Stage stage({.pending_max = 4});
  backlog.stand_before(stage);
  const auto results = stage.run(is_plain);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::pass) << results[0].finding.observed;
  std::string said;
  for (const Exchange& e : results[0].exchanges) said += (said.empty() ? "" : ", ") + e.words;
  EXPECT_EQ(said, "REQ, MRA, REQ, REP, RTU");
  ASSERT_EQ(backlog.came.size(), 2U) << "the probe, and the case";
  for (const auto& [id, times] : backlog.came) {
    ASSERT_EQ(times.size(), 2U);
    EXPECT_GE(times[1] - times[0], told + way);
    EXPECT_LT(times[1] - times[0], told + way + 1ms);
  }
}

/// Nobody leaves it: there is nothing to judge, and the REQ is not sent without end.
TEST(ConformIbcmMra, ParleysOwnListenerThatStaysFullIsNotJudged) {
  Backlog backlog;
  Stage stage({.pending_max = 4});
  backlog.stand_before(stage);
  stage.out = {};
  const auto results = stage.run(is_plain);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.verdict, Verdict::not_run);
  EXPECT_EQ(stage.runner->why(), "the peer accepts no connection: MRA, which asks for more time than there is");
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
                           .about = CmSubject::rep,
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
