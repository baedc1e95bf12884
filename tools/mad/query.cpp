// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley mad query`: any request of the table by its name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mad/rpc_text.hpp"
#include "tools/mad/decode.hpp"
#include "tools/mad/mad.hpp"
#include "tools/mad/session.hpp"
#include "wire/mad/decode.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t rmpp_flags_at = 26;

struct QueryArgs {
  MadOptions mad;
  std::vector<std::string> words;
  bool sa = false, dump = false;
  mad::RpcText request;
  mad::PathText path;
  bool has_path = false;
};

/// "SubnGet NodeInfo PATH name=value ..."; requests to subnet administration need no path.
std::string understand(QueryArgs& args) {
  if (args.words.size() < 2)
    return fmt::format("the request and its attribute are missing: SubnGet NodeInfo 0,1; requests: {}",
                       fmt::join(mad::method_names(), ", "));
  auto request = mad::parse_rpc(args.words[0], args.words[1]);
  if (!request) return request.error();
  args.request = std::move(*request);
  for (std::size_t i = 2; i < args.words.size(); ++i) {
    const std::string& word = args.words[i];
    const bool assignment = word.find('=') != std::string::npos && word.find('(') == std::string::npos;
    if (assignment) {
      if (std::string wrong = mad::set_field(args.request, word); !wrong.empty()) return wrong;
      continue;
    }
    if (args.has_path) return fmt::format("'{}' is a second path, or a member without a value", word);
    auto path = mad::parse_path(word);
    if (!path) return path.error();
    args.path = std::move(*path);
    args.has_path = true;
  }
  const bool administration = args.request.rpc.mgmt_class == mad::MgmtClass::subn_adm;
  if (args.sa && args.has_path) return "--sa and a path cannot be used together: --sa sends to subnet administration";
  if (!args.has_path && !args.sa && !administration) return "the path is missing: a LID, 0,1, a GID or IBPath(...)";
  if (args.path.path.route && args.request.rpc.mgmt_class != mad::MgmtClass::subn)
    return "only subnet management can use directed routes";
  return {};
}

/// Prints all members of each record, also those that are the same in all records.
void show_reply(const mad::RawReply& reply, const QueryArgs& args, Output& out) {
  const auto decoded = wire::mad::decode(reply.mad);
  if (!decoded) return;
  if (out.json) return put_json(*decoded, reply.mad, {{"event", "reply"}}, out);
  if (args.dump) {
    std::string text = dump(*decoded, reply.mad);
    text.pop_back();
    return out.text(text);
  }
  out.text(wire::mad::title(*decoded));
  std::size_t number = 0;
  for (const wire::mad::Part& body : decoded->bodies) {
    if (decoded->bodies.size() > 1) out.text(fmt::format("{}{} {}", number > 0 ? "\n" : "", body.layout->name, number));
    ++number;
    std::string text = wire::mad::dotted(*body.layout, body.view, "  ");
    if (!text.empty()) text.pop_back();
    out.text(text);
  }
  if (decoded->bodies.empty()) out.text("  no records");
}

int run_query(const QueryArgs& args, Output& out) {
  auto session = MadSession::open(args.mad, out, args.has_path ? &args.path : nullptr);
  if (!session) return out.error(session.error().exit, session.error().text);
  mad::Port& port = (*session)->port();
  const bool administration = args.request.rpc.mgmt_class == mad::MgmtClass::subn_adm;
  if ((administration || args.sa) && !args.path.path.route && port.local().sm_lid == 0)
    return out.error(Exit::environment, "no subnet manager: PortInfo of this port has no SM LID");
  if (args.has_path)
    if (const auto leads = (*session)->check(args.path); !leads)
      return out.error(leads.error().exit, leads.error().text);
  mad::TextRequest what{
      .rpc = args.request.rpc, .body = args.request.body, .to = {}, .defaults = (*session)->defaults()};
  if (args.has_path) what.to = args.path;
  auto reply = (*session)->run(mad::ask(port, what));
  if (const auto written = (*session)->finish(); !written) return out.error(written.error().exit, written.error().text);
  if (!reply) return out.error(reply.error().exit, reply.error().text);
  if (!*reply) {
    const mad::MadError& error = reply->error();
    if (error.fault() == mad::Fault::cut) {
      // The transport or the peer has no RMPP: show what arrived, then the error.
      Bytes first(error.reply().begin(), error.reply().end());
      // Without the flag it is not a segment, and all of its records are decoded.
      if (first.size() > rmpp_flags_at) first[rmpp_flags_at] &= 0xFE;
      show_reply({std::move(first), {}}, args, out);
    }
    return print_error(error, out);
  }
  show_reply(**reply, args, out);
  return code(Exit::ok);
}

}  // namespace

void register_mad_query(Command mad, Context& context) {
  auto args = std::make_shared<QueryArgs>();
  Command sub = mad.subcommand("query", "Send a request by name and show its answer");
  sub.option("words", args->words, "The request, its attribute, the path, and members as NAME=VALUE")
      .type("WORD")
      .required();
  sub.flag("--sa", args->sa, "Send to the SA (the SM LID in PortInfo)");
  sub.flag("--dump", args->dump, "Show the whole datagram with its octets");
  add_mad_options(sub, args->mad);
  add_json_flag(sub, context);
  sub.footer(
      "A path is a LID (5), a directed route (0,1,3), a port's GID or GUID, or IBPath(DLID=5,SL=2). modifier=N is the "
      "attribute\n"
      "modifier. Members have the names that 'parley mad decode' prints.\n"
      "Examples:\n"
      "  parley mad query SubnGet NodeInfo 0,1\n"
      "  parley mad query SubnGet PortInfo 5 modifier=1\n"
      "  parley mad query PerformanceGet PortCounters 5 port_select=1\n"
      "  parley mad query SubnAdmGetTable PathRecord slid=1 dlid=3 --json");
  sub.run([args, &context] { return run_query(*args, context.out); }, [args] { return understand(*args); });
}

}  // namespace parley::tools
