// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/conform/conform_session.hpp"

#include <algorithm>

namespace parley::tools {

using conform::Case;
using conform::Result;

int ConformSession::list(const std::vector<const Case*>& cases, const std::function<bool(const Case&)>& live) {
  for (const Case* c : cases)
    if (only_.has(c->name)) list_case(table_, *c, live(*c), context_.out);
  return code(Exit::ok);
}

Or<void> ConformSession::open_reports() {
  const auto target = parse_address(args_.endpoint, default_port);
  if (!target) return tl::unexpected(target.error());
  args_.settings.target = *target;
  auto outputs = ConformOutputs::open(args_);
  if (!outputs) return tl::unexpected(outputs.error());
  outputs_ = std::move(*outputs);
  return {};
}

Or<void> ConformSession::open_capture() {
  if (args_.pcapng.empty()) return {};
  auto capture = CaptureWriter::create(args_.pcapng);
  if (!capture) return tl::unexpected(capture.error());
  capture_ = std::move(*capture);
  return {};
}

void ConformSession::print_listening(const Address& at) {
  context_.out.text("listening on " + at.to_string());
  context_.out.object({{"event", "listening"}, {"local", at.to_string()}, {"port", at.port}});
}

Or<void> ConformSession::begin(const std::vector<const Case*>& cases) {
  if (std::none_of(cases.begin(), cases.end(), [this](const Case* c) { return only_.has(c->name); }))
    return command_error(Exit::usage, "--only names no case; --list shows them");
  progress_ = std::make_unique<Progress>(context_.out, "cases", cases.size());
  return {};
}

conform::Selection ConformSession::selection() const {
  return [this](const Case& c) -> std::string {
    if (!only_.has(c.name)) return "left out by --only";
    return c.destructive && !args_.destructive ? "may crash the peer; needs --destructive" : "";
  };
}

conform::Hooks ConformSession::hooks(std::function<bool()> silent) {
  conform::Hooks hooks;
  if (!args_.run.empty()) {
    hooks.before = [this](const Case& c) {
      if (auto why = program_.start(args_.run, c.name); !why.empty()) broken_ = std::move(why);
    };
    hooks.after = [this] { return program_.finish(args_.run_limit); };
  }
  hooks.result = [this, silent = std::move(silent)](const Result& result) { print(result, silent()); };
  hooks.stopped = [this] { return StopSignals::requested() || !broken_.empty(); };
  return hooks;
}

void ConformSession::print(const Result& result, bool silent) {
  ++done_;
  if (counts_as_failed(result, args_.strict)) ++failed_;
  const bool chosen = only_.has(result.what->name);
  if (chosen && progress_) progress_->clear();
  if (chosen && !args_.quiet && !silent) context_.out.text(conform_line(result, args_.strict, context_.out.columns));
  if (chosen) context_.out.object(result_json(table_, result));
  if (progress_) progress_->update(done_, fmt::format("{} failed", failed_));
}

Or<void> ConformSession::report(const std::vector<Result>& results, bool interrupted, const conform::Tally& t) {
  if (progress_) progress_->clear();
  const conform::ReportHead head{args_.title, table_.command, args_.strict, interrupted, &provenance_, network_};
  Or<void> written = outputs_.write(table_, head, iut_, results);
  if (capture_)
    if (const auto ended = capture_->finish(); !ended && written) written = ended;
  // Failures are repeated together, with the expected behaviour: there are many lines above, and --only selects a case
  // by its name.
  if (const std::string failures = failures_text(results, args_.strict); !failures.empty() && !args_.quiet)
    context_.out.text("\n" + failures);
  context_.out.text(tally_text(t));
  context_.out.object(summary_json(table_, iut_, t, interrupted, provenance_));
  return written;
}

}  // namespace parley::tools
