// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC in scenarios. A listener consists of the processes of a node, which share a domain. Each process has a shared
// receive queue, and is registered with every TGT queue pair that the node's service creates, until it learns that the
// peer is gone, or until it exits. An initiator asks for the numbers of queues (SIDR), connects an INI queue pair, and
// sends to them.
#pragma once
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cm/xrc/service.hpp"
#include "sim/check/completions.hpp"
#include "sim/check/xrc.hpp"
#include "sim/workload/workload_traffic.hpp"
#include "xrc/node.hpp"

namespace parley::sim {

/// Counts of the listeners with qp = "xrc", over all lives of their hosts.
struct XrcWork {
  struct Process {
    bool exited = false;
    std::uint64_t messages = 0, octets = 0;
  };
  explicit XrcWork(const Scenario& scenario);
  std::vector<std::vector<Process>> processes;  ///< by listen; empty for other kinds
  std::vector<xrc::Counters> counters;          ///< by listen; of earlier lives
  std::vector<bool> exits_done;                 ///< by exit
};

/// The node of a listener, in one life of its host.
class XrcTarget {
 public:
  static constexpr std::size_t depth = 32;  // receives of a process
  struct HostContext {
    const Scenario* scenario = nullptr;
    XrcWork* work = nullptr;
    Host* host = nullptr;
    std::size_t listen = 0;
    check::Judge* judge = nullptr;
  };
  /// A message that a process received.
  using Deliver = std::function<void(std::size_t process, ConstBytes message)>;

  /// `excused`: a fault may have ended a connection of its service in the middle of a message.
  XrcTarget(const HostContext& seat, Deliver deliver, std::function<bool()> excused)
      : seat_(seat), deliver_(std::move(deliver)), excused_(std::move(excused)) {}
  ~XrcTarget();
  XrcTarget(const XrcTarget&) = delete;
  XrcTarget& operator=(const XrcTarget&) = delete;

  Result<void> start(const Address& local);
  std::size_t listen() const { return seat_.listen; }
  bool handle(const cm::Event& event) { return service_->handle(event); }
  void handle(const AsyncEvent& event) { (void)node_->handle(event); }
  void turn();
  Instant next_deadline() const { return node_->next_deadline(); }
  /// Connections that its service holds.
  std::size_t held() const { return service_ ? service_->held() : 0; }
  void exit(std::size_t process, bool killed);
  check::XrcState state() const;
  xrc::Counters counters() const { return node_ ? node_->registry().counters() : xrc::Counters{}; }

 private:
  struct Process {
    std::size_t number = 0;
    xrc::Node::Member* member = nullptr;  // null: it has exited
    std::unique_ptr<CompletionQueue> cq;
    SharedReceiveQueue* srq = nullptr;
    Bytes memory;
    MemoryRegion region{};
  };
  Result<void> add(std::size_t number);
  Result<void> post(Process& process, std::uint64_t slot);
  void look(Process& process);
  void wrong(std::string text);
  std::size_t slot_octets() const;

  HostContext seat_;
  Deliver deliver_;
  std::function<bool()> excused_;
  PdHandle pd_ = 0;
  std::list<Process> processes_;
  std::unique_ptr<xrc::Node> node_;
  std::unique_ptr<xrc::Service> service_;  // its process is not in `processes_`, and lives as long as the host
};

/// The end of an INI queue pair.
class XrcSend final : public Traffic {
 public:
  static constexpr std::uint32_t window_max = 16;

  XrcSend(const TransferPlan& plan, check::End& end, const std::string& label, const bool& corrupted,
          check::Judge& judge);
  /// Adds the number of another queue; messages go to all queues in turn.
  void aim(std::uint32_t srqn) { queues_.push_back(srqn); }

  Result<void> open(Device& device, PdHandle pd) override;
  QpInit qp_init(PdHandle pd, CompletionQueue* cq) const override;
  void use(QueuePair& qp, Instant now) override;
  void established(const mpa::Parameters& parameters, Instant now) override;
  void completed(const WorkCompletion& completion, Instant now) override;
  bool finished() const override { return up_ && done_ == plan_.messages; }
  void ended(Instant now) const override;
  Result<void> close(Device& device) override;
  std::uint64_t progress() const override { return progress_; }
  std::string pending() const override;

 private:
  void go_on(Instant now);
  void wrong(Instant now, std::string text) { judge_.add("delivery", now, label_, std::move(text)); }

  TransferPlan plan_;
  check::End& end_;
  const std::string& label_;
  const bool& corrupted_;
  check::Judge& judge_;
  check::Ledger sent_{"send"};
  QueuePair* qp_ = nullptr;
  Bytes memory_;
  MemoryRegion region_{};
  std::vector<std::uint32_t> queues_;
  bool up_ = false;
  std::uint32_t posted_ = 0, done_ = 0;
  std::uint64_t progress_ = 0;
};

/// Identifies a message: by its first octets; the others must match.
struct XrcMessage {
  std::uint32_t attempt = 0, message = 0;
};
void write_xrc_message(const XrcMessage& message, MutBytes out);
/// None: these octets are not such a message.
std::optional<XrcMessage> read_xrc_message(ConstBytes octets);

}  // namespace parley::sim
