// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/mad/ulp_reject.hpp"

#include <fmt/format.h>

#include <string_view>

#include "base/bytes_io.hpp"
#include "parley/wire/nvme_rdma.h"
#include "wire/ib/cma.hpp"

namespace parley::capture {
namespace {

constexpr std::uint16_t port_smb = 445, port_smb_direct = 5445, port_iser = 3260, port_nvme = 4420, port_nfs = 20049;
constexpr std::uint16_t rtrs_magic = 0x1BBD;
constexpr std::uint32_t nfs_magic = 0xF6AB0E18;

std::string_view nvme_status(unsigned status) {
  switch (status) {
#define PARLEY_X(name, code, text) \
  case code: return text;
    PARLEY_NVME_RDMA_STATUSES(PARLEY_X)
#undef PARLEY_X
    default: return "which is not assigned";
  }
}

// NVMe over RDMA Transport Specification, section "RDMA_CM_REJ private data": a record format and a status.
std::string nvme_text(ConstBytes octets) {
  Reader r(octets);
  const std::uint16_t format = r.le16(), status = r.le16();
  if (!r.ok() || format != 0 || status == 0) return {};
  return fmt::format("NVMe: status {}, {}", status, nvme_status(status));
}

// The header of each set-up message of Linux's RTRS: magic number, version, errno.
std::string rtrs_text(ConstBytes octets) {
  Reader r(octets);
  const std::uint16_t magic = r.le16();
  const std::uint16_t version = r.le16(), number = r.le16();
  if (!r.ok() || magic != rtrs_magic) return {};
  return fmt::format("RTRS {}.{}: errno {}", version >> 8, version & 0xFF, number);
}

// RFC 7145 §9.3, in the form of the InfiniBand annex: features that the target does not support.
std::string iser_text(ConstBytes octets) {
  constexpr std::uint8_t no_zbva = 0x80, no_invalidate = 0x40;
  const std::uint8_t flags = octets.empty() ? std::uint8_t{0} : octets[0];
  std::string out = (flags & no_zbva) != 0 ? "no zero-based virtual addresses" : "";
  if ((flags & no_invalidate) != 0) out += std::string(out.empty() ? "" : ", ") + "no Send with Invalidate";
  return out.empty() ? out : "iSER: " + out;
}

// RFC 8797 §4: version, and the greatest sizes that it sends and receives.
std::string nfs_text(ConstBytes octets) {
  Reader r(octets);
  const std::uint32_t magic = r.be32();
  const unsigned version = r.u8();
  r.skip(1);
  const unsigned sends = r.u8(), receives = r.u8();
  if (!r.ok() || magic != nfs_magic) return {};
  return fmt::format("NFS: version {}, sends {} octets and receives {} at most", version, (sends + 1) * 1024,
                     (receives + 1) * 1024);
}

std::string smb_text(ConstBytes octets) {
  Reader r(octets);
  const std::uint32_t status = r.le32();
  return r.ok() && status != 0 ? fmt::format("SMB Direct: status {:#010x}", status) : std::string();
}

}  // namespace

std::string ulp_reject_text(std::uint64_t service_id, ConstBytes private_data) {
  if (std::string rtrs = rtrs_text(private_data); !rtrs.empty()) return rtrs;
  const auto service = wire::ib::cma_service_of(service_id);
  if (!service || service->space != wire::ib::PortSpace::tcp) return {};
  switch (service->port) {
    case port_nvme: return nvme_text(private_data);
    case port_iser: return iser_text(private_data);
    case port_nfs: return nfs_text(private_data);
    case port_smb:
    case port_smb_direct: return smb_text(private_data);
    default: return {};
  }
}

}  // namespace parley::capture
