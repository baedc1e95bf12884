// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP provider: MPA startup and software queue pairs over any StreamPort driver. Pure.
// How a connection goes through it, and what each setting below is for: docs/cm.md.
#pragma once
#include <memory>

#include "base/stream_port.hpp"
#include "cm/provider.hpp"
#include "parley/iwarp.hpp"

namespace parley::cm {

/// Both seams in one object: Provider upwards, StreamMachine downwards.
class IwarpProvider : public Provider, public StreamMachine {
 public:
  /// Commands or posted work wait for the driver's next turn.
  virtual bool has_work() const = 0;
  /// Endpoints that hold memory now, including those that only finish sending after their id was destroyed.
  virtual std::size_t endpoint_count() const = 0;
  /// The driver's; it outlives every other call. Without one requests cannot change their Manager.
  virtual void set_mover(StreamMover* mover) = 0;
};

/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const IwarpProviderOptions& options);
/// `options` have passed check_options.
std::unique_ptr<IwarpProvider> make_iwarp_provider(const IwarpProviderOptions& options = {});

}  // namespace parley::cm
