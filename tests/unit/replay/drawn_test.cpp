// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recordings with drawn faults (frames that are lost, doubled, moved, cut or changed) against a sound peer, beside
// tests/states/replay_drawn.txt: of some what is recorded and played, of all what they come to.
#include <gtest/gtest.h>

#include "atomics.hpp"
#include "base/rng.hpp"
#include "medley.hpp"
#include "result_text_kit.hpp"

namespace parley::replay::test {
namespace {

using capture::test::fpdu;
using capture::test::read_request;
using capture::test::segment;
using capture::test::startup;

/// Changes a frame's payload and leaves its checksum wrong, as a recorder's own offload does.
void change_octet(capture::test::Frame& f, Rng& rng) {
  constexpr std::size_t headers = 14 + 20 + 20;
  if (f.octets.size() > headers)
    f.octets[rng.between(headers, f.octets.size() - 1)] ^= static_cast<std::uint8_t>(1U << rng.below(8));
}

Frames drawn_frames(const Frames& whole, Rng& rng) {
  Frames out = whole;
  const std::uint64_t changes = rng.between(1, 4);
  for (std::uint64_t i = 0; i < changes; ++i) {
    const std::size_t at = rng.between(rng.below(4) == 0 ? 0 : 3, out.size() - 1);
    const auto place = out.begin() + static_cast<std::ptrdiff_t>(at);
    switch (rng.below(8)) {
      case 0:
      case 1: out.erase(place); break;
      case 6: {
        const Duration later(static_cast<std::int64_t>(rng.below(3'000'000'000)));
        for (std::size_t f = at; f < out.size(); ++f) out[f].at += later;
        break;
      }
      case 2: out.insert(place, out[at]); break;
      case 3: std::swap(out[at].octets, out[rng.below(out.size())].octets); break;
      case 4: {
        auto& f = out[at];
        f.original_length = static_cast<std::uint32_t>(f.octets.size());
        f.octets.resize(std::max<std::size_t>(54, f.octets.size() - rng.below(40)));
        break;
      }
      case 5: change_octet(out[at], rng); break;
      default: out.resize(std::max<std::size_t>(8, at)); break;
    }
  }
  return out;
}

/// A conversation that the seed draws: messages of every kind, cut into segments, whose octets name memory in several
/// forms. `shift` moves all names and leaves everything else as it is; `odd` draws what is said otherwise: messages of
/// another length, kind or number, and Atomics; 0: nothing is.
class DrawnTalk {
 public:
  DrawnTalk(std::uint64_t seed, std::uint32_t shift, std::uint64_t odd = 0)
      : rng_(seed), odd_rng_(odd), odd_(odd != 0), shift_(shift) {}

  Exchange draw() {
    const bool second = rng_.below(3) != 0;
    const auto flags = static_cast<std::uint8_t>(PARLEY_MPA_FLAG_C | (second ? PARLEY_MPA_FLAG_S : 0));
    const std::uint8_t revision = second ? 2 : 1;
    const auto depths = second ? std::optional(wire::MpaEnhanced{.ird = 8, .ord = 8}) : std::nullopt;
    x_.open();
    const Bytes asked = announcement(0), answered = announcement(1);
    x_.send(0, startup(wire::MpaKey::req, flags, revision, depths, asked));
    x_.send(1, startup(wire::MpaKey::rep, flags, revision, depths, answered));
    untagged(0, wire::RdmapOpcode::send, announcement(0));
    for (std::uint64_t n = rng_.between(2, 14); n > 0; --n) {
      if (odd(4)) atomic(static_cast<unsigned>(odd_rng_.below(2)));
      message(static_cast<unsigned>(rng_.below(2)));
    }
    if (rng_.below(4) == 0) x_.rst(static_cast<unsigned>(rng_.below(2)));
    x_.close();
    return std::move(x_);
  }

 private:
  std::uint32_t stag(unsigned of, std::uint64_t n) const {
    return 0x1000 * (of + 1) + static_cast<std::uint32_t>(n) * 0x10 + shift_;
  }
  std::uint64_t place(unsigned of, std::uint64_t n) const {
    return (std::uint64_t{0x7F01} << 24) + 0x100000 * (of + 1) + 0x1000 * n + std::uint64_t{shift_} * 0x10000;
  }

  /// Names of memory of one end, at any place and in any form that is known.
  Bytes announcement(unsigned of) {
    const std::uint64_t n = rng_.below(2);
    const std::size_t before = rng_.below(3) == 0 ? rng_.below(20) : 0;
    const std::uint64_t form = rng_.below(6);
    Bytes out(before, 0xFF);
    const auto put = [&out](std::uint64_t value, std::size_t size, bool little) {
      for (std::size_t i = 0; i < size; ++i)
        out.push_back(static_cast<std::uint8_t>(value >> (8 * (little ? i : size - 1 - i))));
    };
    if (form == 0) {  // rping's
      out.clear();
      put(place(of, n), 8, false);
      put(stag(of, n), 4, false);
      put(rng_.below(4) == 0 ? (16 << 20) + rng_.below(2) : 64, 4, false);
      return out;
    }
    const bool little = form == 1 || form == 2, to_first = form == 1 || form == 3;
    if (to_first) put(place(of, n), 8, little);
    put(stag(of, n), 4, little);
    if (form == 4) put(0, 4, little);
    if (!to_first && form != 5) put(place(of, n), 8, little);
    out.resize(out.size() + rng_.below(9), 0xEE);
    return out;
  }

  bool odd(std::uint64_t one_in) { return odd_ && odd_rng_.below(one_in) == 0; }
  /// Shorter, longer, or empty.
  Bytes resized(Bytes payload) {
    if (odd(9)) payload.resize(odd_rng_.below(payload.size() + 60), 0x66);
    return payload;
  }
  void atomic(unsigned from) {
    wire::DdpHeader h;
    h.opcode = wire::RdmapOpcode::atomic_request;
    h.qn = 1;
    h.msn = ++msn_[from][1];
    Bytes ask(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
    const auto id = static_cast<std::uint32_t>(odd_rng_.below(4));
    const unsigned other = 1 - from;
    wire::AtomicRequest{.aop = PARLEY_RDMAP_ATOMIC_FETCH_ADD,
                        .request_id = id,
                        .stag = stag(other, odd_rng_.below(2)),
                        .to = place(other, odd_rng_.below(2)),
                        .add_swap = odd_rng_.below(100),
                        .compare_mask = ~0ULL}
        .emit(ask);
    x_.send(from, fpdu(segment(h, resized(std::move(ask)))));
    if (odd(6)) return;
    h.opcode = wire::RdmapOpcode::atomic_response;
    h.qn = 3;
    h.msn = ++answers_[other];
    Bytes answer(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
    wire::AtomicResponse{id + (odd(8) ? 1 : 0), odd_rng_.below(1000)}.emit(answer);
    x_.send(other, fpdu(segment(h, resized(std::move(answer)))));
  }

  void ddp(unsigned from, wire::DdpHeader h, const Bytes& given) {
    const Bytes payload = resized(given);
    if (odd(25)) h.opcode = static_cast<wire::RdmapOpcode>(odd_rng_.below(12));
    if (odd(25)) h.msn += static_cast<std::uint32_t>(odd_rng_.below(3));
    if (odd(25)) h.stag ^= 0x10;
    const std::size_t piece = rng_.below(3) == 0 ? 1 + rng_.below(40) : 1400;
    for (std::size_t at = 0; at == 0 || at < payload.size(); at += piece) {
      const std::size_t size = std::min(piece, payload.size() - at);
      h.last = at + size == payload.size();
      x_.send(from, fpdu(segment(h, ConstBytes(payload).subspan(at, size))), rng_.below(8) == 0 ? 11 : 1460);
      if (h.tagged)
        h.to += size;
      else
        h.mo += static_cast<std::uint32_t>(size);
    }
    if (rng_.below(5) == 0) x_.wait(Duration(static_cast<std::int64_t>(rng_.below(900'000'000))));
  }
  void untagged(unsigned from, wire::RdmapOpcode opcode, const Bytes& payload, std::uint32_t queue = 0) {
    wire::DdpHeader h;
    h.opcode = opcode;
    h.qn = queue;
    h.msn = ++msn_[from][queue];
    if (opcode == wire::RdmapOpcode::send_inv) h.stag = stag(1 - from, rng_.below(3));
    ddp(from, h, payload);
  }
  void write(unsigned from, wire::RdmapOpcode opcode, std::uint32_t to_stag, std::uint64_t to, std::size_t size) {
    wire::DdpHeader h;
    h.tagged = true;
    h.opcode = opcode;
    h.stag = to_stag;
    h.to = to;
    ddp(from, h, Bytes(size, static_cast<std::uint8_t>(size)));
  }
  void message(unsigned from) {
    const unsigned other = 1 - from;
    const std::uint64_t n = rng_.below(2);
    switch (rng_.below(7)) {
      case 0: return untagged(from, wire::RdmapOpcode::send, announcement(from));
      case 1: return untagged(from, wire::RdmapOpcode::send_se, Bytes(rng_.below(100), 0x33));
      case 2: return untagged(from, wire::RdmapOpcode::send_inv, Bytes(rng_.below(9), 0x44));
      case 3:
      case 4: {
        const std::uint64_t at = place(other, n) + rng_.below(64);
        return write(from, wire::RdmapOpcode::rdma_write, stag(other, n), at, rng_.below(200));
      }
      default: {
        const auto size = static_cast<std::uint32_t>(rng_.below(300));
        const std::uint32_t sink = stag(from, 7) + static_cast<std::uint32_t>(rng_.below(2));
        const std::uint64_t to = place(from, 7);
        Bytes ask = read_request(++msn_[from][1], {sink, to, size, stag(other, n), place(other, n)});
        if (odd(8)) ask.resize(ask.size() - odd_rng_.below(30));
        x_.send(from, fpdu(ask));
        if (odd(8)) return;
        if (rng_.below(3) == 0) untagged(other, wire::RdmapOpcode::send, Bytes(5, 0x55));
        return write(other, wire::RdmapOpcode::read_response, sink, to, size);
      }
    }
  }

  Rng rng_, odd_rng_;
  bool odd_;
  std::uint32_t shift_;
  Exchange x_;
  std::uint32_t msn_[2][3] = {}, answers_[2] = {};
};

/// The recording itself, item by item, with what is known to be missing.
std::string recording_line(const Recording& r, Legend& legend) {
  std::string out = fmt::format("connection {} of {}{}", r.connection, r.connections, r.closed ? ", closed" : "");
  for (const std::string& note : r.notes) out += fmt::format(" note [{}]", legend.letter_of_form(note));
  for (const std::string& what : r.lacks) out += fmt::format(" lacks [{}]", legend.letter_of_form(what));
  for (const SideRecord& side : r.sides) {
    out += fmt::format("\n  {}:{}{}{} startup {}, steps {};", side.address.to_string(), side.seen ? " seen" : "",
                       side.from_syn ? " from its SYN" : "", side.whole ? " whole" : "", side.startup_length,
                       side.steps.size());
    for (const Item& i : side.items) {
      out += fmt::format(" {}-{} to {} steps {}-{} {}", i.first.frame, i.last.frame, i.end, i.first_step, i.last_step,
                         describe(i));
      for (const auto& [begin, end] : i.unknown) out += fmt::format(" lacks {}..{}", begin, end);
      out += fmt::format(" {} known, lost {};", i.octets_known, i.lost);
    }
  }
  return out;
}

/// The same of many recordings: items by their form and flags, with frames, places, steps and octets.
void add_recording(Tally& tally, const Recording& r) {
  const auto n = [](auto of) { return static_cast<std::int64_t>(of); };
  tally.add(r.closed ? "recordings, closed" : "recordings", {n(r.connection), n(r.connections)});
  for (const std::string& note : r.notes) tally.add("recording: " + without_numbers(note));
  for (const std::string& what : r.lacks) tally.add("lacks " + without_numbers(what));
  for (const SideRecord& side : r.sides) {
    tally.add(fmt::format("sides{}{}{}", side.seen ? " seen" : "", side.from_syn ? " from their SYN" : "",
                          side.whole ? " whole" : ""),
              {n(side.startup_length), n(side.steps.size())});
    for (const Item& i : side.items) {
      std::string flags;
      for (const auto& [flag, word] :
           {std::pair(!i.whole, "not whole"), std::pair(i.cut, "cut"), std::pair(i.headless, "headless"),
            std::pair(i.after_gap, "after a gap"), std::pair(i.marker_fault, "marker"), std::pair(i.pad_fault, "pad")})
        if (flag) flags += fmt::format(" {}", word);
      tally.add("item" + flags, {n(i.first.frame), n(i.last.frame), n(i.end), n(i.first_step), n(i.last_step),
                                 n(i.octets_known), n(i.lost), n(i.octets.size()), n(i.payload.size())});
      tally.add("item: " + without_numbers(describe(i)));
      for (const auto& [begin, end] : i.unknown) tally.add("item lacks", {n(begin), n(end)});
    }
  }
}

/// What is told of both sides of the recording, each against the other side of the whole one.
std::string told_of(const Frames& frames, const Recording& full, const PlayOptions& options, Legend& legend,
                    Tally& tally) {
  const auto r = read_recording(file_of(frames), 0);
  if (!r) {
    tally.add(without_numbers(r.error()));
    return fmt::format("[{}]\n", legend.letter_of_form(r.error()));
  }
  std::string out = recording_line(*r, legend);
  add_recording(tally, *r);
  for (const Side side : {Side::initiator, Side::responder}) {
    out += fmt::format("\n  {}:", capture::to_string(side));
    if (const std::string why = why_not_playable(*r, side); !why.empty()) {
      out += fmt::format(" [{}]", legend.letter_of_form(why));
      tally.add(without_numbers(why));
      continue;
    }
    const bool first = side == Side::initiator;
    Player a(first ? *r : full, Side::initiator, options), b(first ? full : *r, Side::responder, options);
    Duel duel(a, b);
    if (!duel.run()) out += " it never ended;", tally.add("it never ended");
    for (const Player* p : {&a, &b}) {
      out += " " + in_short(p->result(), legend) + ";";
      add_result(tally, p->result());
    }
    std::int64_t sums[2] = {};  // of what is said: names of memory are other ones than recorded
    for (const int who : {0, 1})
      for (const std::uint8_t octet : duel.said[who]) sums[who] += octet;
    const auto until = duel.now().time_since_epoch() / 1us;
    out += fmt::format(" said {} and {} until {} us", duel.said[0].size(), duel.said[1].size(), until);
    tally.add("said", {static_cast<std::int64_t>(duel.said[0].size()), static_cast<std::int64_t>(duel.said[1].size()),
                       sums[0], sums[1], until});
  }
  return out + "\n";
}

PlayOptions drawn_options(Rng& rng) {
  PlayOptions o;
  o.keep_going = rng.below(4) != 0;
  o.says_recorded_only = rng.below(3) == 0;
  o.speed_of = static_cast<std::uint32_t>(rng.below(3));
  o.speed_in = static_cast<std::uint32_t>(rng.between(1, 2));
  o.patience = Duration(static_cast<std::int64_t>(rng.between(1'000'000, 5'000'000'000)));
  o.linger = Duration(static_cast<std::int64_t>(rng.below(200'000'000)));
  if (rng.below(3) == 0) o.ignored = Ignored(rng.next());
  return o;
}

TEST(ReplayDrawn, ConversationsArePlayedToPeersThatNameTheirMemoryOtherwiseAsReviewed) {
  std::string out =
      "# Drawn conversations, against the same with other names of memory: the first ones, and what 500 come to.\n";
  Legend legend;
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const Exchange x = DrawnTalk(seed, 0).draw(), other = DrawnTalk(seed, 0x50000).draw();
    const auto live = read_recording(file_of(other.frames), 0);
    if (!live) {
      ADD_FAILURE() << seed << ": " << live.error();
      continue;
    }
    Rng rng(seed);
    const Frames frames = seed % 3 == 0 ? drawn_frames(x.frames, rng) : x.frames;
    const std::string text = told_of(frames, *live, seed % 2 == 0 ? going_on() : drawn_options(rng), legend, tally);
    if (seed <= 12) out += fmt::format("seed {}: {}", seed, text);
    if (seed == 12) out += std::exchange(legend, {}).text();
  }
  expect_as_reviewed("replay_talks.txt", out + tally.text());
}

// Of either side: what the recording has, and what the live side says.
TEST(ReplayDrawn, ConversationsArePlayedToPeersThatSaySomethingElseAsReviewed) {
  std::string out =
      "# Drawn conversations, against others with some messages otherwise: the first ones, and what 400 come to.\n";
  Legend legend;
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const Exchange x = DrawnTalk(seed, 0, seed % 2 == 0 ? 0 : seed).draw();
    const Exchange other = DrawnTalk(seed, 0x50000, seed % 4 == 1 ? 0 : seed + (seed % 8 < 4 ? 1000 : 0)).draw();
    const auto live = read_recording(file_of(other.frames), 0);
    std::string text;
    Rng rng(seed);
    if (live)
      text = told_of(x.frames, *live, seed % 3 == 0 ? going_on() : drawn_options(rng), legend, tally);
    else
      text = live.error() + "\n", tally.add(without_numbers(live.error()));
    if (seed <= 8) out += fmt::format("seed {}: {}", seed, text);
    if (seed == 8) out += std::exchange(legend, {}).text();
  }
  expect_as_reviewed("replay_talks_otherwise.txt", out + tally.text());
}

TEST(ReplayDrawn, FaultyRecordingsArePlayedAsReviewed) {
  std::string out = "# Drawn faults of recordings: the first ones of each kind, and what 120 of each come to.\n";
  Tally tally;
  for (const auto& [name, x] :
       {std::pair("a medley", medley()), std::pair("many answers", many_answers()),
        std::pair("cut by TCP", cut_by_tcp()), std::pair("Atomics", atomics(0x1111, 0x10000, 1, 100)),
        std::pair("a conversation", capture::test::conversation())}) {
    const Recording full = record(x);
    Legend legend;
    for (std::uint64_t seed = 1; seed <= 120; ++seed) {
      Rng rng(seed);
      const Frames frames = drawn_frames(x.frames, rng);
      const std::string text = told_of(frames, full, drawn_options(rng), legend, tally);
      if (seed <= 4) out += fmt::format("{}, seed {}: {}", name, seed, text);
      if (seed == 4) out += std::exchange(legend, {}).text();
    }
  }
  expect_as_reviewed("replay_drawn.txt", out + tally.text());
}

}  // namespace
}  // namespace parley::replay::test
