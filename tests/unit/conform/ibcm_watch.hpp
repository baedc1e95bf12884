// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The packets of a Stage, judged as a capture: what `parley pcap check` would say of the peer under test.
#pragma once
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "capture/analyzer.hpp"
#include "ibcm_kit.hpp"
#include "wire/ib/roce.hpp"
#include "wire/ib/sealer.hpp"
#include "wire/packet.hpp"

namespace parley::conform::ibcm::kit {

/// Judges the packets of a Stage as a capture.
class Watcher {
 public:
  explicit Watcher(Stage& stage) {
    stage.tap = [this](Instant now, const PacketPath& path, ConstBytes packet) { add(now, path, packet); };
  }
  std::uint64_t frames() const { return frames_; }
  capture::FileReport finish() { return analyzer_.finish(); }

 private:
  void add(Instant now, const PacketPath& path, ConstBytes packet) {
    wire::ib::RoceHeader header;
    header.source = gid_of(path.peer);
    header.destination = gid_of(path.local);
    header.source_port = PARLEY_ROCE_UDP_PORT;
    Bytes frame(wire::ethernet_header + header.size() + packet.size());
    Writer w(frame);
    w.bytes(std::array<std::uint8_t, 12>{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2});
    w.be16(wire::ethertype_ipv4);
    header.emit(MutBytes(frame).subspan(wire::ethernet_header), packet.size());
    std::copy(packet.begin(), packet.end(), frame.end() - std::ssize(packet));
    const MutBytes sealed = MutBytes(frame).last(packet.size());
    wire::ib::IcrcSealer(header).seal(header.identification, sealed);
    if (path.bad_icrc) frame.back() ^= 0xFF;
    analyzer_.push({.frame = ++frames_,
                    .at = now,
                    .link_type = 1,
                    .original_length = static_cast<std::uint32_t>(frame.size()),
                    .octets = frame});
  }
  capture::Analyzer analyzer_;
  std::uint64_t frames_ = 0;
};

inline constexpr std::uint8_t peers_last_octet = 2;  // of 192.0.2.2

/// The findings about the peer under test.
inline std::vector<capture::Finding> findings_of_peer(const capture::FileReport& report) {
  std::vector<capture::Finding> out;
  for (const capture::ConnectionReport& c : report.connections)
    for (const capture::Finding& f : c.findings) {
      if (!f.side) continue;
      const Address& by = *f.side == capture::Side::initiator ? c.initiator : c.responder;
      if (by.octets[3] == peers_last_octet) out.push_back(f);
    }
  return out;
}

/// Adds the names of the cases that failed; returns their number.
inline std::size_t add_failed(const std::vector<Result>& results, std::set<std::string_view>& names) {
  std::size_t count = 0;
  for (const Result& r : results)
    if (r.finding.verdict == Verdict::fail) {
      names.insert(r.what->name);
      ++count;
    }
  return count;
}

/// The rules that the peer under test breaks in a run, by the cases in whose time it breaks them.
class CaseWatcher {
 public:
  explicit CaseWatcher(Stage& stage) : watcher_(stage) {
    stage.hooks.result = [this](const Result& r) { last_frames_[watcher_.frames()].insert(r.what->name); };
  }
  /// Adds the IDs of the rules to each case that failed.
  void add_failed(const std::vector<Result>& results, std::map<std::string_view, std::set<std::string_view>>& broken) {
    std::set<std::string_view> failed;
    for (const Result& r : results)
      if (r.finding.verdict == Verdict::fail) failed.insert(r.what->name);
    for (const capture::Finding& f : findings_of_peer(watcher_.finish()))
      if (const auto found = last_frames_.lower_bound(f.frame); f.broken && found != last_frames_.end())
        for (const std::string_view name : found->second)
          if (failed.contains(name)) broken[name].insert(f.key());
  }

 private:
  Watcher watcher_;
  std::map<std::uint64_t, std::set<std::string_view>> last_frames_;
};

/// Compares what a capture showed of peers that fail the cases with the table in docs/pcap-check.md.
inline void expect_documented(Iut iut, const std::map<std::string_view, std::set<std::string_view>>& broken) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/pcap-check.md");
  const std::string begin = fmt::format("| a RoCEv2 {} that fails | ", to_string(iut));
  std::set<std::string> listed;
  std::string line;
  while (std::getline(file, line) && !line.starts_with(begin)) {
  }
  std::getline(file, line);
  for (std::getline(file, line); line.starts_with("| "); std::getline(file, line)) {
    std::istringstream cells(line.substr(2));
    std::string names, shown;
    std::getline(cells, names, '|');
    std::getline(cells, shown, '|');
    std::string rule = shown.starts_with(" `") ? shown.substr(2, shown.find('`', 2) - 2) : std::string();
    for (char& c : names)
      if (c == ',' || c == '`') c = ' ';
    std::istringstream words(names);
    for (std::string name; words >> name;) {
      EXPECT_TRUE(listed.insert(name).second) << name << " is listed twice";
      const auto found = broken.find(name);
      EXPECT_TRUE(rule.empty() || (found != broken.end() && found->second.contains(rule)))
          << name << ": no peer that fails it breaks " << rule;
    }
  }
  for (const Case* c : ibcm::cases(iut)) {
    const auto found = broken.find(c->what.name);
    std::string rules;
    if (found != broken.end())
      for (const std::string_view rule : found->second) rules += " " + std::string(rule);
    EXPECT_TRUE(listed.erase(std::string(c->what.name)) > 0) << c->what.name << " is not in the table; shown:" << rules;
  }
  for (const std::string& name : listed) ADD_FAILURE() << name << " is in the table and no case";
}

}  // namespace parley::conform::ibcm::kit
