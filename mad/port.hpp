// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A port's management datagrams, as functions that can be awaited in a Task:
//
//   const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(path);
//   const Reply<std::vector<NodeRecord>> nodes = co_await port.sa_get_table(Query<NodeRecord>().set(NodeRecord::lid, 5));
//
// An RPC that the specification does not have (subn_set of NodeInfo) does not compile. mad/pump.hpp carries packets
// between a Port and a Transport, and runs a task to its end; a program with its own loop does what pump() does.
// Single-threaded.
#pragma once
#include "mad/call.hpp"
#include "wire/mad/component_mask.hpp"

namespace parley::mad {

using wire::mad::LegalFor;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::Query;

/// The members of wire::mad::RequestOptions that neither the path nor the Port sets.
struct RpcOptions {
  std::uint32_t modifier = 0;
  std::uint64_t component_mask = 0;
  std::uint64_t key = 0;           ///< B_Key, CC_Key
  std::uint8_t class_number = 0;   ///< of a vendor or application class; 0: the first of the range
  std::uint8_t class_version = 0;  ///< 0: that of the table; 1 for applications
  std::uint32_t oui = 0;
};

class Port;

namespace detail {

class NextRequest final : Wait {
 public:
  explicit NextRequest(Port& port) : port_(port) {}
  ~NextRequest();
  bool await_ready() const noexcept { return false; }  // first check whether the scope is stopped
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> task) {
    start(task.promise());
  }
  std::optional<Incoming> await_resume();

  void wake();

 private:
  void start(PromiseBase& task);
  void stop(Fault why) override;

  Port& port_;
  PromiseBase* task_ = nullptr;
  bool stopped_ = false;
};

}  // namespace detail

class Port {
 public:
  /// `local` is copied; handle_changed() replaces it.
  Port(const TransportFacts& facts, const LocalPort& local, const PortOptions& options = {});

  // RPCs. Paths and bodies are copied.

  template <LegalFor<MgmtClass::subn, Method::get> A>
  Call<A> subn_get(const Path& path, std::uint32_t modifier = 0) {
    return rpc<MgmtClass::subn, Method::get>(path, A{}, {.modifier = modifier});
  }
  template <LegalFor<MgmtClass::subn, Method::set> A>
  Call<A> subn_set(const Path& path, const A& body, std::uint32_t modifier = 0) {
    return rpc<MgmtClass::subn, Method::set>(path, body, {.modifier = modifier});
  }

  /// Without a path: to sa_path().
  template <LegalFor<MgmtClass::subn_adm, Method::get> A>
  Call<A> sa_get(const Query<A>& query) {
    return sa_get(sa_path(), query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::get> A>
  Call<A> sa_get(const Path& path, const Query<A>& query) {
    return sa<Method::get>(path, query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::get_table> A>
  Call<std::vector<A>> sa_get_table(const Query<A>& query = {}) {
    return sa_get_table(sa_path(), query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::get_table> A>
  Call<std::vector<A>> sa_get_table(const Path& path, const Query<A>& query = {}) {
    return sa<Method::get_table>(path, query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::set> A>
  Call<A> sa_set(const Query<A>& query) {
    return sa<Method::set>(sa_path(), query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::set> A>
  Call<A> sa_set(const Path& path, const Query<A>& query) {
    return sa<Method::set>(path, query);
  }
  /// For InformInfo, and for attributes that are set as a whole.
  template <LegalFor<MgmtClass::subn_adm, Method::set> A>
  Call<A> sa_set(const Path& path, const A& body, std::uint64_t component_mask = 0) {
    return rpc<MgmtClass::subn_adm, Method::set>(path, body, {.component_mask = component_mask});
  }
  template <LegalFor<MgmtClass::subn_adm, Method::delete_> A>
  Call<A> sa_delete(const Query<A>& query) {
    return sa<Method::delete_>(sa_path(), query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::delete_> A>
  Call<A> sa_delete(const Path& path, const Query<A>& query) {
    return sa<Method::delete_>(path, query);
  }
  template <LegalFor<MgmtClass::subn_adm, Method::get_trace_table> A>
  Call<std::vector<A>> sa_get_trace_table(const Path& path, const Query<A>& query) {
    return sa<Method::get_trace_table>(path, query);
  }
  /// MultiPathRecord (IBA §15.3.6). `gids`: the sources, then the destinations; `query` has their counts. The request
  /// goes by RMPP, so it may be longer than a datagram. The answer has paths.
  Call<std::vector<wire::mad::PathRecord>> sa_get_multi(const Path& path,
                                                        const Query<wire::mad::MultiPathRecord>& query,
                                                        std::span<const Gid> gids);

  template <LegalFor<MgmtClass::perf, Method::get> A>
  Call<A> perf_get(const Path& path, const A& body = {}, std::uint32_t modifier = 0) {
    return rpc<MgmtClass::perf, Method::get>(path, body, {.modifier = modifier});
  }
  template <LegalFor<MgmtClass::perf, Method::set> A>
  Call<A> perf_set(const Path& path, const A& body, std::uint32_t modifier = 0) {
    return rpc<MgmtClass::perf, Method::set>(path, body, {.modifier = modifier});
  }

  /// Any class: vendors and applications (RpcOptions::class_number and oui), congestion control, device and baseboard management.
  template <MgmtClass C, Method M, LegalFor<C, M> A>
  auto rpc(const Path& path, const A& body, const RpcOptions& options = {}) {
    constexpr bool table = M == Method::get_table || M == Method::get_trace_table;
    using T = std::conditional_t<table, std::vector<A>, A>;
    return Call<T>(transactor_, open(C, M, A::attribute, path, body.octets(), options), data_of(C));
  }

  /// An RPC that is given by numbers. `body`: the attribute's octets.
  Call<RawReply> raw(const Path& path, const Rpc& rpc, ConstBytes body);
  /// A whole datagram of 256 octets; its transaction ID is set here.
  Call<RawReply> raw(const Path& path, ConstBytes mad);

  // The side that answers; mad/serve.hpp builds the answers.

  /// Waits for a request, trap or report. Returns std::optional<Incoming>: none if the scope was stopped. One task at a
  /// time. Requests that arrive before serve() was called are only counted.
  detail::NextRequest next_request() { return detail::NextRequest(*this); }
  void serve() { transactor_.serve(); }
  /// The same without a task: the next request, if there is one.
  bool has_request() const { return transactor_.has_request(); }
  std::optional<Incoming> poll_request() { return transactor_.poll_request(); }
  /// Sends a datagram that expects no answer. Errors: those of Transactor::post().
  Result<void> post(const Address& to, ConstBytes mad) { return transactor_.post(to, mad); }

  // Tasks.

  /// Starts a task, which runs in run(). The result is in the Running. `awaitable` is a Task or a Call.
  template <class A>
  Running<A> start(A awaitable) {
    return Running<A>(executor_, std::move(awaitable));
  }
  /// co_await port.sleep(...): true after the whole duration, false if the scope was stopped.
  detail::Sleep sleep(Duration duration) { return executor_.sleep(duration); }
  Executor& executor() { return executor_; }

  const TransportFacts& facts() const { return transactor_.facts(); }
  const LocalPort& local() const { return local_; }
  const Path& sa_path() const { return transactor_.manager_path(); }
  const Counters& counters() const { return transactor_.counters(); }
  const Transactor& transactor() const { return transactor_; }

  // The machine. After any of these: run(), then poll_packet(), then next_deadline().

  /// Handles deadlines, and resumes the tasks that are ready. True if there were any.
  bool run(Instant now);
  /// The packet to send, the same until packet_sent(). Null: none. Call packet_sent() right after it was sent.
  const Packet* poll_packet() { return transactor_.poll_packet(); }
  void packet_sent(Instant now) { transactor_.packet_sent(now); }
  void handle_packet(Instant now, const Address& from, ConstBytes mad) { transactor_.handle_packet(now, from, mad); }
  void handle_refused(Instant now, ConstBytes mad) { transactor_.handle_refused(now, mad); }
  void handle_lost(Instant now, ConstBytes mad) { transactor_.handle_lost(now, mad); }
  void handle_changed(const LocalPort& local);
  Instant next_deadline() const;
  void handle_deadline(Instant now);

 private:
  friend class detail::NextRequest;
  static std::size_t data_of(MgmtClass mgmt_class);
  Transactor::Id open(MgmtClass mgmt_class, Method method, std::uint16_t attribute, const Path& path, ConstBytes body,
                      const RpcOptions& options);
  template <Method M, class A>
  auto sa(const Path& path, const Query<A>& query) {
    return rpc<MgmtClass::subn_adm, M>(path, query.record(), {.component_mask = query.component_mask()});
  }

  LocalPort local_;
  Transactor transactor_;
  Executor executor_;
  detail::NextRequest* server_ = nullptr;  // the task that waits for a request
};

}  // namespace parley::mad
