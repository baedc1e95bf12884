// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// UDP sockets of RoCEv2 (IBA Annex A17): one bound to port 4791 for each address in use, which receives; one for each
// UDP source port in use, which sends; and one for each multicast group that is joined. The ICRC is computed and
// checked here, because it covers the IP and UDP headers.
//
// The system does not let a user program choose the IPv4 identification. Unconnected sockets that may not fragment send
// 0, and the n-th datagram segmented by UDP_SEGMENT has n (Linux; the peer's ICRC check confirms it).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/packet_groups.hpp"
#include "base/packet_port.hpp"
#include "drivers/asio/packet_flows.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

struct InterfaceAddress;
struct PacketInbox;
struct PacketOutbox;

class PacketSockets;

class PacketSet final : public PacketGroups {
 public:
  static constexpr std::size_t addresses_max = 1024;  // bound at the same time
  static constexpr std::size_t senders_max = 256;     // sockets for source ports; beyond that the receiving sockets
                                                      // send too
  static constexpr std::size_t sent_at_once = 64;     // packets
  static constexpr std::uint64_t wake_data = ~0ULL;

  /// `epoll`, `wake` and `sockets` are not owned. With `sockets` only single addresses can be bound, and no other one is
  /// taken in place of an address.
  PacketSet(PacketMachine& machine, const RoceHostOptions& options, int epoll, int wake,
            PacketSockets* sockets = nullptr);
  ~PacketSet();

  // PacketGroups; packet_groups.cpp
  Result<void> join(const Address& group) override;
  void leave(const Address& group) noexcept override;

  /// Executes the machine's requests and sends its packets; true if there was any work.
  bool drain(Instant now);
  /// Receives from the sockets; true if there was anything.
  bool serve(Instant now);
  /// One turn of a driver: deadlines, the machine's output, the sockets' input; true if anything was moved.
  bool turn(Instant now);
  /// Sleeps until a socket has input, the caller is woken, or this time has passed.
  void sleep(Duration longest) const;
  /// In a forked child, which must not use or destroy the set: closes its copies of the descriptors.
  void close_sockets() noexcept;
  /// The system's buffers are full: sending is suspended until they are not.
  bool blocked() const { return blocked_; }
  const RoceCounters& counters() const { return counters_; }
  void set_tap(PacketTap tap) { tap_ = std::move(tap); }

 private:
  struct Bound {
    int fd = -1;      // -1: a group that could not be joined again
    Address local{};  // any(): the whole family; or a group, for IPv6 with its interface as the scope
    std::size_t users = 0;
    bool group = false;
  };
  struct Sender {
    Address local{};  // of the socket; may be any()
    std::uint16_t port = 0;
    auto operator<=>(const Sender&) const = default;
  };
  /// Consecutive packets that wait in `out_`.
  struct Piece {
    PacketPath path;
    std::uint64_t flow = 0;
    int fd = -1;
    std::size_t at = 0, size = 0, count = 0;  // size: of each packet
    std::uint16_t identification = 0;         // of the first packet
    std::uint32_t interface = 0;              // PacketFlow::interface
    bool follows = false;                     // part of the preceding message, by UDP_SEGMENT
    std::size_t end() const { return at + size * count; }
  };

  void carry_out(const PacketCommand& command);
  void bind(const PacketCommand& command);
  Result<Address> local_for(const PacketCommand& command) const;
  Bound* covering(const Address& local);
  bool somebody_has_all(Address::Family family) const;
  Result<Bound*> open(Address local, bool may_take_another, const Address& peer);
  Result<Bound*> open_given(const Address& local);
  Result<Bound*> receive_on(int fd, const Address& local);
  void add_bound(int fd, const Address& local, std::size_t users);
  void close_family(Address::Family family);
  void reopen_family(Address::Family family);
  void forget(int fd);
  void release(BindId id);
  void drop_senders(const Address& local);
  bool watch(int fd, std::uint32_t what);
  bool serve_ready();
  bool advance(Instant now);

  // packet_groups.cpp
  Result<void> join_on(const Address& group, const InterfaceAddress& place);
  void join_groups_on(const Address& local);
  void close_groups(Address::Family family);
  void close_group(int fd) noexcept;
  Result<int> open_group(const Address& group);
  std::vector<InterfaceAddress> own_places(Address::Family family) const;
  bool has_all(Address::Family family) const;

  // packet_send.cpp
  std::uint16_t port_of(const PacketPath& path);
  int sender_for(const PacketPath& path, std::uint16_t& port);
  PacketFlow& way_of(const PacketPath& path);
  void forget_ways() {
    ways_.forget();
    last_way_ = 0;
  }
  bool fill(bool& left);
  void add(const PacketFlow& flow, PacketPath path, std::size_t at, std::size_t size, std::size_t count);
  std::size_t room_behind(std::uint64_t flow, std::size_t at, std::size_t size) const;
  bool same_receiver(std::size_t a, std::size_t b) const;
  void seal(std::size_t from, PacketFlow& flow, ConstBytes payload);
  void flush();
  std::size_t send_some(std::size_t first);
  std::size_t behind_message(std::size_t first) const;
  std::size_t packets_of(std::size_t first, std::size_t end) const;
  void prepare(std::size_t first, std::size_t end, std::size_t n);
  void prepare_way(const Piece& piece, std::size_t n);
  void sent(const Piece& piece);
  std::size_t refused(std::size_t first, int error);
  void split_batch(std::size_t first);
  void unblock(int fd);
  bool receives(int fd) const;

  // packet_receive.cpp
  bool receive(const Bound& bound);
  void on_datagram(const Address& bound, msghdr& header, const SockAddr& from, ConstBytes octets);
  PacketFlow& source_of(const Address& local, std::uint8_t traffic_class, const SockAddr& from);
  void on_packets(PacketFlow& flow, std::size_t segment, ConstBytes octets);
  std::size_t on_placed_packets(PacketFlow& flow, std::uint16_t likely, std::size_t size, ConstBytes packets);
  void read_errors(int fd);
  void pass_to_tap(const PacketPath& path, std::uint16_t identification, bool sent, ConstBytes packet) const;

  PacketMachine& machine_;
  RoceHostOptions options_;
  int epoll_, wake_;
  PacketSockets* sockets_;  // null: packet_socket()
  Instant now_{};
  std::vector<Bound> bound_;         // at most addresses_max
  std::map<BindId, Address> users_;  // address of each binding
  std::map<Sender, int> senders_;    // at most senders_max
  Bytes out_;                        // packets waiting to be sent, one after the other
  std::vector<Piece> pieces_;        // at most sent_at_once, each with at least one packet
  std::size_t waiting_ = 0;          // packets in pieces_, at most sent_at_once
  std::size_t sent_ = 0;             // how many of pieces_ are sent
  std::unique_ptr<PacketOutbox> outbox_;
  std::unique_ptr<PacketInbox> inbox_;
  PacketFlow* last_flow_ = nullptr;
  std::uint64_t last_way_ = 0;
  PacketFlows ways_;     // flows of sent packets
  PacketFlows sources_;  // flows of received packets
  PacketFlow* last_source_ = nullptr;
  SockAddr last_from_;  // address of the last sender
  bool blocked_ = false;
  int blocked_fd_ = -1;
  int ready_fd_ = -1;     // had input last time: it is read before epoll is called
  Instant asked_at_{};    // when epoll was last called
  bool left_ = false;     // the last turn left the sockets to this one
  bool again_ = false;    // a packet was refused once, perhaps because of an earlier one
  bool segments_ = true;  // the system segments (UDP_SEGMENT)
  RoceCounters counters_;
  PacketTap tap_;
};

Error no_descriptor();
Error too_many_addresses();
/// A sentence about who holds UDP port 4791, as far as the system reveals it, with advice. `of_all`: the wildcard
/// address.
Error port_in_use(const Address& local, bool of_all);

}  // namespace parley::asio_driver
