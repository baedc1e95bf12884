// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC domains through the C library, against a broker in a thread. Rows are those of docs/xrc.md.
#include "parley/xrc.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/drivers/broker_thread.hpp"
#include "tests/unit/drivers/quiet_fork.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

struct Name {
  std::uint32_t qpn;
  std::uint64_t generation;
};

class XrcInC : public testing::Test {
 protected:
  ~XrcInC() override {
    for (parley_xrcd* domain : opened_) (void)parley_xrc_close(domain, 1);
  }
  int try_open(parley_xrcd*& out, const char* file, int oflags = O_CREAT) {
    parley_xrc_opts opts = PARLEY_XRC_OPTS_INIT;
    const std::string socket = broker_.socket();
    opts.flags = PARLEY_XRC_NO_START;
    opts.broker = socket.c_str();
    opts.patience_ms = 10'000;
    const int fd = file != nullptr ? ::open(broker_.file(file).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    const int rc = parley_xrc_open(&out, fd, oflags, &opts);
    if (fd >= 0) ::close(fd);
    return rc;
  }
  parley_xrcd* open(const char* file = "domain") {
    parley_xrcd* domain = nullptr;
    EXPECT_EQ(try_open(domain, file), 0) << parley_last_error();
    opened_.push_back(domain);
    return domain;
  }
  static Name create(parley_xrcd* domain) {
    parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
    EXPECT_EQ(parley_xrc_create(domain, nullptr, &tgt), 0) << parley_last_error();
    EXPECT_EQ(tgt.state, PARLEY_XRC_RESET);
    EXPECT_NE(tgt.generation, 0U);
    return {tgt.qpn, tgt.generation};
  }
  /// The next event, which the descriptor tells of; kind 0 if none comes.
  static parley_xrc_event next(parley_xrcd* domain) {
    parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
    for (;;) {
      if (const int rc = parley_xrc_poll_event(domain, &event); rc != 0) {
        EXPECT_EQ(rc, 1) << parley_last_error();
        return event;
      }
      pollfd wait{parley_xrc_fd(domain), POLLIN, 0};
      if (::poll(&wait, 1, hang_milliseconds) <= 0) return event;
    }
  }

  xrc::BrokerThread broker_;
  std::vector<parley_xrcd*> opened_;
};

TEST_F(XrcInC, Rows5To7RegistrationsAreCountedOnce) {
  parley_xrcd *one = open(), *two = open(), *three = open();
  const Name t = create(one);
  EXPECT_EQ(parley_xrc_register(two, t.qpn, t.generation, nullptr), 0);
  EXPECT_EQ(parley_xrc_register(two, t.qpn, t.generation, nullptr), 1);  // already
  EXPECT_EQ(parley_xrc_unregister(two, t.qpn, t.generation), 0);
  EXPECT_EQ(parley_xrc_unregister(two, t.qpn, t.generation), -PARLEY_E_XRC_NOT_REGISTERED);
  EXPECT_EQ(parley_xrc_unregister(three, t.qpn, 0), -PARLEY_E_XRC_NOT_REGISTERED);
  parley_xrc_tgt seen = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_query(three, t.qpn, 0, &seen), 0);  // who is not registered may ask
  EXPECT_EQ(seen.generation, t.generation);
  EXPECT_EQ(parley_xrc_unregister(one, t.qpn, t.generation), 0);
  EXPECT_EQ(parley_xrc_query(three, t.qpn, t.generation, &seen), -PARLEY_E_XRC_GONE);
}

TEST_F(XrcInC, Rows8And9EachRefusalHasACodeAndTheErrnoOfOldPrograms) {
  parley_xrcd *one = open(), *elsewhere = open("other");
  const Name t = create(one);
  EXPECT_EQ(parley_xrc_note_other(one, 77), 0);
  const int not_found = parley_xrc_register(one, 12345, 0, nullptr);
  const int other_domain = parley_xrc_register(elsewhere, t.qpn, t.generation, nullptr);
  const int wrong_type = parley_xrc_register(one, 77, 0, nullptr);
  EXPECT_EQ(not_found, -PARLEY_E_XRC_NOT_FOUND);
  EXPECT_EQ(other_domain, -PARLEY_E_XRC_OTHER_DOMAIN);
  EXPECT_EQ(wrong_type, -PARLEY_E_XRC_WRONG_TYPE);
  EXPECT_EQ(parley_xrc_unregister(one, t.qpn, t.generation), 0);
  const int gone = parley_xrc_register(one, t.qpn, t.generation, nullptr);
  EXPECT_EQ(gone, -PARLEY_E_XRC_GONE);
  EXPECT_STREQ(parley_last_error(), "the TGT queue pair has ended, or is about to");
  EXPECT_EQ(parley_xrc_register(one, t.qpn, 0, nullptr), -PARLEY_E_XRC_GONE);
  for (const int rc : {not_found, other_domain, wrong_type, gone}) EXPECT_EQ(parley_errno(rc), EINVAL);
}

TEST_F(XrcInC, DomainsAreOpenedAsIbvOpenXrcdDoes) {
  parley_xrcd* none = nullptr;
  EXPECT_EQ(try_open(none, "domain", 0), -PARLEY_E_XRC_UNKNOWN_DOMAIN);
  EXPECT_EQ(parley_errno(-PARLEY_E_XRC_UNKNOWN_DOMAIN), EAGAIN);
  parley_xrcd* one = open();
  EXPECT_EQ(try_open(none, "domain", O_CREAT | O_EXCL), -PARLEY_E_XRC_DOMAIN_EXISTS);
  EXPECT_EQ(parley_errno(-PARLEY_E_XRC_DOMAIN_EXISTS), EINVAL);
  EXPECT_EQ(try_open(none, "domain", O_TRUNC), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_xrc_open(&none, 12345, O_CREAT, nullptr), -PARLEY_E_XRC_BAD_DESCRIPTOR);
  EXPECT_EQ(parley_errno(-PARLEY_E_XRC_BAD_DESCRIPTOR), EBADF);
  EXPECT_EQ(none, nullptr);
  const Name t = create(one);
  EXPECT_EQ(parley_xrc_register(open(nullptr), t.qpn, t.generation, nullptr), -PARLEY_E_XRC_OTHER_DOMAIN);
  EXPECT_EQ(parley_xrc_close(one, 0), -PARLEY_E_XRC_BUSY);
  EXPECT_EQ(parley_errno(-PARLEY_E_XRC_BUSY), EBUSY);
  EXPECT_EQ(parley_xrc_close(one, 1), 0);
  EXPECT_EQ(parley_xrc_close(one, 1), -PARLEY_E_BAD_HANDLE);
  parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_create(one, nullptr, &tgt), -PARLEY_E_BAD_HANDLE);
  EXPECT_EQ(parley_xrc_create(nullptr, nullptr, &tgt), -PARLEY_E_BAD_HANDLE);
}

TEST_F(XrcInC, TheDescriptorTellsOfEventsAlsoOfThoseThatACallReceived) {
  parley_xrcd *one = open(), *two = open();
  const Name t = create(one);
  EXPECT_EQ(parley_xrc_register(two, t.qpn, t.generation, nullptr), 0);
  pollfd wait{parley_xrc_fd(two), POLLIN, 0};
  parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
  EXPECT_EQ(parley_xrc_poll_event(two, &event), 0);
  EXPECT_EQ(::poll(&wait, 1, 0), 0);
  EXPECT_EQ(parley_xrc_report(one, t.qpn, t.generation, PARLEY_XRC_EVENT_FATAL, 9), 0);
  parley_xrc_tgt seen = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_query(two, t.qpn, t.generation, &seen), 0);  // the event came before its answer
  EXPECT_EQ(seen.state, PARLEY_XRC_ERROR);
  EXPECT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
  for (parley_xrcd* domain : {one, two}) {
    const parley_xrc_event told = next(domain);
    EXPECT_STREQ(parley_xrc_event_name(told.kind), "fatal");
    EXPECT_EQ(told.qpn, t.qpn);
    EXPECT_EQ(told.generation, t.generation);
    EXPECT_EQ(told.reason, 9U);
    EXPECT_EQ(told.sequence, 1U);
  }
  EXPECT_EQ(parley_xrc_poll_event(two, &event), 0);
  EXPECT_EQ(::poll(&wait, 1, 0), 0);  // and it is quiet when all is taken
}

TEST_F(XrcInC, UnregisterThrowsAwayItsEventsAndSaysHowMany) {
  parley_xrcd *one = open(), *two = open();
  const Name t = create(one);
  EXPECT_EQ(parley_xrc_register(two, t.qpn, t.generation, nullptr), 0);
  EXPECT_EQ(parley_xrc_report(one, t.qpn, t.generation, PARLEY_XRC_EVENT_PEER_GONE, 0), 0);
  EXPECT_EQ(parley_xrc_unregister(two, t.qpn, t.generation), 1);
  parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
  EXPECT_EQ(parley_xrc_poll_event(two, &event), 0);
}

TEST_F(XrcInC, TheDescriptorLeadsToTheNextBrokerAndTheNewsOfIt) {
  parley_xrcd* one = open();
  const Name t = create(one);
  const int fd = parley_xrc_fd(one);
  parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
  broker_.stop();
  for (int i = 0; i < 3; ++i) {  // without a broker it looks for one from time to time
    pollfd wait{fd, POLLIN, 0};
    ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
    EXPECT_EQ(parley_xrc_poll_event(one, &event), 0) << parley_last_error();
  }
  broker_.start();
  EXPECT_EQ(parley_xrc_report(one, t.qpn, t.generation, PARLEY_XRC_EVENT_PEER_GONE, 3), 0) << parley_last_error();
  EXPECT_EQ(next(one).kind, PARLEY_XRC_EVENT_PEER_GONE);
  EXPECT_EQ(parley_xrc_fd(one), fd);
}

TEST_F(XrcInC, TwoThatSetUpTheSameAgreeOrOneIsTold) {
  parley_xrcd *one = open(), *two = open();
  const parley_xrc_peer peer = {.ca_guid = 5, .qpn = 6, .reserved = 0};
  parley_xrc_tgt a = PARLEY_XRC_TGT_INIT, b = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_create(one, &peer, &a), 0);
  EXPECT_EQ(parley_xrc_create(two, &peer, &b), 1);
  EXPECT_EQ(a.generation, b.generation);
  EXPECT_TRUE(b.has_peer == 1 && b.peer.ca_guid == 5 && b.peer.qpn == 6);
  EXPECT_EQ(parley_xrc_modify(one, a.qpn, a.generation, PARLEY_XRC_INIT, 1), 0);
  EXPECT_EQ(parley_xrc_modify(two, a.qpn, a.generation, PARLEY_XRC_INIT, 1), 1);
  EXPECT_EQ(parley_xrc_modify(two, a.qpn, a.generation, PARLEY_XRC_INIT, 2), -PARLEY_E_XRC_CONFLICT);
  EXPECT_EQ(parley_xrc_modify(two, a.qpn, a.generation, PARLEY_XRC_RESET, 0), -PARLEY_E_XRC_BUSY);
  EXPECT_EQ(parley_xrc_modify(two, a.qpn, a.generation, 99, 0), -PARLEY_E_INVALID_ARGUMENT);
  const parley_xrc_peer wrong = {.ca_guid = 5, .qpn = 1U << 24, .reserved = 0};
  EXPECT_EQ(parley_xrc_create(one, &wrong, &a), -PARLEY_E_INVALID_ARGUMENT);
}

TEST_F(XrcInC, WhatIsReservedIsKnownWhenItIsPublished) {
  parley_xrcd *one = open(), *two = open();
  parley_xrc_tgt r = PARLEY_XRC_TGT_INIT, p = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_reserve(one, nullptr, &r), 0);
  EXPECT_EQ(r.state, PARLEY_XRC_CREATING);
  EXPECT_EQ(parley_xrc_register(two, r.qpn, r.generation, nullptr), -PARLEY_E_XRC_NOT_FOUND);
  EXPECT_EQ(parley_xrc_publish(one, r.qpn, r.generation, 0x4711, &p), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_xrc_publish(one, r.qpn, r.generation, 0, &p), 0);
  EXPECT_EQ(p.qpn, r.qpn);
  EXPECT_EQ(p.state, PARLEY_XRC_RESET);
  EXPECT_EQ(parley_xrc_register(two, p.qpn, p.generation, nullptr), 0) << parley_last_error();
  EXPECT_EQ(parley_xrc_publish(one, p.qpn, p.generation, 0, &p), -PARLEY_E_XRC_STATE);
}

TEST_F(XrcInC, ADeviceMayChooseTheNumber) {
  broker_.stop();
  broker_.start({.assigns_numbers = false});
  parley_xrcd* one = open();
  parley_xrc_tgt r = PARLEY_XRC_TGT_INIT, p = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_reserve(one, nullptr, &r), 0) << parley_last_error();
  EXPECT_EQ(parley_xrc_publish(one, r.qpn, r.generation, 0, &p), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_EQ(parley_xrc_publish(one, r.qpn, r.generation, 0x4711, &p), 0) << parley_last_error();
  EXPECT_EQ(p.qpn, 0x4711U);
  EXPECT_EQ(p.generation, r.generation);
}

TEST_F(XrcInC, SharedReceiveQueuesKeepADomainOpen) {
  parley_xrcd *one = open(), *two = open();
  EXPECT_EQ(parley_xrc_add_srq(one, 9), 0);
  EXPECT_EQ(parley_xrc_add_srq(two, 9), -PARLEY_E_XRC_CONFLICT);
  EXPECT_EQ(parley_xrc_close(one, 0), -PARLEY_E_XRC_BUSY);
  EXPECT_EQ(parley_xrc_remove_srq(one, 9), 0);
  EXPECT_EQ(parley_xrc_remove_srq(one, 9), -PARLEY_E_XRC_NOT_FOUND);
  EXPECT_EQ(parley_xrc_close(one, 0), 0);
}

TEST_F(XrcInC, Row25AForkedChildIsNoMember) {
  parley_xrcd* one = open();
  const Name t = create(one);
  const pid_t child = quiet_fork();
  if (child == 0) {
    parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
    const bool refused = parley_xrc_query(one, t.qpn, t.generation, &tgt) == -PARLEY_E_XRC_NOT_MEMBER &&
                         parley_xrc_close(one, 1) == -PARLEY_E_XRC_NOT_MEMBER && parley_xrc_fd(one) < 0;
    ::_exit(refused ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(parley_xrc_unregister(one, t.qpn, t.generation), 0);
}

// Whatever the parent's threads were at when it forked, and a domain of the child's own is none of the parent's.
TEST_F(XrcInC, Row25AChildOfABusyParentIsToldAtOnce) {
  parley_xrcd* one = open();
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i)
    busy.emplace_back([&] {
      while (!stop) (void)parley_xrc_note_other(nullptr, 1);
    });
  int wrong = 0;
  for (int i = 0; i < 100 && wrong == 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(hang_seconds);
      parley_xrcd* own = nullptr;
      const bool refused = parley_xrc_note_other(one, 1) == -PARLEY_E_XRC_NOT_MEMBER;
      const bool opened = i % 20 != 0 || (try_open(own, "other") == 0 && parley_xrc_note_other(own, 1) == 0);
      ::_exit(refused && opened ? 0 : 1);
    }
    int status = 1;
    ::waitpid(child, &status, 0);
    wrong = status;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(XrcInC, StructuresMayBeOfAnotherVersion) {
  parley_xrcd* one = open();
  struct {
    parley_xrc_tgt tgt;
    std::uint64_t of_tomorrow;
  } large{};
  std::memset(&large, 0xFF, sizeof large);
  large.tgt.size = sizeof large;
  EXPECT_EQ(parley_xrc_create(one, nullptr, &large.tgt), 0);
  EXPECT_EQ(large.tgt.size, sizeof large);
  EXPECT_EQ(large.of_tomorrow, 0U);
  parley_xrc_tgt small{};
  EXPECT_EQ(parley_xrc_create(one, nullptr, &small), -PARLEY_E_INVALID_ARGUMENT);  // and nothing is made
  EXPECT_EQ(parley_xrc_unregister(one, large.tgt.qpn, large.tgt.generation), 0);
  EXPECT_EQ(parley_xrc_close(one, 0), 0);
}

TEST_F(XrcInC, ThreadsShareADomain) {
  parley_xrcd* one = open();
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) {
        parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
        parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
        if (parley_xrc_create(one, nullptr, &tgt) != 0 ||
            parley_xrc_modify(one, tgt.qpn, tgt.generation, PARLEY_XRC_INIT, 1) != 0 ||
            parley_xrc_poll_event(one, &event) != 0 || parley_xrc_unregister(one, tgt.qpn, tgt.generation) != 0)
          ++failed;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(parley_xrc_close(one, 0), 0) << parley_last_error();
}

TEST(XrcInCByMemory, TheVariableLeadsThereAndTheDescriptorTellsOfEvents) {
  const xrc::BrokerThread folder(false);
  const std::string segment = folder.file("segment");
  ASSERT_EQ(::setenv("PARLEY_XRC_SEGMENT", segment.c_str(), 1), 0);
  parley_xrc_opts nothing = PARLEY_XRC_OPTS_INIT;
  nothing.flags = PARLEY_XRC_NO_START;
  parley_xrcd *one = nullptr, *two = nullptr;
  EXPECT_EQ(parley_xrc_open(&one, -1, O_CREAT, &nothing), -PARLEY_E_XRC_NO_BROKER);
  const int fd = ::open(folder.file("domain").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (parley_xrcd** domain : {&one, &two})
    ASSERT_EQ(parley_xrc_open(domain, fd, O_CREAT, nullptr), 0) << parley_last_error();
  ::close(fd);
  ::unsetenv("PARLEY_XRC_SEGMENT");
  parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  EXPECT_EQ(parley_xrc_create(one, nullptr, &tgt), 0) << parley_last_error();
  EXPECT_EQ(parley_xrc_register(two, tgt.qpn, tgt.generation, nullptr), 0) << parley_last_error();
  EXPECT_EQ(parley_xrc_report(one, tgt.qpn, tgt.generation, PARLEY_XRC_EVENT_FATAL, 9), 0) << parley_last_error();
  pollfd wait{parley_xrc_fd(two), POLLIN, 0};
  parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
  int taken = 0;
  while (taken == 0 && ::poll(&wait, 1, hang_milliseconds) > 0) taken = parley_xrc_poll_event(two, &event);
  EXPECT_EQ(taken, 1) << parley_last_error();
  EXPECT_EQ(event.reason, 9U);
  for (parley_xrcd* domain : {one, two}) EXPECT_EQ(parley_xrc_close(domain, 1), 0);
}

TEST_F(XrcInC, NamesAndCodesInWords) {
  EXPECT_STREQ(parley_xrc_state_name(PARLEY_XRC_DRAIN), "drain");
  EXPECT_STREQ(parley_xrc_state_name(9), "unknown");
  EXPECT_STREQ(parley_xrc_event_name(PARLEY_XRC_EVENT_EVENTS_LOST), "events_lost");
  EXPECT_STREQ(parley_xrc_event_name(13), "unknown");
  for (int code = PARLEY_E_XRC_NOT_FOUND; code <= PARLEY_E_XRC_NO_BROKER; ++code) {
    EXPECT_STRNE(parley_strerror(-code), "unknown error code") << code;
    EXPECT_NE(parley_errno(-code), EIO) << code;
  }
  EXPECT_EQ(parley_errno(0), 0);
  EXPECT_EQ(parley_errno(-PARLEY_E_NO_MEMORY), ENOMEM);
  EXPECT_EQ(parley_errno(-PARLEY_E_UNSUPPORTED), ENOSYS);
  EXPECT_EQ(parley_errno(12345), EIO);
}

}  // namespace
}  // namespace parley
