// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who uses which TGT queue pair, and when one ends: with its last registrant, or a bounded time after its peer went away.
// A machine in the sense of base/machine.hpp, and a value: a copy goes its own way. docs/xrc.md has its rules; R1 to R11
// and E1 to E7 are named there and beside the code that keeps them.
#pragma once
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "parley/xrc.hpp"
#include "xrc/store.hpp"

namespace parley::xrc {

struct RegistryOptions {
  std::uint32_t epoch = 1;  ///< of this registry; a later one for the same processes has a higher one
  Duration linger{};        ///< R7: how long one that received is kept without registrants; 0: not at all
  Duration grace = std::chrono::seconds(10);        ///< R8: how long one drains at most; 0: until the last unregisters
  Duration error_grace = std::chrono::seconds(60);  ///< then one that failed drains; 0: it may stay
  Duration quarantine = std::chrono::seconds(60);   ///< how long an ended one's number rests
  Duration recovery{};       ///< from the first call on: how long members of an earlier epoch may declare what they had
  bool join_failed = false;  ///< E2: members may register with one that failed, and are told so first
  bool assigns_numbers = true;  ///< false: creators bring the number that their device chose
  std::uint32_t qpn_first = 0x800000, qpn_last = 0xFFFFFE;  ///< that it assigns, in turn
  std::uint32_t qpn_next = 0;                               ///< where it begins; 0: at the first

  // Bounds. What is beyond is refused with no_memory or too_many_members.
  std::uint32_t domains_max = 4096, members_max = 8192, members_per_domain = 1024;
  std::uint32_t tgts_max = 65536, registrations_max = 1U << 20, srqs_max = 65536;
  std::uint32_t resting_max = 65536;  ///< numbers at rest that are remembered; the oldest is forgotten first
  std::uint32_t events_max = 256;     ///< of a member that it has not taken; what is beyond is lost, and it is told so

  /// Of each bound on what all users have: how much one user may have, in percent; 0 is no limit. The last eighth of each
  /// bound is for root and `admin_uid` alone, who have no limit of their own.
  std::uint32_t user_share = 0;
  std::uint32_t admin_uid = 0;
};

/// Whether a user may have one more of something of which `own` are its own and `all` belong to users with a limit.
bool is_within_share(const RegistryOptions& options, std::uint32_t max, std::size_t own, std::size_t all);
inline bool has_share(const RegistryOptions& options, std::uint32_t uid) {
  return options.user_share != 0 && uid != 0 && uid != options.admin_uid;
}

/// A membership: one attachment of one process to one domain. The number is never used again within an epoch.
struct MemberId {
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const MemberId&, const MemberId&) = default;
};

struct OpenParameters {
  std::optional<DomainKey> key{};  ///< none: a private domain, which nobody else can open
  std::uint64_t device = 0;        ///< of a private one; otherwise the key has it
  bool create = true;              ///< a domain that nobody has open is made
  bool exclusive = false;          ///< one that somebody has open is refused
  bool carrier = false;            ///< R11: the domain's queue pairs are in this process, and end with it
  Process process{};
};

struct CreateParameters {
  std::optional<Peer> peer{};  ///< the one that is there for this peer is registered with instead
  std::uint32_t qpn = 0;       ///< chosen by the device, where the registry does not assign numbers
  bool reserve = false;        ///< it is published later: nobody else gets at it until then
};
struct Created {
  TgtId id{};
  State state = State::reset;
  bool existing = false;  ///< it was there already
};
struct Registered {
  TgtId id{};
  State state = State::reset;
  bool already = false;  ///< R2: nothing was added
};
/// What a member of an earlier epoch had, as it has proved.
struct Declared {
  TgtId id{};
  State state = State::reset;
  std::optional<Peer> peer{};
  AttributeDigests attributes{};
  EventKind why = EventKind::none;  ///< of error and drain: what the member was told
  std::uint32_t reason = 0;
  std::uint64_t events = 0;  ///< the sequence number of the last event that it got
};

inline tl::unexpected<Error> refused(Refusal refusal) { return tl::unexpected(Error(refusal)); }

/// What becomes of a packet that names a shared receive queue.
enum class Route : std::uint8_t { delivered, not_ready, no_such_srq, srq_of_other_domain };

/// S: where it is kept, xrc/store.hpp.
template <class S>
class BasicRegistry {
 public:
  /// Errors: Refusal::invalid.
  template <class Self = BasicRegistry>
  static Result<Self> create(Instant now, const RegistryOptions& options = {}) {
    if (!is_sensible(options)) return tl::unexpected(Error(Refusal::invalid));
    return Self(now, options);
  }
  /// Where it stays: in the root of an arena, within a transaction. `options` are sensible.
  static BasicRegistry& create_at(void* place, Instant now, const RegistryOptions& options) {
    return *new (place) BasicRegistry(now, options);
  }
  static bool is_sensible(const RegistryOptions& options);
  /// Octets from its beginning that may change.
  std::uint32_t changing_size() const {
    return static_cast<std::uint32_t>(reinterpret_cast<const char*>(&options_) - reinterpret_cast<const char*>(this));
  }

  // ---- members. Errors of all that take one: not_member, stale_epoch.

  /// Errors: unknown_domain, domain_exists, too_many_members, no_memory.
  Result<MemberId> open(Instant now, const OpenParameters& parameters);
  /// Errors: busy (it has registrations or queues; not if `force`).
  Result<void> close(Instant now, MemberId member, bool force);
  /// R5: its process has ended, by whatever cause.
  void dead(Instant now, MemberId member);

  // ---- TGT queue pairs. Errors of all that take one: not_found, gone, other_domain, busy (it may yet be declared).

  /// R1. Errors: busy (the peer's is reserved by another member, or may yet be declared; the number rests), invalid (qpn),
  /// no_memory.
  Result<Created> create(Instant now, MemberId member, const CreateParameters& parameters);
  /// Of one that was reserved. `qpn`: 0 keeps the assigned one. Errors: state, busy, invalid.
  Result<TgtId> publish(Instant now, MemberId member, TgtId id, std::uint32_t qpn = 0);
  /// Errors: state (it has failed), no_memory. Generation 0: whichever has the number now; wrong_type.
  Result<Registered> enlist(Instant now, MemberId member, TgtId id);
  /// R3, R4, E3. Returns how many events were thrown away with it. Errors: not_registered. Generation 0 as above.
  Result<std::uint32_t> unregister(Instant now, MemberId member, TgtId id);
  /// To init, rtr, rts, error, or reset. `digest` is of the attributes. True: it was there already, with the same. Errors:
  /// not_registered, state, conflict, busy (reset, and others are registered).
  Result<bool> modify(Instant now, MemberId member, TgtId id, State to, std::uint64_t digest);
  Result<TgtView> query(Instant now, MemberId member, TgtId id) const;
  /// The same without the registrants, whose list takes as long as there are many of them.
  Result<TgtView> glance(Instant now, MemberId member, TgtId id) const;

  // ---- what devices, connection managers and administrators say

  /// E1. In a state where it means nothing: ignored. Errors: state (creating, linger), not_found, gone, invalid.
  Result<void> report(Instant now, TgtId id, EventKind kind, std::uint32_t reason);
  /// The live one of a peer in a member's domain. Errors: not_found.
  Result<TgtId> find(MemberId member, const Peer& peer) const;
  /// E6: to every member of the device's domains, and with device_removed to their TGT queue pairs.
  void report_device(Instant now, std::uint64_t device, EventKind kind, std::uint32_t reason);

  // ---- shared receive queues, and numbers of other queue pairs. R10.

  Result<void> add_srq(MemberId member, std::uint32_t srqn);     ///< errors: conflict, no_memory, invalid
  Result<void> remove_srq(MemberId member, std::uint32_t srqn);  ///< errors: not_found
  Result<void> note_other(MemberId member, std::uint32_t qpn);   ///< errors: conflict, no_memory, invalid
  Result<Route> route(TgtId id, std::uint32_t srqn) const;

  // ---- a new registry for processes that live on

  /// Until `recovery` is over; then, and for what this registry made itself, it is enlist(). Whoever claimed the number since
  /// loses it. A member that missed events is told events_lost. Errors: gone, conflict, no_memory, invalid.
  Result<Registered> restore(Instant now, MemberId member, const Declared& declared);

  // ---- outputs

  /// E4, E7. Events of one TGT queue pair come in their order.
  std::optional<Event> poll_event(MemberId member);
  /// Members that have events, each once, since it was last said.
  std::optional<MemberId> poll_waiting();
  /// TGT queue pairs that ended: whoever has the device ends the real one.
  std::optional<TgtId> poll_ended();
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  bool is_member(MemberId member) const { return member.epoch == options_.epoch && members_.contains(member.number); }
  bool is_registered(MemberId member, TgtId id) const;
  std::uint64_t device_of(MemberId member) const;  ///< of its domain; 0 for no member
  std::vector<DomainView> domains(Instant now) const;
  /// Of all domains: who they are, and nothing else of them.
  std::vector<MemberView> members() const;
  const Counters& counters() const { return counters_; }
  std::size_t tgt_count() const { return tgts_.size(); }
  std::size_t resting_count() const { return resting_.size(); }
  std::size_t srq_count() const { return srqs_.size(); }
  std::size_t lingering_count() const { return lingering_; }
  /// The number that is assigned next, for the registry that may come after this one.
  std::uint32_t qpn_next() const { return qpn_next_; }
  const RegistryOptions& options() const { return options_; }

 private:
  template <class K, class V>
  using Map = typename S::template Map<K, V>;
  template <class K>
  using Set = typename S::template Set<K>;
  template <class K>
  using SortedSet = typename S::template SortedSet<K>;
  template <class T>
  using Deque = typename S::template Deque<T>;

  struct Tgt {
    TgtId id{};
    std::uint64_t domain = 0;
    State state = State::reset;
    State kept = State::reset;  // of linger: what it goes back to
    bool awaited = false;       // by a new registry: nobody is registered, and somebody may yet declare it
    AttributeDigests attributes{};
    std::optional<Peer> peer{};
    EventKind why = EventKind::none;
    std::uint32_t reason = 0;
    std::uint64_t events = 0, why_sequence = 0;
    std::uint64_t declared_events = 0;  // the last one that a member has declared
    std::uint32_t uid = 0;              // of its maker, whose share it counts against
    Set<std::uint64_t> registrants{};   // members; registrations_max in all
    Instant made{}, deadline = never;
  };
  struct Member {
    std::uint64_t domain = 0;
    typename S::ProcessRecord process{};
    Set<std::uint64_t> registrations{};  // generations
    Set<std::uint32_t> srqs{}, others{};
    Deque<Event> events{};  // events_max
    bool lost = false, announced = false, carrier = false;
  };
  struct Domain {
    std::optional<DomainKey> key{};
    std::uint64_t device = 0;
    std::uint32_t uid = 0;                 // of its maker
    Set<std::uint64_t> members{}, tgts{};  // numbers, generations
    Map<Peer, std::uint64_t> peers{};      // of those that may be registered with
  };
  struct Resting {
    TgtId id{};
    std::uint64_t domain = 0;
    Instant until{};
  };
  using Found = Result<std::uint64_t>;  // a generation
  /// What counts against a user's share.
  struct Use {
    std::uint32_t domains = 0, tgts = 0, registrations = 0, srqs = 0, others = 0;
    bool operator==(const Use&) const = default;
  };
  using Count = std::uint32_t Use::*;

  BasicRegistry(Instant now, const RegistryOptions& options);

  /// In ascending order, and not to be changed by what is done about them.
  template <class Numbers>
  static std::vector<std::uint64_t> listed(const Numbers& numbers) {
    std::vector<std::uint64_t> out(numbers.begin(), numbers.end());
    std::sort(out.begin(), out.end());
    return out;
  }

  Result<void> check(MemberId member) const;
  Found locate(Instant now, std::uint64_t domain, TgtId id) const;
  Refusal why_not(Instant now, std::uint64_t domain, TgtId id) const;
  Result<std::uint64_t> domain_for(Instant now, const OpenParameters& parameters);
  void leave(Instant now, std::uint64_t number, bool died);
  Result<std::uint32_t> take_number(std::uint32_t wanted);
  Result<void> usable(std::uint32_t qpn) const;
  Result<void> make_room(Instant now, std::uint32_t uid);
  Result<void> room_to_register(std::uint32_t uid) const;
  Tgt& make(Instant now, std::uint64_t member, TgtId id, State state);
  void name_peer(Tgt& tgt);
  Result<Registered> join(std::uint64_t number, Tgt& tgt);
  void leave_tgt(Instant now, std::uint64_t number, Tgt& tgt, bool died);
  void add_registrant(std::uint64_t number, Tgt& tgt);
  void go_back(Tgt& tgt);
  void set_deadline(Tgt& tgt, Instant at);
  void remove_device(Instant now, std::uint64_t domain, std::uint32_t reason);
  Result<void> step(Instant now, Tgt& tgt, EventKind kind, std::uint32_t reason);
  void merge(Instant now, std::uint64_t number, Tgt& tgt, const Declared& declared);
  void compare_events(std::uint64_t number, Tgt& tgt, std::uint64_t heard);
  Result<void> free_number(TgtId id);
  Result<void> note(Map<std::uint32_t, std::uint64_t>& table, MemberId member, std::uint32_t number, Count count,
                    Refusal refusal);
  std::uint32_t uid_of(std::uint64_t member) const { return std::as_const(members_).at(member).process.uid; }
  Result<void> share(std::uint32_t uid, Count count, std::size_t all, std::uint32_t max, Refusal refusal) const;
  std::uint32_t used(std::uint32_t uid, Count count) const;
  void count(std::uint32_t uid, Count count, int change);
  std::uint32_t purge(std::uint64_t number, std::uint64_t generation);
  void end(Instant now, Tgt& tgt);
  void take_out(Tgt& tgt);
  Instant grace_end(Instant now, State state) const;
  /// By a member that has not spoken yet.
  bool may_be_declared(Instant now, const Tgt& tgt) const {
    return recovering(now) && tgt.id.generation >> 32 < options_.epoch;
  }
  void enter(Instant now, Tgt& tgt, State state, EventKind kind, std::uint32_t reason);
  void tell(Tgt& tgt, EventKind kind, std::uint32_t reason);
  void give(std::uint64_t number, Event event);
  void lose_events(std::uint64_t number);
  void announce(std::uint64_t number, Member& member);
  void forget_peer(Tgt& tgt);
  TgtView outline(Instant now, const Tgt& tgt) const;
  bool recovering(Instant now) const { return now < recovery_until_; }

  Map<std::uint64_t, Domain> domains_;                      // domains_max
  Map<DomainKey, std::uint64_t> keys_;                      // of shared ones
  Map<std::uint64_t, Member> members_;                      // members_max
  Map<std::uint64_t, Tgt> tgts_;                            // by generation; tgts_max
  Map<std::uint32_t, std::uint64_t> numbers_;               // of tgts_: number to generation
  Map<std::uint32_t, Resting> resting_;                     // resting_max
  Deque<std::pair<Instant, std::uint32_t>> rests_;          // of resting_, in the order of their ends
  Map<std::uint32_t, std::uint64_t> srqs_, others_;         // number to member; srqs_max each
  Map<std::uint32_t, Use> users_;                           // by uid; those who have something
  SortedSet<std::pair<Instant, std::uint64_t>> deadlines_;  // of tgts_
  Deque<MemberId> waiting_;                                 // members_max
  Deque<TgtId> ended_;                                      // tgts_max: create() waits for whoever takes them
  Counters counters_;
  std::size_t lingering_ = 0, registrations_ = 0;
  std::uint64_t last_generation_, last_member_ = 0, last_domain_ = 0;
  std::uint32_t qpn_next_;
  RegistryOptions options_;  // last, as it stays what it is, with recovery_until_
  Instant recovery_until_;
};

using Registry = BasicRegistry<HeapStore>;

}  // namespace parley::xrc
