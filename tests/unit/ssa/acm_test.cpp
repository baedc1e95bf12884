// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibacm's protocol: octets as its clients write and read them, each status, input that is wrong, and answers of subnet
// administration.
#include <gmock/gmock.h>

#include "tests/unit/ssa/acm_kit.hpp"

namespace parley::ssa::acm {
namespace acm_test {
namespace {

using testing::HasSubstr;
using wire::mad::PathRecord;

constexpr std::uint32_t source = 1, destination = 2, query_sa = 1U << 31;

struct SsaAcm : testing::Test {
  ThreeHosts subnet;
  Server server{true};
  Session session{server};

  SsaAcm() { server.set_data(subnet.data()); }

  Bytes ask(ConstBytes request) {
    Bytes out;
    const auto fed = session.feed(request, out);
    EXPECT_TRUE(fed) << fed.error().message();
    return out;
  }
  /// The status of a refusal; 0 and the path otherwise.
  unsigned status(const std::vector<AcmEpAddrData>& records, PathRecord* got = nullptr) {
    const Bytes answer = ask(resolve_request(records));
    const auto header = value_of<AcmHdr>(answer);
    EXPECT_EQ(header.opcode, 0x81);
    EXPECT_EQ(header.length, answer.size());
    EXPECT_EQ(header.tid, AcmHdr{}.tid);
    EXPECT_TRUE(header.status == 0 || answer.size() == 16U) << answer.size();
    if (header.status == 0 && got != nullptr)
      *got = *PathRecord::parse(ConstBytes(value_of<AcmEpAddrData>(ConstBytes(answer).subspan(16)).info));
    return header.status;
  }
  PathRecord by_lids(std::uint16_t slid, std::uint16_t dlid) const {
    return PathRecord().set(PathRecord::slid, slid).set(PathRecord::dlid, dlid);
  }
  PathRecord by_gids(const Gid& sgid, const Gid& dgid) const {
    return PathRecord().set(PathRecord::sgid, sgid).set(PathRecord::dgid, dgid);
  }
};

TEST_F(SsaAcm, AnAnswerHasTheOctetsOfIbacmsHeader) {
  const PathRecord due = *subnet.map->find({.slid = 1, .dlid = 2});
  const Bytes answer = ask(resolve_request({path(by_lids(1, 2))}));
  ASSERT_EQ(answer.size(), 88U);
  AcmHdr header;
  header.opcode = 0x81;
  header.length = 88;
  Bytes expected = octets_of(header);
  const Bytes record_part = octets_of(path(due, 1 | 2 | 8 | 32));
  expected.insert(expected.end(), record_part.begin(), record_part.end());
  EXPECT_EQ(answer, expected);
}

TEST_F(SsaAcm, PathsByLidAndByGidAreThoseOfTheMap) {
  const PathRecord due = *subnet.map->find({.slid = 1, .dlid = 2});
  PathRecord got;
  EXPECT_EQ(status({path(by_lids(1, 2))}, &got), 0U);
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({path(by_gids(subnet.gid(1), subnet.gid(2)))}, &got), 0U);
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({path(by_lids(0, 2))}, &got), 0U) << "the local port is the source";
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({path(by_lids(2, 1).set(PathRecord::reversible, true).set(PathRecord::p_key, 0x7FFF))}, &got), 0U);
  EXPECT_EQ(got, *subnet.map->find({.slid = 2, .dlid = 1, .p_key = 0x7FFF}));
  EXPECT_EQ(server.counter(Counter::route_cache), 4U);
  EXPECT_EQ(server.counter(Counter::resolve), 4U);
}

TEST_F(SsaAcm, ARequestWithoutAPathSaysWhy) {
  const Gid other = gid_of_port(0xFEC0000000000002, 201), unknown = gid_of_port(0xFEC0000000000001, 999);
  EXPECT_EQ(status({path(by_lids(7, 2))}), 7U) << "no port has the source LID";
  EXPECT_EQ(status({path(by_lids(1, 7))}), 9U);
  EXPECT_EQ(status({path(by_lids(1, 0))}), 9U) << "no destination";
  EXPECT_EQ(status({path(by_gids(other, subnet.gid(1)))}), 7U) << "another subnet";
  EXPECT_EQ(status({path(by_gids(subnet.gid(1), unknown))}), 9U);
  EXPECT_EQ(status({path(by_lids(2, 3))}), 3U) << "two limited members";
  EXPECT_EQ(status({path(by_lids(1, 2).set(PathRecord::p_key, 0x1234))}), 3U);
  EXPECT_EQ(status({path(by_lids(1, 2).set(PathRecord::dgid, subnet.gid(3)))}), 3U) << "GID and LID of two ports";
  EXPECT_EQ(server.counter(Counter::no_data), 3U);
  EXPECT_EQ(server.counter(Counter::error), 5U);
  EXPECT_EQ(server.counter(Counter::route_cache), 0U);
}

TEST_F(SsaAcm, APathInOneDirectionIsNotReversible) {
  subnet.net.nodes[0].lft.erase(1);
  subnet.map = *PathMap::create(*database_of(subnet.net));
  server.set_data(subnet.data());
  EXPECT_EQ(status({path(by_lids(1, 2).set(PathRecord::reversible, true))}), 3U);
  const Bytes answer = ask(resolve_request({path(by_lids(1, 2))}));
  EXPECT_EQ(value_of<AcmEpAddrData>(ConstBytes(answer).subspan(16)).flags, 1U | 2U | 8U);
}

TEST_F(SsaAcm, NamesAndAddressesLeadToThePathsOfTheirPorts) {
  const PathRecord due = *subnet.map->find({.slid = 1, .dlid = 2});
  const Gid three = subnet.gid(3);
  PathRecord got;
  EXPECT_EQ(status({named(source, "one"), named(destination, "two HCA-1")}, &got), 0U);
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({named(destination, "two"), named(source, "one")}, &got), 0U) << "the first word of a description";
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({ipv4(source, 1), ipv4(destination | 1U << 30, 2)}, &got), 0U) << "from the cache only";
  EXPECT_EQ(got, due);
  EXPECT_EQ(status({ipv4(source, 1), record(destination, 3, three)}, &got), 0U) << "a GID as IPv6 address";
  EXPECT_EQ(got, *subnet.map->find({.slid = 1, .dlid = 3}));
  EXPECT_EQ(
      status({ipv4(source, 1), record(destination, 3, Bytes{0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3})},
             &got),
      0U);
  EXPECT_EQ(got, *subnet.map->find({.slid = 1, .dlid = 3}));
  EXPECT_EQ(server.counter(Counter::address_cache), 5U);
}

TEST_F(SsaAcm, WithoutASourceTheAnswerHasTheLocalPortsAddress) {
  const auto source_of = [&](const AcmEpAddrData& to) {
    const Bytes answer = ask(resolve_request({to}));
    EXPECT_EQ(answer.size(), 160U);
    EXPECT_EQ(value_of<AcmEpAddrData>(ConstBytes(answer).subspan(16)).type, 0x10);
    return value_of<AcmEpAddrData>(ConstBytes(answer).subspan(88));
  };
  EXPECT_EQ(octets_of(source_of(ipv4(destination, 2))), octets_of(ipv4(source, 1)));
  EXPECT_EQ(octets_of(source_of(named(destination, "two"))), octets_of(named(source, "one")));
  EXPECT_EQ(octets_of(source_of(record(destination, 3, subnet.gid(2)))), octets_of(record(source, 3, subnet.gid(1))));
  // librdmacm must not get an answer without a source.
  const auto data = subnet.data();
  const auto addresses = std::make_shared<Addresses>();
  ASSERT_TRUE(addresses->add_file("192.0.2.2 fec0::1:0:0:0:ca"));
  data->addresses = addresses;
  server.set_data(data);
  EXPECT_EQ(status({ipv4(destination, 2)}), 7U);
}

TEST_F(SsaAcm, RequestsByAddressSayWhatIsWrong) {
  EXPECT_EQ(status({}), 10U) << "no destination";
  EXPECT_EQ(status({ipv4(source, 1)}), 10U);
  EXPECT_EQ(status({ipv4(source, 1), ipv4(source, 2), ipv4(destination, 2)}), 7U) << "two sources";
  EXPECT_EQ(status({ipv4(destination, 1), ipv4(destination, 2)}), 9U);
  EXPECT_EQ(status({record(source, 4, {}), ipv4(destination, 2)}), 8U);
  EXPECT_EQ(status({ipv4(source, 1), record(destination, 0x10, {})}), 10U);
  EXPECT_EQ(status({ipv4(source, 77), ipv4(destination, 2)}), 7U);
  EXPECT_EQ(status({ipv4(source, 1), ipv4(destination, 77)}), 9U);
  EXPECT_EQ(status({ipv4(source, 1), ipv4(destination, 9)}), 9U) << "the file has a GID that no port has";
  EXPECT_EQ(status({ipv4(source, 1), named(destination, std::string(64, 'x'))}), 9U) << "a name without an end";
  EXPECT_EQ(status({path(by_lids(1, 2), query_sa), ipv4(destination, 2)}), 2U) << "more than the path for the SA";
  EXPECT_FALSE(session.is_waiting());
  Bytes odd = resolve_request({path(by_lids(1, 2))});
  odd.resize(40);
  const std::uint16_t length = 40;
  std::memcpy(odd.data() + 6, &length, sizeof length);
  EXPECT_EQ(value_of<AcmHdr>(ask(odd)).status, 2) << "half a record";
  server.set_data(std::make_shared<Data>());
  EXPECT_EQ(status({path(by_lids(1, 2))}), 3U) << "nothing is known yet";
  EXPECT_EQ(status({path(by_lids(0, 2))}), 7U);
}

TEST_F(SsaAcm, OctetsThatAreNotARequestEndTheSession) {
  struct Row {
    AcmHdr header;
    const char* why;
  };
  const auto header = [](std::uint8_t octet0, std::uint8_t opcode, std::uint16_t length) {
    AcmHdr out;
    out.version = octet0;
    out.opcode = opcode;
    out.length = length;
    return out;
  };
  const std::uint16_t big_594 = 0x5202, big_15 = 0x0F00;  // as octets in reverse order
  const Row rows[] = {{header(0, 1, 16), "the version is 0"},        {header(2, 1, 16), "the version is 2"},
                      {header(1, 0, 16), "the operation is 0"},      {header(1, 4, 16), "the operation is 4"},
                      {header(1, 0x41, 16), "the operation is 65"},  {header(1, 0x81, 16), "is an answer"},
                      {header(1, 1, 15), "the length is 15"},        {header(1, 1, 593), "the length is 593"},
                      {header(1, 1, 0xFFFF), "the length is 65535"}, {header(1, 2, big_594), "the length is 594"},
                      {header(1, 3, big_15), "the length is 15"}};
  for (const Row& row : rows) {
    Session fresh(server);
    Bytes out;
    const auto fed = fresh.feed(octets_of(row.header), out);
    ASSERT_FALSE(fed) << row.why;
    EXPECT_EQ(fed.error(), Errc::malformed);
    EXPECT_THAT(fed.error().message(), HasSubstr(row.why));
    EXPECT_TRUE(out.empty());
  }
}

TEST_F(SsaAcm, RequestsThatFollowEachOtherAreAnsweredInOrderHoweverTheyAreCut) {
  Bytes all, due;
  for (const auto& records : {std::vector{path(by_lids(1, 2))}, {path(by_lids(1, 7))}, {ipv4(destination, 2)}, {}}) {
    const Bytes request = resolve_request(records), answer = ask(request);
    all.insert(all.end(), request.begin(), request.end());
    due.insert(due.end(), answer.begin(), answer.end());
  }
  for (std::size_t cut = 1; cut <= all.size(); ++cut) {
    Session fresh(server);
    Bytes out;
    for (std::size_t at = 0; at < all.size(); at += cut)
      ASSERT_TRUE(fresh.feed(ConstBytes(all).subspan(at, std::min(cut, all.size() - at)), out));
    EXPECT_EQ(out, due) << cut;
  }
}

TEST_F(SsaAcm, SubnetAdministrationAnswersBeforeTheRequestsBehind) {
  const PathRecord asked = by_lids(1, 2).set(PathRecord::sl, 3), found = by_lids(1, 2).set(PathRecord::sl, 4);
  Bytes both = resolve_request({path(asked, query_sa)});
  const Bytes behind = resolve_request({path(by_lids(1, 7))});
  both.insert(both.end(), behind.begin(), behind.end());
  EXPECT_TRUE(ask(both).empty());
  ASSERT_TRUE(session.is_waiting());
  EXPECT_EQ(*session.query(), asked);
  EXPECT_TRUE(ask(behind).empty());
  Bytes out;
  ASSERT_TRUE(session.handle_answer(found, out));
  EXPECT_EQ(session.query(), nullptr);
  ASSERT_EQ(out.size(), 88U + 16U + 16U);
  EXPECT_EQ(octets_of(value_of<AcmEpAddrData>(ConstBytes(out).subspan(16))), octets_of(path(found, 1 | 2 | 8)));
  EXPECT_EQ(value_of<AcmHdr>(ConstBytes(out).subspan(88)).status, 9);
  EXPECT_EQ(server.counter(Counter::route_query), 1U);
  out.clear();
  ASSERT_TRUE(session.handle_answer(found, out)) << "no request waits";
  EXPECT_TRUE(out.empty());
}

TEST_F(SsaAcm, SubnetAdministrationThatHasNoAnswerIsAStatus) {
  EXPECT_TRUE(ask(resolve_request({path(by_lids(1, 2), query_sa)})).empty());
  Bytes out;
  ASSERT_TRUE(session.handle_answer(tl::unexpected(Status::timed_out), out));
  EXPECT_EQ(out.size(), 16U);
  EXPECT_EQ(value_of<AcmHdr>(out).status, 6);
  Server alone(false);
  alone.set_data(subnet.data());
  Session other(alone);
  out.clear();
  ASSERT_TRUE(other.feed(resolve_request({path(by_lids(1, 2), query_sa)}), out));
  EXPECT_FALSE(other.is_waiting());
  EXPECT_EQ(value_of<AcmHdr>(out).status, 3);
}

/// A request whose length is big-endian.
Bytes big_request(std::uint8_t opcode, std::uint8_t data0, std::uint8_t data1,
                  const std::vector<AcmEpAddrData>& records = {}) {
  Bytes out = resolve_request(records);
  out[1] = opcode;
  out[3] = data0;
  out[4] = data1;
  out[6] = 0;
  out[7] = static_cast<std::uint8_t>(out.size());
  return out;
}

TEST_F(SsaAcm, CountersAreBigEndianAndOfAllOrOfALocalEndpoint) {
  (void)status({path(by_lids(1, 2))});
  (void)status({path(by_lids(2, 3))});
  const auto check = [&](const Bytes& answer) {
    ASSERT_EQ(answer.size(), 16U + 7 * 8);
    EXPECT_EQ(ConstBytes(answer)[1], 0x82);
    EXPECT_EQ(answer[3], 7);
    EXPECT_EQ(answer[6] << 8 | answer[7], 72);
    std::vector<std::uint64_t> counts;
    Reader reader(ConstBytes(answer).subspan(16));
    for (int i = 0; i < 7; ++i) counts.push_back(reader.be64());
    EXPECT_THAT(counts, testing::ElementsAre(0, 2, 1, 0, 0, 0, 1));
  };
  check(ask(big_request(2, 0, 0)));
  check(ask(big_request(2, 0, 2)));
  check(ask(big_request(2, 0, 0, {ipv4(source, 1)})));
  for (const Bytes& request : {big_request(2, 0, 3), big_request(2, 0, 0, {ipv4(source, 2)})}) {
    const Bytes answer = ask(request);
    EXPECT_EQ(answer.size(), 16U);
    EXPECT_EQ(answer[2], 7) << "not a local endpoint";
  }
}

TEST_F(SsaAcm, EndpointsAreCountedFromOneWithinAPort) {
  const Bytes answer = ask(big_request(3, 1, 1));
  ASSERT_EQ(answer.size(), 16U + 80 + 2 * 64);
  EXPECT_EQ(answer[1], 0x83);
  EXPECT_EQ(answer[2], 0);
  EXPECT_EQ(answer[6] << 8 | answer[7], 224);
  Reader reader(ConstBytes(answer).subspan(16));
  EXPECT_EQ(reader.be64(), 77U);
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u8(), 2);
  EXPECT_EQ(reader.be16(), 0);
  EXPECT_EQ(reader.be16(), 0xFFFF);
  EXPECT_EQ(reader.be16(), 2);
  const auto text = [&] { return std::string(reinterpret_cast<const char*>(reader.bytes(64).data())); };
  EXPECT_EQ(text(), "parley");
  EXPECT_EQ(text(), "one");
  EXPECT_EQ(text(), "192.0.2.1");
  const Bytes second = ask(big_request(3, 2, 0));
  ASSERT_EQ(second.size(), 16U + 80);
  EXPECT_EQ(second[28] << 8 | second[29], 0x8001);
  for (const Bytes& request : {big_request(3, 0, 1), big_request(3, 3, 1), big_request(3, 1, 2)}) {
    const Bytes none = ask(request);
    EXPECT_EQ(none.size(), 16U);
    EXPECT_EQ(none[2], 2);
  }
}

TEST_F(SsaAcm, NoIndexIsTheGreatestThatAClientCanCountTo) {
  const auto data = subnet.data();
  data->endpoints.resize(300, data->endpoints.front());
  server.set_data(data);
  EXPECT_EQ(ask(big_request(2, 0, 254)).size(), 16U + 7 * 8);
  EXPECT_EQ(ask(big_request(2, 0, 255)).size(), 16U);
  EXPECT_GT(ask(big_request(3, 254, 0)).size(), 16U);
  EXPECT_EQ(ask(big_request(3, 255, 0)).size(), 16U);
}

TEST_F(SsaAcm, LinkLocalGidsAreThoseOfTheSubnet) {
  const auto data = subnet.data();
  const auto addresses = std::make_shared<Addresses>();
  ASSERT_TRUE(
      addresses->add_file("192.0.2.1 fe80::c9\n2001:db8::1 fec0::1:0:0:0:c9\nten fe80::c9\n192.0.2.2 fe80::ca"));
  addresses->set_prefix(subnet.map->gid_prefix());
  data->addresses = addresses;
  server.set_data(data);
  const Gid local = gid_of_port(0xFE80000000000000, 201);
  EXPECT_EQ(ask(big_request(2, 0, 0, {record(source, 3, local)})).size(), 72U) << "a local endpoint";
  EXPECT_EQ(ask(big_request(2, 0, 0, {ipv4(source, 1)})).size(), 72U);
  const Bytes answer = ask(resolve_request({ipv4(destination, 2)}));
  ASSERT_EQ(answer.size(), 160U);
  EXPECT_EQ(octets_of(value_of<AcmEpAddrData>(ConstBytes(answer).subspan(88))), octets_of(ipv4(source, 1)));
  EXPECT_EQ(status({record(source, 3, local), record(destination, 3, gid_of_port(0xFE80000000000000, 202))}), 0U);
  EXPECT_EQ(addresses->texts_of(subnet.gid(1)), (std::vector<std::string>{"2001:db8::1", "192.0.2.1", "ten"}));
}

TEST(SsaAcmAddresses, AFileWithAWrongLineIsRefusedWithItsNumber) {
  const std::pair<const char*, const char*> rows[] = {
      {"one", "line 1 must have two words"},
      {"\n\none fe80::1 more", "line 3 must have two words"},
      {"one 192.0.2.1", "line 1 must be a GID"},
      {"one fe80::1%3", "line 1 must be a GID"},
      {"one fe80::1\ntwo two", "line 2 must be a GID"},
      {"one fe80::1\none fe80::2", "line 2 gives an address that an earlier line has another GID"},
      {"0123456789012345678901234567890123456789012345678901234567890123 fe80::1", "line 1 is longer than 63"}};
  for (const auto& [text, why] : rows) {
    Addresses addresses;
    const auto added = addresses.add_file(text);
    ASSERT_FALSE(added) << text;
    EXPECT_EQ(added.error(), Errc::malformed);
    EXPECT_THAT(added.error().message(), HasSubstr(why));
  }
  Addresses addresses;
  EXPECT_TRUE(addresses.add_file("# nothing\n \t\r\none fe80::1\none fe80::1"));
  EXPECT_EQ(addresses.size(), 1U);
}

TEST(SsaAcmAddresses, ANameOfTwoPortsIsUnknownUnlessAFileHasIt) {
  constexpr Gid a{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, b{0xFE, 0x80, 1};
  Addresses addresses;
  ASSERT_TRUE(addresses.add_file("host fe80::1"));
  addresses.add_name("host", b);
  addresses.add_name("node HCA-1", a);
  addresses.add_name("node HCA-2", b);
  addresses.add_name(std::string(70, 'x'), b);
  const auto found = [&](std::string_view name) { return addresses.find(*address_key(name)); };
  ASSERT_NE(found("host"), nullptr);
  EXPECT_EQ(*found("host"), a);
  EXPECT_EQ(found("node"), nullptr);
  ASSERT_NE(found("node HCA-2"), nullptr);
  EXPECT_EQ(*found("node HCA-2"), b);
  EXPECT_EQ(addresses.address_of(b, record_type::name)->octets, "node HCA-2");
  EXPECT_EQ(addresses.address_of(b, record_type::ipv4), nullptr);
}

}  // namespace
}  // namespace acm_test
}  // namespace parley::ssa::acm
