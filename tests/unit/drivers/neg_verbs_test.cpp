// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "verbs" of negotiated queue pairs, as far as it goes without a device; tests/interop/nics has the rest.
#include <gtest/gtest.h>

#if PARLEY_HAVE_RDMA
#include <fmt/format.h>

#include <string>

#include "parley/neg_verbs.hpp"

namespace parley::neg {
namespace {

/// The text and the advice of the refusal.
std::string refusal_of(Transport transport, const Config& config) {
  const auto made = verbs_drivers().make(transport, config);
  if (made) return "made";
  EXPECT_EQ(made.error().problem, Problem::configuration_error);
  return fmt::format("{}; {}", made.error().text, made.error().advice);
}

TEST(NegVerbs, WhatCannotBeIsRefusedBeforeADeviceIsLookedFor) {
  EXPECT_EQ(
      refusal_of(Transport::xrc, {}),
      "XRC is not used on real devices in this version; use verbs-rc, or driver=manual with a queue pair of yours");
  for (const Transport transport : {Transport::rc, Transport::uc, Transport::ud}) {
    EXPECT_EQ(refusal_of(transport, {{"length", "1073741825"}}), "'length': more than 1073741824 octets; ");
    EXPECT_EQ(refusal_of(transport, {{"length", "1073741824"}, {"toward", "nowhere"}}),
              "'toward': 'nowhere' cannot be; write the peer's IPv4 or IPv6 address");
    EXPECT_EQ(refusal_of(transport, {{"toward", std::string(61, 'x')}}),
              fmt::format("'toward': '{}' cannot be; write the peer's IPv4 or IPv6 address", std::string(60, 'x')));
    EXPECT_EQ(refusal_of(transport, {{"gid", "no GID"}}),
              "'gid': 'no GID' cannot be; write an IPv6 or IPv4 address, without scope and port");
  }
}

TEST(NegVerbs, ADeviceThatIsNotThereIsNamedOrWhyThereIsNone) {
  for (const Config& config : {Config{{"device", "nobody0"}}, Config{{"device", "nobody0"}, {"port", "1"}},
                               Config{{"device", "nobody0"}, {"toward", "127.0.0.1"}, {"length", "1073741824"}}}) {
    const std::string told = refusal_of(Transport::rc, config);
    EXPECT_NE(told.find("driver=manual"), std::string::npos) << told;
  }
}

TEST(NegVerbs, ItsParametersAreThoseOfTheManual) {
  const QpDrivers drivers = verbs_drivers();
  EXPECT_EQ(drivers.name, "verbs");
  std::string all;
  for (const Parameter& p : drivers.parameters) {
    EXPECT_FALSE(p.required) << p.name;
    all += fmt::format("{}: {} [{}]", p.name, p.help, p.otherwise);
    if (p.kind == Parameter::Kind::number) all += fmt::format(" {} to {}", p.least, p.most);
    all += "\n";
  }
  EXPECT_EQ(all,
            "device: verbs: RDMA device; otherwise the one with the best GID []\n"
            "port: verbs: its port; 0: any [0] 0 to 255\n"
            "gid_index: verbs: index of the GID; otherwise the best [] 0 to 255\n"
            "toward: verbs: the IP address to choose the GID for; otherwise the peer's []\n"
            "psn: first packet sequence number; of verbs 0: a random one [0] 0 to 16777215\n"
            "qkey: Q_Key, of UD; of verbs 0: 0x11111111 [0] 0 to 4294967295\n"
            "length: length of memory; verbs: so much is registered and advertised to the peer [0] 0 to "
            "18446744073709551615\n");
}

}  // namespace
}  // namespace parley::neg
#endif
