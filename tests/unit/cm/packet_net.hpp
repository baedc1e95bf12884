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

class Net;

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
  void deliver_due() {
    while (!items_.empty() && items_.begin()->first.first <= now) {
      const Item item = std::move(items_.begin()->second);
      items_.erase(items_.begin());
      item.to->provider->handle_packet(now, item.path, item.packet);
    }
  }
  std::vector<std::unique_ptr<Host>> hosts_;
  std::multimap<std::pair<Instant, std::uint64_t>, Item> items_;
  std::map<std::string, std::size_t> counts_;
  std::uint64_t order_ = 0;
};

inline bool Host::carry_out() {
  bool any = false;
  for (PacketCommand command; provider->poll_command(command); any = true) {
    if (command.kind == PacketCommand::Kind::release) {
      bound -= binds_.erase(command.id);
    } else if (bind_error) {
      provider->handle_bind_failed(net_.now, command.id, *bind_error, ip);
    } else {
      binds_.insert(command.id);
      ++bound;
      provider->handle_bound(net_.now, command.id, ip);
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
