// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// xrc::Domain and xrc::TgtQp against a broker in a thread, and with the registry in shared memory. tests/script/xrc_test.py
// has processes, xrcshm_test.cpp what concerns the memory alone.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "drivers/asio/local_socket.hpp"
#include "parley/xrc_domain.hpp"
#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/drivers/quiet_fork.hpp"
#include "tests/unit/hang_limit.hpp"

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
  explicit Place(RegistryKind form) : broker_(form == RegistryKind::broker) {
    options_ = {.form = form,
                .socket = broker_.socket(),
                .segment = broker_.file("segment"),
                .start = form == RegistryKind::shared,
                .device = 3,
                .patience = hang_limit};
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
class Either : public Place, public testing::WithParamInterface<RegistryKind> {
 protected:
  Either() : Place(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Forms, Either, testing::Values(RegistryKind::broker, RegistryKind::shared),
                         [](const auto& form) { return std::string(to_string(form.param)); });
class Xrcd : public Place {
 protected:
  Xrcd() : Place(RegistryKind::broker) {}
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
    const auto event = d->wait_event(hang_limit);
    ASSERT_TRUE(event && *event) << said(event);
    EXPECT_EQ(**event, (Event{a->id(), EventKind::fatal, 9, 1}));
  }
  EXPECT_EQ(b->query()->state, State::error);
  EXPECT_EQ(said(one->close()), sentence(Refusal::busy));
  EXPECT_TRUE(one->close(true));
  EXPECT_EQ(said(a->query()), sentence(Refusal::not_member));
  EXPECT_TRUE(kill(b->id(), options_));
  EXPECT_EQ((*two->wait_event(hang_limit))->kind, EventKind::killed);
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
    while (!event && ::poll(&wait, 1, hang_milliseconds) > 0) event = *two->wait_event({});
    ASSERT_TRUE(event);
    EXPECT_EQ(event->kind, kind);
  }
  EXPECT_EQ(*two->fd(), *fd);
  const pid_t child = quiet_fork();
  if (child == 0) ::_exit(two->fd().error() == make_error_code(Refusal::not_member) ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// What another call has read on its way to its own answer is to be taken too, although nothing more comes.
TEST_P(Either, ItsDescriptorIsReadableForAnEventThatAnotherCallHasRead) {
  auto one = open(), two = open();
  ASSERT_TRUE(one && two) << said(one) << said(two);
  auto made = one->create(Peer{1, 5});
  ASSERT_TRUE(made) << said(made);
  const auto attached = two->attach(made->id());
  ASSERT_TRUE(attached) << said(attached);
  const auto fd = two->fd();
  ASSERT_TRUE(fd);
  ASSERT_TRUE(made->report(EventKind::fatal, 7));  // acknowledged when the others have it
  EXPECT_EQ(attached->query()->state, State::error);
  pollfd readable{*fd, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, hang_milliseconds), 1);
  const auto event = two->wait_event(Duration{});
  ASSERT_TRUE(event && *event);
  EXPECT_EQ((*event)->tgt, made->id());
  EXPECT_EQ((*event)->reason, 7U);
}

TEST_P(Either, AForkedChildIsNoMemberAndHarmsNobody) {
  auto domain = open();
  ASSERT_TRUE(domain);
  auto qp = domain->create();
  ASSERT_TRUE(qp);
  const pid_t child = quiet_fork();
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

TEST_P(Either, AnOverviewNamesTheFileAndCountsRegistrations) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const auto one = domain->create(), two = domain->create();
  struct stat file {};
  ASSERT_EQ(::stat(broker_.file("domain").c_str(), &file), 0);
  const auto seen = overview(options_);
  ASSERT_TRUE(seen) << said(seen);
  const DomainView& view = seen->domains.at(0);
  ASSERT_TRUE(view.key);
  EXPECT_EQ(*view.key, (DomainKey{3, file.st_dev, file.st_ino}));
  EXPECT_EQ(view.members.at(0).registrations, 2U);
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

/// Listens where the broker would, as the user nobody or as who runs the test. Ends with the number of octets that come.
[[noreturn]] void listen_instead(const std::string& path, bool as_nobody, int ready) {
  ::alarm(hang_seconds);
  ::unlink(path.c_str());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool bound = SocketAddress::of(path)->bind(fd) == 0 && (!as_nobody || ::setresuid(65534, 65534, 65534) == 0);
  const bool listens = bound && ::listen(fd, 1) == 0 && ::write(ready, "", 1) == 1;
  const int came = listens ? ::accept(fd, nullptr, nullptr) : -1;
  std::array<char, 64> octets{};
  ::_exit(static_cast<int>(::recv(came, octets.data(), octets.size(), 0)));
}

// The socket may be in a folder that everybody writes to.
TEST_F(Xrcd, ItIsSpokenToIfItIsRootsOrOnesOwn) {
  stop();
  for (const bool of_another : {false, true}) {
    if (of_another && ::geteuid() != 0) break;  // only root can be another user as well
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    const asio_driver::Descriptor reads{ready[0]};
    const pid_t listener = quiet_fork();
    if (listener == 0) listen_instead(options_.socket, of_another, ready[1]);
    ::close(ready[1]);
    char octet = 1;
    ASSERT_EQ(::read(ready[0], &octet, 1), 1);
    DomainOptions hurried = options_;
    hurried.patience = 300ms;
    EXPECT_EQ(said(overview(hurried)), sentence(of_another ? Refusal::socket_foreign : Refusal::timed_out));
    int status = -1;
    ASSERT_EQ(::waitpid(listener, &status, 0), listener);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status) == 0, of_another) << WEXITSTATUS(status);
  }
}

// A child has the socket that the member has given up.
TEST_F(Xrcd, TheDescriptorComesToRestWithTheNextBroker) {
  auto domain = open();
  ASSERT_TRUE(domain);
  const auto fd = domain->fd();
  ASSERT_TRUE(fd && !*domain->wait_event({}));
  stop();
  const pid_t child = quiet_fork();
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

/// Who speaks the protocol by itself, to a broker that has its turn when the test says so.
class Speaker {
 public:
  Speaker(Broker& broker, const BrokerThread& place)
      : broker_(broker),
        socket_{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)},
        file_{::open(place.file("domain").c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600)} {
    EXPECT_EQ(SocketAddress::of(place.socket())->connect(socket_.fd), 0);
    say({.ask = RequestType::hello, .number = 1, .reason = protocol_version, .other = protocol_version});
    open(2);
    for (int turns = 0; heard_ < 2 && turns < 100; ++turns) {
      broker_.run_once({});
      (void)hear();
    }
  }
  void say(const Request& request, bool with_file = false) {
    EXPECT_GT(send_message(socket_.fd, emit(request), with_file ? file_.fd : -1, 0), 0);
  }
  void open(std::uint64_t number) {
    say({.ask = RequestType::open, .number = number, .flags = Request::create | Request::shared}, true);
  }
  /// The numbers of what has come.
  std::vector<std::uint64_t> hear() {
    std::vector<std::uint64_t> out;
    std::array<std::uint8_t, message_max> octets{};
    for (ssize_t n = 0; (n = ::recv(socket_.fd, octets.data(), octets.size(), MSG_DONTWAIT)) > 0; ++heard_) {
      const auto answer = std::get<Answer>(*parse(ConstBytes(octets).first(static_cast<std::size_t>(n))));
      EXPECT_EQ(answer.refusal, Refusal::none) << to_string(answer.about);
      out.push_back(answer.number);
    }
    return out;
  }

 private:
  Broker& broker_;
  asio_driver::Descriptor socket_, file_;
  int heard_ = 0;
};

TEST(XrcdTurns, OneThatAsksMuchIsAnsweredInOrderAndDelaysNobody) {
  const BrokerThread place(false);
  const auto broker = Broker::open({.socket = place.socket()});
  ASSERT_TRUE(broker) << said(broker);
  Speaker much(**broker, place), little(**broker, place);
  std::vector<std::uint64_t> asked, heard;
  for (std::uint64_t i = 0; i < 40; ++i) {
    asked.push_back(10 + i);
    much.say({.ask = i % 2 == 0 ? RequestType::add_srq : RequestType::remove_srq, .number = 10 + i, .other = 7});
  }
  std::size_t most = 0;
  for (std::uint64_t turn = 0; turn < 50; ++turn) {
    little.say({.ask = RequestType::add_srq, .number = 100 + turn, .other = 8});
    (*broker)->run_once({});
    EXPECT_EQ(little.hear(), std::vector{100 + turn});
    const auto more = much.hear();
    most = std::max(most, more.size());
    heard.insert(heard.end(), more.begin(), more.end());
  }
  EXPECT_EQ(heard, asked);
  EXPECT_EQ(most, 8U) << "of a turn";
}

TEST(XrcdTurns, AFileComesWithWhicheverMessageOpens) {
  const BrokerThread place(false);
  const auto broker = Broker::open({.socket = place.socket()});
  ASSERT_TRUE(broker) << said(broker);
  Speaker member(**broker, place);
  std::vector<std::uint64_t> asked, heard;
  for (std::uint64_t i = 0; i < 20; ++i) {
    asked.insert(asked.end(), {2 * i + 10, 2 * i + 11});
    member.say({.ask = RequestType::close, .number = 2 * i + 10}, true);
    member.open(2 * i + 11);
  }
  for (int turn = 0; turn < 100; ++turn) {
    (*broker)->run_once({});
    const auto more = member.hear();
    heard.insert(heard.end(), more.begin(), more.end());
  }
  EXPECT_EQ(heard, asked);
}

TEST_F(Xrcd, OneBrokerHasASocket) {
  EXPECT_EQ(said(Broker::open({.socket = options_.socket})), sentence(Refusal::busy));
  EXPECT_EQ(said(Broker::open({.socket = std::string(200, 'x')})), sentence(Refusal::invalid));
  EXPECT_TRUE(open());
}

/// One broker after the other at a socket; each ends as if it were killed.
class Tenures : public testing::Test {
 protected:
  Tenures() : place_(false) {}
  std::string lock() const { return place_.socket() + ".lock"; }
  std::string take() {
    tenure_.reset();
    auto taken = BrokerLock::acquire(place_.socket());
    if (taken) tenure_.emplace(std::move(*taken));
    return taken ? "ok" : std::string(to_string(static_cast<Refusal>(taken.error().code().value())));
  }
  void write(const std::string& text, mode_t mode = 0600) const {
    ::unlink(lock().c_str());
    const asio_driver::Descriptor file(::open(lock().c_str(), O_WRONLY | O_CREAT, mode));
    ASSERT_EQ(::write(file.fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  BrokerThread place_;
  std::optional<BrokerLock> tenure_;
};

TEST_F(Tenures, EachHasALaterEpochAndTheSameKey) {
  ASSERT_EQ(take(), "ok");
  const std::uint32_t epoch = tenure_->epoch();
  const SipKey key = tenure_->key();
  EXPECT_TRUE(key.a != 0 && key.b != 0);
  for (std::uint32_t later = 1; later < 5; ++later) {  // within one second
    ASSERT_EQ(take(), "ok");
    EXPECT_EQ(tenure_->epoch(), epoch + later);
    EXPECT_EQ(tenure_->key().a, key.a);
    EXPECT_EQ(tenure_->key().b, key.b);
  }
}

TEST_F(Tenures, NumbersAreKeptOfSmallRangesToo) {
  ASSERT_EQ(take(), "ok");
  tenure_->keep(103, 100, 110);
  ASSERT_EQ(take(), "ok");
  EXPECT_EQ(tenure_->qpn_next(), 103U);
  tenure_->keep(0x800007, 0x800000, 0xFFFFFE);
  ASSERT_EQ(take(), "ok");
  EXPECT_EQ(tenure_->qpn_next(), 0x800007 + 2 * BrokerLock::ahead);
}

TEST_F(Tenures, WhatCannotBeWrittenIsNoTenure) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_EQ(take(), "lock_unwritable");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(take(), "ok");
}

TEST_F(Tenures, AFileThatIsSomethingElseIsLeftAsItIs) {
  write("these are somebody's notes\n");
  EXPECT_EQ(take(), "lock_foreign");
  write("12 13\n", 0644);
  EXPECT_EQ(take(), "lock_foreign");
  write("4294967290 13\n");  // of a Parley that had no key
  EXPECT_EQ(take(), "ok");
  EXPECT_EQ(tenure_->epoch(), 4294967291U);
  EXPECT_EQ(tenure_->qpn_next(), 13U);
  tenure_.reset();
  ::unlink(lock().c_str());
  ASSERT_EQ(::symlink("/etc/passwd", lock().c_str()), 0);
  EXPECT_EQ(take(), "lock_foreign");
}

TEST_F(Xrcd, WhatLiesAtItsSocketIsLeftAsItIs) {
  stop();
  const std::string path = options_.socket;
  ::close(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  EXPECT_EQ(said(Broker::open({.socket = path})), sentence(Refusal::socket_foreign));
  DomainOptions hurried = options_;
  hurried.patience = 100ms;
  EXPECT_EQ(said(overview(hurried)), sentence(Refusal::socket_foreign));
  EXPECT_EQ(::unlink(path.c_str()), 0);
  start();
  ::unlink((path + ".lock").c_str());  // and the broker lives
  EXPECT_EQ(said(Broker::open({.socket = path})), sentence(Refusal::busy));
  EXPECT_TRUE(open());
}

}  // namespace
}  // namespace parley::xrc::xrcd_test
