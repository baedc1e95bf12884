// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tests of replay: recordings made in memory, and two players that face each other in virtual time.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "replay/player.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace parley::replay::test {

using namespace std::chrono_literals;
using capture::Side;
using capture::test::Exchange;
using capture::test::Frames;

inline Bytes file_of(const Frames& frames) {
  Bytes out;
  wire::PcapWriter writer(out, 1);
  for (const auto& f : frames) writer.packet(f.at, f.octets, f.original_length);
  return out;
}

inline Recording record(ConstBytes file, std::size_t connection = 0) {
  auto recording = read_recording(file, connection);
  EXPECT_TRUE(recording) << recording.error();
  return recording ? std::move(*recording) : Recording{};
}
inline Recording record(const Exchange& x) { return record(file_of(x.frames)); }

inline std::string words(const PlayResult& r) {
  std::string out;
  for (const LogLine& l : r.log)
    out += std::to_string(l.at.count() / 1000) + " us " + (l.played ? "played " : "live ") + std::to_string(l.frame) +
           ": " + l.text + "\n";
  for (const std::string& n : r.notes) out += "note: " + n + "\n";
  if (r.difference) out += "DIFFERENCE: " + r.difference->what + "\n";
  return out;
}

/// Two players on one connection; what one writes the other gets a little later.
class Duel {
 public:
  Duel(Player& a, Player& b) : ends_{&a, &b} {}

  /// Changes octets on their way, if the test wants: from is 0 or 1.
  std::function<void(unsigned from, Bytes&)> spoil;
  std::array<Bytes, 2> said;  ///< everything that each wrote

  /// Until both are done; false if that never happens.
  bool run() {
    for (Player* p : ends_) p->start(now_, 1460);
    for (int turns = 0; turns < 1'000'000; ++turns) {
      const bool there = carry(0);
      const bool back = carry(1);
      const bool moved = there || back;
      if (ends_[0]->done() && ends_[1]->done()) return true;
      if (moved) continue;
      const Instant next = std::min(ends_[0]->next_deadline(), ends_[1]->next_deadline());
      if (next == never) return false;
      now_ = std::max(now_, next);
      for (Player* p : ends_) p->handle_deadline(now_);
    }
    return false;
  }
  Instant now() const { return now_; }

 private:
  bool carry(unsigned from) {
    Player &p = *ends_[from], &to = *ends_[1 - from];
    Bytes octets(p.output().begin(), p.output().end());
    bool any = false;
    if (!octets.empty()) {
      any = true;
      said[from].insert(said[from].end(), octets.begin(), octets.end());
      p.written(now_, octets.size());
      if (spoil) spoil(from, octets);
      now_ += 10us;
      if (!gone_[from]) to.handle_bytes(now_, octets);
    }
    const Player::Close close = p.take_close();
    const bool reset = close == Player::Close::reset;
    if (close == Player::Close::none || (gone_[from] && !reset)) return any;
    gone_[from] = true;
    now_ += 10us;
    to.handle_end(now_, reset ? StreamEnd::rst : StreamEnd::fin);
    return true;
  }

  std::array<Player*, 2> ends_;
  std::array<bool, 2> gone_{};
  Instant now_{1s};
};

/// Each side of `a` and `b` against the other: the initiator of one, the responder of the other.
struct Outcome {
  PlayResult initiator, responder;
  bool over = false;
  std::string words() const {
    return "initiator:\n" + test::words(initiator) + "responder:\n" + test::words(responder);
  }
  bool same() const { return over && !initiator.difference && !responder.difference; }
};
inline Outcome play(const Recording& of_initiator, const Recording& of_responder, const PlayOptions& options = {},
                    const std::function<void(unsigned, Bytes&)>& spoil = {}) {
  Player a(of_initiator, Side::initiator, options), b(of_responder, Side::responder, options);
  Duel duel(a, b);
  duel.spoil = spoil;
  Outcome out;
  out.over = duel.run();
  out.initiator = a.result();
  out.responder = b.result();
  return out;
}

}  // namespace parley::replay::test
