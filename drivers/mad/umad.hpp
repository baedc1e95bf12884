// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The machine's InfiniBand devices as a transport, through libibumad and the kernel's umad. The kernel implements RMPP,
// uses the upper half of transaction IDs itself and retransmits a request until its own time limit.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "drivers/mad/ibsim.hpp"

namespace parley::mad_driver {

struct UmadOptions {
  std::string device;     ///< "mlx5_0"; empty: the first with an active InfiniBand port, or else the first
  std::uint8_t port = 0;  ///< 0: the first active one, or else the first
  Duration kernel_time = std::chrono::seconds(1);  ///< interval at which the kernel retransmits a request
  unsigned kernel_retries = 3;
  std::string sysfs = "/sys/class/infiniband";       ///< where the kernel shows the attributes of devices
  Duration recheck_every = std::chrono::seconds(1);  ///< poll_changed() reads them this often
};

/// "mlx5_0/1" for each port; empty without devices, or without libibumad.
std::vector<std::string> umad_ports();
/// Errors: no libibumad in this build, no such device or port, no permission; each with advice.
OrText<std::unique_ptr<mad::Transport>> open_umad(const UmadOptions& options);

}  // namespace parley::mad_driver
