// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The state machine of verbs' queue pairs as data: the transitions, and the attributes that each requires and allows,
// by type of queue pair. IBA 1.x §10.3.1, and its table of transition properties at "Modify Queue Pair", which Linux
// enforces. tests/states/verbs_qp.txt prints all of it.
//
// RESET -> INIT -> RTR -> RTS <-> SQD
//
//
//
//  any but RESET -> ERR ^
//
//
//
//
//
//
//
//
// any
//
//
//
//
//
//  -> RESET SQE
#pragma once
#include <cstdint>
#include <string_view>

#include "parley/qp.hpp"
#include "parley/result.hpp"

namespace parley::nic {

// X(name): every attribute except the state, by the name of its field in QpAttr.
#define PARLEY_QP_ATTRS(X) \
  X(cur_state)             \
  X(en_sqd_async_notify)   \
  X(access)                \
  X(pkey_index)            \
  X(port_num)              \
  X(qkey)                  \
  X(ah)                    \
  X(path_mtu)              \
  X(timeout)               \
  X(retry_cnt)             \
  X(rnr_retry)             \
  X(rq_psn)                \
  X(max_rd_atomic)         \
  X(alt_path)              \
  X(min_rnr_timer)         \
  X(sq_psn)                \
  X(max_dest_rd_atomic)    \
  X(path_mig_state)        \
  X(dest_qp_num)

enum class QpAttrIndex : std::uint8_t {
#define PARLEY_X(name) name,
  PARLEY_QP_ATTRS(PARLEY_X)
#undef PARLEY_X
      count,
};

/// A set of attributes: bit n is the attribute of index n.
using QpAttrSet = std::uint32_t;
constexpr QpAttrSet bit(QpAttrIndex index) { return QpAttrSet{1} << static_cast<unsigned>(index); }
/// The attributes that are set, without the state.
QpAttrSet attributes_of(const QpAttr& attr);
std::string_view name_of(QpAttrIndex index);

/// The attributes that a transition of one type of queue pair requires, and those that it allows.
struct QpStep {
  QpAttrSet required = 0, optional = 0;
};

/// Errors: wrong_state, with a sentence that names the states that can be reached from there.
Result<void> check_transition(QpState from, QpState to);
/// For an existing transition; all empty if it has no attributes.
QpStep step_of(QpType type, QpState from, QpState to);
/// For transports with IBA's attributes: checks the transition, that no required attribute is missing, and that no
/// other one is set. Errors: wrong_state, invalid_argument, each with a sentence.
Result<void> check_modify(QpType type, QpState from, const QpAttr& attr);
/// Checks QpAttr::cur_state if it is set. Errors: wrong_state.
Result<void> check_cur_state(QpState now, const QpAttr& attr);

}  // namespace parley::nic
