// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One sentence of each form of a finding, under the id of its rule (tests/states/capture_sentences.txt): all
// other tables and goldens compare ids.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/capture/drawn.hpp"
#include "tests/unit/capture/ids.hpp"

namespace parley::capture::sentences_test {
namespace {

void meet(const FileReport& r) {
  for (const ConnectionReport& c : r.connections)
    for (const Finding& f : c.findings) test::Sentences::met().add(f);
  for (const NegotiationReport& n : r.negotiations)
    for (const Finding& f : n.findings) test::Sentences::met().add(f);
}

void meet_captures() {
  std::vector<std::filesystem::path> paths;
  for (const char* const folder : {"iwarp", "roce", "neg", "adversarial", "verdicts"})
    for (const auto& entry :
         std::filesystem::directory_iterator(PARLEY_SOURCE_DIR "/tests/captures/" + std::string(folder)))
      if (entry.path().extension().string().starts_with(".pcap")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) meet(test::analyse_file(test::read_file(path.string())));
}

test::Exchange said(const test::Message& m) {
  test::Exchange x;
  x.set_up();
  for (const auto& [from, ulpdu] : m.ulpdus) x.send(from, test::fpdu(ulpdu));
  return x.close();
}

void meet_altered() {
  for (const test::Story& s : test::set_ups())
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t at = 0; at < std::min<std::size_t>(s.said[i].octets.size(), 24); ++at)
        for (unsigned bit = 0; bit < 8; ++bit) {
          test::Story turned = s;
          turned.said[i].octets[at] ^= static_cast<std::uint8_t>(1u << bit);
          meet(test::analyse(test::told(turned).frames));
        }
  for (const test::Message& m : test::messages())
    for (std::size_t at = 0; at < m.ulpdus[m.looked_at].second.size(); ++at)
      for (unsigned bit = 0; bit < 8; ++bit) {
        test::Message turned = m;
        turned.ulpdus[m.looked_at].second[at] ^= static_cast<std::uint8_t>(1u << bit);
        meet(test::analyse(said(turned).frames));
      }
}

TEST(CaptureSentences, AreTheReviewedOnes) {
  meet_captures();
  meet_altered();
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) meet(test::analyse(test::DrawnConnection(seed).draw()));
  expect_as_reviewed("capture_sentences.txt", test::Sentences::met().text());
}

}  // namespace
}  // namespace parley::capture::sentences_test
