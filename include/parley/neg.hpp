// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Staged QP negotiation. Two sides exchange the attributes of their queue pairs (info), confirm that these can receive
// (ready), and finish (done, optional). A Variant, which a Plugin provides, defines the messages; the framework handles
// rounds, time limits and errors. docs/negotiation.md has the terms and the wire format.
//
// This code uses no clock and no socket. One thread uses a Framework and everything it creates.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "parley/wire/neg.h"

namespace parley::trace {
class Sink;
}

namespace parley::neg {

enum class Role : std::uint8_t { initiator, responder };
enum class Stage : std::uint8_t { none, info, ready, done };
/// "none", "info", "ready", "done".
std::string_view to_string(Stage stage);

/// The layer at fault: the message transport, a plug-in, or the framework and its use.
enum class Layer : std::uint8_t { transport, plugin, framework };
std::string_view to_string(Layer layer);

/// The error; the same numbers are used on the wire.
enum class Problem : std::uint16_t {
#define PARLEY_X(name, value, layer, text) name = value,
  PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
};
/// "invalid_peer_data": stable, for programs.
std::string_view to_string(Problem problem);
/// "the peer's data cannot be used".
std::string_view text_of(Problem problem);
Layer layer_of(Problem problem);

struct Failure {
  Problem problem{};
  std::string text{};    ///< what happened
  std::string advice{};  ///< a suggestion; if a variant was not found, lists the known ones
  Stage stage = Stage::none;
  std::uint16_t round = 0;  ///< in the stage, from 1; 0 outside of stages
  bool by_peer = false;     ///< the peer reported it
  /// "info, round 2: the peer's data cannot be used: 12 octets, 32 are expected; ..."
  std::string to_string() const;
};
template <class T>
using Outcome = tl::expected<T, Failure>;

/// The encoding of a variant's turns on the stream.
enum class Framing : std::uint8_t {
  parley,  ///< each with a header, after a Hello that names the variant (docs/negotiation.md)
  raw,     ///< only the variant's octets, for peers other than Parley; both sides are configured
};

/// A variant's turn.
struct Turn {
  Bytes message;  ///< for the peer; may be empty
  bool completed =
      false;  ///< the variant's last message of this stage. It still receives the peer's messages, and answers none.
};

/// The attributes of a queue pair that its peer needs.
struct QpAttributes {
  std::uint32_t qpn = 0;                ///< 24 bits
  std::uint32_t psn = 0;                ///< of the first packet that it sends; 24 bits
  std::uint16_t lid = 0;                ///< 0: RoCE
  std::array<std::uint8_t, 16> gid{};   ///< all zero: none
  std::uint32_t mtu = 1024;             ///< path MTU in octets: 256, 512, 1024, 2048 or 4096
  std::uint8_t ird = 1, ord = 1;        ///< inbound and outbound RDMA Reads and Atomics at once (RC, XRC)
  std::uint32_t qkey = 0;               ///< UD
  std::uint32_t srqn = 0;               ///< XRC: the shared receive queue's number; 24 bits
  std::uint32_t ini_qpn = 0;            ///< XRC: the sending queue pair; qpn is the receiving one
  std::uint32_t rkey = 0;               ///< of the memory that the peer may access; 0: none
  std::uint64_t vaddr = 0, length = 0;  ///< of that memory; length in octets
  bool has_gid() const { return gid != std::array<std::uint8_t, 16>{}; }
  bool operator==(const QpAttributes&) const = default;
};
enum class Transport : std::uint8_t { rc = 1, uc, ud, xrc };
/// "rc", "uc", "ud", "xrc".
std::string_view to_string(Transport transport);
/// The test that a variant ran on a negotiated queue pair.
struct Played {
  std::string test{};          ///< "pingpong", or a test of perftest without ib_: "write_bw"
  std::uint64_t messages = 0;  ///< messages that this side sent, wrote or read, plus messages received
  std::uint64_t octets = 0;    ///< in all of these messages
  std::uint64_t lost = 0;      ///< UD, UC: expected messages that did not arrive
  Duration took{};             ///< from the first to the last of these messages
  bool checked = false;        ///< the received octets were verified
};
struct QpPair {
  Transport transport = Transport::rc;
  QpAttributes local{}, peer{};
  std::string where{};             ///< this side's device, port and GID, as text; empty: unknown
  std::uint32_t mtu = 1024;        ///< lower value of both sides
  std::uint8_t ird = 1, ord = 1;   ///< this side's, limited by the peer's
  bool tested = false;             ///< a message was received in both directions
  std::optional<Played> played{};  ///< totals of all queue pairs of a negotiation, in the first QpPair
};

/// Work of a variant between two stages that is not complete yet.
struct Work {
  Duration again{};    ///< call again after this time; 0: at the next turn
  bool moved = false;  ///< progress since the last call: the peer is alive
};

/// A vendor's part of one negotiation: its messages in each stage. It keeps its state between turns.
class Variant {
 public:
  virtual ~Variant() = default;
  /// `peer` is empty in the initiator's first turn of a stage. An exception ends the session with unexpected_exception.
  /// Errors: of Layer::plugin.
  virtual Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) = 0;
  /// The stage has ended on both sides. Errors: of Layer::plugin.
  virtual Outcome<void> finished(Stage stage) {
    (void)stage;
    return {};
  }
  /// Called after a stage, before the next one begins, and again as long as it returns Work: what this side must do with its
  /// queue pairs between the stages. Empty: the work is complete. A call must be short, because other sessions wait for it.
  /// If no stage follows, the peer may close the connection meanwhile. SessionOptions::answer_timeout runs from the last
  /// progress.
  /// Errors: of Layer::plugin.
  virtual Outcome<std::optional<Work>> work(Stage stage, Instant now) {
    (void)stage, (void)now;
    return std::nullopt;
  }
  /// Whether the peer does work that this side cannot see before its first message of this stage. That message may then
  /// arrive as late as SessionOptions::session_timeout allows, and answer_timeout does not apply in the stage. Called at the
  /// start of the stage.
  virtual bool peer_works(Stage stage) const {
    (void)stage;
    return false;
  }
  /// Requested by the initiator; the responder follows it. Framing::raw: each side uses its own value.
  virtual bool has_done_stage() const { return false; }
  /// Framing::raw only: the length in octets of the peer's next message in the stage, which starts with `begun`. Empty: more
  /// octets are needed. 0: the peer sends nothing more in this stage; exchange() is called without a message. With
  /// Framing::raw the stage ends for this side when its variant completes it: the peer's view is not visible.
  /// Errors: of Layer::plugin.
  virtual Outcome<std::optional<std::size_t>> message_length(Stage stage, ConstBytes begun) {
    (void)stage, (void)begun;
    return std::nullopt;
  }
  /// The negotiated queue pairs; empty if it is too early, or if the variant has none.
  virtual std::vector<QpPair> agreed() const { return {}; }
};

/// The values of a variant's parameters, by name.
using Config = std::map<std::string, std::string, std::less<>>;

struct Parameter {
  enum class Kind : std::uint8_t { text, number, flag, choice };
  std::string name;
  Kind kind = Kind::text;
  std::string help{};
  bool required = false;
  std::string otherwise{};             ///< the default; empty: none
  std::uint64_t least = 0, most = ~0;  ///< range of a number
  std::vector<std::string> choices{};  ///< values of a choice
};
/// If a configuration does not set a parameter of this name, it gets the peer's address once that is known.
inline constexpr std::string_view toward_parameter = "toward";

struct VariantInfo {
  std::string id;
  std::string summary{};
  std::vector<Parameter> parameters{};
  Framing framing = Framing::parley;
};

/// A vendor's variants.
class Plugin {
 public:
  virtual ~Plugin() = default;
  virtual std::string id() const = 0;  ///< letters, digits, '-', '_' and '.'; at most 64 characters
  virtual std::string version() const = 0;
  virtual std::vector<VariantInfo> variants() const = 0;
  /// Called once, at registration. Errors: of Layer::plugin.
  virtual Outcome<void> initialize() { return {}; }
  /// `config` has a checked value for each parameter that is required or has a default. Errors: of Layer::plugin.
  virtual Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role role, const Config& config) = 0;
};

/// The registry of plug-ins.
class Framework {
 public:
  static constexpr std::size_t plugins_max = 256, variants_max = 256, parameters_max = 256;

  Framework();
  ~Framework();
  Framework(Framework&&) noexcept;
  Framework& operator=(Framework&&) noexcept;

  /// Validates the plug-in, then initializes it. Errors: plugin_refused (an invalid or duplicate id, version, variant or
  /// parameter), resource_exhaustion (plugins_max), errors of initialize(), unexpected_exception.
  Outcome<void> add(std::unique_ptr<Plugin> plugin);

  struct Entry {
    std::string plugin, version;
    VariantInfo variant;
  };
  /// The variants of all plug-ins, in the order of add().
  const std::vector<Entry>& variants() const { return entries_; }
  /// Errors: plugin_not_found and variant_not_available; the advice lists the known ones.
  Outcome<const Entry*> find(std::string_view plugin, std::string_view variant) const;
  /// Creates a variant for one session. Errors: those of find(), configuration_error, errors of make(),
  /// unexpected_exception.
  Outcome<std::unique_ptr<Variant>> make(std::string_view plugin, std::string_view variant, Role role,
                                         const Config& config = {}) const;

 private:
  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<Entry> entries_;
};

struct SessionOptions {
  std::uint32_t message_max = 64 << 10;  ///< octets after a header, in both directions; at most PARLEY_NEG_LENGTH_MAX
  std::uint16_t rounds_max = 64;         ///< turns of each side in one stage
  std::size_t history_max = 256;         ///< exchanges to keep; the oldest are dropped
  std::size_t history_octets = 256;      ///< octets of each message to keep
  Duration answer_timeout = std::chrono::seconds(10);   ///< for each answer of the peer
  Duration session_timeout = std::chrono::seconds(60);  ///< for the whole session, including a program's test
  /// Receives the messages and stages of the session (parley/trace.hpp). Not owned; must outlive the session. Null: no
  /// trace. TcpPeers has its own, PeersOptions::trace.
  trace::Sink* trace = nullptr;
};

/// One message of a session, for debugging.
struct Exchange {
  Instant at{};
  Stage stage = Stage::none;  ///< none: Hello, Welcome, Abort
  std::uint16_t round = 0;
  bool sent = false;
  bool last = false;  ///< the sender's last message of the stage
  std::uint32_t length = 0;
  Bytes head{};  ///< its first octets, up to SessionOptions::history_octets
};

}  // namespace parley::neg
