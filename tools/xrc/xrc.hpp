// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the commands about XRC domains share.
#pragma once
#include <memory>

#include "parley/xrc_domain.hpp"
#include "tools/command.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct XrcArgs {
  xrc::DomainOptions domain{};
  std::string file, tgt;
  Duration interval = std::chrono::milliseconds(500), during{};
};

void add_xrc_socket(Command sub, std::string& socket);
/// "gone: the TGT queue pair has ended, ..."; its exit code is `environment` where no broker answered at `socket`.
int xrc_refused(Output& out, const Error& error, const std::string& socket);
std::string xrc_refusal_name(const Error& error);

Json xrc_tgt_json(const xrc::DomainView& domain, const xrc::TgtView& tgt);
int run_xrc_watch(const XrcArgs& args, Output& out);
int run_xrc_member(const XrcArgs& args, Output& out);

}  // namespace parley::tools
