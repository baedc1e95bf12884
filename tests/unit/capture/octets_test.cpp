// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every octet of a startup frame and of an FPDU altered, every place of a stream lost, every packet cut at every length:
// what is found then, by ids (tests/states/capture_octets_*.txt).
#include <gtest/gtest.h>

#include "tests/unit/capture/runs.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

using test::brief;
using test::Exchange;
using test::expect_ids_as_reviewed;
using test::fpdu;
using test::Frames;
using test::Message;
using test::messages;
using test::Runs;
using test::Said;
using test::set_ups;
using test::Story;
using test::told;

/// The first bit of an octet of a startup frame that is worth a look: all flags and those of the depths.
unsigned turned_from(std::size_t at, bool depths) {
  if (at == PARLEY_MPA_FLAGS_OFF || (depths && at >= PARLEY_MPA_HEADER_LEN)) return 0;
  return at < PARLEY_MPA_FLAGS_OFF || at >= PARLEY_MPA_HEADER_LEN ? 7 : 5;
}

TEST(CaptureOctets, OfStartupFramesEachBitTurned) {
  std::string out;
  for (const Story& s : set_ups()) {
    const std::string usual = brief(told(s).frames);
    out += "== " + s.name + " ==\n" + usual + "\n";
    for (std::size_t i = 0; i < s.said.size() && s.said[i].octets[0] == 'M'; ++i) {
      Runs runs(usual);
      const std::size_t end =
          std::min<std::size_t>(s.said[i].octets.size(), PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN);
      for (std::size_t at = 0; at < end; ++at)
        for (unsigned bit = turned_from(at, s.name == "RTR by RDMA Read"); bit < 8; ++bit) {
          Story turned = s;
          turned.said[i].octets[at] ^= static_cast<std::uint8_t>(0x80 >> bit);
          runs.add(fmt::format("{} octet {} bit {}",
                               i == 0   ? "Request"
                               : i == 1 ? "Reply"
                                        : "Rtr frame",
                               at, bit),
                   brief(told(turned).frames));
        }
      out += runs.text();
    }
  }
  expect_ids_as_reviewed("capture_octets_startup.txt", out);
}

/// The octets from `at` on are in a packet of their own, which the capture lacks.
Frames without(const Story& s, std::size_t i, std::size_t at, std::size_t n) {
  Exchange x;
  x.open();
  std::size_t gone = 0;
  for (std::size_t k = 0; k < s.said.size(); ++k) {
    const ConstBytes all = s.said[k].octets;
    if (k != i) {
      x.send(s.said[k].from, all);
      continue;
    }
    x.send(s.said[k].from, all.first(at));
    gone = x.frames.size();
    x.send(s.said[k].from, all.subspan(at, n)).send(s.said[k].from, all.subspan(at + n));
  }
  x.close();
  x.frames.erase(x.frames.begin() + static_cast<std::ptrdiff_t>(gone));
  return x.frames;
}

std::size_t octets_of(const Story& s, unsigned from) {
  std::size_t n = 0;
  for (const Said& one : s.said) n += one.from == from ? one.octets.size() : 0;
  return n;
}

// N of so many octets are lost; L are left of the item from there on, A of all that the side sent.
TEST(CaptureOctets, EachPlaceOfAStreamLost) {
  std::string out;
  for (const Story& s : set_ups()) {
    Runs runs(brief(told(s).frames));
    for (std::size_t i = 0; i < s.said.size(); ++i)
      for (const std::size_t n : {1u, 12u, 30u})
        for (std::size_t at = 0, size = s.said[i].octets.size(); at + n <= size; ++at)
          runs.add(fmt::format("{} of item {} from {}", n, i + 1, at),
                   test::by_letters(brief(without(s, i, at, n)),
                                    {{'A', octets_of(s, s.said[i].from) - n}, {'N', n}, {'L', size - at}}));
    out += "== " + s.name + " ==\n" + runs.text();
  }
  expect_ids_as_reviewed("capture_octets_lost.txt", out);
}

// N octets of payload are cut off, S are left of it, A of all that the side sent.
TEST(CaptureOctets, EachPacketCutAtEachLength) {
  std::string out;
  for (const Story& s : set_ups()) {
    const Frames whole = told(s).frames;
    const std::string usual = brief(whole);
    Runs runs(usual);
    for (std::size_t i = 3; i < 3 + s.said.size(); ++i) {
      const Said& said = s.said[i - 3];
      for (std::size_t n = 0; n < whole[i].octets.size(); ++n) {
        Frames cut = whole;
        cut[i].original_length = static_cast<std::uint32_t>(whole[i].octets.size());
        cut[i].octets.resize(n);
        const std::size_t lost = std::min(whole[i].octets.size() - n, said.octets.size());
        runs.add(
            fmt::format("packet {} cut at {}", i + 1, n),
            test::by_letters(brief(cut),
                             {{'A', octets_of(s, said.from) - lost}, {'N', lost}, {'S', said.octets.size() - lost}}));
      }
    }
    out += "== " + s.name + " ==\n" + runs.text();
  }
  expect_ids_as_reviewed("capture_octets_cut.txt", out);
}

std::string found_with(const Message& m) {
  Exchange x;
  x.set_up();
  for (const auto& [from, ulpdu] : m.ulpdus) x.send(from, fpdu(ulpdu));
  return brief(x.close().frames);
}

/// The bits of an octet of a message that are worth a look: control bits, all of one message, and the lowest of a number.
std::vector<unsigned> turned_in(std::size_t at, const Message& m) {
  const std::vector<unsigned> every{0, 1, 2, 3, 4, 5, 6, 7};
  const Bytes& looked_at = m.ulpdus[m.looked_at].second;
  if (m.name == "Send") return at < 2 ? every : std::vector<unsigned>{7};
  if (at == 0) return {0, 1, 7};
  if (at == 1) return {4, 5, 6, 7};
  const bool terminate = looked_at[1] % 16 == 7;
  if (terminate && at >= 18 && at < 21) return every;
  return at % 4 == 1 || at + 1 == looked_at.size() ? std::vector<unsigned>{7} : std::vector<unsigned>{};
}

// With a CRC that fits, so that RDMAP and DDP are looked at.
TEST(CaptureOctets, OfMessagesEachBitTurned) {
  std::string out;
  for (const Message& m : messages()) {
    const std::string usual = found_with(m);
    out += "== " + m.name + " ==\n" + usual + "\n";
    Runs runs(usual);
    for (std::size_t at = 0; at < m.ulpdus[m.looked_at].second.size(); ++at)
      for (const unsigned bit : turned_in(at, m)) {
        Message turned = m;
        turned.ulpdus[m.looked_at].second[at] ^= static_cast<std::uint8_t>(0x80 >> bit);
        runs.add(fmt::format("octet {} bit {}", at, bit), found_with(turned));
      }
    out += runs.text();
  }
  expect_ids_as_reviewed("capture_octets_messages.txt", out);
}

// N octets of ULPDU; A in all from its side.
TEST(CaptureOctets, OfMessagesEachLength) {
  std::string out;
  for (const Message& m : messages()) {
    if (m.name.find("first segment") != std::string::npos) continue;
    const std::string usual = found_with(m);
    out += "== " + m.name + " ==\n";
    Runs runs(usual);
    for (std::size_t n = 1; n < m.ulpdus[m.looked_at].second.size() + 6; ++n) {
      if (n > 1 && n < 17 && n != 13 && n != 14) continue;
      Message other = m;
      other.ulpdus[m.looked_at].second.resize(n);
      std::size_t all = PARLEY_MPA_HEADER_LEN;
      for (const auto& [from, ulpdu] : other.ulpdus)
        all += from == m.ulpdus[m.looked_at].first ? fpdu(ulpdu).size() : 0;
      runs.add(fmt::format("{} octets", n), test::by_letters(found_with(other), {{'A', all}, {'N', n}}));
    }
    out += runs.text();
  }
  expect_ids_as_reviewed("capture_octets_lengths.txt", out);
}

}  // namespace
}  // namespace parley::capture
