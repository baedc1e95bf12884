// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The keeper's decisions: which processes are members, which prefix and sockets each has, where requests for a service go, and when the
// keeper ends. Pure: messages, ends of connections and the time go in; messages come out. The sockets are behind Ground.
//
//   connected(), handle(), gone(), mourned(), handle_deadline()     then, until it returns none: poll_output()
//
// A keeper that was killed loses nothing: each member has copies of all sockets of its groups, in their order, and offers
// them to the next keeper. Linux numbers the sockets of a group in the order of their bind() and closes gaps, so that a
// group only grows while it exists, and no socket of it is ever closed alone.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "parley/time.hpp"
#include "preload/port/messages.hpp"
#include "preload/port/steering.hpp"

namespace parley::preload::port {

/// A connection to the keeper.
using MemberId = std::uint32_t;

/// What the keeper needs of the system.
class Ground {
 public:
  virtual ~Ground() = default;
  /// Opens sockets until the group at the address has `size`. Returns 0 or an errno: EADDRINUSE if a process that does not
  /// share has the port. After an error the group is as before.
  virtual int extend(const Address& address, std::size_t size) = 0;
  /// Takes a copy of a rejoining member's descriptor for a socket of the group. False: it is no such socket.
  virtual bool adopt(const Address& address, std::size_t index, int file) = 0;
  virtual void close(const Address& address) = 0;
  /// The socket is a member's from now on. `fresh`: packets that wait in it were for an earlier one, and are dropped.
  virtual void give(const Address& address, std::size_t index, bool fresh) = 0;
  /// No member has the socket, or any more.
  virtual void take_back(const Address& address, std::size_t index) = 0;
  virtual void steer(const Address& address, const std::vector<Instruction>& program) = 0;
  /// Takes a copy of the file in which the member writes its connections.
  virtual void keep_will(MemberId member, int file) = 0;
  virtual void drop_will(MemberId member) = 0;
  /// The member ended without Leave. Reads its will and disconnects its connections; mourned() ends this. False: there are none.
  virtual bool mourn(Instant now, MemberId member, const std::vector<Address>& addresses, std::uint8_t prefix) = 0;
};

/// A message for a member.
struct Output {
  MemberId to = 0;
  bool hang_up = false;  ///< no message: close the connection
  Bytes octets{};        ///< empty: Sockets, for each run of descriptors that the keeper has
  std::uint8_t position = 0;
  Address group{};  ///< whose sockets: `first` to `first` + `count` - 1
  std::size_t first = 0, count = 0;
};

class Keeper {
 public:
  static constexpr std::size_t members_max = 1024;  ///< connections, joined or not
  static constexpr std::array<std::size_t, 4> sizes{8, 32, 128,
                                                    255};           ///< of a group: socket 0, and one for each prefix
  static constexpr Duration join_within = std::chrono::seconds(2);  ///< of the connection
  /// A new keeper gives the members of the last one this long to rejoin before it decides anything against them.
  static constexpr Duration recovery = std::chrono::milliseconds(500);
  /// An address that is in use is tried again: at the start, while members of the last keeper may rejoin, and later, while
  /// a process that has just been killed may still have copies of the sockets.
  static constexpr Duration patience = std::chrono::seconds(1), end_within = std::chrono::milliseconds(200);
  static constexpr Duration between_tries = std::chrono::milliseconds(20);
  static constexpr Duration linger = std::chrono::seconds(2);  ///< without members

  Keeper(Ground& ground, Instant now) : ground_(ground), started_(now), idle_since_(now) {}

  /// False: there are members_max; close the connection.
  bool connected(Instant now, MemberId member);
  /// A message, with its descriptors, which the caller closes. Malformed ones end the connection.
  void handle(Instant now, MemberId member, ConstBytes message, std::span<const int> files);
  /// The connection has ended.
  void gone(Instant now, MemberId member);
  /// Ground::mourn() has ended.
  void mourned(Instant now, const std::vector<Address>& addresses, std::uint8_t prefix);
  void handle_deadline(Instant now);
  Instant next_deadline() const;
  std::optional<Output> poll_output();
  /// Whether there has been no member for `linger`.
  bool is_done(Instant now) const { return members_.empty() && groups_.empty() && now >= idle_since_ + linger; }
  /// Members of the last keeper may still be rejoining: no request may be answered in their place.
  bool is_recovering(Instant now) const { return now < recovering_until_; }
  std::size_t members() const { return members_.size(); }

 private:
  struct Member {
    enum class State : std::uint8_t { connected, waiting, rejoining, joined, refused };
    State state = State::connected;
    std::uint8_t prefix = 0;
    std::vector<Address> addresses{};
    Instant deadline = never;  // connected, rejoining: for the next message; waiting: to give up
  };
  struct Seat {
    bool taken = false;
    std::uint64_t freed = 0;  // seats freed earlier have smaller numbers; `absent`: of a member that may come back
  };
  struct Service {
    std::uint8_t prefix = 0;
    std::uint32_t claims = 0;  // 0: the member listens no more; its repeated requests still arrive there
  };
  struct Group {
    std::size_t size = 0;
    std::array<Seat, prefix_max + 1> seats{};
    std::map<std::uint64_t, Service> services{};  // at most services_max
    bool stale = true;                            // the kernel's program is not that of the services
    bool adopted = false;                         // of the last keeper, with members that are not known yet
  };

  void on(Instant now, MemberId id, Member& member, const Join& join, std::span<const int> files);
  void on(Instant now, MemberId id, Member& member, const Offer& offer, std::span<const int> files);
  void on(Instant now, MemberId id, Member& member, const Offered&, std::span<const int> files);
  void on(Instant now, MemberId id, Member& member, const Claim& claim, std::span<const int> files);
  void on(Instant now, MemberId id, Member& member, const Release& release, std::span<const int> files);
  void on(Instant now, MemberId id, Member& member, const Leave&, std::span<const int> files);

  bool try_join(Instant now, MemberId id, Member& member);
  std::optional<Refused> open_groups(Instant now, const Member& member, std::size_t size, bool& again);
  static constexpr std::uint64_t absent = ~std::uint64_t{0};
  std::size_t choose_prefix(Member& member, bool of_absent) const;
  void seat(MemberId id, Member& member);
  void send_sockets(MemberId to, std::uint8_t position, const Address& address, std::size_t first, std::size_t end);
  void announce(const Address& address, std::size_t first, std::size_t end);
  ClaimResult claim(const Member& member, const Claim& claim);
  void remove(const Member& member, bool mourns);
  void free_seats(const std::vector<Address>& addresses, std::uint8_t prefix);
  void close_empty(Instant now);
  void steer(Instant now);
  bool still_recovers(Instant now);
  void end_recovery();
  bool is_offered(const Address& address) const;
  void send(MemberId to, const FromKeeper& message) { outputs_.push_back({.to = to, .octets = encode(message)}); }
  void hang_up(MemberId member) { outputs_.push_back({.to = member, .hang_up = true}); }

  Ground& ground_;
  std::map<MemberId, Member> members_;  // at most members_max
  std::map<Address, Group> groups_;
  std::deque<Output> outputs_;  // until the caller polls: some for each message
  std::uint64_t frees_ = 0;
  Instant started_, idle_since_, recovering_until_{}, try_at_ = never;
};

}  // namespace parley::preload::port
