// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Opens transports by name: "ibsim", "ibsim:NAME/NODE", "umad", "umad:DEVICE/PORT", "roce:ADDRESS", "roce:ADDRESS/qp",
// "verbs", "verbs:DEVICE/GID".
#pragma once
#include "drivers/mad/ibsim.hpp"

namespace parley::mad_driver {

struct Opened {
  std::unique_ptr<mad::Transport> transport;
  std::string name;          ///< for messages: "ibsim 'sim'"
  std::uint32_t qp_num = 1;  ///< queue pair on which it receives, in addition to QP0 if there is one
};

/// The error in the text, or empty. An empty text is valid.
std::string check_where(std::string_view where);
/// Empty: ibsim if IBSIM_SOCKNAME or SIM_HOST is set, else a device of this machine. Errors: why no transport is
/// available, as one line.
OrText<Opened> open_where(std::string_view where);

}  // namespace parley::mad_driver
