// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node whose processes share one NIC of this program: Parley's own, or the simulator's. It has the registry, one XRC domain and
// each process's part in them, and does what a kernel does when a process ends: its handles are closed, whatever it was about.
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

  /// The NIC outlives it. Numbers of queue pairs are the NIC's. Errors: those of Registry::create and Device::open_xrcd.
  static Result<std::unique_ptr<Node>> create(Instant now, parley::Device& nic, RegistryOptions options = {});

  /// It stays where it is until leave() or dead(). Errors: those of Registry::open.
  Result<Member*> open(Process process);
  /// Errors: busy (it has registrations or queues; not if `force`).
  Result<void> leave(Member& member, bool force);
  /// Its process has ended, by whatever cause.
  void dead(Member& member);

  /// An event of the NIC. False: it is about no TGT queue pair here.
  bool handle(const AsyncEvent& event);
  /// At each turn of whatever drives the NIC; the calls of members happen at that time.
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
  std::list<Member> members_;  // the registry's members_max
};

}  // namespace parley::xrc
