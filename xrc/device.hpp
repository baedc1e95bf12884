// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One process's view of an XRC domain of a NIC: its handles of TGT queue pairs and its shared receive queues.
// Registering opens a handle (ibv_open_qp); the queue pair ends with its last handle. nic/roce, the simulator's HCA and
// libibverbs all implement parley::Device, so that this class works with each.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "parley/verbs.hpp"
#include "parley/xrc.hpp"

namespace parley::xrc {

/// A digest of the attributes that are set, to compare two processes that set up the same queue pair. Never 0, which
/// means "none".
std::uint64_t digest_of(const QpAttr& attr);

/// A NIC's report about a TGT queue pair.
struct TgtReport {
  std::uint32_t qpn = 0;
  EventKind kind = EventKind::none;  ///< none: nothing that registrants need to know
};

class Device {
 public:
  /// Both must outlive this object.
  Device(parley::Device& nic, XrcDomain& domain) : nic_(nic), domain_(domain) {}

  /// Creates a TGT queue pair with its first handle in this process. Returns its number.
  Result<std::uint32_t> create_tgt();
  /// Errors: invalid_argument (no such TGT queue pair in the domain). A second call changes nothing.
  Result<void> open_tgt(std::uint32_t qpn);
  void close_tgt(std::uint32_t qpn) { handles_.erase(qpn); }
  /// Null: this process has no handle of it.
  QueuePair* tgt(std::uint32_t qpn) const;

  /// Its completions go to `cq`. Errors: those of parley::Device::create_srq.
  Result<SharedReceiveQueue*> create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq);
  void destroy_srq(std::uint32_t srqn) { srqs_.erase(srqn); }

  /// None: the event is about none of this process's handles.
  std::optional<TgtReport> read(const AsyncEvent& event) const;
  /// Closes all handles and queues, as the system does when the process ends.
  void close_all();
  std::size_t handle_count() const { return handles_.size(); }
  parley::Device& nic() const { return nic_; }
  XrcDomain& domain() const { return domain_; }

 private:
  parley::Device& nic_;
  XrcDomain& domain_;
  std::map<std::uint32_t, std::unique_ptr<QueuePair>> handles_;          // by number; at most RegistryOptions::tgts_max
  std::map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> srqs_{};  // by number; at most RegistryOptions::srqs_max
};

}  // namespace parley::xrc
