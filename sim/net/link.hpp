// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One direction of a full-duplex link: a queue with a limit, serialisation at a rate, a delay, and its faults. A
// departure has no event, because the sender's busy time follows from the frames that it was given. A frame therefore
// costs exactly one event, its arrival. Frames arrive in the order in which they were sent unless a fault rule changes
// it.
//
// On the wire a frame takes 24 octets more than are stored here (IEEE 802.3 §3.1.1, §4.4.2: preamble and start 8, FCS
// 4, gap 12) and at least 84. Serialisation is computed in picoseconds; an arrival is rounded up to the nanosecond.
#pragma once
#include <memory>
#include <string>

#include "base/rng.hpp"
#include "sim/fault/fault.hpp"
#include "sim/net/engine.hpp"

namespace parley::sim {

/// Executes the effects of faults on hosts.
class HostActions {
 public:
  virtual ~HostActions() = default;
  virtual void schedule(Instant at, const FaultRule& rule) = 0;
};

class LinkWay final : public LinkPort, public EventTarget {
 public:
  static constexpr std::uint32_t wire_overhead = 24, wire_min = 84;
  /// `end`: the sending end; `from_host`: the sender is a host, not a switch.
  LinkWay(Engine& engine, HostActions& actions, LinkId link, std::uint8_t end, const LinkOptions& options,
          bool from_host, Rng rng);
  void connect(Node& receiver, std::uint16_t receiver_port, LinkWay& opposite);

  void transmit(FramePtr frame) override;
  std::uint16_t mtu() const override { return options_.mtu; }
  bool has_waiting(std::uint64_t more_than) const override;
  std::uint64_t frames_until_waiting(std::uint64_t more_than) const override;
  Instant idle_at() const override { return busy_until_.rounded_up(); }
  bool shares_frames() const override { return injector_ == nullptr && !from_host_; }
  Instant transmit_shared(const Frame& frame) override;
  void deliver(FramePtr frame) override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  Checked<void> add_fault(const FaultRule& rule);
  void add_tallies(std::vector<FaultTally>& by_number) const {
    if (injector_) injector_->add_tallies(by_number);
  }
  /// For frames sent from now on; queued frames keep their times.
  void set_rate(std::uint64_t rate_bps);
  std::uint64_t rate() const { return rate_bps_; }
  const LinkOptions& options() const { return options_; }
  Node& receiver() const { return *receiver_; }

 private:
  enum Kind : std::uint32_t { arrival, injected };
  /// A point in time with picoseconds.
  struct Fine {
    Instant ns{};
    std::uint32_t ps = 0;  // 0..999
    Instant rounded_up() const { return ps == 0 ? ns : ns + Duration(1); }
  };

  std::uint64_t price(std::uint32_t octets);
  void serialise(std::uint64_t duration_ps);
  std::uint64_t backlog_ps() const;
  std::uint64_t octets_waiting() const;
  bool fits(const Frame& frame, std::uint64_t duration_ps);
  bool has_mask_layer(const Frame& frame);
  bool masked(const Frame& frame);
  void fault(FramePtr frame);
  Instant arrival_of_last(Duration extra, bool overtakable);
  void arrive(FramePtr frame, Duration extra, bool overtakable);
  void inject(FramePtr frame, Instant at);
  void report_sent(const Frame& frame, ConstBytes octets, DropReason drop, std::string_view note,
                   bool changes_stream = false);
  void report_received(const Frame& frame, bool made_by_fault);
  void refuse(const Frame& frame, DropReason reason);

  Engine& engine_;
  HostActions& actions_;
  Node* receiver_ = nullptr;
  LinkWay* opposite_ = nullptr;
  std::uint16_t receiver_port_ = 0;
  LinkId link_;
  std::uint8_t end_;
  bool from_host_;
  LinkOptions options_;
  std::uint64_t rate_bps_ = 0;
  Fine busy_until_{};
  Instant last_arrival_{};
  std::uint32_t priced_octets_ = 0;  // cache: size and duration of the last frame
  std::uint64_t priced_ps_ = 0;
  std::uint64_t full_ps_ = 0;  // the time to send queue_octets
  Rng rng_;
  std::unique_ptr<FaultInjector> injector_;       // only with rules
  std::unique_ptr<MessageTracker> mask_tracker_;  // only if a mask counts messages inside streams
  Bytes sent_;                                    // octets before the faults, for the tap
};

}  // namespace parley::sim
