// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks shared by many cases: the peer rejected with that reason, was silent, still accepts connections or data.
#pragma once
#include <functional>

#include "conform/core/judge.hpp"
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

/// Changes a valid REQ for a case.
using Spoil = void (*)(wire::ib::CmReq& req);

/// The REQ must be answered with a REP.
Task<Observation> accepts(Tester& tester, Spoil spoil);
/// The REQ must be rejected for that reason. `any`: any reason passes; silence fails in either case.
Task<Observation> refuses(Tester& tester, Spoil spoil, CmReject reason, bool any = false);
/// The datagram must get no answer; then a valid REQ on the same connection must be answered.
Task<Observation> drops(Tester& tester, Link& link, std::string words, Bytes mad, Faults faults = {});
/// A communication ID that no connection of the peer has; another one for each connection of the tester.
inline std::uint32_t unknown_id(const Link& link) { return link.id() ^ 0x7E57AB1E; }
/// Sends a zero-length Write. Empty: it was acknowledged; else the text of what came instead.
Task<std::string> still_serves(Tester& tester, Link& link);
/// The next packet on the queue pair or of the CM. Skips the peer's own requests and repeated or late set-up messages.
/// A DREQ is answered and skipped, but returned if nothing else comes.
Task<PeerPacket> response(Tester& tester, Link& link, Duration patience);
/// An established connection, in either role. Waits for a connecting peer's first request, so that its program knows of
/// the connection. Null: trouble() says why.
Task<Link*> established_link(Tester& tester);
/// A connection that was established and then ended by the tester's DREQ and a DREP. Null: trouble() says why.
Task<Link*> ended(Tester& tester);
/// What is wrong with a datagram of the CM from its BTH to its DETH (IBA §13.5.1), and with its MAD header
/// (IBA §13.4.2); empty: nothing.
std::string wrong_datagram(const PeerPacket& heard);
std::string wrong_mad_header(const PeerPacket& heard);
/// Reserved bits that are set in a message of the CM (IBA §12.6); empty: none.
std::string wrong_reserved_bits(const PeerPacket& heard);

// For peers in the initiator's role.

/// The next message of the CM. Skips requests on the queue pair, an MRA for the REP and, unless `reqs`, a retransmitted
/// REQ, which may cross any answer.
Task<PeerPacket> message(Tester& tester, Link& link, Duration patience, bool reqs = false);
/// The peer's next request or CM message, except those of the set-up. Skips answers to the tester's requests.
Task<PeerPacket> response_of_peer(Tester& tester, Link& link, Duration patience);
/// Sends the REP and waits for the RTU or the peer's first request. False: trouble() says what came.
Task<bool> accept(Tester& tester, Link& link);
/// Accepts the peer's next REQ. Null: trouble() says why.
Task<Link*> accepted(Tester& tester);

/// The answer to that request must satisfy `right` and have the request's PSN.
Task<Observation> answered(Tester& tester, Request request, std::function<bool(const PeerPacket&)> right,
                           Faults faults = {});
/// The request must be dropped silently, and the next one on the connection must be acknowledged.
Task<Observation> request_dropped(Tester& tester, Request request, Faults faults = {});

}  // namespace parley::conform::ibcm
