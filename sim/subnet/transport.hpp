// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A simulated subnet with virtual time in one program, and its ports as transports of management datagrams:
//
//   VirtualSubnet net(*make_plan(FatTree{2, 8, 4, 4}), {.seed = 7});
//   auto transport = net.attach({.node = "H00000"});
//   mad::Port port((*transport)->facts(), (*transport)->local());
//   const Result<Reply<NodeInfo>> info = net.run(port, **transport, port.subn_get<NodeInfo>(mad::Path::to_self()));
//
// Time stands still while any MAD moves, and then jumps to the next deadline: the same subnet, seed and calls always give
// the same result.
#pragma once
#include <deque>
#include <memory>

#include "mad/pump.hpp"
#include "sim/subnet/subnet.hpp"

namespace parley::sim::subnet {

class VirtualSubnet;

/// One port of the subnet. Without RMPP, which mad::Port then implements; the upper half of transaction IDs belongs to
/// the subnet.
class SubnetTransport final : public mad::Transport {
 public:
  static constexpr std::size_t inbox_max = 65536;  ///< queued datagrams; more are dropped, and counted by dropped()

  ~SubnetTransport() override;
  SubnetTransport(const SubnetTransport&) = delete;
  SubnetTransport& operator=(const SubnetTransport&) = delete;

  const mad::TransportFacts& facts() const override { return facts_; }
  const mad::LocalPort& local() const override { return local_; }
  /// Errors: invalid_argument, for any size but 256 octets.
  Result<bool> send(const mad::Address& to, ConstBytes mad) override;
  Result<std::optional<Received>> receive() override;
  bool poll_changed() override;
  int fd() const override { return -1; }
  bool wants_to_send() const override { return false; }

  ClientId client() const { return client_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  friend class VirtualSubnet;
  SubnetTransport(VirtualSubnet& net, ClientId client, std::uint32_t qp);
  mad::LocalPort read_local() const;

  VirtualSubnet& net_;
  ClientId client_;
  std::uint32_t qp_;
  mad::TransportFacts facts_{.whole_tid = false};
  mad::LocalPort local_;
  std::deque<Packet> inbox_;  // at most inbox_max
  Packet held_;               // the last result of receive()
  std::uint64_t dropped_ = 0;
};

class VirtualSubnet {
 public:
  explicit VirtualSubnet(Plan plan, const SubnetOptions& options = {}) : subnet_(std::move(plan), options, Instant{}) {}
  VirtualSubnet(const VirtualSubnet&) = delete;
  VirtualSubnet& operator=(const VirtualSubnet&) = delete;

  Subnet& subnet() { return subnet_; }
  const Subnet& subnet() const { return subnet_; }
  Instant now() const { return now_; }

  /// The subnet must outlive it. Lost requests are not returned (ClientOptions::own_timers). Errors: those of
  /// Subnet::attach().
  Said<std::unique_ptr<SubnetTransport>> attach(ClientOptions options);

  /// From now on every run() also runs `port`, which answers others. The port's owner must call leave() before it
  /// destroys the port.
  void join(mad::Port& port, SubnetTransport& transport) { joined_.push_back({&port, &transport}); }
  void leave(const mad::Port& port);

  /// Runs the task to its end. `transport` belongs to this subnet, or forwards to one that does. `stop()` is called in
  /// each turn; true cancels the task. A task is also cancelled if nothing is in flight and no deadline is set, because
  /// it would wait for ever. Errors: the transport's.
  template <class A, class StopFn>
  Result<mad::detail::Awaited<A>> run(mad::Port& port, mad::Transport& transport, A awaitable, StopFn stop) {
    stuck_ = false;
    return mad::run(
        port, transport, std::move(awaitable), [this] { return now_; },
        [this](mad::Transport&, Instant deadline) { wait(deadline); },
        // Called first in any case: it may show progress.
        [this, &stop] { return stop() || stuck_; });
  }
  template <class A>
  Result<mad::detail::Awaited<A>> run(mad::Port& port, mad::Transport& transport, A awaitable) {
    return run(port, transport, std::move(awaitable), [] { return false; });
  }
  /// The last run() cancelled a task that would have waited for ever.
  bool was_stuck() const { return stuck_; }

 private:
  friend class SubnetTransport;
  struct Member {
    mad::Port* port;
    SubnetTransport* transport;
  };

  void wait(Instant deadline);
  void distribute();

  Subnet subnet_;
  Instant now_{};
  bool stuck_ = false;
  std::vector<SubnetTransport*> transports_;  // by ClientId; null: a client attached elsewhere
  std::vector<Member> joined_;
};

}  // namespace parley::sim::subnet
