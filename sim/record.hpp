// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a run looked like: a tap that writes pcapng into a buffer, and one that collects a picture for the ladders.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "parley/sim.hpp"
#include "sim/run.hpp"
#include "verdict/picture.hpp"

namespace parley::sim {

struct RecordInfo {
  std::string application;  ///< "parley 0.1.0 (commit abc)"
  std::string scenario;
  std::uint64_t seed = 0;
};

/// pcapng: one interface per link end with its name, name records for hosts, what was done to a frame as its comment,
/// epb_packetid joining the copies of a frame, seed and commit in the section header. Octets are handed to `sink` in
/// pieces; it returns false to stop (disk full).
class PcapngTap final : public Tap {
 public:
  using Sink = std::function<bool(ConstBytes)>;
  PcapngTap(const RecordInfo& info, Sink sink);
  ~PcapngTap() override;
  /// Before the run: the interfaces and names of this world.
  void begin(const World& world);
  void on_frame(const TapFrame& frame) override;
  void on_note(Instant at, NodeId host, std::string_view text) override;
  /// Violations become comments on the frame next in time.
  void finish(const RunReport* report);
  /// FNV-1a over every octet handed to the sink: equal files have equal hashes.
  std::uint64_t hash() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Collects frames between hosts (switches are looked through) for verdict/picture.
class PictureTap final : public Tap {
 public:
  explicit PictureTap(std::size_t rows_max = 5000);
  ~PictureTap() override;
  void begin(const World& world);
  void on_frame(const TapFrame& frame) override;
  void on_note(Instant at, NodeId host, std::string_view text) override;
  verdict::Picture finish(const RunReport* report);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Feeds one tap to several.
class TapFan final : public Tap {
 public:
  void add(Tap* tap) { taps_.push_back(tap); }
  void on_frame(const TapFrame& frame) override {
    for (Tap* tap : taps_) tap->on_frame(frame);
  }
  void on_note(Instant at, NodeId host, std::string_view text) override {
    for (Tap* tap : taps_) tap->on_note(at, host, text);
  }

 private:
  std::vector<Tap*> taps_;
};

}  // namespace parley::sim
