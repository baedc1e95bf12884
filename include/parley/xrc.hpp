// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC domains and their TGT queue pairs, which many processes share and whose last user ends them: names, states, events,
// errors. docs/xrc.md has the rules.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley::xrc {

// X(name, errno, text): why a call about a domain or a TGT queue pair was refused. Each value compares equal to its
// std::errc, which programs written for OFED's or upstream's verbs expect.
#define PARLEY_XRC_REFUSALS(X)                                                                                       \
  X(not_found, invalid_argument, "there has never been such a TGT queue pair")                                       \
  X(gone, invalid_argument, "the TGT queue pair has ended, or is about to")                                          \
  X(other_domain, invalid_argument, "the TGT queue pair belongs to another XRC domain")                              \
  X(not_registered, invalid_argument, "this member is not registered with the TGT queue pair")                       \
  X(wrong_type, invalid_argument, "the number belongs to a queue pair that is not an XRC TGT queue pair")            \
  X(state, invalid_argument, "the state of the TGT queue pair does not allow it")                                    \
  X(conflict, invalid_argument, "the TGT queue pair is in that state with other attributes")                         \
  X(busy, device_or_resource_busy, "it is in use, or being created: try again, or release it first")                 \
  X(not_member, invalid_argument, "the caller is not a member of the XRC domain; a forked child is none")            \
  X(stale_epoch, invalid_argument, "the membership is of an earlier epoch: open the XRC domain again")               \
  X(no_memory, not_enough_memory, "a bound of the registry is reached")                                              \
  X(unsupported, function_not_supported, "this is not supported here")                                               \
  X(unknown_domain, resource_unavailable_try_again, "no process has the XRC domain open, and it was not to be made") \
  X(domain_exists, invalid_argument, "the XRC domain is open already, and a new one was asked for")                  \
  X(bad_descriptor, bad_file_descriptor, "the descriptor is that of no file")                                        \
  X(not_permitted, permission_denied, "the file belongs to another user and is not shared")                          \
  X(too_many_members, not_enough_memory, "the XRC domain has as many members as it may have")                        \
  X(invalid, invalid_argument, "an argument is out of its documented range")                                         \
  X(bad_message, protocol_error, "the message is none of the broker's protocol")                                     \
  X(bad_version, protocol_not_supported, "the two sides have no version of the broker's protocol in common")         \
  X(wrong_process, no_such_process, "the process is not the one that it says: its process ID was used again")        \
  X(no_broker, connection_refused, "no broker answers, and none was started")                                        \
  X(timed_out, timed_out,                                                                                            \
    "there was no answer in time: from the broker, or from the holder of the shared registry's lock")                \
  X(no_segment, no_such_file_or_directory, "there is no shared registry, and the caller did not ask to create one")  \
  X(segment_full, no_space_on_device, "the file system has no room for a shared registry")                           \
  X(segment_owner, permission_denied, "the shared registry's file is not the user's own, or others may open it")     \
  X(segment_foreign, invalid_argument, "the file is not a shared registry, and is left as it is")                    \
  X(segment_version, protocol_not_supported, "the shared registry was made by another version of this library")      \
  X(segment_elsewhere, function_not_supported, "the shared registry is that of another PID namespace")               \
  X(share_of_connections, not_enough_memory, "users may have no more connections to the broker: --user-share")       \
  X(share_of_domains, not_enough_memory, "users may make no more XRC domains: the broker's --user-share")            \
  X(share_of_tgts, not_enough_memory, "users may make no more TGT queue pairs: the broker's --user-share")           \
  X(share_of_registrations, not_enough_memory, "users may have no more registrations: the broker's --user-share")    \
  X(share_of_srqs, not_enough_memory, "users may name no more receive queues: the broker's --user-share")            \
  X(share_of_queue_pairs, not_enough_memory, "users may name no more other queue pairs: the broker's --user-share")  \
  X(socket_foreign, file_exists, "the broker's socket does not belong to root or to this user")                      \
  X(lock_foreign, file_exists, "the broker's lock file is not this user's alone, or is something else")              \
  X(lock_unwritable, io_error, "the broker's lock file cannot be written: the file system is full or read-only")

enum class Refusal : std::uint8_t {
  none = 0,
#define PARLEY_X(name, number, text) name,
  PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
};

/// The category "parley-xrc": one stateless object per process.
const std::error_category& refusal_category() noexcept;
inline std::error_code make_error_code(Refusal r) noexcept { return {static_cast<int>(r), refusal_category()}; }
std::string_view to_string(Refusal refusal);  ///< "not_registered"

}  // namespace parley::xrc

template <>
struct std::is_error_code_enum<parley::xrc::Refusal> : std::true_type {};

namespace parley::xrc {

/// Identifies a TGT queue pair. Numbers are reused, generations are not.
struct TgtId {
  std::uint32_t qpn = 0;         ///< 24 bits
  std::uint64_t generation = 0;  ///< 0 is none
  friend auto operator<=>(const TgtId&, const TgtId&) = default;
};

/// "8388608@1795641000.1": number, epoch, and index in the epoch.
std::string to_string(const TgtId& id);
/// Parses that form; or a number alone, with generation 0.
std::optional<TgtId> parse_tgt(std::string_view text);

/// The INI queue pair at the other end.
struct Peer {
  std::uint64_t ca_guid = 0;
  std::uint32_t qpn = 0;  ///< 24 bits
  friend auto operator<=>(const Peer&, const Peer&) = default;
};

/// Identifies a shared domain for ibv_open_xrcd(): a device and an inode.
struct DomainKey {
  std::uint64_t device = 0;  ///< the NIC
  std::uint64_t st_dev = 0, st_ino = 0;
  friend auto operator<=>(const DomainKey&, const DomainKey&) = default;
};

struct Process {
  std::uint32_t pid = 0, uid = 0;
  std::uint64_t start = 0;  ///< start time in ticks of the system; distinguishes processes with the same pid
  std::string command{};
};

// X(name, text)
#define PARLEY_XRC_STATES(X)                                            \
  X(creating, "reserved by its creator, unknown to others")             \
  X(reset, "made")                                                      \
  X(init, "initialised")                                                \
  X(rtr, "receives")                                                    \
  X(rts, "receives; its acknowledgement timers are set")                \
  X(error, "failed: registrants are notified, and unregister")          \
  X(drain, "its peer is gone: no process may register")                 \
  X(linger, "no process is registered; it is kept for the linger time") \
  X(gone, "ended; its number rests until no packet is under way")

enum class State : std::uint8_t {
#define PARLEY_X(name, text) name,
  PARLEY_XRC_STATES(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(State state);  ///< "rtr"
std::string_view text_of(State state);

// X(name, text)
#define PARLEY_XRC_EVENTS(X)                                                   \
  X(established, "the first packet has come")                                  \
  X(fatal, "the queue pair has failed")                                        \
  X(request_error, "the peer sent a request that is not valid")                \
  X(access_error, "the peer asked for memory that it may not have")            \
  X(peer_gone, "the peer has disconnected or does not answer")                 \
  X(peer_reused, "the peer uses the number of its queue pair for another one") \
  X(device_removed, "the device is being removed")                             \
  X(killed, "an administrator ended it")                                       \
  X(unattended, "it had failed, and no registrant recovered it in time")       \
  X(device_failed, "the device has failed")                                    \
  X(ended, "it has ended while the member was away from its broker")           \
  X(events_lost, "the member's queue was full: ask for the state of what you use")

enum class EventKind : std::uint8_t {
  none = 0,
#define PARLEY_X(name, text) name,
  PARLEY_XRC_EVENTS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(EventKind kind);  ///< "peer_gone"
std::string_view text_of(EventKind kind);
/// The state to which an event moves a TGT queue pair: error, drain, or none.
std::optional<State> leads_to(EventKind kind);

struct Event {
  TgtId tgt{};  ///< none: an event of the device, or of the member's queue
  EventKind kind = EventKind::none;
  std::uint32_t reason = 0;    ///< from the reporter: a CM reject reason, a vendor's error
  std::uint64_t sequence = 0;  ///< number among the TGT queue pair's events, from 1
  std::uint32_t merged = 0;    ///< earlier events of this kind that were not taken and are merged into this one
  bool sticky = false;         ///< it happened before the member registered
  friend bool operator==(const Event&, const Event&) = default;
};

/// Digests of the attributes that a TGT queue pair got on its way to INIT, RTR and RTS; 0: none.
using AttributeDigests = std::array<std::uint64_t, 3>;

// ---- the registry's contents, for people and programs --------------------------------------------------------------

struct TgtView {
  TgtId id{};
  State state = State::reset;
  std::optional<Peer> peer{};
  EventKind why = EventKind::none;  ///< for error and drain
  std::uint32_t reason = 0;
  Duration age{};
  std::uint64_t events = 0;  ///< sequence number of the last event
  AttributeDigests attributes{};
  std::vector<std::uint64_t> registrants{};  ///< member numbers
};
struct MemberView {
  std::uint64_t number = 0;
  Process process{};
  std::uint32_t registrations = 0, srqs = 0, events_waiting = 0;
  bool events_lost = false;
};
struct DomainView {
  std::uint64_t number = 0;
  std::optional<DomainKey> key{};  ///< none: private
  std::vector<MemberView> members{};
  std::vector<TgtView> tgts{};
};

// X(name, text)
#define PARLEY_XRC_COUNTERS(X)                                                          \
  X(created, "TGT queue pairs made")                                                    \
  X(destroyed, "TGT queue pairs ended")                                                 \
  X(reaped, "of those, after a grace although somebody was registered")                 \
  X(rolled_back, "of those, because their creator died before it published them")       \
  X(lingered, "times that one was kept without registrants")                            \
  X(revived, "of those, registered with again")                                         \
  X(registered, "registrations")                                                        \
  X(stale_refused, "registrations refused: an earlier generation, or a number at rest") \
  X(restored, "registrations declared again to a new broker")                           \
  X(opened, "memberships begun")                                                        \
  X(died, "of those, ended by the death of their process")                              \
  X(events, "events given to members")                                                  \
  X(events_lost, "events that found a full queue")

struct Counters {
#define PARLEY_X(name, text) std::uint64_t name = 0;
  PARLEY_XRC_COUNTERS(PARLEY_X)
#undef PARLEY_X
};

}  // namespace parley::xrc
