// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages of one connection of `parley listen` and `parley connect`: send some, expect some, return what arrives.
// Plain Sends work with a peer without RDMA Read (revision 1 on Linux siw), and ucmatose exchanges the same.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "parley/verbs.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct TrafficOptions {
  std::uint32_t sends = 0;   ///< messages to send once established
  std::uint32_t expect = 0;  ///< messages to receive before the connection may end
  std::uint32_t size = 64;   ///< octets of each message to send, and the maximum to receive
  bool echo = false;         ///< return each message received
  bool echoed = false;       ///< the peer returns each message: compare it, then send the next one
  bool any() const { return sends > 0 || expect > 0 || echo; }
};
void add_traffic_options(Command sub, TrafficOptions& options);
/// Errors: usage.
Or<void> check(const TrafficOptions& options);

class Traffic {
 public:
  static constexpr std::uint32_t send_slots = 64;
  static constexpr std::uint32_t echo_slots = 64;        ///< receives posted by an echoing side
  static constexpr std::uint32_t receives_max = 4096;    ///< bound on posted receives
  static constexpr std::uint64_t memory_max = 64 << 20;  ///< bound on one connection's buffers

  /// Registers the buffers. Errors: environment.
  static Or<std::unique_ptr<Traffic>> create(Device& device, PdHandle pd, const TrafficOptions& options);
  ~Traffic();

  QpInit init() const;
  /// Posts the receives. Call it before accept, or directly after connect.
  Or<void> attach(QueuePair& qp);
  /// Call it when the connection is up. `send_rtr`: a Send used as RTR consumes one receive (send_rtr_takes_receive).
  void established(bool send_rtr);
  void poll();
  bool done() const { return sent_ == options_.sends && received_ >= expected(); }
  const std::optional<std::string>& fault() const { return fault_; }
  std::uint64_t sent() const { return sent_; }
  std::uint64_t received() const { return received_; }

 private:
  Traffic(Device& device, PdHandle pd, const TrafficOptions& options);
  std::uint32_t expected() const { return options_.echoed ? options_.sends : options_.expect; }
  std::uint32_t window() const { return options_.echoed ? 1 : send_slots; }
  MutBytes slot(std::uint32_t index);
  Sge sge(std::uint32_t index, std::uint32_t length) const;
  void fill(std::uint64_t message, std::uint32_t index);
  void pump();
  void post_receive(std::uint32_t index);
  void post_send(std::uint32_t index, std::uint32_t length);
  void received(std::uint32_t index, std::uint32_t length);
  void report_error(std::string text);

  Device& device_;
  PdHandle pd_;
  TrafficOptions options_;
  std::uint32_t receive_slots_;
  Bytes memory_;  ///< receive slots, then send slots
  MemoryRegion region_{};
  std::unique_ptr<CompletionQueue> cq_;
  QueuePair* qp_ = nullptr;
  bool up_ = false;
  bool send_rtr_due_ = false;
  std::uint64_t posted_ = 0, sent_ = 0, received_ = 0;
  std::optional<std::string> fault_;
};

}  // namespace parley::tools
