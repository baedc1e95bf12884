// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program on Parley's RoCE stack, in the simulator, that wants what one side of a recording wanted: Mirror's counterpart. It asks or
// accepts with the same depths, retry counts and private data, registers the memory that the other side names, and posts the
// recorded Sends, Writes, Reads and Atomics in their order.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parley/sim.hpp"
#include "replay/roce/roce_player.hpp"
#include "tools/replay/mirror_program.hpp"

namespace parley::tools {

class RoceMirror final : public MirrorProgram {
 public:
  /// Stands in for `side`. The player of the other one learns the R_Keys that no octet tells.
  RoceMirror(const replay::RoceRecording& recording, capture::Side side);
  /// What plays the other side; before the first step.
  void play_against(replay::RocePlayer& player) { player_ = &player; }

  /// Errors: what of the recording is too large (environment).
  Or<void> prepare();
  /// What the host's HCA has to be like for it.
  cm::RoceProviderOptions hca() const;
  /// The port of the service that was asked for.
  std::uint16_t port() const;
  void let_go();

  void on_start(sim::Host& host) override;

 private:
  static constexpr std::size_t memory_max = 64 << 20;  // octets registered in all

  /// Octets that the recorded answer to a Read, or to an Atomic, found at a place.
  struct Fill {
    std::uint32_t r_key = 0;
    std::uint64_t va = 0;
    Bytes octets;
  };
  /// Something it does by itself: a message, or the end.
  struct Act : Wait {
    std::size_t step = 0;  ///< the first packet of the message, or the DREQ
    Bytes payload;
    replay::RoceStep last;    ///< the packet with its end
    std::vector<Fill> fills;  ///< data that have to be in place now
  };

  // roce_mirror_plan.cpp
  void plan_acts();
  void plan_receive(const replay::RoceStep& step);
  bool add_packet(std::size_t index);
  void plan_fill(const replay::RoceStep& response);
  const wire::ib::CmReq* request() const;
  const replay::RoceStep* answer_of_mine() const;
  Bytes with_names(std::size_t step, ConstBytes octets) const;

  void fill(const std::vector<Fill>& fills);
  bool has_refused() const;
  void event(sim::Host& host, cm::Event event) override;
  void completed(sim::Host& host, const WorkCompletion& wc) override;
  const Wait* next() const override { return up_ && next_act_ < acts_.size() ? &acts_[next_act_] : nullptr; }
  bool act() override;
  void answer(const cm::ConnectRequest& request);
  void established(sim::Host& host, const cm::Established& is);
  void connect(sim::Host& host);
  QpInit queue_pair_of_kind() const;
  ib::Options terms() const;
  bool post(const Act& what);

  const replay::RoceRecording& recording_;
  capture::Side side_;
  replay::RocePlayer* player_ = nullptr;
  replay::RoceNames names_;  // of memory that is this side's
  std::vector<Act> acts_;
  std::vector<Fill> first_fills_;       // that have to be in place from the beginning
  std::size_t sent_ = 0;                // octets that it sends or reads
  std::size_t message_size_ = 0;        // of what the other side is sending
  std::unique_ptr<AddressHandle> way_;  // of datagrams
  std::uint32_t peer_qpn_ = 0, peer_q_key_ = 0;
  bool up_ = false;
};

}  // namespace parley::tools
