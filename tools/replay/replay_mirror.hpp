// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program on Parley's own stack, in the simulator, that wants what one side of a recording wanted: it connects or
// accepts with the same options and private data, registers the memory that the other side names, and posts the
// recorded Sends, Writes and Reads in their order. What the stack itself does (answers, Terminates) is Parley's, and is
// what gets compared.
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
  /// Stands in for `side` of the recording. `player` plays the other one; it learns the STags that no octet tells.
  Mirror(const replay::Recording& recording, capture::Side side, const std::string& quirk, replay::Player& player);

  /// Errors: what of the recording is too large or cannot be done through verbs (environment).
  Or<void> prepare();
  void listen_at(std::uint16_t port) { port_ = port; }

  void on_start(sim::Host& host) override;

 private:
  static constexpr std::size_t memory_max = 256 << 20;  // octets registered in all

  /// Something it does by itself.
  struct Act : Wait {
    std::size_t item = 0;
    std::vector<std::size_t> reads;  ///< Read Responses of which the data have to be in place now
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
  replay::Names names_;  // of memory that is this side's
  std::vector<Act> acts_;
  std::vector<std::size_t> first_reads_;                         // data that have to be in place from the beginning
  std::vector<std::pair<std::size_t, std::size_t>> read_pairs_;  // our responses and the requests they answer
  std::set<std::pair<std::uint32_t, std::uint64_t>> atomics_filled_;  // STag and TO
  std::uint16_t port_ = 0;
  bool posting_ = false, up_ = false;
};

}  // namespace parley::tools
