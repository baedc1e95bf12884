// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The objects of a verbs program: each derives from libibverbs' structure, which is all that the program sees, and
// holds Parley's object.
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

/// A descriptor that is readable while an event is pending. It is the program's end of a socket pair for two reasons:
/// recv() can wait without consuming anything (MSG_PEEK), and the kernel restarts it after a signal handler with
/// SA_RESTART.
class EventDescriptor {
 public:
  EventDescriptor();
  ~EventDescriptor();
  EventDescriptor(const EventDescriptor&) = delete;
  EventDescriptor& operator=(const EventDescriptor&) = delete;
  int fd() const { return ends_[0]; }  ///< -1: the system could not create one
  void set(bool readable);
  /// Closes the program's end. A thread in wait() stays blocked, as in read(2) on a file that another thread closes.
  void hang_up();
  /// The program has closed its end.
  void forget() { ends_[0] = -1; }
  /// Waits until `fd` is readable. False, with errno: `fd` is non-blocking (EAGAIN), or a signal arrived (EINTR).
  static bool wait(int fd);

 private:
  int ends_[2] = {-1, -1};
  bool readable_ = false;
};

/// An opened device.
struct Context final : verbs_context, Listener {
  Context();
  ~Context() override;
  void update_descriptors() override;
  bool handle(const AsyncEvent& event) override;
  void forget(const void* object);  ///< drops the pending events of an object that is being destroyed

  EventDescriptor bell;
  std::shared_ptr<Engine> engine;
  std::vector<Channel*> channels;
  std::map<const CompletionQueue*, ibv_cq*> cqs;
  std::vector<ibv_srq*> srqs;
  std::vector<ibv_qp*> qps;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<XrcDomain>> domains;  // by the file that identifies each
  std::deque<ibv_async_event> events;                                   // at most one of each type for each object
};

struct Pd final : ibv_pd {
  PdHandle number = 0;
  ibv_pd* parent = nullptr;             // parent domain: the protection domain of which it is another handle
  ibv_td* thread = nullptr;             // parent domain: its thread domain, if any
  std::atomic<std::uint32_t> users{0};  // parent domains
};

/// A thread domain has no effect: one lock serves all calls.
struct Td final : ibv_td {
  std::atomic<std::uint32_t> users{0};  // parent domains
};

struct Mr final : ibv_mr {
  unsigned int access = 0;  ///< as the program gave it
};

/// Its descriptor is readable while a completion queue has an event in it.
struct Channel final : ibv_comp_channel {
  std::unique_ptr<CompletionChannel> inner;
  EventDescriptor bell;
  void update_descriptors() { bell.set(inner->waiting() > 0); }
};

/// Counts the events of an object that the program has read. Destroying the object waits until each is acknowledged, as
/// in libibverbs. Uses the members of libibverbs' structure.
class EventCount {
 public:
  EventCount(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed);
  ~EventCount();
  EventCount(const EventCount&) = delete;
  EventCount& operator=(const EventCount&) = delete;
  void got_one() { ++got_; }  ///< the caller holds the engine's lock
  void acknowledge(std::uint32_t events);
  void wait();  ///< call it when the object can get no more events

 private:
  pthread_mutex_t& mutex_;
  pthread_cond_t& cond_;
  std::uint32_t& completed_;
  std::uint32_t got_ = 0;
};

/// ibv_create_cq() also returns one of these: ibv_cq and ibv_cq_ex begin with the same members.
struct Cq final : ibv_cq_ex {
  std::mutex polls;  // held from ibv_start_poll() to ibv_end_poll(): one thread at a time
  ibv_wc polled{};   // the completion that ibv_start_poll() or ibv_next_poll() took
  Instant polled_at{};
  std::atomic<std::uint32_t> users{0};  // queue pairs and XRC shared receive queues
  std::unique_ptr<CompletionQueue> inner;
  EventCount events{mutex, cond, comp_events_completed};
};

struct Srq final : ibv_srq {
  std::unique_ptr<SharedReceiveQueue> inner;
  EventCount events{mutex, cond, events_completed};
  std::atomic<std::uint32_t> users{0};
  std::uint32_t max_sge = 0;
  ibv_cq* cq = nullptr;  // XRC only, as xrcd
  ibv_xrcd* xrcd = nullptr;
};

struct Ah final : ibv_ah {
  std::unique_ptr<AddressHandle> inner;
};

struct Xrcd final : ibv_xrcd {
  std::shared_ptr<XrcDomain> inner;
  std::atomic<std::uint32_t> users{0};  // shared receive queues and queue pairs
};

/// Inline data of requests. Posting copies it into a slot, which is free again when that request is complete. The slots
/// form a ring, because requests complete in order.
struct InlineRing {
  std::vector<std::uint8_t> octets;
  std::uint32_t lkey = 0;
  std::uint32_t size = 0;  // of a slot, in octets; 0: there are no slots
  std::uint64_t posted = 0;
};

/// Room for the SGEs of a request, or for what it binds a memory window to. Unused elements are never initialized.
struct Pieces {
  alignas(Sge) std::array<std::byte, sizeof(Sge) * sge_max> room;
};

/// A request that functions of ibv_qp_ex are building.
struct Built {
  ibv_send_wr wr{};
  ibv_sge sges[sge_max]{};
  std::vector<std::uint8_t> carried;
  Pieces pieces;  // SGEs of the posted request
};

struct Qp final : ibv_qp_ex {
  std::unique_ptr<QueuePair> inner;
  EventCount events{qp_base.mutex, qp_base.cond, qp_base.events_completed};
  ibv_qp_cap cap{};
  ibv_xrcd* xrcd = nullptr;  // XRC_RECV only
  bool all_signaled = false;
  InlineRing inlined;
  std::mutex builds;         // held from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort(): one thread at a time
  std::vector<Built> built;  // the first `building` are in use; never shrinks
  std::vector<SendWr> requests;  // the same, as they are posted
  std::size_t building = 0;
  int wrong = 0;  // errno of a builder call
};

/// The engine of the process; makes it if there is none. It ends with its last user. Errors: as ibv_open_device().
Result<std::shared_ptr<Engine>> engine();
/// Drops a reference. If it was the last one, the engine's addresses are free before another engine binds them.
void release(std::shared_ptr<Engine> engine);
/// The port's active MTU: the largest one that fits the interfaces of all its addresses.
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

/// The access flags of memory regions and queue pairs that have an effect.
inline constexpr unsigned int rights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Access flags that the device accepts and ignores: the system manages pages.
inline constexpr unsigned int harmless_rights = unsigned{IBV_ACCESS_HUGETLB} | unsigned{IBV_ACCESS_OPTIONAL_RANGE};

/// Writes a line to standard error.
void print_line(const std::string& what, const std::string& why);
/// As print_line(), but only with PARLEY_VERBS_LOG.
void note(const std::string& what, const std::string& why);
std::string words_of(const Error& error);
/// Sets errno for the error and returns it. Writes the sentence to standard error if PARLEY_VERBS_LOG is set.
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

/// Fill the function tables of ibv_context, verbs_context and ibv_qp_ex; the comment names the file with the functions.
void set_data_path(verbs_context& to);    // post.cpp
void set_xrc(verbs_context& to);          // srq.cpp
void set_domains(verbs_context& to);      // memory.cpp; memory windows too
void set_extended_cq(verbs_context& to);  // cq_ex.cpp
void set_extended_qp(ibv_qp_ex& to);      // build.cpp
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                    std::size_t size);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
/// A LID without a GRH is converted to the GIDs of that path, if the port is shown as an InfiniBand port.
AhAttr address_of(ibv_context* context, const ibv_ah_attr& attr);
/// ibv_attach_mcast and ibv_detach_mcast.
int with_group(const char* call, ibv_qp* qp, const ibv_gid& gid, bool attach);
/// Implements ibv_create_cq() and ibv_create_cq_ex(). Null: refused; errno is set.
Cq* make_cq(const char* call, ibv_context* context, std::uint32_t cqe, void* user, ibv_comp_channel* channel,
            std::uint32_t vector);
/// Converts a completion to libibverbs' structure.
ibv_wc to_ibv_wc(const WorkCompletion& from);
/// Converts a send request to Parley's structure `to`, with its SGEs in `pieces`. `ahead`: the number of requests of
/// the same call that precede it and are not posted yet. Returns 0, or the errno after refused().
int to_request(const char* call, Qp& qp, const ibv_send_wr& from, std::size_t ahead, Pieces& pieces, SendWr& to);
/// Registers a queue pair that was created or opened with the context, and returns it for the program.
ibv_qp* hand_over(ibv_context* context, Qp* qp);  // qp.cpp

}  // namespace parley::preload

/// Declares a function that replaces libibverbs' function of the same name.
#define PARLEY_VERB extern "C" __attribute__((visibility("default")))
