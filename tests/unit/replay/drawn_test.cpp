// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recordings with drawn faults (frames that are lost, doubled, moved, cut or changed) against a sound peer, beside
// tests/states/replay_drawn.txt: of some all that is told, of the others the numbers and a CRC32c.
#include <gtest/gtest.h>

#include "atomics.hpp"
#include "base/rng.hpp"
#include "medley.hpp"
#include "told_kit.hpp"

namespace parley::replay::test {
namespace {

/// Changes a frame's payload and leaves its checksum wrong, as a recorder's own offload does.
void change_octet(capture::test::Frame& f, Rng& rng) {
  constexpr std::size_t headers = 14 + 20 + 20;
  if (f.octets.size() > headers)
    f.octets[rng.between(headers, f.octets.size() - 1)] ^= static_cast<std::uint8_t>(1U << rng.below(8));
}

Frames drawn_frames(const Frames& whole, Rng& rng) {
  Frames out = whole;
  const std::uint64_t changes = rng.between(1, 4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::size_t at = rng.between(rng.below(4) == 0 ? 0 : 3, out.size() - 1);
    const auto place = out.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng.below(7)) {
      case 0:
      case 1: out.erase(place); break;
      case 2: out.insert(place, out[at]); break;
      case 3: std::swap(out[at].octets, out[rng.below(out.size())].octets); break;
      case 4: {
        auto& f = out[at];
        f.original_length = static_cast<std::uint32_t>(f.octets.size());
        f.octets.resize(std::max<std::size_t>(54, f.octets.size() - rng.below(40)));
        break;
      }
      case 5: change_octet(out[at], rng); break;
      default: out.resize(std::max<std::size_t>(8, at)); break;
    }
  }
  return out;
}

/// What is told of both sides of the recording, each against the other side of the whole one.
std::string told_of(const Frames& frames, const Recording& full, const PlayOptions& options) {
  const auto r = read_recording(file_of(frames), 0);
  if (!r) return "  " + r.error() + "\n";
  std::string out;
  for (const std::string& what : r->lacks) out += fmt::format("  lacks {}\n", what);
  for (const Side side : {Side::initiator, Side::responder}) {
    out += fmt::format(" {}\n", capture::to_string(side));
    if (const std::string why = why_not_playable(*r, side); !why.empty()) {
      out += "  " + why + "\n";
      continue;
    }
    const bool first = side == Side::initiator;
    Player a(first ? *r : full, Side::initiator, options), b(first ? full : *r, Side::responder, options);
    Duel duel(a, b);
    if (!duel.run()) out += "  it never ended\n";
    for (const Player* p : {&a, &b}) {
      out += told(p->result()) + lines_of(p->result());
      out += fmt::format("  ignored {}: {}\n", p->result().ignored, fmt::join(p->result().ignored_words, "; "));
    }
    out += fmt::format("  said {} and {} octets, CRC32c {:08x} {:08x}, until {} us\n", duel.said[0].size(),
                       duel.said[1].size(), mpa::crc32c(duel.said[0]), mpa::crc32c(duel.said[1]),
                       duel.now().time_since_epoch() / 1us);
  }
  return out;
}

PlayOptions drawn_options(Rng& rng) {
  PlayOptions o;
  o.keep_going = rng.below(4) != 0;
  o.says_recorded_only = rng.below(3) == 0;
  o.speed_of = static_cast<std::uint32_t>(rng.below(3));
  o.speed_in = static_cast<std::uint32_t>(rng.between(1, 2));
  o.patience = Duration(static_cast<std::int64_t>(rng.between(1'000'000, 5'000'000'000)));
  o.linger = Duration(static_cast<std::int64_t>(rng.below(200'000'000)));
  if (rng.below(3) == 0) o.ignored = Ignored(rng.next());
  return o;
}

std::uint32_t crc_of(const std::string& text) {
  return mpa::crc32c(ConstBytes(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

TEST(ReplayDrawn, FaultyRecordingsArePlayedAsReviewed) {
  std::string out = "# Drawn faults of recordings. The first of each kind in full.\n";
  for (const auto& [name, x] :
       {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
        std::pair("cut by TCP", cut_by_tcp()), std::pair("Atomics", atomics(0x1111, 0x10000, 1, 100)),
        std::pair("a conversation", capture::test::conversation())}) {
    const Recording full = record(x);
    std::string all;
    for (std::uint64_t seed = 1; seed <= 120; ++seed) {
      Rng rng(seed);
      const Frames frames = drawn_frames(x.frames, rng);
      const std::string text = told_of(frames, full, drawn_options(rng));
      if (seed <= 4) out += fmt::format("\n{}, seed {}\n{}", name, seed, text);
      all += text;
      if (seed % 20 != 0) continue;
      out += fmt::format("{}, seeds to {}: {} lines, CRC32c {:08x}\n", name, seed,
                         std::count(all.begin(), all.end(), '\n'), crc_of(all));
      all.clear();
    }
  }
  expect_as_reviewed("replay_drawn.txt", out);
}

}  // namespace
}  // namespace parley::replay::test
