// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software RNIC: creates verbs objects and keeps the list of queue pairs that have something to send.
#pragma once
#include "nic/common/objects.hpp"
#include "nic/iwarp/stream_qp.hpp"

namespace parley::nic::iwarp {

class Qp;

/// Queue pairs in the order in which they became dirty: an intrusive list. Exists as long as the device or any queue
/// pair does.
struct DirtyList : Counted {
  Qp* first = nullptr;
  Qp* last = nullptr;
  std::uint32_t next_qp_num = 1;
};

/// The objects that a queue pair keeps alive.
struct QpParts {
  Ref<Tables> tables;
  Ref<DirtyList> dirty;
  Ref<CqRing> send_cq, recv_cq;
  Ref<SrqRing> srq;  // null: none
  PdHandle pd = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t max_send_wr = 0, max_recv_wr = 0;
};

}  // namespace parley::nic::iwarp
