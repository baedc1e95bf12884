// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program on Parley's own stack, in the simulator, that does what the program on one side of a recording did. It
// connects or accepts with the same options and private data, registers the memory that the other side names, and posts
// the recorded Sends, Writes and Reads in order. Answers and Terminates come from Parley's stack, and these are
// compared.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "mpa/startup_options.hpp"
#include "parley/sim.hpp"
#include "replay/player.hpp"
#include "tools/replay/mirror_program.hpp"

namespace parley::tools {

class Mirror final : public MirrorProgram {
 public:
  /// Acts for `side` of the recording. `player` plays the other side; it learns the STags that the payload does not
  /// carry.
  Mirror(const replay::Recording& recording, capture::Side side, const std::string& quirk, replay::Player& player);

  /// Errors: environment, if the recording is too large or needs something that verbs cannot do.
  Or<void> prepare();
  void listen_at(std::uint16_t port) { port_ = port; }

  void on_start(sim::Host& host) override;

 private:
  static constexpr std::size_t memory_max = 256 << 20;  // octets registered in total

  /// An act of its own: a work request or the end.
  struct Act : Wait {
    std::size_t item = 0;
    std::vector<std::size_t> reads;  ///< Read Responses whose data must be in place now
  };

  mpa::StartupOptions mpa_options() const;
  void plan_acts();
  void fill(const std::vector<std::size_t>& responses);
  void fill_atomic(const replay::Item& response, const replay::Item& request);
  Bytes with_names(std::size_t item, ConstBytes octets) const;
  void event(sim::Host& host, cm::Event event) override;
  void completed(sim::Host& host, const WorkCompletion& wc) override;
  const Wait* next() const override { return posting_ && next_act_ < acts_.size() ? &acts_[next_act_] : nullptr; }
  bool act() override;
  void answer(const cm::ConnectRequest& request);
  bool post(const replay::Item& item, const Act& what);
  bool not_posted(const replay::Item& item);
  const replay::SideRecord& mine() const { return recording_.side(side_); }
  const replay::SideRecord& theirs() const { return recording_.side(capture::other(side_)); }

  const replay::Recording& recording_;
  capture::Side side_;
  std::string quirk_;
  replay::Player& player_;
  replay::Names names_;  // of this side's memory
  std::vector<Act> acts_;
  std::vector<std::size_t> first_reads_;                              // data that must be in place from the start
  std::vector<std::pair<std::size_t, std::size_t>> read_pairs_;       // our responses and the requests they answer
  std::set<std::pair<std::uint32_t, std::uint64_t>> atomics_filled_;  // STag and TO
  std::uint16_t port_ = 0;
  bool posting_ = false, up_ = false;
};

}  // namespace parley::tools
