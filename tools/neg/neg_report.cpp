// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/neg/neg_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.hpp"
#include "base/gid.hpp"
#include "base/json_text.hpp"
#include "base/text.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "tools/real_text.hpp"

namespace parley::tools {
namespace {

using neg::QpAttributes;
using neg::QpPair;
using neg::Transport;

bool has_depths(Transport t) { return t == Transport::rc || t == Transport::xrc; }

Json attributes_json(const QpAttributes& a, Transport transport) {
  Json out{{"qpn", a.qpn}, {"psn", a.psn}, {"lid", a.lid}, {"mtu", a.mtu}};
  if (a.has_gid()) out["gid"] = gid_text(a.gid);
  if (has_depths(transport)) out.update({{"ird", a.ird}, {"ord", a.ord}});
  if (transport == Transport::ud) out["qkey"] = a.qkey;
  if (transport == Transport::xrc) out.update({{"srqn", a.srqn}, {"ini_qpn", a.ini_qpn}});
  // As text: numbers in some JSON readers have fewer than 64 bits.
  if (a.rkey != 0 || a.length != 0)
    out["memory"] = Json{{"rkey", a.rkey}, {"vaddr", fmt::format("{:#x}", a.vaddr)}, {"length", a.length}};
  return out;
}

std::string attributes_text(const QpAttributes& a, Transport transport) {
  std::string out = fmt::format("QPN {:#08x}, PSN {:#08x}", a.qpn, a.psn);
  if (a.has_gid()) out += ", GID " + gid_text(a.gid);
  if (a.lid != 0) out += fmt::format(", LID {}", a.lid);
  if (transport == Transport::ud) out += fmt::format(", Q_Key {:#x}", a.qkey);
  if (transport == Transport::xrc) out += fmt::format(", SRQ {:#x}, sends from QPN {:#08x}", a.srqn, a.ini_qpn);
  if (a.rkey != 0 || a.length != 0)
    out += fmt::format(", R_Key {:#x}, address {:#x}, {}", a.rkey, a.vaddr, counted(a.length, "octet"));
  return out;
}

std::string played_text(const neg::Played& p) {
  std::string out = p.messages == 0
                        ? fmt::format("{}: this side's memory was lent to the peer", p.test)
                        : fmt::format("{}: {} of {} in {}", p.test, counted(p.messages, "message"),
                                      counted(p.octets / p.messages, "octet"), measured_duration_text(p.took));
  if (p.checked) out += ", data verified";
  if (p.lost != 0) out += fmt::format(", {} lost", p.lost);
  return out;
}

Json played_json(const neg::Played& p) {
  return {{"test", p.test},
          {"messages", p.messages},
          {"octets", p.octets},
          {"lost", p.lost},
          {"took_us", in_microseconds(p.took)},
          {"checked", p.checked}};
}

std::string exchange_text(const neg::Exchange& e, Instant first) {
  const std::string when = milliseconds_text(e.at - first);
  const std::string what = e.stage == neg::Stage::none
                               ? std::string("no stage")
                               : fmt::format("{}, round {}{}", to_string(e.stage), e.round, e.last ? ", last" : "");
  return fmt::format("  {:>8} {} {}: {}  {}", when, e.sent ? ">" : "<", what, counted(e.length, "octet"),
                     hex_text(e.head, 16));
}

std::string env_document(const std::vector<QpPair>& pairs) {
  std::string out = fmt::format("PARLEY_NEG_QPS={}\n", pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const QpPair& pair = pairs[i];
    const std::string head = fmt::format("PARLEY_NEG_QP{}_", i);
    out += fmt::format("{0}TRANSPORT={1}\n{0}MTU={2}\n{0}TESTED={3}\n", head, to_string(pair.transport), pair.mtu,
                       pair.tested ? 1 : 0);
    if (has_depths(pair.transport)) out += fmt::format("{0}IRD={1}\n{0}ORD={2}\n", head, pair.ird, pair.ord);
    for (const bool local : {true, false}) {
      const QpAttributes& a = local ? pair.local : pair.peer;
      const std::string side = head + (local ? "LOCAL_" : "PEER_");
      out += fmt::format("{0}QPN={1:#x}\n{0}PSN={2:#x}\n{0}LID={3}\n", side, a.qpn, a.psn, a.lid);
      if (a.has_gid()) out += fmt::format("{}GID={}\n", side, gid_text(a.gid));
      if (pair.transport == Transport::ud) out += fmt::format("{}QKEY={:#x}\n", side, a.qkey);
      if (pair.transport == Transport::xrc)
        out += fmt::format("{0}SRQN={1:#x}\n{0}INI_QPN={2:#x}\n", side, a.srqn, a.ini_qpn);
      if (a.rkey != 0 || a.length != 0)
        out += fmt::format("{0}RKEY={1:#x}\n{0}VADDR={2:#x}\n{0}LENGTH={3}\n", side, a.rkey, a.vaddr, a.length);
    }
  }
  out.pop_back();
  return out;
}

/// The destination of RoCEv2 packets is the IP address in the peer's GID. Names of devices and interfaces are
/// placeholders for the user to change; a traffic generator requires unique names.
Json otg_document(const std::vector<QpPair>& pairs) {
  Json qps = Json::array();
  std::string to;
  std::uint32_t mtu = 1024;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const QpPair& pair = pairs[i];
    to = gid_text(pair.peer.gid);
    mtu = pair.mtu;
    qps.push_back({{"qp_name", fmt::format("parley qp {}", i)},
                   {"connection_type",
                    Json{{"choice", "reliable_connection"},
                         {"reliable_connection", Json{{"source_qp_number", pair.local.qpn},
                                                      {"initial_psn", pair.local.psn},
                                                      {"virtual_address", fmt::format("{:016x}", pair.peer.vaddr)},
                                                      {"remote_key", fmt::format("{:08x}", pair.peer.rkey)}}}}}});
  }
  const std::string v4 = to.starts_with("::ffff:") ? to.substr(7) : std::string();
  const bool is_v4 = v4.find('.') != std::string::npos;
  Json peers = Json::array();
  peers.push_back({{"name", "parley peer"}, {"destination_ip_address", is_v4 ? v4 : to}, {"qps", std::move(qps)}});
  Json interfaces = Json::array();
  interfaces.push_back({{is_v4 ? "ipv4_name" : "ipv6_name", is_v4 ? "parley ipv4" : "parley ipv6"},
                        {"ib_mtu", mtu},
                        {"peers", std::move(peers)}});
  Json devices = Json::array();
  devices.push_back({{"name", "parley device"},
                     {"rocev2", Json{{is_v4 ? "ipv4_interfaces" : "ipv6_interfaces", std::move(interfaces)}}}});
  return Json{{"devices", std::move(devices)}};
}

}  // namespace

Json neg_failure_json(const neg::Failure& why) {
  return {{"problem", to_string(why.problem)},
          {"layer", json_word(to_string(layer_of(why.problem)))},
          {"stage", to_string(why.stage)},
          {"round", why.round},
          {"by_peer", why.by_peer},
          {"received", why.text},
          {"advice", why.advice},
          {"text", why.to_string()}};
}

Json qp_pairs_json(const std::vector<QpPair>& pairs) {
  Json out = Json::array();
  for (const QpPair& pair : pairs) {
    Json one{{"type", to_string(pair.transport)}, {"mtu", pair.mtu}, {"tested", pair.tested}};
    if (has_depths(pair.transport)) one.update({{"ird", pair.ird}, {"ord", pair.ord}});
    if (!pair.where.empty()) one["where"] = pair.where;
    if (pair.played) one["played"] = played_json(*pair.played);
    one["local"] = attributes_json(pair.local, pair.transport);
    one["peer"] = attributes_json(pair.peer, pair.transport);
    out.push_back(std::move(one));
  }
  return out;
}

Json ended_json(const neg::Ended& ended, bool history) {
  Json out{{"event", "negotiated"},
           {"role", ended.dial != 0 ? "initiator" : "responder"},
           {"peer", ended.peer.to_string()},
           {"plugin", ended.request.plugin},
           {"variant", ended.request.variant},
           {"outcome", ended.failure ? "failed" : "completed"},
           {"attempts", ended.attempts},
           {"took_us", in_microseconds(ended.took)},
           {"qps", qp_pairs_json(ended.agreed)}};
  if (!ended.request.label.empty()) out["label"] = ended.request.label;
  if (ended.failure) out["why"] = neg_failure_json(*ended.failure);
  if (!history) return out;
  Json all = Json::array();
  for (const neg::Exchange& e : ended.history)
    all.push_back({{"at_us", in_microseconds(e.at - ended.history.front().at)},
                   {"sent", e.sent},
                   {"stage", to_string(e.stage)},
                   {"round", e.round},
                   {"last", e.last},
                   {"length", e.length},
                   {"hex", hex_digits(e.head)}});
  out["history"] = std::move(all);
  return out;
}

std::string ended_text(const neg::Ended& ended, bool history) {
  std::string head = ended.peer.to_string();
  if (!ended.request.variant.empty())
    head += fmt::format(" {}/{}", printable(ended.request.plugin, false), printable(ended.request.variant, false));
  if (!ended.request.label.empty()) head += fmt::format(" ({})", printable(ended.request.label, false));
  std::string out = ended.failure ? fmt::format("{}: failed: {}", head, ended.failure->to_string())
                                  : fmt::format("{}: completed in {}", head, measured_duration_text(ended.took));
  if (ended.attempts > 1) out += fmt::format(" ({})", counted(ended.attempts, "attempt"));
  const bool played = !ended.agreed.empty() && ended.agreed.front().played;
  for (const QpPair& pair : ended.agreed) {
    out += fmt::format("\n  {}, path MTU {}, {}", to_string(pair.transport), pair.mtu,
                       pair.tested ? "a message passed each way"
                       : played    ? "a test was played"
                                   : "no message was passed");
    if (!pair.where.empty()) out += "\n    on    " + printable(pair.where, false);
    out += "\n    local " + attributes_text(pair.local, pair.transport);
    out += "\n    peer  " + attributes_text(pair.peer, pair.transport);
    if (pair.played) out += "\n    " + played_text(*pair.played);
  }
  if (history)
    for (const neg::Exchange& e : ended.history) out += "\n" + exchange_text(e, ended.history.front().at);
  return out;
}

namespace {

std::string_view kind_word(neg::Parameter::Kind kind) {
  switch (kind) {
    case neg::Parameter::Kind::text: return "text";
    case neg::Parameter::Kind::number: return "number";
    case neg::Parameter::Kind::flag: return "flag";
    case neg::Parameter::Kind::choice: return "choice";
  }
  return "text";
}

std::string range_text(const neg::Parameter& p) {
  switch (p.kind) {
    case neg::Parameter::Kind::text: return "text";
    case neg::Parameter::Kind::number:
      return p.most == ~std::uint64_t{0} ? std::string("number") : fmt::format("{} to {:#x}", p.least, p.most);
    case neg::Parameter::Kind::flag: return "true or false";
    case neg::Parameter::Kind::choice: return fmt::format("{}", fmt::join(p.choices, "|"));
  }
  return {};
}

}  // namespace

Json entry_json(const neg::Framework::Entry& entry) {
  Json parameters = Json::array();
  for (const neg::Parameter& p : entry.variant.parameters) {
    Json one{{"name", p.name}, {"kind", kind_word(p.kind)}, {"help", p.help}, {"required", p.required}};
    if (!p.otherwise.empty()) one["otherwise"] = p.otherwise;
    if (!p.choices.empty()) one["choices"] = p.choices;
    parameters.push_back(std::move(one));
  }
  return {{"event", "variant"},
          {"plugin", entry.plugin},
          {"version", entry.version},
          {"variant", entry.variant.id},
          {"summary", entry.variant.summary},
          {"framing", entry.variant.framing == neg::Framing::raw ? "raw" : "parley"},
          {"options", std::move(parameters)}};
}

std::string entry_text(const neg::Framework::Entry& entry) {
  std::string out =
      fmt::format("{}/{} (version {}): {}", entry.plugin, entry.variant.id, entry.version, entry.variant.summary);
  for (const neg::Parameter& p : entry.variant.parameters)
    out += fmt::format("\n  {:<10} {}; {}{}", p.name, p.help, range_text(p),
                       p.required            ? "; required"
                       : p.otherwise.empty() ? ""
                                             : "; otherwise " + p.otherwise);
  return out;
}

std::string export_document(std::string_view format, const neg::Ended& ended) {
  const std::vector<QpPair>& pairs = ended.agreed;
  if (format == "env") return env_document(pairs);
  if (format == "otg") return otg_document(pairs).dump(real_text, 2);
  return Json{{"plugin", ended.request.plugin},
              {"variant", ended.request.variant},
              {"peer", ended.peer.to_string()},
              {"qps", qp_pairs_json(pairs)}}
      .dump(real_text, 2);
}

}  // namespace parley::tools
