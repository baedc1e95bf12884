// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two scenarios compared member by member. A member that is added to a struct and not here does not compile.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {

/// An error as text, without toml++'s own words, which change from version to version.
inline std::string told(const ScenarioError& error) {
  const std::string text = error.to_string();
  return text.substr(0, text.find(": Error while "));
}

/// What is wrong with a file of that text.
inline std::vector<std::string> errors_of(std::string_view toml) {
  std::vector<std::string> out;
  if (const auto read = parse_scenario(toml, "x.toml"); !read)
    for (const ScenarioError& error : read.error()) out.push_back(error.to_string());
  return out;
}

/// A file's text with one piece of it exchanged.
inline std::string exchanged(std::string text, std::string_view old_text, std::string_view new_text) {
  const std::size_t at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return at == std::string::npos ? text : text.replace(at, old_text.size(), new_text);
}

inline auto fields(const TcpOptions& o) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = o;
  return std::make_tuple(a, b, c, d, e, f, g, h, i, j, k, l);
}
inline auto fields(const cm::IwarpProviderOptions& o) {
  const auto& [a, b, c, d, trace] = o;
  return std::make_tuple(a, b, c, d, trace);
}
inline auto fields(const cm::RoceProviderOptions& o) {
  const auto& [mtu, ack, delay, reply, first, cap, spec, full, after, offer, traffic, linger, guid, seed, base, quirk,
               trace] = o;
  return std::make_tuple(mtu, ack, delay, reply, first, cap, spec, full, after, offer, traffic, linger, guid, seed,
                         base, quirk, trace);
}
inline auto fields(const ScenarioHost& h) {
  const auto& [name, is_switch, count, options, switching, line] = h;
  const auto& [ecn] = switching;
  const auto& [tcp, rnic, hca, engine, manager, ipv6, learn, ring, nics] = options;
  return std::tuple_cat(
      std::make_tuple(name, is_switch, count, ecn, engine, manager.endpoints_max, ipv6, learn, ring, nics), fields(tcp),
      fields(rnic), fields(hca));
}
inline auto fields(const ScenarioLink& link) {
  const auto& [name, ends, nics, options, line] = link;
  const auto& [rate, delay, queue, mtu] = options;
  return std::make_tuple(name, ends[0], ends[1], nics[0], nics[1], rate, delay, queue, mtu);
}
inline auto fields(const mpa::RtrSet& s) { return std::make_tuple(s.send, s.write, s.read); }
inline auto fields(const mpa::StartupOptions& o) {
  const mpa::Options& own = o;
  const auto& [revision, fall_back, crc, markers, rtr, offer, by_s, fallback, spelling, frame, accept, expected,
               ird_max, private_max, timeouts, peer, play] = own;
  const auto& [t1, t2, t3, t4] = timeouts;
  return std::tuple_cat(std::make_tuple(revision, fall_back, crc, markers, rtr, by_s, fallback, spelling, frame,
                                        expected, o.ird, o.ord, ird_max, private_max, t1, t2, t3, t4, peer, play),
                        fields(offer), fields(accept));
}
inline auto fields(const ScenarioListen& l) {
  const auto& [host, port, address, qp, mpa, at, after, reject, data, pending, processes, relisten, line, mpa_line] = l;
  return std::tuple_cat(std::make_tuple(host, port, address, qp, at, after, reject, data, pending, processes, relisten),
                        fields(mpa));
}
inline auto fields(const ScenarioConnect& c) {
  const auto& [from, to, from_nic, to_nic, backups, port, address, qp, mpa, tcp, whole, data, at, count, interval,
               transfer, messages, octets, both, srq, closer, close_after, expect, within, retries, retry_after, line,
               mpa_line] = c;
  return std::tuple_cat(
      std::make_tuple(from, to, from_nic, to_nic, backups, port, address, qp, tcp, whole, data, at, count, interval,
                      transfer, messages, octets, both, srq, closer, close_after, expect, within, retries, retry_after),
      fields(mpa));
}
inline auto fields(const ScenarioMember& m) {
  const auto& [host, group, at, until, rejoin, expect, line] = m;
  return std::make_tuple(host, group, at, until, rejoin, expect);
}
inline auto fields(const ScenarioSend& s) {
  const auto& [from, group, at, messages, octets, interval, line] = s;
  return std::make_tuple(from, group, at, messages, octets, interval);
}
inline auto fields(const ScenarioExit& e) {
  const auto& [host, port, process, at, how, line] = e;
  return std::make_tuple(host, port, process, at, how);
}
inline auto fields(const ScenarioFault& f) {
  const auto& [link, way, toward, host, rule, may_miss, line] = f;
  const auto& [name, number, from, until, match, chance, mask, action, delay, jitter, reorder, count, octets, rate,
               field, value, node, node_name] = rule;
  return std::make_tuple(link, way, toward, host, may_miss, name, from, until, match, chance, mask, action, delay,
                         jitter, reorder, count, octets, rate, field, value);
}
inline auto fields(const ScenarioBounds& b) {
  const auto& [time, events, converge, send_queue, reassembly, frames, fence] = b;
  return std::make_tuple(time, events, converge, send_queue, reassembly, frames, fence);
}
template <class T>
void expect_same(const std::vector<T>& a, const std::vector<T>& b, std::string_view what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(fields(a[i]) == fields(b[i])) << what << ' ' << i;
}
inline void expect_same(const Scenario& a, const Scenario& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.description, b.description);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.neighbours, b.neighbours);
  expect_same(a.hosts, b.hosts, "host");
  expect_same(a.links, b.links, "link");
  expect_same(a.listens, b.listens, "listen");
  expect_same(a.connects, b.connects, "connect");
  expect_same(a.members, b.members, "member");
  expect_same(a.sends, b.sends, "send");
  expect_same(a.exits, b.exits, "exit");
  expect_same(a.faults, b.faults, "fault");
  EXPECT_TRUE(fields(a.bounds) == fields(b.bounds));
}

}  // namespace parley::sim
