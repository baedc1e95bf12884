// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The transfers of one end of a connection: its own memory, receives, messages with a pattern, and the few small messages
// by which both ends agree on regions, batches and credit. It uses the queue pair like any user of the verbs.
//
//   send   every message is a Send of `octets`; the receiver grants credit as it consumes
//   write  the responder announces its region, the initiator writes batches of at most `window` messages, each batch
//          followed by a Send (a Write alone does not notify the responder, RFC 5040 §5.5); the responder answers it
//   read   the responder announces its region, the initiator reads from it and reports when it has everything
//
// Small messages are 24 octets (32 if the data messages have 24): kind, a number, STag and tagged offset. The initiator
// always sends first if no RTR was agreed (RFC 5044 §7.1.2 rule 4). Earlier posts of the responder wait behind the fence,
// which tests the fence. Over RoCE each end posts its sends once it is established.
#pragma once
#include <deque>

#include "parley/verbs.hpp"
#include "sim/check/completions.hpp"
#include "sim/workload/workload_traffic.hpp"

namespace parley::sim {

class TransferEnd final : public Traffic {
 public:
  static constexpr std::uint32_t window_max = 16;          // data messages in flight in one direction
  static constexpr std::uint32_t control_max = 6;          // small messages in flight in one direction
  static constexpr std::size_t area_octets_max = 8 << 20;  // the window shrinks when messages are long

  TransferEnd(const TransferPlan& plan, check::End& end, const std::string& label, const bool& corrupted,
              check::Judge& judge);

  Result<void> open(Device& device, PdHandle pd) override;
  QpInit qp_init(PdHandle pd, CompletionQueue* cq) const override;
  /// Posts receives and, at the responder, requests that wait for the fence to be lifted.
  void use(QueuePair& qp, Instant now) override;
  void established(const mpa::Parameters& parameters, Instant now) override;
  void completed(const WorkCompletion& completion, Instant now) override;
  bool finished() const override;
  void ended(Instant now) const override;
  Result<void> close(Device& device) override;
  std::uint64_t progress() const override { return progress_; }
  std::string pending() const override;

 private:
  enum class Kind : std::uint8_t { hello = 1, region, batch, credit, done };
  struct Control {
    Kind kind = Kind::hello;
    std::uint64_t number = 0;
    std::uint32_t stag = 0;
    std::uint64_t to = 0;
  };
  /// Received data must match the sent data: no fault forged it, or MPA's CRC detects it.
  bool believed() const { return !corrupted_ || (end_.parameters.crc && !plan_.roce); }
  std::size_t control_octets() const { return plan_.octets == 24 ? 32 : 24; }
  std::uint64_t sends_wanted() const;
  std::uint64_t receives_wanted() const;
  std::uint32_t receive_slots() const;
  MutBytes slot(std::size_t base, std::size_t octets, std::uint64_t index);
  void layout();
  bool post(SendWr wr, WcOpcode opcode, Instant now);
  void post_receive(std::uint64_t index, Instant now);
  void send_control(const Control& control, Instant now);
  bool post_control(const Control& control, Instant now);
  void advance(Instant now);
  void advance_sends(Instant now);
  void advance_writes(Instant now);
  void advance_reads(Instant now);
  void on_receive(const WorkCompletion& completion, Instant now);
  void on_message(ConstBytes memory, std::size_t length, Instant now);
  void on_control(ConstBytes octets, Instant now);
  void on_batch(std::uint64_t until, Instant now);
  void wrong(Instant now, std::string text);

  TransferPlan plan_;
  check::End& end_;
  const std::string& label_;  // grows as the ports become known
  const bool& corrupted_;
  check::Judge& judge_;
  check::Ledger sent_{"send"}, received_{"receive"};
  QueuePair* qp_ = nullptr;
  std::uint32_t window_ = 1;
  std::size_t slot_octets_ = 0;                   // size of a data slot
  std::size_t control_base_ = 0, data_base_ = 0;  // in memory_
  Bytes memory_;
  MemoryRegion local_{}, remote_{};  // local_: receives and small messages; remote_: the data area, if the peer needs
                                     // it
  std::deque<Control> to_tell_;      // at most control_max and one more
  bool up_ = false;
  std::uint64_t next_wr_ = 1;
  std::deque<std::uint64_t> control_wrs_;  // of small messages that are not completed yet
  std::uint64_t controls_posted_ = 0;
  std::uint64_t receives_posted_ = 0;
  std::uint64_t progress_ = 0;
  // Data that this end sends, writes or reads.
  std::uint64_t posted_ = 0, completed_ = 0, allowed_ = 0;
  // Data that this end receives.
  std::uint64_t got_ = 0, granted_ = 0;
  // The peer's region, and how much it has confirmed.
  bool peer_known_ = false;
  std::uint32_t peer_stag_ = 0;
  std::uint64_t peer_to_ = 0, confirmed_ = 0, batch_end_ = 0;
  std::uint32_t reads_at_once_ = 1;
  bool done_told_ = false, done_heard_ = false, can_read_ = true;
};

}  // namespace parley::sim
