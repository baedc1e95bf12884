// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What cases of InfiniBand's CM and transport send is what their rows say.
#include <algorithm>

#include "ibcm_mangle.hpp"

namespace parley::conform::ibcm::stimuli_test {
namespace {

using namespace kit;

// IBA §9.7.1: PSNs up to 2^23 - 1 behind the expected one are duplicates.
TEST(ConformIbcmStimuli, ThePsnOfHalfARoundIsTheFurthestDuplicate) {
  Stage stage;
  std::vector<std::uint32_t> psns;
  stage.in = [&psns](Stage&, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    if (!seen.cm() && !wire::ib::rule_of(seen.packet.bth.opcode).response) psns.push_back(seen.packet.bth.psn);
    return true;
  };
  const auto results = stage.run([](const Case& c) { return c.what.name == "psn-half-round"; });
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].finding.observed, "taken for a duplicate");
  ASSERT_EQ(psns.size(), 3U) << "a Write, the one behind, and one more";
  EXPECT_EQ(psns[2], (psns[0] + 1) & 0xFFFFFF) << "is the expected one";
  EXPECT_EQ((psns[2] - psns[1]) & 0xFFFFFF, (1U << 23) - 1);
}

// IBA §12.6.8. Octets of a REP: 24 Responder Resources, 25 Initiator Depth, 26 Target ACK Delay and others, 27 RNR Retry
// Count, SRQ and reserved bits, 60 the private data.
TEST(ConformIbcmStimuli, EachRepIsSoundButForWhatItsRowChanges) {
  Stage stage({.connects = 2});
  std::string running;
  std::map<std::string, std::vector<Bytes>> sent;
  stage.hooks.before = [&](const conform::Case& c) { running = c.name; };
  stage.in = [&](Stage&, const PacketPath&, Bytes& octets) {
    if (carries<wire::ib::CmRep>(octets)) {
      const ConstBytes body = ConstBytes(octets).last(PARLEY_IB_MAD_LEN).subspan(PARLEY_IB_MAD_HEADER_LEN);
      sent[running].emplace_back(body.begin(), body.end());
    }
    return true;
  };
  const auto wanted = [](const Case& c) {
    const int row = std::stoi(std::string(c.what.row));
    return row >= 7 && row <= 16;
  };
  for (const Result& r : stage.run(wanted)) EXPECT_EQ(r.finding.verdict, Verdict::pass) << r.what->name;
  const auto spoil = [](Bytes rep, const std::string& name) {
    if (name == "rep-private-data-196") std::fill(rep.begin() + 36, rep.end(), 0xFF);
    if (name == "rep-depths-of-none") rep[24] = rep[25] = 0;
    if (name == "rep-starting-psn-ffffff") std::fill(rep.begin() + 20, rep.begin() + 23, 0xFF);
    if (name == "rep-rnr-retry-count-0") rep[27] = rep[27] & 0x1F;
    if (name == "rep-target-ack-delay-15") rep[26] = static_cast<std::uint8_t>(15 << 3 | (rep[26] & 7));
    if (name == "rep-reserved-bits-ignored") rep[27] = rep[27] | 0x0F;
    return rep;
  };
  ASSERT_FALSE(sent["plain-set-up"].empty());
  for (const auto& [name, reps] : sent) {
    const std::ptrdiff_t copies = name == "rep-three-times" ? 3 : name == "rep-again" ? 2 : 1;
    EXPECT_EQ(std::count(reps.begin(), reps.end(), reps[0]), copies) << name;
    // IDs, queue pair and PSN are drawn for each connection.
    Bytes sound = sent["plain-set-up"][0];
    std::copy_n(reps[0].begin(), name == "rep-starting-psn-ffffff" ? 20 : 24, sound.begin());
    EXPECT_EQ(reps[0], spoil(sound, name)) << name;
  }
  EXPECT_EQ(sent.size(), 10U);
}

// IBA §12.6.7.2.
TEST(ConformIbcmStimuli, EachRejHasTheReasonOfItsRow) {
  Stage stage({.connects = 2});
  std::string_view running;
  std::map<std::string, std::string> told;
  stage.hooks.before = [&](const conform::Case& c) { running = c.name; };
  stage.in = [&](Stage&, const PacketPath&, Bytes& octets) {
    const Seen seen = look(octets);
    const auto* rej = seen.message ? std::get_if<wire::ib::CmRej>(&seen.message->body) : nullptr;
    if (rej == nullptr) return true;
    const auto ones = std::count(rej->private_data.begin(), rej->private_data.end(), 0xFF);
    told.try_emplace(std::string(running), fmt::format("{}, {} octets, {:02x} {}", static_cast<unsigned>(rej->reason),
                                                       rej->info_length, rej->info[0], ones));
    return true;
  };
  const auto wanted = [](const Case& c) {
    const int row = std::stoi(std::string(c.what.row));
    return row >= 18 && row <= 29;
  };
  for (const Result& r : stage.run(wanted)) EXPECT_EQ(r.finding.verdict, Verdict::pass) << r.what->name;
  const std::map<std::string, std::string> due{{"rej-consumer", "28, 0 octets, 00 0"},
                                               {"rej-invalid-service-id", "8, 0 octets, 00 0"},
                                               {"rej-no-resources", "3, 0 octets, 00 0"},
                                               {"rej-stale", "10, 0 octets, 00 0"},
                                               {"rej-primary-gid", "12, 16 octets, 00 0"},
                                               {"rej-path-mtu", "26, 1 octets, 50 0"},
                                               {"rej-redirection", "24, 72 octets, 00 0"},
                                               {"rej-class-version", "31, 1 octets, 01 0"},
                                               {"rej-unassigned-reason", "4660, 0 octets, 00 0"},
                                               {"rej-info-length-127", "28, 127 octets, 00 0"},
                                               {"rej-private-data-148", "28, 0 octets, 00 148"},
                                               {"rej-twice", "28, 0 octets, 00 0"}};
  EXPECT_EQ(told, due);
}

}  // namespace
}  // namespace parley::conform::ibcm::stimuli_test
