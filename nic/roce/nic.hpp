// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State shared by the device and its queue pairs; exists until the last of them is gone.
#pragma once
#include <deque>
#include <map>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/flat_map.hpp"
#include "base/tick_budget.hpp"
#include "nic/common/objects.hpp"
#include "nic/roce/device.hpp"
#include "nic/roce/mtu.hpp"
#include "wire/ib/packet.hpp"

namespace parley::nic::roce {

class Qp;
class EventReceiver;

/// Where to send packets, and where they come from.
struct Path {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint16_t source_port = 0;
};

using wire::ib::p_keys_match;

/// Numbers of queue pairs, or of XRC shared receive queues. They are assigned in order.
struct Numbers {
  static constexpr std::uint32_t smallest = 2;  // 0 and 1 are reserved for management
  static constexpr std::uint32_t largest = PARLEY_IB_QPN_MULTICAST - 1;
  static constexpr int prefix_bits = 8, prefix_max = 254;

  std::uint32_t least = smallest, most = largest;
  std::uint32_t next = smallest;

  /// All with this top octet; 0: all.
  static constexpr Numbers with_prefix(std::uint8_t prefix) {
    if (prefix == 0) return {};
    const std::uint32_t first = std::uint32_t{prefix} << (24 - prefix_bits);
    return {.least = first, .most = first | ((1U << (24 - prefix_bits)) - 1), .next = first};
  }
  bool contains(std::uint32_t number) const { return number >= least && number <= most; }
  std::size_t size() const { return most - least + 1; }
  /// One that is not in `taken`, which must not have all.
  template <class Taken>
  std::uint32_t assign(const Taken& taken) {
    while (taken(next)) advance();
    const std::uint32_t number = next;
    advance();
    return number;
  }

 private:
  void advance() { next = next >= most ? least : next + 1; }
};

struct Nic : Counted {
  explicit Nic(const DeviceOptions& given);

  const Gid& gid(std::uint8_t index) const;
  std::optional<std::uint8_t> find_gid(const Gid& wanted) const;
  /// Only at that index, if one is given.
  std::optional<std::uint8_t> find_gid(const Gid& wanted, std::optional<std::uint8_t> at) const;
  /// The GID of the path is still there.
  bool can_send(const Path& path) const { return gid(path.sgid_index) == path.source; }
  /// Errors: invalid_argument, unsupported, with a sentence about the field of AhAttr. The source port is the caller's to set.
  Result<Path> path_of(const AhAttr& attr) const;

  void add(Qp& qp);
  void remove(Qp& qp);
  /// Null if there is none.
  Qp* find_qp(std::uint32_t number);

  void mark_dirty(Qp& qp);
  void unlink_dirty(Qp& qp);
  /// At `at` or before; `never` removes no deadline.
  void wake(Qp& qp, Instant at);

  /// A group got its first queue pair, or lost its last one.
  Result<void> join(const Gid& group) const;
  void leave(const Gid& group) const noexcept;

  void notify(Qp& qp, QueuePairEvent::Kind kind);
  /// Reports PeerSilent to a manager.
  void warn(Qp& qp);
  std::optional<QpNotice> take(std::deque<QpNotice>& list, std::uint32_t EventReceiver::*waiting);
  /// Drops its pending events.
  void forget(EventReceiver& receiver);

  DeviceOptions options;
  std::uint32_t port_mtu = 1024;
  Counters counters;
  wire::ib::Packet coming_in, going_out;  // the current ones: initialising them for each packet costs more than filling
                                          // them in
  Ref<Tables> tables;
  Numbers qpns, srqns;
  FlatMap<std::uint32_t, Qp*, CountedHash> by_number{CountedHash{}};
  Qp* found = nullptr;     // result of the last lookup; the next packet is probably for it as well
  std::vector<Qp*> slots;  // indices of `timers`
  std::vector<std::uint32_t> free_slots;
  DeadlineQueue timers;
  /// Keepalives that go at once: more do not fit in the receive buffer of a UDP socket (Linux: 277 of such packets) and would be lost, and
  /// lost again when they are repeated together.
  TickBudget keepalives{std::chrono::milliseconds(20), 128};
  static constexpr std::size_t many = 256;  // queue pairs, from which on Qp::ask_at() goes by ticks
  Qp* first_dirty = nullptr;
  Qp* last_dirty = nullptr;
  std::map<Gid, std::vector<Qp*>> groups;
  PacketGroups* joins = nullptr;  // from RoceDevice::set_groups(), after its first call
  bool asks_to_join = false;
  Instant now{};                         // of the driver's last call
  PacketPace* pace = nullptr;            // RoceDevice::set_pace()
  std::deque<QpNotice> notices, events;  // at most one of each kind of each queue pair, PeerSilent included
  std::map<const AddressHandle*, Path> handles;
  std::map<const XrcDomain*, Ref<XrcDomainRing>> domains;

 private:
  void queue_event(EventReceiver& receiver, QueuePairEvent::Kind kind);
};

}  // namespace parley::nic::roce
