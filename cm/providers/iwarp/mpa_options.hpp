// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One side's options for an MPA set-up, as options of the connection manager.
#pragma once
#include "mpa/startup_options.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// `options` (ConnectOptions, ListenOptions or AcceptOptions) with the transport options, IRD and ORD of `mpa`.
template <class Options>
Options with_mpa(const mpa::StartupOptions& mpa, Options options = {}) {
  options.transport = static_cast<const mpa::Options&>(mpa);
  options.ird = mpa.ird;
  options.ord = mpa.ord;
  return options;
}

}  // namespace parley::cm
