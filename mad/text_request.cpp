// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/text_request.hpp"

#include "mad/resolve.hpp"

namespace parley::mad {

namespace {

/// Takes members that the written path does not set from the PathRecord.
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

Task<Reply<Path>> resolve_text(Port& port, PathText to, PathDefaults defaults) {
  Path path = to.path;
  if (to.gid && !port.facts().lids) {  // RoCE: the GID is the address
    path.address.lid = 0;
    if (!path.address.grh) path.address.grh = Grh{.gid = *to.gid};
  } else if (to.gid) {
    Reply<Path> found = co_await resolve_path(port, defaults.apply(port.sa_path()), {.gid = to.gid, .lid = {}});
    if (!found) co_return tl::unexpected(std::move(found.error()));
    path = to.spelt_out ? completed(path, *found) : std::move(*found);
  }
  co_return to.spelt_out ? path : defaults.apply(path);
}

Task<Reply<RawReply>> ask(Port& port, const TextRequest& what) {
  if (!what.to) co_return co_await port.raw(what.defaults.apply(port.sa_path()), what.rpc, what.body);
  Reply<Path> path = co_await resolve_text(port, *what.to, what.defaults);
  if (!path) co_return tl::unexpected(std::move(path.error()));
  co_return co_await port.raw(*path, what.rpc, what.body);
}

}  // namespace parley::mad
