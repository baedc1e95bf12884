// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks that are specific to RoCE: its HCA, no MPA, other limits, and connections only between hosts of the same
// kind.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cm/providers/roce/roce.hpp"
#include "nic/roce/mtu.hpp"
#include "sim/scenario/scenario_checker.hpp"

namespace parley::sim {
namespace {

constexpr std::uint32_t packet_headers = 96;  // IPv6, UDP and InfiniBand headers, in addition to the payload
constexpr std::uint16_t roce_depth_max = 128;
// IBA Annex A11: a REQ has 92 octets, of which 36 are the IP header; docs/roce.md.
constexpr std::size_t request_room = 56, offer_size = 8, reply_room = 196, reject_room = 148;
// IBA §12.11, Annex A11: room in SIDR messages, and in either answer.
constexpr std::size_t service_request_room = 180, service_reply_room = 136;

/// The private data of the answer to a REQ or SIDR_REQ: its room and its name.
std::pair<std::size_t, std::string_view> answer_of(const ScenarioListen& listen) {
  if (listen.qp == QpKind::ud) return {service_reply_room, "SIDR_REP"};
  if (listen.reject_every != 0) return {reject_room, "REJ"};
  return {reply_room, "REP"};
}

std::string_view engine_word(const ScenarioHost& host) { return to_string(engine_of(host)); }

}  // namespace

void Checker::check_hca(std::size_t i) {
  const ScenarioHost& host = s_.hosts[i];
  if (const auto fine = cm::check_options(host.options.hca); !fine)
    add(Section::host, i, "hca", "hca: " + fine.error().message());
  const std::uint32_t payload = nic::roce::octets_of(host.options.hca.mtu), need = payload + packet_headers;
  for (const ScenarioLink& link : s_.links) {
    if ((link.ends[0] != host.name && link.ends[1] != host.name) || link.options.mtu >= need) continue;
    return add(Section::host, i, "hca",
               fmt::format("hca: packets with {} octets need an MTU of {}, and that of link '{}' is {}: raise it, or "
                           "write hca = {{ mtu = ... }}",
                           payload, need, name_of(link), link.options.mtu));
  }
  for (const NicOptions& nic : host.options.nics)
    if (nic.mtu != 0 && nic.mtu < need && nic.engine == NicEngine::roce)
      return add(Section::host, i, "hca",
                 fmt::format("hca: packets with {} octets need an MTU of {}, and that of NIC '{}' is {}: raise it, or "
                             "write hca = {{ mtu = ... }}",
                             payload, need, nic.name, nic.mtu));
}

template <class End>
void Checker::check_roce_end(Section section, std::size_t i, const End& end, std::span<const Key<End>> mpa_keys) {
  const bool other_than_default =
      std::any_of(mpa_keys.begin(), mpa_keys.end(), [&](const Key<End>& key) { return !key.write(end).empty(); });
  if (end.mpa_line != 0 || other_than_default)
    add(section, i, "mpa", "mpa: RoCE has no MPA: take this table out, or engine = \"roce\" of the host");
  const auto depth = [&](std::string_view key, std::uint16_t value) {
    if (value > roce_depth_max) add(section, i, key, fmt::format("{}: RoCE takes 0..{}", key, roce_depth_max));
  };
  depth("ird", end.mpa.ird);
  depth("ord", end.mpa.ord);
}

bool Checker::check_roce_listen(std::size_t i) {
  const ScenarioListen& listen = s_.listens[i];
  const ScenarioHost* host = node(listen.host);
  if (host == nullptr || engine_of(*host) != NicEngine::roce) return false;
  check_roce_end(Section::listen, i, listen, listen_mpa_keys());
  if (listen.qp == QpKind::xrc) check_xrc_listen(i);
  if (listen.qp == QpKind::xrc) return true;
  const auto [room, message] = answer_of(listen);
  if (listen.private_data.size() > room)
    add(Section::listen, i, "private_data",
        fmt::format("private_data: {} octets, at most {} fit into a {} (IBA §12.6)", listen.private_data.size(), room,
                    message));
  return true;
}

bool Checker::check_roce_connect(std::size_t i) {
  const ScenarioConnect& connect = s_.connects[i];
  const ScenarioHost *from = node(connect.from), *to = node(connect.to);
  const auto is_roce = [](const ScenarioHost* host) { return host != nullptr && engine_of(*host) == NicEngine::roce; };
  if (!is_roce(from) && !is_roce(to)) return false;
  if (from != nullptr && to != nullptr && is_roce(from) != is_roce(to)) {
    if (!unchecked_.nics)
      add(Section::connect, i, "to",
          fmt::format("to: '{}' has engine = \"{}\" and '{}' \"{}\": a connection needs the same at both ends",
                      connect.from, engine_word(*from), connect.to, engine_word(*to)));
    return true;
  }
  check_roce_end(Section::connect, i, connect, connect_mpa_keys());
  if (connect.qp == QpKind::ud) {
    check_datagrams(i, from, to);
    return true;
  }
  if (connect.qp == QpKind::xrc) check_xrc_connect(i);
  const bool offers = from != nullptr && from->options.hca.offer_retry_after;
  const std::size_t room = request_room - (offers ? offer_size : 0);
  if (connect.private_data.size() > room)
    add(Section::connect, i, "private_data",
        fmt::format("private_data: {} octets, at most {} fit into a REQ (IBA Annex A11){}", connect.private_data.size(),
                    room, offers ? " in addition to the offer of offer_retry_after" : ""));
  return true;
}

void Checker::check_datagrams(std::size_t i, const ScenarioHost* from, const ScenarioHost* to) {
  const ScenarioConnect& connect = s_.connects[i];
  if (connect.private_data.size() > service_request_room)
    add(Section::connect, i, "private_data",
        fmt::format("private_data: {} octets, at most {} fit into a SIDR_REQ (IBA Annex A11)",
                    connect.private_data.size(), service_request_room));
  if (connect.transfer != Transfer::send)
    add(Section::connect, i, "transfer", "transfer: over UD go Sends alone: write \"send\", or qp = \"rc\"");
  for (const ScenarioHost* host : {from, to}) {
    if (host == nullptr) continue;
    const std::uint32_t most = nic::roce::octets_of(host->options.hca.mtu);
    if (connect.octets > most)
      return add(Section::connect, i, "octets",
                 fmt::format("octets: a datagram is one packet, and those of '{}' have at most {} octets: hca = {{ mtu "
                             "= ... }}",
                             host->name, most));
  }
}

void Checker::check_iwarp_qp(Section section, std::size_t i, QpKind qp, bool hosts_known) {
  if (qp == QpKind::rc || !hosts_known || unchecked_.engines) return;
  add(section, i, "qp",
      fmt::format("qp: \"{}\" is of RoCE: write engine = \"roce\" in the [[host]], or leave qp out", to_string(qp)));
}

}  // namespace parley::sim
