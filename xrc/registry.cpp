// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/registry.hpp"

#include "xrc/registry_events.hpp"
#include "xrc/registry_members.hpp"
#include "xrc/registry_restore.hpp"
#include "xrc/registry_tgt.hpp"

namespace parley::xrc {

bool is_within_share(const RegistryOptions& o, std::uint32_t max, std::size_t own, std::size_t all) {
  const std::uint64_t share = std::max<std::uint64_t>(std::uint64_t{max} * o.user_share / 100, 1);
  return own < share && all < max - max / 8;
}

template class BasicRegistry<HeapStore>;
template class BasicRegistry<ArenaStore>;

}  // namespace parley::xrc
