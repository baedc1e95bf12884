// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams through the C library over RoCE, between two addresses of this machine.
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/mad/roce.hpp"
#include "drivers/mad/run.hpp"
#include "mad/serve.hpp"
#include "parley/mad.h"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t vendor_class = 0x35, oui = 0x001405;

/// The request's data again, for ever.
mad::Task<> answer(mad::Port& port) {
  while (const std::optional<mad::Incoming> request = co_await port.next_request())
    (void)port.post(request->from, *mad::reply_to(request->mad, mad::parse_request(request->mad)->body_view));
}

/// A process that answers at an address, and ends with the test.
class Server {
 public:
  explicit Server(const Address& at) {
    int ready[2];
    if (::pipe(ready) != 0) return;
    process_ = ::fork();
    if (process_ == 0) serve(at, ready[1]);
    ::close(ready[1]);
    char octet = 0;
    serves_ = ::read(ready[0], &octet, 1) == 1;
    ::close(ready[0]);
  }
  ~Server() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  bool serves() const { return serves_; }

 private:
  [[noreturn]] static void serve(const Address& at, int ready) {
    const auto transport = mad_driver::RoceTransport::open({.local = at});
    if (!transport || ::write(ready, "", 1) != 1) ::_exit(1);
    mad::Port port((*transport)->facts(), (*transport)->local());
    port.serve();
    (void)mad_driver::run_blocking(port, **transport, answer(port));
    ::_exit(1);
  }

  pid_t process_ = -1;
  bool serves_ = false;
};

std::string host_of(const Address& address) {
  const std::string text = address.to_string();
  return text.substr(0, text.rfind(':'));
}

TEST(MadInCOverRoce, AsksByQp1AndByAQueuePair) {
  const Address at = own_address(5, 0), from = own_address(6, 0);
  const Server server(at);
  ASSERT_TRUE(server.serves());
  for (const char* queue_pair : {"", "/qp"}) {
    parley_mad* port = nullptr;
    ASSERT_EQ(parley_mad_open(&port, ("roce:" + host_of(from) + queue_pair).c_str(), nullptr), 0)
        << parley_last_error();
    const std::string words = "through one or the other", path = "::ffff:" + host_of(at);
    parley_mad_request ask = PARLEY_MAD_REQUEST_INIT;
    ask.mgmt_class = vendor_class;
    ask.oui = oui;
    ask.method_number = 1;
    ask.attribute_number = 0x10;
    ask.path = path.c_str();
    ask.body = words.data();
    ask.body_length = static_cast<std::uint32_t>(words.size());
    parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
    EXPECT_EQ(parley_mad_call(port, &ask, &reply), 0) << parley_last_error();
    ASSERT_NE(reply.records, nullptr);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(reply.records), words.size()), words);
    std::uint64_t id = 0;
    ASSERT_EQ(parley_mad_post(port, &ask, &id), 0) << parley_last_error();
    pollfd wait{parley_mad_fd(port), POLLIN, 0};
    int got = 0;
    while ((got = parley_mad_poll(port, &reply)) == 0 && ::poll(&wait, 1, hang_milliseconds) > 0)
      (void)parley_mad_progress(port);
    EXPECT_EQ(got, 1) << parley_last_error();
    EXPECT_EQ(reply.status, 0);
    EXPECT_EQ(reply.id, id);
    ask.path = "5";
    EXPECT_EQ(parley_mad_call(port, &ask, &reply), -PARLEY_E_INVALID_ARGUMENT);
    EXPECT_THAT(parley_last_error(), HasSubstr("RoCE has no LIDs"));
    ask = PARLEY_MAD_REQUEST_INIT;
    ask.method = "SubnAdmGet";
    ask.attribute = "ClassPortInfo";
    EXPECT_EQ(parley_mad_call(port, &ask, &reply), -PARLEY_E_WRONG_STATE);
    EXPECT_EQ(parley_mad_close(port), 0);
  }
}

TEST(MadInCOverRoce, SaysWhyThereIsNothing) {
  parley_mad* none = nullptr;
  EXPECT_EQ(parley_mad_open(&none, "roce:", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("'roce:' has no address: roce:ADDRESS[/qp]"));
  EXPECT_EQ(parley_mad_open(&none, "roce:127.0.0.1/qp1", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("'qp1' is not 'qp': roce:ADDRESS[/qp]"));
  EXPECT_EQ(parley_mad_open(&none, "verbs:rxe0/256", nullptr), -PARLEY_E_INVALID_ARGUMENT);
  EXPECT_THAT(parley_last_error(), HasSubstr("'256' is not a GID index"));
  EXPECT_EQ(parley_mad_open(&none, "roce:nobody.invalid", nullptr), -PARLEY_E_UNREACHABLE);
  EXPECT_THAT(parley_last_error(), HasSubstr("cannot resolve 'nobody.invalid'"));
  EXPECT_EQ(parley_mad_open(&none, "verbs:parley-nobody", nullptr), -PARLEY_E_UNREACHABLE);
  const Address at = own_address(7, 0);
  const auto taken = mad_driver::RoceTransport::open({.local = at});
  ASSERT_TRUE(taken) << taken.error();
  EXPECT_EQ(parley_mad_open(&none, ("roce:" + host_of(at)).c_str(), nullptr), -PARLEY_E_UNREACHABLE);
  EXPECT_THAT(parley_last_error(), HasSubstr("another process has UDP port 4791 of this address"));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace parley
