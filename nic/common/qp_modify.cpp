// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/common/qp_modify.hpp"

#include <array>

namespace parley::nic {
namespace {

using S = QpState;

constexpr std::size_t types = 5;

/// The column of the table below for the type; `types` if there is none.
constexpr std::size_t index_of(QpType type) {
  switch (type) {
    case QpType::rc: return 0;
    case QpType::uc: return 1;
    case QpType::ud: return 2;
    case QpType::xrc_ini: return 3;
    case QpType::xrc_tgt: return 4;
  }
  return types;
}
constexpr QpAttrSet cur_state = bit(QpAttrIndex::cur_state), notify = bit(QpAttrIndex::en_sqd_async_notify),
                    access = bit(QpAttrIndex::access), pkey = bit(QpAttrIndex::pkey_index),
                    port = bit(QpAttrIndex::port_num), qkey = bit(QpAttrIndex::qkey), path = bit(QpAttrIndex::ah),
                    mtu = bit(QpAttrIndex::path_mtu), timeout = bit(QpAttrIndex::timeout),
                    retry = bit(QpAttrIndex::retry_cnt), rnr_retry = bit(QpAttrIndex::rnr_retry),
                    rq_psn = bit(QpAttrIndex::rq_psn), rd_atomic = bit(QpAttrIndex::max_rd_atomic),
                    alt_path = bit(QpAttrIndex::alt_path), rnr_timer = bit(QpAttrIndex::min_rnr_timer),
                    sq_psn = bit(QpAttrIndex::sq_psn), dest_rd_atomic = bit(QpAttrIndex::max_dest_rd_atomic),
                    migration = bit(QpAttrIndex::path_mig_state), dest_qpn = bit(QpAttrIndex::dest_qp_num);

struct Row {
  QpState from, to;
  std::array<QpStep, types> of;  // RC, UC, UD, XRC_INI, XRC_TGT
};

constexpr QpAttrSet init_connected = pkey | port | access, init_datagram = pkey | port | qkey;
constexpr QpAttrSet rtr_base = path | mtu | dest_qpn | rq_psn;   // all connected types
constexpr QpAttrSet rtr_responder = dest_rd_atomic | rnr_timer;  // types that answer Reads and Atomics
constexpr QpAttrSet rtr_more = alt_path | access | pkey;
constexpr QpAttrSet rts_requester = timeout | retry | rnr_retry | sq_psn | rd_atomic;
constexpr QpAttrSet rts_more = cur_state | alt_path | access | migration;
constexpr QpAttrSet sqd_more = alt_path | access | pkey | migration;  // once drained

constexpr Row rows[] = {
    {S::reset, S::init, {{{init_connected}, {init_connected}, {init_datagram}, {init_connected}, {init_connected}}}},
    {S::init,
     S::init,
     {{{0, init_connected}, {0, init_connected}, {0, init_datagram}, {0, init_connected}, {0, init_connected}}}},
    {S::init,
     S::rtr,
     {{{rtr_base | rtr_responder, rtr_more},
       {rtr_base, rtr_more},
       {0, pkey | qkey},
       {rtr_base, rtr_more},
       {rtr_base | rtr_responder, rtr_more}}}},
    {S::rtr,
     S::rts,
     {{{rts_requester, rts_more | rnr_timer},
       {sq_psn, rts_more},
       {sq_psn, cur_state | qkey},
       {rts_requester, rts_more},
       {timeout | sq_psn, rts_more | rnr_timer}}}},
    {S::rts,
     S::rts,
     {{{0, rts_more | rnr_timer}, {0, rts_more}, {0, cur_state | qkey}, {0, rts_more}, {0, rts_more | rnr_timer}}}},
    {S::rts, S::sqd, {{{0, notify}, {0, notify}, {0, notify}, {0, notify}, {0, notify}}}},
    {S::sqd,
     S::rts,
     {{{0, rts_more | rnr_timer}, {0, rts_more}, {0, cur_state | qkey}, {0, rts_more}, {0, rts_more | rnr_timer}}}},
    {S::sqd,
     S::sqd,
     {{{0, port | path | timeout | retry | rnr_retry | rd_atomic | dest_rd_atomic | rnr_timer | sqd_more},
       {0, path | sqd_more},
       {0, pkey | qkey},
       {0, port | path | timeout | retry | rnr_retry | rd_atomic | sqd_more},
       {0, port | path | timeout | dest_rd_atomic | rnr_timer | sqd_more}}}},
    // IBA 1.x §10.3.1 applies to unreliable queue pairs, whose receives continue in SQE. As in Linux's table, the other
    // types may also return, with no attribute except the state.
    {S::sqe, S::rts, {{{}, {0, cur_state | access}, {0, cur_state | qkey}, {}, {}}}},
};

auto no_state(QpState state) {
  return fail(Errc::invalid_argument, "QpAttr::state: {a} is not a state", static_cast<int>(state));
}

}  // namespace

QpAttrSet attributes_of(const QpAttr& attr) {
  QpAttrSet set = 0;
#define PARLEY_X(name) \
  if (attr.name) set |= bit(QpAttrIndex::name);
  PARLEY_QP_ATTRS(PARLEY_X)
#undef PARLEY_X
  return set;
}

std::string_view name_of(QpAttrIndex index) {
  static constexpr std::string_view names[] = {
#define PARLEY_X(name) #name,
      PARLEY_QP_ATTRS(PARLEY_X)
#undef PARLEY_X
  };
  return names[static_cast<std::size_t>(index)];
}

Result<void> check_transition(QpState from, QpState to) {
  const auto ok = [to](auto... allowed) { return ((to == allowed) || ...); };
  if (to > S::err) return no_state(to);
  switch (from) {
    case S::reset:
      if (ok(S::reset, S::init)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from RESET a queue pair goes to INIT");
    case S::init:
      if (ok(S::reset, S::init, S::rtr, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from INIT a queue pair goes to RTR, ERR or RESET");
    case S::rtr:
      if (ok(S::reset, S::rts, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from RTR a queue pair goes to RTS, ERR or RESET");
    case S::rts:
      if (ok(S::reset, S::rts, S::sqd, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from RTS a queue pair goes to SQD, ERR or RESET");
    case S::sqd:
      if (ok(S::reset, S::rts, S::sqd, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from SQD a queue pair goes to RTS, ERR or RESET");
    case S::sqe:
      if (ok(S::reset, S::rts, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from SQE a queue pair goes to RTS, ERR or RESET");
    case S::err:
      if (ok(S::reset, S::err)) return {};
      return fail(Errc::wrong_state, "QpAttr::state: from ERR a queue pair goes to RESET");
  }
  return no_state(from);
}

QpStep step_of(QpType type, QpState from, QpState to) {
  const std::size_t index = index_of(type);
  for (const Row& row : rows)
    if (index < types && row.from == from && row.to == to) return row.of[index];
  return {};
}

Result<void> check_modify(QpType type, QpState from, const QpAttr& attr) {
  if (auto now = check_cur_state(from, attr); !now) return now;
  const QpState to = attr.state.value_or(from);
  if (auto transition = check_transition(from, to); !transition) return transition;
  const QpStep step = step_of(type, from, to);
  const QpAttrSet given = attributes_of(attr);
  if ((step.required & ~given) == 0 && (given & ~(step.required | step.optional)) == 0) return {};
#define PARLEY_X(name)                                                                                 \
  if ((step.required & ~given & bit(QpAttrIndex::name)) != 0)                                          \
    return fail(Errc::invalid_argument, "QpAttr::" #name " is not set, and this transition needs it"); \
  if ((given & ~(step.required | step.optional) & bit(QpAttrIndex::name)) != 0)                        \
    return fail(Errc::invalid_argument, "QpAttr::" #name " cannot be changed by this transition of this type");
  PARLEY_QP_ATTRS(PARLEY_X)
#undef PARLEY_X
  return {};
}

Result<void> check_cur_state(QpState now, const QpAttr& attr) {
  if (!attr.cur_state || *attr.cur_state == now) return {};
  return fail(Errc::wrong_state, "QpAttr::cur_state is not the state of the queue pair, which query() tells");
}

}  // namespace parley::nic
