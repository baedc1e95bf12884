// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Replay. Any octets as one side's stream: the steps found do not depend on how it was cut. Any octets as a capture:
// each of its connections is played against itself, or against octets of a live peer that has its own ideas, and every
// play ends.
#include <array>
#include <vector>

#include "replay/player.hpp"
#include "replay/roce/roce_player.hpp"
#include "tests/fuzz/draw.hpp"

namespace parley::fuzz {
namespace {

using namespace std::chrono_literals;
using capture::Side;
using replay::Player;
using replay::Step;

/// What of a step may not depend on the cuts. Octets that are no frame come in pieces as TCP gave them.
struct Found {
  Step::Kind kind;
  Bytes octets;
  std::uint64_t end;
  bool bad_crc;
  bool operator==(const Found&) const = default;
};

std::vector<Found> steps_of(ConstBytes stream, bool crc, bool markers, Chunks* chunks) {
  replay::StepReader reader;
  const capture::SegmentRef ref{};
  std::vector<Found> out;
  bool agreed = false, first = true;
  const auto take = [&] {
    for (Step& step : reader.steps()) {
      if (step.kind == Step::Kind::raw && !out.empty() && out.back().kind == Step::Kind::raw) {
        out.back().octets.insert(out.back().octets.end(), step.octets.begin(), step.octets.end());
        out.back().end = step.end;
        continue;
      }
      out.push_back({step.kind, std::move(step.octets), step.end, step.bad_crc});
    }
    reader.steps().clear();
  };
  while (!stream.empty()) {
    const std::size_t n = chunks == nullptr ? stream.size() : std::min(stream.size(), chunks->next());
    reader.octets(stream.first(n), ref, first);
    first = false;
    stream = stream.subspan(n);
    if (reader.startup_done() && !agreed) {
      agreed = true;
      const auto known = [](bool value) { return value ? capture::Known::yes : capture::Known::no; };
      reader.agreed(known(crc), known(markers), true);
    }
    take();
  }
  reader.finish(ref, true);
  take();
  return out;
}

void read_steps(Draw& draw) {
  const bool crc = draw.bit(), markers = draw.bit();
  Chunks chunks(draw.u8());
  const ConstBytes stream = draw.rest();
  PARLEY_ASSERT(steps_of(stream, crc, markers, nullptr) == steps_of(stream, crc, markers, &chunks));
}

/// The live peer: another player, or drawn octets.
class Duel {
 public:
  Duel(Player& a, Player* b, ConstBytes live, Chunks chunks) : ends_{&a, b}, live_(live), chunks_(chunks) {}

  void run() {
    for (Player* p : ends_)
      if (p != nullptr) p->start(now_, 1460);
    for (std::size_t turns = 0; turns < turns_max; ++turns) {
      const bool there = carry(0), back = ends_[1] != nullptr ? carry(1) : speak();
      if (over()) return;
      if (there || back) continue;
      Instant next = never;
      for (const Player* p : ends_)
        if (p != nullptr) next = std::min(next, p->next_deadline());
      PARLEY_ASSERT(next != never);
      now_ = std::max(now_, next);
      for (Player* p : ends_)
        if (p != nullptr) p->handle_deadline(now_);
    }
    PARLEY_ASSERT(false && "the play does not end");
  }

 private:
  static constexpr std::size_t turns_max = 200'000;

  bool over() const { return ends_[0]->done() && (ends_[1] == nullptr || ends_[1]->done()); }

  bool carry(std::size_t from) {
    Player& p = *ends_[from];
    Player* const to = ends_[1 - from];
    const Bytes octets(p.output().begin(), p.output().end());
    if (!octets.empty()) {
      p.written(now_, octets.size());
      now_ += 10us;
      if (to != nullptr && !gone_[from]) to->handle_bytes(now_, octets);
    }
    const Player::Close close = p.take_close();
    const bool reset = close == Player::Close::reset;
    if (close == Player::Close::none || (gone_[from] && !reset)) return !octets.empty();
    gone_[from] = true;
    now_ += 10us;
    if (to != nullptr) to->handle_end(now_, reset ? StreamEnd::rst : StreamEnd::fin);
    return true;
  }

  bool speak() {
    if (gone_[1]) return false;
    now_ += 10us;
    if (live_.empty()) {
      gone_[1] = true;
      ends_[0]->handle_end(now_, StreamEnd::fin);
      return true;
    }
    const std::size_t n = std::min(live_.size(), chunks_.next());
    const Bytes octets(live_.begin(), live_.begin() + static_cast<std::ptrdiff_t>(n));
    live_ = live_.subspan(n);
    ends_[0]->handle_bytes(now_, octets);
    return true;
  }

  std::array<Player*, 2> ends_;
  std::array<bool, 2> gone_{};
  ConstBytes live_;
  Chunks chunks_;
  Instant now_{1s};
};

/// A RoCE connection, against octets of a peer that answers with its own packets, or with the recorded ones.
void play_roce(std::uint8_t flags, ConstBytes live, ConstBytes file, const replay::Contents& contents,
               std::size_t number) {
  const replay::RoceRecording recording = replay::read_roce_recording(file, contents, number);
  const Side side = (flags & 8) != 0 ? Side::responder : Side::initiator;
  if (!replay::why_not_playable(recording, side).empty()) return;
  replay::PlayOptions options;
  options.keep_going = (flags & 1) != 0;
  if ((flags & 4) != 0) options.speed_of = 0;
  const Address peer = *Address::parse("192.0.2.1:7471");
  replay::RocePlayer player(recording, side, options, {peer, 1});
  Instant now{1s};
  player.start(now);
  tester::PacketPeer& machine = player.machine();
  std::size_t next = 0;
  Bytes room(PacketMachine::packet_max + 4);
  for (std::size_t turns = 0; turns < 200'000 && !player.done(); ++turns) {
    for (PacketCommand command; machine.poll_command(command);) machine.handle_bound(now, command.id, peer);
    PacketPath path;
    while (machine.poll_packet(now, path, room) > 0) {
    }
    now += 10us;
    const PacketPath from{.local = peer, .peer = peer};
    while (next < recording.steps.size() && recording.steps[next].from == side) ++next;
    if ((flags & 16) != 0 && !live.empty()) {
      const std::size_t n = std::min<std::size_t>(live.size(), 64);
      machine.handle_packet(now, from, live.first(n));
      live = live.subspan(n);
    } else if (next < recording.steps.size()) {
      machine.handle_packet(now, from, recording.steps[next++].octets);
    } else {
      PARLEY_ASSERT(machine.next_deadline() != never || player.done());
      now = std::max(now, machine.next_deadline());
      machine.handle_deadline(now);
      // A responder waits for its peer for ever.
      if (!player.started()) return;
    }
  }
  PARLEY_ASSERT(player.done());
  PARLEY_ASSERT(player.result().log.size() <= replay::PlayResult::log_max);
}

void play(Draw& draw) {
  const std::uint8_t flags = draw.u8();
  const Chunks chunks(draw.u8());
  const ConstBytes live = draw.bytes(draw.u16() % 1024);
  const ConstBytes file = draw.rest();
  const replay::Contents contents = replay::list_connections(file);
  constexpr std::size_t connections_max = 4;
  const std::size_t all = contents.report.connections.size();
  for (std::size_t number = 1; number <= std::min(all, connections_max); ++number) {
    if (contents.report.connections[number - 1].ib != nullptr) {
      play_roce(flags, live, file, contents, number);
      continue;
    }
    const replay::Recording recording = replay::read_recording(file, contents, number);
    replay::PlayOptions options;
    options.keep_going = (flags & 1) != 0;
    options.says_recorded_only = (flags & 2) != 0;
    if ((flags & 4) != 0) options.speed_of = 0;
    const Side side = (flags & 8) != 0 ? Side::responder : Side::initiator;
    if (!replay::why_not_playable(recording, side).empty()) continue;
    Player one(recording, side, options), other(recording, capture::other(side), options);
    const bool alone = (flags & 16) != 0 || !replay::why_not_playable(recording, capture::other(side)).empty();
    Duel(one, alone ? nullptr : &other, live, chunks).run();
    PARLEY_ASSERT(one.result().log.size() <= replay::PlayResult::log_max);
  }
}

void run(ConstBytes in) {
  Draw draw(in);
  if (draw.bit()) return read_steps(draw);
  play(draw);
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
