// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One process's use of an XRC domain. Keeps the registry and the NIC consistent: the process has a handle of a TGT
// queue pair exactly while it is registered with it.
#pragma once
#include "xrc/device.hpp"
#include "xrc/registrar.hpp"

namespace parley::xrc {

class Attachment {
 public:
  /// Both must outlive this object.
  Attachment(Registrar& registrar, Device& device) : registrar_(registrar), device_(device) {}

  /// Creates a TGT queue pair. With a peer, registers instead with the one that exists for this peer.
  Result<Created> create(std::optional<Peer> peer = {});
  /// Registers a queue pair that other code created on this NIC, for example a connection manager. Errors: conflict
  /// (the peer already has one).
  Result<TgtId> adopt(std::uint32_t qpn, std::optional<Peer> peer);
  /// Registers, and opens a handle. Errors: those of Registry::enlist, and of the NIC; after these the process is not
  /// registered.
  Result<Registered> attach(TgtId id);
  /// Closes the handle, and unregisters. Errors: those of Registry::unregister; the handle is closed even then.
  Result<std::uint32_t> release(TgtId id);
  /// Errors: those of the NIC and of Registry::modify. True: another process has already done it with the same
  /// attributes.
  Result<bool> modify(TgtId id, const QpAttr& attr);
  Result<TgtView> query(TgtId id) { return registrar_.query(id); }

  Result<SharedReceiveQueue*> create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq);
  Result<void> destroy_srq(std::uint32_t srqn);

  /// Reports the NIC's event to the registry. False: it is about none of this process's queue pairs.
  bool handle(const AsyncEvent& event);
  std::optional<Event> poll_event() { return registrar_.poll_event(); }
  /// The registry has ended it: closes the handle.
  void ended(TgtId id);

  Registrar& registrar() const { return registrar_; }
  Device& device() const { return device_; }

 private:
  Result<Created> make(const Created& reserved);
  /// Publishes a reserved TGT queue pair under the number of a handle of this process. If `qpn` is an error, or
  /// publishing fails, drops the reservation and returns the error.
  Result<TgtId> publish(TgtId reserved, const Result<std::uint32_t>& qpn);

  Registrar& registrar_;
  Device& device_;
  std::map<std::uint32_t, TgtId> names_;  // of the handles, by number
  std::set<std::uint32_t> creator_;       // handles that this process created or adopted: only it reports `established`
};

}  // namespace parley::xrc
