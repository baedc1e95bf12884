// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What docs/mad.md quotes beside the examples of python-rdma's manual, run on a simulated subnet; and that it quotes this file and mad/administrate.hpp.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "drivers/mad/run.hpp"
#include "drivers/mad/where.hpp"
#include "mad/sa_view.hpp"
#include "parley/mad.h"
#include "tests/unit/capi/subnet_process.hpp"
#include "tests/unit/mad/mad_kit.hpp"
#include "wire/mad/print.hpp"

namespace parley {
namespace mad_manual_test {

using namespace mad;
using wire::mad::ClassPortInfo;
using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PortInfo;
using wire::mad::PortState;

std::string show_own_port(std::string_view where) {
  const auto opened = mad_driver::open_where(where);
  if (!opened) return opened.error();
  Transport& transport = *opened->transport;
  Port port(transport.facts(), transport.local());
  const auto info = mad_driver::run_blocking(port, transport, port.subn_get<PortInfo>(Path::to_self()));
  if (!info) return info.error().message();    // the transport is gone
  if (!*info) return info->error().message();  // there is no answer
  return wire::mad::dotted(PortInfo::layout, (*info)->octets());
}

Task<Reply<unsigned>> sm_lid_of(Port& port, Path path) {
  const Reply<PortInfo> info = co_await port.subn_get<PortInfo>(path, 1);  // of port 1
  if (!info) co_return tl::unexpected(info.error());
  co_return info->get(PortInfo::master_sm_lid);
}

constexpr std::uint16_t no_such_method = 0x0C;  // IBA §13.4.7: the attribute has no such method

Task<void> answer(Port& port) {
  while (const auto request = co_await port.next_request()) {
    const auto parsed = parse_request(request->mad);
    const std::uint16_t status = parsed ? no_such_method : parsed.error().status;
    std::optional<Datagram> reply;
    if (parsed && parsed->attribute == ClassPortInfo::attribute && parsed->method == Method::get)
      reply = reply_to(request->mad, ClassPortInfo().set(ClassPortInfo::base_version, 1).octets());
    else if (status != 0)  // 0: nothing is to be answered
      reply = error_reply(request->mad, status);
    if (reply) (void)port.post(request->from, *reply);
  }
}

struct Node {
  Path path;
  NodeInfo info;
};

Task<Reply<void>> get_info(Port& port, Node& node) {
  const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(node.path);
  if (!info) co_return tl::unexpected(info.error());
  node.info = *info;
  co_return Reply<void>();
}

Task<Reply<void>> get_infos(Port& port, std::vector<Node>& nodes) {
  Scope scope(port.executor(), {.on_error = OnError::keep, .limit = 64});
  for (Node& node : nodes) {
    if (!co_await scope.room()) break;
    scope.spawn(get_info(port, node));
  }
  co_return co_await scope.join();
}

struct Found {
  Port& port;
  Scope& scope;
  std::map<std::uint64_t, NodeInfo> guids;
};

Task<Reply<void>> get_node_info(Found& found, Path path);

Task<Reply<void>> get_port_info(Found& found, Path path, std::uint8_t number, bool follow) {
  const Reply<PortInfo> info = co_await found.port.subn_get<PortInfo>(path, number);
  if (!info) co_return tl::unexpected(info.error());
  if (!follow || info->get(PortInfo::port_state) == PortState::down) co_return Reply<void>();
  if (const auto longer = path.route->extend(number); !longer) co_return Reply<void>();  // 63 hops
  co_return co_await get_node_info(found, path);
}

Task<Reply<void>> get_node_info(Found& found, Path path) {
  const Reply<NodeInfo> info = co_await found.port.subn_get<NodeInfo>(path);
  if (!info) co_return tl::unexpected(info.error());
  if (!found.guids.emplace(info->get(NodeInfo::node_guid), *info).second) co_return Reply<void>();
  if (info->get(NodeInfo::node_type) != NodeType::switch_)
    co_return co_await get_port_info(found, path, info->get(NodeInfo::local_port_num), path.route->hops == 0);
  for (unsigned number = 1; number <= info->get(NodeInfo::num_ports); ++number)
    found.scope.spawn(get_port_info(found, path, static_cast<std::uint8_t>(number), true));
  co_return co_await get_port_info(found, path, 0, false);
}

Task<Reply<std::size_t>> count_nodes(Port& port) {
  Scope scope(port.executor(), {.on_error = OnError::keep});
  Found found{port, scope, {}};
  scope.spawn(get_node_info(found, Path::to_self()));
  const Reply<void> all = co_await scope.join();
  if (!all) co_return tl::unexpected(all.error());
  co_return found.guids.size();
}

Task<Reply<PortInfo>> own_port_as_recorded(Port& port) {
  co_return co_await sa_subn_get<PortInfo>(port, Path::to_self());
}

int show_own_port_in_c(parley_mad* port, char* text, size_t size) {
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  request.method = "SubnGet";
  request.attribute = "PortInfo";
  request.path = "0,";
  const int rc = parley_mad_call(port, &request, &reply);
  if (rc < 0) return rc; /* reply.error, or parley_last_error(), says why */
  return parley_mad_text(reply.structure, reply.records, reply.stride, NULL, text, size);
}

int sm_lid_in_c(parley_mad* port, const char* path, uint64_t* lid) {
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  request.method = "SubnGet";
  request.attribute = "PortInfo";
  request.path = path;
  request.modifier = 1;
  const int rc = parley_mad_call(port, &request, &reply);
  return rc < 0 ? rc : parley_mad_get("PortInfo", reply.records, reply.stride, "master_sm_lid", lid);
}

struct node {
  const char* path;
  uint64_t guid;
};

int get_guids_in_c(parley_mad* port, struct node* nodes, int count) {
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  int rc = 0, done = 0;
  request.method = "SubnGet";
  request.attribute = "NodeInfo";
  for (int i = 0; i < count && rc >= 0; ++i) {
    request.path = nodes[i].path;
    request.user = &nodes[i];
    rc = parley_mad_post(port, &request, NULL);
  }
  while (rc >= 0 && done < count) {
    struct pollfd wait = {parley_mad_fd(port), POLLIN, 0};
    poll(&wait, 1, -1);
    rc = parley_mad_progress(port);
    while (parley_mad_poll(port, &reply) == 1) {
      struct node* node = (struct node*)reply.user;
      if (reply.status == 0) parley_mad_get("NodeInfo", reply.records, reply.stride, "node_guid", &node->guid);
      ++done;
    }
  }
  return rc < 0 ? rc : 0;
}

int own_port_as_recorded_in_c(parley_mad* port, uint64_t* lid) {
  struct parley_mad_attr self = PARLEY_MAD_ATTR_INIT;
  struct parley_mad_request request = PARLEY_MAD_REQUEST_INIT;
  struct parley_mad_reply reply = PARLEY_MAD_REPLY_INIT;
  char by_lid[32];
  const char* set[] = {by_lid};
  parley_mad_query(port, &self);
  snprintf(by_lid, sizeof by_lid, "endport_lid=%u", self.lid);
  request.method = "SubnAdmGetTable";
  request.attribute = "PortInfoRecord";
  request.set = set;
  request.set_count = 1;
  const int rc = parley_mad_call(port, &request, &reply); /* without a path: subnet administration */
  if (rc < 0 || reply.count == 0) return rc;
  return parley_mad_get("PortInfoRecord", reply.records, reply.stride, "port_info.lid", lid);
}

int serve_in_c(parley_mad* port) {
  struct parley_mad_service service = PARLEY_MAD_SERVICE_INIT;
  service.mgmt_class = 0x2D; /* an application; Get and Set */
  return parley_mad_serve(port, &service);
}

int answer_in_c(parley_mad* port) {
  struct parley_mad_incoming request = PARLEY_MAD_INCOMING_INIT;
  int rc = parley_mad_progress(port);
  while (rc >= 0 && (rc = parley_mad_receive(port, &request)) == 1) {
    struct parley_mad_response response = PARLEY_MAD_RESPONSE_INIT;
    if (request.attribute == 0x1000) {
      response.body = "hello";
      response.body_length = 5;
    } else {
      response.status = 0x0C; /* the attribute has no such method */
    }
    if (request.answers != 0) rc = parley_mad_respond(port, request.id, &response);
  }
  return rc;
}

// ---- and that it is so ------------------------------------------------------------------------------------------

struct MadManual : testing::Test {
  template <class A>
  auto go(A task) {
    auto out = mad_driver::run_blocking(*port, *opened->transport, std::move(task));
    EXPECT_TRUE(out) << out.error().message();
    return std::move(*out);
  }
  void SetUp() override {
    opened = mad_driver::open_where(subnet.where());
    ASSERT_TRUE(opened) << opened.error();
    port.emplace(opened->transport->facts(), opened->transport->local());
    ASSERT_EQ(parley_mad_open(&in_c, subnet.where("H00002").c_str(), nullptr), 0) << parley_last_error();
  }
  void TearDown() override { EXPECT_EQ(parley_mad_close(in_c), 0); }

  sim::subnet::SubnetProcess subnet;
  mad_driver::OrText<mad_driver::Opened> opened = tl::unexpected(std::string());
  std::optional<Port> port;
  parley_mad* in_c = nullptr;
};

TEST_F(MadManual, AnOwnPortIsShown) {
  EXPECT_THAT(show_own_port(subnet.where()), testing::HasSubstr("port_state=active (4)\n"));
  EXPECT_THAT(show_own_port("ibsim:parley-nobody"), testing::HasSubstr("no ibsim runs"));
  char text[8192] = "";
  EXPECT_GT(show_own_port_in_c(in_c, text, sizeof text), 1000);
  EXPECT_THAT(text, testing::HasSubstr("port_state=active (4)\n"));
}

TEST_F(MadManual, AMemberIsRead) {
  const auto lid = go(sm_lid_of(*port, Path::to_self()));
  ASSERT_TRUE(lid) << lid.error().message();
  EXPECT_EQ(*lid, port->local().sm_lid);
  uint64_t as_in_c = 0;
  EXPECT_EQ(sm_lid_in_c(in_c, "0,", &as_in_c), 0) << parley_last_error();
  EXPECT_EQ(as_in_c, *lid);
}

TEST_F(MadManual, ManyAreAskedAtOnce) {
  std::vector<Node> nodes;
  for (std::uint16_t lid = 1; lid <= 24; ++lid) nodes.push_back({Path::by_lid(lid), {}});
  const auto all = go(get_infos(*port, nodes));
  ASSERT_TRUE(all) << all.error().message();
  std::set<std::uint64_t> guids;
  for (const Node& node : nodes) guids.insert(node.info.get(NodeInfo::node_guid));
  EXPECT_EQ(guids.size(), 24U);
  struct node as_in_c[] = {{"1", 0}, {"2", 0}, {"0,", 0}};
  EXPECT_EQ(get_guids_in_c(in_c, as_in_c, 3), 0) << parley_last_error();
  EXPECT_EQ(as_in_c[0].guid, nodes[0].info.get(NodeInfo::node_guid));
  EXPECT_EQ(as_in_c[1].guid, nodes[1].info.get(NodeInfo::node_guid));
  EXPECT_EQ(guids.count(as_in_c[2].guid), 1U);
}

TEST_F(MadManual, ASubnetIsFound) {
  const auto count = go(count_nodes(*port));
  ASSERT_TRUE(count) << count.error().message();
  EXPECT_EQ(*count, 24U);
}

TEST_F(MadManual, SubnetAdministrationIsAskedInstead) {
  const auto info = go(own_port_as_recorded(*port));
  ASSERT_TRUE(info) << info.error().message();
  EXPECT_EQ(info->get(PortInfo::lid), port->local().lid);
  parley_mad_attr self = PARLEY_MAD_ATTR_INIT;
  ASSERT_EQ(parley_mad_query(in_c, &self), 0);
  uint64_t lid = 0;
  EXPECT_EQ(own_port_as_recorded_in_c(in_c, &lid), 0) << parley_last_error();
  EXPECT_EQ(lid, self.lid);
}

TEST_F(MadManual, ACProgramAnswers) {
  ASSERT_EQ(serve_in_c(in_c), 0) << parley_last_error();
  parley_mad_attr self = PARLEY_MAD_ATTR_INIT;
  ASSERT_EQ(parley_mad_query(in_c, &self), 0);
  const auto ask = [&](std::uint16_t attribute) {
    const Rpc rpc{.mgmt_class = wire::mad::MgmtClass::application,
                  .method = Method::get,
                  .attribute = attribute,
                  .class_number = 0x2D};
    auto running = port->start(port->raw(Path::by_lid(self.lid), rpc, {}));
    while (!running.done()) {
      EXPECT_TRUE(pump(*port, *opened->transport, clock_now()));
      EXPECT_GE(answer_in_c(in_c), 0) << parley_last_error();
      if (!running.done()) mad_driver::wait_for(*opened->transport, clock_now() + std::chrono::milliseconds(1));
    }
    return running.take();
  };
  const auto hello = ask(0x1000), other = ask(0x1001);
  ASSERT_TRUE(hello) << hello.error().message();
  EXPECT_EQ(std::string(hello->mad.begin() + 24, hello->mad.begin() + 29), "hello");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().status(), no_such_method);
}

TEST(MadManualServer, AnswersOrSaysWhyNot) {
  MemoryTransport transport;
  Port port(transport.facts(), transport.local());
  port.serve();
  auto serving = port.start(answer(port));
  using wire::mad::MgmtClass;
  transport.deliver({.lid = 7}, wire::mad::request<MgmtClass::dev_mgt, Method::get>(ClassPortInfo{}));
  transport.deliver({.lid = 8}, wire::mad::request<MgmtClass::dev_mgt, Method::get>(wire::mad::IoUnitInfo{}));
  transport.now += std::chrono::milliseconds(1);
  for (int turn = 0; turn < 4; ++turn) ASSERT_TRUE(pump(port, transport, transport.now));
  ASSERT_EQ(transport.log.size(), 2U);
  EXPECT_EQ(transport.log[0].first.lid, 7);
  EXPECT_EQ(read_bits(transport.log[0].second, 32, 16), 0U);
  EXPECT_EQ(transport.log[1].first.lid, 8);
  EXPECT_EQ(read_bits(transport.log[1].second, 32, 16), no_such_method);
}

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(std::string(PARLEY_SOURCE_DIR) + "/" + file);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? "" : line.substr(first));
  }
  return out;
}

TEST(MadManualQuotes, AreWhatIsRunHere) {
  const auto page = lines_of("docs/mad.md"), others = lines_of("tests/unit/mad/administrate.hpp");
  auto code = lines_of("tests/unit/capi/mad_manual_test.cpp");
  code.insert(code.end(), others.begin(), others.end());
  int quotes = 0;
  for (auto at = page.begin(); at != page.end(); ++at) {
    if (*at != "```cpp" && *at != "```c") continue;
    const auto end = std::find(at, page.end(), "```");
    EXPECT_NE(std::search(code.begin(), code.end(), at + 1, end), code.end())
        << "docs/mad.md:" << at - page.begin() + 1 << " is in neither file";
    ++quotes;
    at = end;
    ASSERT_NE(at, page.end());
  }
  EXPECT_GE(quotes, 10);
}

}  // namespace mad_manual_test
}  // namespace parley
