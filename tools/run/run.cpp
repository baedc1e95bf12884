// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley run`, also called `parley verbs`: runs a program for libibverbs or librdmacm on Parley's RoCE, by preloading
// libparley_verbs.so.
#include <net/if.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/recording.hpp"
#include "tools/command.hpp"
#include "tools/own_program.hpp"
#include "tools/run/program.hpp"

namespace parley::tools {

namespace {

struct RunArgs {
  std::vector<std::string> addresses, program;
  std::string pcapng, link_layer;
  bool verbose = false, env = false;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// What the program inherits. Variables of an outer `parley run` stay, unless an option replaces them.
Variables variables(const RunArgs& args, const std::string& library) {
  Variables out{{"LD_PRELOAD", preload_list(library, variable("LD_PRELOAD"))}};
  if (!args.addresses.empty())
    out.emplace_back("PARLEY_VERBS_ADDRESS", fmt::format("{}", fmt::join(args.addresses, ",")));
  if (!args.pcapng.empty()) out.emplace_back("PARLEY_VERBS_PCAPNG", args.pcapng);
  if (!args.link_layer.empty()) out.emplace_back("PARLEY_VERBS_LINK_LAYER", args.link_layer);
  if (args.verbose) out.emplace_back("PARLEY_VERBS_LOG", "1");
  return out;
}

/// The GIDs, for people: "GID 0: 192.0.2.1 (eth0)".
void note_gids(const std::vector<Address>& addresses, Output& out) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    char interface[IF_NAMESIZE] = "lo";  // has all of 127.0.0.0/8
    if (!asio_driver::is_loopback_v4(addresses[i]) &&
        ::if_indextoname(asio_driver::interface_of(addresses[i]), interface) == nullptr)
      std::strcpy(interface, "no interface");
    out.note(fmt::format("parley0: GID {}: {} ({})", i, asio_driver::text_without_port(addresses[i]), interface));
  }
}

int print_environment(const Variables& variables, Output& out) {
  for (const auto& [name, value] : variables) out.verbatim(fmt::format("export {}={}", name, shell_word(value)));
  return code(Exit::ok);
}

int exec(const RunArgs& args, const Variables& variables, Output& out) {
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : args.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  return out.error(Exit::environment, fmt::format("{}: {}", printable(args.program[0], false), std::strerror(errno)));
}

/// Makes the file's name absolute, because the program may change its folder, and empties the file. Returns what is
/// wrong, or an empty string.
std::string begin_pcapng(std::string& name, Output& out) {
  std::error_code none;
  const std::string absolute = std::filesystem::absolute(name, none).string();
  if (none) return fmt::format("{}: {}", printable(name, false), none.message());
  const RecordingStart begun = begin_recording(absolute);
  if (begun == RecordingStart::failed) return fmt::format("{}: {}", printable(name, false), std::strerror(errno));
  if (begun == RecordingStart::in_use)
    out.note(
        fmt::format("{}: another process is recording it; this program's files have process numbers in their names",
                    printable(name, false)));
  name = absolute;
  return {};
}

/// What is wrong with a list of addresses, or an empty string.
std::string why_not_list(const std::string& text) {
  const std::string list = "," + text + ",";
  return list.find(",,") == std::string::npos ? "" : fmt::format("'{}' has an empty address", printable(text, false));
}

int run_run(RunArgs& args, Output& out) {
  const std::string library = own_library("libparley_verbs.so");
  if (library.empty())
    return out.error(Exit::environment,
                     "libparley_verbs.so was not found: ./dev build makes it, where libibverbs-dev is installed");
  if (library.find_first_of(preload_separators) != std::string::npos)
    return out.error(
        Exit::environment,
        fmt::format("{}: LD_PRELOAD cannot have a path with a space or colon; move Parley", printable(library, false)));
  const std::string named =
      args.addresses.empty() ? variable("PARLEY_VERBS_ADDRESS") : fmt::format("{}", fmt::join(args.addresses, ","));
  const auto addresses = asio_driver::gid_addresses(named);
  if (!addresses)
    return out.error(Exit::environment, fmt::format("{}{}{}", printable(named, false), named.empty() ? "" : ": ",
                                                    addresses.error().sentence()));
  if (args.link_layer == "infiniband")
    if (const std::string why = asio_driver::why_no_lid(addresses->front()); !why.empty())
      return out.error(Exit::environment, why);
  if (!args.env)
    if (const std::string why = why_not_preloaded(args.program[0], library); !why.empty())
      return out.error(Exit::environment, why);
  if (!args.pcapng.empty())
    if (const std::string why = begin_pcapng(args.pcapng, out); !why.empty()) return out.error(Exit::environment, why);
  if (args.verbose) note_gids(*addresses, out);
  return args.env ? print_environment(variables(args, library), out) : exec(args, variables(args, library), out);
}

void add_run(Command sub, Context& context) {
  auto args = std::make_shared<RunArgs>();
  sub.option("-a,--address", args->addresses,
             "An address of the device; repeatable, or several with commas between them. They are its GIDs, in this "
             "order. Default: those of all interfaces that are up: IPv4 (the default route's first), IPv6, link-local "
             "IPv6, loopback")
      .type("ADDR")
      .check(why_not_list)
      .repeatable();
  sub.option("--pcapng", args->pcapng,
             "Write the program's packets to FILE; %p in the name is the number of the process. Without it, the first "
             "process has FILE, and each other one the name with its number in front of the suffix")
      .type("FILE");
  sub.option("--link-layer", args->link_layer,
             "infiniband: show an InfiniBand port, for programs that address peers by LIDs. The LID is the last two "
             "octets of the first address; the packets are RoCEv2 all the same")
      .one_of({"ethernet", "infiniband"});
  sub.flag("-v,--verbose", args->verbose,
           "Report the GIDs, and why a call of the program was refused, on standard error");
  sub.flag("--env", args->env,
           "Run nothing; print the variables as export commands for a POSIX shell: eval \"$(parley run --env)\"");
  sub.rest("PROGRAM", args->program, "The program and its arguments; options after PROGRAM are the program's")
      .type("PROGRAM");
  const auto wrong = [args] {
    if (args->env && !args->program.empty()) return std::string("--env runs no program: leave PROGRAM out");
    if (args->env || !args->program.empty()) return std::string();
    return std::string("PROGRAM is required");
  };
  sub.run([args, &context] { return run_run(*args, context.out); }, wrong);
}

}  // namespace

void register_run(Command app, Context& context) {
  Command sub =
      app.subcommand("run", "Run a program for libibverbs or librdmacm on Parley's RoCE, without an RDMA device");
  add_run(sub, context);
  sub.footer(
      "The program and all processes that it starts find one device, parley0, with one port.\n\n"
      "Examples:\n"
      "  parley run ibv_devinfo -v\n"
      "  parley run -a 127.0.0.1 ibv_rc_pingpong -g 0 &\n"
      "  parley run -a 127.0.0.3 ibv_rc_pingpong -g 0 127.0.0.1\n"
      "  parley run -a 127.0.0.3 rping -c -a 127.0.0.1 -C 10 -v\n"
      "  parley run --pcapng written.pcapng -a 192.0.2.1 ib_write_bw -x 0 192.0.2.2\n"
      "  parley run bash                        a shell in which RDMA programs run\n"
      "  eval \"$(parley run --env)\"             the same in this shell");
}

void register_verbs(Command app, Context& context) {
  Command sub = app.subcommand("verbs", "The same as 'parley run'");
  add_run(sub, context);
  sub.footer("Examples:\n  parley verbs ibv_devinfo -v\n  parley help run");
}

}  // namespace parley::tools
