// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of real processes that share TGT queue pairs of Parley's own engine: one process has the NIC (RoCEv2 on UDP sockets) and
// does for the others what a kernel does, a handle for each registration until its process ends; each of the others is a member of
// the broker, and messages arrive in its memory, which it shares with the NIC's process.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bytes_io.hpp"
#include "cm/core.hpp"
#include "cm/xrc/service.hpp"
#include "cm/xrc/srqn.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/xrcd/broker.hpp"
#include "drivers/xrcd/link_registrar.hpp"
#include "nic/roce/device.hpp"
#include "parley/roce_host.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::xrc::testing_apart {

inline constexpr std::uint32_t members_max = 100, tgts_max = 128, messages_max = 128, orders_max = 16384;
inline constexpr std::size_t piece = 16;  // octets of a message: which queue pair sent it, from 1

using Count = std::atomic<std::uint32_t>;

/// What a process, the NIC's process and the test know of it. It is in memory that all of them map.
struct MemberBlock {
  Count receives{};  // by the test: posted since the beginning; the NIC's process posts them
  Count srqn{};      // its shared receive queue
  Count joined{};    // TGT queue pairs of the node that it has registered with, refused ones included
  Count refused{};
  Count handles{};  // those that the NIC has for it
  Count heard{};    // messages that the process has found in its memory
  Count removed{};  // events device_removed: of the device, and of each of its TGT queue pairs
  std::atomic<pid_t> pid{};
  std::atomic<bool> leave{};  // by the test
  std::array<std::array<std::uint8_t, piece>, messages_max> memory{};
};

/// A message for a process of the other node, by a queue pair of this one.
struct Order {
  std::uint32_t ini = 0, member = 0;
};

struct NodeBlock {
  Address address{};  // of its NIC, once it listens
  Count listening{};
  std::atomic<bool> serves = true;  // by the test: false, and the service ends
  Count tgts{};
  std::array<TgtId, tgts_max> names{};
  std::array<std::atomic<bool>, tgts_max> there{};  // the NIC has it
  Count connects{};                                 // by the test: queue pairs that send
  Count up{}, over{};
  std::array<Order, orders_max> orders{};
  Count ordered{}, sent{}, unsent{};
  Count rnr_sent{};
  Count members{};
  std::array<MemberBlock, members_max> member{};
};

/// Each of the two has its own processes, as a machine has.
struct Blocks {
  std::array<NodeBlock, 2> node{};
};

/// The NIC's process.
class NicProcess {
 public:
  NicProcess(Blocks& blocks, std::size_t own, const DomainOptions& options, const std::string& domain)
      : own_(blocks.node.at(own)), other_(blocks.node.at(1 - own)) {
    host_ = std::move(*RoceHost::open());
    xrcd_ = host_->device().open_xrcd().value();
    pd_ = host_->device().alloc_pd().value();
    const asio_driver::Descriptor file(::open(domain.c_str(), O_RDONLY | O_CLOEXEC));
    service_member_ = std::make_unique<Process>(*Link::open(options, true, file.fd), host_->device(), *xrcd_);
    DomainOptions carrier = options;
    carrier.carrier = true;
    carrier_ = *Link::open(carrier, true, file.fd);
    own_.address = own_address(static_cast<unsigned>(own) + 1, 7471);
    for (std::uint32_t i = 0; i < own_.members; ++i) add(own_.member.at(i));
    start_service();
    send_region_ = host_->device().reg_mr(pd_, from_, Access::local_write).value();
  }
  [[noreturn]] void run() {
    for (;;) turn();
  }

 private:
  struct Process {  // as the NIC sees it
    Process(std::shared_ptr<Link> link, parley::Device& nic, XrcDomain& domain)
        : registrar(std::move(link)), device(nic, domain), attachment(registrar, device) {}
    LinkRegistrar registrar;
    Device device;
    Attachment attachment;
  };
  struct Member {
    Member(MemberBlock& its, parley::Device& nic, XrcDomain& domain) : block(its), device(nic, domain) {}
    MemberBlock& block;
    Device device;
    std::unique_ptr<CompletionQueue> cq{};
    SharedReceiveQueue* srq = nullptr;
    MemoryRegion region{};
    std::uint32_t posted = 0;
    std::unique_ptr<asio_driver::Descriptor> life{};  // a pidfd
  };
  struct Ini {
    cm::Id id;
    std::unique_ptr<CompletionQueue> cq;
    bool up = false;
    std::uint32_t under_way = 0;
  };
  static constexpr std::uint32_t depth = 16;

  static void must(const Result<void>& done) {
    if (!done) throw std::runtime_error(done.error().message());
  }
  void add(MemberBlock& block) {
    Member& m = members_.emplace_back(block, host_->device(), *xrcd_);
    m.cq = host_->device().create_cq(2 * messages_max).value();
    const MutBytes memory(block.memory.front().data(), sizeof block.memory);
    m.region = host_->device().reg_mr(pd_, memory, Access::local_write).value();
    m.srq = m.device.create_srq(pd_, messages_max, *m.cq).value();
    block.srqn = m.srq->srq_num().value_or(0);
  }
  void start_service() {
    ServiceOptions options{.local = own_.address, .listen = {.pending_max = 4096}};
    options.srqn = [this](std::uint32_t which) -> std::optional<std::uint32_t> {
      return which < own_.members ? std::optional(own_.member.at(which).srqn.load()) : std::nullopt;
    };
    options.on_up = [this](TgtId tgt, const Peer&) {
      own_.names.at(own_.tgts) = tgt;
      ++own_.tgts;
    };
    service_ = std::make_unique<Service>(host_->cm(), service_member_->attachment, std::move(options));
    must(service_->start());
  }
  void turn() {
    (void)host_->run_once(std::chrono::milliseconds(1));
    while (const auto event = host_->device().poll_async_event())
      if (service_member_) (void)service_member_->attachment.handle(*event);
    while (const auto event = host_->cm().poll_event()) handle(*event);
    if (!own_.serves && service_) service_.reset(), service_member_.reset();
    while (inis_.size() < own_.connects) connect();
    for (Member& m : members_) look(m);
    for (Ini& ini : inis_) reap(ini);
    send();
    for (std::uint32_t i = 0; i < own_.tgts; ++i)
      own_.there.at(i) = host_->device().open_qp(*xrcd_, own_.names.at(i).qpn).has_value();
    own_.rnr_sent =
        static_cast<std::uint32_t>(dynamic_cast<nic::roce::RoceDevice&>(host_->device()).counters().rnr_sent);
  }
  /// What a kernel does: a registration has a handle, and a process that has ended has nothing.
  void look(Member& m) {
    if (m.block.pid == 0) return;
    if (!m.life)
      m.life =
          std::make_unique<asio_driver::Descriptor>(static_cast<int>(::syscall(SYS_pidfd_open, m.block.pid.load(), 0)));
    pollfd ended{m.life->fd, POLLIN, 0};
    if (m.srq != nullptr && ::poll(&ended, 1, 0) > 0) {
      m.device.close_all();
      m.srq = nullptr;
      m.block.handles = 0;
    }
    if (m.srq == nullptr) return;
    for (; m.block.handles < m.block.joined; ++m.block.handles)
      (void)m.device.open_tgt(own_.names.at(m.block.handles).qpn);
    for (; m.posted < m.block.receives; ++m.posted) {
      const Sge place{.addr = m.region.addr + m.posted * piece, .length = piece, .lkey = m.region.lkey};
      must(m.srq->post_recv({.sges = {&place, 1}}));
    }
    WorkCompletion one;
    while (m.cq->poll({&one, 1}) == 1) {
    }
  }

  void connect() {
    Ini& ini = inis_.emplace_back();
    ini.cq = host_->device().create_cq(2 * depth).value();
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::xrc_ini};
    options.qp = QpInit{.type = QpType::xrc_ini, .pd = pd_, .send_cq = ini.cq.get(), .max_send_wr = depth};
    options.local = own_.address;
    options.local->port = 0;
    ini.id = host_->cm().connect(other_.address, options).value();
  }
  void ask(std::uint32_t member) {
    const Bytes question = srqn_question(member);
    cm::ConnectOptions options;
    options.transport = ib::Options{.qp_type = QpType::ud};
    options.private_data = question;
    options.local = own_.address;
    options.local->port = 0;
    asked_[member] = host_->cm().connect(other_.address, options).value();
  }
  void handle(const cm::Event& event) {
    if (std::holds_alternative<cm::Listening>(event)) ++own_.listening;
    if (service_ && service_->handle(event)) return;
    const std::uint64_t number = cm::endpoint_of(event);
    const auto* up = std::get_if<cm::Established>(&event);
    for (auto& [member, id] : asked_)
      if (up != nullptr && id.number() == number) srqns_[member] = parse_srqn_answer(up->private_data).value_or(0);
    for (Ini& ini : inis_) {
      if (ini.id.number() != number) continue;
      ini.up = up != nullptr;
      ++(ini.up ? own_.up : own_.over);
    }
  }
  /// In the order of the test's; one whose queue pair has no room, or whose receiver's number is not known yet, holds up the rest.
  void send() {
    for (; next_ < own_.ordered; ++next_) {
      const Order order = own_.orders.at(next_);
      Ini& ini = *std::next(inis_.begin(), order.ini);
      if (!asked_.contains(order.member)) ask(order.member);
      if (!ini.up || ini.under_way == depth || !srqns_.contains(order.member)) return;
      const std::size_t at = piece * (next_ % orders_max);
      Writer(MutBytes(from_).subspan(at)).be32(order.ini + 1);
      const Sge message{.addr = send_region_.addr + at, .length = piece, .lkey = send_region_.lkey};
      must(ini.id.qp()->post_send({.sges = {&message, 1}, .remote_srq_num = srqns_.at(order.member)}));
      ++ini.under_way;
    }
  }
  void reap(Ini& ini) {
    WorkCompletion one;
    while (ini.cq->poll({&one, 1}) == 1) {
      --ini.under_way;
      ++(one.status == WcStatus::success ? own_.sent : own_.unsent);
    }
  }

  NodeBlock &own_, &other_;
  std::unique_ptr<RoceHost> host_;
  std::unique_ptr<XrcDomain> xrcd_;
  PdHandle pd_ = 0;
  std::shared_ptr<Link> carrier_;
  std::unique_ptr<Process> service_member_;
  std::unique_ptr<Service> service_;
  std::list<Member> members_;
  std::list<Ini> inis_;
  std::map<std::uint32_t, cm::Id> asked_;
  std::map<std::uint32_t, std::uint32_t> srqns_;  // of the other node's processes
  Bytes from_ = Bytes(piece * orders_max);
  MemoryRegion send_region_{};
  std::uint32_t next_ = 0;
};

/// A process of the node: it registers with each TGT queue pair that comes up, and sees what arrives in its memory.
[[noreturn]] inline void run_member(NodeBlock& node, MemberBlock& own, const DomainOptions& options,
                                    const std::string& domain) {
  const asio_driver::Descriptor file(::open(domain.c_str(), O_RDONLY | O_CLOEXEC));
  auto link = *Link::open(options, true, file.fd);
  LinkRegistrar registrar(link);
  own.pid = ::getpid();
  for (;;) {
    for (std::uint32_t joined = own.joined; joined < node.tgts; ++joined) {
      if (!registrar.enlist(node.names.at(joined))) ++own.refused;
      ++own.joined;
    }
    while (const auto event = registrar.poll_event()) own.removed += event->kind == EventKind::device_removed;
    while (own.heard < messages_max && own.memory.at(own.heard)[3] != 0) ++own.heard;
    if (own.leave) ::_exit(0);
    (void)::poll(nullptr, 0, 10);
  }
}

/// Two nodes, each with its broker, its NIC's process, and its members.
class Nodes {
 public:
  Nodes() {
    std::string name = "/tmp/parley-xrc-apart-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    void* const shared = ::mmap(nullptr, sizeof(Blocks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    blocks_ = new (shared) Blocks;
  }
  ~Nodes() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
    ::munmap(blocks_, sizeof(Blocks));
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  /// Until it listens, and each of its processes has opened the domain.
  void start(std::size_t n, std::uint32_t members) {
    NodeBlock& node = blocks_->node.at(n);
    node.members = members;
    const std::string domain = folder_ + "/domain" + std::to_string(n);
    ::close(::open(domain.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0600));
    const DomainOptions options = options_of(n);
    spawn([options] {
      auto broker = Broker::open({.socket = options.socket,
                                  .registry = {.recovery = std::chrono::milliseconds(100), .assigns_numbers = false}});
      while ((*broker)->run_once(std::chrono::seconds(1))) {
      }
    });
    nic_.at(n) = spawn([this, n, options, domain] { NicProcess(*blocks_, n, options, domain).run(); });
    for (std::uint32_t i = 0; i < members; ++i)
      member_pids_.at(n).push_back(
          spawn([&node, i, options, domain] { run_member(node, node.member.at(i), options, domain); }));
    ASSERT_TRUE(until([&] { return node.listening == 2; }));
    for (std::uint32_t i = 0; i < members; ++i)
      ASSERT_TRUE(until([&] { return node.member.at(i).pid != 0 && node.member.at(i).srqn != 0; }));
  }
  DomainOptions options_of(std::size_t n) const {
    return {.form = RegistryKind::broker,
            .socket = folder_ + "/broker" + std::to_string(n),
            .start = false,
            .patience = hang_limit};
  }
  static bool until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + hang_limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      (void)::poll(nullptr, 0, 1);
    }
    return true;
  }
  NodeBlock& node(std::size_t n) { return blocks_->node.at(n); }
  MemberBlock& member(std::size_t n, std::uint32_t i) { return node(n).member.at(i); }
  /// Node 0's queue pairs that send, each to a TGT queue pair of node 1.
  void connect(std::uint32_t inis) {
    node(0).connects = inis;
    ASSERT_TRUE(until([&] { return node(0).up == inis && node(1).tgts == inis; }));
  }
  bool all_joined(std::size_t n) {
    return until([&] {
      for (std::uint32_t i = 0; i < node(n).members; ++i)
        if (!dead_.contains({n, i}) && member(n, i).handles != node(n).tgts) return false;
      return true;
    });
  }
  void send(std::size_t n, Order order) {
    node(n).orders.at(node(n).ordered) = order;
    ++node(n).ordered;
  }
  /// A message more is in that process's memory.
  bool reaches(std::uint32_t ini, std::uint32_t i) {
    const std::uint32_t before = member(1, i).heard;
    send(0, {ini, i});
    return until([&] { return member(1, i).heard == before + 1; });
  }
  void kill(std::uint32_t i) {
    end(1, i, [this, i] { ::kill(member_pids_[1].at(i), SIGKILL); });
  }
  void leave(std::uint32_t i) {
    end(1, i, [this, i] { member(1, i).leave = true; });
  }
  void kill_nic(std::size_t n) {
    ::kill(nic_.at(n), SIGKILL);
    await(nic_.at(n));
  }
  /// As the broker of node 1 has it: registrants, or none where it has ended.
  std::optional<std::size_t> registrants(std::uint32_t tgt) {
    const auto seen = overview(options_of(1));
    for (const DomainView& d : seen->domains)
      for (const TgtView& t : d.tgts)
        if (t.id == node(1).names.at(tgt)) return t.registrants.size();
    return std::nullopt;
  }
  Counters counters(std::size_t n) { return overview(options_of(n))->counters; }
  std::string domain_of(std::size_t n) const { return folder_ + "/domain" + std::to_string(n); }

 private:
  template <class Run>
  pid_t spawn(Run run) {
    const pid_t parent = ::getpid(), pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) run();
      ::_exit(1);
    }
    pids_.push_back(pid);
    return pid;
  }
  template <class How>
  void end(std::size_t n, std::uint32_t i, How how) {
    how();
    await(member_pids_.at(n).at(i));
    dead_.insert({n, i});
    ASSERT_TRUE(until([&] { return member(n, i).handles == 0; }));
  }
  void await(pid_t pid) {
    ::waitpid(pid, nullptr, 0);
    std::erase(pids_, pid);
  }

  std::string folder_;
  Blocks* blocks_ = nullptr;
  std::array<pid_t, 2> nic_{};
  std::array<std::vector<pid_t>, 2> member_pids_{};
  std::vector<pid_t> pids_;
  std::set<std::pair<std::size_t, std::uint32_t>> dead_;
};

}  // namespace parley::xrc::testing_apart
