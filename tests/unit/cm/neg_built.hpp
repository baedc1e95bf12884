// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two sides with Parley's own variants, over the in-memory network and queue pairs in memory.
#pragma once
#include "tests/unit/cm/neg_fabric.hpp"

namespace parley::neg::kit {

inline const Address fabric_server = Address::v4(192, 0, 2, 2, 4800);

/// A client and a server with Parley's own variants, on one fabric.
struct Built {
  explicit Built(bool with_driver = true) {
    for (Framework* f : {&client_framework, &server_framework})
      EXPECT_TRUE(f->add(make_builtin_plugin(with_driver ? fabric.drivers() : QpDrivers{})));
    net.add(client, Address::v4(192, 0, 2, 1, 0));
    net.add(server, Address::v4(192, 0, 2, 2, 0));
  }
  /// Null where the listener or the dial was refused, whose words are in `refused`.
  Peers::Ended* run(const std::string& variant, const Config& client_config = {}, const Config& server_config = {}) {
    if (auto listening =
            server.listen(fabric_server, {{.plugin = "parley", .variant = variant, .config = server_config}});
        !listening) {
      refused = listening.error().to_string();
      return nullptr;
    }
    const auto id = client.dial(
        net.now,
        {.request = {.plugin = "parley", .variant = variant}, .config = client_config, .server = fabric_server});
    if (!id) {
      refused = id.error().to_string();
      return nullptr;
    }
    net.settle();
    while (auto event = client.poll_event())
      if (auto* over = std::get_if<Peers::Ended>(&*event)) mine = std::move(*over);
    while (auto event = server.poll_event())
      if (auto* over = std::get_if<Peers::Ended>(&*event)) theirs = std::move(*over);
    return &mine;
  }
  std::string end() const { return mine.failure ? mine.failure->to_string() : "completed"; }
  Fabric fabric;
  Framework client_framework, server_framework;
  Net net;
  Peers client{client_framework, {}}, server{server_framework, {}};
  Peers::Ended mine, theirs;
  std::string refused;
};

}  // namespace parley::neg::kit
