// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One node or one master alone: messages of its peers, and what it does in words.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mad/serve.hpp"
#include "ssa/master/master.hpp"
#include "ssa/node/node.hpp"

namespace parley::ssa::kit {

using namespace std::chrono_literals;
using wire::mad::Datagram;
using wire::mad::Method;
using wire::mad::MgmtClass;
using wire::mad::SsaChild;
using wire::mad::SsaChildLost;
using wire::mad::SsaEndpoint;
using wire::mad::SsaHello;
using wire::mad::SsaHookup;
using wire::mad::SsaLeave;
using wire::mad::SsaParent;
namespace roles = wire::mad::ssa_roles;
namespace flags = wire::mad::ssa_node_flags;

inline constexpr std::uint64_t tree_key = 0x5EC2E7;

/// The port with this LID.
inline Gid gid_of(std::uint16_t lid) {
  return {0xFE,
          0x80,
          0,
          0,
          0,
          0,
          0,
          0,
          0,
          2,
          0xC9,
          0,
          0,
          0,
          static_cast<std::uint8_t>(lid >> 8),
          static_cast<std::uint8_t>(lid)};
}
inline std::uint16_t lid_of(const Gid& gid) { return static_cast<std::uint16_t>(gid[14] << 8 | gid[15]); }
inline mad::Address at(std::uint16_t lid) {
  mad::Address out;
  out.lid = lid;
  return out;
}
inline SsaEndpoint endpoint_of(std::uint16_t lid) {
  if (lid == 0) return {};
  return SsaEndpoint{}
      .set(SsaEndpoint::gid, gid_of(lid))
      .set(SsaEndpoint::lid, lid)
      .set(SsaEndpoint::p_key, 0xFFFF)
      .set(SsaEndpoint::port, 7475);
}

template <Method M, class A>
Datagram request_of(A body, std::uint64_t transaction = 77, std::uint64_t key = tree_key) {
  body.set(A::ssa_key, key);
  return wire::mad::request<MgmtClass::ssa, M>(body, {.transaction_id = transaction});
}
template <class A>
Datagram answer_to(const Datagram& request, const A& body, AnswerStatus status = AnswerStatus::ok) {
  return *mad::reply_to(request, body.octets(), static_cast<std::uint16_t>(status));
}
template <class A>
A body_of(const Datagram& mad) {
  return *A::parse(ConstBytes(mad).subspan(24));
}
inline std::uint16_t status_of(const Datagram& mad) { return static_cast<std::uint16_t>(mad[4] << 8 | mad[5]); }

inline std::string name_of(Method method) {
  switch (method) {
#define PARLEY_X(name, number, text) \
  case Method::name: return text;
    PARLEY_MAD_METHODS(PARLEY_X)
#undef PARLEY_X
  }
  return "?";
}
inline std::string name_of(const Body& body) {
  constexpr const char* names[] = {"Hello", "Parent", "Hookup", "ChildLost", "Leave"};
  return names[body.index()];
}
inline std::string name_of(AnswerStatus status) {
  switch (status) {
    case AnswerStatus::ok: return "ok";
#define PARLEY_X(name, number, text) \
  case AnswerStatus::name: return #name;
      PARLEY_SSA_STATUSES(PARLEY_X)
#undef PARLEY_X
  }
  return "?";
}

/// "Set(Hello) to master", "GetResp(Parent) to master: denied".
inline std::string words(const Transmit& sent, const std::string& to) {
  const auto message = parse_message(sent.mad);
  if (!message) return "INVALID: " + message.error().message();
  std::string out = fmt::format("{}({}) to {}", name_of(message->method), name_of(message->body), to);
  if (message->status != 0) out += ": " + name_of(static_cast<AnswerStatus>(message->status));
  return out;
}

inline std::string name_of(NodeState state) {
  constexpr const char* names[] = {"idle", "joining", "orphan", "have_parent", "connecting", "connected"};
  return names[static_cast<int>(state)];
}
inline std::string name_of(NodeEvent::Kind kind) {
  constexpr const char* names[] = {"parent_connected", "parent_lost", "parent_released",
                                   "backup_connected", "backup_lost", "new_epoch",
                                   "child_connected",  "child_lost",  "child_left"};
  return names[static_cast<int>(kind)];
}
inline std::string name_of(MemberStage stage) {
  constexpr const char* names[] = {"waiting", "asked", "assigned", "confirmed"};
  return names[static_cast<int>(stage)];
}
inline std::string name_of(MasterEvent::Kind kind) {
  constexpr const char* names[] = {"joined", "left", "lost", "newer_master"};
  return names[static_cast<int>(kind)];
}

inline std::string joined(const std::vector<std::string>& parts) { return fmt::format("{}", fmt::join(parts, "; ")); }

/// The LIDs of the peers.
inline constexpr std::uint16_t own_lid = 7, master_lid = 1, distribution_lid = 2, parent_lid = 10, backup_lid = 11,
                               third_lid = 12, child_lid = 20, stranger_lid = 99;
inline std::string peer_name(std::uint16_t lid) {
  switch (lid) {
    case own_lid: return "itself";
    case master_lid: return "master";
    case parent_lid: return "parent";
    case backup_lid: return "backup";
    case third_lid: return "third";
    case child_lid: return "child";
    case distribution_lid: return "distribution";
    default: return "stranger";
  }
}

/// An access node and its peers, of which nothing exists but the messages.
struct NodeBench {
  explicit NodeBench(NodeOptions options = defaults()) : node(options) {}

  static NodeOptions defaults() {
    NodeOptions options;
    options.key = tree_key;
    options.gid = gid_of(own_lid);
    options.roles = roles::access;
    options.endpoint = endpoint_of(own_lid);
    options.children_max = 2;
    return options;
  }

  std::vector<Transmit> drain() {
    std::vector<Transmit> out;
    while (auto sent = node.poll_transmit()) out.push_back(std::move(*sent));
    last = out.empty() ? last : out.back().mad;
    return out;
  }
  std::vector<NodeEvent> events() {
    std::vector<NodeEvent> out;
    while (auto event = node.poll_event()) out.push_back(*event);
    return out;
  }
  void receive(std::uint16_t from, const Datagram& mad) { node.handle_message(now, at(from), mad); }
  void to_deadline() {
    now = std::max(now, node.next_deadline());
    node.handle_deadline(now);
  }

  Datagram hello_answer(const Datagram& hello, std::uint64_t ticket = 1, AnswerStatus status = AnswerStatus::ok) {
    return answer_to(hello,
                     body_of<SsaHello>(hello)
                         .set(SsaHello::epoch, wire_of(master_epoch))
                         .set(SsaHello::ticket, ticket)
                         .set(SsaHello::wait, 2000),
                     status);
  }
  SsaParent assignment(std::uint64_t ticket, std::uint16_t parent, std::uint16_t backup) const {
    return SsaParent{}
        .set(SsaParent::epoch, wire_of(master_epoch))
        .set(SsaParent::ticket, ticket)
        .set(SsaParent::port_gid, gid_of(own_lid))
        .set(SsaParent::roles, roles::access)
        .set(SsaParent::level, 2)
        .set(SsaParent::parent, endpoint_of(parent))
        .set(SsaParent::backup, endpoint_of(backup));
  }
  void assign(std::uint64_t ticket, std::uint16_t parent, std::uint16_t backup) {
    receive(master_lid, request_of<Method::set>(assignment(ticket, parent, backup)));
  }
  Datagram hookup_answer(const Datagram& hookup, std::uint16_t from, AnswerStatus status = AnswerStatus::ok) const {
    return answer_to(hookup,
                     body_of<SsaHookup>(hookup)
                         .set(SsaHookup::epoch, wire_of(parent_epoch))
                         .set(SsaHookup::endpoint, endpoint_of(from))
                         .set(SsaHookup::heartbeat, 2000),
                     status);
  }
  SsaHookup hookup_of(std::uint16_t from) const {
    return SsaHookup{}.set(SsaHookup::endpoint, endpoint_of(from)).set(SsaHookup::epoch, wire_of(parent_epoch));
  }

  /// Lets time pass up to the next datagram of this kind; that is `last` then.
  void until(Method method, std::uint16_t to) {
    for (int i = 0; i < 100; ++i) {
      for (const Transmit& sent : drain())
        if (sent.mad[3] == static_cast<std::uint8_t>(method) && sent.to.lid == to) {
          last = sent.mad;
          (to == master_lid ? hello : hookup) = last;
          return;
        }
      to_deadline();
    }
    ADD_FAILURE() << name_of(method) << " to " << to << " was not sent";
  }
  /// Connected to the parent, and to the backup if it has one.
  void connect(bool with_backup) {
    node.start(now, at(master_lid));
    until(Method::set, master_lid);
    receive(master_lid, hello_answer(last));
    assign(2, parent_lid, with_backup ? backup_lid : 0);
    until(Method::set, parent_lid);
    receive(parent_lid, hookup_answer(last, parent_lid));
    node.handle_database(now, parent_epoch);
    if (!with_backup) return;
    until(Method::set, backup_lid);
    receive(backup_lid, hookup_answer(last, backup_lid));
  }

  Node node;
  Instant now{};
  Epoch master_epoch{1, 5}, parent_epoch{1, 5};
  Datagram last{};
  /// The last ones that until() has found; before, such ones that the node has not sent.
  Datagram hello = request_of<Method::set>(
               SsaHello{}.set(SsaHello::port_gid, gid_of(own_lid)).set(SsaHello::roles, roles::access)),
           hookup = request_of<Method::set>(hookup_of(own_lid));
};

}  // namespace parley::ssa::kit
