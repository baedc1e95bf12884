// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/verbs.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"

namespace parley::neg {
namespace {

constexpr int strangers_at_once = 4;  // datagrams of other senders that one look skips
constexpr int looks_max = 48;         // below SessionOptions::rounds_max, so that the reason given is the real one

enum class Item : std::uint16_t {
#define PARLEY_X(name, type, octets, text) name = type,
  PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
};
enum class Ready : std::uint8_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_NEG_READY(PARLEY_X)
#undef PARLEY_X
};

/// Octets of an item of that type; none: it is not known.
std::optional<std::size_t> item_octets(std::uint16_t type) {
  switch (static_cast<Item>(type)) {
#define PARLEY_X(name, value, octets, text) \
  case Item::name: return octets;
    PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
  }
  return std::nullopt;
}

/// Writes one item; its value is what `fill` writes.
template <class Fill>
void add_qp_item(Bytes& out, Item item, Fill fill) {
  const std::size_t octets = *item_octets(static_cast<std::uint16_t>(item)), at = out.size();
  out.resize(at + PARLEY_NEG_ITEM_LEN + octets);
  Writer w(MutBytes(out).subspan(at));
  w.be16(static_cast<std::uint16_t>(item));
  w.be16(static_cast<std::uint16_t>(octets));
  fill(w);
}

void parse_qp_item(QpInfo& out, Item item, Reader r) {
  QpAttributes& a = out.attributes;
  switch (item) {
    case Item::qpn: a.qpn = r.be32(); break;
    case Item::psn: a.psn = r.be32(); break;
    case Item::lid: a.lid = r.be16(); break;
    case Item::gid: {
      const ConstBytes gid = r.bytes(16);
      std::copy(gid.begin(), gid.end(), a.gid.begin());
      break;
    }
    case Item::mtu: a.mtu = r.be32(); break;
    case Item::ird: a.ird = r.u8(); break;
    case Item::ord: a.ord = r.u8(); break;
    case Item::qkey: a.qkey = r.be32(); break;
    case Item::srqn: a.srqn = r.be32(); break;
    case Item::ini_qpn: a.ini_qpn = r.be32(); break;
    case Item::memory:
      a.rkey = r.be32();
      a.vaddr = r.be64();
      a.length = r.be64();
      break;
    case Item::tests: out.tests = true; break;
  }
}

Bytes test_message(const QpAttributes& sender) {
  Bytes out(PARLEY_NEG_TEST_LEN);
  Writer w(out);
  for (const char c : std::string_view(PARLEY_NEG_TEST_MAGIC)) w.u8(static_cast<std::uint8_t>(c));
  w.be32(sender.qpn);
  w.be32(sender.psn);
  return out;
}

Turn say(Ready what, bool completed) { return {.message = {static_cast<std::uint8_t>(what)}, .completed = completed}; }

}  // namespace

Bytes write_qp_info(Transport transport, const QpAttributes& a, bool tests) {
  Bytes out{PARLEY_NEG_QP_VERSION, static_cast<std::uint8_t>(transport), 0, 0};
  add_qp_item(out, Item::qpn, [&](Writer& w) { w.be32(a.qpn); });
  add_qp_item(out, Item::psn, [&](Writer& w) { w.be32(a.psn); });
  if (a.lid != 0) add_qp_item(out, Item::lid, [&](Writer& w) { w.be16(a.lid); });
  if (a.has_gid()) add_qp_item(out, Item::gid, [&](Writer& w) { w.bytes(a.gid); });
  add_qp_item(out, Item::mtu, [&](Writer& w) { w.be32(a.mtu); });
  if (transport == Transport::rc || transport == Transport::xrc) {
    add_qp_item(out, Item::ird, [&](Writer& w) { w.u8(a.ird); });
    add_qp_item(out, Item::ord, [&](Writer& w) { w.u8(a.ord); });
  }
  if (transport == Transport::ud) add_qp_item(out, Item::qkey, [&](Writer& w) { w.be32(a.qkey); });
  if (transport == Transport::xrc) {
    add_qp_item(out, Item::srqn, [&](Writer& w) { w.be32(a.srqn); });
    add_qp_item(out, Item::ini_qpn, [&](Writer& w) { w.be32(a.ini_qpn); });
  }
  if (a.length != 0 || a.rkey != 0)
    add_qp_item(out, Item::memory, [&](Writer& w) {
      w.be32(a.rkey);
      w.be64(a.vaddr);
      w.be64(a.length);
    });
  if (tests) add_qp_item(out, Item::tests, [](Writer&) {});
  return out;
}

Outcome<QpInfo> read_qp_info(Transport transport, ConstBytes in) {
  Reader r(in);
  const std::uint8_t version = r.u8();
  const auto spoken = static_cast<Transport>(r.u8());
  (void)r.be16();
  if (!r.ok())
    return failed(Problem::invalid_peer_data,
                  fmt::format("{}, {} are expected", counted(in.size(), "octet"), PARLEY_NEG_QP_HEADER_LEN));
  if (version != PARLEY_NEG_QP_VERSION)
    return failed(Problem::invalid_peer_data,
                  fmt::format("the attributes have version {}; this side supports {}", version, PARLEY_NEG_QP_VERSION));
  if (spoken != transport)
    return failed(
        Problem::invalid_peer_data,
        fmt::format("the peer has a queue pair of {}, this side one of {}", to_string(spoken), to_string(transport)),
        "choose the same transport on both sides");
  QpInfo out;
  bool qpn = false, psn = false, qkey = false;
  while (r.left() > 0) {
    const std::uint16_t type = r.be16(), length = r.be16();
    const ConstBytes value = r.bytes(length);
    if (!r.ok())
      return failed(Problem::invalid_peer_data, fmt::format("item {:#06x} of {} octets is cut off", type, length));
    const auto octets = item_octets(type);
    if (!octets && (type & PARLEY_NEG_ITEM_CRITICAL) != 0)
      return failed(Problem::invalid_peer_data, fmt::format("item {:#06x} is unknown and must not be skipped", type));
    if (!octets) continue;
    if (*octets != length)
      return failed(Problem::invalid_peer_data,
                    fmt::format("item {:#06x} has {} octets, {} are expected", type, length, *octets));
    parse_qp_item(out, static_cast<Item>(type), Reader(value));
    qpn = qpn || static_cast<Item>(type) == Item::qpn;
    psn = psn || static_cast<Item>(type) == Item::psn;
    qkey = qkey || static_cast<Item>(type) == Item::qkey;
  }
  if (!qpn || !psn)
    return failed(Problem::invalid_peer_data, fmt::format("the item {} is missing", qpn ? "psn" : "qpn"));
  if (transport == Transport::ud && !qkey)
    return failed(Problem::invalid_peer_data, "the item qkey is missing; UD needs it");
  return out;
}

Outcome<Turn> VerbsVariant::exchange(Stage stage, std::optional<ConstBytes> peer) {
  switch (stage) {
    case Stage::info: return info(peer);
    case Stage::ready: return ready(peer);
    default: return Turn{.completed = true};
  }
}

Outcome<Turn> VerbsVariant::info(std::optional<ConstBytes> peer) {
  const bool can_test = set_.driver(0).can_test();
  if (can_test && !std::exchange(expects_, true))
    if (auto posted = set_.driver(0).expect_test(); !posted) return tl::unexpected(posted.error());
  if (peer) {
    const auto heard = read_qp_info(transport_, *peer);
    if (!heard) return tl::unexpected(heard.error());
    if (auto taken = set_.set_peer(0, heard->attributes); !taken) return tl::unexpected(taken.error());
    tests_ = can_test && heard->tests;
    if (auto moved = set_.to_rtr(); !moved) return tl::unexpected(moved.error());
    if (role_ == Role::initiator) return Turn{.completed = true};
  }
  return Turn{write_qp_info(transport_, set_.local(0), can_test), true};
}

Outcome<Turn> VerbsVariant::ready(std::optional<ConstBytes> peer) {
  if (peer && !peer->empty()) {
    const auto said = static_cast<Ready>(peer->front());
    if (peer->size() != 1 || said < Ready::ready || said > Ready::waiting)
      return failed(Problem::invalid_peer_data, fmt::format("{} is not a word of the stage ready", hex_text(*peer)));
    peer_seen_ = peer_seen_ || said == Ready::seen;
  }
  if (!rts_) {
    if (auto moved = set_.to_rts(); !moved) return tl::unexpected(moved.error());
    rts_ = true;
    if (tests_ && role_ == Role::responder)
      if (auto sent = send_test(); !sent) return tl::unexpected(sent.error());
    return say(Ready::ready, !tests_);
  }
  if (seen_ || !tests_) {
    // The peer still waits for the test message. UC and UD do not retransmit; receive_test() lets the driver do it.
    if (seen_ && !peer_seen_)
      if (auto again = receive_test(); !again) return tl::unexpected(again.error());
    return Turn{.completed = true};
  }
  if (looks_ == 0 && role_ == Role::initiator)
    if (auto sent = send_test(); !sent) return tl::unexpected(sent.error());
  return look();
}

Outcome<void> VerbsVariant::send_test() { return set_.driver(0).send_test(test_message(set_.local(0))); }

// A UD queue pair also receives datagrams of other senders.
Outcome<std::optional<Bytes>> VerbsVariant::receive_test() {
  const Bytes due = test_message(set_.agreed().at(0).peer);
  for (int i = 0; i < strangers_at_once; ++i) {
    auto came = set_.driver(0).receive_test();
    if (!came || !*came || **came == due || transport_ != Transport::ud) return came;
    ++strangers_;
  }
  return std::nullopt;
}

Outcome<Turn> VerbsVariant::look() {
  auto came = receive_test();
  if (!came) return tl::unexpected(came.error());
  if (!*came) {
    if (++looks_ == looks_max)
      return tl::unexpected(
          Failure{.problem = Problem::vendor_library_error,
                  .text = fmt::format("the peer's test message has not come; {} looks{}", looks_,
                                      strangers_ == 0 ? "" : ", " + counted(strangers_, "datagram") + " of others"),
                  .advice = "check GIDs, path MTU and that nothing on the path drops RoCE's UDP port 4791"});
    return say(Ready::waiting, false);
  }
  looks_ = std::max(looks_, 1);
  if (**came != test_message(set_.agreed().at(0).peer))
    return failed(Problem::invalid_peer_data, fmt::format("the test message is not the peer's: {}", hex_text(**came)));
  seen_ = true;
  set_.set_tested();
  return say(Ready::seen, true);
}

}  // namespace parley::neg
