// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The InfiniBand CM with any MADs, any commands in any order, and any times: it stays within its bounds, what it sends are whole
// messages, nothing is said of a destroyed ID, and when all IDs are destroyed nothing is left (IBA §12.9).
#include <set>
#include <string>
#include <vector>

#include "cm/ibcm/agent.hpp"
#include "tests/fuzz/draw.hpp"
#include "wire/ib/cm.hpp"

namespace parley::fuzz {
namespace {

using namespace cm::ibcm;
using namespace wire::ib;

constexpr std::uint32_t connections_max = 12, remembered_max = 6;
constexpr std::uint64_t service = 0x0000000001062329;

Gid gid(std::uint8_t n) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, n}; }

AgentOptions draw_options(Draw& draw) {
  AgentOptions o{.ca_guid = 0x505400FFFE000001, .seed = 1};
  const std::uint8_t flags = draw.u8();
  o.timers.kind = (flags & 1) != 0 ? Timers::Kind::back_off : Timers::Kind::spec;
  o.timers.retries = flags >> 4;
  if ((flags & 2) != 0) o.mra_timeout = std::nullopt;
  o.check_source_gid = (flags & 4) != 0;
  o.connections_max = connections_max;
  o.remembered_max = remembered_max;
  o.transmit_max = 16;
  o.outstanding_max = 3;
  o.outstanding_per_peer = 2;
  o.waiting_max = 3;
  return o;
}

class Drive {
 public:
  Drive(const AgentOptions& options, const ListenOptions& listen) : agent_(*Agent::create(options)) {
    PARLEY_ASSERT(agent_.listen(service, listen).has_value());
  }

  void step(Draw& draw) {
    switch (draw.below(10)) {
      case 0:
      case 1:
      case 2: hear(draw); break;
      case 3: connect(draw); break;
      case 4:
        if (agent_.next_deadline() != never) now_ = std::max(now_, agent_.next_deadline());
        agent_.handle_deadline(now_);
        break;
      case 5:
        now_ += std::chrono::milliseconds(draw.u16());
        agent_.handle_deadline(now_);
        break;
      default: command(draw);
    }
    settle();
  }

  void finish() {
    for (const ConnectionId id : std::vector<ConnectionId>(ids_.begin(), ids_.end())) destroy(id);
    settle();
    while (agent_.next_deadline() != never) {
      now_ = std::max(now_, agent_.next_deadline());
      agent_.handle_deadline(now_);
      settle();
    }
    PARLEY_ASSERT(agent_.connection_count() == 0 && agent_.remembered_count() == 0);
  }

 private:
  /// A MAD as it is, or a message with an ID of this side's where the receiver's stands.
  void hear(Draw& draw) {
    const MadFrom from{.source = gid(static_cast<std::uint8_t>(2 + draw.below(2))), .destination = gid(1)};
    const std::uint8_t how = draw.u8();
    Bytes mad(PARLEY_IB_MAD_LEN);
    const ConstBytes drawn = draw.bytes(how % 4 == 0 ? draw.u16() % 300 : 40);
    if (how % 4 == 0) return agent_.handle_mad(now_, from, drawn);
    if (how % 4 == 1 && !sent_.empty()) {
      mad = sent_[how % sent_.size()];
      for (std::size_t i = 0; i + 1 < drawn.size(); i += 2) mad[24 + drawn[i] % 232] ^= drawn[i + 1];
      return agent_.handle_mad(now_, from, mad);
    }
    std::copy(drawn.begin(), drawn.end(), mad.begin() + 24);
    mad[0] = PARLEY_IB_MAD_BASE_VERSION;
    mad[1] = PARLEY_IB_CLASS_CM;
    mad[2] = PARLEY_IB_CLASS_CM_VERSION;
    mad[3] = PARLEY_IB_MAD_METHOD_SEND;
    mad[15] = how / 4 % 2;
    mad[17] = static_cast<std::uint8_t>(0x10 + draw.below(11));
    auto message = CmMessage::parse(mad);
    PARLEY_ASSERT(message.has_value());
    const auto ids = agent_.ids(pick(draw));
    std::visit(
        [&](auto& body) {
          if constexpr (requires { body.remote_comm_id; }) {
            if (ids) body.remote_comm_id = ids->local_comm_id;
            if (ids && ids->remote_comm_id != 0) body.local_comm_id = ids->remote_comm_id;
          }
          if constexpr (requires { body.remote_qpn; }) {
            if (ids) body.remote_qpn = ids->local_qpn;
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(body)>, CmReq>) {
            body.service_id = service;
            body.primary.remote_gid = gid(1);
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(body)>, CmSidrReq>) body.service_id = service;
          if constexpr (std::is_same_v<std::decay_t<decltype(body)>, CmSidrRep>) {
            if (ids) body.request_id = ids->local_comm_id;
          }
        },
        message->body);
    message->emit(mad);
    agent_.handle_mad(now_, from, mad);
  }

  void connect(Draw& draw) {
    const Path path = Path::roce(gid(1), gid(static_cast<std::uint8_t>(2 + draw.below(2))));
    const std::uint8_t how = draw.u8();
    const Bytes data(how / 2, 0x41);
    Result<ConnectionId> id = 0;
    if (how % 8 == 0)
      id = agent_.sidr_request(now_, {.service_id = service, .path = path, .private_data = data});
    else
      id = agent_.connect(now_, {.service_id = service,
                                 .path = path,
                                 .qp_type = static_cast<QpType>(how % 3),
                                 .qpn = draw.u8(),
                                 .private_data = data,
                                 .offer_retry_after = (how & 8) != 0});
    if (id) ids_.insert(*id);
  }

  void command(Draw& draw) {
    const ConnectionId id = pick(draw);
    const std::uint8_t how = draw.u8();
    const Bytes data(draw.u8(), 0x42);
    switch (how % 10) {
      case 0: (void)agent_.accept(now_, id, {.qpn = draw.u8(), .private_data = data}); break;
      case 1: (void)agent_.ready(now_, id, data); break;
      case 2: (void)agent_.reject(now_, id, {.reason = static_cast<CmReject>(draw.u8()), .private_data = data}); break;
      case 3: (void)agent_.send_mra(now_, id, draw.u8() % 33, data); break;
      case 4: (void)agent_.communication_established(now_, id); break;
      case 5: (void)agent_.disconnect(now_, id, data); break;
      case 6: (void)agent_.load_alternate(now_, id, {}, data); break;
      case 7: (void)agent_.answer_alternate(now_, id, {.private_data = data}); break;
      case 8: (void)agent_.sidr_reply(now_, id, {.private_data = data}); break;
      default: destroy(id);
    }
  }

  ConnectionId pick(Draw& draw) const {
    if (ids_.empty()) return draw.u8();
    return *std::next(ids_.begin(), static_cast<std::ptrdiff_t>(draw.below(ids_.size())));
  }
  void destroy(ConnectionId id) {
    agent_.destroy(now_, id);
    ids_.erase(id);
    PARLEY_ASSERT(!agent_.state(id));
  }

  /// Takes everything out and looks at it.
  void settle() {
    MadTo to;
    Bytes out(PARLEY_IB_MAD_LEN);
    std::size_t sent = 0;
    while (agent_.poll_transmit(to, out)) {
      PARLEY_ASSERT(++sent <= 16);
      PARLEY_ASSERT(CmMessage::parse(out).has_value() && to.source == gid(1));
      if (sent_.size() < 8) sent_.push_back(out);
    }
    while (const auto event = agent_.poll_event())
      std::visit(
          [this](const auto& e) {
            if constexpr (requires { e.why; }) {
              if (e.why.code) PARLEY_ASSERT(!e.why.to_string("peer").empty());
            }
            if constexpr (requires { e.id; }) {
              PARLEY_ASSERT(agent_.state(e.id).has_value());
              ids_.insert(e.id);
            }
          },
          *event);
    PARLEY_ASSERT(agent_.connection_count() <= connections_max && agent_.remembered_count() <= remembered_max);
  }

  Agent agent_;
  Instant now_{};
  std::set<ConnectionId> ids_;
  std::vector<Bytes> sent_;  // the first 8
};

void run(ConstBytes in) {
  Draw draw(in);
  const AgentOptions options = draw_options(draw);
  const ListenOptions listen{.pending_max = 4, .when_full = static_cast<OverloadAction>(draw.below(3))};
  Drive drive(options, listen);
  for (int step = 0; step < 64 && !draw.empty(); ++step) drive.step(draw);
  drive.finish();
}

}  // namespace
}  // namespace parley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parley::fuzz::run({data, size});
  return 0;
}
