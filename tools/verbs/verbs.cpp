// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley verbs`: runs a program for libibverbs on Parley's RoCE, by preloading libparley_verbs.so.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "tools/command.hpp"
#include "tools/own_program.hpp"

namespace parley::tools {

namespace {

struct VerbsArgs {
  std::string address, pcapng;
  std::vector<std::string> program;
  bool verbose = false;
};

int run_verbs(const VerbsArgs& args, Output& out) {
  const std::string library = own_library("libparley_verbs.so");
  if (library.empty())
    return out.error(Exit::environment,
                     "libparley_verbs.so is not there: it is built where libibverbs-dev is installed");
  const char* const before = std::getenv("LD_PRELOAD");
  const std::string all = before == nullptr || *before == '\0' ? library : library + ":" + before;
  ::setenv("LD_PRELOAD", all.c_str(), 1);
  if (!args.address.empty()) ::setenv("PARLEY_VERBS_ADDRESS", args.address.c_str(), 1);
  if (!args.pcapng.empty()) ::setenv("PARLEY_VERBS_PCAPNG", args.pcapng.c_str(), 1);
  if (args.verbose) ::setenv("PARLEY_VERBS_LOG", "1", 1);
  std::vector<char*> words;
  for (const std::string& word : args.program) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  return out.error(Exit::environment, fmt::format("{}: {}", printable(args.program[0], false), std::strerror(errno)));
}

}  // namespace

void register_verbs(Command app, Context& context) {
  auto args = std::make_shared<VerbsArgs>();
  Command sub =
      app.subcommand("verbs", "Run a program for libibverbs or librdmacm on Parley's RoCE, without an RDMA device");
  sub.option("-a,--address", args->address,
             "The device's addresses, a comma between them, its GIDs in that order (else those of all interfaces that "
             "are up)")
      .type("ADDR");
  sub.option("--pcapng", args->pcapng, "Write the program's packets to FILE").type("FILE");
  sub.flag("-v,--verbose", args->verbose, "Tell on standard error why a call of the program was refused");
  sub.option("PROGRAM", args->program, "The program and its arguments, behind -- if they have options").required();
  sub.footer(
      "The program finds one device, parley0, with one port. Two on one machine need an address each.\n\n"
      "Examples:\n"
      "  parley verbs ibv_devinfo\n"
      "  parley verbs -a 127.0.0.1 -- ibv_rc_pingpong -g 0 &\n"
      "  parley verbs -a 127.0.0.3 -- ibv_rc_pingpong -g 0 127.0.0.1\n"
      "  parley verbs -a 127.0.0.3 -- rping -c -a 127.0.0.1 -C 10 -v\n"
      "  parley verbs --pcapng written.pcapng -a 192.0.2.1 -- ib_write_bw -x 0 192.0.2.2");
  sub.run([args, &context] { return run_verbs(*args, context.out); });
}

}  // namespace parley::tools
