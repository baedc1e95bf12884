// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/membership.hpp"

#include <utility>

namespace parley::xrc {
namespace {

Result<Joined> joined(const Result<Answer>& answer) {
  if (!answer) return tl::unexpected(answer.error());
  Joined out{view_of(*answer), (answer->flags & Answer::already) != 0};
  out.tgt.age = {};  // asked for alone it is there
  return out;
}

}  // namespace

Result<void> done(const Result<Answer>& answer) {
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

Request create_request(const std::optional<Peer>& peer, bool reserve) {
  return {.ask = Ask::create,
          .flags = static_cast<std::uint16_t>((peer ? Request::has_peer : 0) | (reserve ? Request::reserve : 0)),
          .peer = peer.value_or(Peer{})};
}
Request close_request(bool force) {
  return {.ask = Ask::close, .flags = static_cast<std::uint16_t>(force ? Request::force : 0)};
}

TgtView view_of(const Answer& a) {
  return {.id = a.tgt,
          .state = a.state,
          .peer = (a.flags & Answer::has_peer) != 0 ? std::optional(a.peer) : std::nullopt,
          .why = a.why,
          .reason = a.reason,
          .age = Duration(static_cast<std::int64_t>(a.value)),
          .events = a.events,
          .attributes = a.attributes};
}

Result<Membership> Membership::open(int fd, const DomainOptions& options) {
  auto link = Link::open(options, true, fd);
  if (!link) return tl::unexpected(link.error());
  return Membership(std::move(*link));
}

Result<Joined> Membership::create(const std::optional<Peer>& peer, bool reserve) {
  return joined(link_->call(create_request(peer, reserve)));
}
Result<Joined> Membership::publish(TgtId id, std::uint32_t qpn) {
  return joined(link_->call({.ask = Ask::publish, .tgt = id, .other = qpn}));
}
Result<Joined> Membership::enlist(TgtId id) { return joined(link_->call({.ask = Ask::enlist, .tgt = id})); }

Result<std::uint64_t> Membership::unregister(TgtId id) {
  const auto answer = link_->call({.ask = Ask::unregister, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return answer->value;
}

Result<bool> Membership::modify(TgtId id, State to, std::uint64_t digest) {
  const auto answer = link_->call({.ask = Ask::modify, .state = to, .tgt = id, .value = digest});
  if (!answer) return tl::unexpected(answer.error());
  return (answer->flags & Answer::already) != 0;
}

Result<TgtView> Membership::query(TgtId id) {
  const auto answer = link_->call({.ask = Ask::query, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return view_of(*answer);
}

Result<void> Membership::report(TgtId id, EventKind kind, std::uint32_t reason) {
  return done(link_->call({.ask = Ask::report, .kind = kind, .reason = reason, .tgt = id}));
}
Result<void> Membership::note(Ask what, std::uint32_t number) {
  return done(link_->call({.ask = what, .other = number}));
}
Result<void> Membership::close(bool force) { return done(link_->call(close_request(force))); }

}  // namespace parley::xrc
