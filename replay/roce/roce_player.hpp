// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plays one side of a RoCE recording to a live peer, packet by packet, and compares what the peer sends with what the recorded one
// did. It goes through the recording in its order: a packet of the played side goes out when all that the recording has before it
// has been heard, and the recorded pause since has passed; one of the other side is waited for.
//
// Messages of the CM, requests and responses are compared in order, each among its own kind. An ACK counts for all PSNs before it, so
// that it is met by any later one. Packets that the recording repeats for reasons of its own (loss, a peer that was slow) are
// neither played nor waited for; what the live connection loses is sent again as IBA §9.7.5 and §12.9 have it.
#pragma once
#include <deque>
#include <map>

#include "replay/player.hpp"
#include "replay/roce/roce_map.hpp"
#include "tester/packet_peer.hpp"

namespace parley::replay {

struct RoceTarget {
  Address where;           ///< initiator: the peer, and the port of the service; responder: the address to listen on
  std::uint64_t seed = 1;  ///< of the numbers that are drawn
};

class RocePlayer {
 public:
  static constexpr std::size_t heard_max = 4096;    ///< waiting, of each kind; more are dropped, as by a network
  static constexpr std::size_t unacked_max = 4096;  ///< kept to be sent again
  static constexpr unsigned again_max = 7;          ///< times in a row

  /// `recording` outlives the player.
  RocePlayer(const RoceRecording& recording, capture::Side side, const PlayOptions& options, const RoceTarget& target);

  /// What drives it: base/packet_port.hpp.
  tester::PacketPeer& machine() { return peer_; }
  void start(Instant now);
  /// The live side cannot be reached, or a signal came.
  void fail(const std::string& why);

  /// Memory of the live side that it does not announce on the wire but that the caller knows.
  void know_r_key(std::uint32_t recorded, std::uint32_t live) { map_.know_r_key(recorded, live); }
  void know_va(std::uint32_t r_key, std::uint64_t recorded, std::uint64_t live) { map_.know_va(r_key, recorded, live); }

  /// The address that it listens on, once known.
  const std::optional<Address>& local() const { return local_; }
  /// It has no address, so that nothing was played.
  const std::string& failed() const { return failed_; }
  bool started() const { return started_; }  ///< responder: a REQ came
  bool done() const { return done_; }
  const PlayResult& result() const { return result_; }

 private:
  enum class Lane : std::uint8_t { cm, requests, responses };
  struct Sent {
    std::uint32_t psn = 0;
    Bytes octets;
  };
  struct Heard {
    Bytes mad;
    unsigned answered_again = 0;
  };
  static Lane lane_of(const RoceStep& step);

  tester::Task<> script();
  tester::Task<bool> address();
  tester::Task<> play(std::size_t index);
  tester::Task<> expect(std::size_t index);
  tester::Task<bool> wait_for(const RoceStep& step, Duration patience);
  tester::Task<> linger();
  bool met(const RoceStep& step) const;
  Duration scaled(Duration d) const;

  void drain();
  void keep(RoceStep live);
  void take_message(RoceStep live);
  void take_response(RoceStep live);
  bool take_request(const RoceStep& live);
  bool is_first_ask(const RoceStep& live, const Address& from, const Address& to);
  bool is_next(wire::ib::CmMessageType type) const;
  bool expects_nak() const;
  void put(ConstBytes octets);
  void send(std::size_t index);
  void send_again(std::uint32_t psn);
  void nudge();
  void acknowledged(std::uint32_t psn);
  void compare_with(std::size_t index, const RoceStep& live);
  void differ(Mismatch mismatch, const RoceStep* recorded, const RoceStep* live, std::string missing = {});
  void log(bool played, std::uint64_t frame, std::string text);
  Evidence evidence(const RoceStep& step, Instant since) const;

  const RoceRecording& recording_;
  capture::Side side_;
  PlayOptions options_;
  RoceTarget target_;
  RoceMap map_;
  PlayResult result_;
  tester::PacketPeer peer_;
  std::optional<Address> local_, live_;  // ours, and whose packets count
  std::string failed_;
  bool started_ = false, done_ = false;
  Instant begun_{};
  Instant before_{}, paced_{};                 // when the packet before was recorded, and when it was dealt with
  std::size_t next_ = 0;                       // the one that is being dealt with
  std::array<std::deque<RoceStep>, 3> heard_;  // by lane, not compared yet
  std::map<wire::ib::CmMessageType, Heard> messages_;  // the newest of each type
  std::map<wire::ib::CmMessageType, Bytes> answers_;   // ours to a message of that type
  std::optional<Bytes> last_message_;                  // ours that wants an answer
  std::deque<Sent> unacked_;                           // requests of ours, in order
  std::optional<std::uint32_t> acked_;                 // PSN of ours up to which all are acknowledged
  std::optional<std::uint32_t> next_psn_;              // that the live side's requests are due with
  std::optional<Bytes> last_ack_;
  Instant resend_at_ = never;  // what the live side asked for again
  std::uint32_t resend_psn_ = 0;
  unsigned again_ = 0;
};

}  // namespace parley::replay
