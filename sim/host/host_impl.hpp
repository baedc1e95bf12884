// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Implementation of a host. Its machine is a StreamMachine over TCP, or with a RoCE engine a PacketMachine over UDP.
// All activity begins in receive(), on_event() or a call from outside, and ends in turn(): it serves the machine and
// the App until they request nothing more, then sends segments and arms the next timer.
#pragma once
#include <array>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/packet_groups.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "cm/providers/roce/roce.hpp"
#include "sim/host/host.hpp"
#include "sim/host/host_frames.hpp"
#include "sim/host/neighbour.hpp"
#include "sim/host/stack.hpp"

namespace parley::sim {

class SimHost final : public HostNode, private PacketGroups {
 public:
  SimHost(Engine& engine, NodeId id, std::uint32_t number, std::string name, const HostOptions& options, Rng rng);
  ~SimHost() override;

  // Host
  NodeId id() const override { return id_; }
  const std::string& name() const override { return name_; }
  Instant now() const override { return engine_.now(); }
  std::size_t nic_count() const override { return nics_.size(); }
  std::string nic_name(std::uint16_t nic) const override;
  Address address(Address::Family family, std::uint16_t nic) const override;
  Address link_local(std::uint16_t nic) const override;
  cm::Manager& cm() override;
  Device& device() override;
  cm::IwarpProvider& provider() override;
  std::size_t endpoint_count() const override;
  void set_machine(StreamMachine* machine) override;
  void set_machine(PacketMachine* machine) override;
  void set_app(App* app) override { app_ = app; }
  void set_timer(Instant at, std::uint64_t cookie) override;
  bool up() const override { return up_; }
  bool paused() const override { return paused_; }
  std::uint32_t incarnation() const override { return incarnation_; }
  void crash() override;
  void restart() override;
  void pause() override;
  void resume() override;
  void end_process() override;
  void stop_process() override;
  void continue_process() override;
  bool process_stopped() const override { return stopped_; }
  bool process_ended() const override { return ended_; }
  HostCounters counters() const override;

  // HostNode
  Checked<std::uint16_t> free_nic(std::string_view name) const override;
  void attach(std::uint16_t nic, LinkPort& link) override;
  void set_network(std::uint16_t nic, std::uint8_t network) override;
  wire::Mac use_directory(std::uint16_t nic, NeighbourDirectory& directory) override;
  void start() override;
  void receive(std::uint16_t port, FramePtr frame) override;
  std::string_view would_discard(std::uint16_t port, const Frame& frame, DropReason& reason) const override;
  void on_event(std::uint32_t kind, std::uint64_t argument) override;

  // PacketGroups; host_packets.cpp
  Result<void> join(const Address& group) override;
  void leave(const Address& group) noexcept override { groups_.erase(group); }

  // Port of base/pump.hpp
  void carry_out(const StreamCommand& command);
  void write(StreamId stream);

 private:
  static constexpr int rounds_max = 1000;                         // rounds of machine and App at one time
  static constexpr Duration rest = std::chrono::milliseconds(1);  // pause after that many rounds
  static constexpr int kicks_max = 64;                            // events for calls from outside, at one time
  static constexpr std::uint64_t backlog_max = 32
                                               << 10;  // octets: an HCA generates no packets while a link has more to
                                                       // send
  static constexpr std::size_t packets_at_once = 16;   // requested from the HCA at once
  static constexpr std::size_t groups_max = 1024;
  static constexpr Duration refusals_every = std::chrono::milliseconds(1);  // RFC 4443 §2.4 (f): ICMP errors are
                                                                            // rate-limited

  enum Event : std::uint32_t { event_tick, event_timer, event_kick, event_crash, event_restart, event_end_process };

  struct Nic {
    NicOptions options;
    PortAddresses addresses;
    LinkPort* link = nullptr;                       // null: nothing is sent or received
    const NeighbourDirectory* directory = nullptr;  // null: neighbours are discovered
    bool usable() const { return link != nullptr && options.engine != NicEngine::none; }
  };
  struct Route {
    std::uint16_t port = 0;
    LocalKind kind = LocalKind::v4;
  };
  struct RingFrame {
    std::uint16_t port = 0;
    FramePtr frame;
  };

  // host.cpp: life and time
  void add_nic(const NicOptions& options);
  NicEngine engine() const;
  void power_up();
  void start_process();
  void drop_process();
  void without_nic();
  void drop_hca();
  bool has_events() const;
  Instant machine_deadline() const;
  void machine_timer();
  void announce();
  void note(NoteKind kind, std::string_view text);
  void post(Instant at, Event event, std::uint64_t argument = 0);
  void turn();
  bool work(int& rounds);
  void arm();
  void tick();
  void kick();

  // host_process.cpp: the process, apart from its kernel
  void reset_sockets();
  void hold(TcpConnection& c);
  void release_held();
  void run_late_timers();
  void app_timer(std::uint64_t cookie);
  static bool is_for_the_process(const FrameIn& in);
  bool keeps(std::uint16_t port, const Frame& frame);

  // host_receive.cpp: frames in
  void handle_frame(std::uint16_t port, const Frame& frame);
  void handle_arp(std::uint16_t port);
  void handle_neighbour(std::uint16_t port);
  void handle_segment(std::uint16_t port);
  void handle_stray(const ConnectionKey& key);
  void accept(const ConnectionKey& key, Listener& listener);
  void drain_neighbours();
  void ask(const NeighbourAsk& question);
  void neighbour_failed(std::uint16_t port, const Address& address);

  // host_packets.cpp: between the HCA and UDP
  bool hca_is_quiet();
  bool pump_packets();
  void carry_out(const PacketCommand& command);
  std::optional<std::errc> bind(const PacketCommand& command, Address& local) const;
  bool is_bound(std::uint16_t port, LocalKind kind) const;
  bool route_to_group(const Address& local, Route& out) const;
  bool is_bound(std::uint16_t port, Address::Family family) const;
  RoceFlow* flow_of(const PacketPath& path, Route& route);
  void send_packets(const PacketPath& path, const PacketRun& run);
  void forget_ways() {
    sends_ = {};
    came_ = {};
  }
  void send_to(std::uint16_t port, const Address& peer, FramePtr frame);
  bool must_wait();
  std::size_t packets_until_waiting() const;
  bool find_way(std::uint16_t port);
  void handle_roce(std::uint16_t port);
  void handle_unreachable(std::uint16_t port);
  void handle_segment_undelivered(std::uint16_t port);
  void refuse_datagram(std::uint16_t port);

  // host_stream.cpp: between the machine and the connections
  void open(const StreamCommand& command);
  std::optional<std::errc> open_connection(const StreamCommand& command);
  std::optional<std::errc> route_to(const Address& peer, const Address& local, Route& out) const;
  void listen(const StreamCommand& command);
  std::optional<std::errc> check_local(const Address& local) const;
  bool close_listener(StreamId id);
  void close(std::uint32_t slot, bool reset);
  void finish(std::uint32_t slot);
  void delivered(StreamId stream);
  void digest(ConnectionRef ref, ConstBytes in);
  bool deliver(ConnectionRef ref, ConstBytes in);
  void on_connected(ConnectionRef ref);
  void on_ended(ConnectionRef ref, TcpEvent event);
  void free_connection(std::uint32_t slot);
  void pump_machine();
  void flush();
  void send_segments(TcpConnection& c);
  void send(const ConnectionKey& key, const wire::TcpHeader& header, std::span<const ConstBytes> payload,
            NeighbourRef& neighbour);
  void transmit(std::uint16_t port, FramePtr frame);
  void mark_dirty(std::uint32_t slot);
  void watch(std::uint32_t slot);
  Address local_of(const TcpConnection& c) const;
  Address peer_of(const ConnectionKey& key) const;
  StreamInfo info_of(const TcpConnection& c) const;
  std::uint16_t mss_of(Route route) const;
  void count_stream();

  Engine& engine_;
  NodeId id_;
  std::uint32_t number_;
  std::string name_;
  HostOptions options_;
  Rng rng_;
  std::vector<Nic> nics_;
  App* app_ = nullptr;

  std::unique_ptr<cm::IwarpProvider> provider_;
  std::unique_ptr<cm::Manager> manager_;
  StreamMachine* given_ = nullptr;    // instead of the provider
  StreamMachine* machine_ = nullptr;  // the active one of the two; null while down, or with packets_
  std::unique_ptr<cm::RoceProvider> hca_;
  PacketMachine* given_packets_ = nullptr;  // instead of the HCA
  PacketMachine* packets_ = nullptr;        // the active one of the two; null while down, or with machine_
  bool up_ = true, paused_ = false, started_ = false;
  bool ended_ = false, stopped_ = false;  // state of the process
  bool in_turn_ = false;
  bool stirred_ = false;  // the machine got input since the App last ran
  std::uint32_t incarnation_ = 1;

  std::unique_ptr<Stack> stack_;
  std::map<BindId, Address> bound_;  // addresses that the HCA receives on; any() for a whole family. At most one per
                                     // endpoint
  HostGroups groups_;                // at most groups_max
  Instant packets_from_{};           // a link is busy until then; in the past if none is busy
  Instant refusals_from_{};          // when the next ICMP error may be sent
  RoceFlows flows_out_;
  // The last packet in each direction: the next one probably takes the same path.
  struct {
    std::uint64_t way = 0;  // PacketPath::way
    Route route;
    RoceFlow* flow = nullptr;
    std::uint64_t flow_way = 0;  // its place in the table may have been reused
  } sends_;
  struct {
    PacketPath path;
    std::uint16_t port = 0;
    NeighbourRef neighbour;
  } came_;
  mutable RoceFlows flows_in_;  // mutable, because a tap's queries may also use it
  NeighbourTable neighbours_;
  DeadlineQueue deadlines_;           // of connections, by slot; never later than the connection's own, perhaps earlier
  std::vector<ConnectionRef> dirty_;  // to be flushed; each slot once
  StreamId serial_ = 0;               // even numbers belong to the driver; not reused after a crash
  std::uint16_t ip_id_ = 0;
  // Lists, which take no memory while they are empty, as almost always.
  std::list<RingFrame> ring_;        // while paused; at most options_.ring
  std::list<RingFrame> socket_;      // RoCE, while the process is stopped; at most options_.ring
  std::vector<std::uint64_t> late_;  // cookies of timers that expired while paused or stopped
  std::vector<Instant> ticks_;       // pending tick events, each earlier than the one before it
  Instant resting_until_{};          // machine and App kept each other busy: pause until then
  Instant kicked_at_ = never;
  int kicks_ = 0;
  bool kick_pending_ = false;

  FrameIn in_;  // the frame being handled
  HostCounters counters_;
  std::uint64_t retransmits_gone_ = 0;  // total of connections that no longer exist
  std::uint64_t out_of_order_gone_ = 0;
};

}  // namespace parley::sim
