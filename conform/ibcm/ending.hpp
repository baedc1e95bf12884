// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Cases about the end of a connection, for listening and for connecting peers; they are in the tables of both. IBA
// §12.6.10, §12.6.11, §12.9.
#pragma once
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

Task<Observation> disconnect(Tester& b);
Task<Observation> drep_transaction(Tester& b);
Task<Observation> dreq_again(Tester& b);
Task<Observation> dreq_of_another_qp(Tester& b);
Task<Observation> drep_for_standing(Tester& b);
Task<Observation> request_after_end(Tester& b);

}  // namespace parley::conform::ibcm
