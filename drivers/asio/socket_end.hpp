// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a TCP socket ends, and how it notices that its peer has.
#pragma once
#include "parley/time.hpp"

namespace parley::asio_driver {

/// Whether close(), and the end of the process, sends RST; otherwise what is queued, and FIN. A listener's choice is that of its streams.
void reset_when_closed(int fd, bool reset) noexcept;

/// StreamCommand::keepalive and dead_after: SO_KEEPALIVE and TCP_USER_TIMEOUT (RFC 5482). A listener's are those of its streams. Linux
/// takes keepalives in whole seconds, at least 1 s, and checks once a second. TCP_USER_TIMEOUT is therefore 1 s less than dead_after, but at
/// least half of it: the connection fails in the last second of dead_after.
void watch_peer(int fd, Duration keepalive, Duration dead_after) noexcept;

/// Whether the peer has acknowledged all octets of a stream that is up or has ended without an error (Linux: SIOCOUTQ, which counts this
/// side's FIN, if it was queued, as one octet; the FIN may be missing). True where the system does not say.
bool all_acknowledged(int fd, bool fin_queued) noexcept;

/// A stream failed with this error because its peer did not answer, by the stream's own count or by word of the network.
bool means_silence(int error) noexcept;

}  // namespace parley::asio_driver
