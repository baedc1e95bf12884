// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP provider: MPA startup and software queue pairs over any StreamPort driver. Pure.
// How a connection goes through it, and what each setting below is for: docs/cm.md.
#pragma once
#include <memory>

#include "base/stream_port.hpp"
#include "cm/provider.hpp"

namespace parley::cm {

/// Both seams of one object: Provider upwards, StreamMachine downwards.
class IwarpProvider : public Provider, public StreamMachine {
 public:
  /// Events wait for poll_event(): a driver with some must not sleep.
  virtual bool has_events() const = 0;
  /// Endpoints that hold memory now, those included that only finish sending after their id was destroyed.
  virtual std::size_t endpoint_count() const = 0;
};

struct IwarpProviderOptions {
  std::uint32_t endpoints_max = 131072;  ///< ids alive at once

  /// Closing: how long without progress our octets may wait to be sent, and then how long the peer's FIN may take.
  /// After that the stream is reset.
  Duration linger = std::chrono::seconds(5);
  /// After the peer's FIN our half is closed as soon as everything posted is done, but not before this has passed and
  /// the driver has had one more turn, so that the user can still answer what came before the FIN (RFC 5044 §7.2).
  Duration half_close_grace{};
  /// How long an initiator that sent an Rtr frame to an unknown peer watches for a Terminate before it believes that S
  /// was confirmed and not echoed. 0 believes at once.
  Duration echo_watch = std::chrono::milliseconds(20);
};

std::unique_ptr<IwarpProvider> make_iwarp_provider(const IwarpProviderOptions& options = {});

}  // namespace parley::cm
