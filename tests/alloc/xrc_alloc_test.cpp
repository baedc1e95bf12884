// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Each allocation of an XRC member, and of its broker, fails once (row 30 of docs/xrc.md). A member is told, and afterwards it
// is registered with what it was told; a broker that lacks memory ends, and the next one knows what its members declare.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "drivers/xrcd/broker.hpp"
#include "parley/xrc.h"
#include "parley/xrc_domain.hpp"
#include "tests/alloc/failing_new.hpp"
#include "xrc/client.hpp"
#include "xrc/server.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

/// In a process of its own: here allocations fail.
class BrokerProcess {
 public:
  BrokerProcess() {
    std::string name = "/tmp/parley-xrc-alloc-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto broker = xrc::Broker::open({.socket = socket()});
    while (broker && (*broker)->run_once(60s)) {
    }
    ::_exit(0);
  }
  ~BrokerProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;
  std::string socket() const { return folder_ + "/broker"; }
  std::string domain() const { return folder_ + "/domain"; }

 private:
  std::string folder_;
  pid_t pid_ = 0;
};

/// A C program that shares a queue pair. It asks for no more once a call has failed, lets go of what it was told that it has, and
/// closes without force: that is refused if it has anything else.
struct XrcProgram {
  int run(const std::string& socket, const std::string& file) {
    parley_xrc_opts opts = PARLEY_XRC_OPTS_INIT;
    opts.flags = PARLEY_XRC_NO_START;
    opts.broker = socket.c_str();
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int rc = parley_xrc_open(&domain, fd, O_CREAT, &opts);
    ::close(fd);
    if (rc < 0) return rc;
    rc = act();
    failing_new::disarm();
    if (has_tgt || may_have_tgt) left = parley_xrc_unregister(domain, tgt.qpn, tgt.generation);
    EXPECT_EQ(has_srq ? parley_xrc_remove_srq(domain, 5) : 0, 0) << parley_last_error();
    closed = parley_xrc_close(domain, 0);
    if (closed != 0) sentence = parley_last_error();
    EXPECT_EQ(closed != 0 ? parley_xrc_close(domain, 1) : 0, 0);
    return rc;
  }
  int act() {
    const parley_xrc_peer peer = {.ca_guid = 1, .qpn = 2, .reserved = 0};
    int rc = parley_xrc_create(domain, &peer, &tgt);
    has_tgt = rc >= 0;
    if (rc >= 0) rc = parley_xrc_fd(domain);
    if (rc >= 0) rc = parley_xrc_modify(domain, tgt.qpn, tgt.generation, PARLEY_XRC_INIT, 1);
    if (rc >= 0) rc = parley_xrc_register(domain, tgt.qpn, tgt.generation, nullptr);
    if (rc >= 0) rc = parley_xrc_add_srq(domain, 5), has_srq = rc == 0;
    if (rc >= 0) rc = parley_xrc_report(domain, tgt.qpn, tgt.generation, PARLEY_XRC_EVENT_FATAL, 0);
    parley_xrc_event event = PARLEY_XRC_EVENT_INIT;
    if (rc >= 0) rc = parley_xrc_poll_event(domain, &event);
    if (rc >= 0) rc = parley_xrc_query(domain, tgt.qpn, tgt.generation, &tgt);
    if (rc < 0) return rc;
    rc = parley_xrc_unregister(domain, tgt.qpn, tgt.generation);
    has_tgt = false;
    may_have_tgt = rc < 0;  // or the broker had the request, and only its answer is lost
    return rc < 0 ? rc : 0;
  }
  parley_xrcd* domain = nullptr;
  parley_xrc_tgt tgt = PARLEY_XRC_TGT_INIT;
  bool has_tgt = false, may_have_tgt = false, has_srq = false;
  int left = 0, closed = 0;
  std::string sentence{};
};

TEST(XrcFailingAllocator, AMemberIsRegisteredWithWhatItWasTold) {
  const BrokerProcess broker;
  const std::string socket = broker.socket(), file = broker.domain();
  for (int i = 0; ::access(socket.c_str(), F_OK) != 0 && i < 2000; ++i) ::usleep(5000);
  EXPECT_EQ(XrcProgram().run(socket, file), 0) << parley_last_error();
  (void)parley_xrc_close(nullptr, 0);
  (void)parley_last_error();
  int told = 0;
  std::uint64_t nth = 0;
  for (bool reached = true; reached;) {
    const std::int64_t before = failing_new::alive();
    {
      XrcProgram program;
      failing_new::arm(++nth);
      const int rc = program.run(socket, file);
      reached = failing_new::disarm() || rc == -PARLEY_E_NO_MEMORY;
      told += rc == -PARLEY_E_NO_MEMORY;
      EXPECT_EQ(program.closed, 0) << "allocation " << nth << ": " << program.sentence;
      EXPECT_GE(program.has_tgt ? program.left : 0, 0)
          << "allocation " << nth << ": it was registered, and is not: " << program.left;
    }
    EXPECT_EQ(failing_new::alive() - before, 0) << "allocation " << nth << " failed, and others were never freed";
    if (nth > 2000) break;
  }
  EXPECT_GT(nth, 20U);
  EXPECT_GT(told, 20) << "a failure is told, not swallowed";
  const auto seen = xrc::overview({.socket = socket, .start = false});
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->domains.empty()) << "the broker knows of members that have closed";
}

/// A broker and its members in one thread and in turn; allocations fail in the broker alone. One that lacks memory ends as
/// `parley xrcd` does, and another one begins.
class Node {
 public:
  static constexpr int members_max = 3;

  Node() {
    for (std::uint32_t i = 0; i < members_max; ++i)
      clients_.push_back(std::make_unique<xrc::Client>(
          xrc::ClientOptions{.process = {.pid = i + 1, .start = i + 1}, .shared = true, .patience = 60s}));
    begin();
  }
  xrc::Answer call(std::size_t who, const xrc::Request& request) {
    const failing_new::Spared spared;
    const auto number = clients_[who]->ask(now_, request);
    for (int i = 0; i < 1000; ++i) {
      turn();
      while (const auto answer = clients_[who]->poll_answer())
        if (number && answer->number == *number) return *answer;
    }
    return {.refusal = xrc::Refusal::timed_out};
  }
  /// Until all that live are members again.
  void settle() {
    const failing_new::Spared spared;
    for (int i = 0; i < 300; ++i) turn();
  }
  void kill(std::size_t who) {
    const failing_new::Spared spared;
    dead_.insert(who);
    in_broker([&] { server_->disconnected(now_, number_of(who)); });
  }
  xrc::Server& server() { return *server_; }
  xrc::Client& client(std::size_t who) { return *clients_[who]; }
  int died = 0;

 private:
  xrc::ConnectionNumber number_of(std::size_t who) const { return 100 * static_cast<unsigned>(died) + who + 1; }
  bool is_dead(std::size_t who) const { return dead_.contains(who); }
  void begin() {
    server_.emplace(
        *xrc::Registry::create(now_, {.epoch = 1U + static_cast<unsigned>(died), .recovery = died == 0 ? 0ms : 200ms}),
        xrc::ServerOptions{});
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (is_dead(i)) continue;
      (void)server_->connected(number_of(i), {.pid = static_cast<std::uint32_t>(i + 1), .start = i + 1});
      clients_[i]->connected(now_);
    }
  }
  /// The one place where allocations fail.
  template <class Work>
  void in_broker(Work work) {
    try {
      const failing_new::Unspared unspared;
      work();
    } catch (const std::bad_alloc&) {
      server_.reset();
      ++died;
      for (std::size_t i = 0; i < clients_.size(); ++i)
        if (!is_dead(i)) clients_[i]->disconnected();
      begin();
    }
  }
  void turn() {
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (is_dead(i)) continue;
      if (const auto out = clients_[i]->poll_transmit())
        in_broker([&] { server_->handle_message(now_, number_of(i), out->octets, file_); });
      std::optional<Bytes> back;
      const int before = died;
      in_broker([&] { back = server_->poll_transmit(now_, number_of(i)); });
      if (back && died == before) clients_[i]->handle_message(now_, *back);
    }
    in_broker([&] {
      while (server_->poll_waiting()) {
      }
      server_->handle_deadline(now_);
    });
    now_ += 1ms;
    for (std::size_t i = 0; i < clients_.size(); ++i)
      if (!is_dead(i)) clients_[i]->handle_deadline(now_);
  }

  Instant now_{1s};
  std::optional<xrc::Server> server_;
  std::vector<std::unique_ptr<xrc::Client>> clients_;
  std::set<std::size_t> dead_;
  xrc::FileFacts file_{.st_dev = 1, .st_ino = 2};
};

/// Three share one queue pair; the one that made it is killed; it fails, and one of the others lets go.
void play(Node& node) {
  const failing_new::Spared all_but_the_broker;
  using xrc::RequestType, xrc::State;
  const auto done = [](const xrc::Answer& answer) {
    const failing_new::Spared spared;
    EXPECT_EQ(to_string(answer.refusal), "none") << to_string(answer.about);
  };
  const xrc::Peer peer{7, 8};
  const auto made = node.call(0, {.ask = RequestType::create, .flags = xrc::Request::has_peer, .peer = peer});
  done(made);
  const xrc::TgtId t = made.tgt;
  done(node.call(0, {.ask = RequestType::modify, .state = State::init, .tgt = t, .value = 1}));
  done(node.call(1, {.ask = RequestType::enlist, .tgt = t}));
  done(node.call(2, {.ask = RequestType::create, .flags = xrc::Request::has_peer, .peer = peer}));
  done(node.call(1, {.ask = RequestType::modify, .state = State::rtr, .tgt = t, .value = 2}));
  done(node.call(1, {.ask = RequestType::add_srq, .other = 9}));
  const auto other = node.call(2, {.ask = RequestType::create});
  done(other);
  node.kill(0);
  done(node.call(2, {.ask = RequestType::report, .kind = xrc::EventKind::access_error, .tgt = t}));
  done(node.call(2, {.ask = RequestType::unregister, .tgt = other.tgt}));
  done(node.call(1, {.ask = RequestType::query, .tgt = t}));
  done(node.call(2, {.ask = RequestType::unregister, .tgt = t}));
}

TEST(XrcFailingAllocator, ABrokerThatLacksMemoryIsFollowedByOneThatKnowsTheSame) {
  int deaths = 0;
  std::uint64_t nth = 0;
  for (bool reached = true; reached && nth < 5000;) {
    Node node;
    failing_new::arm(++nth);
    play(node);
    node.settle();
    reached = failing_new::disarm();
    deaths += node.died;
    const auto domains = node.server().registry().domains(Instant(1h));
    ASSERT_EQ(domains.size(), 1U) << "allocation " << nth;
    EXPECT_EQ(domains[0].members.size(), 2U) << "allocation " << nth;
    ASSERT_EQ(domains[0].tgts.size(), 1U) << "allocation " << nth;
    const xrc::TgtView& t = domains[0].tgts[0];
    EXPECT_EQ(to_string(t.state), "error") << "allocation " << nth;
    EXPECT_EQ(t.registrants.size(), 1U) << "allocation " << nth;
    int told = 0;
    while (const auto event = node.client(1).poll_event()) told += event->kind == xrc::EventKind::access_error;
    EXPECT_EQ(told, 1) << "allocation " << nth;
    EXPECT_EQ(node.server().registry().srq_count(), 1U) << "allocation " << nth;
  }
  EXPECT_GT(deaths, 50);
}

}  // namespace
}  // namespace parley
