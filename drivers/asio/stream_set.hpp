// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// All TCP sockets of a host in one epoll set: the Port that drives a StreamMachine.
//
// For Asio the whole set is a single descriptor that becomes readable. A wait per socket through Asio costs one epoll_ctl
// each time a message is awaited; a single level-triggered set costs none, and reads and writes are tried before waiting.
// docs/cm.md has the figures.
#pragma once
#include <sys/epoll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/stream_port.hpp"
#include "drivers/asio/keepalive_pace.hpp"
#include "parley/tcp_host.hpp"

namespace parley::asio_driver {

class StreamSet final : public StreamMover {
 public:
  /// The event data of `wake`, an eventfd in the set. Larger than any socket's.
  static constexpr std::uint64_t wake_data = ~std::uint64_t{0};

  /// `epoll` and `wake` are not owned. When the set is destroyed or the process ends, each stream whose FIN was not
  /// sent ends with a RST: no peer mistakes that for a graceful end.
  StreamSet(StreamMachine& machine, const TcpHostOptions& options, int epoll, int wake);
  ~StreamSet() override;
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  /// Executes the machine's requests and writes its output; true if there was any work. First call of each turn.
  bool drain(Instant now);
  /// Serves ready sockets, without waiting; true if there was any. For a caller that is `polling`, true may also mean
  /// that only the likeliest socket was tried; false always means that none is ready.
  bool serve(bool polling);
  /// Reads, without calling epoll, the socket that will be ready next if the pattern repeats; false if there is no
  /// prediction or it was wrong. For a turn that has written: the peer of that write may be a socket of this set.
  bool serve_partner();
  void set_tap(Tap tap) { tap_ = std::move(tap); }

  /// When serve() must be called although no socket is ready: a listener waits for file descriptors, or a keepalive is to go.
  Instant next_deadline() const { return std::min(rearm_at_, pace_.next_deadline()); }

  // StreamMover (stream_move.cpp): moves the socket itself from one set to the other.
  std::unique_ptr<LooseStream> detach(StreamId id) override;
  Result<StreamId> attach(std::unique_ptr<LooseStream>& stream) override;

  // Port of base/pump.hpp.
  void carry_out(const StreamCommand& command);
  void write(StreamId stream);

 private:
  enum class Kind : std::uint8_t { free, listener, connecting, stream };
  // TCP delays a small write only while an earlier one is unacknowledged. The Request is the first write, and the next
  // one follows the Reply, which acknowledged the first. Set-up therefore needs no TCP_NODELAY, and the third write
  // sets it.
  static constexpr std::uint8_t writes_without_nodelay = 3;
  struct Socket {
    int fd = -1;
    Kind kind = Kind::free;
    bool blocked = false;  // waits until it is writable
    bool paused = false;
    bool fin_in = false, fin_out = false;
    bool finishing = false;     // StreamCommand::finish: its last octets await their acknowledgement
    bool unanswered = false;    // nothing was received since the last write
    std::uint8_t writes = 0;    // counted up to writes_without_nodelay; then TCP_NODELAY is set
    int error = 0;              // of a failed write
    bool parked = false;        // listener that ran out of descriptors or streams
    std::uint32_t watched = 0;  // epoll events asked for; 0: not in the set
    std::uint32_t generation = 0;
    bool follower_sure = false;                           // the prediction was right twice in a row
    std::uint32_t follower = 0, follower_generation = 0;  // the socket that was ready after this one
    StreamId id = 0;
    Address local{}, peer{};
    Duration keepalive{}, dead_after{};  // connecting, listener: for the stream that it becomes, or gives
  };

  Socket* find(StreamId id);
  std::uint32_t add(int fd, Kind kind, StreamId id);
  void forget(std::uint32_t slot);
  void watch(std::uint32_t slot);
  bool same(std::uint32_t slot, std::uint32_t generation) const { return sockets_[slot].generation == generation; }

  void listen(const StreamCommand& command);
  void open(const StreamCommand& command);
  void close(StreamId id, bool reset);
  void shut(StreamId id);
  void finish(StreamId id);
  void check_finished(std::uint32_t slot);
  void accept_some(std::uint32_t slot);
  bool make_room(std::uint32_t listener);
  void add_accepted(std::uint32_t listener, int fd, const Address& peer);
  void park(std::uint32_t listener);
  void unpark();
  void keep_alive();
  void finish_connect(std::uint32_t slot);
  void connected(std::uint32_t slot, std::uint16_t emss);
  bool read(std::uint32_t slot);
  bool guess(std::uint32_t& slot) const;
  bool read_guessed(std::uint32_t slot);
  void learn(const epoll_event& only);
  void serve_event(const epoll_event& event);
  void ended(std::uint32_t slot, StreamEnd end);
  void tap(const Socket& socket, TapRecord::Kind kind, ConstBytes octets = {});
  void tap_sent(const Socket& socket, std::span<const ConstBytes> pieces, std::size_t n);

  StreamMachine& machine_;
  TcpHostOptions options_;
  int epoll_, wake_;
  Tap tap_;
  Bytes buffer_;  // shared by all sockets: received octets are passed on at once
  Bytes tapped_;
  static constexpr std::size_t pieces_max = 64;  // pieces per write
  std::array<ConstBytes, pieces_max> pieces_;
  std::array<iovec, pieces_max> vectors_;
  std::deque<Socket> sockets_;  // stable addresses; at most streams_max plus the listeners
  std::vector<std::uint32_t> free_;
  std::unordered_map<StreamId, std::uint32_t> by_id_;
  std::size_t streams_ = 0;
  std::vector<std::uint32_t> parked_;
  KeepalivePace pace_;
  StreamId serial_ = 0;  // even numbers are the driver's
  // Sockets that are ready one at a time and in an order that repeats, as in a ping-pong, are read without asking who
  // is ready: the one that followed the last one before. A few turns long.
  std::uint32_t last_ = 0, last_generation_ = 0;
  int guesses_left_ = 0, looks_left_ = 0;
  Instant now_{};
  Instant rearm_at_ = never;
};

}  // namespace parley::asio_driver
