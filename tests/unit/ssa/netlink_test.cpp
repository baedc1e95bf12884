// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The kernel's questions to a local service: octets as a little-endian and a big-endian Linux write them, answers from a map of paths, and
// input that is wrong.
#include <gmock/gmock.h>

#if __has_include(<rdma/rdma_netlink.h>)
#include <rdma/rdma_netlink.h>
#endif

#include "ssa/acm/kernel.hpp"
#include "tests/unit/ssa/acm_kit.hpp"

namespace parley::ssa::acm {
namespace netlink_test {
namespace {

using wire::mad::PathRecord;

#if __has_include(<rdma/rdma_netlink.h>)
static_assert(RDMA_NL_LS == 4 && RDMA_NL_LS_OP_RESOLVE == 0 && RDMA_NL_LS_OP_SET_TIMEOUT == 1 &&
              RDMA_NL_LS_OP_IP_RESOLVE == 2 && RDMA_NL_LS_F_ERR == netlink_refusal);
static_assert(LS_RESOLVE_PATH_USE_UNIDIRECTIONAL == 1 && LS_RESOLVE_PATH_USE_GMP == 2 && LS_NLA_TYPE_IPV6 == 10);
static_assert(sizeof(rdma_ls_resolve_header) == 66 && RDMA_NLA_F_MANDATORY == 0x2000);
#endif

/// Hexadecimal digits; blanks do not count.
Bytes octets(std::string_view digits) {
  Bytes out;
  std::string pair;
  for (const char c : digits) {
    if (c == ' ') continue;
    pair += c;
    if (pair.size() == 2) out.push_back(static_cast<std::uint8_t>(std::stoi(pair, nullptr, 16)));
    if (pair.size() == 2) pair.clear();
  }
  return out;
}
Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}
Bytes zeros(std::size_t n) { return Bytes(n, 0); }

/// What Linux asks for a connection of mlx5_0, port 1: ServiceID, DGID, SGID, TClass, P_Key, QoS class.
Bytes recorded_request() {
  return joined({octets("a0000000 0010 0100 07000000 00000000"), octets("6d6c78355f30"), zeros(58),
                 octets("01 02 0000"), octets("0c00 0320 7ed2060100000000"),
                 octets("1400 0420 fec00000000000010000000000 0000ca"),
                 octets("1400 0520 fec0000000000001 00000000000000c9"), octets("0500 0620 20 000000"),
                 octets("0600 0720 ffff 0000"), octets("0600 0820 0500 0000")});
}

struct SsaNetlink : testing::Test {
  ThreeHosts subnet;
  std::shared_ptr<Data> data = subnet.data();

  KernelMessage request() const {
    return {.sequence = 7,
            .device = "mlx5_0",
            .port = 1,
            .use = PathUse::gmp,
            .service_id = 0x000000000106D27E,
            .dgid = subnet.gid(2),
            .sgid = subnet.gid(1),
            .traffic_class = std::uint8_t{0x20},
            .p_key = std::uint16_t{0xFFFF},
            .qos_class = std::uint16_t{5}};
  }
  static Bytes emitted(const KernelMessage& message, std::endian order = std::endian::native) {
    Bytes out;
    append_netlink(out, message, order);
    return out;
  }
  /// The answers, as messages.
  std::vector<KernelMessage> ask(ConstBytes datagram) const {
    Bytes out;
    const auto answered = answer_kernel(datagram, *data, 1234, out);
    EXPECT_TRUE(answered) << answered.error().message();
    std::vector<KernelMessage> answers;
    for (ConstBytes rest = out; !rest.empty(); rest = rest.subspan(parse_netlink_header(rest)->length)) {
      answers.push_back(*parse_netlink(rest));
      EXPECT_FALSE(answers.back().is_request());
      EXPECT_EQ(answers.back().port_id, 1234U);
    }
    return answers;
  }
  KernelMessage answer(const KernelMessage& asked) const {
    const auto answers = ask(emitted(asked));
    EXPECT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers.at(0).sequence, asked.sequence);
    EXPECT_EQ(answers.at(0).operation, asked.operation);
    return answers.at(0);
  }
};

TEST_F(SsaNetlink, ARequestHasTheOctetsOfTheKernel) {
  EXPECT_EQ(emitted(request(), std::endian::little), recorded_request());
  const auto parsed = parse_netlink(recorded_request(), std::endian::little);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(*parsed, request());
  const Bytes big = emitted(request(), std::endian::big);
  EXPECT_EQ(Bytes(big.begin(), big.begin() + 16), octets("000000a0 1000 0001 00000007 00000000"));
  EXPECT_EQ(*parse_netlink(big, std::endian::big), request());
}

TEST_F(SsaNetlink, RequestsForAnAddressAndATimeoutHaveTheOctetsOfTheKernel) {
  const Bytes by_address = octets("1c000000 0210 0100 08000000 00000000 03000000 0800 0920 c0000202");
  const KernelMessage expected{.operation = KernelOperation::ip_resolve,
                               .sequence = 8,
                               .interface_index = 3,
                               .ipv4 = std::array<std::uint8_t, 4>{192, 0, 2, 2}};
  EXPECT_EQ(*parse_netlink(by_address, std::endian::little), expected);
  EXPECT_EQ(emitted(expected, std::endian::little), by_address);
  const Bytes set_timeout = octets("18000000 0110 0100 09000000 d2040000 0800 0220 d0070000");
  const KernelMessage timeout{
      .operation = KernelOperation::set_timeout, .sequence = 9, .port_id = 1234, .timeout_ms = 2000};
  EXPECT_EQ(*parse_netlink(set_timeout, std::endian::little), timeout);
  EXPECT_EQ(emitted(timeout, std::endian::little), set_timeout);
}

TEST_F(SsaNetlink, AnAnswerHasTheOctetsThatTheKernelReads) {
  const PathRecord due = *subnet.map->find({.sgid = subnet.gid(1), .dgid = subnet.gid(2)});
  KernelMessage made{.flags = 0, .sequence = 7, .port_id = 1234, .paths = {{43, due}}};
  const Bytes record(due.octets().begin(), due.octets().end());
  EXPECT_EQ(emitted(made, std::endian::little),
            joined({octets("5c000000 0010 0000 07000000 d2040000 4c00 0100 2b000000 00000000"), record}));
  EXPECT_EQ(answer(request()), made);
  made.paths.clear();
  made.flags = netlink_refusal;
  EXPECT_EQ(emitted(made, std::endian::little), octets("10000000 0010 0001 07000000 d2040000"));
}

TEST_F(SsaNetlink, PathsAreThoseOfTheMap) {
  KernelMessage asked = request();
  asked.use = PathUse::unidirectional;
  EXPECT_EQ(answer(asked).paths.at(0).flags, 10U);
  asked.sgid.reset();
  EXPECT_EQ(answer(asked).paths.at(0).record, *subnet.map->find({.slid = 1, .dlid = 2})) << "from the first local port";
  asked.sgid = subnet.gid(3);
  EXPECT_TRUE(answer(asked).is_refusal()) << "two limited members";
  asked = request();
  asked.p_key = std::uint16_t{0x8001};
  EXPECT_TRUE(answer(asked).is_refusal());
  asked = request();
  asked.dgid.reset();
  EXPECT_TRUE(answer(asked).is_refusal());
  data->map.reset();
  EXPECT_TRUE(answer(request()).is_refusal());
}

TEST_F(SsaNetlink, APathWithoutAWayBackIsForOneWayOnly) {
  subnet.net.nodes[0].lft.erase(1);
  data->map = *PathMap::create(*database_of(subnet.net));
  KernelMessage asked = request();
  EXPECT_TRUE(answer(asked).is_refusal());
  asked.use = PathUse::all;
  EXPECT_TRUE(answer(asked).is_refusal());
  asked.use = PathUse::unidirectional;
  EXPECT_EQ(answer(asked).paths.size(), 1U);
}

TEST_F(SsaNetlink, AddressesHaveTheGidsOfTheFile) {
  KernelMessage asked{.operation = KernelOperation::ip_resolve, .ipv4 = std::array<std::uint8_t, 4>{192, 0, 2, 2}};
  EXPECT_EQ(answer(asked).dgid, subnet.gid(2));
  asked.ipv4->back() = 77;
  EXPECT_TRUE(answer(asked).is_refusal());
  asked.ipv4.reset();
  EXPECT_TRUE(answer(asked).is_refusal());
  asked.ipv6 = std::array<std::uint8_t, 16>{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3};
  EXPECT_EQ(answer(asked).dgid, subnet.gid(3));
}

TEST_F(SsaNetlink, WhatIsNoRequestOfTheKernelHasNoAnswer) {
  KernelMessage other = request();
  other.flags = 0;  // another service's answer, which the group gets, too
  other.paths = {{43, *subnet.map->find({.slid = 1, .dlid = 2})}};
  EXPECT_TRUE(ask(emitted(other)).empty());
  Bytes client = emitted(request());
  store(client.data() + 4, std::uint16_t{5 << 10}, std::endian::native);
  EXPECT_TRUE(ask(client).empty());
  EXPECT_EQ(parse_netlink(client).error().code(), Errc::malformed);

  Bytes operation = emitted(request());
  store(operation.data() + 4, std::uint16_t{4 << 10 | 3}, std::endian::native);
  Bytes out;
  ASSERT_TRUE(answer_kernel(operation, *data, 1, out));
  EXPECT_EQ(parse_netlink_header(out)->type, 4 << 10 | 3);
  EXPECT_EQ(parse_netlink_header(out)->flags, netlink_refusal);
}

TEST_F(SsaNetlink, SeveralRequestsOfADatagramHaveAnAnswerEach) {
  KernelMessage second = request();
  second.sequence = 8;
  const auto answers = ask(joined({emitted(request()), emitted(second)}));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].sequence, 7U);
  EXPECT_EQ(answers[1].sequence, 8U);
}

TEST_F(SsaNetlink, WrongRequestsAreRefused) {
  struct Case {
    std::string_view what;
    std::size_t at;
    std::uint8_t value;
  };
  const Bytes good = recorded_request();
  for (const Case& wrong : {Case{"use", 81, 3},
                            {"attribute without its header", 84, 3},
                            {"attribute beyond the message", 85, 1},
                            {"length of a ServiceID", 84, 8},
                            {"unknown attribute that must be known", 86, 11},
                            {"DGID twice", 118, 4},
                            {"P_Key of 1 octet", 144, 5}}) {
    Bytes request = good;
    request[wrong.at] = wrong.value;
    const auto parsed = parse_netlink(request, std::endian::little);
    ASSERT_FALSE(parsed) << wrong.what;
    EXPECT_EQ(parsed.error().code(), Errc::malformed) << wrong.what << parsed.error().message();
  }
  Bytes optional = good;
  optional[86] = 11;
  optional[87] = 0;
  EXPECT_FALSE(parse_netlink(optional, std::endian::little)->service_id) << "may be unknown";
  Bytes endless = good;
  std::fill_n(endless.begin() + 16, 64, std::uint8_t{'a'});
  EXPECT_EQ(parse_netlink(endless, std::endian::little).error().code(), Errc::malformed);

  KernelMessage seven{.flags = 0, .paths = {6, {43, {}}}};
  Bytes more = emitted(seven);
  const Bytes path(more.begin() + 16, more.begin() + 16 + 76);
  more.insert(more.end(), path.begin(), path.end());
  store(more.data(), static_cast<std::uint32_t>(more.size()), std::endian::native);
  EXPECT_EQ(parse_netlink(more).error().code(), Errc::malformed) << "more than 6 paths";
}

TEST_F(SsaNetlink, ACutMessageIsRefused) {
  const Bytes good = emitted(request());
  Bytes out;
  for (std::size_t size = 1; size < good.size(); ++size) {
    const ConstBytes cut = ConstBytes(good).first(size);
    EXPECT_EQ(parse_netlink(cut).error().code(), Errc::truncated) << size;
    EXPECT_FALSE(answer_kernel(cut, *data, 1, out)) << size;
  }
  EXPECT_TRUE(out.empty());
  Bytes header(good.begin(), good.begin() + 40);
  store(header.data(), std::uint32_t{40}, std::endian::native);
  EXPECT_EQ(parse_netlink(header).error().code(), Errc::truncated) << "the header of the operation";
  EXPECT_TRUE(ask(header).at(0).is_refusal());
  store(header.data(), std::uint32_t{15}, std::endian::native);
  EXPECT_EQ(answer_kernel(header, *data, 1, out).error().code(), Errc::malformed);
}

}  // namespace
}  // namespace netlink_test
}  // namespace parley::ssa::acm
