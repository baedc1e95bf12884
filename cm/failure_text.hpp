// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Failures as text that every transport over the system's sockets shares. The driver gives the system's own error code;
// here it becomes an Errc and a piece of advice.
#pragma once
#include <string>
#include <system_error>

#include "cm/pending.hpp"
#include "parley/address.hpp"
#include "parley/failure.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley::cm {

Failure plain_failure(const Step& step, Errc code, std::string rule, std::string received, std::string advice);
Failure system_failure(const Step& step, std::error_code why, const Address& address);
Failure listen_failure(const Step& step, std::error_code why, const Address& address);
/// Every local port towards `address` is in use.
Failure ports_exhausted(const Step& step, const Address& address);
/// Behind "no answer", on every transport.
inline constexpr const char* silent_peer_advice =
    "check that the peer's host is up and the path to it, then connect again";
/// `silent`: for how long, as text; empty if that is not known.
Failure no_answer(const Step& step, std::string rule, const Address& peer, const std::string& silent);
/// An end while `left` requests of this side were not complete. `known`: this side asked for it, or the peer said how it ended for it.
Failure requests_left(const Step& step, std::size_t left, bool known);
/// How long before the end of dead_after a silent peer's connection manager is asked whether its host is up: a sixth of dead_after (2 s
/// of 12 s), and at most half of what keepalive leaves of it.
Duration last_word(Duration keepalive, Duration dead_after);
/// Its connection manager answered: the peer's host is up, and its queue pair answers nothing any more.
Failure closed_in_silence(const Address& peer, Duration silent);
/// ConnectOptions::timeout is over.
Failure out_of_time(const Step& step, Duration timeout);
/// Provider::detach(): only a request that nobody has decided on, and that has no queue pair, moves. `there`: the id is a
/// connection.
Result<void> check_detach(bool there, bool deciding, bool has_queue_pair);
/// `limit`: what `scarce` allows; not used for streams, which the driver counts.
Failure no_room(const Step& step, Scarce scarce, std::uint32_t limit, std::string received);

}  // namespace parley::cm
