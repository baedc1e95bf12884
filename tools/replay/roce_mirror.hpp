// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program on Parley's RoCE stack, in the simulator, that does what the program on one side of a recording did: the
// counterpart of Mirror. It connects or accepts with the same depths, retry counts and private data, registers the
// memory that the other side names, and posts the recorded Sends, Writes, Reads and Atomics in order.
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
  /// Acts for `side`. The other side's player learns the R_Keys that the payload does not carry.
  RoceMirror(const replay::RoceRecording& recording, capture::Side side);
  /// Sets the player of the other side. Call it before the first step.
  void play_against(replay::RocePlayer& player) { player_ = &player; }

  /// Errors: environment, if the recording is too large.
  Or<void> prepare();
  /// The options that the host's HCA needs for this recording.
  cm::RoceProviderOptions hca() const;
  /// The port of the requested service.
  std::uint16_t port() const;
  void release();

  void on_start(sim::Host& host) override;

 private:
  static constexpr std::size_t memory_max = 64 << 20;  // octets registered in total

  /// The octets that a recorded Read or Atomic returned, and their address.
  struct ReturnedOctets {
    std::uint32_t r_key = 0;
    std::uint64_t va = 0;
    Bytes octets;
  };
  /// An act of its own: a message or the end.
  struct Act : Wait {
    std::size_t step = 0;  ///< the first packet of the message, or the DREQ
    Bytes payload;
    replay::RoceStep last;              ///< the message's last packet
    std::vector<ReturnedOctets> fills;  ///< data that must be in place now
  };

  // roce_mirror_plan.cpp
  void plan_acts();
  void plan_receive(const replay::RoceStep& step);
  bool add_packet(std::size_t index);
  void plan_fill(const replay::RoceStep& response);
  const wire::ib::CmReq* request() const;
  const replay::RoceStep* answer_of_mine() const;
  Bytes with_names(std::size_t step, ConstBytes octets) const;

  void fill(const std::vector<ReturnedOctets>& fills);
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
  replay::RoceNames names_;  // of this side's memory
  std::vector<Act> acts_;
  std::vector<ReturnedOctets> first_fills_;  // data that must be in place from the start
  std::size_t sent_ = 0;                     // octets that it sends or reads
  std::size_t message_size_ = 0;             // of the message that the other side is sending
  std::unique_ptr<AddressHandle> way_;       // for datagrams
  std::uint32_t peer_qpn_ = 0, peer_q_key_ = 0;
  bool up_ = false;
};

}  // namespace parley::tools
