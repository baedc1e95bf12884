// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cases for a RoCEv2 peer that listens or connects: InfiniBand's CM and the reliable transport. A case is a row and
// a coroutine. IBA vol. 1 §9, §12, Annexes A11 and A17.
#pragma once
#include <span>
#include <vector>

#include "conform/ibcm/tester.hpp"

namespace parley::conform::ibcm {

struct Case {
  conform::Case what;
  Task<Observation> (*ask)(Tester& tester) = nullptr;
};

std::span<const Case> setup_cases();          ///< REQ, REP, RTU
std::span<const Case> request_cases();        ///< REQs that the peer must reject
std::span<const Case> datagram_cases();       ///< datagrams that are not a CM message, or that name no known connection
std::span<const Case> ending_cases();         ///< DREQ and what follows it, stale connections
std::span<const Case> sidr_cases();           ///< service ID resolution
std::span<const Case> request_order_cases();  ///< PSNs, ACKs and the order of packets
std::span<const Case> request_fault_cases();  ///< requests that the peer must NAK or drop
std::span<const Case> alternate_cases();      ///< LAP and APR
std::span<const Case> asking_cases();         ///< initiator: REQ, the answers to it, RTU
std::span<const Case> rejected_cases();       ///< initiator: REJ, MRA, messages for another connection
std::span<const Case> leaving_cases();        ///< initiator: the end of its connection, and its requests
std::span<const Case> resolving_cases();      ///< initiator: SIDR_REQ and the answers to it
/// All cases for that role, in the order of the table.
std::vector<const Case*> cases(Iut iut = Iut::responder);

}  // namespace parley::conform::ibcm
