// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The open files of /dev/infiniband/rdma_cm, on sockets: a server and a client in one process.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "preload/ucma/device_number.hpp"
#include "preload/ucma/files.hpp"
#include "preload/ucma/id.hpp"
#include "preload/ucma/sockaddrs.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/preload/ends.hpp"

namespace parley::preload_test {
namespace {

using namespace preload::ucma;  // NOLINT: the tests are about nothing else

class UcmaFiles : public testing::Test {
 protected:
  void SetUp() override { ::setenv("PARLEY_VERBS_ADDRESS", own_address().c_str(), 1); }

  template <class T>
  static bool write(int fd, std::uint32_t command, const T& body, std::size_t room = 0) {
    std::array<std::uint8_t, sizeof(rdma_ucm_cmd_hdr) + sizeof(T)> octets;
    const rdma_ucm_cmd_hdr header{.cmd = command, .in = sizeof(T), .out = static_cast<std::uint16_t>(room)};
    std::memcpy(octets.data(), &header, sizeof header);
    std::memcpy(octets.data() + sizeof header, &body, sizeof body);
    return Files::get().write(fd, octets.data(), octets.size()) == static_cast<ssize_t>(octets.size());
  }
  static std::uint32_t create(int fd, std::uint64_t uid) {
    rdma_ucm_create_id_resp out{};
    rdma_ucm_create_id asked{};
    asked.uid = uid;
    asked.response = reinterpret_cast<std::uintptr_t>(&out);
    asked.ps = RDMA_PS_TCP;
    EXPECT_TRUE(write(fd, RDMA_USER_CM_CMD_CREATE_ID, asked, sizeof out)) << std::strerror(errno);
    return out.id;
  }
  static bool get(int fd, rdma_ucm_event_resp& out) {
    return write(fd, RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{.response = reinterpret_cast<std::uintptr_t>(&out)},
                 sizeof out);
  }
  /// Waits for it.
  static std::uint32_t expect(int fd, What what) {
    rdma_ucm_event_resp out{};
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&ready, 1, hang_milliseconds), 1);
    EXPECT_TRUE(get(fd, out)) << std::strerror(errno);
    EXPECT_EQ(out.event, static_cast<std::uint32_t>(what));
    return out.id;
  }
  static bool readable(int fd) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 0) == 1;
  }
};

TEST_F(UcmaFiles, AServerAndAClientOfOneProcessConnect) {
  Files& files = Files::get();
  const int server = files.open(O_CLOEXEC), client = files.open(O_CLOEXEC);
  ASSERT_TRUE(server >= 0 && client >= 0) << std::strerror(errno);
  const std::uint32_t listening = create(server, 1), active = create(client, 2);
  rdma_ucm_bind_ip bind{};
  bind.id = listening;
  const auto own = Address::parse(own_address() + ":7471");
  put_sockaddr(*own, MutBytes(reinterpret_cast<std::uint8_t*>(&bind.addr), sizeof bind.addr));
  ASSERT_TRUE(write(server, RDMA_USER_CM_CMD_BIND_IP, bind));
  ASSERT_TRUE(write(server, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = listening, .backlog = 4}));
  rdma_ucm_resolve_ip resolve{};
  resolve.id = active;
  std::memcpy(&resolve.dst_addr, &bind.addr, sizeof bind.addr);
  ASSERT_TRUE(write(client, RDMA_USER_CM_CMD_RESOLVE_IP, resolve));
  EXPECT_TRUE(readable(client));
  expect(client, What::addr_resolved);
  EXPECT_FALSE(readable(client));
  ASSERT_TRUE(write(client, RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{.id = active, .timeout_ms = 1}));
  expect(client, What::route_resolved);
  rdma_ucm_connect connect{};
  connect.id = active;
  connect.conn_param.qp_num = 0x77;
  connect.conn_param.valid = 1;
  ASSERT_TRUE(write(client, RDMA_USER_CM_CMD_CONNECT, connect));
  rdma_ucm_accept accept{};
  accept.id = expect(server, What::connect_request);
  accept.uid = 3;
  accept.conn_param.qp_num = 0x88;
  accept.conn_param.valid = 1;
  ASSERT_TRUE(write(server, RDMA_USER_CM_CMD_ACCEPT, accept));
  expect(client, What::connect_response);
  rdma_ucm_accept ready{};
  ready.id = active;
  ASSERT_TRUE(write(client, RDMA_USER_CM_CMD_ACCEPT, ready));
  expect(server, What::established);
  EXPECT_EQ(files.close(client), 0);
  expect(server, What::disconnected);
  EXPECT_EQ(files.close(server), 0);
}

TEST_F(UcmaFiles, WhatADescriptorIsAfterItsClose) {
  Files& files = Files::get();
  const int fd = files.open(O_NONBLOCK);
  ASSERT_GE(fd, 0);
  EXPECT_TRUE(files.owns(fd));
  EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  EXPECT_EQ(::fcntl(fd, F_GETFD), 0);
  rdma_ucm_event_resp out{};
  EXPECT_FALSE(get(fd, out));
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(files.close(fd), 0);
  EXPECT_FALSE(files.owns(fd));
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  EXPECT_FALSE(get(fd, out));
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(files.close(fd), -1);
  EXPECT_FALSE(files.owns(-1) || files.owns(Files::descriptors_max));
}

TEST_F(UcmaFiles, ADescriptorThatIsClosedInAnotherWayIsNoFileAnyMore) {
  Files& files = Files::get();
  const int fd = files.open(O_NONBLOCK);
  ASSERT_GE(fd, 0);
  const std::uint32_t old = create(fd, 1);
  const int other = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::dup2(other, fd), fd);
  EXPECT_FALSE(files.owns(fd));
  EXPECT_EQ(files.close(fd), -1) << "it is not a file of rdma_cm";
  EXPECT_EQ(errno, EBADF);
  ::close(fd);
  ::close(other);

  const int again = files.open(O_NONBLOCK);
  ASSERT_GE(again, 0);
  EXPECT_TRUE(files.owns(again));
  rdma_ucm_destroy_id_resp out{};
  EXPECT_FALSE(write(again, RDMA_USER_CM_CMD_DESTROY_ID,
                     rdma_ucm_destroy_id{.response = reinterpret_cast<std::uintptr_t>(&out), .id = old, .reserved = 0},
                     sizeof out))
      << "an id of the one before";
  EXPECT_EQ(files.close(again), 0);
}

TEST_F(UcmaFiles, ANumberThatIsUsedAgainBeforeAnybodyLooksIsTheNewFiles) {
  Files& files = Files::get();
  const int fd = files.open(O_NONBLOCK);
  ASSERT_GE(fd, 0);
  create(fd, 1);
  ASSERT_EQ(::close(fd), 0) << "the C library's own here: as close_range() does, without a word to this library";
  const int again = files.open(O_NONBLOCK);
  ASSERT_EQ(again, fd);
  EXPECT_TRUE(files.owns(again));
  EXPECT_NE(create(again, 2), 0U);
  EXPECT_FALSE(readable(again));
  EXPECT_EQ(files.close(again), 0);
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST_F(UcmaFiles, ThreadsThatCloseInAnotherWayDoNotCloseEachOthersFiles) {
  constexpr int threads_many = 4, files_each = 300;
  Files& files = Files::get();
  std::atomic<int> wrong{0}, highest{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < threads_many; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < files_each; ++n) {
        const int fd = files.open(O_NONBLOCK);
        if (fd < 0 || create(fd, 1) == 0 || create(fd, 2) == 0) ++wrong;
        for (int most = highest; fd > most && !highest.compare_exchange_weak(most, fd);) {
        }
        (void)::close(fd);  // as close_range() does
        (void)files.owns(fd);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  for (int fd = 0; fd <= highest; ++fd) EXPECT_FALSE(files.owns(fd));
  EXPECT_EQ(files.close(files.open(O_NONBLOCK)), 0);  // also closes the lost ones
}

TEST_F(UcmaFiles, AChildOfVforkClosesOnlyItsOwnDescriptor) {
  Files& files = Files::get();
  const int fd = files.open(O_NONBLOCK);
  ASSERT_GE(fd, 0);
  const std::uint32_t id = create(fd, 1);
  const pid_t child = ::vfork();  // NOLINT: its danger is what is tested
  if (child == 0) ::_exit(files.close(fd) == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(files.owns(fd));
  rdma_ucm_destroy_id_resp out{};
  EXPECT_TRUE(write(fd, RDMA_USER_CM_CMD_DESTROY_ID,
                    rdma_ucm_destroy_id{.response = reinterpret_cast<std::uintptr_t>(&out), .id = id, .reserved = 0},
                    sizeof out));
  EXPECT_EQ(files.close(fd), 0);
}

TEST(UcmaDevice, HasTheKernelsNumber) {
  std::string name = "/tmp/parley-misc-test-XXXXXX";
  const int file = ::mkstemp(name.data());
  ASSERT_GE(file, 0);
  const std::string text = " 61 \n234 btrfs-control\n  7 rdma_cm_x\n122 rdma_cm\n";
  ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(device_number(name.c_str()), ::makedev(10, 122));
  ASSERT_EQ(::ftruncate(file, 20), 0);
  EXPECT_NE(device_number(name.c_str()), 0U) << "without rdma_cm in the kernel, any number";
  EXPECT_NE(device_number("/nonexistent"), 0U);
  ::close(file);
  ::unlink(name.c_str());
}

TEST_F(UcmaFiles, PointersThatPointNowhereAreRefused) {
  const int fd = Files::get().open(O_NONBLOCK);
  ASSERT_GE(fd, 0);
  const std::uint32_t id = create(fd, 1);
  for (const std::uint64_t nowhere : {std::uint64_t{0}, std::uint64_t{8}, ~std::uint64_t{0} - 7}) {
    rdma_ucm_create_id asked{};
    asked.response = nowhere;
    asked.ps = RDMA_PS_TCP;
    EXPECT_FALSE(write(fd, RDMA_USER_CM_CMD_CREATE_ID, asked, sizeof(rdma_ucm_create_id_resp)));
    EXPECT_EQ(errno, EFAULT) << nowhere;
    EXPECT_FALSE(
        write(fd, RDMA_USER_CM_CMD_SET_OPTION,
              rdma_ucm_set_option{
                  .optval = nowhere, .id = id, .level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_TOS, .optlen = 1}));
    EXPECT_EQ(errno, EFAULT) << nowhere;
  }
  EXPECT_EQ(Files::get().close(fd), 0);
}

TEST_F(UcmaFiles, AnAddressThatIsNotThisMachines) {
  ::setenv("PARLEY_VERBS_ADDRESS", "192.0.2.77", 1);
  EXPECT_EQ(Files::get().open(0), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

}  // namespace
}  // namespace parley::preload_test
