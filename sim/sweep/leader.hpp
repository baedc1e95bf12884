// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rank 0's side of a sweep over ranks: messages and the time in; messages, results in order and notes out.
//
// State   | input                      | next    | what happens
// --------|----------------------------|---------|-----------------------------------------------------
// awaited | Hello of the same build    | working | Work
//         | Hello of another build     |         | the whole sweep is refused
//         | silent for `silence`       | lost    | a note
// working | Results                    | working | its records in order; Assignments, two at a time for each job
//         | silent for `silence`       | lost    | a note; its chunks are handed out again
//         | Failure, a wrong message   |         | the whole sweep is refused
// lost    | any message                | working | a note; results that came meanwhile count once
// not cut | MPI lost a message         | cut     | a note; its chunks are handed out again
// cut     | any message                | cut     | nothing
//
// No chunk is handed out before every rank has said Hello or is lost, so that a rank of another version is found before
// the first run. Two chunks at a time: a thread of a rank has work while its results travel. Rank 0 itself is never lost.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parley/time.hpp"
#include "sim/sweep/rank_messages.hpp"

namespace parley::sim::ranks {

struct LeaderOptions {
  std::uint32_t ranks = 1;  ///< with rank 0
  std::uint64_t last = 0;   ///< the positions are 0 to last
  std::string build;
  Work work;
  Duration silence = std::chrono::seconds(30);
};

class Leader {
 public:
  Leader(LeaderOptions options, Instant now);

  struct Outgoing {
    std::uint32_t rank = 0;
    Bytes octets;
  };
  struct Record {
    std::uint64_t position = 0;
    Bytes octets;
  };

  void receive(std::uint32_t rank, ConstBytes octets, Instant now);
  /// Finds the ranks that are silent. Call it when the time of deadline() has come.
  void tick(Instant now);
  Instant deadline() const;
  /// Rank 0 itself stood still up to now, and received nothing: the silence of all ranks starts again.
  void stood_still(Instant now);
  /// MPI lost a message to or from a rank. Its chunks are handed out again, and it is not heard any more.
  void cut(std::uint32_t rank);

  std::optional<Outgoing> next_message();
  /// The records of all positions, in order.
  std::optional<Record> next_record();
  /// A line for the user about a rank.
  std::optional<std::string> next_note();
  /// Why the sweep cannot be done by these ranks, in one line; the sweep is to end.
  const std::optional<std::string>& refusal() const { return refusal_; }
  /// A rank is lost now.
  bool lost_any() const;

 private:
  enum class State : std::uint8_t { awaited, working, lost, cut };
  struct Rank {
    State state = State::awaited;
    std::string host;
    Instant heard{};
    std::uint32_t chunks = 0;  ///< handed out, results missing
    std::uint32_t jobs = 1;
  };
  std::string name_of(std::uint32_t rank) const;
  void send(std::uint32_t rank, const RankMessage& message) { out_.push_back({rank, encode_message(message)}); }
  void on(std::uint32_t rank, const Hello& hello);
  void on(std::uint32_t rank, Results results);
  void lose(std::uint32_t rank, State state, const std::string& why);
  static bool there(const Rank& rank) { return rank.state == State::awaited || rank.state == State::working; }
  /// Up to `wanted` chunks for each of its jobs. False if there is no chunk to hand out.
  bool assign_to(std::uint32_t rank, std::uint32_t wanted);
  void assign();

  LeaderOptions options_;
  HandOut hand_out_;
  std::vector<Rank> ranks_;
  std::uint32_t awaited_;
  std::uint32_t jobs_ = 0;  ///< of all ranks that said Hello
  std::uint32_t turn_ = 0;  ///< the rank that is asked first
  std::deque<Outgoing> out_;
  std::deque<std::string> notes_;
  std::map<std::uint64_t, std::vector<Bytes>> results_;  ///< by the chunk's first position; at most the window
  std::uint64_t taken_ = 0;                              ///< the next position of next_record
  std::size_t taken_in_chunk_ = 0;
  std::optional<std::string> refusal_;
  bool starved_ = false;  ///< a rank got fewer chunks than it may have
};

}  // namespace parley::sim::ranks
