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
