// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The iWARP provider: MPA startup and software queue pairs over any StreamPort driver. Pure.
#pragma once
#include <memory>

#include "base/stream_port.hpp"
#include "cm/provider.hpp"

namespace parley::cm {

/// Both seams of one object: Provider upwards, StreamMachine downwards.
class IwarpProvider : public Provider, public StreamMachine {};

struct IwarpProviderOptions {
  std::uint32_t endpoints_max = 131072;  ///< ids alive at once
};

std::unique_ptr<IwarpProvider> make_iwarp_provider(const IwarpProviderOptions& options = {});

}  // namespace parley::cm
