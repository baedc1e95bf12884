// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a TCP socket is closed, and how it detects that its peer is gone.
#pragma once
#include "parley/time.hpp"

namespace parley::asio_driver {

/// Whether close(), and the end of the process, sends RST; otherwise the queued octets, and FIN. A listener's setting
/// is inherited by its streams.
void reset_when_closed(int fd, bool reset) noexcept;

/// StreamCommand::keepalive and dead_after: SO_KEEPALIVE and TCP_USER_TIMEOUT (RFC 5482). A listener's are inherited by
/// its streams. Linux accepts keepalives in whole seconds, at least 1 s, and checks once a second. TCP_USER_TIMEOUT is
/// therefore 1 s less than dead_after, but at least half of it: the connection fails in the last second of dead_after.
/// The owner of the socket triggers each keepalive at its time (KeepalivePace). The system's own keepalives follow 1 s
/// later; they serve an owner that is stopped or busy.
void watch_peer(int fd, Duration keepalive, Duration dead_after) noexcept;

/// `keepalive` as Linux accepts it: whole seconds, at least 1 s, at most 32766 s; 0 if it is 0 or less.
Duration in_whole_seconds(Duration keepalive) noexcept;

/// The system sends a keepalive within a few milliseconds if nothing is unacknowledged and the peer has sent nothing for
/// 1 s. Until let_rest() it repeats that after each second of silence.
void ask_peer(int fd) noexcept;
/// After ask_peer(): sets the system's own keepalives as watch_peer() had set them.
void let_rest(int fd, Duration keepalive) noexcept;

/// Whether the peer has acknowledged all octets of a stream that is established or has ended without an error (Linux:
/// SIOCOUTQ, which counts this side's FIN, if it was queued, as one octet; the FIN may be missing). True if the system
/// does not report it.
bool all_acknowledged(int fd, bool fin_queued) noexcept;

/// A stream failed with this error because its peer did not answer, by the stream's own timeout or according to the
/// network.
bool means_silence(int error) noexcept;

}  // namespace parley::asio_driver
