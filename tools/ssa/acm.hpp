// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the two commands share that answer ibacm's clients: `parley ssa acm` and `parley ssad --acm`.
#pragma once
#include <string>

#include "drivers/ssa/acm_service.hpp"
#include "ssa/acm/addresses.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// Where ib_acme and librdmacm look: as the environment says, else the paths that they have built in.
std::string acmes_socket();
std::string librdmacms_socket();
/// Why librdmacm would be answered at a place that is meant for ib_acme; empty: it is not.
std::string hidden_librdmacm(const ssa_driver::AcmServiceOptions& service);
/// Names and IP addresses of ports, from a file; none, without a path.
Or<ssa::acm::Addresses> read_addresses(const std::string& path);

}  // namespace parley::tools
