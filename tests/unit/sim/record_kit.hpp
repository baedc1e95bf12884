// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Hosts a and b, and what taps see of frames between them, made by hand: recorders are tested without a world.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/record/record.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::sim::test {

namespace vt = capture::test;

inline RecordTopology two_hosts() {
  RecordTopology t;
  t.nodes = {{"a", false, {vt::end_a(false), vt::end_a(true)}}, {"b", false, {vt::end_b(false), vt::end_b(true)}}};
  RecordTopology::Link link;
  link.ends = {LinkEndInfo{0, "a/p1"}, LinkEndInfo{1, "b/p1"}};
  t.links = {link};
  return t;
}

/// a - s - b: frames are seen at four link ends.
inline RecordTopology switched() {
  RecordTopology t = two_hosts();
  t.nodes.push_back({"s", true, {}});
  RecordTopology::Link second = t.links[0];
  t.links[0].ends = {LinkEndInfo{0, "a/p1"}, LinkEndInfo{2, "s/p1"}};
  second.ends = {LinkEndInfo{2, "s/p2"}, LinkEndInfo{1, "b/p1"}};
  t.links.push_back(second);
  return t;
}

/// What happens to a frame of the list on its way.
struct Fate {
  DropReason drop = DropReason::none;
  std::string note;
  int copies = 0;
  bool corrupt = false;
};

inline void show(Tap& tap, Instant at, LinkId link, std::uint8_t end, bool outbound, std::uint64_t id,
                 ConstBytes octets, DropReason drop = DropReason::none, std::string_view note = {}) {
  tap.on_frame({at, link, end, outbound, id, octets, drop, false, note});
}

/// Shows each frame where it is sent and, a microsecond later, where it arrives. Frames go from a if their source is
/// end_a; ids count from 1.
inline void play(Tap& tap, const vt::Frames& frames, const std::map<std::size_t, Fate>& fates = {}) {
  const Instant zero = frames.empty() ? Instant{} : frames.front().at;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto view = wire::parse_packet(1, frames[i].octets, static_cast<std::uint32_t>(frames[i].octets.size()));
    const bool from_a = view.tcp.source.port == 40000;
    const Instant at{frames[i].at - zero};
    const Fate fate = fates.count(i) != 0 ? fates.at(i) : Fate{};
    const std::uint8_t sender = from_a ? 0 : 1;
    const bool at_receiver = fate.drop == DropReason::discarded || fate.drop == DropReason::host_down;
    show(tap, at, 0, sender, true, i + 1, frames[i].octets, at_receiver ? DropReason::none : fate.drop,
         at_receiver ? "" : fate.note);
    if (fate.drop != DropReason::none && !at_receiver) continue;
    Bytes arrived = frames[i].octets;
    if (fate.corrupt) arrived.back() ^= 1;
    for (int copy = 0; copy <= fate.copies; ++copy)
      show(tap, at + std::chrono::microseconds(1 + copy), 0, 1 - sender, false, i + 1, arrived,
           at_receiver ? fate.drop : DropReason::none, at_receiver || fate.corrupt ? std::string_view(fate.note) : "");
  }
}

inline Bytes record(const vt::Frames& frames, const std::map<std::size_t, Fate>& fates = {},
                    const RunReport* report = nullptr) {
  Bytes out;
  PcapngTap tap({.application = "parley 0.1.0 (commit abc)", .scenario = "by-hand", .seed = 7}, [&](ConstBytes piece) {
    out.insert(out.end(), piece.begin(), piece.end());
    return true;
  });
  tap.begin(two_hosts());
  play(tap, frames, fates);
  tap.finish(report);
  return out;
}

}  // namespace parley::sim::test
