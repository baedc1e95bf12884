// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrcd`: the XRC broker.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "drivers/open_files.hpp"
#include "drivers/secure_env.hpp"
#include "drivers/xrcd/broker.hpp"
#include "tools/rping/session.hpp"
#include "tools/xrc/xrc.hpp"

namespace parley::tools {
namespace {

struct BrokerArgs {
  xrc::BrokerOptions broker{};
};

/// The socket that systemd passes (sd_listen_fds(3)), and its path.
std::optional<std::pair<int, std::string>> inherited_socket() {
  const char* const pid = secure_env("LISTEN_PID");
  const char* const count = secure_env("LISTEN_FDS");
  if (pid == nullptr || count == nullptr || std::to_string(::getpid()) != pid || std::strcmp(count, "1") != 0)
    return std::nullopt;
  constexpr int first = 3;
  sockaddr_un address{};
  socklen_t length = sizeof(address);
  int type = 0;
  socklen_t type_length = sizeof(type);
  if (::getsockname(first, reinterpret_cast<sockaddr*>(&address), &length) != 0 || address.sun_family != AF_UNIX ||
      ::getsockopt(first, SOL_SOCKET, SO_TYPE, &type, &type_length) != 0 || type != SOCK_SEQPACKET)
    return std::nullopt;
  return std::pair(first, std::string(address.sun_path));
}

int run_xrcd(BrokerArgs& args, Output& out) {
  const StopSignals stop;
  if (const auto inherited = inherited_socket()) {
    args.broker.listening = inherited->first;
    args.broker.socket = inherited->second;
  }
  raise_open_files();  // each connection uses two
  auto broker = xrc::Broker::open(args.broker);
  if (!broker) {
    if (broker.error() == make_error_code(xrc::Refusal::busy))
      return out.error(Exit::environment, "another broker has this socket");
    return xrc_refused(out, broker.error(), {.form = xrc::RegistryKind::broker, .socket = args.broker.socket});
  }
  out.text(fmt::format("listening on {}, epoch {}", (*broker)->socket(), (*broker)->epoch()));
  out.object({{"event", "listening"}, {"socket", (*broker)->socket()}, {"epoch", (*broker)->epoch()}});
  try {
    while (!stop.requested() && (*broker)->run_once(std::chrono::seconds(60))) {
    }
  } catch (const std::bad_alloc&) {
    // The state may be incomplete. The next broker rebuilds it from what the members declare.
    return out.error(Exit::environment, "memory has run out: the next broker takes over");
  }
  return code(Exit::ok);
}

}  // namespace

void register_xrcd(Command app, Context& context) {
  auto args = std::make_shared<BrokerArgs>();
  xrc::RegistryOptions& registry = args->broker.registry;
  registry.recovery = std::chrono::seconds(2);
  registry.user_share = 25;
  Command sub = app.subcommand("xrcd", "Run the broker that keeps the registrations of XRC domains");
  add_xrc_socket(sub, args->broker.socket);
  add_duration(sub, "--idle", args->broker.idle, "End when no process was connected for so long (0: never)");
  add_xrc_rules(sub, registry);
  add_duration(sub, "--recovery", registry.recovery,
               "How long, after it began, members of a broker before it may declare what they have");
  sub.option(
         "--user-share", registry.user_share,
         "Share of each bound that one user may have, in percent; root and the broker's user have no limit, and the "
         "last "
         "eighth is theirs alone (0: no limits)")
      .range(0U, 100U)
      .shows_default();
  add_json_flag(sub, context);
  sub.footer(
      "It is also started by the first process that needs it, or by systemd, from which it takes the socket. Its "
      "death\n"
      "loses nothing: members declare what they have to the next one.\n"
      "Examples:\n"
      "  parley xrcd                                  for the user, or as root for the machine\n"
      "  parley xrcd --grace 30s --linger 5s");
  sub.run([args, &context] { return run_xrcd(*args, context.out); });
}

}  // namespace parley::tools
