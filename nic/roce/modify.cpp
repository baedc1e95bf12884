// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Verbs' states and attributes on a RoCE queue pair. nic/common/qp_modify.cpp defines the attributes of each
// transition; here are the checks of their values.
#include "nic/common/qp_modify.hpp"

#include "nic/roce/qp.hpp"
#include "wire/ib/roce.hpp"

namespace parley::nic::roce {
namespace {

// X(attribute, most)
#define PARLEY_ROCE_LIMITS(X)           \
  X(qkey, 0xFFFFFFFF)                   \
  X(timeout, 31)                        \
  X(retry_cnt, 7)                       \
  X(rnr_retry, 7)                       \
  X(rq_psn, psn_mask)                   \
  X(max_rd_atomic, max_rd_atomic_limit) \
  X(min_rnr_timer, 31)                  \
  X(sq_psn, psn_mask)                   \
  X(max_dest_rd_atomic, max_dest_limit) \
  X(dest_qp_num, PARLEY_IB_QPN_MAX)

}  // namespace

Result<void> Qp::check_values(const QpAttr& attr) const {
  const std::int64_t max_rd_atomic_limit = qp_.nic->options.max_qp_init_rd_atom;
  const std::int64_t max_dest_limit = qp_.nic->options.max_qp_rd_atom;
#define PARLEY_X(name, most)                                      \
  if (attr.name && std::int64_t{*attr.name} > std::int64_t{most}) \
    return fail(Errc::invalid_argument, "QpAttr::" #name " is {a}; at most {b}", std::int64_t{*attr.name}, most);
  PARLEY_ROCE_LIMITS(PARLEY_X)
#undef PARLEY_X
  if (attr.port_num.value_or(1) != 1)
    return fail(Errc::invalid_argument, "QpAttr::port_num is {a}; the device has port 1", *attr.port_num);
  if (attr.pkey_index.value_or(0) != 0)
    return fail(Errc::invalid_argument, "QpAttr::pkey_index is {a}; the port's table has one key, at 0",
                *attr.pkey_index);
  if (attr.path_mtu && (*attr.path_mtu < Mtu::octets_256 || *attr.path_mtu > qp_.nic->options.port_mtu))
    return fail(Errc::invalid_argument, "QpAttr::path_mtu is {a}; must be 1 to {b}, that of the port",
                static_cast<int>(*attr.path_mtu), static_cast<int>(qp_.nic->options.port_mtu));
  if (attr.alt_path) return fail(Errc::unsupported, "QpAttr::alt_path: the device has no automatic path migration");
  if (attr.path_mig_state.value_or(MigState::migrated) != MigState::migrated)
    return fail(Errc::unsupported, "QpAttr::path_mig_state: the device has no automatic path migration");
  return {};
}

Result<Path> Qp::check_path(const QpAttr& attr) const {
  if (!attr.ah) return qp_.path;
  auto path = qp_.nic->path_of(*attr.ah);
  if (path && is_multicast(path->destination))
    return fail(Errc::invalid_argument, "GlobalRoute::dgid is a multicast group; a connection has one peer");
  return path;
}

Result<void> Qp::modify(const QpAttr& attr) {
  if (auto step = check_modify(qp_.type, qp_.state, attr); !step) return step;
  if (auto values = check_values(attr); !values) return values;
  if (attr.max_rd_atomic == std::uint16_t{0} && requester_.fetch_waits())
    return fail(Errc::wrong_state, "QpAttr::max_rd_atomic is 0; a Read or Atomic that is posted and not sent needs 1");
  const auto path = check_path(attr);
  if (!path) return tl::unexpected(path.error());
  apply(attr, *path);
  const QpState to = attr.state.value_or(qp_.state);
  if (to != qp_.state || attr.state == QpState::reset) go_to(to);
  if (attr.retry_cnt || attr.rnr_retry) requester_.limits_changed();
  if (attr.max_dest_rd_atomic) responder_.depth_changed();
  if (qp_.state != QpState::reset) settle();
  return {};
}

void Qp::apply(const QpAttr& attr, const Path& path) {
#define PARLEY_X(name) \
  if (attr.name) qp_.attr.name = attr.name;
  PARLEY_QP_ATTRS(PARLEY_X)
#undef PARLEY_X
  if (attr.path_mtu) qp_.mtu = octets_of(*attr.path_mtu);
  if (attr.dest_qp_num) qp_.dest_qpn = *attr.dest_qp_num;
  if (!attr.ah) return;
  qp_.path = path;
  qp_.path.source_port = wire::ib::roce_source_port(path.flow_label, qp_.number, qp_.dest_qpn);
}

void Qp::go_to(QpState to) {
  const QpState from = qp_.state;
  qp_.state = to;
  switch (to) {
    case QpState::reset: reset(); break;
    case QpState::rtr:
      if (qp_.receives() && qp_.type != QpType::ud) responder_.start(qp_.attr.rq_psn.value_or(0));
      break;
    case QpState::rts:
      established_ = true;  // a program that goes on needs no event any more
      if (from == QpState::rtr && qp_.sends()) requester_.start(qp_.attr.sq_psn.value_or(0));
      break;
    case QpState::sqd: drain_told_ = !qp_.attr.en_sqd_async_notify.value_or(false); break;
    case QpState::err: {
      const bool acknowledges = responder_.holds_ack();  // a delayed ACK is still sent
      to_error();
      if (!acknowledges) responder_.drop_replies();
      break;
    }
    case QpState::init:
    case QpState::sqe: break;  // SQE cannot be requested
  }
}

// IBA §10.3.1: posted requests disappear without completions, and all attributes are reset.
void Qp::reset() {
  requester_.drop();
  responder_.drop();
  qp_.attr = QpAttr{};
  qp_.path = Path{.source_port = qp_.path.source_port};
  qp_.dest_qpn = 0;
  qp_.counters = {};
  qp_.failure = {};
  qp_.watch = {};
  check_at_ = never;
  established_ = false;
  drain_told_ = true;
  cnp_due_ = false;
  qp_.nic->unlink_dirty(*this);
}

QpAttr Qp::query() const {
  QpAttr attr = qp_.attr;
  attr.state = attr.cur_state = qp_.state;
  attr.sq_draining = qp_.state == QpState::sqd && requester_.under_way();
  return attr;
}

}  // namespace parley::nic::roce
