// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages between a member and its broker: one per packet of a seqpacket socket, all numbers big-endian. Each kind
// has a fixed length; unused fields are 0. docs/xrc.md has the layout.
#pragma once
#include <string>
#include <variant>

#include "parley/bytes.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc {

inline constexpr std::uint8_t protocol_version = 1;
inline constexpr std::size_t message_max = 112;  ///< octets of the longest
inline constexpr std::size_t command_max = 16;   ///< octets of a process's name

// X(name, number): the requests of a member
#define PARLEY_XRC_REQUESTS(X) \
  X(hello, 1)                  \
  X(open, 2)                   \
  X(close, 3)                  \
  X(create, 4)                 \
  X(publish, 5)                \
  X(enlist, 6)                 \
  X(unregister, 7)             \
  X(modify, 8)                 \
  X(query, 9)                  \
  X(report, 10)                \
  X(report_device, 11)         \
  X(find, 12)                  \
  X(add_srq, 13)               \
  X(remove_srq, 14)            \
  X(note_other, 15)            \
  X(route, 16)                 \
  X(restore, 17)               \
  X(list, 18)                  \
  X(kill, 19)

enum class RequestType : std::uint8_t {
#define PARLEY_X(name, number) name = number,
  PARLEY_XRC_REQUESTS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(RequestType ask);  ///< "enlist"

struct Request {
  enum Flag : std::uint16_t {
    create = 1,
    exclusive = 2,
    shared = 4,
    force = 8,
    has_peer = 16,
    reserve = 32,
    carrier = 64
  };
  RequestType ask = RequestType::hello;
  std::uint64_t number = 0;  ///< repeated in the answer
  std::uint16_t flags = 0;
  State state = State::creating;     ///< modify, restore
  EventKind kind = EventKind::none;  ///< report, restore
  std::uint32_t reason = 0;
  TgtId tgt{};
  std::uint32_t other = 0;  ///< a second number: publish, queues; hello: the oldest version; open: epoch of `reason`
  std::uint64_t value = 0;  ///< hello: start of the process; open: device; modify: digest; restore: proof
  Peer peer{};
  std::uint32_t pid = 0;  ///< hello
  AttributeDigests attributes{};
  std::uint64_t events = 0;
  std::string command{};  ///< hello; cut after command_max octets
};

struct Answer {
  enum Flag : std::uint16_t { already = 1, has_peer = 2 };
  std::uint64_t number = 0;
  Refusal refusal = Refusal::none;
  RequestType about = RequestType::hello;
  std::uint16_t flags = 0;
  State state = State::creating;
  EventKind why = EventKind::none;
  std::uint32_t reason = 0;
  TgtId tgt{};
  /// hello: version; open: member; create, enlist, publish, restore: proof for the next broker; unregister: number of
  /// dropped events; route: Route; query: age in ns
  std::uint64_t value = 0;
  std::uint32_t epoch = 0;
  Peer peer{};
  AttributeDigests attributes{};
  std::uint64_t events = 0;
};

/// One item of a list. The items of a list have the number of its request, and its answer follows them.
struct Item {
  enum class What : std::uint8_t { domain = 1, member, tgt, registrant, counter };
  enum Flag : std::uint8_t { shared = 1, has_peer = 2, events_lost = 4 };
  std::uint64_t number = 0;
  What what = What::domain;
  State state = State::creating;
  EventKind why = EventKind::none;
  std::uint8_t flags = 0;
  std::array<std::uint32_t, 3>
      small{};  ///< member: pid, uid, registrations; tgt: qpn, reason, peer's qpn; counter: which
  /// domain: number, device, st_dev, st_ino. member: domain, number, start, srqs << 32 | events waiting. tgt: domain,
  /// generation, peer's GUID, age in ns, last event. registrant: generation, member. counter: value.
  std::array<std::uint64_t, 5> large{};
  std::string command{};
};

using Message = std::variant<Request, Answer, Event, Item>;

Bytes emit(const Request& m);
Bytes emit(const Answer& m);
Bytes emit(const Event& m);
Bytes emit(const Item& m);
Bytes emit(const Message& message);
/// Errors: bad_version; bad_message (too short or too long, wrong magic number, unknown kind, invalid enumerator).
Result<Message> parse(ConstBytes octets);
/// The number of a request that cannot be parsed, for its answer. 0: too short, or wrong magic number.
std::uint64_t number_of(ConstBytes octets);

}  // namespace parley::xrc
