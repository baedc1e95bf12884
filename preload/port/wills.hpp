// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A member's will: a file with one record for each of its connections, which the member writes and, once the member has
// ended without a good-bye, the keeper reads. With a record the keeper can disconnect the connection, as a kernel does for
// a process that was killed.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/gid.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley::preload::port {

/// A connection, from the member's view.
struct WillRecord {
  Gid local{}, remote{};
  std::uint32_t local_id = 0;  ///< communication IDs
  std::uint32_t remote_id = 0;
  std::uint32_t remote_qpn = 0;
  bool operator==(const WillRecord&) const = default;
};

inline constexpr std::size_t will_record_size = 64;    ///< octets in the file
inline constexpr std::size_t will_records_max = 4096;  ///< later connections replace the earliest ones

Bytes encode(const WillRecord& record);
/// All records of a file; zeros are free places, and anything malformed is skipped.
std::vector<WillRecord> decode_will(ConstBytes file);

/// Follows the messages of the CM that a member sends and receives, and says what to write into its will.
class WillBook {
 public:
  struct Write {
    std::size_t offset = 0;
    Bytes octets{};  ///< will_record_size
  };
  /// A MAD from `local` to `remote`, or the other way round.
  void sent(const Gid& local, const Gid& remote, ConstBytes mad) { follow(local, remote, mad, true); }
  void received(const Gid& local, const Gid& remote, ConstBytes mad) { follow(local, remote, mad, false); }
  std::optional<Write> poll_write();
  std::size_t size() const { return places_.size(); }

 private:
  void follow(const Gid& local, const Gid& remote, ConstBytes mad, bool outgoing);
  void add(const WillRecord& record);
  void erase(std::uint32_t local_id);

  std::map<std::pair<Gid, std::uint32_t>, std::uint32_t> requests_;  // QPN by a REQ's sender; at most requests_max
  std::deque<std::pair<Gid, std::uint32_t>> order_;                  // of requests_, the earliest first
  std::map<std::uint32_t, std::size_t> places_;                      // by local_id; at most will_records_max
  std::vector<std::uint32_t> used_;                                  // local_id by place; 0: free
  std::size_t next_ = 0;
  std::deque<Write> writes_;  // until the caller polls: two for each message
};

/// A MAD to QP1 of `remote`, from `local`.
struct Parting {
  std::uint64_t mourning = 0;
  Gid local{}, remote{};
  Bytes mad{};  ///< 256 octets
};

/// Disconnects the connections of ended members: sends a DREQ for each until a DREP arrives, at most `tries` times.
class Partings {
 public:
  static constexpr int tries = 5;
  static constexpr Duration first_wait = std::chrono::milliseconds(100);  ///< for a DREP; doubled each time

  /// `mourning` is a number of the caller's for the member.
  void begin(Instant now, std::uint64_t mourning, const std::vector<WillRecord>& will);
  /// A MAD that arrived for the member. The answer, if it needs one: a DREP for a DREQ.
  std::optional<Bytes> handle_mad(std::uint64_t mourning, ConstBytes mad);
  void handle_deadline(Instant now);
  Instant next_deadline() const;
  std::optional<Parting> poll_parting();
  /// A member of which no connection is left.
  std::optional<std::uint64_t> poll_done();

 private:
  struct Mourning {
    std::vector<WillRecord> left{};
    int tried = 0;
    Instant next{};
  };
  void send(std::uint64_t number, Mourning& mourning, Instant now);
  std::map<std::uint64_t, Mourning> all_;
  std::deque<Parting> partings_;
  std::deque<std::uint64_t> done_;
};

/// The answer of a port without a listener: REJ 8 to a REQ, status 1 to a SIDR_REQ, DREP to a DREQ. None: the message needs no answer.
std::optional<Bytes> answer_of_nobody(ConstBytes mad);

/// A packet of QP1 for that MAD, from the BTH to the ICRC, as sent from UDP port 4791.
Bytes gsi_packet(const Gid& local, const Gid& remote, ConstBytes mad);
/// The MAD in a packet to QP1 (from the BTH to the ICRC) with a correct ICRC. None: it is something else.
std::optional<Bytes> gsi_mad(const Gid& local, const Gid& remote, std::uint16_t source_port, ConstBytes packet);

}  // namespace parley::preload::port
