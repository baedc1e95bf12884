// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node whose processes share one NIC of this program: Parley's own, or the simulator's. It has the registry, one XRC
// domain and the membership of each process. When a process ends, the node closes its handles in any state, as a kernel
// does.
#pragma once
#include <list>

#include "xrc/attachment.hpp"

namespace parley::xrc {

class Node {
 public:
  /// One process's membership.
  class Member {
   public:
    Member(Registry& registry, MemberId id, const Instant& now, parley::Device& nic, XrcDomain& domain)
        : registrar(registry, id, now), device(nic, domain), attachment(registrar, device) {}
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    LocalRegistrar registrar;
    Device device;
    Attachment attachment;
  };

  /// The NIC outlives the node and assigns the queue pair numbers. Errors: those of Registry::create and
  /// Device::open_xrcd.
  static Result<std::unique_ptr<Node>> create(Instant now, parley::Device& nic, RegistryOptions options = {});

  /// The pointer is valid until leave() or dead(). Errors: those of Registry::open.
  Result<Member*> open(Process process);
  /// Errors: busy (it has registrations or queues; not if `force`).
  Result<void> leave(Member& member, bool force);
  /// The member's process has ended, for any reason.
  void dead(Member& member);

  /// An event of the NIC. False: it is about none of the node's TGT queue pairs.
  bool handle(const AsyncEvent& event);
  /// Call it at each turn of the NIC's driver. Members' calls use `now` as their time until the next turn.
  void turn(Instant now);
  Instant next_deadline() const { return registry_.next_deadline(); }

  Registry& registry() { return registry_; }
  XrcDomain& domain() { return *domain_; }

 private:
  Node(Instant now, parley::Device& nic, Registry registry, std::unique_ptr<XrcDomain> domain)
      : nic_(nic), registry_(std::move(registry)), domain_(std::move(domain)), now_(now) {}
  void reap();
  void drop(Member& member);

  parley::Device& nic_;
  Registry registry_;
  std::unique_ptr<XrcDomain> domain_;
  Instant now_;
  std::list<Member> members_;  // at most RegistryOptions::members_max
};

}  // namespace parley::xrc
