// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plays a program's test over queue pairs that were negotiated, as its peer expects it: so many messages of one size. Knows
// queue pairs by neg::DataPath alone, and time by what it is told.
//
// kind      | the client                                   | the server
// ----------+----------------------------------------------+--------------------------------------------------------------
// ping-pong | sends, awaits the answer and its send, again | awaits a message, sends it back
// stream    | sends, as many at once as its queue holds    | receives
// write     | writes, likewise                             | nothing: its memory is written
// read      | reads, likewise; of read_lat one at a time   | nothing: its memory is read
#pragma once
#include "cm/neg/variants/qp_set.hpp"

namespace parley::neg {

struct PlayOptions {
  std::string test = "pingpong";  ///< or one of perftest's, without ib_
  Role role = Role::initiator;
  Transport transport = Transport::rc;
  std::uint32_t size = 0;        ///< octets of a message; 0: as the program has it
  std::uint64_t iterations = 0;  ///< messages each way; 0: as the program has it
  bool check = false;            ///< ping-pong: look at what comes
};

class Player {
 public:
  /// With what the program has where `options` has 0.
  explicit Player(PlayOptions options);
  /// A test that this can play.
  static bool knows(std::string_view test);
  /// Of the memory that each queue pair needs.
  std::size_t memory() const;
  /// What the peer has to do with the memory: "none", "write" or "read".
  std::string_view peer_access() const;
  /// The peer does all of it, and this side hears of it when it is over.
  bool peer_works() const;
  /// Posts receives, before the peer is told of the queue pairs. Errors: configuration_error; those of the driver.
  Outcome<void> prepare(QpSet& set);
  /// None: it is over. Errors: vendor_library_error (a request failed, nothing comes any more), invalid_peer_data (other
  /// octets than were sent, or not as many as are due).
  Outcome<std::optional<Work>> work(QpSet& set, Instant now);
  Played result() const;
  const PlayOptions& options() const { return options_; }

 private:
  enum class Kind : std::uint8_t { ping_pong, stream, write, read };
  struct Program;
  struct Line {  // of one queue pair
    bool sending = false, awaiting = false;
    std::size_t open = 0;  // requests of this side's that are not complete
  };
  static const Program* program_of(std::string_view test);
  bool sends() const;
  bool receives() const;
  bool lossy() const;
  bool done() const;
  bool is_pingpong() const { return options_.test == "pingpong"; }
  std::size_t grh() const { return options_.transport == Transport::ud ? grh_len : 0; }
  std::size_t area() const;
  void fit(std::uint32_t mtu);
  Outcome<void> post_receive(DataPath& path);
  Outcome<void> fill(QpSet& set);
  Outcome<void> send(DataPath& path, Line& line);
  Outcome<bool> poll(QpSet& set);
  Outcome<void> take(DataPath& path, Line& line, const WorkCompletion& done);
  Outcome<void> look_at(DataPath& path);
  tl::unexpected<Failure> stuck(Duration since) const;
  std::string so_far() const;

  PlayOptions options_;
  Kind kind_ = Kind::ping_pong;
  bool one_at_a_time_ = false, own_size_ = false;
  std::vector<Line> lines_;
  std::uint64_t posted_ = 0, sent_ = 0, received_ = 0;
  unsigned idle_ = 0;
  bool begun_ = false, moved_ever_ = false, lossy_end_ = false;
  Instant first_{}, last_{};
  std::optional<Instant> leave_at_;
};

}  // namespace parley::neg
