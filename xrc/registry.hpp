// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which members use which TGT queue pair, and when one ends: with its last registrant, or a bounded time after its peer
// went away. A machine in the sense of base/machine.hpp, and a value: a copy is independent. docs/xrc.md has the rules,
// R1 to R11 and E1 to E7; comments in the code cite them.
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
  std::uint32_t epoch = 1;  ///< of this registry; a later registry for the same processes has a higher epoch
  Duration linger{};        ///< R7: how long a queue pair in RTR or RTS is kept without registrants; 0: not at all
  Duration grace = std::chrono::seconds(10);        ///< R8: maximum time in drain; 0: until the last one unregisters
  Duration error_grace = std::chrono::seconds(60);  ///< maximum time in error, then it drains; 0: unlimited
  Duration quarantine = std::chrono::seconds(60);   ///< how long the number of an ended queue pair is not reused
  Duration recovery{};          ///< after its creation: how long members of an earlier epoch may declare what they had
  bool join_failed = false;     ///< E2: members may register with a failed one; its failure is their first event
  bool assigns_numbers = true;  ///< false: creators pass the number that their device chose
  std::uint32_t qpn_first = 0x800000, qpn_last = 0xFFFFFE;  ///< numbers to assign, in ascending order and cyclically
  std::uint32_t qpn_next = 0;                               ///< the first to assign; 0: qpn_first

  // Bounds. Anything beyond is refused with no_memory or too_many_members.
  std::uint32_t domains_max = 4096, members_max = 8192, members_per_domain = 1024;
  std::uint32_t tgts_max = 65536, registrations_max = 1U << 20, srqs_max = 65536;
  std::uint32_t resting_max = 65536;  ///< numbers in quarantine; beyond it, the oldest one is released first
  std::uint32_t events_max = 256;     ///< untaken events of a member; further ones are lost, and it gets events_lost

  /// The share that one user may have of each bound for all users, in percent; 0: no limit. The last eighth of each
  /// bound is reserved for root and `admin_uid`, who have no share limit.
  std::uint32_t user_share = 0;
  std::uint32_t admin_uid = 0;
};

/// Whether a user may have one more of a resource. `own` is what the user has; `all` is what all users with a limit
/// have.
bool is_within_share(const RegistryOptions& options, std::uint32_t max, std::size_t own, std::size_t all);
inline bool has_share(const RegistryOptions& options, std::uint32_t uid) {
  return options.user_share != 0 && uid != 0 && uid != options.admin_uid;
}

/// A membership: one attachment of one process to one domain. Numbers are not reused within an epoch.
struct MemberId {
  std::uint32_t epoch = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const MemberId&, const MemberId&) = default;
};

struct OpenParameters {
  std::optional<DomainKey> key{};    ///< none: a private domain, which no other member can open
  std::uint64_t device = 0;          ///< of a private domain; otherwise the key has the device
  bool create = true;                ///< make the domain if no member has it open
  bool exclusive = false;            ///< refuse a domain that another member has open
  bool carrier = false;              ///< R11: the domain's queue pairs are in this process and end with it
  std::uint32_t carriers = 0;        ///< R11: the last carriers() that this member was informed of
  std::uint32_t carriers_epoch = 0;  ///< of the registry that reported `carriers`; its own: the connection broke
  Process process{};
};

struct CreateParameters {
  std::optional<Peer> peer{};  ///< if a queue pair for this peer exists, register with that one instead
  std::uint32_t qpn = 0;       ///< chosen by the device, if the registry does not assign numbers
  bool reserve = false;        ///< only reserve it: other members cannot use it before publish()
};
struct Created {
  TgtId id{};
  State state = State::reset;
  bool existing = false;  ///< it already existed
};
struct Registered {
  TgtId id{};
  State state = State::reset;
  bool already = false;  ///< R2: nothing was added
};
/// A registration of a member in an earlier epoch, which the member has proved.
struct DeclaredRegistration {
  TgtId id{};
  State state = State::reset;
  std::optional<Peer> peer{};
  AttributeDigests attributes{};
  EventKind why = EventKind::none;  ///< error and drain: the event that the member got
  std::uint32_t reason = 0;
  std::uint64_t events = 0;  ///< the sequence number of the last event that the member got
};

inline tl::unexpected<Error> refused(Refusal refusal) { return tl::unexpected(Error(refusal)); }

/// The result for a packet that names a shared receive queue.
enum class Route : std::uint8_t { delivered, not_ready, no_such_srq, srq_of_other_domain };

/// S: the kind of storage, HeapStore or ArenaStore (xrc/store.hpp).
template <class S>
class BasicRegistry {
 public:
  /// Errors: Refusal::invalid.
  template <class Self = BasicRegistry>
  static Result<Self> create(Instant now, const RegistryOptions& options = {}) {
    if (!is_sensible(options)) return tl::unexpected(Error(Refusal::invalid));
    return Self(now, options);
  }
  /// Constructs it at `place`, the root of an arena, within a transaction. `options` must be sensible.
  static BasicRegistry& create_at(void* place, Instant now, const RegistryOptions& options) {
    return *new (place) BasicRegistry(now, options);
  }
  static bool is_sensible(const RegistryOptions& options);
  /// How many octets from its beginning may change.
  std::uint32_t changing_size() const {
    return static_cast<std::uint32_t>(reinterpret_cast<const char*>(&options_) - reinterpret_cast<const char*>(this));
  }

  // ---- members. Errors of all functions that take a member: not_member, stale_epoch.

  /// Errors: unknown_domain, domain_exists, too_many_members, no_memory, share_of_domains, busy (during recovery,
  /// another member may yet open it).
  Result<MemberId> open(Instant now, const OpenParameters& parameters);
  /// Errors: busy (it has registrations or queues; not if `force`).
  Result<void> close(Instant now, MemberId member, bool force);
  /// R5: the member's process has ended, for any reason.
  void dead(Instant now, MemberId member);

  // ---- TGT queue pairs. Errors of all functions that take one: not_found, gone, other_domain, busy (it may yet be
  // declared).

  /// R1. Errors: busy (the peer's queue pair is reserved by another member, or may yet be declared; the number is in
  /// quarantine), conflict (the number is in use), invalid (qpn), no_memory, share_of_tgts, share_of_registrations.
  Result<Created> create(Instant now, MemberId member, const CreateParameters& parameters);
  /// Publishes a reserved one. `qpn`: 0 keeps the assigned number. Errors: not_registered, state (it is not reserved),
  /// conflict (the number is in use), busy (the number is in quarantine), invalid.
  Result<TgtId> publish(Instant now, MemberId member, TgtId id, std::uint32_t qpn = 0);
  /// Generation 0 means the present queue pair of the number. Errors: state (it has failed), no_memory,
  /// share_of_registrations; with generation 0, wrong_type.
  Result<Registered> enlist(Instant now, MemberId member, TgtId id);
  /// R3, R4, E3. Returns how many of its events were dropped. Errors: not_registered. Generation 0 as for enlist().
  Result<std::uint32_t> unregister(Instant now, MemberId member, TgtId id);
  /// Moves it to init, rtr, rts, error, or reset. `digest` is of the attributes. True: it was already in that state,
  /// with the same attributes. Errors: not_registered, state, conflict, busy (reset while others are registered),
  /// invalid (`to`).
  Result<bool> modify(Instant now, MemberId member, TgtId id, State to, std::uint64_t digest);
  Result<TgtView> query(Instant now, MemberId member, TgtId id) const;
  /// The same without the registrants; its cost does not depend on their number.
  Result<TgtView> glance(Instant now, MemberId member, TgtId id) const;

  // ---- reports of devices, connection managers and administrators

  /// E1. Ignored after an earlier failure that is at least as severe. Errors: state (the event has no meaning in the
  /// state), not_found, gone, invalid (kind).
  Result<void> report(Instant now, TgtId id, EventKind kind, std::uint32_t reason);
  /// The live queue pair of a peer in the member's domain. Errors: not_found.
  Result<TgtId> find(MemberId member, const Peer& peer) const;
  /// E6: sends the event to every member of the device's domains. device_removed also drains their TGT queue pairs.
  void report_device(Instant now, std::uint64_t device, EventKind kind, std::uint32_t reason);
  /// The same for the device of `by`, on its behalf. Other users' domains get the event only if `by` is root's or
  /// admin_uid's, except the domain of `by`.
  void report_device(Instant now, MemberId by, EventKind kind, std::uint32_t reason);

  // ---- shared receive queues, and numbers of other queue pairs. R10.

  Result<void> add_srq(MemberId member, std::uint32_t srqn);  ///< errors: conflict, no_memory, share_of_srqs, invalid
  Result<void> remove_srq(MemberId member, std::uint32_t srqn);  ///< errors: not_found
  /// Errors: conflict, no_memory, share_of_queue_pairs, invalid.
  Result<void> note_other(MemberId member, std::uint32_t qpn);
  Result<Route> route(TgtId id, std::uint32_t srqn) const;

  // ---- a new registry for processes that live on

  /// Declares a registration of an earlier epoch, until `recovery` is over. After that, and for a queue pair that this
  /// registry made, it is the same as enlist(). A later user of the number loses it. A member that missed events gets
  /// events_lost. Errors: gone, conflict, no_memory, share_of_tgts, share_of_registrations, invalid.
  Result<Registered> restore(Instant now, MemberId member, const DeclaredRegistration& declared);

  // ---- outputs

  /// E4, E7. Events of one TGT queue pair are in order.
  std::optional<Event> poll_event(MemberId member);
  /// The next member with new events. After that, it is returned again only when it gets another event.
  std::optional<MemberId> poll_waiting();
  /// The next TGT queue pair that ended: the device's user must destroy the real one.
  std::optional<TgtId> poll_ended();
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  bool is_member(MemberId member) const { return member.epoch == options_.epoch && members_.contains(member.number); }
  bool is_registered(MemberId member, TgtId id) const;
  /// R11: carriers of the member's domain, including those that may still return to a new registry. poll_waiting()
  /// returns its members after a change. 0 if there is no such member.
  std::uint32_t carriers(MemberId member) const;
  std::vector<DomainView> domains(Instant now) const;
  /// The members of all domains, with number and process only.
  std::vector<MemberView> members() const;
  const Counters& counters() const { return counters_; }
  std::size_t tgt_count() const { return tgts_.size(); }
  std::size_t resting_count() const { return resting_.size(); }
  std::size_t srq_count() const { return srqs_.size(); }
  std::size_t lingering_count() const { return lingering_; }
  /// The number to assign next, for a later registry (RegistryOptions::qpn_next).
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
    State kept = State::reset;  // linger: the state to return to
    bool awaited = false;       // after a new epoch: it has no registrants, but a member may yet declare it
    AttributeDigests attributes{};
    std::optional<Peer> peer{};
    EventKind why = EventKind::none;
    std::uint32_t reason = 0;
    std::uint64_t events = 0, why_sequence = 0;
    std::uint64_t declared_events = 0;  // the last event that a member has declared
    std::uint32_t uid = 0;              // of its creator, whose share it counts against
    Set<std::uint64_t> registrants{};   // members; registrations_max in total
    Instant made{}, deadline = never;
  };
  struct Member {
    std::uint64_t domain = 0;
    typename S::ProcessRecord process{};
    Set<std::uint64_t> registrations{};  // generations
    Set<std::uint32_t> srqs{}, others{};
    Deque<Event> events{};  // events_max
    bool lost = false, announced = false, carrier = false;
    bool returned = false;       // a carrier that an earlier registry knew
    std::uint32_t carriers = 0;  // OpenParameters::carriers, less those of whose death it was informed
  };
  struct Domain {
    std::optional<DomainKey> key{};
    std::uint64_t device = 0;
    std::uint32_t uid = 0;                 // of its creator
    std::uint32_t carriers = 0;            // members that carry the device
    std::uint32_t carriers_declared = 0;   // until recovery is over: the most that a member has declared
    std::uint32_t carriers_returned = 0;   // of an earlier registry; a carrier that leaves in order still counts
    Set<std::uint64_t> members{}, tgts{};  // numbers, generations
    Map<Peer, std::uint64_t> peers{};      // peer to generation, of queue pairs that have not failed

    std::uint32_t carriers_missing() const {
      return carriers_declared - std::min(carriers_declared, carriers_returned);
    }
  };
  struct RetiredTgt {
    TgtId id{};
    std::uint64_t domain = 0;
    Instant until{};
  };
  /// A domain that ended.
  struct CleanlyEnded {
    std::uint32_t uid = 0;  // of the domain's creator, whose share it counts against
    std::uint32_t carriers_returned = 0;
  };
  using FoundGeneration = Result<std::uint64_t>;  // a generation
  /// A user's resources that count against its share.
  struct Use {
    std::uint32_t domains = 0, tgts = 0, registrations = 0, srqs = 0, others = 0, left_in_order = 0;
    bool operator==(const Use&) const = default;
  };
  using Count = std::uint32_t Use::*;

  BasicRegistry(Instant now, const RegistryOptions& options);

  /// A sorted copy, which stays valid when the container changes.
  template <class Numbers>
  static std::vector<std::uint64_t> listed(const Numbers& numbers) {
    std::vector<std::uint64_t> out(numbers.begin(), numbers.end());
    std::sort(out.begin(), out.end());
    return out;
  }

  Result<void> check(MemberId member) const;
  FoundGeneration locate(Instant now, std::uint64_t domain, TgtId id) const;
  Refusal why_not(Instant now, std::uint64_t domain, TgtId id) const;
  Result<std::uint64_t> domain_for(Instant now, const OpenParameters& parameters);
  void leave(Instant now, std::uint64_t number, bool died);
  Result<std::uint32_t> assign_number(std::uint32_t wanted);
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
  void report_to_domain(Instant now, std::uint64_t domain, EventKind kind, std::uint32_t reason);
  void remove_device(Instant now, std::uint64_t domain, std::uint32_t reason);
  void drain_all(Instant now, std::uint64_t domain, std::uint32_t reason);
  void add_carriers(Instant now, std::uint64_t number, const OpenParameters& parameters);
  void drop_carrier(std::uint64_t member, bool died);
  void await_no_carriers(Instant now);
  void announce_all(std::uint64_t domain);
  void keep_left_in_order(const Domain& domain);
  void restore_left_in_order(Domain& domain);
  Result<void> step(Instant now, Tgt& tgt, EventKind kind, std::uint32_t reason);
  void merge(Instant now, std::uint64_t number, Tgt& tgt, const DeclaredRegistration& declared);
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
  void remove_tgt(Tgt& tgt);
  Instant grace_end(Instant now, State state) const;
  /// Whether a member that has not declared its registrations yet may declare this one.
  bool may_be_declared(Instant now, const Tgt& tgt) const {
    return recovering(now) && tgt.id.generation >> 32 < options_.epoch;
  }
  void enter(Instant now, Tgt& tgt, State state, EventKind kind, std::uint32_t reason);
  void notify_registrants(Tgt& tgt, EventKind kind, std::uint32_t reason);
  void queue_event(std::uint64_t number, Event event);
  void lose_events(std::uint64_t number);
  void announce(std::uint64_t number, Member& member);
  void forget_peer(Tgt& tgt);
  TgtView outline(Instant now, const Tgt& tgt) const;
  bool recovering(Instant now) const { return now < recovery_until_; }

  Map<std::uint64_t, Domain> domains_;                      // domains_max
  Map<DomainKey, std::uint64_t> keys_;                      // of shared domains
  Map<DomainKey, CleanlyEnded> left_in_order_;              // domains with carriers_returned; domains_max
  Map<std::uint64_t, Member> members_;                      // members_max
  Map<std::uint64_t, Tgt> tgts_;                            // by generation; tgts_max
  Map<std::uint32_t, std::uint64_t> numbers_;               // of tgts_: number to generation
  Map<std::uint32_t, RetiredTgt> resting_;                  // resting_max
  Deque<std::pair<Instant, std::uint32_t>> rests_;          // of resting_, in the order of expiry
  Map<std::uint32_t, std::uint64_t> srqs_, others_;         // number to member; srqs_max each
  Map<std::uint32_t, Use> users_;                           // by uid; users with at least one resource
  SortedSet<std::pair<Instant, std::uint64_t>> deadlines_;  // of tgts_
  Deque<MemberId> waiting_;                                 // members_max
  Deque<TgtId> ended_;                                      // tgts_max: create() fails until poll_ended() takes them
  Counters counters_;
  std::size_t lingering_ = 0, registrations_ = 0;
  bool awaits_carriers_ = false;  // a domain has carriers_declared
  std::uint64_t last_generation_, last_member_ = 0, last_domain_ = 0;
  std::uint32_t qpn_next_;
  RegistryOptions options_;  // constant, as recovery_until_: they are last because of changing_size()
  Instant recovery_until_;
};

using Registry = BasicRegistry<HeapStore>;

}  // namespace parley::xrc
