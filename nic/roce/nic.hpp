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
class Told;

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

  /// A number for a queue pair or an XRC shared receive queue that is not in `taken`.
  template <class Taken>
  static std::uint32_t take_number(std::uint32_t& next, std::uint32_t least, const Taken& taken) {
    while (taken(next)) next = next >= number_max ? least : next + 1;
    const std::uint32_t number = next;
    next = next >= number_max ? least : next + 1;
    return number;
  }
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
  std::optional<QpNotice> take(std::deque<QpNotice>& list, std::uint32_t Told::*waiting);
  /// Drops its pending events.
  void forget(Told& told);

  static constexpr std::uint32_t number_max = PARLEY_IB_QPN_MULTICAST - 1;
  static constexpr std::uint32_t least_number = 2;  // 0 and 1 are reserved for management

  DeviceOptions options;
  std::uint32_t port_mtu = 1024;
  Counters counters;
  wire::ib::Packet coming_in, going_out;  // the current ones: initialising them for each packet costs more than filling
                                          // them in
  Ref<Tables> tables;
  std::uint32_t next_qpn = 0, next_srqn = 0;
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
  std::deque<QpNotice> notices, events;  // at most one of each kind of each queue pair, PeerSilent included
  std::map<const AddressHandle*, Path> handles;
  std::map<const XrcDomain*, Ref<XrcDomainRing>> domains;

 private:
  void tell(Told& told, QueuePairEvent::Kind kind);
};

}  // namespace parley::nic::roce
