// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs' states and attributes on an iWARP queue pair: which of them modify() supports, and what query() returns.
#include <algorithm>

#include "nic/common/qp_modify.hpp"
#include "nic/iwarp/qp.hpp"

namespace parley::nic::iwarp {
namespace {

// X(attribute, why iWARP has none)
#define PARLEY_IWARP_LACKS(X)                                                                \
  X(en_sqd_async_notify, "there is no event for it: see QpAttr::sq_draining of query()")     \
  X(pkey_index, "iWARP has no partitions")                                                   \
  X(port_num, "the connection's address says which interface it is on")                      \
  X(qkey, "iWARP has no datagrams")                                                          \
  X(ah, "the connection's address is the path")                                              \
  X(path_mtu, "TCP finds it")                                                                \
  X(timeout, "TCP retransmits; see cm::ConnectOptions and cm::IwarpProviderOptions::linger") \
  X(retry_cnt, "TCP retransmits")                                                            \
  X(rnr_retry, "a message without a posted receive ends the connection (RFC 5041 §7.1)")     \
  X(rq_psn, "RDMAP numbers messages from 1 (RFC 5041 §4.3)")                                 \
  X(max_rd_atomic, "MPA agrees on it: cm::ConnectOptions::ord (RFC 6581 §9.1)")              \
  X(alt_path, "iWARP has no path migration")                                                 \
  X(min_rnr_timer, "a message without a posted receive ends the connection (RFC 5041 §7.1)") \
  X(sq_psn, "RDMAP numbers messages from 1 (RFC 5041 §4.3)")                                 \
  X(max_dest_rd_atomic, "MPA agrees on it: cm::ConnectOptions::ird (RFC 6581 §9.1)")         \
  X(path_mig_state, "iWARP has no path migration")                                           \
  X(dest_qp_num, "a TCP connection has one queue pair at its other end")

Result<void> check_attributes(const QpAttr& attr) {
#define PARLEY_X(name, why) \
  if (attr.name) return fail(Errc::unsupported, "QpAttr::" #name " cannot be set: " why);
  PARLEY_IWARP_LACKS(PARLEY_X)
#undef PARLEY_X
  return {};
}

// mpa::depth_not_negotiated leaves it to the ULP, which then may use the device's limit (RFC 6581 §9.1).
std::uint16_t depth_of(std::uint32_t agreed) {
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(agreed, mpa::depth_max));
}

}  // namespace

QpState Qp::state() const {
  switch (state_) {
    case RdmapState::idle: return reset_ ? QpState::reset : QpState::init;
    case RdmapState::rts: return sqd_ ? QpState::sqd : QpState::rts;
    case RdmapState::closing:
      return QpState::sqd;  // as Linux's iWARP drivers report it
    // Posted requests are flushed and nothing can be posted: verbs' ERR, and not SQE, which keeps receives.
    case RdmapState::terminate:
    case RdmapState::error: break;
  }
  return QpState::err;
}

// iWARP-specific refusals come first: they are more informative than the table of transitions.
Result<void> Qp::check_step(QpState to) const {
  if (state_ == RdmapState::idle && (to == QpState::rtr || to == QpState::rts))
    return fail(
        Errc::unsupported,
        "QpAttr::state: an iWARP queue pair has no RTR; the connection manager takes it to RTS once MPA set-up is "
        "done (RFC 5044 §7.1)");
  if (had_connection_ && to == QpState::reset)
    return fail(Errc::unsupported,
                "QpAttr::state: a queue pair that had a connection is not used again; create another one");
  if (state_ == RdmapState::closing && to == QpState::rts)
    return fail(Errc::wrong_state, "QpAttr::state: the connection is closing and does not come back to RTS");
  if (receive_ended_ && state() == QpState::rts && to == QpState::sqd)
    return fail(Errc::wrong_state,
                "QpAttr::state: the peer has closed its half, and what is posted goes out; there is no SQD any more");
  return check_transition(state(), to);
}

Result<void> Qp::modify(const QpAttr& attr) {
  if (auto now = check_cur_state(state(), attr); !now) return now;
  const QpState to = attr.state.value_or(state());
  if (auto step = check_step(to); !step) return step;
  if (auto attributes = check_attributes(attr); !attributes) return attributes;
  if (to != state() || attr.state == QpState::reset) go_to(to);
  if (attr.access) access_ = *attr.access;
  return {};
}

void Qp::go_to(QpState to) {
  switch (to) {
    case QpState::reset: reset(); break;
    case QpState::init: reset_ = false; break;
    case QpState::sqd: sqd_ = true; break;
    case QpState::rts:
      sqd_ = false;
      if (has_transmit()) mark_dirty();
      break;
    case QpState::err: {
      if (!connected()) return to_error();
      QpEvent event;
      event.failure.code = Errc::cancelled;
      event.failure.received = "nothing; this side moved its queue pair to ERR";
      event.failure.advice = "disconnect() ends a connection without losing what was posted";
      event.failure.offset = fed_;
      to_error();
      push_event(std::move(event));
      break;
    }
    case QpState::rtr:
    case QpState::sqe: break;  // check_step refuses them
  }
}

// IBA 1.x §10.3.1: RESET removes the posted requests without completions, and resets all attributes.
void Qp::reset() {
  enter(RdmapState::idle);
  reset_ = true;
  access_ = access_default;
  drop_posted();
}

QpAttr Qp::query() const {
  QpAttr attr;
  attr.state = attr.cur_state = state();
  attr.access = access_;
  if (connected()) {
    attr.max_rd_atomic = depth_of(ord_);
    attr.max_dest_rd_atomic = depth_of(ird_);
  }
  attr.sq_draining = sqd_ && !sends_.empty() && (sends_.front().framed || current_ == Source::work);
  return attr;
}

}  // namespace parley::nic::iwarp
