// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The broker without its sockets: connections and their messages on one side, a Registry on the other. A connection is
// one process and has at most one membership. When it ends, the process counts as dead. A machine in the sense of
// base/machine.hpp.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "xrc/message.hpp"
#include "xrc/proof.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc {

using ConnectionNumber = std::uint64_t;

struct ServerOptions {
  SipKey key{};                          ///< for proofs; the same as the previous broker's
  std::uint32_t admin_uid = 0;           ///< the user who, as root, may kill any TGT queue pair
  std::uint32_t connections_max = 8192;  ///< RegistryOptions::user_share applies to them, too
  std::uint32_t answers_max = 64;        ///< answers that a connection has not taken; beyond it, it is not read
};

/// The system's information about a connected process, not the process's own claims.
struct Credentials {
  std::uint32_t pid = 0, uid = 0;
  std::uint64_t start = 0;  ///< 0: not known
};
/// Facts about the file descriptor that came with a message.
struct FileFacts {
  std::uint64_t st_dev = 0, st_ino = 0;
  std::uint32_t uid = 0;
  bool shared = false;  ///< users other than its owner may write to it
  /// The file's owner and mode decide which users may share the domain.
  bool lets_in(std::uint32_t user) const { return user == 0 || uid == user || shared; }
};

class Server {
 public:
  Server(Registry registry, const ServerOptions& options) : registry_(std::move(registry)), options_(options) {}

  /// Errors: no_memory, share_of_connections. The number is new.
  Result<void> connected(ConnectionNumber number, const Credentials& credentials);
  void handle_message(Instant now, ConnectionNumber number, ConstBytes octets, const std::optional<FileFacts>& file);
  /// The connection has ended, so its process counts as dead.
  void disconnected(Instant now, ConnectionNumber number);

  /// How many messages of the connection may be read now. 0: too many answers wait to be taken, or it is about to be
  /// closed.
  std::size_t input_room(ConnectionNumber number) const;
  bool accepts_input(ConnectionNumber number) const { return input_room(number) > 0; }
  /// The next message for the connection. Answers are first, in the order of the requests, but answers to reports and
  /// modifications follow its events. An answer to request 0 is an update about a queue pair or the carriers.
  std::optional<Bytes> poll_transmit(Instant now, ConnectionNumber number);
  /// The next connection with messages to send. After that, it is returned again only when it has new ones.
  std::optional<ConnectionNumber> poll_waiting();
  /// Whether to close the connection when poll_transmit() returns none. Then call disconnected() as for others.
  bool is_over(ConnectionNumber number) const;

  Instant next_deadline() const { return registry_.next_deadline(); }
  void handle_deadline(Instant now) { registry_.handle_deadline(now); }
  std::optional<TgtId> poll_ended() { return registry_.poll_ended(); }
  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }
  std::size_t connection_count() const { return connections_.size(); }

 private:
  /// A list that is being sent: a snapshot from the time of the request.
  struct Listing {
    std::uint64_t number = 0;
    std::vector<DomainView> domains{};
    Counters counters{};
    std::size_t domain = 0, member = 0, tgt = 0, registrant = 0, counter = 0;
    bool begun = false;  // the item of the domain itself was sent
    bool tgt_begun = false;
  };
  struct Connection {
    Credentials credentials{};
    Process process{};
    std::optional<DomainKey> domain{};  // none: a private domain
    bool greeted = false, over = false, waiting = false;
    std::optional<MemberId> member{};
    std::uint32_t carriers = 0;    // R11: how many its member was last informed of
    std::deque<Answer> answers{};  // answers_max, and one for each message in flight when it is full
    std::set<TgtId> changed{};     // modified by other members, update not sent yet; at most its registrations
    std::optional<Listing> list{};
  };

  void answer(ConnectionNumber number, Answer answer);
  void wake_members();
  void wake(ConnectionNumber number, Connection& connection);
  Answer serve(Instant now, Connection& c, ConnectionNumber number, const Request& r,
               const std::optional<FileFacts>& file);
  Answer hello(Connection& c, const Request& r);
  Answer open(Instant now, Connection& c, ConnectionNumber number, const Request& r,
              const std::optional<FileFacts>& file);
  Answer serve_member(Instant now, Connection& c, const Request& r);
  std::uint64_t proof(const Connection& c, TgtId id) const;
  void changed(Instant now, MemberId by, TgtId id);
  Answer kill(Instant now, const Connection& c, const Request& r);
  std::optional<Bytes> next_event(Connection& c);
  std::optional<Item> next_item(Listing& list) const;

  Registry registry_;
  ServerOptions options_;
  std::map<ConnectionNumber, Connection> connections_;   // connections_max
  std::map<std::uint64_t, ConnectionNumber> by_member_;  // connections that have opened a domain
  std::deque<ConnectionNumber> waiting_;                 // connections_max
};

}  // namespace parley::xrc
