// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The two judges of a RoCEv2 peer side by side: the cases, and the check of a capture of the same packets.
#include <algorithm>

#include "ibcm_mangle.hpp"
#include "ibcm_watch.hpp"

namespace parley::conform::ibcm {
namespace {

using namespace kit;
using wire::ib::CmDrep;

/// The errors of the peer under test, as lines.
std::string errors_of_peer(const capture::FileReport& report) {
  std::string out;
  for (const capture::Finding& f : findings_of_peer(report))
    if (f.severity == capture::Severity::error) out += f.line() + "\n";
  return out;
}

// The stimuli break rules, and sound answers to them must not: a DREP, for example, repeats the communication IDs of a DREQ
// that belongs to no connection.
TEST(ConformIbcmCheck, ASoundPeerIsNotAccusedOfItsAnswersToTheCases) {
  for (const unsigned connects : {0U, 2U}) {
    Stage stage({.receives = 4, .receive_size = 4096, .rping = connects == 0, .connects = connects});
    Watcher watcher(stage);
    const auto results = stage.run();
    EXPECT_TRUE(std::none_of(results.begin(), results.end(), [](const Result& r) {
      return r.finding.verdict == Verdict::fail;
    })) << words(results);
    const capture::FileReport report = watcher.finish();
    EXPECT_GT(report.connections.size(), 10U);
    EXPECT_EQ(errors_of_peer(report), "") << (connects == 0 ? "responder" : "initiator");
  }
}

// The answer to a DREQ of the connection repeats nothing that is wrong.
TEST(ConformIbcmCheck, AWrongIdInTheAnswerToASoundDreqIsReported) {
  Stage stage;
  stage.settings.connect = stage.settings.reply = 1s;
  stage.out = changes<CmDrep>([](CmDrep& m, CmMessage&) { m.local_comm_id ^= 1; });
  Watcher watcher(stage);
  (void)stage.run([](const Case& c) { return c.what.name == "disconnect"; });
  const std::string errors = errors_of_peer(watcher.finish());
  EXPECT_NE(errors.find("cm.comm-id"), std::string::npos) << errors;
}

}  // namespace
}  // namespace parley::conform::ibcm
