// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a connection does, step by step, as typed events. A sink (cm::IwarpProviderOptions::trace,
// cm::RoceProviderOptions::trace, RdmaHostOptions::trace, neg::PeersOptions::trace) receives each event as it happens.
// Without a sink an event costs one comparison with null. The lines of -v, the transcripts of tests and the comments in
// captures are made from these events. docs/trace.md explains how to read them, and how to add one.
//
// An event has a static level, a static name, and fields(f). fields(f) calls f(key, value) for each field in reading order,
// and f.word(key, value) for a field whose value is clear without its key. Values are text, numbers, booleans, Duration and
// Address. Texts are borrowed for the call.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "parley/address.hpp"
#include "parley/failure.hpp"
#include "parley/time.hpp"

namespace parley::trace {

enum class Level : std::uint8_t {
  error,  ///< this side cannot continue
  warn,   ///< a connection failed or was lost
  info,   ///< events of a connection as a whole
  debug,  ///< each message of the set-up, each decision and state change
  trace,  ///< each FPDU, each timer
};
std::string_view to_string(Level level);

inline std::string_view direction(bool sent) { return sent ? "sent" : "received"; }

// ---- connection manager ------------------------------------------------------------------------------------------

struct Listening {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.listening";
  Address local{};
  template <class F>
  void fields(F& f) const {
    f("local", local);
  }
};
/// The connection's state changed.
struct CmState {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "cm.state";
  std::string_view from, to;
  template <class F>
  void fields(F& f) const {
    f("from", from), f("to", to);
  }
};
/// A peer's TCP connection was accepted; it is half-open until its Request arrives.
struct Admitted {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "cm.admitted";
  template <class F>
  void fields(F&) const {}
};
/// A newcomer was reset: the limit is reached, and no other connection could be evicted.
struct Refused {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.refused";
  std::string_view limit;  ///< the limit that is reached: "pending_max"
  template <class F>
  void fields(F& f) const {
    f("limit", limit);
  }
};
/// A half-open connection was reset to make room for a newcomer.
struct Evicted {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.evicted";
  std::string_view limit;
  Duration waited{};
  template <class F>
  void fields(F& f) const {
    f("limit", limit), f("half_open_for", waited);
  }
};
/// A peer's Request waits for the user's decision.
struct Requested {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.requested";
  std::uint64_t private_data = 0;  ///< octets
  std::string_view device{};       ///< of a NIC
  template <class F>
  void fields(F& f) const {
    f("private_data_length", private_data);
    if (!device.empty()) f("device", device);
  }
};
/// NICs: the kernel found the path to the peer.
struct Resolved {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "cm.resolved";
  Address local{};
  std::string_view device;
  std::string_view gid;  ///< this side's, as an IPv6 address; empty: iWARP
  template <class F>
  void fields(F& f) const {
    f("local", local), f("device", device);
    if (!gid.empty()) f("gid", gid);
  }
};
/// The peer closed its half of the TCP connection, or the whole connection ended.
struct TcpEnded {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "tcp.ended";
  std::string_view how;  ///< "FIN", "RST", "timeout"
  template <class F>
  void fields(F& f) const {
    f.word("how", how);
  }
};
struct Decided {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "cm.decided";
  bool accept = false;
  template <class F>
  void fields(F& f) const {
    f.word("decision", std::string_view(accept ? "accept" : "reject"));
  }
};
struct Established {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.established";
  /// What MPA agreed on. None: a NIC's connection, for which the kernel does not report it.
  struct Mpa {
    std::uint8_t revision = 0;
    std::string_view rtr;
    bool crc = false, markers_sent = false, markers_received = false;
  };
  /// Attributes of a NIC's queue pair. `gid` and the fields after it: RoCE and InfiniBand.
  struct Nic {
    std::string_view device;
    Address local{};
    std::string_view gid, peer_gid;  ///< as IPv6 addresses; empty: iWARP
    std::uint32_t gid_index = 0, qp_num = 0, peer_qp_num = 0;
    std::uint32_t path_mtu = 0;  ///< octets
  };
  std::optional<Mpa> mpa{};
  std::optional<Nic> nic{};
  std::uint16_t ird = 0, ord = 0;
  template <class F>
  void fields(F& f) const {
    if (mpa) {
      f("revision", mpa->revision), f("rtr", mpa->rtr), f("crc", mpa->crc);
      f("markers_sent", mpa->markers_sent), f("markers_received", mpa->markers_received);
    }
    f("ird", ird), f("ord", ord);
    if (!nic) return;
    f("device", nic->device), f("local", nic->local);
    if (nic->gid.empty()) return;
    f("gid", nic->gid), f("gid_index", nic->gid_index), f("peer_gid", nic->peer_gid);
    f("qp_num", nic->qp_num), f("peer_qp_num", nic->peer_qp_num), f("path_mtu", nic->path_mtu);
  }
};
/// Why a step failed: the fields of cm::Failure.
template <class F>
void failure_fields(F& f, const cm::Failure& why, const std::string& cause) {
  f("step", why.step.name), f("cause", std::string_view(cause));
  if (!why.received.empty()) f("received", std::string_view(why.received));
  if (!why.rule.empty()) f("rule", std::string_view(why.rule));
}
/// The peer rejected the connection.
struct Rejected {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.rejected";
  std::uint64_t private_data = 0;
  template <class F>
  void fields(F& f) const {
    f("private_data_length", private_data);
  }
};
struct Failed {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.failed";
  const cm::Failure& why;
  template <class F>
  void fields(F& f) const {
    failure_fields(f, why, why.code.message());
  }
};
/// Set-up continues at `next` after `wait`: at a backup address, with another revision, or unchanged.
struct Retrying {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.retrying";
  Address next{};
  Duration wait{};
  const cm::Failure& why;
  template <class F>
  void fields(F& f) const {
    f("next", next);
    if (wait > Duration{}) f("back_off", wait);
    failure_fields(f, why, why.code.message());
  }
};
struct Disconnected {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "cm.disconnected";
  template <class F>
  void fields(F&) const {}
};
/// Ended, but not gracefully.
struct Lost {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.lost";
  const cm::Failure& why;
  template <class F>
  void fields(F& f) const {
    failure_fields(f, why, why.code.message());
  }
};
/// NICs: the local address, or the peer's neighbour address, changed. The connection stays open.
struct AddressChanged {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.address_changed";
  const cm::Failure& why;
  template <class F>
  void fields(F& f) const {
    failure_fields(f, why, why.code.message());
  }
};
/// NICs: the device under the connection is being removed; the connection's end follows.
struct DeviceRemoved {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "cm.device_removed";
  std::string_view device;
  template <class F>
  void fields(F& f) const {
    f("device", device);
  }
};
/// NICs: no packet of an ended connection can be in flight any more.
struct TimewaitExit {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "cm.timewait_exit";
  template <class F>
  void fields(F&) const {}
};

/// A deadline was set; `timer` names it.
struct TimerArmed {
  static constexpr Level level = Level::trace;
  static constexpr std::string_view name = "timer.armed";
  std::string_view timer;
  Duration wait{};
  template <class F>
  void fields(F& f) const {
    f.word("timer", timer), f("in", wait);
  }
};
struct TimerExpired {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "timer.expired";
  std::string_view timer;
  template <class F>
  void fields(F& f) const {
    f.word("timer", timer);
  }
};

// ---- the kernel's connection manager, below a NIC ----------------------------------------------------------------

/// An event of librdmacm: the only source of information about the kernel's steps.
struct KernelEvent {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "kernel.event";
  std::string_view event;  ///< "CONNECT_REQUEST"
  int status = 0;          ///< a reason of REJECTED, a negative errno, or 0
  template <class F>
  void fields(F& f) const {
    f.word("event", event);
    if (status != 0) f("status", status);
  }
};
/// A message that the kernel sent or received, as implied by an event or a successful call. Parley has not seen its octets;
/// retransmissions and duplicates are not visible.
struct KernelMessage {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "kernel.message";
  bool sent = false;
  std::string_view kind;      ///< InfiniBand's CM: "REQ", "REP", "RTU", "REJ", "DREQ", "DREP"; MPA: "Request", "Reply"
  std::string_view implied;   ///< the event or call that implies it: "CONNECT_RESPONSE", "rdma_accept"
  std::string_view reason{};  ///< of a REJ: "consumer_reject"
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f.word("kind", kind), f("implied_by", implied);
    if (!reason.empty()) f("reason", reason);
  }
};

// ---- MPA: RFC 5044 §7.1.1, RFC 6581 §6, OFA 2007-10 Rtr §1 -----------------------------------------------------------

struct MpaFrame {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "mpa.frame";
  bool sent = false;
  std::string_view kind;   ///< "Request", "Reply", "Rtr"
  std::string_view flags;  ///< the flags that are set, of "M,C,R,S"
  std::uint8_t revision = 0;
  bool enhanced = false;  ///< the next three fields are present
  std::uint16_t ird = 0, ord = 0;
  std::string_view control;  ///< the flags that are set, of "A,B,C,D"
  std::uint16_t private_data = 0;
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f.word("kind", kind);
    f("revision", revision), f("flags", flags);
    if (enhanced) f("control", control), f("ird", ird), f("ord", ord);
    f("private_data_length", private_data);
  }
};
/// An FPDU that serves as the ready-to-receive indication.
struct Rtr {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "mpa.rtr";
  bool sent = false;
  std::string_view form;
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f.word("form", form);
  }
};
/// The reason of one MPA decision: a sentence of mpa::Parameters::reasons.
struct MpaReason {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "mpa.reason";
  std::string_view text;
  template <class F>
  void fields(F& f) const {
    f.word("text", text);
  }
};

// ---- negotiation of queue pairs (parley/neg.hpp) -----------------------------------------------------------------

/// A dial started, or a peer connected. All attempts of a dial are one session here.
struct NegStarted {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "neg.started";
  std::string_view role;                 ///< "initiator", "responder"
  std::string_view plugin{}, variant{};  ///< initiator only
  template <class F>
  void fields(F& f) const {
    f("role", role);
    if (!plugin.empty()) f("plugin", plugin), f("variant", variant);
  }
};
/// What a peer's Hello requests.
struct NegRequested {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "neg.requested";
  std::string_view plugin, variant, label;
  template <class F>
  void fields(F& f) const {
    f("plugin", plugin), f("variant", variant);
    if (!label.empty()) f("label", label);
  }
};
/// The variant is not offered, or could not be created.
struct NegRefused {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "neg.refused";
  std::string_view plugin, variant, problem;
  template <class F>
  void fields(F& f) const {
    f("plugin", plugin), f("variant", variant), f("problem", problem);
  }
};
struct NegMessage {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "neg.message";
  bool sent = false;
  std::string_view kind;   ///< "Hello", "Welcome", "Turn", "Abort"; "raw" for a variant without headers
  std::string_view stage;  ///< "none" for Hello, Welcome and Abort
  std::uint16_t round = 0;
  bool last = false;  ///< the sender's last message of the stage
  std::uint64_t octets = 0;
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f.word("kind", kind);
    if (round != 0) f("stage", stage), f("round", round), f("last", last);
    f("octets", octets);
  }
};
/// The stage of a session: "none", "opening" (a dial's TCP connection), "waiting" (a dial's back-off), "info", "ready",
/// "done"; "over" after the last stage.
struct NegStage {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "neg.stage";
  std::string_view from, to;
  template <class F>
  void fields(F& f) const {
    f("from", from), f("to", to);
  }
};
struct NegAgreed {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "neg.agreed";
  std::string_view plugin, variant;
  std::uint64_t qps = 0;       ///< negotiated queue pairs
  std::uint32_t attempts = 1;  ///< attempts of a dial
  template <class F>
  void fields(F& f) const {
    f("plugin", plugin), f("variant", variant), f("qps", qps), f("attempts", attempts);
  }
};
/// Why a negotiation failed: the fields of neg::Failure.
struct NegWhy {
  std::string_view problem;  ///< "invalid_peer_data"
  std::string_view stage;
  std::uint16_t round = 0;
  bool by_peer = false;
  std::string_view text, advice;
  template <class F>
  void fields(F& f) const {
    f("problem", problem), f("stage", stage);
    if (round != 0) f("round", round);
    f("by_peer", by_peer), f("cause", text);
    if (!advice.empty()) f("advice", advice);
  }
};
struct NegFailed {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "neg.failed";
  NegWhy why;
  template <class F>
  void fields(F& f) const {
    why.fields(f);
  }
};
/// A dial continues at `next` after `wait`.
struct NegRetrying {
  static constexpr Level level = Level::info;
  static constexpr std::string_view name = "neg.retrying";
  Address next{};
  bool backup = false;  ///< `next` is not the address that failed
  Duration wait{};
  NegWhy why;
  template <class F>
  void fields(F& f) const {
    f("next", next), f("backup", backup);
    if (wait > Duration{}) f("back_off", wait);
    why.fields(f);
  }
};

// ---- queue pair --------------------------------------------------------------------------------------------------

/// RDMAP's own states: parley::iwarp::QpState.
struct QpState {
  static constexpr Level level = Level::debug;
  static constexpr std::string_view name = "qp.state";
  std::string_view from, to;
  template <class F>
  void fields(F& f) const {
    f("from", from), f("to", to);
  }
};
/// RFC 5040 §4.8
struct Terminate {
  static constexpr Level level = Level::warn;
  static constexpr std::string_view name = "qp.terminate";
  bool sent = false;
  std::uint8_t layer = 0, etype = 0, code = 0;
  std::string_view meaning;
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f("layer", layer), f("etype", etype), f("code", code);
    f("meaning", meaning);
  }
};
/// RFC 5044 §4.1, RFC 5041 §4. A received FPDU has a correct CRC; a sent one has been framed.
struct Fpdu {
  static constexpr Level level = Level::trace;
  static constexpr std::string_view name = "qp.fpdu";
  bool sent = false;
  std::string_view opcode;
  bool tagged = false, last = false;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t queue = 0, msn = 0, mo = 0;
  std::uint64_t octets = 0;  ///< payload after the DDP header
  template <class F>
  void fields(F& f) const {
    f.word("direction", direction(sent)), f.word("opcode", opcode);
    if (tagged)
      f("stag", stag), f("to", to);
    else
      f("queue", queue), f("msn", msn), f("mo", mo);
    f("octets", octets), f("last", last);
  }
};

using Event =
    std::variant<Listening, CmState, Admitted, Refused, Evicted, Requested, Resolved, TcpEnded, Decided, Established,
                 Rejected, Failed, Retrying, Disconnected, Lost, AddressChanged, DeviceRemoved, TimewaitExit,
                 TimerArmed, TimerExpired, KernelEvent, KernelMessage, MpaFrame, Rtr, MpaReason, QpState, Terminate,
                 Fpdu, NegStarted, NegRequested, NegRefused, NegMessage, NegStage, NegAgreed, NegFailed, NegRetrying>;

struct Record {
  Instant at{};
  std::uint64_t connection = 0;  ///< numbered from 1 in the order of first events; 0: none yet
  Address local{}, peer{};       ///< of the connection; port 0 while unknown
  const Event& event;            ///< borrowed for the call
};

class Sink {
 public:
  virtual ~Sink() = default;
  /// Must not call into the traced object.
  virtual void record(const Record& record) = 0;
  Level up_to = Level::debug;  ///< finer levels are not recorded
};

Level level_of(const Event& event);
std::string_view name_of(const Event& event);
/// Whether the event describes something that this side sends. Such an event precedes its octets; other events follow the
/// octets that caused them.
bool is_of_sending(const Event& event);

/// An event as text: "mpa.frame sent Request revision=2 flags=C,S control=A,D ird=32 ord=32 private_data_length=0"
std::string to_text(const Event& event);
/// With the connection in front: "#1 192.0.2.1:7471 mpa.frame ...".
std::string to_text(const Record& record);
/// With the time since `start`, the level and the connection in front: "0.000042 debug #1 192.0.2.1:7471 mpa.frame ...".
std::string to_text(const Record& record, Instant start);

}  // namespace parley::trace
