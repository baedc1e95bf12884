// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// An XRC domain that processes share by a file, and its TGT queue pairs, which live for as long as any of them holds one.
//
//   auto domain = xrc::Domain::open("/dev/shm/job-7");
//   auto qp = domain->create(peer);          // this process is registered; another one: domain->attach(qp->id())
//   ...                                      // ~TgtQp unregisters; the last one out ends it, even by kill -9
//
// Names and states only: who has a real NIC opens the queue pair there by its number, in each process. docs/xrc.md.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/xrc.hpp"

namespace parley::xrc {

class Link;

/// Who keeps the registry. Those who use different forms, or different places, do not see each other.
enum class Form : std::uint8_t {
  standard,  ///< `broker`; `shared` if only `segment` or $PARLEY_XRC_SEGMENT says where
  broker,    ///< a process, `parley xrcd`: for processes of several users, and of several PID namespaces
  shared,    ///< memory that the processes of one user share, without a process of its own
};
/// "broker"
std::string_view to_string(Form form);

/// What is refused with what: docs/xrc.md. All calls wait for the broker, at most for `patience` (timed_out). In a forked child
/// they fail with not_member; of threads, one at a time. In the shared form they wait for nobody but who holds its lock.
struct DomainOptions {
  Form form = Form::standard;
  std::string socket{};      ///< of the broker; empty: $PARLEY_XRCD, the machine's, or the user's
  std::string segment{};     ///< file of the shared registry; empty: $PARLEY_XRC_SEGMENT, or /dev/shm/parley-xrc-UID
  bool start = true;         ///< start a broker if none answers
  std::string program{};     ///< that is one: `parley`, or $PARLEY_XRCD_PROGRAM
  bool create = true;        ///< a domain that no process has open is made (O_CREAT)
  bool exclusive = false;    ///< one that a process has open is refused (O_EXCL)
  std::uint64_t device = 0;  ///< which NIC: the same file is another domain on another device
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
  /// To init, rtr, rts, error or reset; `digest` is of the attributes that it was given. True: another process had done it,
  /// with the same ones. Errors: state, conflict, busy, gone.
  Result<bool> modify(State to, std::uint64_t digest);
  Result<TgtView> query() const;  ///< without registrants
  /// What this process's device has said of it. All who are registered hear of it.
  Result<void> report(EventKind kind, std::uint32_t reason = 0);
  /// Unregisters now. Returns how many of its events nobody took. Errors: gone (it had ended; that is no harm).
  Result<std::uint64_t> release();

 private:
  friend class Domain;
  TgtQp(std::shared_ptr<Link> link, TgtId id);
  std::shared_ptr<Link> link_;
  TgtId id_{};
};

class Domain {
 public:
  /// The domain of a file, which is made if it is not there.
  static Result<Domain> open(const std::string& path, const DomainOptions& options = {});
  /// The domain of an open file, as ibv_open_xrcd(); -1: a private one. The descriptor is duplicated. Errors: bad_descriptor,
  /// unknown_domain, domain_exists, not_permitted, too_many_members, no_broker, no_space.
  static Result<Domain> open(int fd, const DomainOptions& options = {});
  Domain(Domain&&) noexcept;
  Domain& operator=(Domain&&) noexcept;
  ~Domain();

  /// A new one; or, with a peer, the one that is there for it.
  Result<TgtQp> create(std::optional<Peer> peer = {});
  /// For devices that choose the number: the queue pair is known to nobody until publish().
  Result<TgtId> reserve(std::optional<Peer> peer = {});
  Result<TgtQp> publish(TgtId id, std::uint32_t qpn = 0);
  /// Errors: gone, not_found, other_domain, wrong_type, state.
  Result<TgtQp> attach(TgtId id);
  /// By the number alone, as OFED's ibv_reg_xrc_rcv_qp(): it may be another queue pair's by now.
  Result<TgtQp> attach(std::uint32_t qpn);

  Result<void> add_srq(std::uint32_t srqn);
  Result<void> remove_srq(std::uint32_t srqn);
  /// The number of a queue pair of another type, so that nobody takes it for a TGT queue pair's.
  Result<void> note_other(std::uint32_t qpn);

  /// Waits for `longest` at most.
  Result<std::optional<Event>> wait_event(Duration longest);
  /// For the caller's own loop: readable when wait_event({}) has something to do. The domain's, and the same over all brokers.
  /// Errors: not_member, no_space.
  Result<int> fd();
  /// Errors: busy (TgtQps or queues are left; not if `force`).
  Result<void> close(bool force = false);

 private:
  explicit Domain(std::shared_ptr<Link> link);
  std::shared_ptr<Link> link_;
};

/// All domains that a broker knows, and what it has counted. For administrators.
struct Overview {
  std::vector<DomainView> domains{};
  Counters counters{};
  std::uint32_t epoch = 0;
};
Result<Overview> overview(const DomainOptions& options = {});
/// Its registrants are told, and it ends when they have let go, or the grace is over. Errors: not_permitted, gone, not_found.
Result<void> kill(TgtId id, const DomainOptions& options = {});

}  // namespace parley::xrc
