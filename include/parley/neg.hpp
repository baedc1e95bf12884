// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Staged QP negotiation: two sides exchange what their queue pairs need (info), say that these can receive (ready), and
// part (done, optional). What is exchanged is the business of a Variant, which a Plugin provides; the rounds, the time
// limits and the errors are the framework's. docs/negotiation.md has the words and the wire format.
//
// Nothing here knows a clock or a socket. A Framework and what it makes belong to one thread.
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

/// Whose fault it is: of what carries the messages, of a plug-in, or of the framework and how it is used.
enum class Layer : std::uint8_t { transport, plugin, framework };
std::string_view to_string(Layer layer);

/// What went wrong; the same numbers go over the wire.
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
  std::string text{};    ///< what happened, in words
  std::string advice{};  ///< what to try; lists the variants that there are where one was not found
  Stage stage = Stage::none;
  std::uint16_t round = 0;  ///< of the stage, from 1; 0 outside of stages
  bool by_peer = false;     ///< the peer said so
  /// "info, round 2: the peer's data cannot be used: 12 octets, 32 are due; ..."
  std::string to_string() const;
};
template <class T>
using Outcome = tl::expected<T, Failure>;

/// How the turns of a variant go over the stream.
enum class Framing : std::uint8_t {
  parley,  ///< each behind a header, after a Hello that names the variant (docs/negotiation.md)
  raw,  ///< as the variant's octets and nothing else, for peers that know nothing of Parley; both sides are configured
};

/// What a variant does in its turn.
struct Turn {
  Bytes message;  ///< to the peer; may be empty
  bool completed =
      false;  ///< it has said all in this stage. It is still given what the peer says, and answers nothing.
};

/// What the peer of a queue pair must know of it.
struct QpAttributes {
  std::uint32_t qpn = 0;                ///< 24 bits
  std::uint32_t psn = 0;                ///< of the first packet that it sends; 24 bits
  std::uint16_t lid = 0;                ///< 0: RoCE
  std::array<std::uint8_t, 16> gid{};   ///< all zero: none
  std::uint32_t mtu = 1024;             ///< of the path, in octets: 256, 512, 1024, 2048 or 4096
  std::uint8_t ird = 1, ord = 1;        ///< RDMA Reads and Atomics that it answers, and begins, at once (RC, XRC)
  std::uint32_t qkey = 0;               ///< UD
  std::uint32_t srqn = 0;               ///< XRC: of the shared receive queue; 24 bits
  std::uint32_t ini_qpn = 0;            ///< XRC: of the queue pair that sends; qpn is of the one that receives
  std::uint32_t rkey = 0;               ///< of the memory that the peer may use; 0: none
  std::uint64_t vaddr = 0, length = 0;  ///< of that memory
  bool has_gid() const { return gid != std::array<std::uint8_t, 16>{}; }
  bool operator==(const QpAttributes&) const = default;
};
enum class Transport : std::uint8_t { rc = 1, uc, ud, xrc };
/// "rc", "uc", "ud", "xrc".
std::string_view to_string(Transport transport);
/// What a variant has done with a queue pair once it was negotiated: the test of a program.
struct Played {
  std::string test{};          ///< "pingpong", or one of perftest's without ib_: "write_bw"
  std::uint64_t messages = 0;  ///< that this side has sent, written or read, and those that it has received
  std::uint64_t octets = 0;    ///< of all of these
  std::uint64_t lost = 0;      ///< UD, UC: that were due and did not come
  Duration took{};             ///< from the first to the last of them
  bool checked = false;        ///< the octets that came were looked at
};
struct QpPair {
  Transport transport = Transport::rc;
  QpAttributes local{}, peer{};
  std::string where{};             ///< of this side: device, port and GID, in words; empty: not known
  std::uint32_t mtu = 1024;        ///< of both
  std::uint8_t ird = 1, ord = 1;   ///< of this side, as far as the peer allows
  bool tested = false;             ///< a message has passed in both directions
  std::optional<Played> played{};  ///< of all queue pairs of a negotiation, told with the first
};

/// What a variant does between two stages: it is not through yet.
struct Work {
  Duration again{};    ///< so soon it wants to be called again; 0: at the next turn
  bool moved = false;  ///< something has happened since the last call: the peer is alive
};

/// One negotiation's part of a vendor: what is said in each stage. It keeps its state from turn to turn.
class Variant {
 public:
  virtual ~Variant() = default;
  /// `peer` is none in the initiator's first turn of a stage. An exception ends the session as unexpected_exception.
  /// Errors: of Layer::plugin.
  virtual Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) = 0;
  /// The stage is over on both sides. Errors: of Layer::plugin.
  virtual Outcome<void> finished(Stage stage) {
    (void)stage;
    return {};
  }
  /// Called once the stage is over, before the next one begins, and again while it says so: what this side has to do with
  /// its queue pairs until then. None: it is through. A call must not take long, for other sessions wait. Where no stage
  /// follows, the peer may hang up meanwhile. SessionOptions::answer_timeout counts from when something last moved.
  /// Errors: of Layer::plugin.
  virtual Outcome<std::optional<Work>> work(Stage stage, Instant now) {
    (void)stage, (void)now;
    return std::nullopt;
  }
  /// The peer has work to do before it speaks in this stage, of which this side sees nothing: its first message may come
  /// as late as SessionOptions::session_timeout allows, and answer_timeout does not count in the stage. Asked when the
  /// stage begins.
  virtual bool peer_works(Stage stage) const {
    (void)stage;
    return false;
  }
  /// The initiator asks for it; the responder does as it is asked. Framing::raw: each side's own is what counts.
  virtual bool has_done_stage() const { return false; }
  /// Framing::raw only: the octets of the peer's next message in the stage, which begins with `begun`. None: more must be
  /// there to tell. 0: the peer has nothing more to say in this stage; exchange() is called without it. With
  /// Framing::raw the stage is over for this side when its variant has completed it: nothing tells what the peer thinks.
  /// Errors: of Layer::plugin.
  virtual Outcome<std::optional<std::size_t>> message_length(Stage stage, ConstBytes begun) {
    (void)stage, (void)begun;
    return std::nullopt;
  }
  /// The queue pairs that were negotiated; none: it is too early, or the variant has no such thing.
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
  std::string otherwise{};             ///< the value where none is given
  std::uint64_t least = 0, most = ~0;  ///< of a number
  std::vector<std::string> choices{};  ///< of a choice
};
/// A parameter of this name that a configuration does not set has the peer's address, once that is known.
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
  virtual std::string id() const = 0;  ///< letters, digits, '-', '_' and '.'; at most 64
  virtual std::string version() const = 0;
  virtual std::vector<VariantInfo> variants() const = 0;
  /// Called once, when it is registered. Errors: of Layer::plugin.
  virtual Outcome<void> initialize() { return {}; }
  /// `config` has a value for each parameter that is required or has one otherwise, each checked. Errors: of Layer::plugin.
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

  /// Checks the plug-in against its interface and the others, then initializes it. Errors: plugin_refused (an id, version,
  /// variant or parameter that cannot be, or that is there twice), what initialize() says, unexpected_exception.
  Outcome<void> add(std::unique_ptr<Plugin> plugin);

  struct Entry {
    std::string plugin, version;
    VariantInfo variant;
  };
  /// Of all plug-ins, in the order in which they were added.
  const std::vector<Entry>& variants() const { return entries_; }
  /// Errors: plugin_not_found and variant_not_available, with those that there are in the advice.
  Outcome<const Entry*> find(std::string_view plugin, std::string_view variant) const;
  /// A variant for one session. Errors: those of find(), configuration_error, what make() says, unexpected_exception.
  Outcome<std::unique_ptr<Variant>> make(std::string_view plugin, std::string_view variant, Role role,
                                         const Config& config = {}) const;

 private:
  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<Entry> entries_;
};

struct SessionOptions {
  std::uint32_t message_max = 64 << 10;  ///< octets behind a header, either way; at most PARLEY_NEG_LENGTH_MAX
  std::uint16_t rounds_max = 64;         ///< turns of a side in one stage
  std::size_t history_max = 256;         ///< exchanges that are kept; the oldest go
  std::size_t history_octets = 256;      ///< of each message that are kept
  Duration answer_timeout = std::chrono::seconds(10);   ///< for each answer of the peer
  Duration session_timeout = std::chrono::seconds(60);  ///< for all of it, a program's test that is played included
  /// Gets the messages and stages of the session (parley/trace.hpp); not owned, and must outlive it. Null: nothing is
  /// recorded. TcpPeers has its own, PeersOptions::trace.
  trace::Sink* trace = nullptr;
};

/// One message of a session, for debugging.
struct Exchange {
  Instant at{};
  Stage stage = Stage::none;  ///< none: Hello, Welcome, Abort
  std::uint16_t round = 0;
  bool sent = false;
  bool last = false;  ///< the sender's part of the stage is over with it
  std::uint32_t length = 0;
  Bytes head{};  ///< the first SessionOptions::history_octets of it
};

}  // namespace parley::neg
