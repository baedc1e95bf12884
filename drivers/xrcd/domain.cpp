// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "drivers/secure_env.hpp"
#include "drivers/xrcd/link.hpp"
#include "drivers/xrcshm/shared_link.hpp"

namespace parley::xrc {
namespace {

Result<void> done(const Result<Answer>& answer) {
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

}  // namespace

// ---- ways to a registry ------------------------------------------------------------------------------------------

std::string_view to_string(RegistryKind form) {
  constexpr std::array<std::string_view, 3> names{"standard", "broker", "shared"};
  return names.at(static_cast<std::size_t>(form));
}

RegistryKind form_of(const DomainOptions& options) {
  const auto named = [](const char* variable) {
    const char* const value = secure_env(variable);
    return value != nullptr && *value != '\0';
  };
  if (options.form != RegistryKind::standard) return options.form;
  const bool broker = !options.socket.empty() || (options.segment.empty() && named("PARLEY_XRCD"));
  return !broker && (!options.segment.empty() || named("PARLEY_XRC_SEGMENT")) ? RegistryKind::shared
                                                                              : RegistryKind::broker;
}

Result<std::shared_ptr<Link>> Link::open(const DomainOptions& options, bool member, int file) {
  return form_of(options) == RegistryKind::shared ? SharedLink::open(options, member, file)
                                                  : BrokerLink::open(options, member, file);
}

Result<TgtId> Link::enlist(TgtId id) {
  const auto answer = call({.ask = RequestType::enlist, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return answer->tgt;
}

Result<std::uint64_t> Link::unregister(TgtId id) {
  const auto answer = call({.ask = RequestType::unregister, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return answer->value;
}

Result<Answer> Link::create(const std::optional<Peer>& peer, bool reserve) {
  return call({.ask = RequestType::create,
               .flags = static_cast<std::uint16_t>((peer ? Request::has_peer : 0) | (reserve ? Request::reserve : 0)),
               .peer = peer.value_or(Peer{})});
}

Result<Answer> Link::publish(TgtId id, std::uint32_t qpn) {
  return call({.ask = RequestType::publish, .tgt = id, .other = qpn});
}

Result<bool> Link::modify(TgtId id, State to, std::uint64_t digest) {
  const auto answer = call({.ask = RequestType::modify, .state = to, .tgt = id, .value = digest});
  if (!answer) return tl::unexpected(answer.error());
  return (answer->flags & Answer::already) != 0;
}

Result<TgtView> Link::query(TgtId id) {
  const auto answer = call({.ask = RequestType::query, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return view_of(*answer);
}

Result<void> Link::report(TgtId id, EventKind kind, std::uint32_t reason) {
  return done(call({.ask = RequestType::report, .kind = kind, .reason = reason, .tgt = id}));
}

Result<void> Link::note(RequestType what, std::uint32_t number) { return done(call({.ask = what, .other = number})); }

Result<void> Link::close(bool force) {
  return done(call({.ask = RequestType::close, .flags = static_cast<std::uint16_t>(force ? Request::force : 0)}));
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

void Link::hold(TgtId id) {
  if (spare_.empty() || held_.contains(id.generation)) {
    ++held_[id.generation];
    return;
  }
  spare_.key() = id.generation;
  spare_.mapped() = 1;
  held_.insert(std::move(spare_));
}

std::size_t Link::let_go(TgtId id) {
  const auto held = held_.find(id.generation);
  if (held == held_.end()) return 0;
  const std::size_t left = --held->second;
  if (left == 0) spare_ = held_.extract(held);
  return left;
}

// ---- TGT queue pairs ---------------------------------------------------------------------------------------------

TgtQp::TgtQp(std::shared_ptr<Link> link, TgtId id) : link_(std::move(link)), id_(id) { link_->hold(id_); }
TgtQp::TgtQp(TgtQp&& other) noexcept : link_(std::move(other.link_)), id_(other.id_) {}
TgtQp& TgtQp::operator=(TgtQp&& other) noexcept {
  if (this != &other) {
    (void)release();
    link_ = std::move(other.link_);
    id_ = other.id_;
  }
  return *this;
}
TgtQp::~TgtQp() {
  if (link_) (void)release();
}

Result<std::uint64_t> TgtQp::release() {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  const std::shared_ptr<Link> link = std::move(link_);
  link_.reset();
  if (link->let_go(id_) > 0) return 0;  // another object of this process still uses the registration
  return link->unregister(id_);
}

Result<bool> TgtQp::modify(State to, std::uint64_t digest) {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  return link_->modify(id_, to, digest);
}

Result<TgtView> TgtQp::query() const {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  return link_->query(id_);
}

Result<void> TgtQp::report(EventKind kind, std::uint32_t reason) {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  return link_->report(id_, kind, reason);
}

// ---- domains -----------------------------------------------------------------------------------------------------

Domain::Domain(std::shared_ptr<Link> link) : link_(std::move(link)) {}
Domain::Domain(Domain&&) noexcept = default;
Domain& Domain::operator=(Domain&&) noexcept = default;
Domain::~Domain() = default;

Result<Domain> Domain::open(const std::string& path, const DomainOptions& options) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return tl::unexpected(Error(std::error_code(errno, std::generic_category())));
  auto domain = open(fd, options);
  ::close(fd);
  return domain;
}

Result<Domain> Domain::open(int fd, const DomainOptions& options) {
  auto link = Link::open(options, true, fd);
  if (!link) return tl::unexpected(link.error());
  return Domain(std::move(*link));
}

Result<TgtQp> Domain::create(std::optional<Peer> peer) {
  const auto answer = link_->create(peer, false);
  if (!answer) return tl::unexpected(answer.error());
  return TgtQp(link_, answer->tgt);
}

Result<TgtId> Domain::reserve(std::optional<Peer> peer) {
  const auto answer = link_->create(peer, true);
  if (!answer) return tl::unexpected(answer.error());
  return answer->tgt;
}

Result<TgtQp> Domain::publish(TgtId id, std::uint32_t qpn) {
  const auto answer = link_->publish(id, qpn);
  if (!answer) return tl::unexpected(answer.error());
  return TgtQp(link_, answer->tgt);
}

Result<TgtQp> Domain::attach(TgtId id) {
  const auto joined = link_->enlist(id);
  if (!joined) return tl::unexpected(joined.error());
  return TgtQp(link_, *joined);
}

Result<TgtQp> Domain::attach(std::uint32_t qpn) { return attach(TgtId{qpn, 0}); }

Result<void> Domain::add_srq(std::uint32_t srqn) { return link_->note(RequestType::add_srq, srqn); }
Result<void> Domain::remove_srq(std::uint32_t srqn) { return link_->note(RequestType::remove_srq, srqn); }
Result<void> Domain::note_other(std::uint32_t qpn) { return link_->note(RequestType::note_other, qpn); }

Result<std::optional<Event>> Domain::wait_event(Duration longest) { return link_->wait_event(longest); }
Result<int> Domain::fd() { return link_->fd(); }

Result<void> Domain::close(bool force) { return link_->close(force); }

// ---- administrators ----------------------------------------------------------------------------------------------

Result<Overview> overview(const DomainOptions& options) {
  const auto link = Link::open(options, false, -1);
  if (!link) return tl::unexpected(link.error());
  return (*link)->overview();
}

Result<void> kill(TgtId id, const DomainOptions& options) {
  const auto link = Link::open(options, false, -1);
  if (!link) return tl::unexpected(link.error());
  return done((*link)->call({.ask = RequestType::kill, .tgt = id}));
}

}  // namespace parley::xrc
