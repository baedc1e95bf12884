// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibsim's sockets, for both client and server.
#pragma once
#include <sys/socket.h>

#include <string>

#include "drivers/ibsim/protocol.hpp"
#include "parley/time.hpp"

namespace parley::ibsim {

/// In the abstract namespace. The NUL after the name is part of it. False: see errno.
bool bind_to(int fd, const std::string& name);
bool connect_to(int fd, const std::string& name);

/// Sends `message` on a control socket and waits for its answer, which has the same type, or `error`: refused. Late
/// answers to earlier requests are skipped. `server`: a pidfd of the answering process, or -1. False: see errno;
/// ETIMEDOUT: no answer; EBADMSG: invalid answer; ECONNREFUSED: the server has ended.
bool exchange(int fd, Control& message, Duration patience, int server = -1);

/// The process that sent a datagram to a socket with ask_for_sender(); 0 if this process cannot know it.
std::uint32_t sender_in(msghdr& message);
/// Requests that each datagram received on a socket carries the sender's process ID.
bool ask_for_sender(int fd);
/// The same exchange on such a socket; `pid`: the answering process, 0 if this process cannot know it.
bool exchange_with_sender(int fd, Control& message, Duration patience, std::uint32_t& pid);

}  // namespace parley::ibsim
