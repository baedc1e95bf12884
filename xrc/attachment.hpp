// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One process's use of an XRC domain: what the registry says and what the NIC has, kept together. Who is registered has a handle,
// and who has none is not.
#pragma once
#include "xrc/device.hpp"
#include "xrc/registrar.hpp"

namespace parley::xrc {

class Attachment {
 public:
  /// Both outlive it.
  Attachment(Registrar& registrar, Device& device) : registrar_(registrar), device_(device) {}

  /// A new one; or, with a peer, the one that is there for it.
  Result<Created> create(std::optional<Peer> peer = {});
  /// Of a queue pair that somebody else made on this NIC, as a connection manager does. Errors: conflict (the peer has one already).
  Result<TgtId> adopt(std::uint32_t qpn, std::optional<Peer> peer);
  /// Registers, and opens a handle. Errors: those of Registry::enlist, and of the NIC, which then leave nothing behind.
  Result<Registered> attach(TgtId id);
  /// Closes the handle, and unregisters. Errors: those of Registry::unregister; the handle is closed all the same.
  Result<std::uint32_t> release(TgtId id);
  /// Errors: of the NIC, and those of Registry::modify. True: another process had done it, with the same attributes.
  Result<bool> modify(TgtId id, const QpAttr& attr);
  Result<TgtView> query(TgtId id) { return registrar_.query(id); }

  Result<SharedReceiveQueue*> create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq);
  Result<void> destroy_srq(std::uint32_t srqn);

  /// The NIC's event is about one of this process's, and the registry has been told.
  bool handle(const AsyncEvent& event);
  std::optional<Event> poll_event() { return registrar_.poll_event(); }
  /// The registry has ended it, whoever was still registered.
  void ended(TgtId id);

  Registrar& registrar() const { return registrar_; }
  Device& device() const { return device_; }

 private:
  Result<Created> make(const Created& reserved);
  /// With the number of one that this process has a handle on; or the error for which it has none, and then it is not reserved
  /// any more.
  Result<TgtId> publish(TgtId reserved, const Result<std::uint32_t>& qpn);

  Registrar& registrar_;
  Device& device_;
  std::map<std::uint32_t, TgtId> names_;  // of the handles, by number
  std::set<std::uint32_t> creator_;       // of those: whoever made it tells when its first packet comes
};

}  // namespace parley::xrc
