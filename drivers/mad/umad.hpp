// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The machine's InfiniBand devices as a transport, through libibumad and the kernel's umad. The kernel does RMPP, keeps the upper
// half of transaction IDs for itself and repeats a request until its own time is over.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "drivers/mad/ibsim.hpp"

namespace parley::mad_driver {

struct UmadOptions {
  std::string device;     ///< "mlx5_0"; empty: the first that has an InfiniBand port that is active, or the first
  std::uint8_t port = 0;  ///< 0: likewise
  Duration kernel_time = std::chrono::seconds(1);  ///< after which the kernel repeats a request
  unsigned kernel_retries = 3;
};

/// "mlx5_0/1" for each port; empty without devices, or without libibumad.
std::vector<std::string> umad_ports();
/// Errors: no libibumad in this build, no such device or port, no permission; each says what to do.
OrText<std::unique_ptr<mad::Transport>> open_umad(const UmadOptions& options);

}  // namespace parley::mad_driver
