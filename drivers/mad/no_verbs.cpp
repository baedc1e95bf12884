// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replaces verbs.cpp if libibverbs is missing.
#include "drivers/mad/roce.hpp"

namespace parley::mad_driver {

OrText<std::unique_ptr<RoceTransport>> open_verbs(const VerbsOptions&) {
  return tl::unexpected(std::string("this parley was built without libibverbs (Debian: librdmacm-dev)"));
}

}  // namespace parley::mad_driver
