// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc segment`: creates a shared registry with rules that differ from the defaults of its first member.
#include "drivers/xrcshm/segment.hpp"

#include <fmt/format.h>

#include "tools/xrc/xrc.hpp"

namespace parley::tools {
namespace {

int run_segment(const xrc::Segment::Options& options, Output& out) {
  const auto segment = xrc::Segment::open(options);
  if (!segment) return xrc_refused(out, segment.error(), {.form = xrc::RegistryKind::shared, .segment = options.path});
  const std::string& path = (*segment)->path();
  out.text(fmt::format("{}, epoch {}", path, (*segment)->epoch()));
  out.object({{"event", "segment"}, {"segment", path}, {"epoch", (*segment)->epoch()}});
  return code(Exit::ok);
}

}  // namespace

void register_xrc_segment(Command xrc, Context& context) {
  auto options = std::make_shared<xrc::Segment::Options>();
  Command sub = xrc.subcommand("segment", "Make a shared registry, if there is none, for processes of this user");
  add_xrc_segment(sub, options->path);
  add_xrc_rules(sub, options->registry);
  add_json_flag(sub, context);
  sub.footer(
      "Its first member makes one as well. The process that creates it sets its rules; the file stays after the last "
      "member has left, so\n"
      "that numbers rest. Remove it to start over.\n"
      "Examples:\n"
      "  parley xrc segment --grace 30s --linger 5s");
  sub.run([options, &context] { return run_segment(*options, context.out); });
}

}  // namespace parley::tools
