// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley neg` over connections of the provider, as perftest's -R, and the output of all negotiations.
#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "parley/neg_cm.hpp"
#include "tools/neg/neg.hpp"
#include "tools/report.hpp"
#include "tools/rping/session.hpp"

namespace parley::tools {

Exit exit_of(const neg::Failure& why) {
  return layer_of(why.problem) == neg::Layer::framework || why.problem == neg::Problem::configuration_error
             ? Exit::usage
             : Exit::failed;
}

void NegTally::take(const neg::Event& event) {
  if (const auto* listening = std::get_if<neg::Listening>(&event)) {
    ++listening_;
    const std::string local = listening->local.to_string();
    if (args_.document.empty()) context_.out.text("listening on " + local);
    context_.out.object({{"event", "listening"}, {"local", local}, {"port", listening->local.port}});
  } else if (const auto* failed = std::get_if<neg::ListenFailed>(&event)) {
    listen_failure_ = *failed;
  } else if (const auto* again = std::get_if<neg::Retrying>(&event)) {
    const std::string next = again->next.to_string();
    context_.out.note(fmt::format("{}; next {}{}", again->why.to_string(), next,
                                  again->wait > Duration{} ? " in " + milliseconds_text(again->wait) : std::string()));
    context_.out.object({{"event", "retrying"},
                         {"peer", again->failed.to_string()},
                         {"next", next},
                         {"wait_us", in_microseconds(again->wait)},
                         {"why", neg_failure_json(again->why)}});
  } else if (const auto* ended = std::get_if<neg::Ended>(&event)) {
    report_end(*ended);
  }
}

void NegTally::report_end(const neg::Ended& ended) {
  // A peer that sent no request is reported but not counted, so that a port scan does not end `serve --count 1`.
  if (!ended.request.variant.empty()) {
    ++(ended.failure ? failed_ : completed_);
    if (ended.failure) last_failure_ = ended.failure;
  }
  context_.out.object(ended_json(ended, args_.history));
  if (args_.document.empty()) return context_.out.text(ended_text(ended, args_.history));
  if (ended.failure) return context_.out.note(ended_text(ended, args_.history));
  context_.out.verbatim(export_document(args_.document, ended));
}

int NegTally::finish(const Or<void>& written, bool timed_out) const {
  if (listen_failure_)
    return context_.out.error(
        Exit::environment,
        fmt::format("cannot listen on {}: {}{}", listen_failure_->local.to_string(), listen_failure_->why.text,
                    listen_failure_->why.advice.empty() ? "" : "; " + listen_failure_->why.advice));
  context_.out.object(
      {{"event", "summary"}, {"command", context_.out.command}, {"completed", completed_}, {"failed", failed_}});
  if (!written) return context_.out.error(written.error().exit, written.error().text);
  if (timed_out)
    return context_.out.error(Exit::failed, fmt::format("not over within {}", duration_text(args_.timeout)));
  if (last_failure_)
    return context_.out.error(Exit::failed, fmt::format("{} of {} negotiations failed; the last: {}", failed_,
                                                        failed_ + completed_, last_failure_->to_string()));
  if (listening_ == 0 && completed_ == 0) return context_.out.error(Exit::failed, "interrupted");
  return code(Exit::ok);
}

namespace {

/// The host of the provider, and the negotiations over its connections.
class OverCm {
 public:
  OverCm(const NegArgs& args, Context& context) : args_(args), context_(context), tally_(args, context) {}
  int run(const neg::CmNegotiationOptions& options);

 private:
  bool over(bool server) const;
  void turn(Instant deadline);

  const NegArgs& args_;
  Context& context_;
  NegTally tally_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<neg::CmNegotiation> talks_;
};

int OverCm::run(const neg::CmNegotiationOptions& options) {
  auto session = Session::open(
      {.provider = args_.plugins.provider, .pcapng = args_.pcapng, .metrics = args_.metrics, .log = args_.log},
      context_.out);
  if (!session) return context_.out.error(session.error().exit, session.error().text);
  session_ = std::move(*session);
  auto talks = neg::CmNegotiation::open(session_->cm(), options, session_->now());
  if (!talks) return context_.out.error(exit_of(talks.error()), talks.error().to_string());
  talks_ = std::move(*talks);
  const Instant deadline = args_.timeout == Duration{} ? never : session_->now() + args_.timeout;
  const bool server = options.role == neg::Role::responder;
  while (!over(server) && !Session::stopped() && session_->now() < deadline) turn(deadline);
  const bool timed_out = !over(server) && !Session::stopped() && (!server || args_.count > 0);
  talks_.reset();
  session_->settle();
  return tally_.finish(session_->finish(), timed_out);
}

bool OverCm::over(bool server) const {
  return tally_.listen_failure() || (!talks_->busy() && (!server || tally_.served()));
}

void OverCm::turn(Instant deadline) {
  session_->turn(std::min(deadline, talks_->next_deadline()));
  while (auto event = session_->cm().poll_event()) talks_->handle(session_->now(), *event);
  talks_->turn(session_->now());
  while (const auto event = talks_->poll_event()) tally_.take(*event);
}

neg::CmNegotiationOptions options_of(const NegArgs& args, const neg::Config& config, neg::Role role,
                                     const Address& address) {
  return {.role = role,
          .address = address,
          .config = config,
          .session = args.session,
          .connect_timeout = args.connect_timeout};
}

}  // namespace

int serve_over_cm(const NegArgs& args, const neg::Config& config, const Address& local, Context& context) {
  return OverCm(args, context).run(options_of(args, config, neg::Role::responder, local));
}

int dial_over_cm(const NegArgs& args, const neg::Config& config, const Address& server, Context& context) {
  return OverCm(args, context).run(options_of(args, config, neg::Role::initiator, server));
}

}  // namespace parley::tools
