// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// xrc::Domain and xrc::TgtQp against a broker in a thread, and with the registry in shared memory. tests/script/xrc_test.py
// has processes, xrcshm_test.cpp what concerns the memory alone.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "parley/xrc_domain.hpp"
#include "tests/unit/drivers/broker_thread.hpp"

namespace parley::xrc::xrcd_test {
namespace {

using namespace std::chrono_literals;

template <class T>
std::string said(const Result<T>& r) {
  return r ? "ok" : r.error().code().message();
}
std::string sentence(Refusal r) { return make_error_code(r).message(); }

class Place : public testing::Test {
 protected:
  explicit Place(Form form) : broker_(form == Form::broker) {
    options_ = {.form = form,
                .socket = broker_.socket(),
                .segment = broker_.file("segment"),
                .start = form == Form::shared,
                .device = 3,
                .patience = 10s};
  }
  void start() { broker_.start(); }
  void stop() { broker_.stop(); }
  Result<Domain> open(const char* file = "domain") { return Domain::open(broker_.file(file), options_); }
  std::size_t alive() const {
    std::size_t out = 0;
    const auto seen = overview(options_);
    EXPECT_TRUE(seen) << said(seen);
    if (seen)
      for (const DomainView& d : seen->domains) out += d.tgts.size();
    return out;
  }

  BrokerThread broker_;
  DomainOptions options_;
};
class Either : public Place, public testing::WithParamInterface<Form> {
 protected:
  Either() : Place(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Forms, Either, testing::Values(Form::broker, Form::shared),
                         [](const auto& form) { return std::string(to_string(form.param)); });
class Xrcd : public Place {
 protected:
  Xrcd() : Place(Form::broker) {}
};

TEST_P(Either, ATgtQueuePairLivesAsLongAsAnObjectOfAnyMember) {
  auto one = open(), two = open();
  ASSERT_TRUE(one && two) << said(one) << said(two);
  auto made = one->create(Peer{1, 5});
  ASSERT_TRUE(made) << said(made);
  {
    auto attached = two->attach(made->id());
    ASSERT_TRUE(attached) << said(attached);
    EXPECT_TRUE(made->release());
    EXPECT_EQ(alive(), 1U);
    auto again = two->create(Peer{1, 5});  // another object for the same registration
    ASSERT_TRUE(again) << said(again);
    EXPECT_EQ(again->id(), attached->id());
    EXPECT_EQ(*again->release(), 0U);
    EXPECT_EQ(alive(), 1U);
  }
  EXPECT_EQ(alive(), 0U);
  EXPECT_EQ(said(one->attach(made->id())), sentence(Refusal::gone));
  EXPECT_EQ(said(made->query()), sentence(Refusal::not_registered));
}

TEST_P(Either, ItsStatesAndEventsReachAllMembers) {
  auto one = open(), two = open();
  ASSERT_TRUE(one && two);
  auto a = one->create();
  auto b = two->attach(a->id());
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(*a->modify(State::init, 7));
  EXPECT_TRUE(*b->modify(State::init, 7));
  EXPECT_EQ(said(b->modify(State::init, 8)), sentence(Refusal::conflict));
  EXPECT_TRUE(a->report(EventKind::fatal, 9));
  for (Domain* d : {&*one, &*two}) {
    const auto event = d->wait_event(10s);
    ASSERT_TRUE(event && *event) << said(event);
    EXPECT_EQ(**event, (Event{a->id(), EventKind::fatal, 9, 1}));
  }
  EXPECT_EQ(b->query()->state, State::error);
  EXPECT_EQ(said(one->close()), sentence(Refusal::busy));
  EXPECT_TRUE(one->close(true));
  EXPECT_EQ(said(a->query()), sentence(Refusal::not_member));
  EXPECT_TRUE(kill(b->id(), options_));
  EXPECT_EQ((*two->wait_event(10s))->kind, EventKind::killed);
}

TEST_P(Either, ItsDescriptorIsReadableWhileSomethingIsToBeTaken) {
  auto one = open(), two = open();
  ASSERT_TRUE(one && two);
  auto a = one->create();
  auto b = two->attach(a->id());
  ASSERT_TRUE(a && b);
  const auto fd = two->fd();
  ASSERT_TRUE(fd) << said(fd);
  pollfd wait{*fd, POLLIN, 0};
  do EXPECT_FALSE(*two->wait_event({}));
  while (::poll(&wait, 1, 100) > 0);
  EXPECT_TRUE(a->report(EventKind::fatal, 9));
  EXPECT_TRUE(a->report(EventKind::peer_gone));
  for (const EventKind kind : {EventKind::fatal, EventKind::peer_gone}) {
    std::optional<Event> event;
    while (!event && ::poll(&wait, 1, 20'000) > 0) event = *two->wait_event({});
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, kind);
  }
  EXPECT_EQ(*two->fd(), *fd);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(two->fd().error() == make_error_code(Refusal::not_member) ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_P(Either, AForkedChildIsNoMemberAndHarmsNobody) {
  auto domain = open();
  ASSERT_TRUE(domain);
  auto qp = domain->create();
  ASSERT_TRUE(qp);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = domain->create().error() == make_error_code(Refusal::not_member) &&
                         qp->release().error() == make_error_code(Refusal::not_member);
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(qp->query()->state, State::reset);
}

TEST_P(Either, DomainsAreThoseOfFiles) {
  auto one = open(), elsewhere = open("other"), alone = Domain::open(-1, options_);
  ASSERT_TRUE(one && elsewhere && alone) << said(alone);
  auto qp = one->create();
  ASSERT_TRUE(qp);
  EXPECT_EQ(said(elsewhere->attach(qp->id())), sentence(Refusal::other_domain));
  EXPECT_EQ(said(alone->attach(qp->qpn())), sentence(Refusal::other_domain));
  EXPECT_EQ(said(Domain::open(99999, options_)), sentence(Refusal::bad_descriptor));
  DomainOptions only = options_;
  only.exclusive = true;
  EXPECT_EQ(said(Domain::open(broker_.file("domain"), only)), sentence(Refusal::domain_exists));
  DomainOptions device = options_;
  device.device = 4;
  auto there = Domain::open(broker_.file("domain"), device);
  ASSERT_TRUE(there);
  EXPECT_EQ(said(there->attach(qp->id())), sentence(Refusal::other_domain));
}

TEST_F(Xrcd, MembersOutliveTheirBroker) {
  auto domain = open();
  ASSERT_TRUE(domain);
  auto qp = domain->create(Peer{1, 5});
  ASSERT_TRUE(qp && qp->modify(State::init, 1) && domain->add_srq(5));
  const std::uint32_t epoch = overview(options_)->epoch;
  stop();
  DomainOptions hurried = options_;
  hurried.patience = 50ms;
  EXPECT_EQ(said(overview(hurried)), sentence(Refusal::no_broker));
  start();
  EXPECT_EQ(qp->query()->state, State::init);
  const auto seen = overview(options_);
  ASSERT_TRUE(seen);
  EXPECT_GT(seen->epoch, epoch);
  EXPECT_EQ(seen->domains.at(0).members.at(0).srqs, 1U);
  EXPECT_EQ(seen->domains.at(0).tgts.at(0).peer, (Peer{1, 5}));
  EXPECT_EQ(seen->domains.at(0).members.at(0).process.pid, static_cast<std::uint32_t>(::getpid()));
  auto second = domain->create();
  EXPECT_GT(second->id().generation, qp->id().generation);
  EXPECT_NE(second->qpn(), qp->qpn());
}

// A child has the socket that the member has given up.
TEST_F(Xrcd, TheDescriptorComesToRestWithTheNextBroker) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const auto fd = domain->fd();
  ASSERT_TRUE(fd && !*domain->wait_event({}));
  stop();
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  start();
  EXPECT_TRUE(domain->create());
  pollfd wait{*fd, POLLIN, 0};
  int turns = 0;
  do EXPECT_TRUE(domain->wait_event({}));
  while (::poll(&wait, 1, 100) > 0 && ++turns < 1000);
  EXPECT_LT(turns, 1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Xrcd, OneBrokerHasASocket) {
  EXPECT_EQ(said(Broker::open({.socket = options_.socket})), sentence(Refusal::busy));
  EXPECT_EQ(said(Broker::open({.socket = std::string(200, 'x')})), sentence(Refusal::invalid));
  EXPECT_TRUE(open());
}

}  // namespace
}  // namespace parley::xrc::xrcd_test
