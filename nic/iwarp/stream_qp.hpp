// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The stream side of an iWARP queue pair: the connection provider drives it, while the user posts work on the other
// side. From attach() on the queue pair owns the TCP stream's octets: it deframes and frames FPDUs, runs DDP and RDMAP
// (RFC 5040, 5041, 7306), and reports events to the connection. Pure: no time is needed here.
#pragma once
#include <optional>
#include <span>

#include "parley/iwarp.hpp"
#include "parley/mpa.hpp"

namespace parley::trace {
struct Scope;
}

namespace parley::nic::iwarp {

using RdmapState = parley::iwarp::QpState;
using parley::iwarp::TerminateInfo;

struct AttachOptions {
  mpa::Role role = mpa::Role::initiator;
  mpa::Parameters parameters{};  ///< CRC, markers, IRD, ORD
  std::uint16_t emss = 1460;
  mpa::Rtr send_rtr = mpa::Rtr::none;      ///< initiator: FPDU form to send before anything else
  bool fenced = false;                     ///< responder: send nothing until release_fence (RFC 5044 §7.1.2 rule 4)
  bool rtr_stag_zero = false;              ///< quirk: write and read RTRs with STag 0 (irdma)
  bool refuses_stag_zero = false;          ///< quirk: a Write at STag 0 ends the stream, at length zero too (cxgb4)
  bool terminate_nibbles_swapped = false;  ///< quirk: Terminates in Linux siw's order
  std::uint8_t terminate_llp_etype = 0;    ///< quirk: the error type next to layer LLP (cxgb4 and irdma: 3)
  const trace::Scope* trace = nullptr;     ///< not owned; outlives the queue pair
  std::uint32_t first_msn = 1;  ///< RFC 5041 §4.3 requires 1; other values are for tests of the wrap, on both sides
};

struct QpEvent {
  enum class Kind : std::uint8_t {
    first_fpdu,          ///< the first valid FPDU arrived; `form` is its RTR form, none for a ULP message
    terminate_received,  ///< see parley::iwarp::QueuePair::terminate()
    terminate_queued,    ///< an error was found and a Terminate is in the send queue; close after it is sent
    failed,              ///< broken without a Terminate (framing error after which none can be sent, TCP lost)
  };
  Kind kind = Kind::failed;
  mpa::Rtr form = mpa::Rtr::none;
  cm::Failure failure{};
};

class StreamQp : public parley::iwarp::QueuePair {
 public:
  /// For the provider, to find the queue pair's connection; ignored here.
  std::uint64_t owner = 0;

  /// idle -> rts. Errors: wrong_state.
  virtual Result<void> attach(const AttachOptions& options) = 0;
  virtual void release_fence() = 0;
  virtual void handle_bytes(ConstBytes in) = 0;
  /// FIN (reset false) ends the receive half only (RFC 5044 §7.2); a reset flushes everything.
  virtual void handle_end(bool reset) = 0;
  /// Our half of the stream has ended: later errors are `failed`, because no Terminate can be sent.
  virtual void end_transmit() = 0;
  /// Queues a Terminate as the last message of our half (RFC 5040 §5.4); ignored if one was queued before.
  virtual void send_terminate(std::uint8_t layer, std::uint8_t etype, std::uint8_t code) = 0;
  /// No more posts; posted requests and requested answers are still sent. Once none of our own Reads or Atomics is
  /// pending, further requests of the peer are not answered. Then drained() becomes true.
  virtual void begin_close() = 0;
  /// Everything posted was sent, and every Read and Atomic was answered or flushed.
  virtual bool drained() const = 0;
  /// Enters the error state: all outstanding work completes as flushed.
  virtual void flush() = 0;

  /// As StreamMachine::gather and sent.
  virtual std::size_t gather(std::span<ConstBytes> out) = 0;
  virtual void sent(std::size_t n) = 0;
  virtual bool has_transmit() const = 0;
  /// For events caused by a user's call, which the provider learns of from poll_dirty.
  virtual bool has_event() const = 0;
  virtual std::optional<QpEvent> poll_event() = 0;
};

/// The device, with the calls that its provider needs.
class IwarpDevice : public Device {
 public:
  virtual Result<std::unique_ptr<StreamQp>> create_stream_qp(const QpInit& init) = 0;
  /// A queue pair with its own completion queues that are never polled, for connections that only need one to speak
  /// iWARP: `depth` requests in each direction. Errors: those of create_stream_qp.
  virtual Result<std::unique_ptr<StreamQp>> create_lone_qp(PdHandle pd, std::uint32_t depth) = 0;
  /// The next queue pair with requests posted or queued since it was last polled; null if there is none.
  virtual StreamQp* poll_dirty() = 0;
  virtual bool has_dirty() const = 0;
  /// An event is pending in a completion channel or in poll_async_event().
  virtual bool has_events() const = 0;
};

/// `tagged_offset_base`: 0 uses addresses as tagged offsets, as in verbs; any other value is the offset of the first
/// registered region, and the others follow it, with gaps.
std::unique_ptr<IwarpDevice> make_device(std::uint64_t tagged_offset_base = 0);

}  // namespace parley::nic::iwarp
