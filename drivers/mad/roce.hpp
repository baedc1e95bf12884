// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams on RoCE. Without a NIC: by QP1 or a UD queue pair of Parley's RoCE engine over UDP port 4791, on
// an address that only this transport uses. Or by a UD queue pair of one of the machine's devices.
#pragma once
#include <memory>
#include <optional>

#include "drivers/mad/ibsim.hpp"
#include "parley/address.hpp"

namespace parley::mad_driver {

struct RoceOptions {
  Address local;            ///< of this machine; its port is ignored
  bool queue_pair = false;  ///< a UD queue pair instead of QP1
};

class RoceTransport : public mad::Transport {
 public:
  /// Errors: a sentence; for instance if port 4791 of the address is in use.
  static OrText<std::unique_ptr<RoceTransport>> open(const RoceOptions& options);
  const mad::TransportFacts& facts() const final { return inner().facts(); }
  const mad::LocalPort& local() const final { return inner().local(); }
  Result<bool> send(const mad::Address& to, ConstBytes mad) final { return inner().send(to, mad); }
  Result<std::optional<Received>> receive() final;
  bool poll_changed() final { return false; }
  bool wants_to_send() const final { return false; }
  /// 1, or the UD queue pair's number.
  virtual std::uint32_t qp_num() const = 0;

 private:
  virtual mad::Transport& inner() const = 0;
  /// Sends queued datagrams, and receives datagrams for inner(). Errors: the device is gone.
  virtual Result<void> drive() = 0;
};

struct VerbsOptions {
  std::string device;                      ///< "rxe0"; empty: the one with the best GID
  std::optional<std::uint32_t> gid_index;  ///< in its port's table; none: the best one
};

/// A UD queue pair of one of this machine's RoCE devices, through libibverbs. The first datagram to a port waits until
/// the system has resolved it, at most a fifth of a second. Errors: a sentence; for instance if this Parley was built
/// without libibverbs.
OrText<std::unique_ptr<RoceTransport>> open_verbs(const VerbsOptions& options);

}  // namespace parley::mad_driver
