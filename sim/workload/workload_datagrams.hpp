// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The transfers of one end of a UD service. The initiator, which resolved the service, sends its messages, with at most
// `window_max` of them unanswered. The responder answers each to its source queue pair, under the same number. Without
// both_ways its answers are empty. Datagrams may be lost: an end that has waited long enough continues without them,
// and check/delivery judges from the faults whether one may be missing.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "sim/check/completions.hpp"
#include "sim/workload/workload_traffic.hpp"

namespace parley::sim {

class DatagramEnd final : public Traffic {
 public:
  static constexpr std::uint32_t window_max = 16;  // unanswered messages
  static constexpr std::size_t network_header = 40;

  /// `patience`: how long its user waits for a silent peer. `held_up`: how long faults may delay datagrams.
  DatagramEnd(const TransferPlan& plan, Duration patience, Duration held_up, check::End& end, const std::string& label,
              const bool& corrupted, check::Judge& judge);

  Result<void> open(Device& device, PdHandle pd) override;
  QpInit qp_init(PdHandle pd, CompletionQueue* cq) const override;
  void use(QueuePair& qp, Instant now) override;
  void established(const mpa::Parameters& parameters, Instant now) override;
  void completed(const WorkCompletion& completion, Instant now) override;
  bool finished() const override;
  void ended(Instant now) const override;
  Result<void> close(Device& device) override;
  std::uint64_t progress() const override { return progress_; }
  std::string pending() const override;
  std::optional<Duration> longest_silence() const override;
  void silent(Instant now) override;

 private:
  static constexpr std::size_t recognised_from = 8;  // octets: shorter ones are identified only by their order

  std::size_t octets_out() const { return plan_.initiator() || plan_.both_ways ? plan_.octets : 0; }
  std::size_t octets_in() const { return !plan_.initiator() || plan_.both_ways ? plan_.octets : 0; }
  /// A fault may have lost, duplicated or misdirected datagrams.
  bool excused() const { return corrupted_ || (plan_.touched != nullptr && *plan_.touched); }
  std::size_t receive_octets() const { return network_header + octets_in(); }
  std::uint32_t slots() const { return window_ + 4; }
  MutBytes send_slot(std::size_t index) {
    return MutBytes(memory_).subspan(slots() * receive_octets() + index * octets_out(), octets_out());
  }
  void post_receive(Instant now);
  void go_on(Instant now);
  bool post(std::uint32_t message, Instant now);
  void on_receive(const WorkCompletion& completion, Instant now);
  std::optional<std::uint32_t> find_message(ConstBytes octets) const;
  void take(std::uint32_t message, std::size_t octets);
  void wrong(Instant now, std::string text) { judge_.add("delivery", now, label_, std::move(text)); }

  TransferPlan plan_;
  Duration patience_, held_up_;
  check::End& end_;
  const std::string& label_;  // grows as the ports become known
  const bool& corrupted_;
  check::Judge& judge_;
  check::Ledger sent_{"send"}, received_{"receive"};
  QueuePair* qp_ = nullptr;
  Device* device_ = nullptr;
  PdHandle pd_ = 0;
  std::uint32_t window_;
  Bytes memory_;  // receive slots, then send slots
  MemoryRegion region_{};
  std::unique_ptr<AddressHandle> way_;
  std::uint32_t peer_qpn_ = 0, peer_qkey_ = 0;  // a responder learns the former from a datagram
  bool up_ = false, over_ = false;
  std::uint64_t progress_ = 0, next_wr_ = 1, receives_posted_ = 0;
  std::deque<std::uint32_t>
      due_;  // messages to send or to answer; at most the window, plus those that arrived in addition
  std::vector<std::size_t> free_;               // free send slots
  std::deque<std::size_t> in_flight_;           // send slots in use, in the order of their sends
  std::uint32_t next_ = 0;                      // initiator: its next message
  std::uint32_t unanswered_ = 0;                // initiator
  std::vector<bool> got_;                       // by message
  std::uint32_t got_count_ = 0, expected_ = 0;  // expected: after the last one that arrived
  int silences_ = 0;                            // since a datagram arrived
};

}  // namespace parley::sim
