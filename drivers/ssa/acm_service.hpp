// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibacm's service for the programs of a machine: ssa/acm/server.hpp on Unix sockets and a TCP port, in a thread of its own.
//
//   auto service = *AcmService::open({.sockets = {"/run/ibacm-unix.sock"}});   // the places are taken
//   service->start(data);                                     // requests are answered
//   service->publish(data);                                   // whenever the subnet has changed
//   while (const auto query = service->wait_query(longest))   // what subnet administration must answer
//     service->answer(query->client, record);
#pragma once
#include <array>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "drivers/asio/descriptor.hpp"
#include "drivers/ssa/acm_place.hpp"
#include "parley/time.hpp"
#include "ssa/acm/server.hpp"

namespace parley::ssa_driver {

/// Where ib_acme looks, and where librdmacm does.
inline constexpr const char* acme_socket = "/run/ibacm-unix.sock";
inline constexpr const char* acme_port_file = "/run/ibacm-tcp.port";
inline constexpr const char* librdmacm_socket = "/run/ibacm.sock";
inline constexpr const char* librdmacm_port_file = "/run/ibacm.port";

struct AcmServiceOptions {
  std::vector<std::string> sockets{};      ///< paths of Unix sockets; at most acm_sockets_max
  std::optional<std::uint16_t> port{};     ///< on 127.0.0.1; 0: any
  std::vector<std::string> port_files{};   ///< files that get the number of that port
  std::size_t clients_max = 1024;          ///< and at most half of the files that the process may open
  std::size_t clients_of_other_max = 512;  ///< of these: of one other user; those of TCP have no user, and count as one
  bool asks_sa = true;  ///< the owner calls wait_query(); otherwise such requests get the answer no_data
};
inline constexpr std::size_t acm_sockets_max = 8;

struct AcmQuery {
  std::uint64_t client = 0;
  wire::mad::PathRecord record;  ///< members that are 0 are wildcards
};

class AcmService {
 public:
  /// Takes the places, and refuses clients until start(). AcmPlaces has what is replaced, and its errors. Also:
  /// invalid_argument (no place, or too many), those of TCP. `wrong`: the place that the error is about.
  static Result<std::unique_ptr<AcmService>> open(const AcmServiceOptions& options, std::string* wrong = nullptr);
  /// Answers from `data`, which is not null, in a thread of its own. Call it once. Errors: address_in_use, the system's; `wrong` as above.
  Result<void> start(std::shared_ptr<const ssa::acm::Data> data, std::string* wrong = nullptr);
  /// Ends the thread and removes sockets and files.
  ~AcmService();
  AcmService(const AcmService&) = delete;
  AcmService& operator=(const AcmService&) = delete;

  /// What requests are answered from, from now on. Not null. Any thread may call it.
  void publish(std::shared_ptr<const ssa::acm::Data> data);
  /// The next request for subnet administration; none: `longest` has passed. Any thread may call it.
  std::optional<AcmQuery> wait_query(Duration longest);
  /// How many wait.
  std::size_t queries();
  /// Its answer, or why there is none. Ignored if the client is gone. Any thread may call it.
  void answer(std::uint64_t client, const tl::expected<wire::mad::PathRecord, ssa::acm::Status>& answer);
  /// Ends the thread; no-op at the second time.
  void stop();
  /// Any thread may call it.
  std::uint64_t counter(ssa::acm::Counter which) const;
  /// The TCP port; 0: none.
  std::uint16_t port() const { return port_; }

 private:
  struct Client {
    Client(int socket, uid_t owner, ssa::acm::Server& server) : fd(socket), user(owner), session(server) {}
    int fd;
    uid_t user;
    ssa::acm::Session session;
    Bytes unsent{};  // what one input buffer is answered with
    std::uint32_t watched = 0;
    bool asked = false;  // its query is in asked_ or with the owner
  };
  struct Answer {
    std::uint64_t client;
    tl::expected<wire::mad::PathRecord, ssa::acm::Status> record;
  };

  struct Listener {
    int fd;  // of places_ or tcp_
    std::string place;
  };

  explicit AcmService(const AcmServiceOptions& options);
  Result<void> bind(const AcmServiceOptions& options, std::string& place);
  Result<void> bind_tcp(std::uint16_t port, const std::string& place);
  void run();
  void turn();
  void take_messages();
  void accept_all(int listener);
  bool has_room_for(uid_t user) const;
  void read(std::uint64_t number);
  void write(std::uint64_t number);
  void settle(std::uint64_t number, Client& client);
  void drop(std::uint64_t number);
  void wake() const;

  // Shared with the owner: under mutex_.
  mutable std::mutex mutex_;
  std::condition_variable asked_any_;
  std::shared_ptr<const ssa::acm::Data> fresh_;  // null: none since it was taken
  std::deque<AcmQuery> asked_;                   // clients_max: one for each client
  std::deque<Answer> answered_;                  // clients_max, each to a query
  bool ending_ = false;
  std::array<std::uint64_t, ssa::acm::counters> counts_{};  // as of the last turn of the thread

  const std::size_t clients_max_, clients_of_other_max_;
  std::uint16_t port_ = 0;
  asio_driver::Descriptor epoll_, wake_;
  AcmPlaces places_;
  std::optional<asio_driver::Descriptor> tcp_;
  std::vector<Listener> listeners_;
  // For the service's thread alone.
  ssa::acm::Server server_;
  std::map<std::uint64_t, Client> clients_;  // clients_max_
  std::map<uid_t, std::size_t> users_;       // of these clients
  std::uint64_t last_;
  std::vector<std::uint8_t> input_;
  std::thread thread_;
};

}  // namespace parley::ssa_driver
