// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The node: its port, its sockets. daemon_survey.cpp has the collection at the root.
#include "drivers/ssa/daemon.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <utility>

#include "drivers/clock.hpp"

namespace parley::ssa_driver {

namespace {

using wire::mad::Method;
using wire::mad::SsaEndpoint;

constexpr Duration port_look = std::chrono::seconds(1);         // how often the port's attributes are read
constexpr Duration leave_max = std::chrono::milliseconds(500);  // until the transport has room for what informs others
constexpr std::array served_methods{Method::get, Method::set, Method::send, Method::report, Method::delete_};

std::uint64_t draw_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

ssa::NodeTimers node_timers(Duration heartbeat) {
  ssa::NodeTimers out;
  for (Duration* time : {&out.join_spread, &out.hello_first, &out.hello_max, &out.handover_spread, &out.hello_refresh,
                         &out.backup_wait, &out.backup_wait_max, &out.heartbeat, &out.report_delay, &out.report_first})
    *time = scaled(*time, heartbeat);
  return out;
}

mad::PortOptions port_options(const mad::Transport& transport) {
  const std::size_t window = std::min<std::size_t>(32, transport.facts().window_max);
  return {.seed = draw_seed(),
          .window = {.start = window, .least = std::max<std::size_t>(1, window / 2), .most = window},
          .destination_window = {.start = window, .least = std::min<std::size_t>(window, 4), .most = window}};
}

}  // namespace

Duration scaled(Duration time, Duration heartbeat) {
  constexpr Duration usual = ssa::NodeTimers().heartbeat;
  return Duration(static_cast<Duration::rep>(
      static_cast<double>(time.count()) * static_cast<double>(heartbeat.count()) / static_cast<double>(usual.count())));
}

Daemon::Daemon(DaemonOptions options, std::unique_ptr<mad::Transport> transport)
    : options_(std::move(options)),
      transport_(std::move(transport)),
      split_(*transport_,
             [this](const mad::Address& from, ConstBytes mad) {
               if (member_ != nullptr) member_->handle_datagram(clock_now(), from, mad);
             }),
      port_(transport_->facts(), transport_->local(), port_options(*transport_)),
      server_({.key = options_.key, .streams_max = 2 * options_.children_max}) {}

Daemon::~Daemon() = default;

Result<std::unique_ptr<Daemon>> Daemon::open(DaemonOptions options, std::unique_ptr<mad::Transport> transport) {
  std::unique_ptr<Daemon> out(new Daemon(std::move(options), std::move(transport)));
  if (const auto served = out->serve_class(); !served) return tl::unexpected(served.error());
  if (const auto listening = out->listen(); !listening) return tl::unexpected(listening.error());
  if (const auto followed = out->follow_port(clock_now()); !followed) return tl::unexpected(followed.error());
  return out;
}

Result<void> Daemon::serve_class() {
  return transport_->serve({.mgmt_class = static_cast<std::uint8_t>(wire::mad::MgmtClass::ssa),
                            .class_version = 1,
                            .methods = served_methods});
}

Result<void> Daemon::listen() {
  auto loop = asio_driver::MachineLoop::open(server_, {.streams_max = 2 * options_.children_max + 1});
  if (!loop) return tl::unexpected(loop.error());
  server_loop_ = std::move(*loop);
  server_.listen(options_.data);
  while (!server_.listening() && !server_.failure()) server_loop_->run_once(port_look);
  if (server_.failure()) return tl::unexpected(Error(server_.failure()));
  return {};
}

std::uint16_t Daemon::master_lid() const {
  return options_.master_lid != 0 ? options_.master_lid : transport_->local().sm_lid;
}

bool Daemon::is_root() const {
  return (options_.roles & wire::mad::ssa_roles::core) != 0 && transport_->local().lid == master_lid();
}

mad::Address Daemon::master_address() const {
  mad::Address out;
  out.lid = master_lid();
  if (options_.master_lid == 0) out.sl = transport_->local().sm_sl;
  return out;
}

/// What the port is now decides whether the node goes on, begins again, or waits for a subnet manager.
Result<void> Daemon::follow_port(Instant now) {
  const mad::LocalPort& local = transport_->local();
  const bool usable = local.lid != 0 && master_lid() != 0;
  // The root sends no hello, which has the P_Keys.
  const bool again = std::exchange(begins_again_, false);
  const bool same = !again && local.lid == followed_.lid && local.gid == followed_.gid &&
                    (was_root_ || local.pkeys == followed_.pkeys);
  if (!usable) {
    member_.reset();
  } else if (member_ == nullptr || !same || is_root() != was_root_) {
    if (const auto made = make_member(now); !made) return made;
  } else if (master_lid() != followed_master_) {
    member_->handle_master(now, master_address());
  }
  followed_ = local;
  followed_master_ = master_lid();
  return {};
}

ssa::NodeOptions Daemon::node_options(const mad::LocalPort& local) const {
  ssa::NodeOptions out;
  out.seed = draw_seed();
  out.key = options_.key;
  out.gid = local.gid;
  out.node_guid = local.node_guid;
  out.roles = options_.roles;
  out.level = options_.level;
  out.tree = options_.tree;
  out.p_keys.clear();
  for (const std::uint16_t p_key : local.pkeys)
    if (ssa::p_key_base(p_key) != 0) out.p_keys.push_back(p_key);
  out.endpoint.set(SsaEndpoint::lid, local.lid)
      .set(SsaEndpoint::node_guid, local.node_guid)
      .set(SsaEndpoint::p_key, std::uint16_t{0xFFFF})
      .set(SsaEndpoint::qpn, 1U)
      .set(SsaEndpoint::port, server_.listening()->port);
  out.is_root = is_root();
  out.children_max = options_.children_max;
  out.timers = node_timers(options_.heartbeat);
  return out;
}

Result<void> Daemon::make_member(Instant now) {
  const mad::LocalPort& local = transport_->local();
  member_.reset();
  surveying_.reset();
  survey_.reset();
  database_.reset();
  times_.stop();
  puller_loop_.reset();
  puller_ = std::make_unique<ssa::DataPuller>(ssa::DataPullerOptions{.key = options_.key, .gid = local.gid});
  auto loop = asio_driver::MachineLoop::open(*puller_, {.streams_max = 8});
  if (!loop) return tl::unexpected(loop.error());
  puller_loop_ = std::move(*loop);
  ssa::MemberOptions member;
  member.node = node_options(local);
  member.host_of = options_.host_of;
  member.accept = [this](const ssa::SnapshotPtr& snapshot) { return accept(snapshot); };
  was_root_ = member.node.is_root;
  member_ = std::make_unique<ssa::Member>(std::move(member), server_, *puller_, was_root_ ? nullptr : current_.get(),
                                          current_at_);
  member_->start(now, master_address());
  if (was_root_) times_.start(now);
  return {};
}

Result<void> Daemon::accept(const ssa::SnapshotPtr& snapshot) {
  auto map = ssa::PathMap::create(*snapshot);
  if (!map) return tl::unexpected(map.error());
  if (const auto published = current_.publish(snapshot); !published) return published;
  paths_ = std::move(*map);
  return {};
}

Result<bool> Daemon::send_all() {
  if (member_ == nullptr) return false;
  bool moved = false;
  for (;;) {
    if (!held_) held_ = member_->poll_transmit();
    if (!held_) return moved;
    const auto taken = transport_->send(held_->to, held_->mad);
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) return moved;
    held_.reset();
    moved = true;
  }
}

Freshness Daemon::freshness(Instant now) const {
  Freshness out{.has_database = current_.get() != nullptr};
  if (!out.has_database) return out;
  out.current = member_ != nullptr && member_->is_current();
  out.age = std::max(now - current_at(), Duration{});
  out.stale = !out.current && options_.stale_after > Duration{} && out.age > options_.stale_after;
  return out;
}

/// When current() was last known to be the newest version.
Instant Daemon::current_at() const {
  return member_ != nullptr && member_->snapshot() != nullptr ? member_->current_at() : current_at_;
}

/// A root that had no database when it began cannot know the incarnation of the master before, whose clock may have been
/// ahead: it leads again, above it, once. One that meets a newer master later on is not the only one, and must end.
void Daemon::meet_newer_master(std::uint32_t incarnation) {
  if (!is_plausible(incarnation, static_cast<std::uint32_t>(::time(nullptr)))) return;
  met_ = std::max(met_, incarnation);
  if (begins_again_) return;
  (std::exchange(has_met_, true) ? newer_master_ : begins_again_) = true;
}

bool Daemon::take_notes() {
  bool moved = false;
  while (auto note = member_ == nullptr ? std::nullopt : member_->poll_note()) {
    if (note->kind == ssa::MemberNote::Kind::newer_master) meet_newer_master(note->epoch.incarnation);
    notes_.push(std::move(*note));
    moved = true;
  }
  return moved;
}

Result<bool> Daemon::turn() {
  auto moved = mad::pump(port_, split_, clock_now());
  if (!moved) return moved;
  bool more = *moved || split_.taken() > 0;
  if (const auto followed = follow_port(clock_now()); !followed) return tl::unexpected(followed.error());
  if (server_loop_->turn()) more = true;
  if (puller_loop_ != nullptr && puller_loop_->turn()) more = true;
  const Instant now = clock_now();
  if (member_ != nullptr) {
    if (was_root_) member_->set_root_current(times_.is_current(now));
    member_->run(now);
  }
  current_at_ = current_at();
  survey(now);
  const auto sent = send_all();
  if (!sent) return sent;
  more = take_notes() || more || *sent;
  if (newer_master_) return fail(Errc::wrong_state, "there is a newer master of this tree");
  return more;
}

void Daemon::add_to(std::vector<pollfd>& polls) const {
  const short events = static_cast<short>(POLLIN | (transport_->wants_to_send() ? POLLOUT : 0));
  polls.push_back({transport_->fd(), events, 0});
  polls.push_back({server_loop_->fd(), POLLIN, 0});
  if (puller_loop_ != nullptr) polls.push_back({puller_loop_->fd(), POLLIN, 0});
}

Instant Daemon::next_deadline() const {
  Instant out = std::min({clock_now() + port_look, port_.next_deadline(), server_loop_->next_deadline()});
  if (puller_loop_ != nullptr) out = std::min(out, puller_loop_->next_deadline());
  if (member_ != nullptr) out = std::min(out, member_->next_deadline());
  return surveying_ ? out : std::min(out, times_.at());
}

void Daemon::leave() {
  if (member_ == nullptr) return;
  member_->leave(clock_now());
  const Instant end = clock_now() + leave_max;
  for (auto sent = send_all(); sent && held_ && clock_now() < end; sent = send_all()) {
    pollfd room{transport_->fd(), POLLOUT, 0};
    static_cast<void>(::poll(&room, 1, 10));
  }
}

}  // namespace parley::ssa_driver
