// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests and their answers (IBA §13.4.6): matches answers to requests, limits the outstanding requests, retransmits
// and gives up. A machine as defined in base/machine.hpp, without tasks; mad/port.hpp adds tasks.
//
// A request is opened, then submitted, and is done later. Requests are done in any order; poll_done() returns them. The
// caller owns a request until release(). Requests are sent in the order of submit(), except to a destination whose
// window is full.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/rng.hpp"
#include "mad/error.hpp"
#include "mad/flat_table.hpp"
#include "mad/list.hpp"
#include "mad/rmpp.hpp"
#include "mad/serve.hpp"
#include "mad/window.hpp"

namespace parley::mad {

struct PortOptions {
  std::uint64_t seed = 1;                              ///< of transaction IDs and jitter: different for each port
  WindowOptions window;                                ///< for all requests of the port
  WindowOptions destination_window;                    ///< for requests to one destination
  std::size_t transactions_max = 65536;                ///< open requests; others end with Fault::no_space
  unsigned busy_retries = 8;                           ///< retries of a request to a busy destination
  Duration busy_wait = std::chrono::milliseconds(20);  ///< before the first of them; doubled each time
  Duration wait_max = std::chrono::seconds(30);        ///< upper bound of waits that are doubled
  unsigned redirects_max = 4;                          ///< that one request follows
  rmpp::Options rmpp;                                  ///< if the transport does not do RMPP
  std::size_t table_octets_max =
      64 << 20;                        ///< of data in one answer; a longer one ends its request with Fault::no_space
  std::size_t long_requests_max = 64;  ///< of others, incomplete, in segments; further ones get a STOP
  std::size_t request_octets_max = 64 << 10;  ///< of data in one of those
};

/// Since construction.
struct Counters {
  std::uint64_t sent = 0, received = 0;       ///< datagrams
  std::uint64_t answered = 0, recovered = 0;  ///< requests with an answer of any status; of these, after a retry
  std::uint64_t resent = 0, timeouts = 0;     ///< retransmissions for lack of an answer; requests given up
  std::uint64_t busy = 0, redirected = 0;     ///< answers with that status
  std::uint64_t refused = 0, lost = 0;        ///< datagrams that were returned: not sent; dropped on the way
  std::uint64_t unexpected = 0;               ///< answers without an outstanding request: late, duplicate, of others
  std::uint64_t mismatched = 0;  ///< answers with the ID of a request, but of another peer, class or method
  std::uint64_t malformed = 0;   ///< too short or of another base version
  std::uint64_t unasked = 0;     ///< requests, traps and reports without serve() or without room in the queue
  std::uint64_t unfinished =
      0;  ///< requests in segments that broke a rule, found no room, took too long or were given up
};

/// A request of any class.
struct Rpc {
  wire::mad::MgmtClass mgmt_class{};  ///< for a directed route subn, as by LID
  wire::mad::Method method{};
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;
  std::uint64_t component_mask = 0;  ///< for subnet administration
  std::uint64_t key = 0;             ///< B_Key, CC_Key; the path has M_Key and SM_Key
  std::uint8_t class_number = 0;     ///< of a vendor or application class; 0: the first of the range
  std::uint8_t class_version = 0;    ///< 0: that of the table; 1 for applications
  std::uint32_t oui = 0;             ///< 24 bits; for vendor classes with an OUI
};

class Transactor {
 public:
  using Id = std::uint32_t;
  static constexpr Id none = ~Id{0};

  Transactor(const TransportFacts& facts, const PortOptions& options);
  const TransportFacts& facts() const { return facts_; }
  ~Transactor();
  Transactor(const Transactor&) = delete;
  Transactor& operator=(const Transactor&) = delete;

  /// Creates a request, without sending it. None: transactions_max are open. A request that cannot be sent (such as a
  /// GMP by directed route, or a `body` that is too long for its class) is done with Fault::invalid as soon as it is
  /// submitted. `body`: the attribute. SubnAdmGetMulti always goes by RMPP, so its body may be longer than a datagram.
  Id open(const Rpc& rpc, const Path& path, ConstBytes body);
  /// The same for a whole datagram of 256 octets. Its transaction ID is set here, and the directed route of `path`.
  Id open(ConstBytes mad, const Path& path);
  void submit(Id id);
  /// The port's own data: the path to subnet administration, which is queried if a redirection has a GID without a LID.
  void set_local(const LocalPort& local);
  /// The path to subnet administration.
  const Path& manager_path() const { return sa_path_; }
  /// Ends the request with `why`, unless it is done.
  void cancel(Id id, Fault why);
  void release(Id id);
  /// A pointer of the caller; initially null.
  void*& user(Id id);

  /// The next request that is done; none: there are no more. It stays valid until release().
  Id poll_done();
  bool ok(Id id) const;
  /// The whole answer; the request must be done and ok().
  ConstBytes reply(Id id) const;
  const Address& replier(Id id) const;
  /// Why a request that is done is not ok().
  MadError error(Id id) const;
  /// The same for a request whose reply turned out to be malformed.
  MadError error(Id id, Fault fault, std::string why) const;

  /// The packet to send, the same until packet_sent(). Null: none. Call packet_sent() right after it was sent.
  const Packet* poll_packet();
  void packet_sent(Instant now);
  void handle_packet(Instant now, const Address& from, ConstBytes mad);
  /// The transport returned `mad` without sending it. Its request ends.
  void handle_refused(Instant now, ConstBytes mad);
  /// `mad` was dropped on its way: its request does not wait for the rest of this try's time limit.
  void handle_lost(Instant now, ConstBytes mad);
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  /// From now on requests, traps and reports are queued for poll_request(): at most 256, further ones are counted as
  /// unasked. Requests in segments are reassembled first. A segment that violates RMPP is refused with RMPP's status.
  void serve() { serves_ = true; }
  bool has_request() const { return !requests_.empty(); }
  std::optional<Incoming> poll_request();
  /// Sends a datagram that expects no answer: 256 octets, or a whole answer of several segments (table_reply()). RMPP
  /// is done here if the transport does not do it. Errors: no_space (1024 datagrams or 64 long answers wait),
  /// invalid_argument (another length).
  Result<void> post(const Address& to, ConstBytes mad);

  const Counters& counters() const { return counters_; }
  std::size_t under_way() const { return window_.used(); }
  std::size_t open_count() const { return open_; }
  std::size_t window() const { return window_.size(); }

 private:
  struct Transaction;
  struct Destination;
  struct Transfer;
  struct Lingering;
  struct SendTag;
  struct DoneTag;
  struct IdleTag;

  Transaction& at(Id id) { return *slots_[id]; }
  const Transaction& at(Id id) const { return *slots_[id]; }
  Transaction* acquire(const Path& path);
  void prepare(Transaction& t);
  /// The transport does the RMPP of this datagram.
  bool carries_whole(ConstBytes mad) const;
  void attach_long(Transaction& t, ConstBytes body, std::size_t data);
  void name(Transaction& t);
  void begin_transfer(Transaction& t);
  void enqueue(Transaction& t);
  void leave(Transaction& t);
  void finish(Transaction& t, std::optional<Fault> fault, std::string_view why = {});
  void forget_destination(Transaction& t);
  void use_destination(Transaction& t);

  bool matches(const Transaction& t, const Address& from, ConstBytes mad) const;
  Transaction* find_returned(ConstBytes mad);
  Transaction* find(ConstBytes mad);
  void handle_reply(Instant now, Transaction& t, const Address& from, ConstBytes mad);
  void handle_transfer(Instant now, Transaction& t, const Address& from, ConstBytes mad);
  void after_transfer(Instant now, Transaction& t);
  void accept_reply(Transaction& t, const Address& from, ConstBytes mad);
  rmpp::Options reply_options() const;
  void judge(Instant now, Transaction& t);
  void back_off(Instant now, Transaction& t);
  bool manager_moved(const Transaction& t) const;
  void follow_manager(Transaction& t);
  void redirect(Transaction& t);
  void resolve(Transaction& t, const Gid& gid);
  void resolved(Transaction& t, Transaction& query);
  void handle_due(Instant now, Transaction& t);
  void abandon(const Transaction& t);
  void linger(Transaction& t);
  bool answer_lingering(Instant now, const Address& from, ConstBytes mad);
  const Packet* poll_lingering();
  const Packet* poll_posted();
  void handle_request(Instant now, const Address& from, ConstBytes mad);
  void accept_request(const Address& from, Bytes mad);
  void handle_segment(Instant now, const Address& from, ConstBytes mad);
  void begin_long_request(Instant now, const Address& from, ConstBytes mad);
  void keep_long_request(std::unique_ptr<Transfer> transfer, const Address& from, ConstBytes mad);
  void after_segment(Lingering& request);
  void send_unrequested(const Address& to, ConstBytes mad);
  Result<void> post_long(const Address& to, ConstBytes mad);
  Instant replies_deadline() const;
  void handle_replies_due(Instant now);
  Duration wait_of(Duration first, unsigned times);

  TransportFacts facts_;
  PortOptions options_;
  Rng rng_;
  Counters counters_;
  Instant now_{};  // of the last call
  Path sa_path_;
  Gid gid_{};
  std::vector<std::unique_ptr<Transaction>> slots_;  // at most transactions_max
  std::vector<Id> free_;
  std::size_t open_ = 0;
  std::uint32_t next_tid_, tid_high_;
  FlatTable<Id> by_tid_;
  FlatTable<std::uint32_t> by_destination_;
  std::vector<std::unique_ptr<Destination>> destinations_;
  List<Destination, IdleTag> idle_;  // destinations without requests, whose windows are kept: at most 4096
  std::size_t idle_count_ = 0;
  std::vector<std::uint32_t> free_destinations_;
  Window window_;
  List<Transaction, SendTag> first_;  // to be sent for the first time, when the port's window has room
  List<Transaction, SendTag> again_;  // to be sent now: retransmissions, RMPP
  List<Transaction, DoneTag> done_;
  DeadlineQueue deadlines_;
  std::deque<std::unique_ptr<Lingering>> lingering_;  // at most 64
  std::deque<std::unique_ptr<Lingering>> replies_;    // long answers in progress: at most 64
  std::deque<std::unique_ptr<Lingering>>
      long_requests_;  // of others: at most long_requests_max incomplete, and 256 ended ones that answer duplicates
  std::deque<std::pair<Address, Bytes>> posted_;  // at most 1024
  std::deque<Incoming> requests_;                 // at most 256
  bool serves_ = false;
  bool lingering_speaks_ = false;  // a lingering transfer or a long answer may have something to send
  Packet packet_;
  Transaction* polled_ = nullptr;
  Lingering* polled_lingering_ = nullptr;
  bool polled_posted_ = false;
};

}  // namespace parley::mad
