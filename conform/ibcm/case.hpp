// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cases put to a peer over RoCEv2 that listens or connects: InfiniBand's CM and the reliable transport. A row and its coroutine.
// IBA vol. 1 §9, §12, Annexes A11 and A17.
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
std::span<const Case> request_cases();        ///< REQs that are refused
std::span<const Case> datagram_cases();       ///< what is no message, and messages for nobody
std::span<const Case> ending_cases();         ///< DREQ and what follows it, stale connections
std::span<const Case> sidr_cases();           ///< service ID resolution
std::span<const Case> request_order_cases();  ///< PSNs, ACKs and the order of packets
std::span<const Case> request_fault_cases();  ///< requests that are refused or dropped
std::span<const Case> alternate_cases();      ///< LAP and APR
std::span<const Case> asking_cases();         ///< initiator: REQ, the answers to it, RTU
std::span<const Case> rejected_cases();       ///< initiator: REJ, MRA, what is for somebody else
std::span<const Case> leaving_cases();        ///< initiator: how its connection ends, and its requests
std::span<const Case> resolving_cases();      ///< initiator: SIDR_REQ and what answers it
/// All cases for that role, in the order of the table.
std::vector<const Case*> cases(Iut iut = Iut::responder);

}  // namespace parley::conform::ibcm
