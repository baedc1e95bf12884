// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Common parts of the commands about XRC domains.
#pragma once
#include <memory>

#include "parley/xrc_domain.hpp"
#include "tools/command.hpp"
#include "tools/options.hpp"
#include "xrc/registry.hpp"

namespace parley::tools {

struct XrcArgs {
  xrc::DomainOptions domain{};
  std::string file, tgt, form;
  Duration interval = std::chrono::milliseconds(500), during{};
};

void add_xrc_socket(Command sub, std::string& socket);
void add_xrc_segment(Command sub, std::string& segment);
/// Adds --grace and the other rules that apply to both the broker and the shared registry.
void add_xrc_rules(Command sub, xrc::RegistryOptions& rules);
/// Prints "gone: the TGT queue pair has ended, ..." and returns the exit code. If no registry could be used, the code
/// is `environment` and the message names the registry that `options` select.
int xrc_refused(Output& out, const Error& error, const xrc::DomainOptions& options);
std::string xrc_refusal_name(const Error& error);

Json xrc_tgt_json(const xrc::DomainView& domain, const xrc::TgtView& tgt);
int run_xrc_watch(const XrcArgs& args, Output& out);
int run_xrc_member(const XrcArgs& args, Output& out);
void register_xrc_segment(Command xrc, Context& context);

}  // namespace parley::tools
