// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibsim's sockets, for both sides.
#pragma once
#include <sys/socket.h>

#include <string>

#include "drivers/ibsim/protocol.hpp"
#include "parley/time.hpp"

namespace parley::ibsim {

/// In the abstract namespace. The zero behind the name counts. False: errno says why.
bool bind_to(int fd, const std::string& name);
bool connect_to(int fd, const std::string& name);

/// Sends `message` by a control socket and waits for its answer, which is of the same type, or `error`: refused. What comes too
/// late for whoever asked before is passed over. `server`: a pidfd of who answers, or -1. False: errno says why; ETIMEDOUT: none came;
/// EBADMSG: it is no answer; ECONNREFUSED: the server has ended.
bool exchange(int fd, Control& message, Duration patience, int server = -1);

/// The process that sent a datagram to a socket that asks for senders; 0 if this one cannot know it.
std::uint32_t sender_in(msghdr& message);
/// Has each datagram that comes to a socket say whose process sent it.
bool ask_for_sender(int fd);
/// The same exchange by such a socket; `pid`: of who answered, 0 if this process cannot know it.
bool exchange_with_sender(int fd, Control& message, Duration patience, std::uint32_t& pid);

}  // namespace parley::ibsim
