// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams on RoCE: without a NIC, by QP1 or a UD queue pair of Parley's RoCE engine over UDP port 4791, whose address is
// this transport's alone meanwhile; or by a UD queue pair of one of the machine's devices.
#pragma once
#include <memory>
#include <optional>

#include "drivers/mad/ibsim.hpp"
#include "parley/address.hpp"

namespace parley::mad_driver {

struct RoceOptions {
  Address local;            ///< of this machine; its port says nothing
  bool queue_pair = false;  ///< a UD queue pair in place of QP1
};

class RoceTransport : public mad::Transport {
 public:
  /// Errors: a sentence; among others that somebody has port 4791 of the address.
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
  /// What was sent leaves, and what has come is there for inner(). Errors: the device is gone.
  virtual Result<void> drive() = 0;
};

struct VerbsOptions {
  std::string device;                      ///< "rxe0"; empty: the one with the best GID
  std::optional<std::uint32_t> gid_index;  ///< in its port's table; none: the best
};

/// A UD queue pair of one of this machine's RoCE devices, through libibverbs. The first datagram to a port waits for the system to find
/// that, a fifth of a second at most. Errors: a sentence; among others that this Parley was built without libibverbs.
OrText<std::unique_ptr<RoceTransport>> open_verbs(const VerbsOptions& options);

}  // namespace parley::mad_driver
