// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recorders of a run: a tap that writes pcapng into a buffer, and one that collects rows for a ladder.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "draw/ladder.hpp"
#include "parley/sim.hpp"
#include "parley/trace.hpp"
#include "sim/run/run.hpp"

namespace parley::sim {

struct RecordInfo {
  std::string application;  ///< "parley 0.1.0 (commit abc)"
  std::string scenario;
  std::uint64_t seed = 0;
};

/// The names of the nodes and links in a tap's records: from a world, or built by hand.
struct RecordTopology {
  struct Node {
    std::string name;
    bool is_switch = false;
    std::vector<Address> addresses;  ///< for a host: IPv4, global IPv6 and link-local of each port
  };
  struct Link {
    std::array<LinkEndInfo, 2> ends;
    LinkOptions options{};
  };
  std::vector<Node> nodes;  ///< by NodeId
  std::vector<Link> links;  ///< by LinkId
};
RecordTopology topology_of(const World& world);

/// pcapng: one interface per link end with its name, name records for hosts, changes to a frame as its comment,
/// epb_packetid joining the copies of a frame, seed and commit in the section header. Octets are passed to `sink` in
/// pieces; it returns false to stop (disk full). An event between frames (a crash, a violation) becomes a comment on
/// the next frame in time, or on the last one if none follows.
class PcapngTap final : public Tap {
 public:
  using Sink = std::function<bool(ConstBytes)>;
  static constexpr std::size_t held_octets_max = 16 << 20;
  PcapngTap(const RecordInfo& info, Sink sink);
  ~PcapngTap() override;
  /// Before the run: the interfaces and names of this world.
  void begin(const World& world) { begin(topology_of(world)); }
  void begin(const RecordTopology& topology);
  void on_frame(const TapFrame& frame) override;
  void on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) override;
  /// The record becomes a comment. A sent message: on the host's next frame. Anything else: on the frame that caused it
  /// if there was one at that time, else on the host's next frame.
  void on_trace(std::string_view host, const trace::Record& record);
  /// Violations become comments on the next frame in time, among the last `held_octets_max` octets of frames, which are
  /// held back until now. The report may be null.
  void finish(const RunReport* report);
  /// FNV-1a over every octet passed to the sink: equal files have equal hashes.
  std::uint64_t hash() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Collects frames between hosts (switches do not appear) for draw/ladder.
class LadderTap final : public Tap {
 public:
  explicit LadderTap(std::size_t rows_max = 5000);
  ~LadderTap() override;
  void begin(const World& world) { begin(topology_of(world)); }
  void begin(const RecordTopology& topology);
  /// Title and facts; unset values are taken from the report.
  void set_info(const RecordInfo& info);
  void on_frame(const TapFrame& frame) override;
  void on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) override;
  draw::Ladder finish(const RunReport* report);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Passes one tap's input to several taps.
class TapFan final : public Tap {
 public:
  void add(Tap* tap) { taps_.push_back(tap); }
  void on_frame(const TapFrame& frame) override {
    for (Tap* tap : taps_) tap->on_frame(frame);
  }
  void on_note(Instant at, NodeId host, NoteKind kind, std::string_view text) override {
    for (Tap* tap : taps_) tap->on_note(at, host, kind, text);
  }

 private:
  std::vector<Tap*> taps_;
};

}  // namespace parley::sim
