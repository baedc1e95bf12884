// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley with the benches' work, through its public interface: TcpHost, cm::Manager and the verbs, as a user would.
#pragma once
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/harness.hpp"
#include "bench/raw_epoll.hpp"
#include "parley/tcp_host.hpp"

namespace parley::bench {

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw std::runtime_error(std::string(what) + ": " + result.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// One way to set up a connection, and the octets that it sends with 16 octets of private data each way.
struct HandshakeForm {
  std::string name;
  mpa::Options initiator;
  mpa::Options responder;
  HandshakeOctets octets;
};

/// Revision 1 classic, revision 2, and every Rtr form of both.
std::vector<HandshakeForm> handshake_forms();

/// Makes one connection of this form; throws if the number of octets differs from what the raw limit sends.
void check_octets(const HandshakeForm& form);

/// As raw_connect_and_close: connect, accept, both ends established, graceful disconnect by the initiator.
Sample parley_connect_and_close(const HandshakeForm& form, double seconds);
/// As raw_keep_open.
Sample parley_keep_open(const HandshakeForm& form, long n, long more = 0);

enum class Operation : std::uint8_t { write, send, read };

/// As raw_bulk: `total` octets in messages of `chunk`, from memory region to memory region. The data is checked once.
Sample parley_bulk(const BulkOptions& options, Operation operation, bool crc);
/// As raw_ping_pong, with Sends.
Sample parley_ping_pong(const PingPongOptions& options, bool crc);

}  // namespace parley::bench
