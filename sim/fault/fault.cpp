// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/fault.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "sim/fault/fault_frame.hpp"
#include "sim/fault/fault_roce.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

LookDepth depth_of(const FaultRule& rule) {
  const LookDepth depth = rule.match.psn ? LookDepth::headers : row_of(rule.match.message).depth;
  return rule.match.connection != 0 && !of_a_roce_connection(rule.match.message) ? std::max(depth, LookDepth::startup)
                                                                                 : depth;
}

struct Rule {
  FaultRule rule;
  Rng rng;
  FaultTally tally{};        // tally.matched: frames so far
  std::uint32_t number = 0;  // from 1, as in notes
};

/// Whether the rule hits the current matching frame. `gone`: the frame is already lost; it is only counted.
bool chosen(Rule& r, bool gone) {
  const std::uint64_t index = r.tally.matched++;
  if (r.rule.mask) return index < 64 && (*r.rule.mask >> index & 1) != 0;
  const Match& m = r.rule.match;
  if (index + 1 < m.nth) return false;
  if (m.times != 0 && index + 1 - m.nth >= m.times) return false;
  if (r.rule.chance.of >= r.rule.chance.in) return true;
  if (gone) return false;
  if (r.rng.chance(r.rule.chance)) return true;
  if (r.rule.chance.of != 0) ++r.tally.spared;
  return false;
}

void flip_random(Frame& frame, std::uint32_t count, Rng& rng) {
  std::array<std::uint64_t, 64> chosen{};  // limited by check_rule
  const std::uint64_t bits = std::uint64_t{frame.size} * 8;
  const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>({count, bits, chosen.size()}));
  for (std::size_t n = 0; n < wanted;) {
    const std::uint64_t bit = rng.below(bits);
    const auto end = chosen.begin() + static_cast<std::ptrdiff_t>(n);
    if (std::find(chosen.begin(), end, bit) != end) continue;
    chosen[n++] = bit;
    flip(frame, static_cast<std::uint32_t>(bit / 8), static_cast<std::uint8_t>(1u << bit % 8));
  }
}

/// The stream of a connection ends at `at`.
struct Cut {
  std::uint64_t message = 0;  // start of the message that is cut
  std::uint32_t octets = 0;   // octets of it that pass
  std::uint64_t at = 0;
};

/// A bit to flip in a message, possibly in a later frame.
struct Flip {
  std::uint32_t connection = 0;
  std::uint64_t message = 0;
  Rule* rule = nullptr;
  bool placed = false;
  std::uint64_t octet = 0;  // once placed: its position in the stream
  std::uint8_t bits = 0;
};

constexpr std::size_t cuts_max = 1024;  // connections; the oldest is forgotten and its stream continues
constexpr std::size_t flips_max = 256;  // the oldest is forgotten
static_assert(FaultInjector::rules_max <= flips_max);

}  // namespace

struct FaultInjector::Impl {
  explicit Impl(Rng r) : rng(r) {}

  /// One frame on its way through the rules.
  struct Pass {
    Frame& frame;
    bool describe;
    FaultDecision decision{};
    std::size_t flips_before = 0;
    bool done = false;  // the current rule has changed something
  };

  void look(const Frame& frame);
  bool matches(const Rule& r, std::size_t& found) const;
  bool aims(Rule& r, Instant now, bool gone, std::size_t& found) const;
  void drop_what_was_planned(const Pass& pass);
  void carry_out(Rule& r, std::size_t found, Pass& pass);
  void begin_message_fault(Rule& r, std::size_t found, Pass& pass);
  static void corrupt_packet(Rule& r, Pass& pass);
  void cut(Pass& pass, const Rule* by);
  bool carry_out(Flip& f, Pass& pass);
  void flip_pending(Pass& pass);
  bool place(Flip& f) const;
  static void note(Pass& pass, const Rule* by, std::string_view what);

  Rng rng;
  std::vector<std::unique_ptr<Rule>> rules;  // decisions point to its elements
  LookDepth depth = LookDepth::nothing;      // depth that the rules need
  std::unique_ptr<MessageTracker> tracker;   // when depth is startup or fpdus
  FrameContent content;                      // of the current frame, as deep as needed
  std::shared_ptr<RoceConnections> roce;     // if a rule of either direction selects a connection
  std::uint32_t roce_connection = 0;         // of the current frame
  std::map<std::uint32_t, Cut> cuts;         // by connection
  std::vector<Flip> flips;
  std::vector<Rule*> done;  // rules that changed the current frame, undone by a drop; a member to save allocations
};

FaultInjector::FaultInjector(Rng rng) : impl_(std::make_unique<Impl>(rng)) {}
FaultInjector::~FaultInjector() = default;

bool FaultInjector::empty() const { return impl_->rules.empty(); }

Checked<void> FaultInjector::add(const FaultRule& rule) {
  if (impl_->rules.size() == rules_max)
    return tl::unexpected(fmt::format("one way of a link has at most {} fault rules", rules_max));
  if (auto checked = check_rule(rule); !checked) return checked;
  if (rule.match.connection != 0 && of_a_roce_connection(rule.match.message) && !impl_->roce)
    impl_->roce = std::make_shared<RoceConnections>();
  impl_->rules.push_back(std::make_unique<Rule>(Rule{rule, impl_->rng.split()}));
  impl_->rules.back()->number = rule.number != 0 ? rule.number : static_cast<std::uint32_t>(impl_->rules.size());
  const LookDepth depth = depth_of(rule);
  if (depth <= impl_->depth) return {};
  impl_->depth = depth;
  if (depth >= LookDepth::startup)
    impl_->tracker =
        std::make_unique<MessageTracker>(depth == LookDepth::fpdus ? StreamDepth::fpdus : StreamDepth::startup);
  return {};
}

std::shared_ptr<RoceConnections> FaultInjector::roce_connections() const { return impl_->roce; }
void FaultInjector::follow(std::shared_ptr<RoceConnections> connections) { impl_->roce = std::move(connections); }

void FaultInjector::Impl::look(const Frame& frame) {
  if (!roce && depth == LookDepth::nothing) return;
  const FrameLayout layout = lay_out(frame.octets());
  // Damage from an earlier link counts if the receiver accepts it.
  if (roce) roce_connection = roce->look(frame.octets(), layout, !frame.altered || icrc_right(frame, layout));
  if (depth == LookDepth::nothing) return;
  // A frame damaged on an earlier link will be discarded by its receiver: it does not affect the stream.
  const bool trusted = depth != LookDepth::headers && (!frame.altered || checksums_right(frame, layout));
  if (trusted) {
    tracker->look(frame.octets(), layout, content);
    return;
  }
  content.kind = layout.kind;
  content.kinds = layout.kinds;
  content.connection = 0;
  content.psn = layout.roce ? std::optional(layout.psn) : std::nullopt;
  content.parts.clear();
}

bool FaultInjector::Impl::matches(const Rule& r, std::size_t& found) const {
  const Match& m = r.rule.match;
  const bool of_roce = of_a_roce_connection(m.message);
  if (m.connection != 0 && m.connection != (of_roce ? roce_connection : content.connection)) return false;
  if (m.psn && m.psn != content.psn) return false;
  if (m.message == MessageKind::any) return true;
  found = content.find(m.message, m.fpdu);
  return found != 0;
}

void FaultInjector::Impl::note(Pass& pass, const Rule* by, std::string_view what) {
  if (!pass.describe) return;
  std::string& text = pass.decision.note;
  if (!text.empty()) text += "; ";
  text += what;
  if (by == nullptr) return;
  text += fmt::format(" by rule {} ({})", by->number, by->rule.name.empty() ? by->rule.to_string() : by->rule.name);
}

FaultDecision FaultInjector::apply(Instant now, Frame& frame, bool describe) {
  Impl& i = *impl_;
  Impl::Pass pass{frame, describe};
  i.look(frame);
  pass.flips_before = i.flips.size();
  if (!i.cuts.empty()) i.cut(pass, nullptr);
  i.done.clear();
  for (const auto& r : i.rules) {
    std::size_t found = 0;
    const bool gone = pass.decision.drop != DropReason::none;
    if (!i.aims(*r, now, gone, found) || gone) continue;
    pass.done = false;
    i.carry_out(*r, found, pass);
    if (pass.done) ++r->tally.hit;
    if (pass.decision.drop != DropReason::none)
      i.drop_what_was_planned(pass);
    else if (pass.done && !is_host_action(r->rule.action) && r->rule.action != FaultAction::cut_stream)
      i.done.push_back(r.get());
  }
  if (pass.decision.drop == DropReason::none && !i.flips.empty()) i.flip_pending(pass);
  return std::move(pass.decision);
}

void FaultInjector::count(Instant now, const Frame& frame) {
  impl_->look(frame);
  std::size_t found = 0;
  for (const auto& r : impl_->rules) (void)impl_->aims(*r, now, true, found);
}

void FaultInjector::add_tallies(std::vector<FaultTally>& by_number) const {
  for (const auto& r : impl_->rules) {
    if (r->rule.number == 0) continue;
    if (by_number.size() <= r->rule.number) by_number.resize(std::size_t{r->rule.number} + 1);
    FaultTally& sum = by_number[r->rule.number];
    sum.matched += r->tally.matched;
    sum.aimed += r->tally.aimed;
    sum.spared += r->tally.spared;
    sum.hit += r->tally.hit;
  }
}

/// Whether the rule selects the current frame. Counts the frame, once.
bool FaultInjector::Impl::aims(Rule& r, Instant now, bool gone, std::size_t& found) const {
  found = 0;
  if (now < r.rule.from || now >= r.rule.until || r.rule.action == FaultAction::set_rate) return false;
  if (!matches(r, found) || !chosen(r, gone)) return false;
  ++r.tally.aimed;
  return true;
}

/// Drops the changes that earlier rules made to this frame or planned for its message.
void FaultInjector::Impl::drop_what_was_planned(const Pass& pass) {
  flips.resize(std::min(flips.size(), pass.flips_before));
  for (Rule* rule : done) --rule->tally.hit;
  done.clear();
}

void FaultInjector::Impl::carry_out(Rule& r, std::size_t found, Pass& pass) {
  FaultDecision& d = pass.decision;
  const FaultRule& rule = r.rule;
  pass.done = true;  // unless there is nothing to change
  switch (rule.action) {
    case FaultAction::drop:
      d.drop = DropReason::rule;
      note(pass, &r, "dropped");
      return;
    case FaultAction::duplicate:
      d.copies = std::min(d.copies + rule.count, FaultDecision::copies_max);
      note(pass, &r, rule.count == 1 ? "doubled" : "copied");
      return;
    case FaultAction::delay: {
      const auto jitter = static_cast<std::uint64_t>(rule.jitter.count());
      const Duration extra =
          rule.delay + Duration(static_cast<std::int64_t>(jitter != 0 ? r.rng.between(0, jitter) : 0));
      d.extra += extra;
      d.overtakable = d.overtakable || rule.reorder;
      if (pass.describe) note(pass, &r, "delayed " + exact_duration_text(extra));
      return;
    }
    case FaultAction::corrupt:
      flip_random(pass.frame, rule.count, r.rng);
      d.changes_stream = d.changes_stream || rule.count > 1;  // a single flipped bit never passes the checksums
      note(pass, &r, rule.count == 1 ? "one bit flipped" : "bits flipped");
      return;
    case FaultAction::truncate:
      if (pass.frame.size <= rule.octets) {
        pass.done = false;
        return;
      }
      pass.frame.size = rule.octets;
      pass.frame.altered = true;
      note(pass, &r, "truncated");
      return;
    case FaultAction::corrupt_mpa:
    case FaultAction::cut_stream: begin_message_fault(r, found, pass); return;
    case FaultAction::reset: {
      const FrameLayout layout = lay_out(pass.frame.octets());
      if (!layout.tcp || (layout.flags & wire::tcp_flag::rst) != 0) {
        pass.done = false;
        return;
      }
      d.reset = true;
      note(pass, &r, "followed by resets");
      return;
    }
    case FaultAction::corrupt_roce: corrupt_packet(r, pass); return;
    case FaultAction::crash:
    case FaultAction::restart:
    case FaultAction::pause:
    case FaultAction::resume:
    case FaultAction::end_process:
    case FaultAction::stop_process:
    case FaultAction::continue_process:
      d.hosts.push_back(&rule);
      if (pass.describe) note(pass, &r, fmt::format("sets off {} of {}", to_string(rule.action), host_text(rule)));
      return;
    case FaultAction::set_rate: return;
  }
}

void FaultInjector::Impl::corrupt_packet(Rule& r, Pass& pass) {
  const FaultRule& rule = r.rule;
  const std::string_view field = to_string(rule.field);
  const auto done = damage_packet(pass.frame, rule.field, rule.value, r.rng);
  pass.done = done.has_value();
  pass.decision.changes_stream = pass.decision.changes_stream || (done && done->vouched);
  if (!pass.describe) return;
  if (!done)
    note(pass, &r, fmt::format("no {} to corrupt", field));
  else if (rule.value)
    note(pass, &r, fmt::format("{} set to {}", field, *rule.value));
  else
    note(pass, &r, fmt::format("{} corrupted (octet {}, bits {:#04x})", field, done->octet, done->bits));
}

void FaultInjector::Impl::begin_message_fault(Rule& r, std::size_t found, Pass& pass) {
  pass.done = false;
  if (found < 2) return;  // impossible: check_rule requires a message
  const Part& part = content.parts[found - 2];
  if (r.rule.action == FaultAction::corrupt_mpa) {
    if (flips.size() == flips_max) {
      flips.erase(flips.begin());
      --pass.flips_before;  // not 0: each rule plans at most one per frame
    }
    Flip f;
    f.connection = content.connection;
    f.message = part.position;
    f.rule = &r;
    flips.push_back(f);
    return;
  }
  if (cuts.contains(content.connection)) return;  // a stream ends once
  if (cuts.size() == cuts_max) cuts.erase(cuts.begin());
  cuts[content.connection] = Cut{part.position, r.rule.octets, part.position + r.rule.octets};
  pass.done = true;
  cut(pass, &r);
}

void FaultInjector::Impl::cut(Pass& pass, const Rule* by) {
  const auto it = cuts.find(content.connection);
  const MessageStream* stream = it != cuts.end() ? tracker->stream(it->first) : nullptr;
  if (stream == nullptr) return;
  Cut& c = it->second;
  // The FIN replaces an octet that the sender has really sent, so that both ends later agree on sequence numbers.
  if (const auto message = stream->at(c.message); message && message->whole != 0)
    c.at = c.message + std::min(c.octets, message->whole - 1);
  const FrameLayout layout = lay_out(pass.frame.octets());
  using namespace wire::tcp_flag;
  if (!layout.tcp || (layout.flags & (syn | rst)) != 0) return;
  const std::uint64_t begin = content.position, end = begin + layout.payload_size;
  const bool has_fin = (layout.flags & fin) != 0;
  if (begin > c.at) {
    if (layout.payload_size == 0 && !has_fin) return;
    cut_payload(pass.frame, layout, 0, false);
    pass.decision.changes_stream = true;
    note(pass, by, "payload and FIN taken off after the cut of the stream");
  } else if (end > c.at) {
    const auto keep = static_cast<std::uint32_t>(c.at - begin);
    cut_payload(pass.frame, layout, keep, true);
    pass.decision.fin = pass.decision.changes_stream = true;
    if (pass.describe) note(pass, by, fmt::format("payload cut to {} octets and FIN set", keep));
  } else {
    return;
  }
  const FrameLayout after = lay_out(pass.frame.octets());
  content.kind = after.kind;
  content.kinds = after.kinds;
  content.payload_size = after.payload_size;
  std::erase_if(content.parts, [&](const Part& p) { return p.offset >= after.payload + after.payload_size; });
}

/// Chooses the octet and the bit among those that have not passed yet. False: there are none.
bool FaultInjector::Impl::place(Flip& f) const {
  const MessageStream* stream = tracker->stream(f.connection);
  const auto message = stream != nullptr ? stream->at(f.message) : std::nullopt;
  if (!message) return false;
  const MessageField field = f.rule->rule.field;
  const std::uint32_t size = stream->field_size(*message, field);
  if (size == 0) return message->whole == 0;  // its length is not known yet, or it has no such field
  std::uint32_t low = 0, high = size;         // the first octet that has not passed yet
  while (low < high) {
    const std::uint32_t middle = (low + high) / 2;
    if (stream->field_octet(*message, field, middle) < content.position)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == size) return false;
  const auto octet = low + static_cast<std::uint32_t>(f.rule->rng.below(size - low));
  // RFC 5044 §4.3: receivers treat the low two bits of FPDUPTR as 0.
  const std::uint64_t lowest = field == MessageField::marker && octet % 2 == 1 ? 2 : 0;
  f.octet = stream->field_octet(*message, field, octet);
  f.bits = static_cast<std::uint8_t>(1u << f.rule->rng.between(lowest, 7));
  f.placed = true;
  return true;
}

/// Returns whether the flip is finished.
bool FaultInjector::Impl::carry_out(Flip& f, Pass& pass) {
  const std::string_view field = to_string(f.rule->rule.field);
  if (!f.placed && !place(f)) {
    if (pass.describe) note(pass, f.rule, fmt::format("no {} to corrupt", field));
    return true;
  }
  if (!f.placed || f.octet < content.position || f.octet >= content.position + content.payload_size) return false;
  const auto at = content.payload_offset + static_cast<std::uint32_t>(f.octet - content.position);
  if (!flip_payload(pass.frame, lay_out(pass.frame.octets()), at, f.bits)) return false;
  pass.decision.changes_stream = true;
  ++f.rule->tally.hit;
  if (pass.describe) note(pass, f.rule, fmt::format("{} corrupted (octet {}, bits {:#04x})", field, at, f.bits));
  return true;
}

void FaultInjector::Impl::flip_pending(Pass& pass) {
  if (content.connection == 0 || content.payload_size == 0 || content.position == FrameContent::nowhere) return;
  std::size_t kept = 0;
  for (Flip& f : flips)
    if (f.connection != content.connection || !carry_out(f, pass)) flips[kept++] = f;
  flips.resize(kept);
}

}  // namespace parley::sim
