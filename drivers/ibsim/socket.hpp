// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibsim's sockets, for both sides.
#pragma once
#include <string>

#include "drivers/ibsim/protocol.hpp"
#include "parley/time.hpp"

namespace parley::ibsim {

/// In the abstract namespace. The zero behind the name counts. False: errno says why.
bool bind_to(int fd, const std::string& name);
bool connect_to(int fd, const std::string& name);

/// Sends `message` by a control socket and waits for its answer, which is of the same type, or `error`: refused. What comes too
/// late for whoever asked before is passed over. False: errno says why; ETIMEDOUT: none came; EBADMSG: it is no answer.
bool exchange(int fd, Control& message, Duration patience);

}  // namespace parley::ibsim
