// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/qp_set.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/manual_driver.hpp"

namespace parley::neg {
namespace {

Outcome<void> check_numbers(Transport transport, const QpAttributes& a) {
  const auto over = [](std::string_view name, std::uint32_t value) {
    return failed(Problem::invalid_peer_data, fmt::format("{} {:#x} has more than 24 bits", name, value));
  };
  if (a.qpn == 0)
    return failed(Problem::invalid_peer_data, "the queue pair number is 0, which is the subnet manager's");
  if (a.qpn > 0xFFFFFF) return over("queue pair number", a.qpn);
  if (a.psn > 0xFFFFFF) return over("packet sequence number", a.psn);
  if (a.srqn > 0xFFFFFF) return over("shared receive queue", a.srqn);
  if (a.ini_qpn > 0xFFFFFF) return over("sending queue pair", a.ini_qpn);
  if (a.mtu < 256 || a.mtu > 4096 || (a.mtu & (a.mtu - 1)) != 0)
    return failed(Problem::invalid_peer_data,
                  fmt::format("a path MTU of {} octets; there are 256, 512, 1024, 2048 and 4096", a.mtu));
  if (transport == Transport::xrc && (a.srqn == 0 || a.ini_qpn == 0))
    return failed(Problem::invalid_peer_data,
                  "XRC without the numbers of a shared receive queue and of the sending end");
  return {};
}

}  // namespace

bool means_manual(const QpDrivers& drivers, const Config& config) {
  const std::string named = text_in(config, "driver");
  return !drivers.make || named == "manual" || (named.empty() && config.contains("qpn"));
}

std::vector<Parameter> driver_parameters(const QpDrivers& drivers) {
  std::vector<std::string> names{"manual"};
  if (drivers.make) names.insert(names.begin(), drivers.name);
  std::vector<Parameter> out{
      {.name = "driver",
       .kind = Parameter::Kind::choice,
       .help = names.size() == 1
                   ? std::string("where the queue pair comes from")
                   : "where the queue pair comes from; otherwise manual where qpn is given, else " + drivers.name,
       .otherwise = names.size() == 1 ? names.front() : std::string(),
       .choices = names}};
  const auto add = [&](const std::vector<Parameter>& more) {
    for (const Parameter& p : more)
      if (std::none_of(out.begin(), out.end(), [&](const Parameter& had) { return had.name == p.name; }))
        out.push_back(p);
  };
  add(drivers.parameters);
  add(manual_parameters());
  return out;
}

Outcome<QpSet> QpSet::open(const QpDrivers& drivers, Transport transport, std::uint32_t count, const Config& config) {
  QpSet out;
  const bool manual = means_manual(drivers, config);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto driver = manual ? make_manual_driver(config, i) : drivers.make(transport, config);
    if (!driver) return tl::unexpected(driver.error());
    if (!*driver)
      return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = "the driver made no queue pair"});
    const auto attributes = (*driver)->open();
    if (!attributes) return tl::unexpected(attributes.error());
    if (const auto sane = check_numbers(transport, *attributes); !sane)
      return tl::unexpected(
          Failure{.problem = Problem::configuration_error, .text = "this side: " + sane.error().text});
    out.pairs_.push_back({.transport = transport, .local = *attributes, .where = (*driver)->where()});
    out.drivers_.push_back(std::move(*driver));
  }
  return out;
}

Outcome<void> QpSet::set_peer(std::size_t i, const QpAttributes& peer) {
  QpPair& pair = pairs_[i];
  if (auto sane = check_numbers(pair.transport, peer); !sane) return sane;
  if (!(pair.local.has_gid() && peer.has_gid()) && !(pair.local.lid != 0 && peer.lid != 0))
    return failed(Problem::invalid_peer_data,
                  fmt::format("the peer has {} GID and LID {}; this side has {} GID and LID {}",
                              peer.has_gid() ? "a" : "no", peer.lid, pair.local.has_gid() ? "a" : "no", pair.local.lid),
                  "give both a GID (RoCE needs it), or both a LID");
  pair.peer = peer;
  pair.mtu = std::min(pair.local.mtu, peer.mtu);
  pair.ird = pair.local.ird;
  pair.ord = std::min(pair.local.ord, peer.ird);
  ++heard_;
  return {};
}

Outcome<bool> QpSet::connect() {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    auto connected = drivers_[i]->connect();
    if (!connected) return tl::unexpected(connected.error());
    if (!*connected) return false;
    pairs_[i].local = (*connected)->local;
    pairs_[i].peer.gid = (*connected)->peer_gid;
    pairs_[i].where = drivers_[i]->where();
  }
  return true;
}

Outcome<void> QpSet::to_rtr() {
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (auto moved = drivers_[i]->to_rtr(pairs_[i]); !moved) return moved;
  return {};
}

Outcome<void> QpSet::to_rts() {
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (auto moved = drivers_[i]->to_rts(pairs_[i]); !moved) return moved;
  return {};
}

}  // namespace parley::neg
