// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// NegConnection: checks the order and the content of messages.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"
#include "capture/rules/neg/negotiation.hpp"

namespace parley::capture {
namespace {

constexpr std::uint8_t stage_info = 1, stage_ready = 2, stage_done = 3;

}  // namespace

/// Reports a broken rule. Always returns false.
bool NegConnection::error(const Half& h, const Message& m, Rule rule, std::string text) {
  violated_ = true;
  findings_.add(m.ref.frame, place_of(h), rule, std::move(text));
  return false;
}

bool NegConnection::judge_order(Half& h, const Message& m) {
  if (h.abort_frame != 0) {
    if (std::exchange(h.told_after_abort, true)) return false;
    return error(h, m, Rule::neg_after_abort,
                 fmt::format("a message after its sender's Abort in frame {}", h.abort_frame));
  }
  switch (static_cast<wire::NegType>(m.head.type)) {
    case wire::NegType::hello: return handle_hello(h, m);
    case wire::NegType::welcome: return handle_welcome(h, m);
    case wire::NegType::turn: return judge_turn(h, m);
    case wire::NegType::abort: handle_abort(h, m); return true;
  }
  return true;
}

// Whether the role's first message (Hello or Welcome) may be sent now: once, and first. After a gap it may be.
bool NegConnection::first_due(const Half& h, bool of_initiator) const {
  const bool role = of_initiator ? initiator_ == h.index : initiator_ != h.index;
  return role && (h.begun == Tristate::no || (h.begun == Tristate::unknown && h.gap));
}

bool NegConnection::handle_hello(Half& h, const Message& m) {
  if (!first_due(h, true)) return error(h, m, Rule::neg_hello, "a Hello where none is expected");
  h.begun = Tristate::yes;
  report_.hello_frame = m.ref.frame;
  hello_at_ = m.ref.at;
  if (!m.body_kept) return true;
  report_.plugin = item_text(m.body, wire::NegItemType::plugin);
  report_.variant = item_text(m.body, wire::NegItemType::variant);
  report_.label = item_text(m.body, wire::NegItemType::label);
  report_.done_announced = find_item(m.body, wire::NegItemType::done_stage).has_value();
  done_ = *report_.done_announced ? Tristate::yes : Tristate::no;
  qp_ = says_qp_turns(report_.plugin, report_.variant) ? QpTurns::yes : QpTurns::no;
  return true;
}

bool NegConnection::handle_welcome(Half& h, const Message& m) {
  if (!first_due(h, false)) return error(h, m, Rule::neg_welcome, "a Welcome where none is expected");
  h.begun = Tristate::yes;
  report_.welcome_frame = m.ref.frame;
  welcome_at_ = m.ref.at;
  return true;
}

void NegConnection::handle_abort(Half& h, const Message& m) {
  h.abort_frame = m.ref.frame;
  h.first_is_abort = h.begun == Tristate::no;
  over_at_ = m.ref.at;
  NegAbortSeen& seen = h.abort.emplace();
  seen.from = place_of(h);
  seen.frame = m.ref.frame;
  if (const auto code = find_item(m.body, wire::NegItemType::error); code && code->size() == 2)
    seen.error = Reader(*code).be16();
  seen.text = item_text(m.body, wire::NegItemType::text);
  seen.advice = item_text(m.body, wire::NegItemType::advice);
}

void NegConnection::adopt_head(Half& h, const NegHead& head) {
  h.stage = head.stage;
  h.round = head.round;
  h.last = head.last();
  h.gap = false;
}

// The position up to which the sender of `m` had received its peer's stream; none if that stream has holes.
std::optional<std::uint64_t> NegConnection::heard_of_peer(const Half& h, const Message& m) const {
  const Half& peer = peer_of(h);
  if (peer.holes || peer.state != State::follow || !peer.tcp.from_syn()) return std::nullopt;
  // One octet more is the FIN's sequence number, or an octet that the capture lacks.
  const std::uint64_t read = peer.tcp.position(), heard = m.ref.peer_received;
  if (heard > read && !(peer.fin_frame != 0 && peer.ends_at == read && heard == read + 1)) return std::nullopt;
  return std::min(heard, read);
}

// Whether both sides had sent their last Turn of the stage when the sender sent `m`.
bool NegConnection::stage_was_over(const Half& h, const Message& m) const {
  const auto heard = heard_of_peer(h, m);
  const std::uint64_t end = peer_of(h).last_end[h.stage];
  return h.last && end != 0 && heard && *heard >= end;
}

// Whether the sender went on to the next stage before it had received the peer's last Turn.
bool NegConnection::went_on_alone(const Half& h, const Message& m) const {
  const auto heard = heard_of_peer(h, m);
  const std::uint64_t end = peer_of(h).last_end[h.stage];
  return heard && (end == 0 || end > *heard);
}

bool NegConnection::judge_stage(Half& h, const Message& m) {
  const std::uint8_t stage = m.head.stage;
  const bool over = stage_was_over(h, m);
  if (stage == h.stage && !over) return true;
  if (stage == h.stage + 1 && h.last && !went_on_alone(h, m)) {
    if (stage != stage_done || done_ != Tristate::no) return true;
    return error(h, m, Rule::neg_stage_order, "a Turn of the stage done; the Hello announced no such stage");
  }
  const bool ended = over && (h.stage == stage_done || (h.stage == stage_ready && done_ == Tristate::no));
  if (ended)
    return error(h, m, Rule::neg_after_end,
                 fmt::format("a Turn of the stage {} after the end of the session", wire::neg_stage_text(stage)));
  // If the capture lacks octets of the peer, it is not known whether the peer had sent its last Turn.
  if (h.last && !over && stage > h.stage && !heard_of_peer(h, m))
    return error(h, m, Rule::neg_stage_order,
                 fmt::format("a Turn of the stage {} right behind one of the stage {}", wire::neg_stage_text(stage),
                             wire::neg_stage_text(h.stage)));
  if (over && h.stage == stage_ready && done_ == Tristate::unknown)
    return error(
        h, m, Rule::neg_stage_order,
        fmt::format("a Turn of the stage {} when both sides were through with ready", wire::neg_stage_text(stage)));
  const auto present = static_cast<std::uint8_t>(h.stage + (over ? 1 : 0));
  return error(h, m, Rule::neg_stage_order,
               fmt::format("a Turn of the stage {}; the stage is {}", wire::neg_stage_text(stage),
                           wire::neg_stage_text(present)));
}

bool NegConnection::judge_turn(Half& h, const Message& m) {
  bool right = true;
  if (h.begun == Tristate::no) {
    right = error(h, m, Rule::neg_turn_early, "a Turn before the Welcome");
    h.begun = Tristate::unknown;
  } else if (!h.gap) {
    if (!judge_stage(h, m)) {
      if (m.head.stage > h.stage) adopt_head(h, m.head);
      return false;
    }
    const std::uint16_t before = m.head.stage == h.stage ? h.round : std::uint16_t{0};
    if (m.head.round != before + 1)
      right = error(h, m, Rule::neg_round, fmt::format("round {} follows round {}", m.head.round, before));
    else if (m.head.stage == h.stage && h.last && (!m.head.last() || m.head.length > 0))
      right = error(h, m, Rule::neg_after_last, "a Turn with data after the peer's last one");
  }
  adopt_head(h, m.head);
  if (m.head.last() && h.last_end[h.stage] == 0) h.last_end[h.stage] = m.end;
  return right;
}

void NegConnection::count_turn(const Half& h, const Message& m) {
  NegStageSeen& stage = report_.stages[m.head.stage];
  ++stage.turns[h.index];
  if (!m.head.last() || stage.last[h.index]) return;
  stage.last[h.index] = true;
  stage.last_at[h.index] = m.ref.at;
}

void NegConnection::judge_body(const Half& h, const Message& m) {
  std::optional<NegFault> fault;
  if (!m.head.is(wire::NegType::turn))
    fault = check_items(m.body, m.head.is(wire::NegType::abort));
  else if (qp_ == QpTurns::yes)
    fault = check_qp_turn(m.head.stage, m.body);
  if (!fault) return;
  if (facts_of(fault->rule).severity == Severity::error)
    error(h, m, fault->rule, std::move(fault->text));
  else
    findings_.add(m.ref.frame, place_of(h), fault->rule, std::move(fault->text));
}

void NegConnection::read_attributes(const Half& h, const Message& m) {
  const bool qp = qp_ == QpTurns::yes || qp_ == QpTurns::likely;
  if (!qp || m.head.stage != stage_info || m.body.empty() || report_.attributes.size() >= attributes_max) return;
  if (check_qp_turn(m.head.stage, m.body)) return;
  QpSeen seen = read_qp_info(m.body);
  seen.frame = m.ref.frame;
  seen.side = place_of(h);
  report_.attributes.push_back(seen);
}

}  // namespace parley::capture
