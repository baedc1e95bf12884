// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The kernel's side of /dev/infiniband/rdma_cm (Linux's rdma_user_cm.h, ABI version 4) on Parley's InfiniBand CM.
// librdmacm writes its commands to this file. The class is pure: its inputs are commands, MADs and the time; its
// outputs are responses, events, MADs and a deadline.
//
//   write(now, host, file, octets)  one write(2) of the program; returns 0, or the errno that Linux returns
//   handle_mad()                    a MAD that QP1 received
//   handle_deadline()               next_deadline() has passed
//   After each of these, call poll_transmit() until it returns false, and readable(file) for each file that
//   poll_changed() returns.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <rdma/rdma_user_cm.h>

#include "base/rng.hpp"
#include "cm/ibcm/agent.hpp"
#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "preload/ucma/id.hpp"
#include "preload/ucma/services.hpp"

namespace parley::preload::ucma {

/// Services that a command needs from the program's process and its machine.
class Host {
 public:
  virtual ~Host() = default;
  /// Copies from and to the program's memory. False: the memory is not mapped (EFAULT).
  virtual bool read(std::uint64_t from, MutBytes to) = 0;
  virtual bool write(std::uint64_t to, ConstBytes from) = 0;
  /// The source address that the machine's routing table selects for packets to `peer`. None: there is no route.
  virtual std::optional<Address> source_toward(const Address& peer) = 0;
};

struct CoreOptions {
  std::array<std::uint8_t, 8> node_guid{};  ///< the device's, big-endian as ibv_get_device_guid() returns it
  std::uint64_t seed = 1;                   ///< for ports, PSNs, and the CM's communication and transaction IDs
  std::vector<Address> addresses{};         ///< the port's, indexed by GID index; their port numbers are 0
  std::uint8_t mtu = 3;                     ///< path MTU: 1 to 5 for 256 to 4096 octets
  std::uint8_t id_prefix = 0;               ///< AgentOptions::id_prefix
  Services* services = nullptr;             ///< not owned; null: all requests to the port are this process's
  // Bounds. Beyond them a command returns ENOMEM, and a peer's request is turned away until the peer retransmits it.
  std::size_t ids_max = 65536, groups_max = 4096;
};

class Core {
 public:
  static constexpr std::uint32_t backlog_max = 1024;  ///< as Linux's max_backlog

  explicit Core(const CoreOptions& options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void open(File file);
  /// Destroys the ids of the file. Established connections are disconnected.
  void close(Instant now, File file);
  /// Returns 0 or an errno. EAGAIN: RDMA_USER_CM_CMD_GET_EVENT found no event; repeat it when readable(file) is true.
  int write(Instant now, Host& host, File file, ConstBytes command);
  bool readable(File file) const;
  /// The next file whose readable() may have changed since the last call. None: no other file has changed.
  std::optional<File> poll_changed();
  /// The name of the command in `octets`, for example "RDMA_USER_CM_CMD_BIND_IP".
  static const char* name_of(ConstBytes octets);

  void handle_mad(Instant now, const cm::ibcm::MadFrom& from, ConstBytes mad);
  void handle_deadline(Instant now);
  Instant next_deadline() const {
    return again_.empty() ? agent_.next_deadline() : std::min(agent_.next_deadline(), again_.begin()->first);
  }
  bool poll_transmit(cm::ibcm::MadTo& to, MutBytes out) { return agent_.poll_transmit(to, out); }

  std::size_t ids() const { return ids_.size(); }
  std::size_t events(File file) const;

 private:
  struct Call {
    Instant now;
    Host& host;
    File file;
    ConstBytes in;
    std::size_t room;  ///< for the response, in octets (rdma_ucm_cmd_hdr::out)
  };
  struct OpenFile {
    std::deque<Event> events;  // at most a dozen for each id and group, and each listener's backlog
    bool changed = false;      // it is in changed_
  };
  struct Command {
    const char* name;
    int (Core::*handler)(const Call&);
  };
  static const Command* command_of(ConstBytes octets);

  // core.cpp
  int create_id(const Call& call);
  int destroy_id(const Call& call);
  int get_event(const Call& call);
  int migrate_id(const Call& call);
  int set_option(const Call& call);
  Id& make_id(File file, std::uint16_t space, std::uint8_t qp_type);
  /// ENOENT: no id has that number; EINVAL: the id belongs to another file.
  int find(File file, std::uint32_t number, Id*& out);
  void destroy(Instant now, Id& id);
  void drop_events(Instant now, const Id& id);
  Event& push(const Id& id, std::uint32_t event, int status = 0);
  /// The events of the file, for a caller that adds or removes some.
  std::deque<Event>& change(File file);
  template <class T>
  static int give(const Call& call, std::uint64_t response, const T& all, std::size_t least = sizeof(T));

  // address.cpp
  int bind_ip(const Call& call);
  int bind(const Call& call);
  int resolve_ip(const Call& call);
  int resolve_addr(const Call& call);
  int resolve_route(const Call& call);
  int query_route(const Call& call);
  int query(const Call& call);
  int listen(const Call& call);
  int bind_to(Id& id, const Address& local);
  int reserve_port(const Id& id, Address& local);
  int conflict(const Id& id, const Address& local, bool reuse) const;
  int resolve_to(const Call& call, Id& id, const std::optional<Address>& source, Address peer);
  std::optional<Address> choose_source(Host& host, const Address& peer) const;
  std::optional<std::uint8_t> index_of(const Address& address) const;
  std::vector<std::uint8_t> gids_of(const Id& listener) const;
  void attach(Id& id, const Address& local);
  int query_path(const Call& call, const Id& id, std::uint64_t response) const;

  // connect.cpp
  int connect(const Call& call);
  int accept(const Call& call);
  int reject(const Call& call);
  /// `reason`: of a REJ; a SIDR_REP has none.
  int send_reject(Instant now, const Id& id, std::uint8_t reason, ConstBytes data);
  int disconnect(const Call& call);
  int notify(const Call& call);
  int init_qp_attr(const Call& call);
  int request(Instant now, Id& id);
  int request_service(Instant now, Id& id);
  cm::ibcm::Path path_of(const Id& id) const;
  void join_agent(Id& id, cm::ibcm::ConnectionId cm);

  // groups.cpp
  int join_ip_mcast(const Call& call);
  int join_mcast(const Call& call);
  int leave_mcast(const Call& call);
  int join(const Call& call, const rdma_ucm_join_mcast& asked, const Address& group);

  // agent_events.cpp: events of the CM
  void handle_events(Instant now);
  Id* by_cm(cm::ibcm::ConnectionId cm);
  Id* listener_for(std::uint64_t service, const Address& local);
  Id* admit(Instant now, std::uint64_t service, const cm::ibcm::MadFrom& from, cm::ibcm::ConnectionId cm,
            ConstBytes private_data, Id*& listener);
  void on(Instant now, const cm::ibcm::RequestReceived& event);
  void on(Instant now, const cm::ibcm::ReplyReceived& event);
  void on(Instant now, const cm::ibcm::Ready& event);
  void on(Instant now, const cm::ibcm::Rejected& event);
  void on(Instant now, const cm::ibcm::Failed& event);
  void on(Instant now, const cm::ibcm::DisconnectRequested& event);
  void on(Instant now, const cm::ibcm::Disconnected& event);
  void on(Instant now, const cm::ibcm::TimewaitExit& event);
  void on(Instant now, const cm::ibcm::SidrRequested& event);
  void on(Instant now, const cm::ibcm::SidrReplied& event);
  template <class Other>
  void on(Instant, const Other&) {}
  void disconnected(Id& id, int status);
  bool try_again(Instant now, Id& id);

  CoreOptions options_;
  Rng rng_;
  cm::ibcm::Agent agent_;
  std::map<File, OpenFile> files_;
  std::vector<File> changed_;  // each open file once; may have closed ones until poll_changed() skips them
  std::map<std::uint32_t, std::unique_ptr<Id>> ids_;              // at most ids_max
  std::map<std::uint32_t, Group> groups_;                         // at most groups_max
  std::map<cm::ibcm::ConnectionId, std::uint32_t> by_cm_;         // at most one for each id
  std::map<std::uint64_t, std::vector<std::uint32_t>> services_;  // listeners by service ID
  std::multimap<Instant, std::uint32_t> again_;  // when an id repeats its rejected request; at most one for each id
  std::uint32_t last_id_ = 0, last_group_ = 0;
};

/// Reads `out` from the first octets of a command. False: the command is too short.
template <class T>
bool parse(ConstBytes in, T& out) {
  if (in.size() < sizeof(T)) return false;
  __builtin_memcpy(&out, in.data(), sizeof(T));
  return true;
}

template <class T>
int Core::give(const Call& call, std::uint64_t response, const T& all, std::size_t least) {
  if (call.room < least) return ENOSPC;
  const ConstBytes octets(reinterpret_cast<const std::uint8_t*>(&all), std::min(call.room, sizeof(T)));
  return call.host.write(response, octets) ? 0 : EFAULT;
}

}  // namespace parley::preload::ucma
