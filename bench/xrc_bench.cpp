// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Registrations with TGT queue pairs. With the broker, compared with an echo of the same octets on the same kind of
// socket. In shared memory, compared with a counter under the same kind of mutex. Also the time from the kill of a
// process until its registrations are gone and its 64 co-registrants have their event, compared with the time until the
// bare system reports its death.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "bench/harness.hpp"
#include "bench/raw_socket.hpp"
#include "drivers/asio/local_socket.hpp"
#include "drivers/clock.hpp"
#include "drivers/xrcd/broker.hpp"
#include "drivers/xrcd/link.hpp"
#include "drivers/xrcshm/segment.hpp"
#include "xrc/message.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;
using xrc::Domain;
using xrc::Request;
using xrc::RequestType;

template <class T>
T must(Result<T> result, const char* what) {
  if (!result) throw std::runtime_error(std::string(what) + ": " + result.error().message());
  return std::move(*result);
}

/// Repeats `batch`, which does `count` operations, for `seconds`.
template <class Batch>
Sample repeated(double seconds, std::size_t count, Batch batch) {
  const Stopwatch watch;
  std::size_t done = 0;
  for (; watch.wall_s() < seconds; done += count) batch();
  return watch.stop(static_cast<double>(done));
}

/// The sample of `work`, including the CPU time that another process used meanwhile.
template <class Work>
Sample with_other(pid_t other, Work work) {
  clockid_t clock{};
  if (::clock_getcpuclockid(other, &clock) != 0) throw std::runtime_error("clock_getcpuclockid");
  const auto used = [clock] {
    timespec t{};
    checked(::clock_gettime(clock, &t), "clock_gettime");
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
  };
  const double before = used();
  Sample out = work();
  out.cpu_s += used() - before;
  return out;
}

/// Child processes that end with this object.
class Children {
 public:
  ~Children() {
    for (const pid_t pid : pids_) end(pid);
  }
  template <class Work>
  pid_t start(Work work) {
    const pid_t pid = checked(::fork(), "fork");
    if (pid == 0) {
      work();
      ::_exit(0);
    }
    pids_.push_back(pid);
    return pid;
  }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  void forget(pid_t pid) { std::erase(pids_, pid); }

 private:
  std::vector<pid_t> pids_;
};

struct Folder {
  Folder() {
    std::string name = "/tmp/parley-xrc-bench-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  std::string path;
};

constexpr std::size_t asked = 112, answered = 96;  // octets of the protocol's requests and answers

/// Sends requests with `window` in flight; counts the answers.
template <class Next>
Sample ask_all(int fd, int window, double seconds, Next next) {
  std::array<std::uint8_t, asked> buffer{};
  const Stopwatch watch;
  double done = 0;
  long sent = 0, got = 0;
  bool more = true;
  while (more || got < sent) {
    while (more && sent - got < window) {
      const Bytes& request = next(sent++);
      checked(::send(fd, request.data(), request.size(), 0), "send");
    }
    if (checked(::recv(fd, buffer.data(), buffer.size(), 0), "recv") != answered) throw std::runtime_error("no answer");
    if (buffer[16] != 0) throw std::runtime_error("a request was refused");
    ++got;
    ++done;
    if ((got & 63) == 0) more = watch.wall_s() < seconds;
  }
  return watch.stop(done);
}

/// The same system calls as the broker, and nothing else.
class Echo {
 public:
  explicit Echo(Children& children) {
    std::array<int, 2> ends{};
    checked(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), "socketpair");
    process_ = children.start([&] {
      std::array<std::uint8_t, asked> octets{};
      const std::array<std::uint8_t, answered> answer{};
      while (::recv(ends[1], octets.data(), octets.size(), 0) > 0)
        (void)::send(ends[1], answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    ::close(ends[1]);
    fd_ = Fd(ends[0]);
  }
  Sample run(int window, double seconds) const {
    const Bytes request(asked);
    return with_other(
        process_, [&] { return ask_all(fd_.get(), window, seconds, [&](long) -> const Bytes& { return request; }); });
  }

 private:
  pid_t process_ = 0;
  Fd fd_;
};

/// The broker in a process, a queue pair that another process holds, and a member that uses the protocol.
class WithBroker {
 public:
  explicit WithBroker(Children& children) {
    options_ = {.form = xrc::RegistryKind::broker, .socket = folder_.path + "/broker", .start = false};
    process_ = children.start([this] {
      const auto broker = xrc::Broker::open({.socket = options_.socket});
      while (broker && (*broker)->run_once(60s)) {
      }
    });
    domain_.emplace(must(Domain::open(folder_.path + "/domain", options_), "Domain::open"));
    held_.emplace(must(domain_->create(), "create"));
    member_ = join();
    requests_ = {emit(Request{.ask = RequestType::enlist, .number = 7, .tgt = held_->id()}),
                 emit(Request{.ask = RequestType::unregister, .number = 7, .tgt = held_->id()})};
  }
  Sample run(int window, double seconds) const {
    return with_other(process_, [&] {
      return ask_all(member_.get(), window, seconds, [&](long n) -> const Bytes& { return requests_[n % 2]; });
    });
  }
  /// The same with the library's calls.
  Sample run_calls(double seconds) {
    auto other = must(Domain::open(folder_.path + "/domain", options_), "Domain::open");
    return with_other(process_, [&] {
      return repeated(seconds, 64, [&] {
        for (int i = 0; i < 32; ++i) (void)must(must(other.attach(held_->id()), "attach").release(), "release");
      });
    });
  }

 private:
  Fd join() const {
    Fd fd(checked(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket"));
    checked(must(SocketAddress::of(options_.socket), "address").connect(fd.get()), "connect");
    const Request hello{.ask = RequestType::hello,
                        .number = 1,
                        .reason = xrc::protocol_version,
                        .other = xrc::protocol_version,
                        .command = "xrc_bench"};
    say(fd.get(), hello, -1);
    const Fd file(checked(::open((folder_.path + "/domain").c_str(), O_RDONLY | O_CLOEXEC), "open"));
    say(fd.get(), {.ask = RequestType::open, .number = 2, .flags = Request::create | Request::shared}, file.get());
    return fd;
  }
  static void say(int fd, const Request& request, int file) {
    checked(xrc::send_message(fd, emit(request), file, 0), "sendmsg");
    std::array<std::uint8_t, asked> answer{};
    checked(::recv(fd, answer.data(), answer.size(), 0), "recv");
    if (answer[16] != 0) throw std::runtime_error("the broker refused the member");
  }
  Folder folder_;
  xrc::DomainOptions options_;
  pid_t process_ = 0;
  std::optional<Domain> domain_;
  std::optional<xrc::TgtQp> held_;
  Fd member_;
  std::array<Bytes, 2> requests_;
};

void with_broker(const Settings& s, Report& report) {
  if (!s.wants("broker")) return;
  report.section("Registrations with the broker, both processes on one processor");
  Children children;
  WithBroker broker(children);
  const Echo echo(children);
  for (const int window : {1, 32}) {
    const auto samples = alternate({{"Parley", [&] { return broker.run(window, s.seconds); }},
                                    {"raw", [&] { return echo.run(window, s.seconds); }}},
                                   s.rounds);
    report.add({.what = window == 1 ? "register or unregister, one at a time" : "the same, 32 under way",
                .unit = "/s",
                .figure = median_of(samples[0], Reading::per_second),
                .limit_name = "seqpacket echo",
                .limit = median_of(samples[1], Reading::per_second),
                .ratio = median_ratio(samples[0], samples[1], Reading::per_second),
                .cpu_ratio = median_ratio(samples[0], samples[1], Reading::per_cpu_second),
                .goal_kind = Row::Goal::ratio_at_least,
                .goal = 0.7});
  }
  const auto calls = alternate(
      {{"Parley", [&] { return broker.run_calls(s.seconds); }}, {"raw", [&] { return echo.run(1, s.seconds); }}},
      s.rounds);
  report.add({.what = "by Domain::attach() and ~TgtQp",
              .unit = "/s",
              .figure = median_of(calls[0], Reading::per_second),
              .limit_name = "seqpacket echo",
              .limit = median_of(calls[1], Reading::per_second),
              .ratio = median_ratio(calls[0], calls[1], Reading::per_second),
              .cpu_ratio = median_ratio(calls[0], calls[1], Reading::per_cpu_second)});
}

// ---- in shared memory --------------------------------------------------------------------------------------------

struct Counted {
  Counted() {
    pthread_mutexattr_t attributes;
    ::pthread_mutexattr_init(&attributes);
    ::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    ::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    ::pthread_mutex_init(&mutex, &attributes);
  }
  pthread_mutex_t mutex;
  std::array<int, 1024> count{};
};

Sample raw_counter(double seconds) {
  void* const page = ::mmap(nullptr, sizeof(Counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("mmap");
  auto* const counted = new (page) Counted;
  const Sample out = repeated(seconds, 4096, [&] {
    for (std::size_t i = 0; i < 4096; ++i) {
      ::pthread_mutex_lock(&counted->mutex);
      counted->count[i / 2 % 1024] += i % 2 == 0 ? 1 : -1;
      ::pthread_mutex_unlock(&counted->mutex);
    }
  });
  ::munmap(page, sizeof(Counted));
  return out;
}

void in_memory(const Settings& s, Report& report) {
  if (!s.wants("shared")) return;
  report.section("Registrations in shared memory, one process");
  const Folder folder;
  const xrc::DomainOptions options{.form = xrc::RegistryKind::shared, .segment = folder.path + "/segment"};
  auto holder = must(Domain::open(folder.path + "/domain", options), "Domain::open");
  auto other = must(Domain::open(folder.path + "/domain", options), "Domain::open");
  std::vector<xrc::TgtQp> held;
  for (int i = 0; i < 1024; ++i) held.push_back(must(holder.create(), "create"));
  const Fd file(checked(::open((folder.path + "/domain").c_str(), O_RDONLY | O_CLOEXEC), "open"));
  const auto link = must(xrc::Link::open(options, true, file.get()), "Link::open");
  const auto by_calls = [&] {
    return repeated(s.seconds, 2 * held.size(), [&] {
      for (const auto& qp : held) (void)must(must(other.attach(qp.id()), "attach").release(), "release");
    });
  };
  const auto by_link = [&] {
    return repeated(s.seconds, 2 * held.size(), [&] {
      for (const auto& qp : held) {
        (void)must(link->enlist(qp.id()), "enlist");
        (void)must(link->unregister(qp.id()), "unregister");
      }
    });
  };
  const auto samples =
      alternate({{"calls", by_calls}, {"link", by_link}, {"raw", [&] { return raw_counter(s.seconds); }}}, s.rounds);
  // A single process that does not wait is measured by its CPU time, which other work on the machine does not lengthen.
  const auto add = [&](const char* what, const std::vector<Sample>& of, bool to_raw) {
    const double figure = median_of(of, Reading::per_cpu_second) / 1e6;
    const double limit = to_raw ? median_of(samples[2], Reading::per_cpu_second) / 1e6 : 10;
    report.add({.what = what,
                .unit = "M per CPU second",
                .figure = figure,
                .limit_name = to_raw ? "counter under a robust mutex" : "goal",
                .limit = limit,
                .ratio = to_raw ? median_ratio(of, samples[2], Reading::per_cpu_second) : figure / limit,
                .goal_kind = to_raw ? Row::Goal::none : Row::Goal::ratio_at_least,
                .goal = 1});
  };
  add("register or unregister, 1024 queue pairs", samples[1], false);
  add("the same", samples[1], true);
  add("by Domain::attach() and ~TgtQp", samples[0], true);
}

// ---- deaths ------------------------------------------------------------------------------------------------------

constexpr int crowd = 64;

double at(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

/// The time from kill -9 until the pidfd reports the death.
double bare_death(Children& children) {
  const pid_t victim = children.start([] { ::pause(); });
  const Fd pidfd(checked(static_cast<int>(::syscall(SYS_pidfd_open, victim, 0)), "pidfd_open"));
  std::this_thread::sleep_for(1ms);
  const double begin = wall_now();
  ::kill(victim, SIGKILL);
  pollfd waits{pidfd.get(), POLLIN, 0};
  checked(::poll(&waits, 1, 10'000), "poll");
  const double out = wall_now() - begin;
  ::waitpid(victim, nullptr, 0);
  children.forget(victim);
  return out * 1e6;
}

/// The times from kill -9 until the victim's registrations are gone, which the fastest member finds, and until the
/// event about its peer is in the queues of all 64 others.
struct Death {
  double dropped_us = 0, told_us = 0;
};
class Deaths {
 public:
  Deaths() {
    segment_ = must(xrc::Segment::open({.path = options_.segment}), "Segment::open");
    started_ =
        new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    domain_.emplace(must(Domain::open(path(), options_), "Domain::open"));
  }
  Death one(bool first) {
    if (first)
      for (int i = 0; i < crowd; ++i) children_.start([this] { take_part(); });
    auto qp = must(domain_->create(), "create");
    published_ = qp.id();
    for (int i = 0; i < crowd; ++i) join(i, qp.id());
    const int before = *started_;
    const pid_t victim = children_.start([this] { be_killed(); });
    while (*started_ == before) std::this_thread::sleep_for(100us);
    while (registrants(qp.id()) != crowd + 2) std::this_thread::sleep_for(100us);
    const double begin = wall_now();
    ::kill(victim, SIGKILL);
    while (registrants(qp.id()) != crowd + 1)
      std::this_thread::sleep_for(20us);  // each check takes the lock that others need
    Death out{.dropped_us = (wall_now() - begin) * 1e6};
    if (!qp.report(xrc::EventKind::peer_gone)) throw std::runtime_error("report");
    out.told_us = (wall_now() - begin) * 1e6;
    ::waitpid(victim, nullptr, 0);
    children_.forget(victim);
    for (int i = 0; i < crowd; ++i)  // all have the event
      if (events_of(members_[static_cast<std::size_t>(i)]) == 0) throw std::runtime_error("a registrant has no event");
    return out;
  }

 private:
  std::string path() const { return folder_.path + "/domain"; }
  /// A process with a membership. Another process registers it, so that all are registered at the same time.
  void take_part() {
    const auto domain = Domain::open(path(), options_);
    ++*started_;
    while (domain) ::pause();
  }
  void be_killed() {
    auto domain = Domain::open(path(), options_);
    auto qp = domain->attach(published_);
    ++*started_;
    while (qp) ::pause();
  }
  void join(int i, xrc::TgtId id) {
    const auto now = clock_now();
    while (*started_ < crowd) std::this_thread::sleep_for(1ms);
    must(segment_->enter(now, xrc::Arena::Kind::grows,
                         [&](xrc::SharedRegistry& r) {
                           if (members_.empty())
                             for (const auto& m : std::as_const(r).members())
                               if (m.process.pid != static_cast<std::uint32_t>(::getpid()))
                                 members_.push_back({segment_->epoch(), m.number});
                           const auto& member = members_.at(static_cast<std::size_t>(i));
                           while (r.poll_event(member)) {
                           }
                           return r.enlist(now, member, id).has_value();
                         }),
         "enlist");
  }
  std::size_t registrants(xrc::TgtId id) {
    return must(segment_->enter(clock_now(), xrc::Arena::Kind::lets_go,
                                [&](xrc::SharedRegistry& r) {
                                  const auto& all = std::as_const(r);
                                  const auto seen = all.query(clock_now(), members_.front(), id);
                                  return seen ? seen->registrants.size() : 0;
                                }),
                "query");
  }
  std::size_t events_of(xrc::MemberId member) {
    return must(segment_->enter(clock_now(), xrc::Arena::Kind::lets_go,
                                [&](xrc::SharedRegistry& r) {
                                  std::size_t out = 0;
                                  while (r.poll_event(member)) ++out;
                                  return out;
                                }),
                "poll_event");
  }

  Folder folder_;
  xrc::DomainOptions options_{.form = xrc::RegistryKind::shared, .segment = folder_.path + "/segment"};
  std::shared_ptr<xrc::Segment> segment_;
  std::optional<Domain> domain_;
  std::vector<xrc::MemberId> members_;
  std::atomic<int>* started_ = nullptr;
  xrc::TgtId published_{};
  Children children_;
};

void deaths(const Settings& s, Report& report) {
  if (!s.wants("death")) return;
  report.section("A process is killed that shares a queue pair with 64 others, in shared memory");
  const int rounds = s.quick ? 5 : 100;
  Children children;
  Deaths with;
  std::vector<double> bare, dropped, told;
  for (int i = 0; i < rounds; ++i) {
    bare.push_back(bare_death(children));
    const Death death = with.one(i == 0);
    dropped.push_back(death.dropped_us);
    told.push_back(death.told_us);
  }
  for (const double share : {0.5, 0.99}) {
    const std::string name = share == 0.5 ? ", p50" : ", p99";
    const double limit = at(bare, share);
    report.add({.what = "its registrations are gone" + name,
                .unit = "us",
                .figure = at(dropped, share),
                .limit_name = "pidfd",
                .limit = limit,
                .ratio = at(dropped, share) / limit});
    report.add({.what = "and 64 have the event" + name,
                .unit = "us",
                .figure = at(told, share),
                .limit_name = share == 0.5 ? "pidfd" : "goal",
                .limit = share == 0.5 ? limit : 1000,
                .ratio = at(told, share) / (share == 0.5 ? limit : 1000),
                .goal_kind = share == 0.5 ? Row::Goal::none : Row::Goal::ratio_at_most,
                .goal = 1});
  }
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv,
                                       "xrc_bench: registrations with XRC's TGT queue pairs\n"
                                       "groups: broker, shared, death");
  if (!settings) return 2;
  Report report("xrc_bench", *settings);
  deaths(*settings, report);
  pin_to_cpu(0);
  with_broker(*settings, report);
  in_memory(*settings, report);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("xrc_bench", parley::bench::run, argc, argv); }
