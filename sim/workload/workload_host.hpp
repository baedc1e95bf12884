// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The part of a workload on one host: its listeners, its connections and their timers. It survives crashes; the state
// of one incarnation is dropped with it.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/workload/workload.hpp"
#include "sim/workload/workload_groups.hpp"
#include "sim/workload/workload_traffic.hpp"

namespace parley::sim {

class XrcTarget;

class HostApp final : public App {
 public:
  /// `index`: the host's number in the world.
  HostApp(Workload& workload, Host& host, std::size_t index, const ScenarioHost& spec);
  ~HostApp() override;

  void on_start(Host& host) override;
  void on_crash(Host& host) override;
  void on_turn(Host& host) override;
  void on_timer(Host& host, std::uint64_t cookie) override;

  Host& host() { return host_; }
  const Host& host() const { return host_; }
  std::size_t index() const { return index_; }
  bool roce() const { return roce_; }
  /// Queries the addresses of initiators that are not known yet. Returns true if all are known now.
  bool learn();
  /// Checks ends that have nothing to wait for: established, done, and closed by neither side. Those whose peer is gone
  /// are still watched.
  void wake_abandoned();
  std::size_t resting() const { return resting_; }
  /// Includes the endpoints of XRC nodes.
  std::size_t listeners() const;
  const std::vector<std::unique_ptr<XrcTarget>>& targets() const { return targets_; }
  void pending(std::vector<std::string>& out, std::size_t max) const;
  /// When its host or process last crashed, ended, paused or stopped.
  Instant halted_at() const { return halted_at_; }
  void touched(Instant at) { halted_at_ = at; }
  /// Ends that wait for something; those that rest are not among them.
  std::size_t ends_open() const;
  /// Their host stays paused, or its process stopped: they wait no longer.
  void abandon();
  /// Starts connections that were not started yet, and restarts those with retries left.
  void schedule_all();
  void schedule_try(std::uint32_t wanted, Duration after);

 private:
  enum class Timer : std::uint8_t {
    listen,
    next,
    start,
    decide,
    close,
    forget,
    watch,
    silence,
    join,
    leave,
    send,
    xrc,
    exit,
    held
  };
  /// One end of a connection in this incarnation.
  struct OpenEnd {
    std::uint32_t serial = 0;
    check::Attempt* attempt = nullptr;
    check::End* record = nullptr;
    const ScenarioConnect* spec = nullptr;
    const ScenarioListen* listen = nullptr;  // responder
    cm::Id id;
    std::unique_ptr<Traffic> transfer;
    bool over = false;
    bool resting = false;
    bool closing = false;                           // its close is scheduled or done
    bool learned = false;                           // its local address is recorded
    bool reject = false;                            // responder: it will reject
    std::uint32_t asking = 0;                       // XRC: unanswered SIDR_REQs
    std::map<std::uint32_t, std::uint32_t> queues;  // XRC: the answers, by process
    Instant progress_at{};
    std::uint64_t progress = 0;
  };

  /// A connection that an XRC service holds.
  struct XrcConnection {
    check::Attempt* attempt = nullptr;
    check::End* record = nullptr;
    std::size_t listen = 0;
    bool over = false;
  };
  /// A SIDR_REQ for the number of a process's queue.
  struct SidrQuery {
    cm::Id id;
    std::uint32_t serial = 0, process = 0;
  };
  static constexpr std::uint64_t held_mask = (std::uint64_t{1} << 40) - 1;  // bits of a timer cookie

  void set_timer(Instant at, Timer kind, std::uint64_t index);
  OpenEnd* find(std::uint64_t serial) { return serial < live_.size() ? live_[serial].get() : nullptr; }
  OpenEnd* find(const cm::Id& id);
  OpenEnd& add(check::Attempt& attempt, check::End& record, const ScenarioConnect& spec);
  void open_listener(std::size_t listen);
  void start_next(std::uint32_t connect);
  void start_try(std::uint32_t wanted);
  void connect_try(OpenEnd& end);
  // XRC; workload_host_xrc.cpp
  void open_target(std::size_t listen);
  void exit_process(std::size_t exit);
  void turn_targets();
  bool handle_xrc(cm::Event& event);
  void begin_held(const XrcTarget& target, const cm::ConnectRequest& request, const Address& local, bool accepted);
  void handle_xrc_event(XrcConnection& held, const cm::Event& event);
  void end_of(XrcConnection& held);
  void watch_held(std::uint64_t short_number);
  void deliver(std::size_t listen, std::size_t process, ConstBytes octets);
  void ask(OpenEnd& end);
  void answer(std::uint64_t number, cm::Event& event);
  Address peer_address(const ScenarioConnect& spec, const Route& route, std::uint16_t nic) const;
  /// The scenario's options of one side, as options of its transport.
  template <class Options>
  Options options_of(const mpa::StartupOptions& mpa, QpKind qp) const;
  bool prepare(OpenEnd& end);
  void drain_completions();
  void dispatch(cm::Event& event);
  void on(cm::Listening& event);
  void on(cm::ConnectRequest& event);
  void on(cm::Established& event);
  void on(cm::Rejected& event);
  void on(cm::ConnectFailed& event);
  void on(cm::Retrying& event);
  void on(cm::Disconnected& event);
  void on(cm::TurnedAway& event);
  // Events of NICs, and events that programs post themselves: never here.
  void on(cm::AddressChanged&) {}
  void on(cm::DeviceRemoved&) {}
  void on(cm::UserEvent&) {}
  void on(cm::Resolved&) {}
  void on(cm::TimewaitExit&) {}
  void decide(OpenEnd& end);
  void learn_later(const OpenEnd& end);
  void learn_address(OpenEnd& end);
  void record_event(OpenEnd& end, check::CmEventRecord event);
  void record_failure(OpenEnd& end, check::CmEventKind what, const cm::Failure& why);
  void after_progress(OpenEnd& end);
  void close(OpenEnd& end);
  void watch(OpenEnd& end);
  void await(OpenEnd& end);
  void give_up(OpenEnd& end);
  void end_of(OpenEnd& end);
  void forget(OpenEnd& end);
  void stray(std::string_view event, const cm::Id& id);

  Workload& workload_;
  Host& host_;
  const std::size_t index_;
  // State of the current incarnation.
  PdHandle pd_ = 0;
  std::unique_ptr<CompletionQueue> cq_;
  std::vector<std::unique_ptr<OpenEnd>> live_;                    // by serial; null once forgotten
  std::unordered_map<std::uint64_t, std::uint32_t> by_id_;        // never iterated
  std::unordered_map<std::uint32_t, std::uint32_t> by_qp_;        // never iterated
  std::vector<std::uint32_t> unlearned_;                          // initiators whose address is not known yet
  std::vector<std::pair<std::uint64_t, std::size_t>> listening_;  // number of the id, index of the listen
  std::size_t listeners_ = 0, resting_ = 0;
  std::unique_ptr<GroupUser> groups_;  // null if no groups are possible
  std::vector<std::unique_ptr<XrcTarget>> targets_;
  std::map<std::uint64_t, XrcConnection> held_;                             // by the id's number
  std::map<std::uint64_t, SidrQuery> asked_;                                // by the id's number
  std::map<std::pair<std::uint32_t, std::size_t>, std::uint32_t> next_of_;  // an attempt's next message for a process
  Instant xrc_armed_ = never;
  const bool roce_;  // else iWARP
  bool running_ = false;
  Instant halted_at_{};
};

}  // namespace parley::sim
