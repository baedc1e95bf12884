// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// ibacm's service on sockets: clients of Unix sockets and TCP, those that do not read or leave early, places that are taken.
#include "drivers/ssa/acm_service.hpp"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fstream>

#include "drivers/private_folder.hpp"
#include "drivers/ssa/acm_sa.hpp"
#include "tests/unit/ssa/acm_kit.hpp"

namespace parley::ssa_driver {
namespace ssa_acm_service_test {
namespace {

using ssa::acm::AcmEpAddrData;
using ssa::acm::AcmHdr;
using ssa::acm::path;
using ssa::acm::resolve_request;
using ssa::acm::Status;
using ssa::acm::value_of;
using wire::mad::PathRecord;

constexpr Duration for_ever = std::chrono::minutes(10);  // only a hang lasts so long
constexpr std::uint32_t query_sa = 1U << 31;

PathRecord by_lids(std::uint16_t slid, std::uint16_t dlid) {
  return PathRecord().set(PathRecord::slid, slid).set(PathRecord::dlid, dlid);
}

struct Client {
  explicit Client(const std::string& place) : fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    place.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::connect(fd.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << place;
  }
  explicit Client(std::uint16_t port) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << port;
  }
  void send(ConstBytes octets) const {
    EXPECT_EQ(::send(fd.fd, octets.data(), octets.size(), MSG_NOSIGNAL), static_cast<ssize_t>(octets.size()));
  }
  /// Exactly so many octets; fewer: the service has closed.
  Bytes receive(std::size_t octets) const {
    Bytes out(octets);
    const ssize_t got = ::recv(fd.fd, out.data(), out.size(), MSG_WAITALL);
    out.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return out;
  }
  unsigned status(ConstBytes request, std::size_t answer_octets) const {
    send(request);
    const Bytes answer = receive(answer_octets);
    EXPECT_EQ(answer.size(), answer_octets);
    return answer.size() < 16 ? 255 : value_of<AcmHdr>(answer).status;
  }
  asio_driver::Descriptor fd;
};

struct SsaAcmService : testing::Test {
  std::unique_ptr<PrivateFolder> folder = PrivateFolder::create("parley-acm-");
  ssa::acm::ThreeHosts subnet;
  std::string place = folder->path() + "/acm.sock";

  std::unique_ptr<AcmService> open(AcmServiceOptions options) {
    auto service = AcmService::open(options);
    EXPECT_TRUE(service) << service.error().message();
    if (!service) return nullptr;
    const auto started = (*service)->start(subnet.data());
    EXPECT_TRUE(started) << started.error().message();
    return std::move(*service);
  }
  std::unique_ptr<AcmService> open() { return open({.sockets = {place}}); }
};

TEST_F(SsaAcmService, ClientsOfEachPlaceGetAnswersUntilItEnds) {
  const std::string other = folder->path() + "/other.sock", file = folder->path() + "/acm.port";
  {
    const auto service = open({.sockets = {place, other}, .port = std::uint16_t{0}, .port_files = {file}});
    ASSERT_NE(service, nullptr);
    unsigned written = 0;
    std::ifstream(file) >> written;
    EXPECT_EQ(written, service->port());
    EXPECT_NE(service->port(), 0);
    struct stat facts {};
    ASSERT_EQ(::stat(place.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, ::geteuid() == 0 ? 0666U : 0600U);
    const Client a(place), b(other), c(service->port());
    for (const Client* client : {&a, &b, &c, &a}) {
      EXPECT_EQ(client->status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
      EXPECT_EQ(client->status(resolve_request({path(by_lids(1, 7))}), 16), 9U);
    }
    service->stop();
    EXPECT_EQ(service->counter(ssa::acm::Counter::route_cache), 4U);
  }
  for (const std::string& path : {place, other, file}) EXPECT_NE(::access(path.c_str(), F_OK), 0) << path;
}

TEST_F(SsaAcmService, NewTablesAreUsedForLaterRequests) {
  const auto service = open();
  const Client client(place);
  EXPECT_EQ(client.status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
  service->publish(std::make_shared<ssa::acm::Data>());
  // The service learns of it at some time.
  while (client.status(resolve_request({path(by_lids(7, 2))}), 16) != 3) {
  }
}

TEST_F(SsaAcmService, AClientThatDoesNotReadWaitsAndLosesNothing) {
  const auto service = open();
  const Client slow(place), other(place);
  const Bytes request = resolve_request({path(by_lids(1, 2))});
  std::size_t sent = 0;
  for (ssize_t n = 0; n >= 0;) {  // until the service takes no more
    n = ::send(slow.fd.fd, request.data() + sent % request.size(), request.size() - sent % request.size(),
               MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) sent += static_cast<std::size_t>(n);
  }
  EXPECT_EQ(other.status(request, 88), 0U);
  const std::size_t whole = sent / request.size();
  EXPECT_GT(whole, 100U);
  const Bytes answers = slow.receive(whole * 88);
  ASSERT_EQ(answers.size(), whole * 88);
  for (std::size_t at = 0; at < answers.size(); at += 88)
    ASSERT_EQ(value_of<AcmHdr>(ConstBytes(answers).subspan(at)).status, 0);
}

TEST_F(SsaAcmService, WhatIsNotARequestEndsItsConnectionAlone) {
  const auto service = open();
  const Client bad(place), good(place);
  bad.send(Bytes(100, 0xA5));
  EXPECT_TRUE(bad.receive(1).empty());
  EXPECT_EQ(good.status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
}

TEST_F(SsaAcmService, SubnetAdministrationIsAskedByTheOwner) {
  const auto service = open();
  const Client one(place), two(place);
  EXPECT_FALSE(service->wait_query(Duration{}));
  one.send(resolve_request({path(by_lids(1, 2), query_sa)}));
  const auto query = service->wait_query(for_ever);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->record, by_lids(1, 2));
  EXPECT_EQ(two.status(resolve_request({path(by_lids(1, 2))}), 88), 0U) << "others do not wait";
  service->answer(query->client, tl::unexpected(Status::timed_out));
  service->answer(query->client, by_lids(1, 3));  // the second answer to one question
  EXPECT_EQ(value_of<AcmHdr>(one.receive(16)).status, 6);
  one.send(resolve_request({path(by_lids(1, 2), query_sa)}));
  const auto again = service->wait_query(for_ever);
  ASSERT_TRUE(again);
  service->answer(again->client, by_lids(1, 3));
  EXPECT_EQ(one.receive(88).size(), 88U);
}

TEST_F(SsaAcmService, TheQuestionOfAClientThatLeftIsForgotten) {
  const auto service = open();
  auto gone = std::make_unique<Client>(place);
  const Client next(place);
  const auto exchange = [&] { EXPECT_EQ(next.status(resolve_request({path(by_lids(1, 2))}), 88), 0U); };
  gone->send(resolve_request({path(by_lids(1, 2), query_sa)}));
  const auto taken = service->wait_query(for_ever);
  ASSERT_TRUE(taken);
  gone.reset();  // while the owner has the question
  exchange();
  service->answer(taken->client, by_lids(1, 2));
  service->answer(taken->client + 100, by_lids(1, 2));  // of no client
  exchange();
  // Two questions wait, and the first client leaves.
  gone = std::make_unique<Client>(place);
  const Client stays(place);
  gone->send(resolve_request({path(by_lids(1, 3), query_sa)}));
  stays.send(resolve_request({path(by_lids(2, 1), query_sa)}));
  while (service->queries() < 2) exchange();
  gone.reset();
  while (service->queries() > 1) exchange();
  const auto left = service->wait_query(for_ever);
  ASSERT_TRUE(left);
  EXPECT_EQ(left->record, by_lids(2, 1));
  EXPECT_FALSE(service->wait_query(Duration{}));
}

TEST_F(SsaAcmService, MoreClientsThanItMayHaveAreTurnedAway) {
  const auto service = open({.sockets = {place}, .clients_max = 2});
  const Client one(place), two(place);
  EXPECT_EQ(one.status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
  EXPECT_EQ(two.status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
  const Client three(place);
  EXPECT_TRUE(three.receive(1).empty());
  EXPECT_EQ(one.status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
}

TEST_F(SsaAcmService, OneOtherUserCannotTakeAllPlaces) {
  const auto service = open({.sockets = {place}, .port = std::uint16_t{0}, .clients_of_other_max = 1});
  auto first = std::make_unique<Client>(service->port());
  const Bytes request = resolve_request({path(by_lids(1, 2))});
  EXPECT_EQ(first->status(request, 88), 0U);
  EXPECT_TRUE(Client(service->port()).receive(1).empty()) << "those of TCP are one user";
  const Client own(place), second(place);
  EXPECT_EQ(own.status(request, 88), 0U);
  EXPECT_EQ(second.status(request, 88), 0U);
  first.reset();
  // The service learns of it at some time.
  for (Bytes answer; answer.empty();) {
    const Client later(service->port());
    (void)!::send(later.fd.fd, request.data(), request.size(), MSG_NOSIGNAL);
    answer = later.receive(88);
  }
}

TEST_F(SsaAcmService, RefusesClientsUntilItHasTables) {
  const auto service = AcmService::open({.sockets = {place}});
  ASSERT_TRUE(service);
  const asio_driver::Descriptor early(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  place.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::connect(early.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(AcmService::open({.sockets = {place}}).error(), Errc::address_in_use) << "it is not a dead process's";
  ASSERT_TRUE((*service)->start(subnet.data()));
  EXPECT_EQ(Client(place).status(resolve_request({path(by_lids(1, 2))}), 88), 0U) << "from the first request on";
}

/// A socket that is bound, and does not listen if it is a datagram's.
int bind_socket(const std::string& place, int type) {
  const int fd = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  place.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST_F(SsaAcmService, ALiveSocketOfAnotherTypeStays) {
  for (const int type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    const std::string live = folder->path() + "/live" + std::to_string(type);
    const asio_driver::Descriptor fd(bind_socket(live, type));
    if (type == SOCK_SEQPACKET) (void)::listen(fd.fd, 1);
    const auto refused = AcmService::open({.sockets = {live}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), Errc::address_in_use);
    EXPECT_EQ(::access(live.c_str(), F_OK), 0);
  }
}

TEST_F(SsaAcmService, WhatIbacmLeavesForLibrdmacmIsReplaced) {
  const std::string link = folder->path() + "/ibacm.sock", unix_socket = folder->path() + "/ibacm-unix.sock";
  const std::string port_link = folder->path() + "/ibacm.port", file = folder->path() + "/ibacm-tcp.port";
  folder->link("/ibacm.sock", "ibacm-unix.sock");
  folder->link("/ibacm.port", file);
  EXPECT_TRUE(is_link_to(link, unix_socket));
  EXPECT_TRUE(is_link_to(port_link, file));
  EXPECT_FALSE(is_link_to(link, place));
  EXPECT_FALSE(is_link_to(unix_socket, unix_socket));
  {
    // It runs.
    const asio_driver::Descriptor ibacm(bind_socket(unix_socket, SOCK_STREAM));
    ASSERT_EQ(::listen(ibacm.fd, 1), 0);
    EXPECT_EQ(AcmService::open({.sockets = {link}}).error(), Errc::address_in_use);
  }
  const auto service =
      open({.sockets = {unix_socket, link}, .port = std::uint16_t{0}, .port_files = {file, port_link}});
  ASSERT_NE(service, nullptr);
  for (const std::string& at : {unix_socket, link})
    EXPECT_EQ(Client(at).status(resolve_request({path(by_lids(1, 2))}), 88), 0U) << at;
  for (const std::string& path : {link, port_link}) {
    struct stat facts {};
    EXPECT_EQ(::lstat(path.c_str(), &facts), 0);
    EXPECT_FALSE(S_ISLNK(facts.st_mode)) << path;
  }
  folder->link("/other.sock", "somewhere");
  EXPECT_EQ(AcmService::open({.sockets = {folder->path() + "/other.sock"}}).error(), Errc::address_in_use);
  EXPECT_EQ(AcmService::open({.port = std::uint16_t{0}, .port_files = {folder->path() + "/other.sock"}}).error(),
            Errc::address_in_use);
}

TEST_F(SsaAcmService, AFileThatTookTheNameStays) {
  const std::string file = folder->path() + "/acm.port";
  auto service = open({.sockets = {place}, .port = std::uint16_t{0}, .port_files = {file}});
  for (const std::string& path : {place, file}) {
    ASSERT_EQ(::unlink(path.c_str()), 0);
    std::ofstream(path) << "another";
  }
  service.reset();
  for (const std::string& path : {place, file}) EXPECT_EQ(::access(path.c_str(), F_OK), 0) << path;
}

TEST_F(SsaAcmService, OnlyADeadProcesssSocketIsReplaced) {
  std::string wrong;
  const std::string file = folder->path() + "/file";
  std::ofstream(file) << "text";
  const auto refused = AcmService::open({.sockets = {file}}, &wrong);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::address_in_use);
  EXPECT_EQ(wrong, file);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0);
  const auto service = open();
  const auto second = AcmService::open({.sockets = {place}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), Errc::address_in_use);
  EXPECT_EQ(Client(place).status(resolve_request({path(by_lids(1, 2))}), 88), 0U);
  const std::string dead = folder->path() + "/dead.sock";
  ::close(bind_socket(dead, SOCK_STREAM));
  EXPECT_NE(open({.sockets = {dead}}), nullptr);
  EXPECT_EQ(AcmService::open({}).error(), Errc::invalid_argument);
  EXPECT_EQ(AcmService::open({.sockets = {std::string(200, 'x')}}).error(), Errc::invalid_argument);
  EXPECT_FALSE(AcmService::open({.sockets = {folder->path() + "/missing/acm.sock"}}));
}

TEST(SsaAcmQuery, MembersThatAreNotZeroAreConditions) {
  const PathRecord record = by_lids(1, 2)
                                .set(PathRecord::p_key, 0xFFFF)
                                .set(PathRecord::mtu_selector, wire::mad::Selector::exactly)
                                .set(PathRecord::rate_selector, wire::mad::Selector::exactly)
                                .set(PathRecord::rate, static_cast<wire::mad::Rate>(3));
  const auto query = query_of(record);
  const wire::mad::ComponentMask<PathRecord> due(PathRecord::slid, PathRecord::dlid, PathRecord::p_key,
                                                 PathRecord::rate_selector, PathRecord::rate);
  EXPECT_EQ(query.component_mask(), due.bits());
  EXPECT_EQ(query.record(), PathRecord(record).set(PathRecord::mtu_selector, wire::mad::Selector{}));
}

}  // namespace
}  // namespace ssa_acm_service_test
}  // namespace parley::ssa_driver
