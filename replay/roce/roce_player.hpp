// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plays one side of a RoCE recording to a live peer, packet by packet, and compares the peer's packets with the
// recorded ones. It follows the order of the recording. A packet of the played side is sent when all packets before it
// have been received and the recorded pause has passed. For a packet of the other side it waits.
//
// Messages of the CM, requests and responses are compared in order, each among its own kind. An ACK covers all PSNs
// before it, so that any later ACK matches it. Retransmissions in the recording (loss, a slow peer) are neither played
// nor waited for. The player retransmits packets that the live connection loses (IBA §9.7.5, §12.9).
#pragma once
#include <deque>
#include <map>

#include "replay/player.hpp"
#include "replay/roce/roce_map.hpp"
#include "tester/packet_peer.hpp"

namespace parley::replay {

struct RoceTarget {
  Address where;           ///< initiator: the peer, and the port of the service; responder: the address to listen on
  std::uint64_t seed = 1;  ///< of the random numbers
};

class RocePlayer {
 public:
  static constexpr std::size_t heard_max = 4096;    ///< waiting packets of each kind; more are dropped, as by a network
  static constexpr std::size_t unacked_max = 4096;  ///< packets kept for retransmission
  static constexpr unsigned again_max = 7;          ///< retransmissions in a row

  /// `recording` must outlive the player.
  RocePlayer(const RoceRecording& recording, capture::Side side, const PlayOptions& options, const RoceTarget& target);

  /// The machine that the caller drives (base/packet_port.hpp).
  tester::PacketPeer& machine() { return peer_; }
  void start(Instant now);
  /// The live side cannot be reached, or a signal came.
  void fail(const std::string& why);

  /// Memory of the live side that the caller knows although it is not announced on the wire.
  void set_live_r_key(std::uint32_t recorded, std::uint32_t live) { map_.set_live_r_key(recorded, live); }
  void set_live_va(std::uint32_t r_key, std::uint64_t recorded, std::uint64_t live) {
    map_.set_live_va(r_key, recorded, live);
  }

  /// The address on which it listens, once known.
  const std::optional<Address>& local() const { return local_; }
  /// Why the local address could not be bound, so that nothing was played; empty: it was bound.
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
  struct ReceivedMad {
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
  void on_cm_message(RoceStep live);
  void on_response(RoceStep live);
  bool on_request(const RoceStep& live);
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
  std::optional<Address> local_, live_;  // our address; the peer's: packets from others are ignored
  std::string failed_;
  bool started_ = false, done_ = false;
  Instant begun_{};
  Instant before_{}, paced_{};                 // when the previous packet was recorded, and when it was played or met
  std::size_t next_ = 0;                       // the current step
  std::array<std::deque<RoceStep>, 3> heard_;  // by lane, not compared yet
  std::map<wire::ib::CmMessageType, ReceivedMad> messages_;  // the newest of each type
  std::map<wire::ib::CmMessageType, Bytes> answers_;         // our answers to messages of that type
  std::optional<Bytes> last_message_;                        // our last message that needs an answer
  std::deque<Sent> unacked_;                                 // our unacknowledged requests, in order
  std::optional<std::uint32_t> acked_;                       // the highest of our PSNs that is acknowledged
  std::optional<std::uint32_t> next_psn_;                    // the expected PSN of the live side's next request
  std::optional<Bytes> last_ack_;
  Instant resend_at_ = never;  // when to retransmit from resend_psn_, after a NAK
  std::uint32_t resend_psn_ = 0;
  unsigned again_ = 0;
};

}  // namespace parley::replay
