// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A registry in an Arena: each change is done completely or not at all.
#pragma once
#include <type_traits>

#include "xrc/registry.hpp"

namespace parley::xrc {

using SharedRegistry = BasicRegistry<ArenaStore>;

inline SharedRegistry& registry_in(Arena& arena) { return *static_cast<SharedRegistry*>(arena.root()); }

/// One transaction. Errors: no_memory. After an error, or if `work` throws, the registry is unchanged.
template <class Work>
auto transact(Arena& arena, Arena::Kind kind, Work work) -> Result<std::invoke_result_t<Work, SharedRegistry&>> {
  try {
    arena.begin(kind);
    if constexpr (std::is_void_v<std::invoke_result_t<Work, SharedRegistry&>>) {
      work(registry_in(arena));
      arena.commit();
      return {};
    } else {
      auto out = work(registry_in(arena));
      arena.point();
      arena.commit();
      return out;
    }
  } catch (const Exhausted&) {
    arena.undo();
    return tl::unexpected(Error(Refusal::no_memory));
  } catch (...) {
    arena.undo();
    throw;
  }
}

/// Makes a registry in a block of Arena::block octets with the same alignment. Errors: invalid.
inline Result<SharedRegistry*> make_registry(void* block, Instant now, const RegistryOptions& options) {
  if (!SharedRegistry::is_sensible(options)) return tl::unexpected(Error(Refusal::invalid));
  Arena& arena = Arena::format(block, sizeof(SharedRegistry));
  arena.begin(Arena::Kind::grows);
  SharedRegistry& made = SharedRegistry::create_at(arena.root(), now, options);
  arena.only_changes(made.changing_size());
  arena.commit();
  return &made;
}

}  // namespace parley::xrc
