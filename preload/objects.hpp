// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a program holds: each of libibverbs' structures with Parley's object behind it. A program sees the first part alone.
#pragma once
#include <infiniband/verbs.h>

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "preload/engine.hpp"

namespace parley::preload {

struct Channel;

/// A descriptor that is readable while something waits behind it: the program's end of a pair of sockets, since one may look into
/// those without taking anything, and a signal's handler does not end the wait of who has it restarted (SA_RESTART).
class Bell {
 public:
  Bell();
  ~Bell();
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  int fd() const { return ends_[0]; }  ///< -1: the system gives none
  void set(bool readable);
  /// Closes the program's end. Whom it keeps waiting waits on, as in a read of a file that is closed meanwhile.
  void hang_up();
  /// Until it is readable. False: the program wants no wait, or a signal came (errno).
  static bool wait(int fd);

 private:
  int ends_[2] = {-1, -1};
  bool readable_ = false;
};

/// An opened device.
struct Context final : verbs_context, Listener {
  Context();
  ~Context() override;
  void look() override;
  bool take(const AsyncEvent& event) override;
  void forget(const void* object);  ///< that is destroyed: its events

  Bell bell;
  std::shared_ptr<Engine> engine;
  std::vector<Channel*> channels;
  std::map<const CompletionQueue*, ibv_cq*> cqs;
  std::vector<ibv_srq*> srqs;
  std::vector<ibv_qp*> qps;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<XrcDomain>> domains;  // by the file that stands for each
  std::deque<ibv_async_event> events;                                   // at most one of each kind of each object
};

struct Pd final : ibv_pd {
  PdHandle number = 0;
  ibv_pd* parent = nullptr;  // of a parent domain, which is another handle of this one: whose memory and queues it has
  ibv_td* thread = nullptr;  // of a parent domain
  std::atomic<std::uint32_t> users{0};  // parent domains
};

/// A thread domain changes nothing: one lock is for all calls.
struct Td final : ibv_td {
  std::atomic<std::uint32_t> users{0};  // parent domains
};

struct Mr final : ibv_mr {};

/// Its descriptor is readable while a completion queue waits in it.
struct Channel final : ibv_comp_channel {
  std::unique_ptr<CompletionChannel> inner;
  Bell bell;
  void look() { bell.set(inner->waiting() > 0); }
};

/// Events of an object that the program got: what destroys it waits until each is acknowledged, as libibverbs does. Over the members
/// that libibverbs' structure has for it.
class Acknowledged {
 public:
  Acknowledged(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed);
  ~Acknowledged();
  Acknowledged(const Acknowledged&) = delete;
  Acknowledged& operator=(const Acknowledged&) = delete;
  void got_one() { ++got_; }  ///< under the engine's lock
  void acknowledge(std::uint32_t events);
  void wait();  ///< once it gets no more

 private:
  pthread_mutex_t& mutex_;
  pthread_cond_t& cond_;
  std::uint32_t& completed_;
  std::uint32_t got_ = 0;
};

/// Also what ibv_create_cq() gives: the structures begin alike.
struct Cq final : ibv_cq_ex {
  std::mutex polls;  // from ibv_start_poll() on: one thread at a time
  ibv_wc polled{};   // by ibv_start_poll() and ibv_next_poll()
  Instant polled_at{};
  std::atomic<std::uint32_t> users{0};  // queue pairs and XRC shared receive queues
  std::unique_ptr<CompletionQueue> inner;
  Acknowledged events{mutex, cond, comp_events_completed};
};

struct Srq final : ibv_srq {
  std::unique_ptr<SharedReceiveQueue> inner;
  Acknowledged events{mutex, cond, events_completed};
  std::atomic<std::uint32_t> users{0};
  std::uint32_t max_sge = 0;
  ibv_cq* cq = nullptr;  // of XRC
  ibv_xrcd* xrcd = nullptr;
};

struct Ah final : ibv_ah {
  std::unique_ptr<AddressHandle> inner;
};

struct Xrcd final : ibv_xrcd {
  std::shared_ptr<XrcDomain> inner;
  std::atomic<std::uint32_t> users{0};  // shared receive queues and queue pairs
};

/// Octets that requests carry by themselves: copied when posted, into a slot that is free again when the request that had it is
/// complete. A ring, since requests complete in order.
struct InlineRing {
  std::vector<std::uint8_t> octets;
  std::uint32_t lkey = 0;
  std::uint32_t size = 0;  // of a slot; 0: there are none
  std::uint64_t posted = 0;
};

/// Room for the pieces of a request; those that it has not are never touched.
struct Pieces {
  alignas(Sge) std::array<std::byte, sizeof(Sge) * sge_max> room;
};

/// A request that is being built by the functions of ibv_qp_ex.
struct Built {
  ibv_send_wr wr{};
  ibv_sge sges[sge_max]{};
  std::vector<std::uint8_t> carried;
  Pieces pieces;  // of what is posted
};

struct Qp final : ibv_qp_ex {
  std::unique_ptr<QueuePair> inner;
  Acknowledged events{qp_base.mutex, qp_base.cond, qp_base.events_completed};
  ibv_qp_cap cap{};
  ibv_xrcd* xrcd = nullptr;  // of XRC_RECV
  bool all_signaled = false;
  InlineRing inlined;
  std::mutex builds;             // from ibv_wr_start() on: one thread at a time
  std::vector<Built> built;      // as many as were ever built at once
  std::vector<SendWr> requests;  // what is posted of them
  std::size_t building = 0;
  int wrong = 0;  // errno of what was built
};

/// The engine of the process, which is made where there is none: it ends with its last user. Errors: as ibv_open_device().
Result<std::shared_ptr<Engine>> engine();
/// Whose last user has gone: its addresses are free before another one takes them.
void release(std::shared_ptr<Engine> engine);
/// Of the port: what the narrowest interface of its addresses takes.
ibv_mtu active_mtu(const Engine& engine);

inline Context& of(ibv_context* context) { return *static_cast<Context*>(verbs_get_ctx(context)); }
inline Pd& of(ibv_pd* pd) { return *static_cast<Pd*>(pd); }
inline Channel& of(ibv_comp_channel* channel) { return *static_cast<Channel*>(channel); }
inline Cq& of(ibv_cq_ex* cq) { return *static_cast<Cq*>(cq); }
inline Cq& of(ibv_cq* cq) { return of(reinterpret_cast<ibv_cq_ex*>(cq)); }
inline Srq& of(ibv_srq* srq) { return *static_cast<Srq*>(srq); }
inline Td& of(ibv_td* td) { return *static_cast<Td*>(td); }
inline Ah& of(ibv_ah* ah) { return *static_cast<Ah*>(ah); }
inline Xrcd& of(ibv_xrcd* xrcd) { return *static_cast<Xrcd*>(xrcd); }
inline Qp& of(ibv_qp_ex* qp) { return *static_cast<Qp*>(qp); }
inline Qp& of(ibv_qp* qp) { return of(reinterpret_cast<ibv_qp_ex*>(qp)); }  // its first member

/// Engine::is_own().
inline bool is_own(ibv_context* context) { return of(context).engine->is_own(); }

template <class Call>
auto with(ibv_context* context, Call&& call) {
  return of(context).engine->with(std::forward<Call>(call));
}

/// What memory and queue pairs have of access flags.
inline constexpr unsigned int rights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// A line to standard error.
void tell(const std::string& what, const std::string& why);
std::string words_of(const Error& error);
/// The errno for it, which is set as well; the sentence goes to standard error if PARLEY_VERBS_LOG asks for it.
int refused(const char* call, const Error& error);
int refused(const char* call, int number, const char* why);
int outcome(const char* call, const Result<void>& result);
template <class T>
T* none(const char* call, const Error& error) {
  (void)refused(call, error);
  return nullptr;
}
template <class T>
T* none(const char* call, int number, const char* why) {
  (void)refused(call, number, why);
  return nullptr;
}

/// What ibv_context's and verbs_context's tables of functions hold, by the file that has them.
void set_data_path(verbs_context& to);    // post.cpp
void set_xrc(verbs_context& to);          // srq.cpp
void set_domains(verbs_context& to);      // memory.cpp
void set_extended_cq(verbs_context& to);  // cq_ex.cpp
void set_extended_qp(ibv_qp_ex& to);      // build.cpp
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
AhAttr address_of(const ibv_ah_attr& attr);
/// ibv_attach_mcast and ibv_detach_mcast.
int with_group(const char* call, ibv_qp* qp, const ibv_gid& gid, bool attach);
/// What ibv_create_cq() does; null: refused.
Cq* make_cq(const char* call, ibv_context* context, std::uint32_t cqe, void* user, ibv_comp_channel* channel,
            std::uint32_t vector);
/// As ibv_poll_cq() has it.
ibv_wc told(const WorkCompletion& from);
/// What `from` asks for, in Parley's words; its pieces are in `pieces`. `ahead`: requests of the same call before it, which are not posted
/// yet. Otherwise the errno, after refused().
int to_request(const char* call, Qp& qp, const ibv_send_wr& from, std::size_t ahead, Pieces& pieces, SendWr& to);
/// A queue pair that was made or opened, from now on the program's.
ibv_qp* hand_over(ibv_context* context, Qp* qp);  // qp.cpp

}  // namespace parley::preload

/// What the program calls in place of libibverbs' function of the name.
#define PARLEY_VERB extern "C" __attribute__((visibility("default")))
