// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Silent peers (cm::Liveness), as far as the queue pair cannot detect them alone: nic/roce/watch.cpp has the rest.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "cm/providers/roce/roce_impl.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::roce {
namespace {

using wire::ib::timeout_of;

constexpr std::uint8_t mra_code_min = 12, mra_code_max = 20;  // 17 ms to 4.3 s
constexpr int host_asked = 4;                                 // SIDR_REQs within the time limit

/// What a peer adds to the service timeout of an MRA (IBA §12.9: the time of the path), up to 4.3 s.
Duration time_of_the_way(const Connection& c) {
  return std::clamp<Duration>(timeout_of(c.ack_timeout), std::chrono::milliseconds(100), timeout_of(mra_code_max));
}

/// The margin for REQs and MRAs that are lost, and for peers that are late.
Duration slack(const Connection& c) { return std::min<Duration>(std::chrono::seconds(1), c.watch.dead_after / 8); }

/// The time after a REQ when the peer gets an unsolicited MRA, unless it has retransmitted its REQ before.
Duration remind_after(const Connection& c) {
  return c.watch.dead_after > Duration{} ? std::min(c.watch.keepalive, c.watch.dead_after / 2) : c.watch.keepalive;
}

/// The longest service timeout of an MRA, sent `later` than the peer's last REQ, with which the peer still retransmits
/// its REQ within dead_after.
std::uint8_t mra_code(const Connection& c, Duration later) {
  const Duration most = c.watch.dead_after - later - time_of_the_way(c) - slack(c);
  std::uint8_t code = mra_code_max;
  while (code > mra_code_min && timeout_of(code) > most) --code;
  return code;
}

}  // namespace

/// The last part of dead_after is reserved for a SIDR_REQ to the peer's host.
nic::roce::QpWatch Roce::watch_of(const Connection& c) const {
  nic::roce::QpWatch watch = c.watch;
  if (watch.dead_after > Duration{}) watch.warning = last_word(watch.keepalive, watch.dead_after);
  return watch;
}

/// While the program decides, the peer retransmits its REQ after the service timeout of an MRA, or after its response
/// timeout (4.3 s for Linux and for this side), plus the time of the path. A peer that does not is dead after
/// dead_after, or when its REQ was expected, whichever is later. The latter only matters if dead_after is too short for
/// the peer's timers.
Instant Roce::asker_dead_at(const Connection& c) const {
  if (c.watch.dead_after <= Duration{}) return never;
  const Instant asked = agent_.requested_at(c.cm);
  const Duration margin = time_of_the_way(c) + slack(c);
  Instant expected = asked;
  if (c.reminded > asked)
    expected = after(c.reminded, timeout_of(mra_code(c, remind_after(c))) + margin);
  else if (agent_.state(c.cm) != ibcm::State::req_rcvd)
    expected = after(asked, timeout_of(mra_code(c, {})) + margin);
  else if (c.watch.keepalive <= Duration{})
    expected = after(asked, timeout_of(mra_code_max) + margin);
  return std::max(expected, after(asked, c.watch.dead_after));
}

void Roce::limit_patience(const Connection& c) {
  if (c.watch.dead_after > Duration{}) agent_.limit_mra(c.cm, mra_code(c, {}));
}

void Roce::check_asker(Connection& c, Instant now) {
  const Instant asked = agent_.requested_at(c.cm);
  if (now >= asker_dead_at(c))
    return fail_setup(c, now,
                      plain_failure(ib::step::ulp_decision, Errc::timed_out, {},
                                    fmt::format("no REQ of {} for {}", c.peer.to_string(), duration_text(now - asked)),
                                    "decide sooner, or check that the peer is up"));
  if (now >= next_ping(c)) {
    c.pinged = now;
    if (agent_.state(c.cm) == ibcm::State::req_rcvd) {
      c.reminded = now;
      agent_.remind(c.cm, c.watch.dead_after > Duration{} ? mra_code(c, remind_after(c)) : mra_code_max);
    } else {
      ping_host(c, now);
    }
  }
  watch_asker(c, now);
}

Instant Roce::next_ping(const Connection& c) const {
  if (c.watch.keepalive <= Duration{}) return never;
  const bool reminds = agent_.state(c.cm) == ibcm::State::req_rcvd;
  return after(std::max(agent_.requested_at(c.cm), c.pinged), reminds ? remind_after(c) : c.watch.keepalive);
}

void Roce::watch_asker(Connection& c, Instant now) {
  const Instant next = std::min(asker_dead_at(c), next_ping(c));
  set_deadline(c, next == never ? never : std::max(next, now + std::chrono::milliseconds(1)));
}

/// After an MRA this side does not retransmit its REQ for some time, so no ICMP error shows that the peer's process is
/// gone. Sets the timer for SIDR_REQs, which cause that error instead.
void Roce::watch_decider(Connection& c, Instant now) {
  if (c.datagrams() || c.watch.keepalive <= Duration{}) return;
  set_deadline(c, after(now, c.watch.keepalive));
}

void Roce::ask_decider(Connection& c, Instant now) {
  ping_host(c, now);
  set_deadline(c, after(now, c.watch.keepalive));
}

/// Sends a SIDR_REQ, for the ICMP error that arrives if the peer's process is gone.
void Roce::ping_host(const Connection& c, Instant now) {
  ask_host_for(c, now, std::min<Duration>(c.watch.keepalive, std::chrono::seconds(1)));
}

void Roce::ask_host(const Connection& c, Instant now) { ask_host_for(c, now, watch_of(c).warning); }

/// Sends a SIDR_REQ for port 0, on which nothing can listen: every connection manager answers it in any state, and it
/// has no other effect.
void Roce::ask_host_for(const Connection& c, Instant now, Duration time) {
  const Address peer = without_port(c.peer);
  std::erase_if(asked_hosts_, [&](const HostProbe& h) { return h.asking == 0 && h.until <= now && h.peer != peer; });
  auto at = std::find_if(asked_hosts_.begin(), asked_hosts_.end(), [&](const HostProbe& h) { return h.peer == peer; });
  if (at == asked_hosts_.end()) at = asked_hosts_.insert(at, HostProbe{.peer = peer});
  at->until = std::max(at->until, after(now, time));
  at->interval = std::max<Duration>(time / host_asked, std::chrono::milliseconds(1));
  at->path = path_to_peer(c);
  if (at->asking == 0) ask_host(*at, now);
}

void Roce::ask_host(HostProbe& host, Instant now) {
  using Kind = ibcm::Timers::Kind;
  ibcm::SidrParameters p;
  p.service_id = service_of(QpType::ud, 0);
  p.path = host.path;
  p.timers =
      ibcm::Timers{.kind = Kind::back_off, .first = host.interval, .cap = host.interval, .total = host.until - now};
  // If the agent has no room, there is no answer, as from a host that is down.
  host.asking = agent_.sidr_request(now, p).value_or(0);
}

void Roce::on_host_answer(Instant now, const ibcm::Event& event) {
  const auto* reply = std::get_if<ibcm::SidrReplied>(&event);
  const auto* failed = std::get_if<ibcm::Failed>(&event);
  if (reply == nullptr && failed == nullptr) return;
  const ibcm::ConnectionId id = reply != nullptr ? reply->id : failed->id;
  const auto at =
      std::find_if(asked_hosts_.begin(), asked_hosts_.end(), [id](const HostProbe& h) { return h.asking == id; });
  if (at == asked_hosts_.end()) return;
  at->asking = 0;
  if (reply != nullptr)
    at->answered = now;
  else if (at->until > now)  // for a connection whose silence was noticed later
    ask_host(*at, now);
}

bool Roce::host_answered(const Connection& c, Instant now) const {
  const Address peer = without_port(c.peer);
  return std::any_of(asked_hosts_.begin(), asked_hosts_.end(), [&](const HostProbe& h) {
    return h.peer == peer && h.answered > Instant::min() && now - h.answered <= watch_of(c).warning;
  });
}

}  // namespace parley::cm::roce
