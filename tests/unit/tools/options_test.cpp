// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What users type, and rping's own octets.
#include <gtest/gtest.h>

#include <sstream>
#include <variant>

#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "tools/command.hpp"
#include "tools/options.hpp"
#include "tools/report.hpp"
#include "tools/rping/rping_link.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {
namespace {

using namespace std::chrono_literals;

TEST(ToolsDuration, NeedsAUnit) {
  EXPECT_EQ(parse_duration("10s").value(), 10s);
  EXPECT_EQ(parse_duration("250ms").value(), 250ms);
  EXPECT_EQ(parse_duration("1.5s").value(), 1500ms);
  EXPECT_EQ(parse_duration("20us").value(), 20us);
  EXPECT_EQ(parse_duration("2m").value(), 2min);
  EXPECT_EQ(parse_duration("0").value(), 0s);
  for (const char* bad : {"", "10", "s", "-1s", "10 s", "10sec", "1e300s", "nan", "infs", "10s "})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(ToolsDuration, PrintsWhatItParses) {
  for (const char* text : {"10s", "250ms", "0s", "20us"}) EXPECT_EQ(duration_text(parse_duration(text).value()), text);
}

void expect_endpoint(std::string_view text, std::string_view host, std::uint16_t port) {
  const auto endpoint = parse_endpoint(text, 7175);
  ASSERT_TRUE(endpoint) << text;
  EXPECT_EQ(endpoint->host, host) << text;
  EXPECT_EQ(endpoint->port, port) << text;
}

TEST(ToolsEndpoint, TakesHostsPortsAndLiterals) {
  expect_endpoint("host", "host", 7175);
  expect_endpoint("host:80", "host", 80);
  expect_endpoint("192.0.2.1:0", "192.0.2.1", 0);
  expect_endpoint("[::1]:80", "::1", 80);
  expect_endpoint("[fe80::1%eth0]", "fe80::1%eth0", 7175);
  expect_endpoint("2001:db8::1", "2001:db8::1", 7175);
  expect_endpoint("::0", "::0", 7175);
}

TEST(ToolsEndpoint, RefusesTheRestAsUsage) {
  for (const char* bad : {"", ":80", "host:", "host:http", "host:65536", "[::1", "[::1]80", "[]:80"}) {
    const auto endpoint = parse_endpoint(bad, 7175);
    ASSERT_FALSE(endpoint) << bad;
    EXPECT_EQ(endpoint.error().exit, Exit::usage) << bad;
  }
}

TEST(ToolsPrivateData, ReadsTextHexAndLiterals) {
  EXPECT_EQ(load_private_data("hi", 512).value(), (Bytes{'h', 'i'}));
  EXPECT_EQ(load_private_data("hex:00Ff 7f:01", 512).value(), (Bytes{0x00, 0xFF, 0x7F, 0x01}));
  EXPECT_EQ(load_private_data("text:@x", 512).value(), (Bytes{'@', 'x'}));
  EXPECT_EQ(load_private_data("", 512).value(), Bytes{});
  EXPECT_EQ(load_private_data("hex:0", 512).error().exit, Exit::usage);
  EXPECT_EQ(load_private_data("@/nowhere/file", 512).error().exit, Exit::environment);
}

TEST(ToolsPrivateData, HoldsToTheLimit) {
  // RFC 5044 §7.1.1: 512 octets. RFC 6581 §9: the enhanced data takes 4 of them.
  EXPECT_TRUE(load_private_data(std::string(512, 'x'), 512));
  EXPECT_FALSE(load_private_data(std::string(513, 'x'), 512));
  MpaArgs args;
  args.private_data = std::string(509, 'x');
  args.mpa.revision = 2;
  EXPECT_EQ(settle(args).error().exit, Exit::usage);
  args.mpa.revision = 1;
  EXPECT_TRUE(settle(args));
}

TEST(ToolsSettle, TheRtrFrameMeansRevision1) {
  // OFA 2007-10 Rtr §1: the frame exists under revision 1 only.
  MpaArgs args;
  args.mpa.rtr = mpa::Rtr::frame;
  ASSERT_TRUE(settle(args));
  EXPECT_EQ(args.mpa.revision, 1);
  args.mpa.revision = 2;
  args.given = {"--revision", "--rtr"};
  EXPECT_EQ(settle(args).error().exit, Exit::usage);
  // A setting gives way to the command line, whichever of the two it is.
  args.given = {"--rtr"};
  ASSERT_TRUE(settle(args));
  EXPECT_EQ(args.mpa.revision, 1);
  EXPECT_EQ(args.mpa.rtr, mpa::Rtr::frame);
  args.mpa.revision = 2;
  args.given = {"--revision"};
  ASSERT_TRUE(settle(args));
  EXPECT_EQ(args.mpa.revision, 2);
  EXPECT_EQ(args.mpa.rtr, mpa::Rtr::none);
}

TEST(ToolsProvider, ASettingOfTheTimeForAReplyHoldsForANicToo) {
  SessionOptions session;
  session.provider = "rdmacm";
  MpaArgs args;
  EXPECT_TRUE(std::holds_alternative<std::monostate>(options_for<cm::ConnectOptions>(session, args).transport));
  args.mpa.timeouts.reply = 5s;
  args.reply_timeout_set = true;
  EXPECT_EQ(std::get<ib::Options>(options_for<cm::ConnectOptions>(session, args).transport).reply_timeout, 5s);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(options_for<cm::ListenOptions>(session, args).transport));
  session.provider = "iwarp";
  EXPECT_EQ(std::get<mpa::Options>(options_for<cm::ConnectOptions>(session, args).transport).timeouts.reply, 5s);
}

TEST(ToolsProvider, EachSideHasItsEndOfXrc) {
  const auto type = [](const cm::TransportOptions& transport) { return std::get<ib::Options>(transport).qp_type; };
  SessionOptions session;
  session.provider = "roce";
  const MpaArgs args;
  session.qp_type = "xrc";
  EXPECT_EQ(type(options_for<cm::ConnectOptions>(session, args).transport), QpType::xrc_ini);
  EXPECT_EQ(type(options_for<cm::ListenOptions>(session, args).transport), QpType::xrc_tgt);
  session.qp_type = "uc";
  EXPECT_EQ(type(options_for<cm::ConnectOptions>(session, args).transport), QpType::uc);
  EXPECT_EQ(type(options_for<cm::ListenOptions>(session, args).transport), QpType::uc);
}

TEST(ToolsExit, TellsTheSystemFromThePeer) {
  const auto exit_of = [](Errc code, const cm::Step& step) {
    cm::Failure failure;
    failure.code = code;
    failure.step = step;
    return exit_for(failure);
  };
  EXPECT_EQ(exit_of(Errc::address_in_use, mpa::step::tcp_connect), Exit::environment);
  EXPECT_EQ(exit_of(Errc::unreachable, mpa::step::tcp_connect), Exit::environment);
  EXPECT_EQ(exit_of(Errc::timed_out, mpa::step::tcp_connect), Exit::environment);
  EXPECT_EQ(exit_of(Errc::bad_address, cm::step::resolve), Exit::environment);
  EXPECT_EQ(exit_of(Errc::timed_out, mpa::step::wait_reply), Exit::failed);
  EXPECT_EQ(exit_of(Errc::refused, mpa::step::tcp_connect), Exit::failed);
  EXPECT_EQ(exit_of(Errc::rejected, mpa::step::wait_reply), Exit::failed);
}

TEST(ToolsRping, AdvertisementIsSixteenOctetsBigEndian) {
  Bytes octets(RpingInfo::wire_size);
  RpingInfo{0x0102030405060708, 0x090A0B0C, 0x0D0E0F10}.emit(octets);
  EXPECT_EQ(octets, (Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
  const RpingInfo back = RpingInfo::parse(octets);
  EXPECT_EQ(back.to, 0x0102030405060708U);
  EXPECT_EQ(back.stag, 0x090A0B0CU);
  EXPECT_EQ(back.size, 0x0D0E0F10U);
}

std::string ping(std::uint32_t number, std::size_t size) {
  Bytes octets(size);
  rping_fill(octets, number);
  EXPECT_EQ(octets.back(), 0);
  return rping_text(octets);
}

TEST(ToolsRping, DataIsThatOfRping) {
  EXPECT_EQ(ping(0, 20), "rdma-ping-0: ABCDEF");
  EXPECT_EQ(ping(1, 20), "rdma-ping-1: BCDEFG");
  EXPECT_EQ(ping(57, 20), "rdma-ping-57: zABCD");
  EXPECT_EQ(ping(58, 20), "rdma-ping-58: ABCDE");
  EXPECT_EQ(ping(0, 5), "rdma");
  EXPECT_EQ(ping(0, 1), "");
}

TEST(ToolsRping, FindsTheFirstWrongOctet) {
  Bytes octets(100);
  rping_fill(octets, 7);
  EXPECT_FALSE(rping_difference(octets, 7));
  octets[40] ^= 1;
  octets[60] ^= 1;
  EXPECT_EQ(rping_difference(octets, 7), 40U);
}

TEST(ToolsRping, SaysWhatRevision1Lacks) {
  mpa::Parameters parameters;
  parameters.depths_negotiated = true;
  EXPECT_EQ(rping_depth_text(parameters), "");
  parameters.depths_negotiated = false;
  EXPECT_NE(rping_depth_text(parameters).find("IRD and ORD were not negotiated (MPA revision 1"), std::string::npos);
  parameters.revision = 2;
  EXPECT_NE(rping_depth_text(parameters).find("left them to the ULP"), std::string::npos);
}

int run(std::initializer_list<const char*> words, std::string* out = nullptr, std::string* err = nullptr) {
  std::vector<const char*> argv{"parley"};
  argv.insert(argv.end(), words);
  std::ostringstream to_out, to_err;
  const int code = run_command_line(static_cast<int>(argv.size()), argv.data(), to_out, to_err);
  if (out != nullptr) *out = to_out.str();
  if (err != nullptr) *err = to_err.str();
  return code;
}

// RFC 6581 §9.2: an agreed Send is consumed below the program, so the program's first empty message is a message.
TEST(ToolsOptions, ASendAsRtrTakesAReceiveOnlyWhereItWasNotAgreed) {
  mpa::Parameters p;
  p.rtr = mpa::Rtr::send;
  EXPECT_TRUE(send_rtr_takes_receive(p, {}));  // in place of another form
  EXPECT_FALSE(send_rtr_takes_receive(p, {.rtr_expected = mpa::Rtr::send}));
  p.answered = mpa::RtrSet::of(mpa::Rtr::send);
  EXPECT_FALSE(send_rtr_takes_receive(p, {}));
  p.answered = {};
  p.announced = true;
  EXPECT_FALSE(send_rtr_takes_receive(p, {}));
  p.rtr = mpa::Rtr::write;
  p.announced = false;
  EXPECT_FALSE(send_rtr_takes_receive(p, {}));
}

TEST(ToolsCommand, RunsInProcess) {
  std::string out, err;
  EXPECT_EQ(run({"--version"}, &out), 0);
  EXPECT_EQ(out.substr(0, 7), "parley ");
  EXPECT_EQ(run({}, &out, &err), 2);
  EXPECT_NE(err.find("rping"), std::string::npos);
  EXPECT_EQ(run({"quirks", "siw", "--json"}, &out), 0);
  EXPECT_EQ(nlohmann::json::parse(out).at("name"), "siw");
  EXPECT_EQ(run({"quirks", "--nonsense"}, &out, &err), 2);
  EXPECT_NE(err.find("try 'parley quirks --help'"), std::string::npos);
}

TEST(ToolsCommand, NamesAWordThatIsNoCommandAndThoseThatAre) {
  std::string err;
  EXPECT_EQ(run({"nope"}, nullptr, &err), 2);
  EXPECT_EQ(err.find("parley: no command 'nope'; there are: listen, connect, rping,"), 0U) << err;
  EXPECT_EQ(run({"sim", "nope"}, nullptr, &err), 2);
  EXPECT_EQ(err.find("parley sim: no command 'nope'; there are: run,"), 0U) << err;
  EXPECT_EQ(run({"rping", "-s", "nope"}, nullptr, &err), 2);
  EXPECT_EQ(err.find("there are"), std::string::npos) << err;
  EXPECT_EQ(run({"conform"}, nullptr, &err), 2);
  EXPECT_NE(err.find("A subcommand is required"), std::string::npos) << err;
}

}  // namespace
}  // namespace parley::tools
