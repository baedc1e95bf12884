// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/membership.hpp"

#include <utility>

namespace parley::xrc {
namespace {

Result<Joined> joined(const Result<Answer>& answer) {
  if (!answer) return tl::unexpected(answer.error());
  Joined out{view_of(*answer), (answer->flags & Answer::already) != 0};
  out.tgt.age = {};  // it is available in a separate query
  return out;
}

}  // namespace

Result<Membership> Membership::open(int fd, const DomainOptions& options) {
  auto link = Link::open(options, true, fd);
  if (!link) return tl::unexpected(link.error());
  return Membership(std::move(*link));
}

Result<Joined> Membership::create(const std::optional<Peer>& peer, bool reserve) {
  return joined(link_->create(peer, reserve));
}
Result<Joined> Membership::publish(TgtId id, std::uint32_t qpn) { return joined(link_->publish(id, qpn)); }
Result<Joined> Membership::enlist(TgtId id) { return joined(link_->call({.ask = RequestType::enlist, .tgt = id})); }

}  // namespace parley::xrc
