// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/fault_text.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "sim/fault/fault.hpp"
#include "sim/fault/layer.hpp"

namespace parley::sim {
namespace {

// In the order of the enums: their values are the indices.
constexpr std::array<std::string_view, 17> action_names{
    "drop",       "duplicate",    "delay",       "corrupt",      "corrupt_mpa",     "truncate",
    "cut_stream", "reset",        "set_rate",    "crash",        "restart",         "pause",
    "resume",     "corrupt_roce", "end_process", "stop_process", "continue_process"};
static_assert(action_names.size() == static_cast<std::size_t>(FaultAction::continue_process) + 1);
constexpr std::array<std::string_view, 27> field_names{
    "key",       "flags",      "revision",   "pd_length",    "private_data", "length",      "payload",
    "marker",    "crc",        "opcode",     "p_key",        "qpn",          "psn",         "q_key",
    "address",   "r_key",      "syndrome",   "msn",          "attribute",    "transaction", "local_id",
    "remote_id", "service_id", "queue_pair", "starting_psn", "reason",       "status"};
static_assert(field_names.size() == static_cast<std::size_t>(MessageField::status) + 1);
constexpr std::array<std::string_view, 7> reason_names{"none",      "rule",      "queue full", "too big",
                                                       "host down", "ring full", "discarded"};
static_assert(reason_names.size() == static_cast<std::size_t>(DropReason::discarded) + 1);

template <std::size_t N>
std::string_view word_of(const std::array<std::string_view, N>& words, std::size_t index) {
  return index < N ? words[index] : "unknown";
}

template <class T, std::size_t N>
std::optional<T> value_of(const std::array<std::string_view, N>& words, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i)
    if (words[i] == text) return static_cast<T>(i);
  return std::nullopt;
}

/// "the 2nd mpa_reply", "every frame", "every fpdu from the 3rd on", "3 frames from the 2nd on".
std::string frames_text(const FaultRule& rule) {
  const Match& m = rule.match;
  std::string noun = m.message == MessageKind::any ? "frame" : std::string(to_string(m.message));
  if (row_of(m.message).numbered && m.fpdu != 0) noun = fmt::format("frame with {} {}", to_string(m.message), m.fpdu);
  if (m.psn) noun += fmt::format(" with PSN {}", *m.psn);
  if (m.connection != 0) noun += fmt::format(" of connection {}", m.connection);
  if (rule.mask) return fmt::format("each {} whose bit is set in {:#x}", noun, *rule.mask);
  if (m.times == 1) return fmt::format("the {} {}", ordinal(m.nth), noun);
  if (m.times == 0) return m.nth == 1 ? "every " + noun : fmt::format("every {} from the {} on", noun, ordinal(m.nth));
  return m.nth == 1 ? fmt::format("the first {} times {}", m.times, noun)
                    : fmt::format("{} times {} from the {} on", m.times, noun, ordinal(m.nth));
}

bool at_a_time(const FaultRule& rule) {
  return rule.action == FaultAction::set_rate || (is_host_action(rule.action) && rule.match == Match{} && !rule.mask);
}

std::string what_text(const FaultRule& rule) {
  const std::string frames = frames_text(rule);
  switch (rule.action) {
    case FaultAction::drop: return "drop " + frames;
    case FaultAction::duplicate:
      return rule.count == 1 ? "double " + frames : fmt::format("add {} copies to {}", rule.count, frames);
    case FaultAction::delay: {
      std::string by = rule.delay.count() != 0 ? exact_duration_text(rule.delay) : std::string{};
      if (rule.jitter.count() != 0)
        by += fmt::format("{}up to {}", by.empty() ? "" : " plus ", exact_duration_text(rule.jitter));
      return fmt::format("delay {} by {}{}", frames, by, rule.reorder ? ", later frames may overtake" : "");
    }
    case FaultAction::corrupt: return fmt::format("flip {} of {}", counted(rule.count, "bit"), frames);
    case FaultAction::corrupt_roce:
      if (rule.value) return fmt::format("set the {} of {} to {}", to_string(rule.field), frames, *rule.value);
      return fmt::format("corrupt the {} of {}", to_string(rule.field), frames);
    case FaultAction::corrupt_mpa: return fmt::format("corrupt the {} of {}", to_string(rule.field), frames);
    case FaultAction::truncate: return fmt::format("cut {} to {} octets", frames, rule.octets);
    case FaultAction::cut_stream: return fmt::format("end the stream after {} octets of {}", rule.octets, frames);
    case FaultAction::reset: return "reset the connection at both ends after " + frames;
    case FaultAction::set_rate: return "set the rate to " + bit_rate_text(rule.rate_bps);
    case FaultAction::crash:
    case FaultAction::restart:
    case FaultAction::pause:
    case FaultAction::resume:
    case FaultAction::end_process:
    case FaultAction::stop_process:
    case FaultAction::continue_process: break;
  }
  std::string text = fmt::format("{} {}", to_string(rule.action), host_text(rule));
  if (rule.delay.count() != 0) text += " " + exact_duration_text(rule.delay);
  if (!at_a_time(rule))
    text += (rule.delay.count() != 0 ? " after " : " at ") + frames;
  else if (rule.delay.count() != 0)
    text += " later";
  return text;
}

}  // namespace

std::string_view to_string(FaultAction action) { return word_of(action_names, static_cast<std::size_t>(action)); }
std::optional<FaultAction> parse_fault_action(std::string_view text) {
  return value_of<FaultAction>(action_names, text);
}

std::string_view to_string(MessageField field) { return word_of(field_names, static_cast<std::size_t>(field)); }
std::optional<MessageField> parse_message_field(std::string_view text) {
  return value_of<MessageField>(field_names, text);
}

std::string_view to_string(DropReason reason) { return word_of(reason_names, static_cast<std::size_t>(reason)); }

std::string host_text(const FaultRule& rule) {
  return rule.host_name.empty() ? fmt::format("node {}", rule.host) : rule.host_name;
}

bool is_host_action(FaultAction action) {
  return (action >= FaultAction::crash && action <= FaultAction::resume) || action >= FaultAction::end_process;
}

std::string FaultRule::to_string() const {
  std::string text = what_text(*this);
  if (!mask && chance != Ratio{1, 1}) text += fmt::format(" with chance {}/{}", chance.of, chance.in);
  const bool late = from != Instant{};
  if (at_a_time(*this)) return text + fmt::format(" at {}", exact_duration_text(from.time_since_epoch()));
  if (late) text += fmt::format(" from {}", exact_duration_text(from.time_since_epoch()));
  if (until != never) text += fmt::format(" until {}", exact_duration_text(until.time_since_epoch()));
  return text;
}

}  // namespace parley::sim
