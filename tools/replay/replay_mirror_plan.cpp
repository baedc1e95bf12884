// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Mirror: the plan for one side of a recording: options, memory and work requests.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tools/replay/replay_mirror.hpp"

namespace parley::tools {

using capture::Side;
using replay::Item;
using wire::RdmapOpcode;

mpa::StartupOptions Mirror::mpa_options() const {
  mpa::StartupOptions o;
  o.play_quirk = quirk_;
  const Item* item = mine().startup();
  o.revision = 2;
  o.rtr = mpa::Rtr::none;
  if (item == nullptr) return o;
  const capture::StartupSeen& s = *item->startup;
  const mpa::Rtr seen = recording_.report.rtr;
  o.crc = s.c();
  o.markers = s.m();
  o.fall_back_to_v1 = false;
  if (side_ == Side::initiator) o.revision = s.revision >= 2 ? 2 : 1;
  if (s.enhanced) {
    o.ird = s.enhanced->ird;
    o.ord = s.enhanced->ord;
    // The Reply shows to which value its sender raised its IRD.
    if (side_ == Side::responder) o.ird_max = o.ird == mpa::depth_not_negotiated ? std::uint16_t{0} : o.ird;
    const mpa::RtrSet kinds{.send = s.enhanced->b, .write = s.enhanced->c, .read = s.enhanced->d};
    if (side_ == Side::responder && s.enhanced->a && !kinds.empty()) o.rtr_accept = kinds;
    if (side_ == Side::initiator && s.enhanced->a) {
      o.rtr_offer = kinds;
      o.rtr = kinds.has(seen) ? seen
              : kinds.send    ? mpa::Rtr::send
              : kinds.write   ? mpa::Rtr::write
              : kinds.read    ? mpa::Rtr::read
                              : mpa::Rtr::none;
    }
  } else if (s.revision <= 1) {
    if (side_ == Side::initiator) {
      o.rtr = seen == mpa::Rtr::none && s.s() ? mpa::Rtr::frame : seen;
      o.rtr_by_s = s.s();
      const auto& frame = recording_.report.rtr_frame;
      if (frame && frame->key == wire::MpaKey::rtr_hex) o.rtr_spelling = mpa::RtrSpelling::hex;
    } else {
      o.accept_rtr_frame = s.s();
      if (!s.s() && seen != mpa::Rtr::frame) o.rtr_expected = seen;
    }
  }
  return o;
}

Or<void> Mirror::prepare() {
  const bool complained =
      std::any_of(mine().items.begin(), mine().items.end(), [](const Item& i) { return i.is(RdmapOpcode::terminate); });
  plan_regions(names_.uses, names_.fields, complained, {.before = 64 << 20, .most = memory_max});
  const replay::Answers answers = replay::pair_answers(mine(), theirs());
  read_pairs_.assign(answers.request_of.begin(), answers.request_of.end());
  plan_acts();
  std::uint64_t sent = 0;
  for (const Act& a : acts_) {
    const Item& item = mine().items[a.item];
    sent += item.length;
    if (const auto q = wire::ReadRequest::parse(item.payload); q && item.is(RdmapOpcode::read_request)) sent += q->size;
  }
  for (const Item& item : theirs().items)
    if (item.is_send()) receive_size_ = std::max<std::size_t>(receive_size_, item.length);
  return allocate_memory(side_, sent, memory_max);
}

void Mirror::plan_acts() {
  const auto& items = mine().items;
  const replay::Answers answers = replay::pair_answers(theirs(), mine());
  const mpa::Rtr rtr = recording_.report.rtr;
  bool rtr_to_come =
      side_ == Side::initiator && (rtr == mpa::Rtr::send || rtr == mpa::Rtr::write || rtr == mpa::Rtr::read);
  std::set<std::size_t> asked;  // the requests posted so far
  bool complained = false, ended = false;
  std::size_t received = 0, sends_seen = 0, reads_done = 0;
  Instant received_at{};
  Instant before = mine().startup() != nullptr ? mine().startup()->last.at : Instant{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.is(RdmapOpcode::read_response) || item.is(RdmapOpcode::atomic_response)) {
      (acts_.empty() ? first_reads_ : acts_.back().reads).push_back(i);
      continue;
    }
    if (item.is(RdmapOpcode::terminate)) complained = true;
    const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
    const bool posted = replay::names_known(item) && item.lane() == replay::Lane::said &&
                        !item.is(RdmapOpcode::terminate) && item.length < Item::payload_max;
    if (posted && std::exchange(rtr_to_come, false)) continue;  // the stack sends it and reports no completion
    // The stack closes by itself after a Terminate and after the peer's end.
    Act act;
    // The items that its sender had received by then. The set only grows.
    for (; received < theirs().items.size(); ++received) {
      const Item& other = theirs().items[received];
      if (other.end > item.first.peer_received || other.last.frame >= item.first.frame) break;
      received_at = std::max(received_at, other.last.at);
      if (other.is_send() && replay::names_known(other)) ++sends_seen;  // other messages are not played
      // Requests are not posted if the recording lacks them or their names. Their answers are not awaited.
      const auto answered = answers.request_of.find(received);
      const bool played = other.header.tagged || replay::names_known(other);
      if (answered != answers.request_of.end() && played && asked.contains(answered->second)) ++reads_done;
      ended = ended || other.kind == Item::Kind::fin || other.kind == Item::Kind::rst;
    }
    act.sends_seen = sends_seen;
    act.answers_seen = reads_done;
    const Instant since = std::max(before, received_at);
    const bool stack_closes = complained || ended;
    if (!(end && !stack_closes) && !posted) continue;
    if (posted) asked.insert(i);
    act.item = i;
    act.delay = std::max(item.first.at - since, Duration{});
    before = item.last.at;
    acts_.push_back(std::move(act));
  }
  // The ULP does not see the Send that was the RTR.
  if (rtr == mpa::Rtr::send && side_ == Side::responder)
    for (Act& act : acts_) act.sends_seen -= std::min<std::size_t>(act.sends_seen, 1);
}

// Puts the data of recorded Reads of this side's memory in place.
void Mirror::fill(const std::vector<std::size_t>& responses) {
  for (const std::size_t response : responses) {
    const auto pair =
        std::find_if(read_pairs_.begin(), read_pairs_.end(), [response](const auto& p) { return p.first == response; });
    if (pair == read_pairs_.end()) continue;
    if (mine().items[response].is(RdmapOpcode::atomic_response)) {
      fill_atomic(mine().items[response], theirs().items[pair->second]);
      continue;
    }
    const auto q = wire::ReadRequest::parse(theirs().items[pair->second].payload);
    if (q) put(q->source_stag, q->source_to, mine().items[response].payload);
  }
}

// Puts the value that the first Atomic found at its address in place. The stack computes later values.
void Mirror::fill_atomic(const Item& response, const Item& request) {
  const auto a = wire::AtomicRequest::parse(request.payload);
  const auto was = wire::AtomicResponse::parse(response.payload);
  if (!a || !was || !response.unknown.empty() || !atomics_filled_.emplace(a->stag, a->to).second) return;
  Bytes octets(sizeof was->original);
  std::memcpy(octets.data(), &was->original, octets.size());  // in host byte order
  put(a->stag, a->to, octets);
}

Bytes Mirror::with_names(std::size_t item, ConstBytes octets) const {
  Bytes out(octets.begin(), octets.end());
  for (const replay::Field& f : names_.fields)
    if (f.item == item) write_name(out, f);
  return out;
}

}  // namespace parley::tools
