// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams over UDP port 4791, without a NIC: QP1 or a UD queue pair of Parley's RoCE engine, with its sockets. The machine's
// address is this transport's alone meanwhile: whoever connects queue pairs there is another program.
#pragma once
#include <memory>

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
  /// 1, or the UD queue pair's number.
  virtual std::uint32_t qp_num() const = 0;
};

}  // namespace parley::mad_driver
