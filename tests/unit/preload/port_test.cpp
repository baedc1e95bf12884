// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The pure part of a port that several processes share: messages, the keeper's decisions, steering, wills.
#include <gtest/gtest.h>
#include <linux/filter.h>

#include <cerrno>
#include <map>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parley/wire/ib.h"
#include "preload/port/keeper.hpp"
#include "preload/port/wills.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"

namespace parley::port_test {

using namespace preload::port;  // NOLINT: the tests are about nothing else
using namespace std::chrono_literals;

const Address here = Address::v4(127, 0, 0, 1, 0), there = Address::v4(127, 0, 0, 3, 0);

TEST(PortMessages, ReadWhatIsWritten) {
  Address link = Address::loopback(Address::Family::v6, 0);
  link.octets[0] = 0xFE;
  link.octets[1] = 0x80;
  link.scope_id = 3;
  const FromMember all[] = {Join{.prefix = 254, .addresses = {here, link}},
                            Offer{.position = 1, .first = 64},
                            Offered{},
                            Claim{.request = 7, .service = 0x1061234, .positions = {0, 255}},
                            Release{.service = ~0ULL, .positions = {3}},
                            Leave{}};
  for (const FromMember& message : all) {
    const auto read = decode_from_member(encode(message));
    ASSERT_TRUE(read) << message.index();
    EXPECT_EQ(*read, message) << message.index();
  }
  const FromKeeper back[] = {Sockets{.position = 2, .first = 8}, Joined{.prefix = 1},
                             Refused{.why = Refusal::system, .position = 255, .error = 98},
                             Answer{.request = 9, .result = ClaimResult::full}, Left{}};
  for (const FromKeeper& message : back) {
    const auto read = decode_from_keeper(encode(message));
    ASSERT_TRUE(read) << message.index();
    EXPECT_EQ(*read, message) << message.index();
  }
}

TEST(PortMessages, RefuseWhatIsCutOrDoesNotFit) {
  const Bytes join = encode(FromMember(Join{.prefix = 3, .addresses = {here, there}}));
  for (std::size_t size = 0; size < join.size(); ++size)
    EXPECT_FALSE(decode_from_member(ConstBytes(join).first(size))) << size;
  Bytes longer = join;
  longer.push_back(0);
  EXPECT_FALSE(decode_from_member(longer));
  const FromMember wrong[] = {Join{}, Join{.prefix = 255, .addresses = {here}}, Join{.addresses = {here, here}},
                              Join{.addresses = {Address::any(Address::Family::v4, 0)}},
                              Claim{.request = 1, .service = 1, .positions = {}}};
  for (const FromMember& message : wrong) EXPECT_FALSE(decode_from_member(encode(message))) << message.index();
  Bytes later = encode(FromMember(Leave{}));
  later[0] = protocol_version + 1;
  EXPECT_EQ(decode_from_member(later).error(), Errc::unsupported);
  EXPECT_FALSE(decode_from_keeper(encode(FromKeeper(Joined{.prefix = 0}))));
  EXPECT_FALSE(decode_from_keeper(encode(FromKeeper(Joined{.prefix = 255}))));
}

// ---- steering ----------------------------------------------------------------------------------------------------

/// As Linux runs it: a load behind the end of the packet returns 0.
std::uint32_t run(const std::vector<Instruction>& program, ConstBytes packet) {
  std::uint32_t a = 0;
  for (std::size_t at = 0; at < program.size(); ++at) {
    const Instruction& i = program[at];
    const std::size_t size = BPF_SIZE(i.code) == BPF_W ? 4 : BPF_SIZE(i.code) == BPF_H ? 2 : 1;
    const bool jumps = BPF_OP(i.code) == BPF_JEQ ? a == i.k : a >= i.k;
    switch (BPF_CLASS(i.code)) {
      case BPF_LD:
        if (i.k + size > packet.size()) return 0;
        a = 0;
        for (std::size_t n = 0; n < size; ++n) a = a << 8 | packet[i.k + n];
        break;
      case BPF_ALU: a &= i.k; break;
      case BPF_JMP: at += jumps ? i.if_true : i.if_false; break;
      case BPF_RET: return BPF_RVAL(i.code) == BPF_A ? a : i.k;
      default: ADD_FAILURE() << i.code; return ~0U;
    }
  }
  ADD_FAILURE() << "the program has no end";
  return ~0U;
}

Bytes to_qpn(std::uint32_t qpn) {
  wire::ib::Packet packet;
  packet.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, wire::ib::Operation::send_only);
  packet.bth.dest_qpn = qpn;
  Bytes out(packet.size());
  (void)packet.emit(out);
  return out;
}

template <class Body>
Bytes mad_with(const Body& body) {
  Bytes mad(PARLEY_IB_MAD_LEN);
  wire::ib::emit_cm(body, 0, 0, mad);
  return mad;
}

template <class Body>
std::uint32_t steered(const std::vector<Instruction>& program, const Body& body) {
  return run(program, gsi_packet({}, {}, mad_with(body)));
}

TEST(PortSteering, FindsTheMemberOfEachPacket) {
  const auto program = steering(32, {{0x1061CB6, 5}, {0x1111CB6, 6}, {1ULL << 40, 7}});
  EXPECT_EQ(run(program, to_qpn(0x020001)), 2U);
  EXPECT_EQ(run(program, to_qpn(0x1FFFFF)), 31U);
  EXPECT_EQ(run(program, to_qpn(0x200000)), 0U) << "beyond the group's sockets";
  EXPECT_EQ(run(program, to_qpn(0xFFFFFF)), 0U);
  EXPECT_EQ(run(program, to_qpn(0)), 0U);
  EXPECT_EQ(run(program, to_qpn(2)), 0U);
  EXPECT_EQ(run(program, ConstBytes{}), 0U);
  EXPECT_EQ(steered(program, wire::ib::CmReq{.local_comm_id = 0x11000000, .service_id = 0x1061CB6}), 5U);
  EXPECT_EQ(steered(program, wire::ib::CmReq{.service_id = 0x1061CB7}), 0U) << "nobody listens";
  EXPECT_EQ(steered(program, wire::ib::CmReq{.service_id = 1ULL << 40}), 0U);
  EXPECT_EQ(steered(program, wire::ib::CmReq{.service_id = 1ULL << 40 | 0x1061CB6}), 0U);
  EXPECT_EQ(steered(program, wire::ib::CmSidrReq{.request_id = 0x11000000, .service_id = 0x1111CB6}), 6U);
  EXPECT_EQ(steered(program, wire::ib::CmSidrRep{.request_id = 0x09000001}), 9U);
  constexpr std::uint32_t others = 0x11000000, ours = 0x0A000001;
  EXPECT_EQ(steered(program, wire::ib::CmMra{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmRej{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmRep{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmRtu{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmDreq{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmDrep{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmLap{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmApr{.local_comm_id = others, .remote_comm_id = ours}), 10U);
  EXPECT_EQ(steered(program, wire::ib::CmRtu{.remote_comm_id = 0x20000000}), 0U) << "beyond the group's sockets";
  Bytes of_subnet = mad_with(wire::ib::CmRtu{.remote_comm_id = ours});
  of_subnet[1] = 0x01;
  EXPECT_EQ(run(program, gsi_packet({}, {}, of_subnet)), 0U);
}

TEST(PortSteering, FitsIntoLinuxBoundWithAllServices) {
  std::map<std::uint64_t, std::uint8_t> services;
  for (std::uint32_t i = 0; i < services_max; ++i) services[0x1060000 + i] = static_cast<std::uint8_t>(1 + i % 254);
  const auto program = steering(255, services);
  EXPECT_LT(program.size(), std::size_t{BPF_MAXINSNS});
  EXPECT_LT((program.size() + services.size()) * 8, 20480U);  // net.core.optmem_max; a `ret` becomes two
  EXPECT_EQ(steered(program, wire::ib::CmReq{.service_id = 0x1060000 + services_max - 1}),
            1 + (services_max - 1) % 254);
}

// ---- the keeper --------------------------------------------------------------------------------------------------

std::string text(const FromKeeper& message) {
  static constexpr const char* refusals[] = {"", "system", "full", "taken"};
  static constexpr const char* claims[] = {"yours", "taken", "full"};
  if (const auto* m = std::get_if<Joined>(&message)) return fmt::format("joined {}", m->prefix);
  if (const auto* m = std::get_if<Refused>(&message))
    return fmt::format("refused {}{}", refusals[int(m->why)], m->error == 0 ? "" : fmt::format(" {}", m->error));
  if (const auto* m = std::get_if<Answer>(&message))
    return fmt::format("answer {} {}", m->request, claims[int(m->result)]);
  return std::holds_alternative<Left>(message) ? "left" : "sockets";
}

/// The system: sockets are counted, and all that happens is written down.
struct Sim final : Ground {
  std::map<Address, std::size_t> groups;
  std::map<Address, std::vector<Instruction>> programs;
  std::string log;
  int answer = 0;
  std::size_t most = 255;
  bool mourns = false, adopts = true;

  void note(const std::string& what) { log += (log.empty() ? "" : "; ") + what; }
  int extend(const Address& address, std::size_t size) override {
    if (answer != 0) return answer;
    if (size > most) return EMFILE;
    groups[address] = size;
    return 0;
  }
  bool adopt(const Address& address, std::size_t index, int) override {
    if (adopts) groups[address] = std::max(groups[address], index + 1);
    return adopts;
  }
  void close(const Address& address) override {
    note("close");
    groups.erase(address);
  }
  void give(const Address&, std::size_t, bool fresh) override { note(fresh ? "give" : "give back"); }
  void take_back(const Address&, std::size_t index) override { note(index == 0 ? "take back 0" : "take back"); }
  void steer(const Address& address, const std::vector<Instruction>& program) override { programs[address] = program; }
  void keep_will(MemberId, int) override { note("will"); }
  void drop_will(MemberId) override {}
  bool mourn(Instant, MemberId, const std::vector<Address>&, std::uint8_t) override {
    if (mourns) note("mourn");
    return mourns;
  }
  std::uint32_t listener(const Address& address, std::uint64_t service) const {
    return steered(programs.at(address), wire::ib::CmReq{.service_id = service});
  }
};

struct Port {
  Sim sim;
  Instant now{10s};
  Keeper keeper{sim, now};
  MemberId last = 0;

  /// What came out, for all members; of sockets only the last message of a row.
  std::string out() {
    std::string all = std::exchange(sim.log, {});
    std::string before;
    while (const auto output = keeper.poll_output()) {
      std::string next = output->hang_up ? "hang up" : "sockets";
      if (!output->hang_up && !output->octets.empty()) next = text(*decode_from_keeper(output->octets));
      next = fmt::format("{}: {}", output->to, next);
      if (next != before) all += (all.empty() ? "" : "; ") + next;
      before = next;
    }
    return all;
  }
  std::string say(MemberId member, const FromMember& message, std::size_t files = 0) {
    const std::vector<int> numbers(files, 1);
    keeper.handle(now, member, encode(message), numbers);
    return out();
  }
  MemberId connect() {
    EXPECT_TRUE(keeper.connected(now, ++last));
    return last;
  }
  MemberId join(std::vector<Address> addresses = {here}) {
    const MemberId member = connect();
    say(member, Join{.addresses = std::move(addresses)});
    return member;
  }
  std::string end(MemberId member) {
    keeper.gone(now, member);
    return out();
  }
  std::string after(Duration time) {
    now += time;
    keeper.handle_deadline(now);
    return out();
  }
};

TEST(PortKeeper, GivesEachMemberAPrefixAndTheSocketsOfItsAddresses) {
  Port port;
  const MemberId first = port.connect(), second = port.connect();
  EXPECT_EQ(port.say(first, Join{.addresses = {here, there}}, 1),
            "will; give; give; 1: sockets; 1: joined 1; 1: sockets");
  EXPECT_EQ(port.say(second, Join{.addresses = {here}}), "give; 2: sockets; 2: joined 2; 2: sockets");
  EXPECT_EQ(port.sim.groups, (std::map<Address, std::size_t>{{here, 8}, {there, 8}}));
  EXPECT_EQ(port.say(first, Leave{}), "take back; take back; close; 1: left");  // the address of the other stays
  EXPECT_EQ(port.say(second, Leave{}), "take back; close; 2: left");
  port.end(first);
  port.end(second);
  EXPECT_FALSE(port.keeper.is_done(port.now));
  port.now = port.keeper.next_deadline();
  EXPECT_TRUE(port.keeper.is_done(port.now));
}

// What each message does in each state of a member; an empty place: nothing.
TEST(PortKeeper, AnswersEachMessageInEachState) {
  const std::pair<const char*, FromMember> messages[] = {
      {"join", Join{.addresses = {here}}},
      {"join again", Join{.prefix = 9, .addresses = {here}}},
      {"offer", Offer{.position = 0, .first = 0}},
      {"offer elsewhere", Offer{.position = 1, .first = 0}},
      {"offered", Offered{}},
      {"claim", Claim{.request = 4, .service = 5, .positions = {0}}},
      {"claim elsewhere", Claim{.request = 4, .service = 5, .positions = {1}}},
      {"release", Release{.service = 5, .positions = {0}}},
      {"leave", Leave{}}};
  const std::pair<const char*, void (*)(Port&)> states[] = {
      {"connected", [](Port& p) { p.connect(); }},
      {"waiting",
       [](Port& p) {
         p.sim.answer = EADDRINUSE;
         p.join();
       }},
      {"rejoining", [](Port& p) { p.say(p.connect(), Join{.prefix = 3, .addresses = {here}}); }},
      {"joined", [](Port& p) { p.join(); }},
      {"refused", [](Port& p) {
         p.sim.answer = EADDRNOTAVAIL;
         p.join();
       }}};
  std::string table;
  for (const auto& [state, enter] : states) {
    table += fmt::format("{}\n", state);
    for (const auto& [name, message] : messages) {
      Port port;
      enter(port);
      port.out();
      const std::string said = port.say(1, message, std::holds_alternative<Offer>(message) ? 8 : 0);
      if (said != "1: hang up") table += fmt::format("  {}: {}\n", name, said);
    }
  }
  EXPECT_EQ(table, R"(connected
  join: give; 1: sockets; 1: joined 1; 1: sockets
  join again: 
  leave: 1: left
waiting
  leave: 1: left
rejoining
  offer: 
  offered: 1: refused taken
  leave: 1: left
joined
  claim: 1: answer 4 yours
  release: 
  leave: take back; close; 1: left
refused
  leave: 1: left
)");
}

TEST(PortKeeper, EndsTheConnectionOfWhoWritesGarbageOrNothing) {
  Port port;
  const MemberId writes = port.connect(), silent = port.connect(), member = port.join();
  port.keeper.handle(port.now, writes, Bytes(100, 0xA5), {});
  EXPECT_EQ(port.out(), "1: hang up");
  port.end(writes);
  EXPECT_EQ(port.after(Keeper::join_within), fmt::format("{}: hang up", silent));
  port.end(silent);
  EXPECT_EQ(port.say(member, Claim{.request = 1, .service = 1, .positions = {0}}), "3: answer 1 yours");
}

TEST(PortKeeper, GrowsAGroupAndGivesItsMembersTheNewSockets) {
  Port port;
  for (int i = 0; i < 7; ++i) port.join();
  EXPECT_EQ(port.sim.groups[here], 8U);
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}),
            "give; 1: sockets; 2: sockets; 3: sockets; 4: sockets; 5: sockets; 6: sockets; 7: sockets; 8: sockets; 8: "
            "joined 8; 8: sockets");
  EXPECT_EQ(port.sim.groups[here], 32U);
  port.sim.most = 32;
  while (port.last < 31) port.join();
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), fmt::format("32: refused system {}", EMFILE));
  port.sim.most = 255;
  for (int i = 0; i < 223; ++i) port.join();
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "256: refused full");
  EXPECT_EQ(port.sim.groups[here], 255U);
  EXPECT_EQ(port.end(5), "take back");
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "give; 257: sockets; 257: joined 5; 257: sockets");
}

TEST(PortKeeper, ReusesThePrefixThatWasFreedFirst) {
  Port port;
  for (int i = 0; i < 7; ++i) port.join();
  for (const MemberId member : {6U, 2U}) port.end(member);
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "give; 8: sockets; 8: joined 6; 8: sockets");
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "give; 9: sockets; 9: joined 2; 9: sockets");
}

TEST(PortKeeper, DeliversAServiceToOneMemberOfAnAddress) {
  Port port;
  const MemberId a = port.join({here, there}), b = port.join({here});
  const std::uint64_t service = 0x1061CB6;
  EXPECT_EQ(port.say(a, Claim{.request = 1, .service = service, .positions = {0}}), "1: answer 1 yours");
  EXPECT_EQ(port.sim.listener(here, service), 1U);
  EXPECT_EQ(port.sim.listener(there, service), 0U);
  EXPECT_EQ(port.say(b, Claim{.request = 1, .service = service, .positions = {0}}), "2: answer 1 taken");
  EXPECT_EQ(port.say(a, Claim{.request = 2, .service = service, .positions = {0, 1}}), "1: answer 2 yours");
  EXPECT_EQ(port.sim.listener(there, service), 1U);
  port.say(a, Release{.service = service, .positions = {0}});
  EXPECT_EQ(port.say(b, Claim{.request = 2, .service = service, .positions = {0}}), "2: answer 2 taken")
      << "claimed twice";
  port.say(a, Release{.service = service, .positions = {0, 1}});
  EXPECT_EQ(port.sim.listener(here, service), 1U) << "a repeated REQ still finds its connection";
  EXPECT_EQ(port.say(b, Claim{.request = 3, .service = service, .positions = {0}}), "2: answer 3 yours");
  EXPECT_EQ(port.sim.listener(here, service), 2U);
  port.end(b);
  EXPECT_EQ(port.sim.listener(here, service), 0U);
}

TEST(PortKeeper, BoundsTheServicesOfAnAddress) {
  Port port;
  const MemberId a = port.join();
  for (std::uint32_t i = 0; i < services_max; ++i) port.say(a, Claim{.request = i, .service = i, .positions = {0}});
  EXPECT_EQ(port.say(a, Claim{.request = 1, .service = 1000, .positions = {0}}), "1: answer 1 full");
  port.say(a, Release{.service = 7, .positions = {0}});
  EXPECT_EQ(port.say(a, Claim{.request = 2, .service = 1000, .positions = {0}}), "1: answer 2 yours");
  EXPECT_EQ(port.sim.listener(here, 1000), 1U);
  EXPECT_EQ(port.sim.listener(here, 7), 0U);
}

TEST(PortKeeper, KeepsThePrefixOfAKilledMemberUntilItsConnectionsHaveEnded) {
  Port port;
  const MemberId a = port.join();
  port.sim.mourns = true;
  EXPECT_EQ(port.end(a), "mourn");
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "give; 2: sockets; 2: joined 2; 2: sockets");
  port.say(2, Leave{});
  port.sim.log.clear();
  port.keeper.mourned(port.now, {here}, 1);
  EXPECT_EQ(port.out(), "take back; close");
}

TEST(PortKeeper, TriesAnAddressAgainThatIsInUse) {
  Port port;
  port.sim.answer = EADDRINUSE;
  const MemberId a = port.connect(), b = port.connect();
  EXPECT_EQ(port.say(a, Join{.addresses = {here}}), "");
  EXPECT_EQ(port.say(b, Join{.addresses = {there}}), "");
  EXPECT_EQ(port.after(Keeper::between_tries), "");
  port.sim.answer = 0;
  EXPECT_EQ(port.after(Keeper::between_tries),
            "give; give; 1: sockets; 1: joined 1; 1: sockets; 2: sockets; 2: joined 1; 2: sockets");
  port.now += Keeper::patience;
  port.sim.answer = EADDRINUSE;
  const MemberId c = port.connect();
  EXPECT_EQ(port.say(c, Join{.addresses = {Address::v4(127, 0, 0, 5, 0)}}), "");
  EXPECT_EQ(port.after(Keeper::end_within), fmt::format("3: refused system {}", EADDRINUSE));
}

TEST(PortKeeper, TakesTheMembersOfItsPredecessor) {
  Port port;
  const MemberId a = port.connect(), fresh = port.connect(), b = port.connect();
  EXPECT_EQ(port.say(a, Join{.prefix = 5, .addresses = {here}}, 1), "will");
  EXPECT_EQ(port.say(fresh, Join{.addresses = {here}}), "") << "until all had time to come back";
  EXPECT_EQ(port.say(a, Offer{.position = 0, .first = 0}, 8), "");
  EXPECT_EQ(port.say(a, Offered{}), "give back; 1: joined 5");
  EXPECT_EQ(port.say(a, Claim{.request = 0, .service = 77, .positions = {0}}), "1: answer 0 yours");
  EXPECT_TRUE(port.keeper.is_recovering(port.now));
  EXPECT_FALSE(port.sim.programs.contains(here)) << "the old program knows services that are not claimed again yet";
  port.say(b, Join{.prefix = 1, .addresses = {here}});
  port.say(b, Offer{.position = 0, .first = 0}, 8);
  EXPECT_EQ(port.say(b, Offered{}), "give back; 3: joined 1");
  const MemberId thief = port.connect();
  port.say(thief, Join{.prefix = 5, .addresses = {here}});
  port.say(thief, Offer{.position = 0, .first = 0}, 8);
  EXPECT_EQ(port.say(thief, Offered{}), "4: refused taken");
  EXPECT_EQ(port.after(Keeper::recovery),
            "take back 0; take back; take back; take back; take back; take back; give; 1: sockets; 3: sockets; 2: "
            "sockets; 2: joined 8; 2: sockets")
      << "the free prefixes may be those of stopped members";
  EXPECT_EQ(port.sim.listener(here, 77), 5U);
  // One of those comes back.
  const MemberId stopped = port.connect();
  port.say(stopped, Join{.prefix = 2, .addresses = {here}});
  port.say(stopped, Offer{.position = 0, .first = 0}, 8);
  EXPECT_EQ(port.say(stopped, Offered{}), "give back; 5: joined 2");
}

TEST(PortKeeper, ReadsTheSocketsOfNobodyAlsoWhenAMemberOfItsPredecessorIsLate) {
  Port port;
  port.now += Keeper::recovery + 100ms;
  const MemberId late = port.connect();
  port.say(late, Join{.prefix = 1, .addresses = {here}});
  port.say(late, Offer{.position = 0, .first = 0}, 2);
  EXPECT_FALSE(port.sim.programs.contains(here)) << "the rest of the group is not known yet";
  port.say(late, Offer{.position = 0, .first = 2}, 1);
  EXPECT_EQ(port.say(late, Offered{}), "give back; take back 0; take back; 1: joined 1");
  EXPECT_TRUE(port.sim.programs.contains(here));
}

TEST(PortKeeper, GivesThePrefixOfAStoppedMemberAwayOnlyWhenNoOtherIsLeft) {
  Port port;
  const MemberId back = port.connect();
  port.say(back, Join{.prefix = 1, .addresses = {here}});
  port.say(back, Offer{.position = 0, .first = 0}, 8);
  port.say(back, Offered{});
  port.after(Keeper::recovery);
  port.sim.most = 8;  // the group cannot grow
  EXPECT_EQ(port.say(port.connect(), Join{.addresses = {here}}), "give; 2: sockets; 2: joined 2; 2: sockets");
}

TEST(PortKeeper, RefusesSocketsThatAreNotOfTheAddress) {
  Port port;
  const MemberId a = port.connect();
  port.say(a, Join{.prefix = 1, .addresses = {here}});
  port.sim.adopts = false;
  EXPECT_EQ(port.say(a, Offer{.position = 0, .first = 0}, 1), "1: hang up");
  port.sim.adopts = true;
  EXPECT_EQ(port.say(a, Offer{.position = 0, .first = 250}, 8), "1: hang up");
  EXPECT_EQ(port.end(a), "close");
}

TEST(PortKeeper, BoundsItsConnections) {
  Port port;
  for (std::size_t i = 0; i < Keeper::members_max; ++i) port.connect();
  EXPECT_FALSE(port.keeper.connected(port.now, 5000));
}

// ---- wills -------------------------------------------------------------------------------------------------------

const Gid own = gid_of(here), peer = gid_of(there);

std::vector<WillRecord> written(WillBook& book) {
  static Bytes file;
  file.resize(will_record_size * will_records_max);
  while (const auto write = book.poll_write())
    std::copy(write->octets.begin(), write->octets.end(), file.begin() + static_cast<std::ptrdiff_t>(write->offset));
  auto out = decode_will(file);
  return out;
}

TEST(PortWill, HasTheConnectionsOfBothSides) {
  WillBook book;
  // This side connects.
  book.sent(own, peer, mad_with(wire::ib::CmReq{.local_comm_id = 0x02000001, .local_qpn = 0x020011}));
  EXPECT_TRUE(written(book).empty());
  book.received(own, peer,
                mad_with(wire::ib::CmRep{.local_comm_id = 77, .remote_comm_id = 0x02000001, .local_qpn = 0x99}));
  const WillRecord active{.local = own, .remote = peer, .local_id = 0x02000001, .remote_id = 77, .remote_qpn = 0x99};
  EXPECT_EQ(written(book), std::vector{active});
  // The peer does.
  book.received(own, peer, mad_with(wire::ib::CmReq{.local_comm_id = 78, .local_qpn = 0x98}));
  book.sent(own, peer,
            mad_with(wire::ib::CmRep{.local_comm_id = 0x02000002, .remote_comm_id = 78, .local_qpn = 0x020012}));
  const WillRecord passive{.local = own, .remote = peer, .local_id = 0x02000002, .remote_id = 78, .remote_qpn = 0x98};
  EXPECT_EQ(written(book), (std::vector{active, passive}));
  book.sent(own, peer, mad_with(wire::ib::CmRep{.local_comm_id = 0x02000002, .remote_comm_id = 78}));  // repeated
  EXPECT_EQ(book.size(), 2U);
  // Each way to end one.
  book.received(own, peer, mad_with(wire::ib::CmDrep{.local_comm_id = 77, .remote_comm_id = 0x02000001}));
  EXPECT_EQ(written(book), std::vector{passive});
  book.sent(own, peer, mad_with(wire::ib::CmDrep{.local_comm_id = 0x02000002, .remote_comm_id = 78}));
  EXPECT_TRUE(written(book).empty());
  book.received(own, peer,
                mad_with(wire::ib::CmRep{.local_comm_id = 79, .remote_comm_id = 0x02000003, .local_qpn = 1}));
  book.sent(own, peer, mad_with(wire::ib::CmRej{.local_comm_id = 0x02000003, .remote_comm_id = 79}));
  EXPECT_TRUE(written(book).empty());
}

TEST(PortWill, ReplacesTheEarliestConnectionsWhenItIsFull) {
  WillBook book;
  for (std::uint32_t i = 1; i <= will_records_max + 1; ++i)
    book.received(own, peer, mad_with(wire::ib::CmRep{.local_comm_id = i, .remote_comm_id = i, .local_qpn = 1}));
  const auto will = written(book);
  ASSERT_EQ(will.size(), will_records_max);
  EXPECT_EQ(will[0].local_id, will_records_max + 1);
  EXPECT_EQ(will[1].local_id, 2U);
}

TEST(PortWill, IsReadAsFarAsItIsValid) {
  Bytes file = encode(WillRecord{.local_id = 1});
  const Bytes next = encode(WillRecord{.local_id = 2});
  file.insert(file.end(), next.begin(), next.end() - 1);
  EXPECT_EQ(decode_will(file).size(), 1U);
  EXPECT_TRUE(decode_will(Bytes(1000, 0xFF)).empty());
}

std::vector<std::uint32_t> partings_of(Partings& all) {
  std::vector<std::uint32_t> out;
  while (const auto parting = all.poll_parting()) {
    const auto message = wire::ib::CmMessage::parse(parting->mad);
    out.push_back(std::get<wire::ib::CmDreq>(message->body).local_comm_id);
  }
  return out;
}

TEST(PortPartings, SendDreqUntilDrep) {
  Partings all;
  const std::vector<WillRecord> will = {
      {.local = own, .remote = peer, .local_id = 1, .remote_id = 11, .remote_qpn = 0x55},
      {.local = own, .remote = peer, .local_id = 2, .remote_id = 12, .remote_qpn = 0x56},
      {.local = own, .remote = peer, .local_id = 3, .remote_id = 13, .remote_qpn = 0x57}};
  Instant now{5s};
  all.begin(now, 9, will);
  EXPECT_EQ(partings_of(all), (std::vector{1U, 2U, 3U}));
  EXPECT_EQ(all.next_deadline(), now + Partings::first_wait);
  EXPECT_FALSE(all.handle_mad(9, mad_with(wire::ib::CmDrep{.local_comm_id = 11, .remote_comm_id = 1})));
  // A peer that disconnects at the same time gets its DREP.
  const auto answer =
      all.handle_mad(9, mad_with(wire::ib::CmDreq{.local_comm_id = 12, .remote_comm_id = 2, .remote_qpn = 1}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(std::get<wire::ib::CmDrep>(wire::ib::CmMessage::parse(*answer)->body).remote_comm_id, 12U);
  all.handle_deadline(now += Partings::first_wait);
  EXPECT_EQ(partings_of(all), std::vector{3U});
  EXPECT_FALSE(all.poll_done());
  (void)all.handle_mad(9, mad_with(wire::ib::CmDrep{.local_comm_id = 13, .remote_comm_id = 3}));
  EXPECT_EQ(all.poll_done(), 9U);
  EXPECT_EQ(all.next_deadline(), never);
}

TEST(PortPartings, GiveUpAPeerThatDoesNotAnswer) {
  Partings all;
  Instant now{5s};
  all.begin(now, 1, {WillRecord{.local_id = 1}});
  std::size_t sent = 0;
  for (int i = 0; i < 100 && all.next_deadline() != never; ++i) {
    sent += partings_of(all).size();
    all.handle_deadline(now = all.next_deadline());
  }
  EXPECT_EQ(sent, std::size_t{Partings::tries});
  EXPECT_EQ(all.poll_done(), 1U);
  EXPECT_EQ(now, Instant{5s} + Partings::first_wait * 31);
}

TEST(PortAnswers, RejectARequestForAServiceOfNobody) {
  const auto rej = answer_of_nobody(mad_with(wire::ib::CmReq{.local_comm_id = 5, .service_id = 8}));
  ASSERT_TRUE(rej);
  const auto said = std::get<wire::ib::CmRej>(wire::ib::CmMessage::parse(*rej)->body);
  EXPECT_EQ(said.remote_comm_id, 5U);
  EXPECT_EQ(said.reason, wire::ib::CmReject::invalid_service_id);
  const auto rep = answer_of_nobody(mad_with(wire::ib::CmSidrReq{.request_id = 6, .service_id = 8}));
  ASSERT_TRUE(rep);
  EXPECT_EQ(std::get<wire::ib::CmSidrRep>(wire::ib::CmMessage::parse(*rep)->body).status,
            wire::ib::SidrStatus::unsupported_service_id);
  EXPECT_FALSE(answer_of_nobody(mad_with(wire::ib::CmRtu{})));
  EXPECT_FALSE(answer_of_nobody(Bytes(PARLEY_IB_MAD_LEN)));
}

TEST(PortAnswers, ReadOnlyMadsWithACorrectIcrc) {
  const Bytes mad = mad_with(wire::ib::CmReq{.local_comm_id = 5});
  Bytes packet = gsi_packet(peer, own, mad);
  EXPECT_EQ(gsi_mad(own, peer, PARLEY_ROCE_UDP_PORT, packet), mad);
  EXPECT_FALSE(gsi_mad(own, own, PARLEY_ROCE_UDP_PORT, packet));
  packet[40] ^= 1;
  EXPECT_FALSE(gsi_mad(own, peer, PARLEY_ROCE_UDP_PORT, packet));
  EXPECT_FALSE(gsi_mad(own, peer, PARLEY_ROCE_UDP_PORT, {}));
  EXPECT_FALSE(gsi_mad(own, peer, PARLEY_ROCE_UDP_PORT, to_qpn(7)));
}

}  // namespace parley::port_test
