// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judgements shared by many cases: the peer refused with that reason, said nothing, still takes connections or data.
#pragma once
#include <functional>

#include "conform/core/judge.hpp"
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

/// How a case makes something wrong of a valid REQ.
using Spoil = void (*)(wire::ib::CmReq& req);

/// The REQ is answered with a REP, whatever else.
Task<Observation> accepts(Tester& tester, Spoil spoil);
/// The REQ is refused for that reason. `any`: another reason will do, and silence does not.
Task<Observation> refuses(Tester& tester, Spoil spoil, CmReject reason, bool any = false);
/// Nothing answers a datagram, and a valid REQ on the same connection is answered after it.
Task<Observation> drops(Tester& tester, Link& link, std::string words, Bytes mad, Faults faults = {});
/// A Write of nothing is acknowledged: empty, or what came instead.
Task<std::string> still_serves(Tester& tester, Link& link);
/// The next packet on the queue pair or of the CM. The peer's own requests, messages of the set-up that come again or late, and a
/// DREQ, which is answered, are passed over; the DREQ is returned where nothing else comes.
Task<Heard> response(Tester& tester, Link& link, Duration patience);
/// A connection that stands, whoever began it, and that a program which connected knows of. Null: trouble() says why.
Task<Link*> standing(Tester& tester);
/// One that stood, and that the tester's DREQ and a DREP ended. Null: trouble() says why.
Task<Link*> ended(Tester& tester);
/// What is wrong with a datagram of the CM from its BTH to its DETH (IBA §13.5.1), and with its MAD header (IBA §13.4.2); empty:
/// nothing.
std::string wrong_datagram(const Heard& heard);
std::string wrong_mad_header(const Heard& heard);

// Where the peer is the initiator.

/// The next message of the CM. Requests on the queue pair are passed over, and so are an MRA of the REP, and the REQ again, which may
/// cross any answer, unless `reqs`.
Task<Heard> message(Tester& tester, Link& link, Duration patience, bool reqs = false);
/// The next request of the peer's or message of the CM but those of the set-up; answers to the tester's are passed over.
Task<Heard> response_of_peer(Tester& tester, Link& link, Duration patience);
/// The REP, and its RTU or the peer's first request. False: trouble() says what came.
Task<bool> accept(Tester& tester, Link& link);
/// The peer's next REQ, accepted. Null: trouble() says why.
Task<Link*> accepted(Tester& tester);

/// What that request is answered with has to be so; else `failed`.
Task<Observation> answered(Tester& tester, Request request, std::function<bool(const Heard&)> right,
                           Faults faults = {});
/// The request is dropped without a word, and the connection serves the next one.
Task<Observation> request_dropped(Tester& tester, Request request, Faults faults = {});

}  // namespace parley::conform::ibcm
