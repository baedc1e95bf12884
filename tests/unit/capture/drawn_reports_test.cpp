// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What else is told of connections that a seed draws, beside the findings: the line of the CSV, the ladder with its
// fields, what a StreamTap hears (tests/states/capture_drawn_*.txt); and what must not matter.
#include <gtest/gtest.h>

#include <map>

#include "base/bytes_io.hpp"
#include "capture/report/csv.hpp"
#include "tests/unit/capture/drawn.hpp"
#include "tests/unit/capture/runs.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

TEST(CaptureDrawnReports, LinesOfTheCsv) {
  std::string out = csv_header();
  for (std::uint64_t seed = 4001; seed <= 4040; ++seed)
    out += to_csv(std::to_string(seed), test::analyse(test::DrawnConnection(seed).draw()));
  expect_as_reviewed("capture_drawn_csv.txt", out);
}

/// An event by its values; the words of each kind are in capture_report_ladders.txt.
std::string event_line(const LadderEvent& e) {
  constexpr std::string_view kinds[] = {"tcp", "startup", "fpdu", "terminate", "repeated", "gap"};
  std::string out = fmt::format("{}{} {} \"{}\"", e.frame, to_string(e.from)[0],
                                kinds[static_cast<std::size_t>(e.kind)], e.text.substr(0, e.name));
  for (const auto& [name, value] : e.fields) out += fmt::format(" {}: {}", name, value);
  return out;
}

TEST(CaptureDrawnReports, EventsOfLadders) {
  std::string out;
  for (std::uint64_t seed = 4301; seed <= 4340; ++seed) {
    out += fmt::format("{}:", seed);
    for (const ConnectionReport& c : test::analyse(test::DrawnConnection(seed).draw(), {.events = true}).connections)
      for (const LadderEvent& e : c.events) out += " " + event_line(e) + ";";
    out += "\n";
  }
  expect_as_reviewed("capture_drawn_ladders.txt", out);
}

// Fields add no event and take none away; of more events than there is room for, the others are counted.
TEST(CaptureDrawnReports, EventsWithFieldsAndWithLittleRoom) {
  for (std::uint64_t seed = 4301; seed <= 4400; ++seed) {
    const test::Frames frames = test::DrawnConnection(seed).draw();
    const FileReport all = test::analyse(frames, {.events = true, .fields = true, .events_max = 1000});
    for (const std::size_t room : {std::size_t{1}, std::size_t{9}, std::size_t{1000}}) {
      const FileReport some = test::analyse(frames, {.events = true, .events_max = room});
      ASSERT_EQ(some.connections.size(), all.connections.size()) << seed;
      for (std::size_t i = 0; i < all.connections.size(); ++i) {
        const auto &whole = all.connections[i].events, &kept = some.connections[i].events;
        ASSERT_EQ(kept.size(), std::min(room, whole.size())) << seed;
        EXPECT_EQ(some.connections[i].events_dropped, whole.size() - kept.size()) << seed;
        const auto of = [](const LadderEvent& e) { return std::tie(e.frame, e.from, e.kind, e.text); };
        auto next = whole.begin();
        for (const LadderEvent& e : kept) {
          EXPECT_TRUE(e.fields.empty());
          next = std::find_if(next, whole.end(), [&](const LadderEvent& w) { return of(w) == of(e); });
          ASSERT_NE(next, whole.end()) << seed << " " << e.text;
          const bool of_packet = e.kind == LadderEvent::Kind::tcp || e.kind == LadderEvent::Kind::startup;
          EXPECT_TRUE(!next->fields.empty() || !of_packet) << seed << " " << e.text;
          ++next;
        }
      }
    }
  }
}

/// Writes down what it hears, and holds each octet to those of the packets by their sequence numbers.
class Listener final : public StreamTap {
 public:
  explicit Listener(const test::Frames& frames) {
    for (const test::Frame& f : frames) {
      const wire::PacketView v = wire::parse_packet(1, f.octets, static_cast<std::uint32_t>(f.octets.size()));
      if (v.kind != wire::PacketKind::tcp) continue;
      for (std::uint32_t i = 0; i < v.tcp.payload.size(); ++i)
        captured_[{v.tcp.source, v.tcp.seq + i}] = v.tcp.payload[i];
    }
  }
  std::string said;

  void startup(const TappedStream& s, std::uint64_t at, ConstBytes octets) override {
    said += fmt::format(" {}: startup frame, {} at {};", name(s), octets.size(), at);
    hold(s, at, octets);
  }
  void fpdu(const TappedStream& s, const WalkedFpdu& f) override {
    said += fmt::format(" {}: FPDU, {} at {} + {}{};", name(s), f.wire_octets, s.fpdus_at, f.position,
                        s.markers == Known::yes  ? ", markers"
                        : s.markers == Known::no ? ""
                                                 : ", not known");
    hold(s, s.fpdus_at + f.position, f.wire);
  }
  void negotiation(const TappedStream& s, std::uint64_t at, ConstBytes octets, bool) override {
    said += fmt::format(" {}: message, {} at {};", name(s), octets.size(), at);
    hold(s, at, octets);
  }
  void lone_length(const TappedStream& s, std::uint64_t at) override {
    said += fmt::format(" {}: length at {};", name(s), at);
    const auto first = captured_.find({s.source, s.first_seq + static_cast<std::uint32_t>(at)});
    EXPECT_NE(first, captured_.end()) << "its first octet is there";
  }
  void judged(std::uint64_t connection, std::uint64_t last_frame) override {
    said += fmt::format(" the connection of frame {} is over with {};", connection, last_frame);
  }

 private:
  std::string name(const TappedStream& s) const {
    EXPECT_NE(s.source, s.destination);
    return fmt::format("{}, port {}", s.connection, s.source.port);
  }
  void hold(const TappedStream& s, std::uint64_t at, ConstBytes octets) const {
    std::size_t there = 0;
    for (std::size_t i = 0; i < octets.size(); ++i) {
      const auto it = captured_.find({s.source, s.first_seq + static_cast<std::uint32_t>(at + i)});
      if (it == captured_.end()) continue;  // the capture lacks it
      ++there;
      ASSERT_EQ(octets[i], it->second) << said;
    }
    EXPECT_TRUE(there > 0 || octets.empty()) << said;
  }
  std::map<std::pair<Address, std::uint32_t>, std::uint8_t> captured_;
};

TEST(CaptureDrawnReports, WhatATapHears) {
  std::string out;
  for (std::uint64_t seed = 4401; seed <= 4700; ++seed) {
    test::Frames frames = test::DrawnConnection(seed).draw();
    if (seed % 5 == 0) frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(seed % frames.size()));
    Listener tap(frames);
    AnalyzerOptions options{.tap = &tap};
    if (seed % 10 == 0) options.mpa_ports = {9001};
    test::analyse(frames, options);
    if (seed <= 4500) out += fmt::format("{}:{}\n", seed, tap.said);
    if (HasFatalFailure()) return;
  }
  expect_as_reviewed("capture_drawn_tap.txt", out);
}

/// The same packets between two other ends: each has the address and the port of the other.
test::Frames turned(test::Frames frames) {
  for (test::Frame& f : frames) {
    const bool v6 = f.octets[12] == 0x86;
    const std::ptrdiff_t address = v6 ? 22 : 26, size = v6 ? 16 : 4, port = v6 ? 54 : 34;
    const auto at = f.octets.begin();
    std::swap_ranges(at + address, at + address + size, at + address + size);
    std::swap_ranges(at + port, at + port + 2, at + port + 2);
  }
  return frames;
}

TEST(CaptureDrawnReports, WhichEndHasTheLowerAddressDoesNotMatter) {
  for (std::uint64_t seed = 4801; seed <= 5000; ++seed) {
    test::Frames frames = test::DrawnConnection(seed).draw();
    if (seed % 4 == 0) frames.erase(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(seed % frames.size()));
    const AnalyzerOptions options{.events = seed % 3 == 0, .mpa_ports = {9001}};
    EXPECT_EQ(test::brief(test::analyse(turned(frames), options)), test::brief(test::analyse(frames, options)))
        << "seed " << seed;
  }
  for (const test::Story& s : test::set_ups()) {
    const test::Frames frames = test::told(s).frames;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      test::Frames fewer = frames;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(test::brief(turned(fewer)), test::brief(fewer)) << s.name << " without frame " << i + 1;
    }
  }
}

TEST(CaptureDrawnReports, WhatIsCollectedForLaddersChangesNoVerdict) {
  for (std::uint64_t seed = 5001; seed <= 5080; ++seed) {
    const test::Frames frames = test::DrawnConnection(seed).draw();
    EXPECT_EQ(test::brief(test::analyse(frames, {.events = true, .fields = true})), test::brief(frames));
  }
}

}  // namespace
}  // namespace parley::capture
