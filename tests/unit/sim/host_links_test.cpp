// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Link-local addresses of a host with several NICs, and of their neighbours: each means something only within its link (RFC 4007 §4).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parley/sim.hpp"
#include "sim/host/roce_flows.hpp"
#include "tests/unit/printing.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley::sim::host_links_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr std::uint16_t port = 7471;

/// Accepts what is asked, with the host's name as private data and one receive; connects to `to`, and sends 1000 octets for each number of
/// the link.
struct Program final : App {
  std::vector<Address> to;
  std::optional<Address> from;
  std::vector<std::string> told;
  std::unique_ptr<Verbs> verbs;

  void on_start(Host& host) override {
    verbs = std::make_unique<Verbs>(host.device());
    (void)host.cm().listen(Address::any(Address::Family::v6, port));
    host.set_timer(Instant(1ms), 0);
  }
  void on_timer(Host& host, std::uint64_t) override {
    cm::ConnectOptions options;
    options.local = from;
    options.qp = verbs->qp();
    for (const Address& peer : to) (void)host.cm().connect(peer, options);
  }
  void on_turn(Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        ASSERT_TRUE(request->id.create_qp(verbs->qp()));
        ASSERT_TRUE(verbs->recv(*request->id.qp(), 0, 8192, request->id.peer_address()->scope_id));
        const Bytes name(host.name().begin(), host.name().end());
        ASSERT_TRUE(request->id.accept({.private_data = name}));
      }
      if (auto* up = std::get_if<cm::Established>(&*event); up != nullptr && !up->private_data.empty()) {
        const std::uint32_t link = up->id.peer_address()->scope_id;
        const std::string name(up->private_data.begin(),
                               std::find(up->private_data.begin(), up->private_data.end(), 0));
        told.push_back(up->id.local_address()->to_string().substr(0, 10) + " to " + name);
        ASSERT_TRUE(verbs->send(*up->id.qp(), 0, 1000 * link));
      }
      if (const auto* no = std::get_if<cm::ConnectFailed>(&*event)) told.push_back(no->why.code.message());
    }
    for (const WorkCompletion& done : verbs->poll())
      if (done.opcode == WcOpcode::recv)
        told.push_back(std::to_string(done.byte_len) + " by link " + std::to_string(done.wr_id));
  }
  void on_crash(Host&) override { verbs.reset(); }
};

class SimLinks : public testing::TestWithParam<NicEngine> {
 protected:
  /// A host between two others; all link-local addresses of a kind are the same.
  SimLinks() {
    const NicEngine engine = GetParam();
    middle = *world.add_host("middle", {.nics = {{.name = "n1", .engine = engine, .interface_id = 0xA},
                                                 {.name = "n2", .engine = engine, .interface_id = 0xA}}});
    left = *world.add_host("left", {.nics = {{.name = "n1", .engine = engine, .interface_id = 1}}});
    right = *world.add_host("right", {.nics = {{.name = "n1", .engine = engine, .interface_id = 1}}});
    EXPECT_TRUE(world.add_link({middle->id(), "n1"}, left->id()));
    EXPECT_TRUE(world.add_link({middle->id(), "n2"}, right->id()));
    middle->set_app(&in_middle);
    left->set_app(&at_left);
    right->set_app(&at_right);
  }
  static Address of(const std::string& text) {
    Address out = *Address::parse(text);
    out.port = port;
    return out;
  }

  Program in_middle, at_left, at_right;
  World world{1};
  Host *middle = nullptr, *left = nullptr, *right = nullptr;
};

TEST_P(SimLinks, AConnectionLeavesByTheNicThatThePeersAddressNames) {
  in_middle.to = {of("fe80::1%1"), of("fe80::1%2")};
  world.run_for(1s);
  EXPECT_THAT(in_middle.told, UnorderedElementsAre("[fe80::a%1 to left", "[fe80::a%2 to right"));
  EXPECT_THAT(at_left.told, ElementsAre("1000 by link 1"));
  EXPECT_THAT(at_right.told, ElementsAre("2000 by link 1"));
  EXPECT_EQ(middle->counters().cm_resent + middle->counters().tcp_retransmits, 0U);
}

TEST_P(SimLinks, AnswersGoOutOnTheNicThatTheRequestCameBy) {
  at_left.to = at_right.to = {of("fe80::a%1")};
  world.run_for(1s);
  EXPECT_THAT(at_left.told, ElementsAre("[fe80::1%1 to middle"));
  EXPECT_THAT(at_right.told, ElementsAre("[fe80::1%1 to middle"));
  EXPECT_THAT(in_middle.told, UnorderedElementsAre("1000 by link 1", "1000 by link 2"));
  EXPECT_EQ(left->counters().cm_resent + right->counters().cm_resent + right->counters().tcp_retransmits, 0U);
}

TEST_P(SimLinks, APeerThatIsNotOnTheLinkIsFoundNotToBeThere) {
  in_middle.to = {of("fe80::99%2")};
  world.run_for(5s);
  EXPECT_THAT(in_middle.told, ElementsAre(make_error_code(Errc::unreachable).message()));
}

TEST_P(SimLinks, ASourceAddressIsOneOfTheLinkThatLeadsToThePeer) {
  in_middle.to = {of("fe80::1%2")};
  in_middle.from = *Address::parse("fe80::a%2");
  at_left.to = {of("fe80::a%1")};
  at_left.from = *Address::parse("fe80::1%2");
  world.run_for(1s);
  EXPECT_THAT(in_middle.told, ElementsAre("[fe80::a%2 to right"));
  EXPECT_THAT(at_left.told, ElementsAre(make_error_code(Errc::bad_address).message()));
}

INSTANTIATE_TEST_SUITE_P(Engine, SimLinks, testing::Values(NicEngine::iwarp, NicEngine::roce),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST(SimLinkLocal, EachNicOfAHostHasItsOwnByDefault) {
  World world{1};
  Host* a =
      *world.add_host("a", {.nics = {{.name = "n1"}, {.name = "n2"}, {.name = "n3", .interface_id = 0x1'0000'0002}}});
  Host* b = *world.add_host("b", {});
  ASSERT_TRUE(world.add_link({a->id(), "n2"}, b->id()));
  EXPECT_EQ(a->link_local(0).to_string(), "[fe80::1%1]:0");
  EXPECT_EQ(a->link_local(1).to_string(), "[fe80::1:1%2]:0");
  EXPECT_EQ(a->link_local(2).to_string(), "[fe80::1:0:2%3]:0");
  EXPECT_EQ(b->link_local(0).to_string(), "[fe80::2%1]:0");
}

TEST(SimRoceFlows, TwoOfOneNameOnTwoNicsAreNotTakenForOne) {
  RoceFlows flows;
  const wire::ib::RoceHeader header{.source = {0xFE, 0x80}, .destination = {0xFE, 0x80}, .source_port = 0xC000};
  const std::uint64_t way = flows.of(header, 0).way;
  EXPECT_EQ(flows.of(header, 0).way, way);
  EXPECT_NE(flows.of(header, 1).way, way);
  EXPECT_EQ(flows.last(0), nullptr);
  EXPECT_NE(flows.last(1), nullptr);
  EXPECT_NE(flows.of(header, 16).way, way) << "where they meet in the table";
}

}  // namespace
}  // namespace parley::sim::host_links_test
