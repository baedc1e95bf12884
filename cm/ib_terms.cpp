// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ib_terms.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <variant>

#include "cm/failure_text.hpp"

namespace parley::cm {

using wire::ib::CmReject;
using wire::ib::SidrStatus;

namespace {

bool is_connectable(QpType type) {
  return type == QpType::rc || type == QpType::uc || type == QpType::ud || type == QpType::xrc_ini ||
         type == QpType::xrc_tgt;
}

std::string_view advice_for(SidrStatus status) {
  switch (status) {
    case SidrStatus::unsupported_service_id: return "start what serves the port there, or check address and port";
    case SidrStatus::rejected: return "look at the peer's log, or at its private data";
    case SidrStatus::no_qp: return "try again later: the peer has no room";
    case SidrStatus::redirect: return "ask where the peer redirects to; redirections are not followed";
    default: return "the peer's connection manager refused, not its program: see the status";
  }
}

}  // namespace

Result<ib::Options> ib_options(const TransportOptions& options, std::string_view not_mpa, std::optional<QpType> wrong) {
  if (std::holds_alternative<std::monostate>(options)) return ib::Options{};
  const auto* ib = std::get_if<ib::Options>(&options);
  if (ib == nullptr) return fail(Errc::unsupported, not_mpa);
  if (ib->retry_count > 7 || ib->rnr_retry_count > 7)
    return fail(Errc::invalid_argument, "ib::Options: retry_count is {a} and rnr_retry_count {b}; each is at most 7",
                ib->retry_count, ib->rnr_retry_count);
  if (ib->reply_timeout < Duration{})
    return fail(Errc::invalid_argument, "ib::Options::reply_timeout is {a} ns; must be at least 0",
                ib->reply_timeout.count());
  if (!is_connectable(ib->qp_type))
    return fail(Errc::unsupported,
                "ib::Options::qp_type is {a}; RC (2), UC (3), UD (4), XRC_INI (9) and XRC_TGT (10) are there",
                static_cast<int>(ib->qp_type));
  if (wrong == ib->qp_type)
    return fail(Errc::invalid_argument,
                "ib::Options::qp_type must be XRC_INI on the connecting side and XRC_TGT on the listening side");
  return *ib;
}

Result<void> check_qp_type(QpType init, QpType type) {
  if (!is_connectable(init))
    return fail(Errc::unsupported,
                "QpInit::type is {a}; RC (2), UC (3), UD (4), XRC_INI (9) and XRC_TGT (10) can be connected",
                static_cast<int>(init));
  if (init != type)
    return fail(Errc::invalid_argument, "QpInit::type is {a}, and ib::Options::qp_type {b}; they are the same",
                static_cast<int>(init), static_cast<int>(type));
  return {};
}

Errc errc_of(CmReject reason) {
  switch (reason) {
    case CmReject::no_qp:
    case CmReject::no_eec:
    case CmReject::no_resources: return Errc::no_space;
    case CmReject::timeout: return Errc::timed_out;
    case CmReject::stale_connection: return Errc::peer_reset;
    default: return Errc::rejected;
  }
}

std::string reject_sentence(CmReject reason) {
  return fmt::format("a REJ: {} ({})", wire::ib::to_string(reason), static_cast<int>(reason));
}

std::string reject_advice(CmReject reason) {
  switch (reason) {
    case CmReject::invalid_service_id: return "start the peer's listener, or check address and port";
    case CmReject::consumer: return "the peer's program gave the connection up: look at its log";
    case CmReject::timeout:
      return "the peer gave up waiting: look for packets that are lost, or a program that is slow to decide";
    default: return "the peer's connection manager refused, not its program: see the reason";
  }
}

Failure sidr_failure(SidrStatus status) {
  const auto code = [&] {
    if (status == SidrStatus::unsupported_service_id) return Errc::refused;
    return status == SidrStatus::no_qp ? Errc::no_space : Errc::rejected;
  };
  return plain_failure(ib::step::wait_reply, code(), {},
                       fmt::format("a SIDR_REP: {} ({})", wire::ib::to_string(status), static_cast<int>(status)),
                       std::string(advice_for(status)));
}

Result<QpInit> OwnQueues::make(Device& device) {
  auto pd = device.alloc_pd();
  if (!pd) return tl::unexpected(pd.error());
  pd_ = *pd;
  auto cq = device.create_cq(2 * depth);
  if (!cq) {
    drop(device);
    return tl::unexpected(cq.error());
  }
  cq_ = std::move(*cq);
  return init();
}

QpInit OwnQueues::init() const {
  return {.pd = pd_, .send_cq = cq_.get(), .recv_cq = cq_.get(), .max_send_wr = depth, .max_recv_wr = depth};
}

void OwnQueues::clear() {
  std::array<WorkCompletion, 2 * depth> left;
  while (cq_->poll(left) != 0) {
  }
}

void OwnQueues::drop(Device& device) {
  cq_.reset();
  if (pd_ != 0) (void)device.dealloc_pd(std::exchange(pd_, 0));
}

}  // namespace parley::cm
