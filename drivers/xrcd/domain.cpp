// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "drivers/xrcd/membership.hpp"

namespace parley::xrc {
namespace {

/// Puts a list together again.
class Gathering {
 public:
  void add(const Item& i) {
    switch (i.what) {
      case Item::What::domain:
        domains_.push_back({.number = i.large[0]});
        if ((i.flags & Item::shared) != 0) domains_.back().key = DomainKey{i.large[1], i.large[2], i.large[3]};
        break;
      case Item::What::member:
        if (domains_.empty()) break;
        domains_.back().members.push_back(
            {.number = i.large[1],
             .process = {.pid = i.small[0], .uid = i.small[1], .start = i.large[2], .command = i.command},
             .registrations = i.small[2],
             .srqs = static_cast<std::uint32_t>(i.large[3] >> 32),
             .events_waiting = static_cast<std::uint32_t>(i.large[3]),
             .events_lost = (i.flags & Item::events_lost) != 0});
        break;
      case Item::What::tgt:
        if (domains_.empty()) break;
        domains_.back().tgts.push_back({.id = {i.small[0], i.large[1]},
                                        .state = i.state,
                                        .why = i.why,
                                        .reason = i.small[1],
                                        .age = Duration(static_cast<std::int64_t>(i.large[3])),
                                        .events = i.large[4]});
        if ((i.flags & Item::has_peer) != 0) domains_.back().tgts.back().peer = Peer{i.large[2], i.small[2]};
        break;
      case Item::What::registrant:
        if (!domains_.empty() && !domains_.back().tgts.empty())
          domains_.back().tgts.back().registrants.push_back(i.large[1]);
        break;
      case Item::What::counter: count(i.small[0], i.large[0]); break;
    }
  }
  Overview take(std::uint32_t epoch) { return {std::move(domains_), counters_, epoch}; }

 private:
  void count(std::uint32_t which, std::uint64_t value) {
    std::uint32_t at = 0;
#define PARLEY_X(name, text) \
  if (which == at++) counters_.name = value;
    PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
  }
  std::vector<DomainView> domains_;
  Counters counters_;
};

}  // namespace

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
TgtQp::~TgtQp() { (void)release(); }

Result<std::uint64_t> TgtQp::release() {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  const std::shared_ptr<Link> link = std::move(link_);
  link_.reset();
  if (link->let_go(id_) > 0) return 0;  // another object of this process stands for the registration
  const auto answer = link->call({.ask = Ask::unregister, .tgt = id_});
  if (!answer) return tl::unexpected(answer.error());
  return answer->value;
}

Result<bool> TgtQp::modify(State to, std::uint64_t digest) {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  const auto answer = link_->call({.ask = Ask::modify, .state = to, .tgt = id_, .value = digest});
  if (!answer) return tl::unexpected(answer.error());
  return (answer->flags & Answer::already) != 0;
}

Result<TgtView> TgtQp::query() const {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  const auto a = link_->call({.ask = Ask::query, .tgt = id_});
  if (!a) return tl::unexpected(a.error());
  return view_of(*a);
}

Result<void> TgtQp::report(EventKind kind, std::uint32_t reason) {
  if (!link_) return tl::unexpected(Error(Refusal::not_registered));
  return done(link_->call({.ask = Ask::report, .kind = kind, .reason = reason, .tgt = id_}));
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
  const auto answer = link_->call(create_request(peer, false));
  if (!answer) return tl::unexpected(answer.error());
  return TgtQp(link_, answer->tgt);
}

Result<TgtId> Domain::reserve(std::optional<Peer> peer) {
  const auto answer = link_->call(create_request(peer, true));
  if (!answer) return tl::unexpected(answer.error());
  return answer->tgt;
}

Result<TgtQp> Domain::publish(TgtId id, std::uint32_t qpn) {
  const auto answer = link_->call({.ask = Ask::publish, .tgt = id, .other = qpn});
  if (!answer) return tl::unexpected(answer.error());
  return TgtQp(link_, answer->tgt);
}

Result<TgtQp> Domain::attach(TgtId id) {
  const auto answer = link_->call({.ask = Ask::enlist, .tgt = id});
  if (!answer) return tl::unexpected(answer.error());
  return TgtQp(link_, answer->tgt);
}

Result<TgtQp> Domain::attach(std::uint32_t qpn) { return attach(TgtId{qpn, 0}); }

Result<void> Domain::add_srq(std::uint32_t srqn) { return done(link_->call({.ask = Ask::add_srq, .other = srqn})); }
Result<void> Domain::remove_srq(std::uint32_t srqn) {
  return done(link_->call({.ask = Ask::remove_srq, .other = srqn}));
}
Result<void> Domain::note_other(std::uint32_t qpn) { return done(link_->call({.ask = Ask::note_other, .other = qpn})); }

Result<std::optional<Event>> Domain::wait_event(Duration longest) { return link_->wait_event(longest); }
Result<int> Domain::fd() { return link_->fd(); }

Result<void> Domain::close(bool force) { return done(link_->call(close_request(force))); }

// ---- administrators ----------------------------------------------------------------------------------------------

Result<Overview> overview(const DomainOptions& options) {
  const auto link = Link::open(options, false, -1);
  if (!link) return tl::unexpected(link.error());
  const auto answer = (*link)->call({.ask = Ask::list});
  if (!answer) return tl::unexpected(answer.error());
  Gathering gathering;
  while (const auto item = (*link)->poll_item()) gathering.add(*item);
  return gathering.take((*link)->epoch());
}

Result<void> kill(TgtId id, const DomainOptions& options) {
  const auto link = Link::open(options, false, -1);
  if (!link) return tl::unexpected(link.error());
  return done((*link)->call({.ask = Ask::kill, .tgt = id}));
}

}  // namespace parley::xrc
