// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/text.hpp"
#include "parley/wire/ib.h"
#include "sim/fault/fault_roce.hpp"
#include "sim/fault/fault_text.hpp"
#include "sim/fault/layer.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint32_t copies_max = 64, bits_max = 64;  // per frame; larger numbers would be a flood
using wire::ethernet_header;
constexpr std::uint32_t psn_max = PARLEY_IB_QPN_MAX;  // both have 24 bits
constexpr Duration delay_max = std::chrono::hours(24);

using Problem = std::string;  // empty: none
using Problems = std::vector<std::string>;

bool has_fields(MessageKind m, std::uint8_t fields) { return (row_of(m).fields & fields) != 0; }
bool is_startup_field(MessageField f) { return f <= MessageField::private_data; }
bool is_of_mpa(MessageField f) { return f <= MessageField::crc; }

/// "a, b or c".
std::string one_of(std::vector<std::string> words) {
  if (words.size() < 2) return words.empty() ? std::string() : words.front();
  const std::string last = std::move(words.back());
  words.pop_back();
  return fmt::format("{} or {}", fmt::join(words, ", "), last);
}

/// "mpa_request", "mpa_reply" or "fpdu", in quotes: the kinds for which the condition holds.
template <class Condition>
std::string words_of(Condition condition) {
  std::vector<std::string> words;
  for (const LayerTable* layer : layers())
    for (const KindRow& kind : layer->kinds)
      if (condition(kind)) words.push_back(fmt::format("\"{}\"", kind.word));
  return one_of(std::move(words));
}

/// The fields of a packet for which the condition holds.
template <class Condition>
std::string fields_of(PacketFields fields, Condition condition) {
  std::vector<std::string> words;
  for (auto f = MessageField::key; f <= MessageField::status; f = static_cast<MessageField>(static_cast<int>(f) + 1))
    if (fields.has(f) && condition(f)) words.emplace_back(to_string(f));
  return one_of(std::move(words));
}

Problem needs_message(std::string_view action) {
  return fmt::format("{} needs a message: write match = {}", action,
                     words_of([](const KindRow& kind) { return in_a_stream(kind.kind); }));
}

Problems check_time(const FaultRule& r) {
  Problems out;
  if (r.from < Instant{}) out.push_back("from is before the start of the run: write 0 or more");
  if (r.action != FaultAction::set_rate && r.until <= r.from)
    out.push_back(fmt::format("until = {} is not after from = {}: write a later until, or leave it out",
                              exact_duration_text(r.until.time_since_epoch()),
                              exact_duration_text(r.from.time_since_epoch())));
  if (r.delay < Duration{} || r.jitter < Duration{})
    out.push_back("delay and jitter are not negative: write 0 or more");
  if (r.delay > delay_max || r.jitter > delay_max) out.push_back("delay and jitter are at most 24 h");
  return out;
}

Problem check_match(const FaultRule& r) {
  const Match& m = r.match;
  if (m.nth == 0) return "nth counts from 1: write nth = 1 for the first frame that matches";
  if (m.fpdu != 0 && !row_of(m.message).numbered)
    return fmt::format("fpdu = {} goes with match = {}, not with \"{}\"", m.fpdu,
                       words_of([](const KindRow& kind) { return kind.numbered; }), to_string(m.message));
  if (m.connection != 0 && m.message != MessageKind::any && !of_a_connection(m.message) &&
      !of_a_roce_connection(m.message))
    return fmt::format(
        "connection = {} cannot hold for match = \"{}\", which belongs to no connection of TCP or RoCE: leave one out",
        m.connection, to_string(m.message));
  if (!m.psn) return {};
  if (*m.psn > psn_max) return fmt::format("psn = {} has more than 24 bits: write at most {}", *m.psn, psn_max);
  if (m.message != MessageKind::any && !in_a_packet(m.message))
    return fmt::format("psn = {} cannot hold for match = \"{}\", which is not a packet of RoCE: leave one out", *m.psn,
                       to_string(m.message));
  return {};
}

Problem check_chance(const FaultRule& r) {
  if (r.chance.in == 0) return "chance has a 0 below the line: write it as of/in with in at least 1";
  if (r.chance.of > r.chance.in)
    return fmt::format("chance = {}/{} is more than 1: write at most {}/{}", r.chance.of, r.chance.in, r.chance.in,
                       r.chance.in);
  if (!r.mask) return {};
  if (r.chance != Ratio{1, 1}) return "mask selects the frames exactly, so chance has no effect: leave one out";
  if (r.match.nth != 1 || r.match.times != 0)
    return "mask counts the matching frames from the first on, so nth and times have no effect: leave them out";
  return {};
}

/// Keys that only some actions use.
Problems check_keys(const FaultRule& r) {
  Problems out;
  const std::string_view action = to_string(r.action);
  const bool counts = r.action == FaultAction::duplicate || r.action == FaultAction::corrupt;
  const bool cuts = r.action == FaultAction::truncate || r.action == FaultAction::cut_stream;
  const bool delays = r.action == FaultAction::delay;
  const auto only_of = [&](bool strays, std::string_view key, std::string_view owner) {
    if (strays) out.push_back(fmt::format("{} is of {}: leave it out with {}", key, owner, action));
  };
  only_of(r.count != 1 && !counts, "count", "duplicate and corrupt");
  only_of(r.octets != 0 && !cuts, "octets", "truncate and cut_stream");
  only_of(r.rate_bps != 0 && r.action != FaultAction::set_rate, "rate", "set_rate");
  only_of(r.value && r.action != FaultAction::corrupt_roce, "value", "corrupt_roce");
  only_of(r.jitter != Duration{} && !delays, "jitter", "delay");
  only_of(r.reorder && !delays, "reorder", "delay");
  only_of(r.delay != Duration{} && !delays && !is_host_action(r.action), "delay",
          "action = \"delay\" and the actions of a host");
  return out;
}

Problem check_corrupt_mpa(const FaultRule& r) {
  const MessageKind m = r.match.message;
  if (!row_of(m).packet_fields.empty())
    return fmt::format("corrupt_mpa cannot damage match = \"{}\", a packet of RoCE: write action = \"corrupt_roce\"",
                       to_string(m));
  if (row_of(m).fields == no_fields) return needs_message("corrupt_mpa");
  if (!is_of_mpa(r.field))
    return fmt::format("field = \"{}\" is of packets of RoCE and match = \"{}\" is none: write a field of MPA",
                       to_string(r.field), to_string(m));
  if (is_startup_field(r.field) && !has_fields(m, startup_fields))
    return fmt::format(
        "field = \"{}\" is of startup frames and match = \"{}\" is none: write length, payload, marker or "
        "crc",
        to_string(r.field), to_string(m));
  if (!is_startup_field(r.field) && !has_fields(m, fpdu_fields))
    return fmt::format(
        "field = \"{}\" is of FPDUs and match = \"{}\" is none: write key, flags, revision, pd_length or "
        "private_data",
        to_string(r.field), to_string(m));
  return {};
}

Problem check_corrupt_roce(const FaultRule& r) {
  const MessageKind m = r.match.message;
  const PacketFields fields = row_of(m).packet_fields;
  if (fields.empty())
    return fmt::format("corrupt_roce needs a packet of RoCE: write match = {}",
                       words_of([](const KindRow& kind) { return !kind.packet_fields.empty(); }));
  if (!fields.has(r.field))
    return fmt::format("field = \"{}\" is not in match = \"{}\": write {}", to_string(r.field), to_string(m),
                       fields_of(fields, [](MessageField) { return true; }));
  if (!r.value) return {};
  const std::uint32_t size = number_size(r.field);
  if (size == 0)
    return fmt::format("value = {} needs a field that is a number, and \"{}\" is none: write {}", *r.value,
                       to_string(r.field), fields_of(fields, [](MessageField f) { return number_size(f) != 0; }));
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * size);
  if (*r.value > most)
    return fmt::format("value = {} is more than the {} bits of \"{}\" hold: write at most {}", *r.value, 8 * size,
                       to_string(r.field), most);
  return {};
}

Problem check_action(const FaultRule& r) {
  const MessageKind m = r.match.message;
  switch (r.action) {
    case FaultAction::duplicate:
      if (r.count == 0 || r.count > copies_max)
        return fmt::format("count = {} copies: write 1 to {}", r.count, copies_max);
      return {};
    case FaultAction::corrupt:
      if (r.count == 0 || r.count > bits_max) return fmt::format("count = {} bits: write 1 to {}", r.count, bits_max);
      return {};
    case FaultAction::delay:
      if (r.delay == Duration{} && r.jitter == Duration{}) return "delay needs a time: write delay or jitter, or both";
      return {};
    case FaultAction::truncate:
      if (r.octets < ethernet_header)
        return fmt::format("truncate needs octets, what is left of the frame: write {} (an Ethernet header) or more",
                           ethernet_header);
      return {};
    case FaultAction::cut_stream:
      if (!in_a_stream(m)) return needs_message("cut_stream");
      return {};
    case FaultAction::corrupt_mpa: return check_corrupt_mpa(r);
    case FaultAction::corrupt_roce: return check_corrupt_roce(r);
    case FaultAction::reset:
      if (m != MessageKind::any && (!of_a_connection(m) || row_of(m).ends))
        return fmt::format("reset cannot follow match = \"{}\": write a match that is of a living TCP connection",
                           to_string(m));
      return {};
    case FaultAction::set_rate:
      if (r.rate_bps == 0) return "set_rate needs a rate that is not 0: write rate, or use drop for a dead link";
      if (r.match != Match{} || r.mask || r.chance != Ratio{1, 1})
        return "set_rate happens at the time from: leave out match, nth, times, chance and mask";
      return {};
    default: return {};
  }
}

}  // namespace

std::vector<std::string> rule_problems(const FaultRule& rule) {
  Problems out = check_time(rule);
  const auto take = [&out](Problem problem) {
    if (!problem.empty()) out.push_back(std::move(problem));
  };
  take(check_match(rule));
  take(check_chance(rule));
  for (Problem& problem : check_keys(rule)) take(std::move(problem));
  take(check_action(rule));
  return out;
}

Checked<void> check_rule(const FaultRule& rule) {
  if (auto problems = rule_problems(rule); !problems.empty()) return tl::unexpected(std::move(problems.front()));
  return {};
}

}  // namespace parley::sim
