// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP provider: MPA startup and software queue pairs over any StreamPort driver. Pure code. docs/cm.md describes how a
// connection passes through it, and the purpose of each setting below.
#pragma once
#include <memory>

#include "base/stream_port.hpp"
#include "cm/provider.hpp"
#include "parley/iwarp.hpp"

namespace parley::cm {

/// Implements both interfaces: Provider towards the Manager, StreamMachine towards the driver.
class IwarpProvider : public Provider, public StreamMachine {
 public:
  /// Commands or posted work wait for the driver's next turn.
  virtual bool has_work() const = 0;
  /// Endpoints that hold memory, including those that still send after their id was destroyed.
  virtual std::size_t endpoint_count() const = 0;
  /// Sets the driver's mover, which must outlive every other call. Without one, requests cannot move to another Manager.
  virtual void set_mover(StreamMover* mover) = 0;
};

/// Errors: invalid_argument, with the option's name.
Result<void> check_options(const IwarpProviderOptions& options);
/// `options` must have passed check_options.
std::unique_ptr<IwarpProvider> make_iwarp_provider(const IwarpProviderOptions& options = {});

}  // namespace parley::cm
