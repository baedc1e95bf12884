// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/registry.hpp"

#include "xrc/registry_events.hpp"
#include "xrc/registry_members.hpp"
#include "xrc/registry_restore.hpp"
#include "xrc/registry_tgt.hpp"

namespace parley::xrc {

template class BasicRegistry<HeapStore>;
template class BasicRegistry<ArenaStore>;

}  // namespace parley::xrc
