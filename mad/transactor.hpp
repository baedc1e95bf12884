// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests and their answers (IBA §13.4.6): which answer is whose, how many are under way, when one is sent again and when it is given
// up. A machine as base/machine.hpp says, without tasks; mad/port.hpp has those.
//
// A request is opened, submitted, and done later, in any order: poll_done() says which. It is the caller's until release(). Requests
// leave in the order in which they were submitted, but for those to a destination whose window is full.
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
  std::uint64_t seed = 1;                              ///< of transaction IDs and jitter: another one for each port
  WindowOptions window;                                ///< of all requests of the port
  WindowOptions destination_window;                    ///< of those to one destination
  std::size_t transactions_max = 65536;                ///< open ones; more end with Fault::no_space
  unsigned busy_retries = 8;                           ///< times that a busy destination is asked again
  Duration busy_wait = std::chrono::milliseconds(20);  ///< the first time; each further one twice as long
  Duration wait_max = std::chrono::seconds(30);        ///< the longest that doubling makes of a wait
  unsigned redirects_max = 4;                          ///< followed of one request
  rmpp::Options rmpp;                                  ///< where the transport does not do it
  std::size_t table_octets_max =
      64 << 20;                        ///< of data in one answer; a longer one ends its request with Fault::no_space
  std::size_t long_requests_max = 64;  ///< of others, coming in segments; more are told to stop
  std::size_t request_octets_max = 64 << 10;  ///< of data in one of those
};

/// Since the beginning.
struct Counters {
  std::uint64_t sent = 0, received = 0;       ///< datagrams
  std::uint64_t answered = 0, recovered = 0;  ///< requests whose answer came, whatever it says; of these, to a retry
  std::uint64_t resent = 0, timeouts = 0;     ///< sent again for want of an answer; given up
  std::uint64_t busy = 0, redirected = 0;     ///< answers that say so
  std::uint64_t refused = 0, lost = 0;        ///< datagrams that came back: not sent; dropped on the way
  std::uint64_t unexpected = 0;               ///< answers to nothing that is under way: late, repeated, to others
  std::uint64_t mismatched = 0;  ///< answers with the ID of a request, but of another peer, class or method
  std::uint64_t malformed = 0;   ///< too short or of another base version
  std::uint64_t unasked = 0;     ///< requests, traps and reports that nobody here takes
  std::uint64_t unfinished =
      0;  ///< requests in segments that broke a rule, found no room, took too long or were given up
};

/// Something to be sent once, of any class.
struct Rpc {
  wire::mad::MgmtClass mgmt_class{};  ///< of a directed route: subn, as by LID
  wire::mad::Method method{};
  std::uint16_t attribute = 0;
  std::uint32_t modifier = 0;
  std::uint64_t component_mask = 0;  ///< of subnet administration
  std::uint64_t key = 0;             ///< B_Key, CC_Key; M_Key and SM_Key are the path's
  std::uint8_t vendor_class = 0;     ///< which of a vendor's range; 0: the first
  std::uint32_t oui = 0;             ///< 24 bits; of a vendor with one
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

  /// A request that is not sent yet; none: transactions_max are open. What cannot be sent (a GMP by directed route) is done as soon as
  /// it is submitted. `body` is the attribute, cut to what the class has room for, or of more octets where the method allows it: then
  /// it goes by RMPP.
  Id open(const Rpc& rpc, const Path& path, ConstBytes body);
  /// The same of 256 octets as they are; their transaction ID is set here.
  Id open(ConstBytes mad, const Path& path);
  void submit(Id id);
  /// Of the port itself: where subnet administration is, which is asked for the way to a redirection's GID.
  void set_local(const LocalPort& local);
  /// To subnet administration.
  const Path& manager_path() const { return sa_path_; }
  /// A submitted one is done with `why`.
  void cancel(Id id, Fault why);
  void release(Id id);
  /// Of whoever opened it; null at first.
  void*& user(Id id);

  /// The next one that is done; none: there is no more. It stays until it is released.
  Id poll_done();
  bool ok(Id id) const;
  /// Whole, once done and ok().
  ConstBytes reply(Id id) const;
  const Address& replier(Id id) const;
  /// Why a done one is not ok().
  MadError error(Id id) const;
  /// The same of one whose reply turned out to be malformed.
  MadError error(Id id, Fault fault, std::string why) const;

  /// What to send, and the same until packet_sent(); null: nothing. Call that right after a send that took it.
  const Packet* poll_packet();
  void packet_sent(Instant now);
  void handle_packet(Instant now, const Address& from, ConstBytes mad);
  /// `mad` came back: the transport did not send it. Its request ends.
  void handle_refused(Instant now, ConstBytes mad);
  /// `mad` was dropped on its way: its request does not wait for the rest of this try's time.
  void handle_lost(Instant now, ConstBytes mad);
  Instant next_deadline() const;
  void handle_deadline(Instant now);

  /// From now on requests, traps and reports are kept for poll_request(): at most 256, more are counted as unasked. Those that come in
  /// segments are put together first; what breaks RMPP's rules is refused with its status.
  void serve() { serves_ = true; }
  bool has_request() const { return !requests_.empty(); }
  std::optional<Incoming> poll_request();
  /// Sends a datagram that waits for no answer: 256 octets, or the whole answer of several segments (table_reply()), by RMPP where the
  /// transport does not do that. Errors: no_space with 1024 waiting or 64 long ones; invalid_argument of another length.
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
  /// RMPP is the transport's.
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
  void take_reply(Transaction& t, const Address& from, ConstBytes mad);
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
  void take_request(const Address& from, Bytes mad);
  void handle_segment(Instant now, const Address& from, ConstBytes mad);
  void begin_long_request(Instant now, const Address& from, ConstBytes mad);
  void keep_long_request(std::unique_ptr<Transfer> transfer, const Address& from, ConstBytes mad);
  void after_segment(Lingering& request);
  void say(const Address& to, ConstBytes mad);
  Result<void> post_long(const Address& to, ConstBytes mad);
  Instant replies_deadline() const;
  void handle_replies_due(Instant now);
  Duration wait_of(Duration first, unsigned times);

  TransportFacts facts_;
  PortOptions options_;
  Rng rng_;
  Counters counters_;
  Instant now_{};  // the latest that was told
  Path sa_path_;
  Gid gid_{};
  std::vector<std::unique_ptr<Transaction>> slots_;  // at most transactions_max
  std::vector<Id> free_;
  std::size_t open_ = 0;
  std::uint32_t next_tid_, tid_high_;
  FlatTable<Id> by_tid_;
  FlatTable<std::uint32_t> by_destination_;
  std::vector<std::unique_ptr<Destination>> destinations_;
  List<Destination, IdleTag> idle_;  // what is known of those that nothing goes to now: at most 4096
  std::size_t idle_count_ = 0;
  std::vector<std::uint32_t> free_destinations_;
  Window window_;
  List<Transaction, SendTag> first_;  // to be sent for the first time, when the port's window has room
  List<Transaction, SendTag> again_;  // to be sent now: repeated requests, RMPP
  List<Transaction, DoneTag> done_;
  DeadlineQueue deadlines_;
  std::deque<std::unique_ptr<Lingering>> lingering_;  // at most 64
  std::deque<std::unique_ptr<Lingering>> replies_;    // long ones that are sent: at most 64
  std::deque<std::unique_ptr<Lingering>>
      long_requests_;  // of others: at most long_requests_max come, of 256 the end is told again
  std::deque<std::pair<Address, Bytes>> posted_;  // at most 1024
  std::deque<Incoming> requests_;                 // at most 256
  bool serves_ = false;
  bool lingering_speaks_ = false;  // one of them may have something to send
  Packet packet_;
  Transaction* polled_ = nullptr;
  Lingering* polled_lingering_ = nullptr;
  bool polled_posted_ = false;
};

}  // namespace parley::mad
