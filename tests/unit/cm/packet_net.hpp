// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A network of RoCE hosts in virtual time, for tests above the packet seam: packets with delay, lost, doubled or held back as a
// test says, addresses that are taken, hosts that are not there.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/gid.hpp"
#include "cm/providers/roce/roce.hpp"
#include "parley/cm.hpp"
#include "tests/unit/cm/event_log.hpp"
#include "tests/unit/verbs_kit.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"

namespace parley::packet_net {

using namespace std::chrono_literals;

class Host;
class Net;

/// Joins an address of each of two hosts. Each host has a number of its own for the link, which is the scope of link-local addresses.
struct Link {
  std::array<Host*, 2> hosts{};
  std::array<Address, 2> at{};  // without their scopes when given
  std::array<std::uint32_t, 2> numbers{};

  /// The end whose host sends so; 2: none.
  std::size_t end_of(const Host& from, const PacketPath& path) const {
    for (const std::size_t i : {0U, 1U})
      if (hosts[i] == &from && at[i] == path.local && leads_to(i, path.peer)) return i;
    return 2;
  }
  bool leads_to(std::size_t end, const Address& peer) const { return as_seen(at[1 - end], end) == peer; }
  Address as_seen(Address address, std::size_t end) const {
    address.scope_id = address.is_link_local() ? numbers[end] : 0;
    return address;
  }
};

/// "REQ", "RTU", ... of a message of the CM; "RC SEND Only", ... of others.
inline std::string name_of(ConstBytes packet) {
  Bytes whole(packet.begin(), packet.end());
  whole.resize(packet.size() + PARLEY_IB_ICRC_LEN);
  const auto parsed = wire::ib::Packet::parse(whole);
  if (!parsed) return "malformed";
  if (parsed->bth.dest_qpn == PARLEY_IB_GSI_QPN)
    if (const auto message = wire::ib::CmMessage::parse(parsed->payload))
      return std::string(wire::ib::to_string(message->type()));
  return wire::ib::opcode_text(parsed->bth.opcode);
}

class Host : public parley::test::EventLog {
 public:
  Host(Net& net, Address ip, const cm::RoceProviderOptions& options, const cm::ManagerOptions& manager)
      : ip(ip), provider(cm::make_roce_provider(options)), cm(*provider, manager), net_(net) {}
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  bool turn();

  Address ip;
  std::unique_ptr<cm::RoceProvider> provider;
  cm::Manager cm;
  std::function<void(cm::ConnectRequest&)> on_request;  // empty: the test decides
  std::optional<Error> bind_error;                      // what every bind gets
  std::size_t bound = 0;                                // uses of the address

 private:
  friend class Net;
  bool carry_out();
  Net& net_;
  std::set<BindId> binds_;
};

class Net {
 public:
  Host& add_host(std::uint8_t last_octet, cm::RoceProviderOptions options = {},
                 const cm::ManagerOptions& manager = {}) {
    options.ca_guid = 0x0200'0000'0000'0000U + last_octet;
    options.seed = last_octet;
    hosts_.push_back(std::make_unique<Host>(*this, Address::v4(192, 0, 2, last_octet, 0), options, manager));
    return *hosts_.back();
  }
  /// Runs until the condition holds; false when nothing is left to happen or `limit` of virtual time has passed.
  template <class Condition>
  bool run_until(Condition condition, Duration limit = 60s) {
    const Instant end = now + limit;
    for (;;) {
      for (bool again = true; again;) {
        again = false;
        for (const auto& host : hosts_) again = host->turn() || again;
      }
      if (condition()) return true;
      Instant next = items_.empty() ? never : items_.begin()->first.first;
      for (const auto& host : hosts_) next = std::min(next, host->provider->next_deadline());
      if (next == never || next > end) {
        now = next == never ? now : end;
        return false;
      }
      now = std::max(now, next);
      deliver_due();
    }
  }
  void run_for(Duration time) {
    (void)run_until([] { return false; }, time);
  }

  /// From the first on, packets go by links alone.
  void join(Link link) {
    for (const std::size_t i : {0U, 1U}) link.at[i] = link.as_seen(link.at[i], i);
    links_.push_back(link);
  }

  Instant now{1s};
  Duration delay = 10us;
  bool unreachable = true;  ///< ICMP tells of hosts that have no such port
  /// How often a packet arrives, and how much later than others; none: once, in time.
  struct Fate {
    int copies = 1;
    Duration later{};
  };
  std::function<Fate(const std::string& name, std::size_t nth)> fate;
  std::function<void(MutBytes packet)> change;  ///< what becomes of a packet on its way
  std::function<void(PacketPath& came)> stray;  ///< where one that goes by a link arrives instead
  std::vector<std::string> sent;                ///< names, in order

 private:
  friend class Host;
  struct Item {
    Host* to = nullptr;
    PacketPath path;
    Bytes packet;
  };
  void transmit(Host& from, const PacketPath& path, ConstBytes packet) {
    const std::string name = name_of(packet);
    if (from.bound == 0) return;  // it has no address to send from
    const Fate happens = fate ? fate(name, counts_[name]++) : Fate{};
    sent.push_back(name);
    Bytes whole(packet.begin(), packet.end());
    if (change) change(whole);
    whole.resize(packet.size() + PARLEY_IB_ICRC_LEN);
    if (!links_.empty()) return go_by_link(from, path, whole);
    for (const auto& host : hosts_) {
      if (host->ip.octets != path.peer.octets) continue;
      if (host->bound == 0) break;
      const PacketPath as_received{.local = path.peer,
                                   .peer = path.local,
                                   .source_port = path.source_port,
                                   .traffic_class = path.traffic_class,
                                   .hop_limit = path.hop_limit};
      for (int i = 0; i < happens.copies; ++i)
        items_.emplace(std::pair{now + delay + happens.later, ++order_}, Item{host.get(), as_received, whole});
      return;
    }
    if (unreachable) from.provider->handle_unreachable(now, path, std::make_error_code(std::errc::connection_refused));
  }
  void go_by_link(const Host& from, const PacketPath& path, const Bytes& packet) {
    for (const Link& link : links_) {
      const std::size_t end = link.end_of(from, path);
      if (end == 2) continue;
      PacketPath came{.local = link.at[1 - end],
                      .peer = link.as_seen(link.at[end], 1 - end),
                      .source_port = path.source_port,
                      .traffic_class = path.traffic_class,
                      .hop_limit = path.hop_limit};
      if (stray) stray(came);
      items_.emplace(std::pair{now + delay, ++order_}, Item{link.hosts[1 - end], came, packet});
    }
  }
  /// Where a host of links receives; none: it has no such address.
  std::optional<Address> bound_at(const Host& host, const PacketCommand& command) const {
    if (command.local.is_any() && command.peer.is_any()) return command.local;
    for (const Link& link : links_)
      for (const std::size_t i : {0U, 1U})
        if (link.hosts[i] == &host &&
            (command.local.is_any() ? link.leads_to(i, command.peer) : link.at[i] == command.local))
          return link.at[i];
    return std::nullopt;
  }
  void deliver_due() {
    while (!items_.empty() && items_.begin()->first.first <= now) {
      const Item item = std::move(items_.begin()->second);
      items_.erase(items_.begin());
      item.to->provider->handle_packet(now, item.path, item.packet);
    }
  }
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Link> links_;
  std::multimap<std::pair<Instant, std::uint64_t>, Item> items_;
  std::map<std::string, std::size_t> counts_;
  std::uint64_t order_ = 0;
};

inline bool Host::carry_out() {
  bool any = false;
  for (PacketCommand command; provider->poll_command(command); any = true) {
    if (command.kind == PacketCommand::Kind::release) {
      bound -= binds_.erase(command.id);
      continue;
    }
    const std::optional<Address> at = net_.links_.empty() ? ip : net_.bound_at(*this, command);
    if (bind_error || !at) {
      const Error why = bind_error.value_or(std::make_error_code(std::errc::address_not_available));
      provider->handle_bind_failed(net_.now, command.id, why, ip);
    } else {
      binds_.insert(command.id);
      ++bound;
      provider->handle_bound(net_.now, command.id, *at);
    }
  }
  return any;
}

inline bool Host::turn() {
  const bool quiet = provider->is_quiet(net_.now);
  provider->handle_deadline(net_.now);
  bool any = carry_out();
  std::array<std::uint8_t, PacketMachine::packet_max + PARLEY_IB_ICRC_LEN> out;
  PacketPath path;
  while (const std::size_t size = provider->poll_packet(net_.now, path, out)) {
    any = true;
    net_.transmit(*this, path, ConstBytes(out).first(size));
  }
  EXPECT_FALSE(quiet && any) << "a driver that asks is_quiet() would have left this undone";
  while (auto event = cm.poll_event()) {
    any = true;
    if (auto* request = std::get_if<cm::ConnectRequest>(&*event); request != nullptr && on_request)
      on_request(*request);
    events.push_back(std::move(*event));
  }
  return any;
}

}  // namespace parley::packet_net
