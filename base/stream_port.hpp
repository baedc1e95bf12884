// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The lower seam for byte streams. A StreamMachine is protocol code over many TCP connections; a driver (Asio sockets,
// the simulator's TCP, a test) owns the connections, feeds the machine and carries out what it asks for.
//
// Driver's loop: feed one handle_*; then drain poll_command(); then for each poll_ready() stream gather() and write,
// reporting it by sent(); then arm next_deadline(). base/pump.hpp is that loop.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/time.hpp"

namespace parley {

/// Names a stream or a listener; chosen by the side that creates it: the machine uses odd, the driver even numbers.
/// Never reused within a process. 0 is none.
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
  delivered,  ///< answers StreamCommand::finish: the peer has acknowledged all octets; the stream is gone
};

struct StreamCommand {
  enum class Kind : std::uint8_t {
    open,    ///< connect `id` to `address`; answered by handle_connected or handle_connect_failed
    listen,  ///< listen as `id` on `address`; answered by handle_listening or handle_listen_failed
    shutdown,  ///< send what is queued, then FIN; the receive half stays. A stream whose process ends before this is reset
    /// Behind the peer's FIN: send what is queued, then FIN, and keep the stream until the peer has acknowledged all octets. Answered by
    /// handle_end with `delivered`, or with rst or timeout if the stream fails before that.
    finish,
    close,  ///< send what is queued, then FIN; forget the stream (no more handle_* for it)
    reset,  ///< RST at once; forget the stream
    pause,  ///< stop reading (bounded memory); resume undoes it
    resume,
  };
  Kind kind = Kind::close;
  StreamId id = 0;
  Address address{};  ///< open, listen: where; open may bind `local` first
  Address local{};    ///< open: source address; any() lets the system choose
  int backlog = 128;  ///< listen
  /// open, and listen for all streams that are accepted: after `keepalive` without octets from the peer TCP asks whether it is there, and
  /// one that acknowledges nothing for `dead_after` ends the stream with StreamEnd::timeout (RFC 9293 §3.8.4, RFC 5482). 0: never.
  Duration keepalive{}, dead_after{};
};

class StreamMachine {
 public:
  virtual ~StreamMachine() = default;

  virtual void handle_listening(Instant now, StreamId listener, const Address& local) = 0;
  virtual void handle_listen_failed(Instant now, StreamId listener, std::error_code why) = 0;
  virtual void handle_connected(Instant now, StreamId stream, const StreamInfo& info) = 0;
  virtual void handle_connect_failed(Instant now, StreamId stream, std::error_code why) = 0;
  /// A peer connected to `listener`; the driver names the stream (even number). false: refuse it (driver resets it).
  virtual bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) = 0;
  /// The driver has no room for the peer waiting at `listener`. true: the machine has given up another stream, whose
  /// reset is among its commands.
  virtual bool handle_no_room(Instant now, StreamId listener) {
    (void)now, (void)listener;
    return false;
  }
  virtual void handle_bytes(Instant now, StreamId stream, ConstBytes in) = 0;
  /// FIN: the peer sends no more; our half may go on (RFC 5044 §7.2). All others: the stream is gone.
  virtual void handle_end(Instant now, StreamId stream, StreamEnd end) = 0;
  virtual void handle_deadline(Instant now) = 0;

  virtual bool poll_command(StreamCommand& out) = 0;
  /// The next stream with octets to send, 0 when there is none. A stream appears once per drain.
  virtual StreamId poll_ready() = 0;
  /// Fills `out` with pieces to send, in order, without consuming them; returns the number filled. Views live until the
  /// call.
  virtual std::size_t gather(StreamId stream, std::span<ConstBytes> out) = 0;
  /// The driver wrote n octets of what gather gave; if not all, it calls gather again when writable. If the stream
  /// has more to send then, poll_ready names it once more, so the driver need not gather until nothing is left.
  virtual void sent(Instant now, StreamId stream, std::size_t n) = 0;
  virtual Instant next_deadline() const = 0;
};

/// A stream between two drivers of one kind: it belongs to neither, and may pass from thread to thread. Its end is a RST.
class LooseStream {
 public:
  virtual ~LooseStream() = default;
};

/// What a driver lends to its machine whose streams can go over to another driver of its kind. The machine calls it from
/// within a user's call alone, never while the driver feeds it.
class StreamMover {
 public:
  virtual ~StreamMover() = default;
  /// The driver forgets the stream: no more handle_* for it. What the peer sends meanwhile waits. Null: there is no such
  /// stream, or one half of it is closed.
  virtual std::unique_ptr<LooseStream> detach(StreamId stream) = 0;
  /// The driver takes the stream and names it anew (even number); `stream` is untouched if it fails. Errors: unsupported
  /// (of another kind of driver), no_space.
  virtual Result<StreamId> attach(std::unique_ptr<LooseStream>& stream) = 0;
};

}  // namespace parley
