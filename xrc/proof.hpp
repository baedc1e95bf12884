// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Proves to a new broker that a member was registered with a TGT queue pair in the same domain. Successive brokers
// share a key, so that a broker need not keep its predecessor's registrations.
#pragma once
#include <optional>

#include "base/siphash.hpp"
#include "parley/xrc.hpp"

namespace parley::xrc {

/// `uid`: the owner of a private domain, which has no DomainKey.
inline std::uint64_t proof_of(const SipKey& key, const std::optional<DomainKey>& domain, std::uint32_t uid, TgtId id) {
  const DomainKey named = domain.value_or(DomainKey{.st_ino = uid});
  Bytes text(41);
  Writer w(text);
  w.u8(domain ? 1 : 0);
  for (const std::uint64_t word : {named.device, named.st_dev, named.st_ino, std::uint64_t{id.qpn}, id.generation})
    w.be64(word);
  return siphash(key, text);
}

}  // namespace parley::xrc
