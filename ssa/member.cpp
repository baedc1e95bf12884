// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/member.hpp"

#include <algorithm>
#include <utility>

namespace parley::ssa {

using wire::mad::SsaEndpoint;

std::string_view name_of(MemberNote::Kind kind) {
  using Kind = MemberNote::Kind;
  switch (kind) {
    case Kind::parent: return "parent";
    case Kind::parent_lost: return "parent_lost";
    case Kind::backup: return "backup";
    case Kind::backup_lost: return "backup_lost";
    case Kind::child: return "child";
    case Kind::child_lost: return "child_lost";
    case Kind::child_left: return "child_left";
    case Kind::database: return "database";
    case Kind::pull_failed: return "pull_failed";
    case Kind::member_joined: return "member_joined";
    case Kind::member_left: return "member_left";
    case Kind::member_lost: return "member_lost";
    case Kind::newer_master: return "newer_master";
  }
  return "unknown";
}

Member::Member(MemberOptions options, DataServer& server, DataPuller& puller, SnapshotPtr snapshot, Instant current_at)
    : options_(std::move(options)),
      server_(server),
      puller_(puller),
      node_(options_.node),
      snapshot_(std::move(snapshot)),
      current_at_(current_at) {
  server_.set_children([this](const Gid& gid) { return node_.children().has(gid); });
  server_.set_snapshot(snapshot_);
  puller_.set_base(snapshot_);
}

Member::~Member() {
  server_.set_children({});
  puller_.stop();
}

mad::Address Member::own() const {
  mad::Address out = address_of(options_.node.endpoint);
  if (out.grh) out.grh->gid = options_.node.gid;
  return out;
}

void Member::start(Instant now, const mad::Address& master) {
  if (snapshot_ != nullptr && !options_.node.is_root) node_.handle_database(now, snapshot_->epoch());
  node_.start(now, master);
  settle(now);
}

void Member::handle_master(Instant now, const mad::Address& master) {
  node_.handle_master(now, master);
  settle(now);
}

void Member::leave(Instant now) {
  node_.leave(now);
  settle(now);
  puller_.stop();
}

void Member::handle_datagram(Instant now, const mad::Address& from, ConstBytes mad) {
  const auto message = parse_message(mad);
  if (!message) {
    ++malformed_;
    return;
  }
  if (master_ != nullptr && is_for_master(*message))
    master_->handle_message(now, from, mad);
  else
    node_.handle_message(now, from, mad);
  settle(now);
}

void Member::run(Instant now) {
  node_.handle_deadline(now);
  if (master_ != nullptr) master_->handle_deadline(now);
  settle(now);
  if (is_current() && master_ == nullptr) current_at_ = now;
}

bool Member::is_current() const {
  if (snapshot_ == nullptr) return false;
  if (options_.node.is_root && master_ == nullptr) return false;
  return node_.is_current();
}

void Member::lead(Instant now, MasterOptions options) {
  options.root = options_.node.gid;
  options.root_roles = options_.node.roles;
  options.root_endpoint = options_.node.endpoint;
  options.root_endpoint.set(SsaEndpoint::gid, options_.node.gid);
  options.key = options_.node.key;
  options.tree = options_.node.tree;
  master_ = std::make_unique<Master>(std::move(options));
  master_->start(now);
  settle(now);
}

void Member::publish(Instant now, SnapshotPtr snapshot) {
  if (master_ != nullptr) master_->set_counter(snapshot->epoch().counter);
  use(now, std::move(snapshot));
  settle(now);
}

void Member::use(Instant now, SnapshotPtr snapshot) {
  current_at_ = now;
  if (snapshot_ == snapshot) return;
  snapshot_ = std::move(snapshot);
  server_.set_snapshot(snapshot_);
  puller_.set_base(snapshot_);
  note(MemberNote::Kind::database, {}, snapshot_->epoch());
  node_.handle_database(now, snapshot_->epoch());
}

Instant Member::next_deadline() const {
  return std::min(node_.next_deadline(), master_ == nullptr ? never : master_->next_deadline());
}

/// Until there is nothing to be done: a datagram to the own port makes an answer, which is one, too.
void Member::settle(Instant now) {
  for (bool moved = true; moved;) {
    moved = false;
    while (auto event = puller_.poll_event()) moved = true, take(now, std::move(*event));
    while (const auto event = node_.poll_event()) moved = true, take(now, *event);
    while (const auto sent = node_.poll_transmit()) moved = true, route(now, *sent);
    if (master_ == nullptr) continue;
    while (const auto sent = master_->poll_transmit()) moved = true, route(now, *sent);
    while (const auto event = master_->poll_event()) {
      using Kind = MasterEvent::Kind;
      note(event->kind == Kind::joined ? MemberNote::Kind::member_joined
           : event->kind == Kind::left ? MemberNote::Kind::member_left
           : event->kind == Kind::lost ? MemberNote::Kind::member_lost
                                       : MemberNote::Kind::newer_master,
           event->gid, {event->incarnation, 0});
    }
  }
}

void Member::route(Instant now, const Transmit& sent) {
  const mad::Address self = own();
  if (!same_port(sent.to, self)) return transmits_.push(sent);
  const auto message = parse_message(sent.mad);
  if (!message) return;
  if (master_ != nullptr && is_for_master(*message))
    master_->handle_message(now, self, sent.mad);
  else
    node_.handle_message(now, self, sent.mad);
}

void Member::take(Instant now, const NodeEvent& event) {
  using Kind = NodeEvent::Kind;
  switch (event.kind) {
    case Kind::parent_connected: failures_ = 0; return note(MemberNote::Kind::parent, event.gid);
    case Kind::parent_lost: puller_.stop(); return note(MemberNote::Kind::parent_lost, event.gid);
    case Kind::parent_released: puller_.stop(); return;
    case Kind::backup_connected: return note(MemberNote::Kind::backup, event.gid);
    case Kind::backup_lost: return note(MemberNote::Kind::backup_lost, event.gid);
    case Kind::new_epoch: return pull(now, node_.parent().gid(), node_.parent().endpoint(), event.epoch);
    case Kind::child_connected: return note(MemberNote::Kind::child, event.gid);
    case Kind::child_lost: return note(MemberNote::Kind::child_lost, event.gid);
    case Kind::child_left: return note(MemberNote::Kind::child_left, event.gid);
  }
}

void Member::pull(Instant now, const Gid& parent, const SsaEndpoint& endpoint, Epoch epoch) {
  if (parent == Gid{}) return;
  auto host = options_.host_of(parent);
  if (!host) return pull_failed(now, parent, host.error().message());
  host->port = static_cast<std::uint16_t>(endpoint.get(SsaEndpoint::port));
  puller_.pull(now, parent, *host, epoch);
}

void Member::take(Instant now, PullEvent event) {
  switch (event.kind) {
    case PullEvent::Kind::loaded: return take_loaded(now, event);
    case PullEvent::Kind::failed: return pull_failed(now, event.parent, std::move(event.why));
    case PullEvent::Kind::parent_lost:
      note(MemberNote::Kind::pull_failed, event.parent, {}, std::move(event.why));
      return node_.handle_parent_lost(now, event.parent);
  }
}

void Member::take_loaded(Instant now, const PullEvent& event) {
  if (options_.accept)
    if (const auto good = options_.accept(event.snapshot); !good) {
      puller_.set_base(snapshot_);
      return pull_failed(now, event.parent, good.error().message());
    }
  failures_ = 0;
  use(now, event.snapshot);
}

void Member::pull_failed(Instant now, const Gid& parent, std::string why) {
  note(MemberNote::Kind::pull_failed, parent, {}, std::move(why));
  if (++failures_ < options_.failures_max) return node_.handle_pull_failed(parent);
  failures_ = 0;
  node_.handle_parent_lost(now, parent);
}

void Member::note(MemberNote::Kind kind, const Gid& gid, Epoch epoch, std::string text) {
  notes_.push({kind, gid, epoch, std::move(text)});
}

}  // namespace parley::ssa
