// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report_ib.hpp"

#include <fmt/format.h>

#include "wire/ib/cma.hpp"

namespace parley::capture {

std::string_view to_string(IbQp qp) {
  switch (qp) {
    case IbQp::rc: return "rc";
    case IbQp::uc: return "uc";
    case IbQp::ud: return "ud";
    case IbQp::xrc: return "xrc";
    case IbQp::unknown: return "unknown";
  }
  return "unknown";
}

std::string IbReject::text() const {
  if (sidr) return std::string(to_string(static_cast<wire::ib::SidrStatus>(code)));
  return std::string(to_string(static_cast<wire::ib::CmReject>(code)));
}

std::string IbSeen::service() const {
  if (!service_id) return {};
  const auto cma = wire::ib::cma_service_of(*service_id);
  if (cma && cma->space == wire::ib::PortSpace::tcp) return fmt::format("tcp:{}", cma->port);
  if (cma && cma->space == wire::ib::PortSpace::udp) return fmt::format("udp:{}", cma->port);
  return fmt::format("{:#018x}", *service_id);
}

std::string IbSeen::reason() const { return reject ? reject->text() : gave_up; }

}  // namespace parley::capture
