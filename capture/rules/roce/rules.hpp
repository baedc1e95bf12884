// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The findings of one connection of InfiniBand's transport. Its rules are those of parley/wire/rules_ib.h.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "capture/findings.hpp"
#include "capture/rules/roce/roce_watch.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {

/// Used for the rules of rules_ib.h.
using IbRule = Rule;

/// A frame, and the time of its capture.
struct FrameRef {
  std::uint64_t frame = 0;
  Instant at{};
};

/// A capture with several queues may reorder packets. Times that differ by less than this prove no order.
inline constexpr Duration same_moment = std::chrono::milliseconds(2);
/// The same limit for packets in opposite directions or of different queue pairs, which may use different paths.
inline constexpr Duration paths_apart = std::chrono::milliseconds(20);

/// The shortest accepted wait for a timeout, 15/16 of it: Linux waits 4,096 ms where 4,295 ms is meant.
constexpr Duration least(Duration time) { return time / 16 * 15; }

/// The findings of one connection.
class IbFindings {
 public:
  /// `watch` receives each finding from now on.
  void forward_to(RoceWatch& watch, RoceConnection& owner) {
    watch_ = &watch;
    owner_ = &owner;
  }
  /// Reports a breach of `rule`. `text` follows "the initiator" or "the responder".
  void report(IbRule rule, std::uint64_t frame, Side side, std::string_view text) {
    const RuleFacts& facts = facts_of(rule);
    const auto sentence = [&] { return std::string("the ") + std::string(to_string(side)) + std::string(text); };
    if (watch_ != nullptr)
      watch_->found(*owner_, {frame, facts.severity, std::string(facts.clause), sentence(), side, rule});
    if (facts.severity == Severity::warning && is_habit(rule, frame, side, text)) return;
    all_.add(frame, side, rule, sentence());
  }
  void note(std::uint64_t frame, std::optional<Side> side, std::string text) {
    all_.remark(frame, side, std::move(text));
  }
  /// Notes a known departure of a real peer, which breaks no rule: "the responder <text>". Only the first of each kind.
  void departs(wire::ib::Departure what, std::uint64_t frame, Side side, std::string_view text) {
    const wire::ib::DepartureFacts& facts = wire::ib::facts_of(what);
    const bool again = departed_.has(what);
    const std::string sentence = again ? std::string()
                                       : std::string("the ") + std::string(to_string(side)) + std::string(text) +
                                             ", as Linux does (quirk " + std::string(facts.name) + ")";
    if (watch_ != nullptr)
      watch_->found(*owner_, {frame, Severity::note, std::string(facts.clause), sentence, side, {}, facts.name});
    if (again) return;
    departed_.add({what});
    all_.departure(frame, side, facts, sentence);
  }
  const Findings& all() const { return all_; }
  /// The findings by frame. A repeated warning is listed once, with its count and last frame.
  std::vector<Finding> list(std::uint64_t last_frame) const {
    std::vector<Finding> out = all_.listed(last_frame);
    for (const RepeatedWarning& h : habits_)
      for (Finding& f : out)
        if (h.count > 1 && f.frame == h.first && f.broken == h.rule && f.side == h.side)
          f.text += ", in " + std::to_string(h.count) + " packets, the last of them frame " + std::to_string(h.last);
    return out;
  }

 private:
  /// A warning with the same text for several packets.
  struct RepeatedWarning {
    IbRule rule{};
    Side side{};
    std::string text;
    std::uint64_t first = 0, last = 0, count = 1;
  };
  static constexpr std::size_t habits_max = 32;
  /// Counts the warning. True: it was reported before.
  bool is_habit(IbRule rule, std::uint64_t frame, Side side, std::string_view text) {
    for (RepeatedWarning& h : habits_)
      if (h.rule == rule && h.side == side && h.text == text) {
        ++h.count;
        h.last = frame;
        return true;
      }
    if (habits_.size() < habits_max) habits_.push_back({rule, side, std::string(text), frame, frame, 1});
    return false;
  }
  std::vector<RepeatedWarning> habits_;
  RoceWatch* watch_ = nullptr;
  RoceConnection* owner_ = nullptr;
  Findings all_;
  wire::ib::DepartureSet departed_;
};

}  // namespace parley::capture
