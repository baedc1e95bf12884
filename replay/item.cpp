// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/item.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::replay {
namespace {

using wire::RdmapOpcode;

std::string describe_message(const Item& item) {
  const wire::DdpHeader& h = item.header;
  std::string out(to_string(h.opcode));
  if (h.tagged)
    out += fmt::format(", STag 0x{:08x}, TO 0x{:x}", h.stag, h.to);
  else
    out += fmt::format(", QN {}, MSN {}", h.qn, h.msn);
  if (h.opcode == RdmapOpcode::send_inv || h.opcode == RdmapOpcode::send_se_inv)
    out += fmt::format(", invalidates STag 0x{:08x}", h.stag);
  if (const auto q = wire::ReadRequest::parse(item.payload); q && h.opcode == RdmapOpcode::read_request)
    return out + fmt::format(": {} octets from STag 0x{:08x}, TO 0x{:x} to STag 0x{:08x}, TO 0x{:x}", q->size,
                             q->source_stag, q->source_to, q->sink_stag, q->sink_to);
  if (const auto a = wire::AtomicRequest::parse(item.payload); a && h.opcode == RdmapOpcode::atomic_request)
    return out +
           fmt::format(": operation {}, STag 0x{:08x}, TO 0x{:x}, request {}", a->aop, a->stag, a->to, a->request_id);
  if (h.opcode == RdmapOpcode::terminate)
    if (const auto t = wire::Terminate::parse(item.payload)) {
      const std::string_view text = wire::terminate_text(t->layer, t->etype, t->code);
      return out + fmt::format(": layer {}, type {}, code {}{}{}{}", t->layer, t->etype, t->code,
                               text.empty() ? "" : ", ", text,
                               t->nibbles_swapped ? " (its control octets in the order of Linux siw)" : "");
    }
  return out + fmt::format(", {} octets{}", item.length, item.whole ? "" : ", not its end");
}

/// The Assembler's Key. A message continues with a segment that has the same key.
std::tuple<bool, std::uint8_t, std::uint32_t, std::uint64_t, std::uint64_t> key_of(const Item& item,
                                                                                   std::uint64_t age) {
  const wire::DdpHeader& h = item.header;
  const auto opcode = static_cast<std::uint8_t>(h.opcode);
  if (h.tagged) return {true, opcode, h.stag, h.to + item.length, age};
  return {false, opcode, h.qn, h.msn, age};
}

}  // namespace

Lane Item::lane() const {
  return is(RdmapOpcode::read_response) || is(RdmapOpcode::atomic_response) ? Lane::answered : Lane::said;
}

bool Item::is_send() const {
  if (kind != Kind::message || header.tagged) return false;
  const auto rule = rule_of(header.opcode);
  return rule.assigned && rule.qn == PARLEY_DDP_QN_SEND;
}

void Assembler::add(const Step& step, std::size_t index) {
  if (step.kind == Step::Kind::fpdu && !step.bad_crc) return segment(step, index);
  if (step.kind == Step::Kind::fpdu) spoilt(step, index);
  if (step.kind == Step::Kind::raw && !items_.empty() && items_.back().kind == Item::Kind::raw &&
      items_.back().octets.size() < Item::payload_max) {
    Item& item = items_.back();
    item.octets.insert(item.octets.end(), step.octets.begin(), step.octets.end());
    item.octets_known = item.length = item.octets.size();
    item.last = step.last;
    item.end = step.end;
    item.last_step = index;
    item.whole = item.whole && !step.begun;
    return;
  }
  Item item;
  item.first = step.first;
  item.last = step.last;
  item.end = step.end;
  item.first_step = item.last_step = index;
  item.octets = step.octets;
  item.octets_known = step.known;
  item.length = step.octets.size();
  item.lost = step.lost;
  item.whole = !step.begun;
  switch (step.kind) {
    case Step::Kind::startup:
      item.kind = Item::Kind::startup;
      item.startup = decode_startup(step.octets);
      break;
    case Step::Kind::rtr_frame: item.kind = Item::Kind::rtr_frame; break;
    case Step::Kind::fpdu: item.kind = Item::Kind::bad_crc; break;
    case Step::Kind::raw: item.kind = Item::Kind::raw; break;
    case Step::Kind::gap: item.kind = Item::Kind::gap; break;
    case Step::Kind::fin: item.kind = Item::Kind::fin; break;
    case Step::Kind::rst: item.kind = Item::Kind::rst; break;
  }
  if (step.kind == Step::Kind::gap) lose();
  items_.push_back(std::move(item));
}

void Assembler::segment(const Step& step, std::size_t index) {
  const auto h = wire::DdpHeader::parse(step.octets);
  const bool unread = step.known < step.octets.size() && (!h || step.known < h->size());
  if (!h || unread) {
    if (unread) lose();
    Item item;
    item.kind = unread ? Item::Kind::gap : Item::Kind::raw;
    item.first = step.first;
    item.last = step.last;
    item.end = step.end;
    item.first_step = item.last_step = index;
    item.octets = step.octets;
    item.octets_known = step.known;
    item.length = item.lost = step.octets.size();
    items_.push_back(std::move(item));
    return;
  }
  auto it = find_open(*h);
  if (it == open_.end()) it = behind_spoilt(*h);
  if (it == open_.end()) it = open(*h, step, index);
  spoilt_.reset();
  append(it, *h, step, index);
}

/// Begins a message with the first segment of it that was seen.
Assembler::Open::iterator Assembler::open(const wire::DdpHeader& h, const Step& step, std::size_t index) {
  while (!open_.empty() && (open_.size() >= open_max || open_octets_ > Item::payload_max)) close(open_.begin());
  Item item;
  item.kind = Item::Kind::message;
  item.first = step.first;
  item.first_step = index;
  item.header = h;
  item.octets = step.octets;
  item.octets_known = step.known;
  item.whole = false;
  item.after_gap = gap_;
  item.headless = gap_ && !h.tagged && h.mo != 0;  // RFC 5041 §4.3: a message begins at MO 0
  gap_ = false;
  const auto it = open_.emplace_hint(open_.end(), begun_++, std::move(item));
  keys_.insert(key_of(it->second, it->first));
  return it;
}

void Assembler::append(Open::iterator it, const wire::DdpHeader& h, const Step& step, std::size_t index) {
  keys_.erase(key_of(it->second, it->first));  // the next TO of a tagged message changes
  Item& item = it->second;
  const ConstBytes data = ConstBytes(step.octets).subspan(h.size());
  const std::size_t known = step.known - h.size();
  const std::size_t room = Item::payload_max - std::min(item.payload.size(), Item::payload_max);
  const std::size_t kept = std::min(room, data.size());
  if (known < kept) item.unknown.emplace_back(item.payload.size() + known, item.payload.size() + kept);
  item.payload.insert(item.payload.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(kept));
  open_octets_ += kept;
  item.length += data.size();
  item.last = step.last;
  item.last_step = index;
  item.end = step.end;
  item.marker_fault = item.marker_fault || step.bad_marker;
  item.pad_fault = item.pad_fault || step.bad_pad;
  item.whole = h.last;
  if (!h.last) {
    keys_.insert(key_of(item, it->first));
    return;
  }
  open_octets_ -= item.payload.size();
  items_.push_back(std::move(item));
  open_.erase(it);
}

// A wrong CRC does not end its message: the sender continues it. The header is trusted if it fits an open tagged
// message.
void Assembler::spoilt(const Step& step, std::size_t index) {
  spoilt_.reset();
  const auto h = wire::DdpHeader::parse(step.octets);
  if (step.known < step.octets.size() || step.octets.size() < PARLEY_DDP_TAGGED_LEN) return;
  if (h && h->tagged)
    if (const auto it = find_open(*h); it != open_.end()) return append(it, *h, step, index);
  spoilt_ = {step, index};
}

/// The tagged message that continues after the previous FPDU, which had a wrong CRC. It began earlier or with that
/// FPDU.
Assembler::Open::iterator Assembler::behind_spoilt(const wire::DdpHeader& h) {
  if (!spoilt_ || !h.tagged) return open_.end();
  const auto& [step, index] = *spoilt_;
  const std::size_t size = step.octets.size() - PARLEY_DDP_TAGGED_LEN;
  wire::DdpHeader before = h;
  before.to -= size;
  before.last = false;
  auto it = find_open(before);
  if (it == open_.end()) {
    const auto wrong = wire::DdpHeader::parse(step.octets);
    if (!wrong || !wrong->tagged || wrong->last || wrong->opcode != h.opcode || wrong->stag != h.stag ||
        wrong->to != before.to)
      return it;
    it = open(before, step, index);
  }
  append(it, before, step, index);
  return it;
}

// The oldest message that the segment continues.
Assembler::Open::iterator Assembler::find_open(const wire::DdpHeader& h) {
  Item like;
  like.header = h;
  const auto key = keys_.lower_bound(key_of(like, 0));
  if (key == keys_.end() || *key > key_of(like, ~std::uint64_t{0})) return open_.end();
  return open_.find(std::get<4>(*key));
}

void Assembler::close(Open::iterator it) {
  open_octets_ -= it->second.payload.size();
  keys_.erase(key_of(it->second, it->first));
  open_.erase(it);
}

// A message begun before missing octets will never be whole.
void Assembler::lose() {
  finish(true);
  gap_ = true;
  spoilt_.reset();
}

void Assembler::finish(bool cut) {
  for (auto& [age, item] : open_) {
    item.cut = cut;
    items_.push_back(std::move(item));
  }
  open_.clear();
  keys_.clear();
  open_octets_ = 0;
}

std::string describe(const Item& item) {
  switch (item.kind) {
    case Item::Kind::startup:
      if (!item.startup) return "startup frame";
      return fmt::format("MPA {} {}",
                         item.startup->key == wire::MpaKey::req   ? "Request"
                         : item.startup->key == wire::MpaKey::rep ? "Reply"
                                                                  : "startup frame of another key",
                         describe_startup(*item.startup));
    case Item::Kind::rtr_frame: return "MPA Rtr frame";
    case Item::Kind::message: return describe_message(item);
    case Item::Kind::bad_crc: return fmt::format("FPDU with a wrong CRC, ULPDU of {} octets", item.length);
    case Item::Kind::raw: return fmt::format("{} octets that are neither startup frame nor FPDU", item.length);
    case Item::Kind::gap: return fmt::format("{} octets that cannot be read", item.lost);
    case Item::Kind::fin: return "FIN";
    case Item::Kind::rst: return "RST";
  }
  return "";
}

std::string hex(ConstBytes octets, std::size_t known, std::size_t max) {
  std::string out;
  std::size_t at = 0;
  for (const std::uint8_t o : octets.first(std::min(octets.size(), max))) {
    if (at > 0) out += ' ';
    out += at++ < known ? fmt::format("{:02x}", o) : std::string("??");
  }
  if (octets.size() > max) out += fmt::format(" .. ({} octets)", octets.size());
  return out;
}

}  // namespace parley::replay
