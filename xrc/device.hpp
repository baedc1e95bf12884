// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An XRC domain of a NIC as one process has it: its handles on TGT queue pairs and its shared receive queues. To register is to
// open a handle (ibv_open_qp), and the queue pair ends with the last of them. nic/roce, the simulator's HCA and libibverbs are
// all parley::Device, so this is the same over each.
#pragma once
#include <map>
#include <memory>
#include <optional>

#include "parley/verbs.hpp"
#include "parley/xrc.hpp"

namespace parley::xrc {

/// Of what is set, so that two who set up the same queue pair can be compared; 0 is none.
std::uint64_t digest_of(const QpAttr& attr);

/// What a NIC says of a TGT queue pair.
struct DeviceNews {
  std::uint32_t qpn = 0;
  EventKind kind = EventKind::none;  ///< none: nothing that registrants need to know
};

class Device {
 public:
  /// Both outlive it.
  Device(parley::Device& nic, XrcDomain& domain) : nic_(nic), domain_(domain) {}

  /// A new one, of which this process has the first handle. Returns its number.
  Result<std::uint32_t> create_tgt();
  /// Errors: invalid_argument (no such TGT queue pair in the domain). A second call changes nothing.
  Result<void> open_tgt(std::uint32_t qpn);
  void close_tgt(std::uint32_t qpn) { handles_.erase(qpn); }
  /// Null: this process has no handle on it.
  QueuePair* tgt(std::uint32_t qpn) const;

  /// Its completions go to `cq`. Errors: those of parley::Device::create_srq.
  Result<SharedReceiveQueue*> create_srq(PdHandle pd, std::size_t capacity, CompletionQueue& cq);
  void destroy_srq(std::uint32_t srqn) { srqs_.erase(srqn); }

  /// None: it is about none of this process's handles.
  std::optional<DeviceNews> read(const AsyncEvent& event) const;
  /// As the system does when the process ends.
  void close_all();
  std::size_t handle_count() const { return handles_.size(); }
  parley::Device& nic() const { return nic_; }
  XrcDomain& domain() const { return domain_; }

 private:
  parley::Device& nic_;
  XrcDomain& domain_;
  std::map<std::uint32_t, std::unique_ptr<QueuePair>> handles_;          // by number; at most the registry's tgts_max
  std::map<std::uint32_t, std::unique_ptr<SharedReceiveQueue>> srqs_{};  // by number; at most its srqs_max
};

}  // namespace parley::xrc
