// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Output of an ibcm::Agent: MADs to send with their destination, events, counters.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "cm/ibcm/end_note.hpp"
#include "cm/ibcm/options.hpp"
#include "parley/failure.hpp"
#include "wire/ib/cm.hpp"

namespace parley::cm::ibcm {

/// The origin of a MAD; `destination` is a GID of this side.
struct MadFrom {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< of `destination` in the port's table: identifies the link of a link-local `source`
  std::uint32_t source_qpn = PARLEY_IB_GSI_QPN;
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  bool operator==(const MadFrom&) const = default;
};

/// The destination of a MAD; `source` is a GID of this side.
struct MadTo {
  Gid source{}, destination{};
  std::uint8_t sgid_index = 0;  ///< as in MadFrom
  std::uint32_t destination_qpn = PARLEY_IB_GSI_QPN;
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint32_t flow_label = 0;  ///< 20 bits; RoCE derives the UDP source port from it
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  bool operator==(const MadTo&) const = default;
};

// X(name, text). IBA §12.9; tests/states/ibcm.txt has each with every input.
#define PARLEY_IBCM_STATES(X)                                                                     \
  X(queued, "a request of ours waits for its turn")                                               \
  X(req_sent, "REQ sent, REP awaited")                                                            \
  X(mra_req_rcvd, "the peer asked for time (MRA) before its REP")                                 \
  X(rep_rcvd, "REP received, the user's RTU awaited")                                             \
  X(mra_rep_sent, "this side asked for time (MRA) before its RTU")                                \
  X(req_rcvd, "REQ received, the user decides")                                                   \
  X(mra_req_sent, "this side asked for time (MRA) before its REP")                                \
  X(rep_sent, "REP sent, RTU awaited")                                                            \
  X(mra_rep_rcvd, "the peer asked for time (MRA) before its RTU")                                 \
  X(established, "established")                                                                   \
  X(dreq_sent, "DREQ sent, DREP awaited")                                                         \
  X(dreq_rcvd, "DREQ received, the user's DREP awaited")                                          \
  X(timewait, "ended; its queue pair and IDs are kept out of use for packets that are under way") \
  X(sidr_req_sent, "SIDR_REQ sent, SIDR_REP awaited")                                             \
  X(sidr_req_rcvd, "SIDR_REQ received, the user decides")                                         \
  X(closed, "over")

enum class State : std::uint8_t {
#define PARLEY_X(name, text) name,
  PARLEY_IBCM_STATES(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(State state);  ///< the enumerator's name
std::string_view text_of(State state);    ///< for people

/// State of the alternate path of an established connection (IBA §12.8).
enum class AlternateState : std::uint8_t { idle, lap_sent, mra_lap_rcvd, lap_rcvd, mra_lap_sent };
std::string_view to_string(AlternateState state);

// Events. `id` stays valid until destroy(id).

/// Passive: answer with accept() or reject(); send_mra() may come first.
struct RequestReceived {
  ConnectionId id = 0;
  QpType qp_type = QpType::rc;
  wire::ib::CmReq request;        ///< the whole message; a CMA header is still in the private data
  std::uint32_t ece_options = 0;  ///< attribute modifier of the MAD
  MadFrom from;
};
/// Active: move the queue pair to RTS, then call ready(); or reject().
struct ReplyReceived {
  ConnectionId id = 0;
  wire::ib::CmRep reply;
  std::uint32_t remote_qpn = 0;  ///< XRC: the TGT queue pair
  std::uint32_t ece_options = 0;
};
/// Passive: the RTU arrived, or communication_established() was called.
struct Ready {
  ConnectionId id = 0;
  bool by_data = false;                       ///< no RTU yet
  wire::ib::PrivateData<224> private_data{};  ///< of the RTU
};
/// The peer ended the set-up with a REJ.
struct Rejected {
  ConnectionId id = 0;
  wire::ib::CmRej reject;  ///< reason, about, info and private data as received
  bool timewait = false;   ///< TimewaitExit follows: keep the queue pair until then
  Failure why;
};
/// The set-up ended: no answer, evicted, or the peer's user disappeared.
struct Failed {
  ConnectionId id = 0;
  bool timewait = false;
  Failure why;
};
/// Established, and the peer requests the end: answer with disconnect().
struct DisconnectRequested {
  ConnectionId id = 0;
  std::optional<EndNote> end{};  ///< none: the peer's DREQ has no note
  wire::ib::PrivateData<220> private_data{};
};
/// Disconnected::why.received if a request of the peer shows that it has lost the connection (REJ 10).
inline constexpr std::string_view stale_words = "a request of the same peer with the same queue pair or ID";

/// An established connection has ended, for any reason; TimewaitExit follows.
struct Disconnected {
  ConnectionId id = 0;
  bool graceful = false;                      ///< DREQ and DREP
  Failure why;                                ///< code is zero when graceful
  std::optional<EndNote> end{};               ///< from a DREQ of the peer that crossed this side's
  wire::ib::PrivateData<224> private_data{};  ///< of the DREP, if one arrived
};
/// The queue pair may be reused.
struct TimewaitExit {
  ConnectionId id = 0;
  bool early = false;  ///< remembered_max was reached
};
/// The peer requested more time: an MRA, or a busy answer with a retry-after.
struct Waiting {
  ConnectionId id = 0;
  wire::ib::CmSubject about = wire::ib::CmSubject::req;
  bool busy = false;  ///< a retry-after: the REQ is retransmitted at `until`
  Instant until{};
  wire::ib::PrivateData<222> private_data{};  ///< of the MRA
};
/// Passive: answer_alternate().
struct AlternateRequested {
  ConnectionId id = 0;
  wire::ib::CmLap request;  ///< with the path from the peer's view
};
/// Active.
struct AlternateAnswered {
  ConnectionId id = 0;
  wire::ib::CmApr answer;  ///< as received; valid unless `why` has a code
  Failure why;             ///< no answer: the connection is unchanged
};
/// Answer with sidr_reply().
struct SidrRequested {
  ConnectionId id = 0;
  wire::ib::CmSidrReq request;
  MadFrom from;
};
struct SidrReplied {
  ConnectionId id = 0;
  wire::ib::CmSidrRep reply;  ///< any status
  Failure why;                ///< code is zero if the status is valid
};
/// There was no room for requests at a listener: one event for all since the last one was polled.
struct TurnedAway {
  std::uint64_t service_id = 0;
  std::uint64_t gave_way = 0;  ///< half-open set-ups ended to make room for newcomers
  std::uint64_t busy = 0;      ///< newcomers that were asked to retry later
  std::uint64_t dropped = 0;   ///< newcomers that got no answer
  Gid peer{};                  ///< of the last one
};
using Event =
    std::variant<RequestReceived, ReplyReceived, Ready, Rejected, Failed, DisconnectRequested, Disconnected,
                 TimewaitExit, Waiting, AlternateRequested, AlternateAnswered, SidrRequested, SidrReplied, TurnedAway>;

// X(name, text)
#define PARLEY_IBCM_COUNTERS(X)                                                    \
  X(received, "MADs received")                                                     \
  X(sent, "MADs sent")                                                             \
  X(resent, "messages sent again because nothing came")                            \
  X(answered_again, "answers repeated for duplicates")                             \
  X(malformed, "MADs that are too short or of another class or version")           \
  X(unknown, "messages for connections that are not known")                        \
  X(foreign, "messages for a connection from another GID than its peer's")         \
  X(unexpected, "messages that their connection's state does not expect")          \
  X(duplicates, "duplicates of messages that were handled before")                 \
  X(stale, "requests and replies with the queue pair or ID of another connection") \
  X(refused, "requests that were rejected without asking the user")                \
  X(busy, "requests that were asked to retry later")                               \
  X(dropped_requests, "requests for which there was no room and no answer")        \
  X(dropped_transmit, "MADs for which the transmit queue had no room")             \
  X(forgotten, "ended connections forgotten early for lack of room")
/// Counters of one type of message.
struct MessageCounts {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;    ///< includes retransmissions
  std::uint64_t resent = 0;  ///< retransmitted after a timeout, or in response to a duplicate
};
struct RejectCounts {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;  ///< includes retransmissions
};
struct Counters {
#define PARLEY_X(name, text) std::uint64_t name = 0;
  PARLEY_IBCM_COUNTERS(PARLEY_X)
#undef PARLEY_X
  struct ByType {
#define PARLEY_X(name, attribute, structure, fields, text) MessageCounts name;
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
    MessageCounts& of(wire::ib::CmMessageType type) {
      switch (type) {
#define PARLEY_X(name, attribute, structure, fields, text) \
  case wire::ib::CmMessageType::name: return name;
        PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
      }
      return req;  // not reached: there are no other messages
    }
  } messages{};
  /// REJs by the number of their reason (IBA §12.6.7.2); 0: unassigned reasons.
  std::array<RejectCounts, 36> rejects{};
  RejectCounts retry_after{};  ///< reason 28 with a retry-after (cm/ibcm/busy.hpp), not from a program
  RejectCounts& rejects_of(const wire::ib::CmRej& rej);
};

}  // namespace parley::cm::ibcm
