// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a program's test over negotiated queue pairs, as its peer expects it: a number of messages of one size. It uses queue pairs
// only through neg::DataPath, and gets the time as an argument.
//
// kind      | the client                                   | the server
// ----------+----------------------------------------------+--------------------------------------------------------------
// ping-pong | sends, waits for the answer, and repeats     | waits for a message and sends it back
// stream    | sends, as many at once as its queue holds    | receives
// write     | writes, likewise                             | nothing: the client writes its memory
// read      | reads, likewise; read_lat: one at a time     | nothing: the client reads its memory
#pragma once
#include "cm/neg/variants/qp_set.hpp"

namespace parley::neg {

struct PlayOptions {
  std::string test = "pingpong";  ///< or one of perftest's, without ib_
  Role role = Role::initiator;
  Transport transport = Transport::rc;
  std::uint32_t size = 0;        ///< octets of a message; 0: the program's default
  std::uint64_t iterations = 0;  ///< messages in each direction; 0: the program's default
  bool check = false;            ///< ping-pong: verify the received octets
};

class Player {
 public:
  /// Replaces zeros in `options` by the program's defaults.
  explicit Player(PlayOptions options);
  /// Whether this class can run the test.
  static bool knows(std::string_view test);
  /// Octets of memory that each queue pair needs.
  std::size_t memory() const;
  /// The peer's access to the memory: "none", "write" or "read".
  std::string_view peer_access() const;
  /// The peer does all the work; this side only sees the end.
  bool peer_works() const;
  /// Posts receives, before the peer gets the queue pairs' attributes. Errors: configuration_error; those of the driver.
  Outcome<void> prepare(QpSet& set);
  /// None: the test is over. Errors: vendor_library_error (a request failed, or no more messages arrive), invalid_peer_data
  /// (octets other than those sent, or a wrong number of them).
  Outcome<std::optional<Work>> work(QpSet& set, Instant now);
  Played result() const;
  const PlayOptions& options() const { return options_; }

 private:
  enum class Kind : std::uint8_t { ping_pong, stream, write, read };
  struct Program;
  struct Line {  // of one queue pair
    bool sending = false, awaiting = false;
    std::size_t open = 0;  // incomplete requests of this side
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
  Outcome<void> on_completion(DataPath& path, Line& line, const WorkCompletion& done);
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
