// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/link.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint64_t ps_per_second = 1'000'000'000'000;
constexpr std::uint64_t full_ps_max = 1ull << 62;
using wire::ethernet_header;

std::uint32_t on_the_wire(const Frame& frame) {
  return std::max(frame.size + LinkWay::wire_overhead, LinkWay::wire_min);
}

}  // namespace

LinkWay::LinkWay(Engine& engine, HostActions& actions, LinkId link, std::uint8_t end, const LinkOptions& options,
                 bool from_host, Rng rng)
    : engine_(engine), actions_(actions), link_(link), end_(end), from_host_(from_host), options_(options), rng_(rng) {
  set_rate(options.rate_bps);
}

void LinkWay::connect(Node& receiver, std::uint16_t receiver_port, LinkWay& opposite) {
  receiver_ = &receiver;
  receiver_port_ = receiver_port;
  opposite_ = &opposite;
}

void LinkWay::set_rate(std::uint64_t rate_bps) {
  rate_bps_ = rate_bps;
  priced_octets_ = 0;
  const auto full = static_cast<unsigned __int128>(options_.queue_octets) * 8 * ps_per_second / rate_bps;
  full_ps_ = static_cast<std::uint64_t>(std::min<unsigned __int128>(full, full_ps_max));
}

Checked<void> LinkWay::add_fault(const FaultRule& rule) {
  auto injector = injector_ ? nullptr : std::make_unique<FaultInjector>(rng_);
  auto added = (injector ? *injector : *injector_).add(rule);
  if (added && injector) injector_ = std::move(injector);
  if (added && injector_->roce_connections()) {
    // RoCE packets can only be assigned to connections with the frames of both directions.
    if (!opposite_->injector_) opposite_->injector_ = std::make_unique<FaultInjector>(opposite_->rng_);
    opposite_->injector_->follow(injector_->roce_connections());
  }
  return added;
}

/// Picoseconds that `octets` take, rounded up. Consecutive frames tend to have the same size, so the last result is
/// cached.
std::uint64_t LinkWay::price(std::uint32_t octets) {
  if (octets != priced_octets_) {
    const std::uint64_t bits_ps = octets * 8 * ps_per_second;  // at most 9240 octets: below 2^57
    priced_octets_ = octets;
    priced_ps_ = (bits_ps + rate_bps_ - 1) / rate_bps_;
  }
  return priced_ps_;
}

/// Extends the sender's busy time by this duration.
void LinkWay::serialise(std::uint64_t duration_ps) {
  if (busy_until_.ns < engine_.now()) busy_until_ = {engine_.now(), 0};
  const std::uint64_t ps = busy_until_.ps + duration_ps;
  busy_until_.ns += Duration(static_cast<std::int64_t>(ps / 1000));
  busy_until_.ps = static_cast<std::uint32_t>(ps % 1000);
}

/// The time that the queued octets need.
std::uint64_t LinkWay::backlog_ps() const {
  if (busy_until_.ns < engine_.now()) return 0;
  return static_cast<std::uint64_t>((busy_until_.ns - engine_.now()).count()) * 1000 + busy_until_.ps;
}

std::uint64_t LinkWay::octets_waiting() const {
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(backlog_ps()) * rate_bps_ / (8 * ps_per_second));
}

bool LinkWay::has_waiting(std::uint64_t more_than) const {
  if (busy_until_.ns < engine_.now()) return false;
  const auto scaled = static_cast<unsigned __int128>(backlog_ps()) * rate_bps_;
  return scaled >= (static_cast<unsigned __int128>(more_than) + 1) * (8 * ps_per_second);
}

// Frames that are too long for the link are not sent.
std::uint64_t LinkWay::frames_until_waiting(std::uint64_t more_than) const {
  const std::uint64_t waiting = octets_waiting();
  if (waiting > more_than) return 0;
  constexpr std::uint64_t rounding = 13;  // octets per picosecond, at Topology::rate_max
  const std::uint64_t longest = ethernet_header + options_.mtu + wire_overhead + rounding;
  return 1 + (more_than - waiting) / longest;
}

/// False if the frame is too long for the link, or finds the queue full. An idle sender accepts any frame.
bool LinkWay::fits(const Frame& frame, std::uint64_t duration_ps) {
  if (frame.size > ethernet_header + options_.mtu) {
    refuse(frame, DropReason::too_big);
    return false;
  }
  const std::uint64_t backlog = backlog_ps();
  if (backlog == 0 || backlog + duration_ps <= full_ps_) return true;
  refuse(frame, DropReason::queue_full);
  return false;
}

void LinkWay::refuse(const Frame& frame, DropReason reason) {
  ++engine_.counters.dropped;
  if (engine_.tap == nullptr) return;
  if (reason == DropReason::too_big) {
    report_sent(
        frame, frame.octets(), reason,
        fmt::format("{} octets of packet are more than the MTU of {}", frame.size - ethernet_header, options_.mtu));
  } else {
    report_sent(frame, frame.octets(), reason,
                fmt::format("queue full: {} of {} octets wait", octets_waiting(), options_.queue_octets));
  }
}

/// Whether the frame counts for the run's drop mask.
bool LinkWay::has_mask_layer(const Frame& frame) {
  const Layer layer = engine_.mask_layer;
  if (layer == Layer::any) return true;
  const LayerTable* table = table_of(layer);
  if (table == nullptr) return false;
  if (table->carrier != Carrier::tcp_stream) return lay_out(frame.octets()).kinds.has(layer);
  if (!mask_tracker_) mask_tracker_ = std::make_unique<MessageTracker>();
  return mask_tracker_->look(frame.octets()).has(layer);
}

bool LinkWay::masked(const Frame& frame) {
  if (!has_mask_layer(frame)) return false;
  const bool hit = (engine_.drop_mask & 1) != 0;
  engine_.drop_mask >>= 1;
  if (!hit) return false;
  ++engine_.counters.dropped;
  if (engine_.tap != nullptr) report_sent(frame, frame.octets(), DropReason::rule, "dropped by the run's mask");
  return true;
}

void LinkWay::transmit(FramePtr frame) {
  const std::uint64_t duration_ps = price(on_the_wire(*frame));
  if (!fits(*frame, duration_ps)) return;
  serialise(duration_ps);
  ++engine_.counters.packet_hops;
  if (engine_.drop_mask != 0 && from_host_ && masked(*frame)) {
    if (injector_) injector_->count(engine_.now(), *frame);
    return;
  }
  if (injector_) {
    fault(std::move(frame));
    return;
  }
  if (engine_.tap != nullptr) report_sent(*frame, frame->octets(), DropReason::none, {});
  arrive(std::move(frame), Duration{}, false);
}

Instant LinkWay::transmit_shared(const Frame& frame) {
  const std::uint64_t duration_ps = price(on_the_wire(frame));
  if (!fits(frame, duration_ps)) return never;
  serialise(duration_ps);
  ++engine_.counters.packet_hops;
  if (engine_.tap != nullptr) report_sent(frame, frame.octets(), DropReason::none, {});
  return arrival_of_last(Duration{}, false);
}

void LinkWay::deliver(FramePtr frame) {
  if (engine_.tap != nullptr) report_received(*frame, false);
  receiver_->receive(receiver_port_, std::move(frame));
}

/// The frame is on the wire: applies the fault rules.
void LinkWay::fault(FramePtr frame) {
  const bool described = engine_.tap != nullptr;
  if (described) sent_.assign(frame->data(), frame->data() + frame->size);
  const FaultDecision decision = injector_->apply(engine_.now(), *frame, described);
  if (described) report_sent(*frame, sent_, decision.drop, decision.note, decision.changes_stream);
  const Instant passes = busy_until_.rounded_up();
  for (const FaultRule* rule : decision.hosts) actions_.schedule(passes + rule->delay, *rule);
  if (decision.drop != DropReason::none) {
    ++engine_.counters.dropped;
    return;
  }
  std::pair<FramePtr, FramePtr> resets;
  if (decision.reset) resets = FaultInjector::make_resets(engine_.frames, *frame);
  for (std::uint32_t i = 0; i < decision.copies; ++i) {
    arrive(engine_.frames.copy(*frame), decision.extra, decision.overtakable);
  }
  arrive(std::move(frame), decision.extra, decision.overtakable);
  const Instant at = passes + options_.delay + decision.extra;
  if (resets.first) inject(std::move(resets.first), at);
  if (resets.second) opposite_->inject(std::move(resets.second), at);
}

/// When the last frame that was serialised arrives. `extra` is the delay added by a fault. A frame that may be overtaken
/// does not delay the following ones.
Instant LinkWay::arrival_of_last(Duration extra, bool overtakable) {
  Fine fine = busy_until_;
  fine.ns += options_.delay + extra;
  const Instant at = std::max(fine.rounded_up(), last_arrival_);
  if (!overtakable) last_arrival_ = at;
  return at;
}

void LinkWay::arrive(FramePtr frame, Duration extra, bool overtakable) {
  const Instant at = arrival_of_last(extra, overtakable);
  engine_.at(at, *this, arrival, reinterpret_cast<std::uintptr_t>(frame.release()));
}

/// A frame that no node sent. It does not delay the following ones.
void LinkWay::inject(FramePtr frame, Instant at) {
  ++engine_.counters.packet_hops;
  engine_.at(std::max(at, last_arrival_), *this, injected, reinterpret_cast<std::uintptr_t>(frame.release()));
}

void LinkWay::on_event(std::uint32_t kind, std::uint64_t argument) {
  FramePtr frame(reinterpret_cast<Frame*>(static_cast<std::uintptr_t>(argument)));
  if (kind != injected) return deliver(std::move(frame));
  if (engine_.tap != nullptr) report_received(*frame, true);
  receiver_->receive(receiver_port_, std::move(frame));
}

void LinkWay::report_sent(const Frame& frame, ConstBytes octets, DropReason drop, std::string_view note,
                          bool changes_stream) {
  engine_.tap->on_frame({.at = engine_.now(),
                         .link = link_,
                         .end = end_,
                         .outbound = true,
                         .frame_id = frame.id,
                         .octets = octets,
                         .drop = drop,
                         .changes_stream = changes_stream,
                         .note = note});
}

void LinkWay::report_received(const Frame& frame, bool made_by_fault) {
  DropReason reason = DropReason::none;
  std::string_view why = receiver_->would_discard(receiver_port_, frame, reason);
  if (made_by_fault && why.empty()) why = "made by a fault";
  engine_.tap->on_frame({.at = engine_.now(),
                         .link = link_,
                         .end = static_cast<std::uint8_t>(1 - end_),
                         .outbound = false,
                         .frame_id = frame.id,
                         .octets = frame.octets(),
                         .drop = reason,
                         .note = why});
}

}  // namespace parley::sim
