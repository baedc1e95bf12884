// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An XRC domain that processes share through a file, and its TGT queue pairs, which exist while any process is registered.
//
//   auto domain = xrc::Domain::open("/dev/shm/job-7");
//   auto qp = domain->create(peer);          // registers this process; in another process: domain->attach(qp->id())
//   ...                                      // ~TgtQp unregisters; the last one ends the queue pair, even by kill -9
//
// This covers names and states only: with a real NIC, each process opens the queue pair there by its number. docs/xrc.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/xrc.hpp"

namespace parley::xrc {

class Link;

/// Where the registry is kept. Processes with different forms, or different places, do not see each other.
enum class RegistryKind : std::uint8_t {
  standard,  ///< `broker`; `shared` if only `segment` or $PARLEY_XRC_SEGMENT is set
  broker,    ///< a process, `parley xrcd`: for processes of several users, and of several PID namespaces
  shared,    ///< memory shared by the processes of one user, without an extra process
};
/// "broker"
std::string_view to_string(RegistryKind form);

/// docs/xrc.md lists what is refused and why. All calls wait for the broker, at most for `patience` (timed_out). In a forked
/// child they fail with not_member. One thread at a time. In the shared form a call waits only for the holder of the lock.
struct DomainOptions {
  RegistryKind form = RegistryKind::standard;
  std::string socket{};      ///< the broker's; empty: $PARLEY_XRCD, the machine's, or the user's
  std::string segment{};     ///< file of the shared registry; empty: $PARLEY_XRC_SEGMENT, or /dev/shm/parley-xrc-UID
  bool start = true;         ///< start a broker if none answers
  std::string program{};     ///< the broker's program; empty: `parley`, or $PARLEY_XRCD_PROGRAM
  bool create = true;        ///< create the domain if no process has it open (O_CREAT)
  bool exclusive = false;    ///< refuse the domain if a process has it open (O_EXCL)
  std::uint64_t device = 0;  ///< the NIC: the same file is another domain on another device
  /// The domain's real queue pairs are in this process, which runs the NIC (Parley's own engine). When it ends, or leaves other than by
  /// Domain::close(), every member gets device_removed, and the domain's TGT queue pairs drain. docs/xrc.md, R11.
  bool carrier = false;
  Duration patience = std::chrono::seconds(5);
};

/// A registration. It ends with the object.
class TgtQp {
 public:
  TgtQp(TgtQp&&) noexcept;
  TgtQp& operator=(TgtQp&&) noexcept;
  ~TgtQp();

  const TgtId& id() const { return id_; }
  std::uint32_t qpn() const { return id_.qpn; }
  /// Records a transition to init, rtr, rts, error or reset; `digest` is a digest of its attributes. True: another process
  /// had already made it with the same attributes. Errors: state, conflict, busy, gone.
  Result<bool> modify(State to, std::uint64_t digest);
  Result<TgtView> query() const;  ///< without registrants
  /// Reports an event of this process's device. All registrants receive it.
  Result<void> report(EventKind kind, std::uint32_t reason = 0);
  /// Unregisters now. Returns how many of its events were not taken. Errors: gone (it had already ended: harmless).
  Result<std::uint64_t> release();

 private:
  friend class Domain;
  TgtQp(std::shared_ptr<Link> link, TgtId id);
  std::shared_ptr<Link> link_;
  TgtId id_{};
};

class Domain {
 public:
  /// The domain of a file, which is created if it does not exist.
  static Result<Domain> open(const std::string& path, const DomainOptions& options = {});
  /// The domain of an open file, like ibv_open_xrcd(); -1: a private one. The descriptor is duplicated. Errors:
  /// bad_descriptor, unknown_domain, domain_exists, not_permitted, too_many_members, no_broker, no_space.
  static Result<Domain> open(int fd, const DomainOptions& options = {});
  Domain(Domain&&) noexcept;
  Domain& operator=(Domain&&) noexcept;
  ~Domain();

  /// Creates a new one; with a peer, returns the existing one for this peer if there is one.
  Result<TgtQp> create(std::optional<Peer> peer = {});
  /// For devices that choose the number: the queue pair is hidden from other members until publish().
  Result<TgtId> reserve(std::optional<Peer> peer = {});
  Result<TgtQp> publish(TgtId id, std::uint32_t qpn = 0);
  /// Errors: gone, not_found, other_domain, wrong_type, state.
  Result<TgtQp> attach(TgtId id);
  /// By number only, like OFED's ibv_reg_xrc_rcv_qp(): the number may meanwhile belong to another queue pair.
  Result<TgtQp> attach(std::uint32_t qpn);

  Result<void> add_srq(std::uint32_t srqn);
  Result<void> remove_srq(std::uint32_t srqn);
  /// Records the number of a queue pair of another type, so that it is not taken for a TGT queue pair's.
  Result<void> note_other(std::uint32_t qpn);

  /// Waits for at most `longest`.
  Result<std::optional<Event>> wait_event(Duration longest);
  /// For the caller's event loop: readable when wait_event({}) has work to do. It belongs to the domain, and stays the same
  /// when the broker changes. Errors: not_member, no_space.
  Result<int> fd();
  /// Errors: busy (TgtQps or queues remain; not with `force`).
  Result<void> close(bool force = false);

 private:
  explicit Domain(std::shared_ptr<Link> link);
  std::shared_ptr<Link> link_;
};

/// All domains of a registry, and its counters. For administrators.
struct Overview {
  std::vector<DomainView> domains{};
  Counters counters{};
  std::uint32_t epoch = 0;
};
Result<Overview> overview(const DomainOptions& options = {});
/// Notifies its registrants; it ends when they have unregistered, or after the grace period. Errors: not_permitted, gone,
/// not_found.
Result<void> kill(TgtId id, const DomainOptions& options = {});

}  // namespace parley::xrc
