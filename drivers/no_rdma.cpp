// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replaces drivers/rdmacm and drivers/verbs if their libraries were missing when Parley was built.
#include "parley/neg_verbs.hpp"
#include "parley/rdma_host.hpp"

namespace parley {
namespace {

auto absent() {
  return fail(Errc::unsupported, "Parley was built without librdmacm and libibverbs (Debian: librdmacm-dev)");
}

}  // namespace

Result<std::unique_ptr<RdmaHost>> RdmaHost::open(const RdmaHostOptions&) { return absent(); }
Result<std::vector<DeviceInfo>> list_rdma_devices() { return absent(); }
neg::QpDrivers neg::verbs_drivers() { return {}; }

}  // namespace parley
