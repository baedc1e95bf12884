// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts of failures shared by all transports over the system's sockets. The driver supplies the system's error code; these
// functions convert it to an Errc and a suggestion.
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
/// All local ports towards `address` are in use.
Failure ports_exhausted(const Step& step, const Address& address);
/// The suggestion after "no answer", on every transport.
inline constexpr const char* silent_peer_advice =
    "check that the peer's host is up and the path to it, then connect again";
/// `how_long` follows the peer's address, as " for 12 s"; empty if unknown.
Failure no_answer(const Step& step, std::string rule, const Address& peer, const std::string& how_long);
/// A connection ended while `left` requests of this side were incomplete. `known`: this side requested the end, or the peer
/// reported it.
Failure requests_left(const Step& step, std::size_t left, bool known);
/// How long before the end of dead_after the connection manager of a silent peer is asked whether its host is up: a sixth of
/// dead_after (2 s of 12 s), and at most half of the time between keepalive and dead_after.
Duration last_word(Duration keepalive, Duration dead_after);
/// The peer's connection manager answered, so its host is up, but its queue pair no longer answers.
Failure closed_in_silence(const Address& peer, Duration silent);
/// ConnectOptions::timeout has passed.
Failure out_of_time(const Step& step, Duration timeout);
/// Provider::detach(): only a request that is undecided and has no queue pair can move. `there`: the id is a connection.
Result<void> check_detach(bool there, bool deciding, bool has_queue_pair);
/// `limit`: the value of the limit `scarce`; not used for streams, which the driver counts.
Failure no_room(const Step& step, ReachedLimit scarce, std::uint32_t limit, std::string received);

}  // namespace parley::cm
