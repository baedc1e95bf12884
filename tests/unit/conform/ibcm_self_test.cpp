// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley's own passive side over RoCEv2 passes all of its own cases of InfiniBand's CM and transport.
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "ibcm_mangle.hpp"

namespace parley::conform::ibcm {
namespace {

using namespace kit;

TEST(ConformIbcmSelf, ParleyAsResponderPassesEachCase) {
  std::set<std::string_view> passed;
  for (const Under& under : {Under{}, Under{.receives = 1, .receive_size = 16, .rping = true}, Under{.receives = 0}}) {
    Stage stage(under);
    for (const Result& r : stage.run()) {
      // It asks again by its own back-off, for as long as its user waits (docs/roce.md).
      if (r.what->name == "rep-retries-are-counted") continue;
      EXPECT_NE(r.finding.verdict, Verdict::fail)
          << r.what->name << ": " << r.finding.observed << " (" << under.receives << " receives)";
      EXPECT_NE(r.finding.verdict, Verdict::not_run) << r.what->name << ": " << r.finding.observed;
      if (r.finding.verdict == Verdict::pass) passed.insert(r.what->name);
    }
  }
  for (const Case* c : cases()) {
    const bool own_timers = c->what.name == "rep-retries-are-counted";
    EXPECT_TRUE(own_timers || passed.count(c->what.name) > 0) << c->what.name << " was never passed";
  }
}

TEST(ConformIbcmSelf, ParleyAsInitiatorPassesEachCase) {
  std::set<std::string_view> passed;
  Stage stage({.connects = 2});
  for (const Result& r : stage.run()) {
    EXPECT_NE(r.finding.verdict, Verdict::fail) << r.what->name << ": " << r.finding.observed;
    if (r.finding.verdict == Verdict::pass) passed.insert(r.what->name);
  }
  for (const Case* c : ibcm::cases(Iut::initiator))
    EXPECT_TRUE(passed.count(c->what.name) > 0) << c->what.name << " was never passed";
}

void expect_all_passed(const std::vector<Result>& results) {
  for (const Result& r : results)
    EXPECT_EQ(r.finding.verdict, Verdict::pass) << r.what->name << ": " << r.finding.observed;
}

/// What Linux does where a REP comes again before its program has sent the RTU: IBA §12.6.6 allows it for any REP.
TEST(ConformIbcmSelf, AnInitiatorMayAskForTimeAtEachRep) {
  Stage stage({.connects = 2});
  std::map<std::uint32_t, std::uint32_t> ids;  // of the peer's, by the tester's
  const auto mra = [&ids](std::uint32_t tester) {
    return wire::ib::CmMra{.local_comm_id = ids[tester], .remote_comm_id = tester, .about = CmSubject::rep};
  };
  stage.in = [&](Stage& to, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    const auto* rep = seen.message ? std::get_if<wire::ib::CmRep>(&seen.message->body) : nullptr;
    if (rep == nullptr) return true;
    ids[seen.id] = rep->remote_comm_id;
    to.say(mra(seen.id), seen.transaction_id);
    to.say(mra(seen.id), seen.transaction_id);
    return true;
  };
  stage.out = [&](Stage& to, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    const auto* rtu = seen.message ? std::get_if<wire::ib::CmRtu>(&seen.message->body) : nullptr;
    if (rtu != nullptr) to.say(mra(rtu->remote_comm_id), seen.transaction_id);  // one that the RTU overtook
    return true;
  };
  expect_all_passed(stage.run());
  EXPECT_FALSE(ids.empty());
}

/// Stock rping hangs if its connection ends before it has seen it begin.
TEST(ConformIbcmSelf, AnInitiatorMayNeedToBeginBeforeItEnds) {
  Stage stage({.connects = 2});
  stage.settings.ulp = Ulp::rping;
  std::set<std::uint32_t> spoke;               // queue pairs of the tester's
  std::map<std::uint32_t, std::uint32_t> qpn;  // by its ID
  unsigned too_early = 0;
  stage.in = [&](Stage&, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    if (!seen.message) return true;
    if (const auto* rep = std::get_if<wire::ib::CmRep>(&seen.message->body)) qpn[rep->local_comm_id] = rep->local_qpn;
    if (std::get_if<wire::ib::CmDreq>(&seen.message->body) == nullptr || spoke.contains(qpn[seen.id])) return true;
    ++too_early;
    return false;
  };
  std::set<std::uint32_t> tried;
  stage.out = [&](Stage&, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    if (seen.cm() || wire::ib::rule_of(seen.packet.bth.opcode).response) return true;
    if (tried.insert(seen.packet.bth.dest_qpn).second) return false;  // it speaks a while after its RTU
    spoke.insert(seen.packet.bth.dest_qpn);
    return true;
  };
  expect_all_passed(stage.run());
  EXPECT_GT(too_early, 0U) << "dreq-with-the-rep asks at once";
}

/// Each case finds a request that came long before it, and hears nothing more.
TEST(ConformIbcmSelf, AnInitiatorWhoseRequestsWaitIsThere) {
  Stage stage({.connects = 2});
  unsigned asked = 0;
  stage.in = [&asked](Stage& to, const PacketPath&, Bytes& octets) {
    for (; asked < 5 && carries<wire::ib::CmRep>(octets); ++asked) {
      wire::ib::CmSidrReq req{.request_id = asked + 1,
                              .p_key = 0xFFFF,
                              .service_id = wire::ib::service_id_of(wire::ib::PortSpace::udp, port)};
      const wire::ib::CmaHeader header{.source = Address::v4(192, 0, 2, 2, port),
                                       .destination = Address::v4(192, 0, 2, 1, 0)};
      header.emit(req.private_data);
      to.say(req, asked + 1);
    }
    return true;
  };
  // No other than those, and nobody who waits for its REP asks again.
  std::set<std::uint32_t> heard;
  stage.out = [&heard](Stage&, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    if (carries<wire::ib::CmSidrReq>(octets)) return seen.transaction_id <= 5;
    return !carries<wire::ib::CmReq>(octets) || heard.insert(seen.id).second;
  };
  const auto results = stage.run([](const Case& c) {
    return c.what.name == "plain-set-up" || c.what.clause == "IBA §12.11.2" || c.what.name == "sidr-request" ||
           c.what.name == "sidr-rep-twice";
  });
  EXPECT_EQ(results.size(), 6U);
  expect_all_passed(results);
}

TEST(ConformIbcmSelf, NamesAreUniqueAndRowsAreInOrder) {
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    std::set<std::string_view> names;
    int last = 0;
    for (const Case* c : ibcm::cases(iut)) {
      EXPECT_TRUE(names.insert(c->what.name).second) << c->what.name;
      EXPECT_EQ(c->what.iut, iut) << c->what.name;
      EXPECT_FALSE(c->what.clause.empty() || c->what.stimulus.empty() || c->what.expected.empty()) << c->what.name;
      const int row = std::stoi(std::string(c->what.row));
      EXPECT_EQ(row, last + 1) << c->what.name;
      last = row;
    }
    EXPECT_GE(names.size(), 55U);
  }
}

TEST(ConformIbcmSelf, TheTableOfCasesIsInTheDocumentation) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/conform.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    std::vector<const conform::Case*> list;
    for (const Case* c : ibcm::cases(iut)) list.push_back(&c->what);
    const std::string table =
        case_table(iut == Iut::responder ? "RoCEv2 listener under test" : "RoCEv2 initiator under test", list);
    EXPECT_NE(text.str().find(table), std::string::npos) << "docs/conform.md should have:\n" << table;
  }
}

/// The verdicts of a report in docs/interop.
std::map<std::string, std::string> verdicts_on(std::istream& page) {
  std::map<std::string, std::string> out;
  for (std::string line; std::getline(page, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell.size() > 2 ? cell.substr(1, cell.size() - 2) : cell);
    if (cells.size() > 6 && cells[1].find_first_not_of("0123456789") == std::string::npos) out[cells[2]] = cells[5];
  }
  return out;
}

// What "rxe" plays (wire/ib/quirks.cpp) fails the cases that the kernel fails, and no others.
TEST(ConformIbcmSelf, ParleyPlayingLinuxFailsTheCasesThatLinuxFails) {
  for (const Iut iut : {Iut::responder, Iut::initiator}) {
    const bool active = iut == Iut::initiator;
    std::ifstream page(std::string(PARLEY_SOURCE_DIR) + "/docs/interop/linux-6.1-rxe" +
                       (active ? "-initiator.md" : ".md"));
    const auto wanted = verdicts_on(page);
    ASSERT_GE(wanted.size(), 55U);
    std::map<std::string, std::string> found;
    Stage stage({.receives = 1, .receive_size = 16, .rping = !active, .connects = active ? 2U : 0, .quirk = "rxe"});
    for (const Result& r : stage.run())
      found[std::string(r.what->name)] = r.finding.verdict == Verdict::fail ? "FAIL: " + r.finding.observed : "pass";
    for (const auto& [name, verdict] : wanted) {
      if (name == "dreq-comes-again") continue;  // is of rping, which destroys its ID behind the first DREQ
      const std::string& ours = found[name];
      EXPECT_EQ(ours.starts_with("FAIL"), verdict == "FAIL") << name << ": " << ours << ", Linux: " << verdict;
    }
  }
}

}  // namespace
}  // namespace parley::conform::ibcm
