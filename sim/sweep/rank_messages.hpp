// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the ranks of a sweep send to each other. Rank 0 leads: it has the scenario and the user's outputs. All ranks,
// rank 0 among them, do runs.
//
//   any rank to rank 0   Hello once, Results for each chunk, Alive now and then, Failure, Done last, as an answer
//   rank 0 to any rank   Work once, Assignment for each chunk, Alive now and then, Done last
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parley/bytes.hpp"
#include "sim/sweep/hand_out.hpp"

namespace parley::sim::ranks {

/// Octets of one message, at most; runs of one chunk; and threads of one rank. In place of results that would be longer
/// a rank sends a Failure.
inline constexpr std::size_t rank_message_max = 64 << 20;
inline constexpr std::uint32_t rank_chunk_max = 64;
inline constexpr std::uint32_t rank_jobs_max = 1024;

struct Hello {
  std::string build;       ///< must be rank 0's
  std::string host;        ///< name of the machine, for notes
  std::uint32_t jobs = 1;  ///< runs at once; 1 to rank_jobs_max
};
struct Work {
  Bytes sweep;
  std::uint64_t shard_number = 1, shard_count = 1;
};
struct Assignment {
  Chunk chunk;
};
struct Results {
  Chunk chunk;
  Duration took{};
  std::vector<Bytes> records;  ///< one for each run of the chunk
};
struct Alive {};
/// The rank cannot do its runs.
struct Failure {
  std::string text;
};
struct Done {
  bool together = true;  ///< every rank is there: they end MPI together
};

using RankMessage = std::variant<Hello, Work, Assignment, Results, Alive, Failure, Done>;

Bytes encode_message(const RankMessage& message);
/// Nothing if the octets are not exactly one message.
std::optional<RankMessage> decode_message(ConstBytes octets);

}  // namespace parley::sim::ranks
