// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/ask.hpp"

#include "mad/resolve.hpp"

namespace parley::mad {

namespace {

/// What a path that is spelt out leaves open is the PathRecord's.
Path completed(Path given, const Path& found) {
  const Path usual;
  given.address.lid = found.address.lid;
  if (given.address.sl == usual.address.sl) given.address.sl = found.address.sl;
  if (given.address.pkey == usual.address.pkey) given.address.pkey = found.address.pkey;
  if (given.packet_life_time == usual.packet_life_time) given.packet_life_time = found.packet_life_time;
  if (given.address.grh == Grh{.gid = given.address.grh->gid}) given.address.grh = found.address.grh;
  return given;
}

}  // namespace

Path PathDefaults::apply(Path path) const {
  path.timeout = timeout;
  path.retries = retries;
  if (m_key != 0) path.m_key = m_key;
  if (sm_key != 0) path.sm_key = sm_key;
  return path;
}

Task<Reply<RawReply>> ask(Port& port, const Ask& what) {
  Path path = what.to ? what.to->path : port.sa_path();
  if (what.to && what.to->gid) {
    const Path administration = what.defaults.apply(port.sa_path());
    Reply<Path> resolved = co_await resolve_path(port, administration, {.gid = what.to->gid, .lid = {}});
    if (!resolved) co_return tl::unexpected(std::move(resolved.error()));
    path = what.spelt_out ? completed(path, *resolved) : std::move(*resolved);
  }
  co_return co_await port.raw(what.spelt_out ? path : what.defaults.apply(path), what.rpc, what.body);
}

}  // namespace parley::mad
