// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program that xrc_users_test.py gives more rights than its user: where does it look for the registry, and what does it start?
#include <chrono>
#include <cstdio>

#include "drivers/xrcd/place.hpp"
#include "drivers/xrcshm/segment.hpp"
#include "parley/xrc_domain.hpp"

int main(int count, char** words) {
  using namespace parley;
  std::printf("%s %s\n", xrc::default_socket().c_str(), xrc::default_segment().c_str());
  xrc::DomainOptions options;
  options.form = xrc::RegistryKind::broker;
  options.socket = count > 1 ? words[1] : "";
  if (count > 2) options.program = words[2];
  options.patience = std::chrono::milliseconds(1500);
  const auto domain = xrc::Domain::open(-1, options);
  std::printf("%s\n", domain ? "a member" : domain.error().message().c_str());
  return 0;
}
