// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report_ib.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
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

std::string IbReject::details() const {
  std::string out = text();
  if (sidr || code != static_cast<std::uint16_t>(wire::ib::CmReject::consumer)) return out;
  out += fmt::format(" ({})", code);
  if (!ulp_status.empty()) out += ", " + ulp_status;
  if (!private_data.empty()) out += fmt::format(", private data {}", hex_text(private_data));
  return out;
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
