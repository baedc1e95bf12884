// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Draws variations of a given scenario. Half of them are mild: the faults are few, heal within half a second and can be
// survived by retransmission, so the scenario's expectations still apply. The others are wild: hosts crash, streams are
// cut and MPA itself is damaged; then any end is accepted as long as it is the same at both ends (Expect::settled).
// Sizes are bounded so that a run takes milliseconds.
#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/scenario/scenario_schema.hpp"
#include "sim/scenario/swarm.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t payload_max = 512 << 10;  // octets in a whole run: some hundred frames
constexpr std::uint32_t fleet_connections_max = 40;

template <class T>
void report(std::vector<std::string>& out, const std::string& where, std::span<const Key<T>> keys, const T& before,
            const T& after, std::string_view table = {}) {
  for (const Key<T>& key : keys) {
    const std::string was = key.write(before), is = key.write(after);
    if (was == is) continue;
    out.push_back(fmt::format("{}: {}{} = {}", where, table, key.key,
                              is.empty() && key.standard != nullptr ? key.standard() : is));
  }
}

void report_all(std::vector<std::string>& out, const Scenario& before, const Scenario& after) {
  for (std::size_t i = 0; i < after.hosts.size(); ++i) {
    const std::string where = "host " + after.hosts[i].name;
    report(out, where, host_keys(), before.hosts[i], after.hosts[i]);
    report(out, where, tcp_keys(), before.hosts[i], after.hosts[i]);
    report(out, where, rnic_keys(), before.hosts[i], after.hosts[i]);
    report(out, where, hca_keys(), before.hosts[i], after.hosts[i]);
    if (after.hosts[i].is_switch)
      report(out, "switch " + after.hosts[i].name, switch_keys(), before.hosts[i], after.hosts[i]);
  }
  for (std::size_t i = 0; i < after.links.size(); ++i)
    report(out, "link " + after.links[i].name, link_keys(), before.links[i], after.links[i]);
  for (std::size_t i = 0; i < after.listens.size(); ++i) {
    const std::string where = fmt::format("listen {}", i + 1);
    report(out, where, listen_keys(), before.listens[i], after.listens[i]);
    report(out, where, listen_mpa_keys(), before.listens[i], after.listens[i], "mpa.");
  }
  for (std::size_t i = 0; i < after.connects.size(); ++i) {
    const std::string where = fmt::format("connect {}", i + 1);
    report(out, where, connect_keys(), before.connects[i], after.connects[i]);
    report(out, where, connect_mpa_keys(), before.connects[i], after.connects[i], "mpa.");
  }
  for (std::size_t i = 0; i < after.members.size(); ++i)
    report(out, fmt::format("member {}", i + 1), member_keys(), before.members[i], after.members[i]);
  for (std::size_t i = 0; i < after.sends.size(); ++i)
    report(out, fmt::format("send {}", i + 1), send_keys(), before.sends[i], after.sends[i]);
  for (std::size_t i = before.faults.size(); i < after.faults.size(); ++i) {
    std::string line;
    for (const Key<ScenarioFault>& key : fault_keys())
      if (const std::string value = key.write(after.faults[i]); !value.empty())
        line += fmt::format("{}{} = {}", line.empty() ? "" : ", ", key.key, value);
    out.push_back(fmt::format("fault {}: {}", i + 1, line));
  }
}

}  // namespace

std::uint64_t Swarm::around(std::uint64_t low, std::uint64_t high) {
  // Every power of two is equally likely, so that small and large values both occur.
  const auto low_bits = static_cast<unsigned>(std::bit_width(low)),
             high_bits = static_cast<unsigned>(std::bit_width(high));
  const auto bits = static_cast<unsigned>(rng_.between(low_bits, high_bits));
  const std::uint64_t floor = bits == 0 ? 0 : 1ULL << (bits - 1);
  const std::uint64_t value = floor + rng_.below(std::max<std::uint64_t>(floor, 1));
  return std::clamp(value, low, high);
}

Duration Swarm::time(Duration low, Duration high) {
  const std::uint64_t ns = around(static_cast<std::uint64_t>(low.count()), static_cast<std::uint64_t>(high.count()));
  // Two digits are enough, and easy to read.
  std::uint64_t unit = 1;
  while (ns / unit >= 100) unit *= 10;
  return std::clamp(Duration(static_cast<std::int64_t>(ns / unit * unit)), low, high);
}

void Swarm::draw_hosts() {
  for (ScenarioHost& host : s_.hosts) {
    if (host.is_switch) continue;
    TcpOptions& tcp = host.options.tcp;
    if (one_in(3)) tcp.send_buffer = static_cast<std::uint32_t>(pick({2u << 10, 8u << 10, 64u << 10, 1u << 20}));
    if (one_in(3)) tcp.receive_buffer = static_cast<std::uint32_t>(pick({2u << 10, 8u << 10, 64u << 10, 1u << 20}));
    if (one_in(4)) tcp.window_scale = false;
    if (one_in(4)) tcp.sack_permitted = false;
    if (one_in(4)) tcp.timestamps = false;
    if (one_in(4)) tcp.rto_min = Duration(pick({1'000'000, 10'000'000, 200'000'000}));
    if (one_in(4)) tcp.delayed_ack = Duration(pick({0, 1'000'000, 40'000'000, 100'000'000}));
    if (one_in(4)) tcp.time_wait = Duration(pick({1'000'000, 1'000'000'000, 60'000'000'000}));
    smallest_buffer_ = std::min({smallest_buffer_, tcp.send_buffer, tcp.receive_buffer});
    cm::IwarpProviderOptions& rnic = host.options.rnic;
    if (one_in(4)) rnic.half_close_grace = Duration(pick({0, 1'000'000, 20'000'000}));
    if (one_in(4)) rnic.echo_watch = Duration(pick({0, 1'000'000, 20'000'000}));
    if (mild_) continue;
    if (one_in(4)) tcp.rto_initial = Duration(pick({200'000'000, 1'000'000'000, 3'000'000'000}));
    // An end whose peer's host is dead must detect it before the run ends.
    tcp.rto_max = std::max({tcp.rto_initial, tcp.rto_min, Duration(2s)});
    tcp.retries = static_cast<std::uint8_t>(rng_.between(4, 8));
    tcp.syn_retries = static_cast<std::uint8_t>(rng_.between(2, 6));
    // With a shorter time, a merely slow connection would end differently at the two ends.
    if (one_in(4)) rnic.linger = Duration(pick({3'000'000'000, 5'000'000'000, 10'000'000'000}));
    if (one_in(4)) host.options.ring = static_cast<std::uint32_t>(around(4, 1024));
  }
}

void Swarm::draw_links() {
  for (const ScenarioHost& host : s_.hosts)
    for (const NicOptions& nic : host.options.nics)
      if (nic.mtu != 0) smallest_mtu_ = std::min(smallest_mtu_, nic.mtu);
  // Path-MTU discovery is not modelled: all links at a switch have the same MTU.
  const bool switched =
      std::any_of(s_.hosts.begin(), s_.hosts.end(), [](const ScenarioHost& h) { return h.is_switch; });
  const auto draw_mtu = [&] {
    const bool common = one_in(2);
    const std::uint64_t other = rng_.between(576, 9000);
    return static_cast<std::uint16_t>(common ? pick({576, 1280, 1500, 4096, 9000}) : other);
  };
  const std::uint16_t shared = draw_mtu();
  for (ScenarioLink& link : s_.links) {
    LinkOptions& o = link.options;
    o.mtu = switched ? shared : draw_mtu();
    smallest_mtu_ = std::min(smallest_mtu_, o.mtu);
    o.rate_bps = 10'000'000 * pick({1, 10, 100, 1000, 10'000, 40'000});
    o.delay = time(100ns, mild_ ? 10ms : 50ms);
    // A frame must not wait so long in a link's queue that other frames time out.
    const std::uint64_t queue_min = (std::uint64_t{o.mtu} + 14) * (mild_ ? 16 : 4);
    if (one_in(2)) o.queue_octets = static_cast<std::uint32_t>(around(queue_min, 1 << 20));
    o.queue_octets = std::max(o.queue_octets, static_cast<std::uint32_t>(queue_min));
  }
}

void Swarm::draw_flags(mpa::StartupOptions& o) {
  o.crc = !one_in(4);
  o.markers = one_in(4);
  o.ird = static_cast<std::uint16_t>(one_in(8) ? 0 : around(1, 128));
  o.ord = static_cast<std::uint16_t>(one_in(8) ? 0 : around(1, 128));
}

/// The RTR settings of both sides of a listener's connections, chosen so that they can agree.
void Swarm::draw_rtr(ScenarioListen& listen, const std::vector<ScenarioConnect*>& clients) {
  enum class Style { client_server, enhanced, classic, frame, configured, mismatch };
  const std::uint64_t last = static_cast<std::uint64_t>(mild_ ? Style::configured : Style::mismatch);
  const auto style = static_cast<Style>(rng_.below(last + 1));
  const mpa::Rtr form = static_cast<mpa::Rtr>(
      rng_.between(static_cast<std::uint64_t>(mpa::Rtr::send), static_cast<std::uint64_t>(mpa::Rtr::read)));
  const std::uint64_t accept_bits = rng_.below(8);
  mpa::StartupOptions& l = listen.mpa;
  l.revision = static_cast<std::uint8_t>(style == Style::enhanced || !one_in(4) ? 2 : 1);
  l.rtr_expected = style == Style::configured ? form : mpa::Rtr::none;
  l.accept_rtr_frame = true;
  l.rtr_accept = {(accept_bits & 1) != 0, (accept_bits & 2) != 0, (accept_bits & 4) != 0};
  if (l.rtr_accept.empty()) l.rtr_accept = mpa::RtrSet::of(form);
  if (style == Style::mismatch) {
    l.accept_rtr_frame = !one_in(2);
    // If a Send were expected as RTR, it would consume a program's empty message.
    l.rtr_expected = one_in(2) && form != mpa::Rtr::send ? form : mpa::Rtr::none;
  }
  for (ScenarioConnect* connect : clients) {
    mpa::StartupOptions& c = connect->mpa;
    const std::uint64_t offer_bits = rng_.below(8);
    c.revision = static_cast<std::uint8_t>(style == Style::client_server || style == Style::enhanced ? 2 : 1);
    c.rtr = mpa::Rtr::none;
    c.rtr_offer = {};
    c.rtr_by_s = false;
    c.rtr_fallback = mpa::Rtr::none;
    c.rtr_spelling = one_in(2) ? mpa::RtrSpelling::hex : mpa::RtrSpelling::text;
    if (style == Style::frame) c.rtr = mpa::Rtr::frame;
    if (style == Style::configured || style == Style::enhanced) c.rtr = form;
    if (style == Style::mismatch) {
      const std::uint64_t any = rng_.below(5);
      c.revision = static_cast<std::uint8_t>(any == static_cast<std::uint64_t>(mpa::Rtr::frame) || one_in(2) ? 1 : 2);
      c.rtr = static_cast<mpa::Rtr>(any);
      c.rtr_by_s = one_in(2);
      c.rtr_fallback = one_in(2) ? form : mpa::Rtr::none;
      // If the peer does not expect it as RTR, an empty Send is an ordinary message, which its program receives.
      if ((c.revision == 1 || l.revision == 1) && c.rtr == mpa::Rtr::send) c.rtr = mpa::Rtr::write;
      if (c.rtr_fallback == mpa::Rtr::send) c.rtr_fallback = mpa::Rtr::write;
    }
    if (style == Style::enhanced) {
      c.rtr_offer = {(offer_bits & 1) != 0, (offer_bits & 2) != 0, (offer_bits & 4) != 0};
      if (mild_)
        l.rtr_accept = {l.rtr_accept.send || form == mpa::Rtr::send, l.rtr_accept.write || form == mpa::Rtr::write,
                        l.rtr_accept.read || form == mpa::Rtr::read};
    }
  }
}

void Swarm::draw_work() {
  const bool v6 = smallest_mtu_ >= 1280 && one_in(3) &&  // RFC 8200 §5
                  std::all_of(s_.hosts.begin(), s_.hosts.end(), [](const ScenarioHost& h) { return h.options.ipv6; });
  for (ScenarioListen& listen : s_.listens) {
    std::vector<ScenarioConnect*> clients;
    bool quirky = !listen.mpa.play_quirk.empty() || !listen.mpa.peer_quirk.empty();
    for (ScenarioConnect& connect : s_.connects) {
      if (connect.to != listen.host || connect.port != listen.port) continue;
      clients.push_back(&connect);
      quirky |= !connect.mpa.play_quirk.empty() || !connect.mpa.peer_quirk.empty();
    }
    if (one_in(3)) listen.accept_after = time(1us, mild_ ? 100ms : 2s);
    if (quirky) continue;  // that scenario tests the interaction of these two
    draw_rtr(listen, clients);
    draw_flags(listen.mpa);
    for (ScenarioConnect* connect : clients) draw_flags(connect->mpa);
    settle_depths(listen, clients);
    listen.private_data = filler(one_in(2) ? 0 : static_cast<std::size_t>(rng_.between(0, mpa::private_data_room(2))));
    for (ScenarioConnect* connect : clients) {
      const std::uint64_t wanted = rng_.between(0, mpa::private_data_room(connect->mpa.revision));
      connect->private_data = filler(one_in(2) ? 0 : static_cast<std::size_t>(wanted));
    }
    const bool plain = listen.address == AddressKind::v4 &&
                       std::all_of(clients.begin(), clients.end(),
                                   [](const ScenarioConnect* c) { return c->address == AddressKind::v4; });
    const bool free = std::none_of(s_.listens.begin(), s_.listens.end(), [&](const ScenarioListen& other) {
      return &other != &listen && other.host == listen.host && other.port == listen.port;
    });
    if (!v6 || !plain || !free) continue;
    listen.address = AddressKind::v6;
    for (ScenarioConnect* connect : clients) connect->address = AddressKind::v6;
  }
  for (ScenarioConnect& connect : s_.connects) draw_connect(connect);
  fit_payload();
}

/// Revision 1 negotiates no depths: both sides must be configured with the same values (RFC 5044 §7.1.1).
void Swarm::settle_depths(ScenarioListen& listen, const std::vector<ScenarioConnect*>& clients) {
  for (ScenarioConnect* connect : clients) {
    const bool reads = connect->transfer == Transfer::read;
    const bool plain = connect->mpa.revision == 1 || listen.mpa.revision == 1;
    if (reads) connect->mpa.ord = std::max<std::uint16_t>(connect->mpa.ord, 1);
    if (reads || plain) listen.mpa.ird = std::max(listen.mpa.ird, connect->mpa.ord);
    if (plain) connect->mpa.ird = std::max(connect->mpa.ird, listen.mpa.ord);
  }
}

void Swarm::draw_connect(ScenarioConnect& connect) {
  connect.count = static_cast<std::uint32_t>(one_in(8) ? rng_.between(1, fleet_connections_max) : rng_.between(1, 4));
  connect.interval = one_in(2) ? Duration{} : time(1us, 5ms);
  connect.messages = static_cast<std::uint32_t>(one_in(6) ? 0 : around(1, 40));
  connect.octets = static_cast<std::uint32_t>(one_in(8) ? 0 : around(1, 100 << 10));
  connect.both_ways = !one_in(3);
  const bool quirky = !connect.mpa.play_quirk.empty() || !connect.mpa.peer_quirk.empty();
  const auto closer = static_cast<ClosingSide>(rng_.below(3));
  // A responder without a fence could close before the initiator's first octet.
  if (connect.closer != ClosingSide::nobody && !quirky) connect.closer = closer;
  if (one_in(3)) connect.close_after = time(1us, 100ms);
  // The cause of a failure in the file may be gone after the draw: CRC off, other times, no transfer.
  if (connect.expect == Expect::failed) connect.expect = Expect::settled;
  connect.established_within = {};
  if (mild_) {
    // Even then, a queue overflow, or ARP lost three times, can cost one attempt.
    connect.retries = std::max<std::uint32_t>(connect.retries, 2);
    return;
  }
  connect.retries = static_cast<std::uint32_t>(rng_.below(4));
  connect.expect = Expect::settled;
  const bool rejects = std::any_of(s_.listens.begin(), s_.listens.end(),
                                   [](const ScenarioListen& listen) { return listen.reject_every != 0; });
  // If one side gives up while the other rejects (or starts early, as a peer without a fence), the two ends differ.
  if (!rejects && !quirky && one_in(4)) connect.mpa.timeouts.reply = time(10ms, 30s);
}

/// A run takes milliseconds, and no connection needs more than a few dozen windows.
void Swarm::fit_payload() {
  std::uint64_t connections = 0;
  for (ScenarioConnect& connect : s_.connects) connections += connect.count;
  const std::uint64_t share = payload_max / std::max<std::uint64_t>(connections, 1);
  const std::uint64_t room =
      std::max<std::uint64_t>(std::min<std::uint64_t>(share, std::uint64_t{smallest_buffer_} * 48), 1);
  for (ScenarioConnect& connect : s_.connects) {
    connect.octets = static_cast<std::uint32_t>(std::min<std::uint64_t>(connect.octets, room));
    const std::uint64_t fit = room / std::max<std::uint32_t>(connect.octets, 1);
    connect.messages = static_cast<std::uint32_t>(std::min<std::uint64_t>(connect.messages, fit));
  }
}

Scenario draw_swarm(const Scenario& base, std::uint64_t seed, std::vector<std::string>* drawn) {
  Scenario out = Swarm(base, seed).draw();
  if (drawn != nullptr) report_all(*drawn, base, out);
  return out;
}

}  // namespace parley::sim
