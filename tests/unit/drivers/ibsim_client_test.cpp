// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Attaching to a node of ibsim's subnet: which node a client gets, what it sends to the server, and the error if the server is absent,
// refuses, does not answer, or answers with something else.
#include "drivers/ibsim/client.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <future>

#include "tests/unit/drivers/ibsim_server.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::ibsim::ibsim_client_test {
namespace {

using namespace std::chrono_literals;
using Answers = TestServer::Answers;

std::string own_name() { return "parley-ibsim-client-test-" + std::to_string(::getpid()); }

/// Why there is none; the options' name is this test's unless they have one.
std::string refusal(ClientOptions options) {
  const auto client = Client::open(options);
  return client ? "none" : client.error();
}
std::unique_ptr<Client> attached(ClientOptions options = {}) {
  options.name = own_name();
  options.patience = hang_limit;
  auto client = Client::open(options);
  EXPECT_TRUE(client) << client.error();
  return client ? std::move(*client) : nullptr;
}

TEST(IbsimClient, NamesAreBounded) {
  EXPECT_NE(refusal({.name = ""}).find("not 0"), std::string::npos);
  EXPECT_NE(refusal({.name = std::string(81, 'n')}).find("not 81"), std::string::npos);
  EXPECT_NE(refusal({.name = own_name(), .node = std::string(32, 'n')}).find("31 octets"), std::string::npos);
  // As long as they may be: what is wrong is that there is no server.
  EXPECT_NE(refusal({.name = std::string(80, 'n')}).find("no ibsim runs"), std::string::npos);
  EXPECT_NE(refusal({.name = own_name(), .node = std::string(31, 'n')}).find("no ibsim runs"), std::string::npos);
}

TEST(IbsimClient, TheEnvironmentSaysWhere) {
  ::setenv("SIM_HOST", "H5", 1);
  ::setenv("IBSIM_SOCKNAME", "other", 1);
  const ClientOptions said = environment_options();
  ::unsetenv("SIM_HOST");
  ::setenv("IBSIM_SOCKNAME", "", 1);
  const ClientOptions unsaid = environment_options();
  ::unsetenv("IBSIM_SOCKNAME");
  EXPECT_EQ(said.node, "H5");
  EXPECT_EQ(said.name, "other");
  EXPECT_EQ(unsaid.node, "");
  EXPECT_EQ(unsaid.name, "sim");
}

TEST(IbsimClient, HasAPlaceAndGivesItBack) {
  TestServer server(own_name());
  server.put(ControlType::gid, {7, 8});
  const auto first = attached();
  EXPECT_EQ(first->id(), 1U);
  EXPECT_EQ(first->node(), "first");
  EXPECT_EQ(first->name(), own_name());
  EXPECT_GE(first->server(), 0);
  {
    const auto second = attached({.node = "H00007", .is_sm = true});
    EXPECT_EQ(second->id(), 2U);
    EXPECT_EQ(second->node(), "H00007");
    EXPECT_EQ(second->ask(ControlType::gid), (ControlData{7, 8}));
    const auto refused = second->ask(ControlType::vendor);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().find("refused the request"), std::string::npos);
  }
  const auto clients = server.clients();
  ASSERT_EQ(clients.size(), 2U);
  EXPECT_EQ(text_in(clients[0].node), "");
  EXPECT_EQ(clients[0].is_sm, 0U);
  EXPECT_EQ(text_in(clients[1].node), "H00007");
  EXPECT_EQ(clients[1].is_sm, 1U);
  EXPECT_NE(clients[0].id, clients[1].id);
  EXPECT_EQ(server.asked(), (std::vector{ControlType::connect, ControlType::connect, ControlType::gid,
                                         ControlType::vendor, ControlType::disconnect}));
}

TEST(IbsimClient, AProcessHas64Places) {
  TestServer server(own_name());
  std::vector<std::unique_ptr<Client>> all;
  for (int i = 0; i < 64; ++i) all.push_back(attached());
  EXPECT_NE(refusal({.name = own_name()}).find("64"), std::string::npos);
  all.pop_back();
  EXPECT_TRUE(attached());
}

TEST(IbsimClient, WhoIsRefusedIsToldWhatForAndSaysNoGoodBye) {
  TestServer server(own_name());
  server.refuse_clients();
  const std::string plain = refusal({.name = own_name(), .patience = hang_limit});
  EXPECT_NE(plain.find("its first node"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("subnet manager"), std::string::npos);
  const std::string manager = refusal({.name = own_name(), .node = "H3", .is_sm = true, .patience = hang_limit});
  EXPECT_NE(manager.find("'H3'"), std::string::npos) << manager;
  EXPECT_NE(manager.find("subnet manager"), std::string::npos);
  EXPECT_EQ(server.asked(), (std::vector{ControlType::connect, ControlType::connect}));
}

TEST(IbsimClient, AServerThatSaysNothingOrSomethingElse) {
  TestServer server(own_name());
  server.put(ControlType::gid, {7});
  const auto client = attached();
  const auto says = [&](Answers how, Duration patience) {
    server.set_answers(how);
    const auto answer = client->ask(ControlType::gid, {}, patience);
    server.set_answers(Answers::right);
    return answer ? std::to_string((*answer)[0]) : answer.error();
  };
  EXPECT_NE(says(Answers::none, 20ms).find("does not answer"), std::string::npos);
  EXPECT_NE(says(Answers::short_, hang_limit).find("sent an invalid answer"), std::string::npos);
  EXPECT_NE(says(Answers::foreign, hang_limit).find("sent an invalid answer"), std::string::npos);
  EXPECT_EQ(says(Answers::behind_a_late_one, hang_limit), "7");
  EXPECT_EQ(says(Answers::right, hang_limit), "7");
  server.set_answers(Answers::none);
  const std::string silent = refusal({.name = own_name(), .patience = 20ms});
  EXPECT_NE(silent.find("20 ms"), std::string::npos) << silent;
  server.set_answers(Answers::right);  // to the client's good-bye
}

TEST(IbsimClient, AnswersThatComeTooLateArePassedOver) {
  TestServer server(own_name());
  server.put(ControlType::gid, {7});
  server.put(ControlType::port, {8});
  const auto client = attached();
  (void)client->ask(ControlType::gid, {},
                    Duration{});  // what is answered, if anything, has most likely no reader any more
  while (server.asked().size() < 2) std::this_thread::yield();
  EXPECT_EQ(client->ask(ControlType::port), (ControlData{8}));
}

TEST(IbsimClient, MadsGoBothWays) {
  TestServer server(own_name());
  const auto client = attached();
  Data out{}, in{};
  out.dlid = {0, 7};
  out.mad[0] = 1;
  out.mad[255] = 0xEE;
  EXPECT_FALSE(client->receive(in)) << "there is none";
  ASSERT_TRUE(client->send(out));
  pollfd wait{client->fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
  ASSERT_TRUE(client->receive(in));
  EXPECT_EQ(in.slid, out.dlid);
  EXPECT_EQ(in.mad, out.mad);
  EXPECT_FALSE(client->receive(in));
}

TEST(IbsimClient, WaitsForAServerThatIsToCome) {
  auto opened = std::async(std::launch::async, [] {
    return Client::open({.name = own_name(), .patience = hang_limit, .server_wait = hang_limit});
  });
  const asio_driver::Descriptor eye(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  while (!connect_to(eye.fd, client_data_name(own_name(), static_cast<std::uint32_t>(::getpid()))))
    std::this_thread::yield();
  TestServer server(own_name());
  const auto client = opened.get();
  ASSERT_TRUE(client) << client.error();
  EXPECT_EQ((*client)->id(), 1U);
}

}  // namespace
}  // namespace parley::ibsim::ibsim_client_test
