// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The lower interface for byte streams. A StreamMachine is protocol code over many TCP connections. A driver (Asio
// sockets, the simulator's TCP, a test) owns the connections, feeds the machine and carries out its commands.
//
// Driver's loop: call one handle_*; then drain poll_command(); then for each poll_ready() stream call gather(), write,
// and report it by sent(); then arm next_deadline(). base/pump.hpp is that loop.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley {

/// Identifies a stream or a listener; chosen by the side that creates it: the machine uses odd, the driver even
/// numbers. Never reused within a process. 0: none.
using StreamId = std::uint64_t;

struct StreamInfo {
  Address local;
  Address peer;
  std::uint16_t emss = 1460;  ///< octets of payload per TCP segment (RFC 5044 §4.5)
};

enum class StreamEnd : std::uint8_t {
  fin,
  rst,
  timeout,
  delivered,  ///< completes StreamCommand::finish: the peer has acknowledged all octets; the stream is gone
};

struct StreamCommand {
  enum class Kind : std::uint8_t {
    open,    ///< connect `id` to `address`; completes with handle_connected or handle_connect_failed
    listen,  ///< listen as `id` on `address`; completes with handle_listening or handle_listen_failed
    /// Send what is queued, then FIN; the receive half stays open. If the process ends first, the stream is reset.
    shutdown,
    /// After the peer's FIN: send what is queued, then FIN, and keep the stream until the peer has acknowledged all
    /// octets. Completes with handle_end: `delivered`, or rst or timeout if the stream fails before.
    finish,
    close,  ///< send what is queued, then FIN; forget the stream (no more handle_* for it)
    reset,  ///< RST at once; forget the stream
    pause,  ///< stop reading (bounded memory) until resume
    resume,
  };
  Kind kind = Kind::close;
  StreamId id = 0;
  Address address{};  ///< open, listen: the address; open may bind `local` first
  Address local{};    ///< open: source address; any() lets the system choose
  int backlog = 128;  ///< listen
  /// For open, and for all streams that a listener accepts. After `keepalive` without octets from the peer, TCP sends a
  /// keepalive. If the peer acknowledges nothing for `dead_after`, the stream ends with StreamEnd::timeout
  /// (RFC 9293 §3.8.4, RFC 5482). 0: never.
  Duration keepalive{}, dead_after{};
};

class StreamMachine {
 public:
  virtual ~StreamMachine() = default;

  virtual void handle_listening(Instant now, StreamId listener, const Address& local) = 0;
  virtual void handle_listen_failed(Instant now, StreamId listener, std::error_code why) = 0;
  virtual void handle_connected(Instant now, StreamId stream, const StreamInfo& info) = 0;
  virtual void handle_connect_failed(Instant now, StreamId stream, std::error_code why) = 0;
  /// A peer connected to `listener`; the driver chose the stream's number (even). False: the driver resets it.
  virtual bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) = 0;
  /// The driver has no room for the peer that waits at `listener`. True: the machine gives up another stream, whose
  /// reset is among its commands.
  virtual bool handle_no_room(Instant now, StreamId listener) {
    (void)now, (void)listener;
    return false;
  }
  virtual void handle_bytes(Instant now, StreamId stream, ConstBytes in) = 0;
  /// FIN: the peer sends no more; our half may continue (RFC 5044 §7.2). All others: the stream is gone.
  virtual void handle_end(Instant now, StreamId stream, StreamEnd end) = 0;
  virtual void handle_deadline(Instant now) = 0;

  virtual bool poll_command(StreamCommand& out) = 0;
  /// The next stream with octets to send; 0: none. A stream appears once per drain.
  virtual StreamId poll_ready() = 0;
  /// Fills `out` with pieces to send, in order, without consuming them; returns their number. The views are valid until
  /// the next call.
  virtual std::size_t gather(StreamId stream, std::span<ConstBytes> out) = 0;
  /// The driver wrote n octets of those from gather. If that is not all, it calls gather again when the stream is
  /// writable. If the stream has more to send after that, poll_ready returns it again, so the driver need not gather
  /// until nothing is left.
  virtual void sent(Instant now, StreamId stream, std::size_t n) = 0;
  virtual Instant next_deadline() const = 0;
};

/// A stream between two drivers of the same kind. It belongs to neither, and may move between threads. Destroying it
/// sends a RST.
class LooseStream {
 public:
  virtual ~LooseStream() = default;
};

/// Given by a driver to a machine whose streams can move to another driver of its kind. The machine calls it only from
/// within a user's call, never while the driver feeds it.
class StreamMover {
 public:
  virtual ~StreamMover() = default;
  /// The driver gives up the stream: no more handle_* for it. Octets that the peer sends meanwhile are kept. Null: no
  /// such stream, or one half of it is closed.
  virtual std::unique_ptr<LooseStream> detach(StreamId stream) = 0;
  /// The driver adopts the stream under a new number (even); `stream` is unchanged if the call fails. Errors:
  /// unsupported (another kind of driver), no_space.
  virtual Result<StreamId> attach(std::unique_ptr<LooseStream>& stream) = 0;
};

}  // namespace parley
