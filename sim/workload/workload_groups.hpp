// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host's use of multicast groups, as a program would do it: it listens at an address, so that the group can be joined
// on its interface, creates a UD queue pair, attaches it, and detaches it when its membership ends. A sender only needs
// a queue pair and an address handle. In addition, each host with RoCE has a queue pair for every group that never
// joins it, and must receive nothing.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parley/cm.hpp"
#include "parley/verbs.hpp"
#include "parley/wire/ib.h"
#include "sim/check/completions.hpp"
#include "sim/check/groups.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {

/// "b in 239.1.2.3 (member 2)": for GroupReceiver and GroupOutcome.
std::string member_label(const Scenario& scenario, std::size_t member);

/// State over all hosts, and over their crashes.
struct GroupWork {
  enum class MembershipState : std::uint8_t { due, in, over };
  struct Sent {
    std::uint32_t posted = 0, completed = 0;
  };
  explicit GroupWork(const Scenario& scenario)
      : used(!scenario.members.empty() || !scenario.sends.empty()),
        stays(scenario.members.size()),
        sent(scenario.sends.size()) {}
  bool used;
  std::vector<MembershipState> stays;  ///< by member
  std::vector<Sent> sent;              ///< by send
  check::GroupHistory history;
};

class GroupUser {
 public:
  static constexpr std::uint32_t window_max = 16;  // datagrams posted and not completed, for each send
  static constexpr std::size_t network_header = PARLEY_ROCE_GRH_LEN;

  struct HostContext {
    const Scenario* scenario = nullptr;
    GroupWork* work = nullptr;
    Host* host = nullptr;
    std::uint16_t nic = 0;
    check::Judge* judge = nullptr;
  };
  enum class Due : std::uint8_t { join, leave, send };
  using SetTimer = std::function<void(Instant, Due, std::size_t index)>;

  GroupUser(const HostContext& seat, SetTimer set_timer) : seat_(seat), set_timer_(std::move(set_timer)) {}

  void start(bool restarted);
  /// Its host has crashed: all state is dropped.
  void crash();
  void turn();
  /// False: the event belongs to none of its listeners.
  bool handle(cm::Event& event);
  void due(Due what, std::size_t index);
  std::size_t listeners() const { return listeners_.size(); }

 private:
  struct ReceiverQp {
    std::size_t record = 0;             // in GroupHistory::receivers
    std::optional<std::size_t> member;  // index in Scenario::members
    Bytes memory;
    MemoryRegion region{};
    std::unique_ptr<QueuePair> qp;
    std::size_t slot = 0;  // octets
    std::uint64_t posted = 0;
    std::uint32_t slots = 0;
    check::Ledger ledger{"receive"};
  };
  struct SenderQp {
    std::size_t send = 0, record = 0;  // in Scenario::sends, GroupHistory::sources
    Bytes memory;
    MemoryRegion region{};
    std::unique_ptr<AddressHandle> ah;
    std::unique_ptr<QueuePair> qp;
    std::vector<std::size_t> free;
    std::deque<std::size_t> in_flight;
    std::uint64_t next_wr = 1;
    check::Ledger ledger{"send"};
  };

  const Scenario& scenario() const { return *seat_.scenario; }
  check::GroupHistory& history() { return seat_.work->history; }
  Instant now() const { return seat_.host->now(); }
  bool stays_away(std::size_t member) const;
  void open(Address::Family family);
  void open_receiver(const Address& group, std::optional<std::size_t> member);
  void open_sender(std::size_t send);
  std::unique_ptr<QueuePair> make_qp(std::uint32_t depth);
  std::unique_ptr<AddressHandle> make_ah(const Address& group);
  std::uint32_t octets_of(const Address& group) const;
  void post_receive(ReceiverQp& receiver);
  void join(ReceiverQp& receiver);
  void leave(ReceiverQp& receiver);
  void advance(SenderQp& sender);
  bool post(SenderQp& sender);
  void completed(const WorkCompletion& completion);
  void on_datagram(ReceiverQp& receiver, const WorkCompletion& completion);
  void wrong(std::string_view checker, std::string text) { seat_.judge->add(checker, now(), {}, std::move(text)); }

  HostContext seat_;
  SetTimer set_timer_;
  bool restarted_ = false;
  PdHandle pd_ = 0;
  std::unique_ptr<CompletionQueue> cq_;
  std::vector<std::pair<cm::Id, Address::Family>> listeners_;  // a listener holds the address, so that groups can be
                                                               // joined on its interface
  std::deque<ReceiverQp> receivers_;
  std::deque<SenderQp> senders_;
};

}  // namespace parley::sim
