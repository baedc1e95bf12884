// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/neg_session.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/after.hpp"
#include "base/bytes_io.hpp"
#include "base/escape.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/traced.hpp"
#include "wire/neg.hpp"

namespace parley::neg {
namespace {

using wire::NegHeader;
using wire::NegItemType;
using wire::NegMessage;
using wire::NegType;

constexpr std::size_t label_max = 255;
constexpr std::size_t text_max = 1024;  // octets of a text in an Abort

std::string_view kind_of(Framing framing, NegType type) {
  if (framing == Framing::raw) return "raw";
  switch (type) {
    case NegType::hello: return "Hello";
    case NegType::welcome: return "Welcome";
    case NegType::turn: return "Turn";
    case NegType::abort: return "Abort";
  }
  return "unknown";
}

/// Counted from 1, also in a stage without any message so far. 0: no stage.
std::uint16_t round_of(Stage stage, std::uint16_t sent, std::uint16_t heard) {
  return stage == Stage::none ? std::uint16_t{0} : std::max({sent, heard, std::uint16_t{1}});
}

Outcome<void> check(const SessionOptions& o) {
  const auto wrong = [](std::string text) {
    return tl::unexpected(Failure{.problem = Problem::configuration_error, .text = std::move(text)});
  };
  if (o.message_max == 0 || o.message_max > PARLEY_NEG_LENGTH_MAX)
    return wrong(
        fmt::format("SessionOptions::message_max is {}; must be 1 to {}", o.message_max, PARLEY_NEG_LENGTH_MAX));
  if (o.rounds_max == 0) return wrong("SessionOptions::rounds_max is 0; must be at least 1");
  if (o.answer_timeout < Duration{} || o.session_timeout < Duration{})
    return wrong("SessionOptions: a time limit is not negative; 0 is none");
  return {};
}

}  // namespace

std::string_view to_string(Session::State state) {
  switch (state) {
    case Session::State::hello: return "hello";
    case Session::State::talking: return "talking";
    case Session::State::over: return "over";
  }
  return "unknown";
}

Session::Session(Role role, const SessionOptions& options, Instant now)
    : role_(role),
      options_(options),
      now_(now),
      session_deadline_(limited(now, options.session_timeout)),
      answer_deadline_(limited(now, options.answer_timeout)) {}

Outcome<Session> Session::initiate(const Request& request, std::unique_ptr<Variant> variant,
                                   const SessionOptions& options, Instant now) {
  if (auto checked = check(options); !checked) return tl::unexpected(checked.error());
  Session s(Role::initiator, options, now);
  s.request_ = request;
  s.request_.label.resize(std::min(s.request_.label.size(), label_max));
  const auto taken = s.adopt_variant(std::move(variant));
  if (!s.variant_) return tl::unexpected(taken.error());
  Bytes hello;
  add_neg_item(hello, NegItemType::plugin, s.request_.plugin);
  add_neg_item(hello, NegItemType::variant, s.request_.variant);
  if (s.done_stage_) add_neg_item(hello, NegItemType::done_stage, ConstBytes{});
  if (!s.request_.label.empty()) add_neg_item(hello, NegItemType::label, s.request_.label);
  s.send(NegType::hello, hello);
  if (taken)
    s.begin_stage(Stage::info);
  else
    s.fail_with(taken.error(), true);
  return s;
}

Outcome<Session> Session::respond(Chooser chooser, const SessionOptions& options, Instant now) {
  if (auto checked = check(options); !checked) return tl::unexpected(checked.error());
  Session s(Role::responder, options, now);
  s.chooser_ = std::move(chooser);
  return s;
}

Outcome<Session> Session::raw(Role role, const Request& request, std::unique_ptr<Variant> variant,
                              const SessionOptions& options, Instant now) {
  if (auto checked = check(options); !checked) return tl::unexpected(checked.error());
  Session s(role, options, now);
  s.framing_ = Framing::raw;
  s.request_ = request;
  if (auto taken = s.adopt_variant(std::move(variant)); !taken) return tl::unexpected(taken.error());
  s.state_ = State::talking;
  s.begin_stage(Stage::info);
  s.handle_bytes(now, {});
  if (s.failure_) return tl::unexpected(*s.failure_);
  return s;
}

Outcome<void> Session::adopt_variant(std::unique_ptr<Variant> variant) {
  if (!variant) return failed(Problem::configuration_error, "there is no variant");
  variant_ = std::move(variant);
  const auto asked = guarded([this]() -> Outcome<bool> { return variant_->has_done_stage(); });
  if (!asked) return tl::unexpected(asked.error());
  done_stage_ = *asked;
  return {};
}

Outcome<std::vector<QpPair>> Session::agreed() const {
  if (!variant_) return std::vector<QpPair>();
  auto said = guarded([this]() -> Outcome<std::vector<QpPair>> { return variant_->agreed(); });
  if (!said) said.error().stage = stage_;
  return said;
}

Instant Session::next_deadline() const {
  return state_ == State::over ? never : std::min({session_deadline_, answer_deadline_, work_at_});
}

void Session::handle_bytes(Instant now, ConstBytes in) {
  now_ = now;
  if (state_ == State::over) return;
  in_.insert(in_.end(), in.begin(), in.end());
  look_for_abort();
  if (state_ == State::over) return;
  if (working_ && in_.size() > PARLEY_NEG_HEADER_LEN + std::size_t{options_.message_max})
    return violated(fmt::format("{} while this side is not through; at most {} and a header are kept",
                                counted(in_.size(), "octet"), options_.message_max));
  handle_messages();
}

void Session::handle_messages() {
  while (state_ != State::over && !working_ && (framing_ == Framing::raw ? handle_raw() : read_message())) {
  }
  look_for_abort();
}

// While this side works, the peer's messages are kept, except that an Abort takes effect at once.
void Session::look_for_abort() {
  if (!working_ || state_ == State::over || framing_ == Framing::raw) return;
  ConstBytes rest = in_;
  while (const auto message = NegMessage::parse(rest)) {
    if (message->header.type == NegType::abort) {
      note(false, message->header, message->body);
      return handle_abort(message->header, message->body);
    }
    rest = rest.subspan(message->size());
  }
}

void Session::handle_end(Instant now, std::string_view how) {
  now_ = now;
  if (state_ == State::over) return;
  const bool next = stage_ == Stage::info || (stage_ == Stage::ready && done_stage_);
  if (working_ && (!next || !in_.empty())) {
    ended_ = how;
    return;
  }
  const std::string half =
      in_.empty() ? std::string() : fmt::format(" after {} of a message", counted(in_.size(), "octet"));
  fail_with(here(Problem::connection_lost, fmt::format("{}{}", how, half), "look at the peer's log"), false);
}

void Session::handle_deadline(Instant now) {
  now_ = now;
  if (state_ == State::over || now < next_deadline()) return;
  if (now < session_deadline_ && now < answer_deadline_) return work();
  const bool whole = session_deadline_ <= now;
  const Duration limit = whole ? options_.session_timeout : options_.answer_timeout;
  const std::string_view what = working_ && whole ? "the work between stages is not done"
                                : working_        ? "the work between stages is not done, and nothing moves,"
                                : in_.empty()     ? "no answer"
                                                  : "half a message";
  fail_with(here(whole ? Problem::session_timeout : Problem::connection_timeout,
                 fmt::format("{} after {}", what, limit_text(limit)),
                 whole ? "raise session_timeout" : "raise answer_timeout, or see whether the peer is alive"),
            true);
}

void Session::abort(Instant now, Failure why) {
  now_ = now;
  if (state_ != State::over) fail_with(std::move(why), true);
}

// Takes one message from in_. False: it is incomplete, or wrong.
bool Session::read_message() {
  if (!wire::may_become_neg_magic(in_)) {
    const ConstBytes head = ConstBytes(in_).first(std::min<std::size_t>(in_.size(), 16));
    violated(fmt::format("the peer speaks another protocol: {} ('{}')", hex_text(head), readable_text(head, 16)));
    return false;
  }
  if (in_.size() < PARLEY_NEG_HEADER_LEN) return false;
  const auto header = NegHeader::parse(in_);
  if (!header) {
    violated(header.error().message());
    return false;
  }
  if (header->length > options_.message_max) {
    violated(fmt::format("a message of {} octets; at most {} are taken", header->length, options_.message_max));
    return false;
  }
  const std::size_t whole = PARLEY_NEG_HEADER_LEN + header->length;
  if (in_.size() < whole) return false;
  const Bytes body(in_.begin() + PARLEY_NEG_HEADER_LEN, in_.begin() + static_cast<std::ptrdiff_t>(whole));
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(whole));
  note(false, *header, body);
  await_answer();
  heard_ = true;
  switch (header->type) {
    case NegType::hello: handle_hello(body); break;
    case NegType::welcome: handle_welcome(body); break;
    case NegType::turn: handle_turn(*header, body); break;
    case NegType::abort: handle_abort(*header, body); break;
  }
  return true;
}

// Takes one message from in_; the variant determines its length. False: it is incomplete, or wrong.
bool Session::handle_raw() {
  const auto length = guarded([this] { return variant_->message_length(stage_, in_); });
  if (!length) {
    fail_with(length.error(), false);
    return false;
  }
  if (*length == std::size_t{0}) {
    const Stage before = stage_;
    run_turn(std::nullopt);
    if (state_ == State::talking && stage_ == before && !working_)
      fail_with(here(Problem::plugin_refused, "the variant waits in a stage in which its peer says nothing"), false);
    return state_ != State::over;
  }
  const std::size_t whole = length->value_or(in_.size() + 1);
  if (whole > options_.message_max) {
    violated(fmt::format("a message of {} octets or more; at most {} are taken", whole, options_.message_max));
    return false;
  }
  if (in_.size() < whole) return false;
  const Bytes body(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(whole));
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(whole));
  ++heard_rounds_;
  note(
      false,
      {.stage = static_cast<std::uint8_t>(stage_), .round = heard_rounds_, .length = static_cast<std::uint32_t>(whole)},
      body);
  await_answer();
  heard_ = true;
  run_turn(body);
  return true;
}

void Session::handle_hello(ConstBytes body) {
  if (role_ != Role::responder || state_ != State::hello) return violated("a Hello where none is expected");
  const auto items = wire::parse_neg_items(body);
  if (!items) return violated(items.error().message());
  for (const wire::NegItem& item : *items) {
    // These texts are shown to people, so unprintable octets are escaped. An escaped name matches no plug-in or
    // variant.
    if (item.type == NegItemType::plugin) request_.plugin = printable(item.text().substr(0, label_max), false);
    if (item.type == NegItemType::variant) request_.variant = printable(item.text().substr(0, label_max), false);
    if (item.type == NegItemType::label) request_.label = printable(item.text().substr(0, label_max), false);
    done_stage_ = done_stage_ || item.type == NegItemType::done_stage;
  }
  record(options_.trace, now_, trace::NegRequested{request_.plugin, request_.variant, request_.label});
  auto made = guarded([this] { return chooser_(request_); });
  if (!made) {
    const std::string_view problem = to_string(made.error().problem);
    record(options_.trace, now_, trace::NegRefused{request_.plugin, request_.variant, problem});
    return fail_with(std::move(made.error()), true);
  }
  if (!*made) return fail_with(here(Problem::plugin_refused, "there is no variant and no error"), true);
  variant_ = std::move(*made);
  state_ = State::talking;
  send(NegType::welcome, {});
  begin_stage(Stage::info);
}

void Session::handle_welcome(ConstBytes body) {
  if (role_ != Role::initiator || welcome_) return violated("a Welcome where none is expected");
  if (const auto items = wire::parse_neg_items(body); !items) return violated(items.error().message());
  welcome_ = true;
  state_ = State::talking;
}

void Session::handle_abort(const NegHeader&, ConstBytes body) {
  Failure why = here(Problem::protocol_violation, "the peer gave up without a reason");
  if (const auto items = wire::parse_neg_items(body))
    for (const wire::NegItem& item : *items) {
      if (item.type == NegItemType::error && item.value.size() == 2) {
        const auto problem = static_cast<Problem>(Reader(item.value).be16());
        if (to_string(problem) != "unknown") why.problem = problem;
      }
      if (item.type == NegItemType::text) why.text = printable(item.text().substr(0, text_max), false);
      if (item.type == NegItemType::advice) why.advice = printable(item.text().substr(0, text_max), false);
    }
  why.by_peer = true;
  fail_with(std::move(why), false);
}

void Session::handle_turn(const NegHeader& header, ConstBytes body) {
  if (state_ != State::talking) return violated("a Turn before the Welcome");
  if (header.stage != static_cast<std::uint8_t>(stage_))
    return violated(
        fmt::format("a Turn of the stage {}; the stage is {}", wire::neg_stage_text(header.stage), to_string(stage_)));
  if (header.round != heard_rounds_ + 1)
    return violated(fmt::format("round {} follows round {}", header.round, heard_rounds_));
  if (heard_last_ && (!header.last() || !body.empty())) return violated("a Turn with data after the peer's last one");
  ++heard_rounds_;
  heard_last_ = header.last();
  if (said_last_ && heard_last_) {
    if (listen(body)) end_stage();
  } else {
    run_turn(body);
  }
}

void Session::begin_stage(Stage stage) {
  record(options_.trace, now_, trace::NegStage{to_string(stage_), to_string(stage)});
  stage_ = stage;
  said_last_ = heard_last_ = false;
  sent_rounds_ = heard_rounds_ = 0;
  const auto asked = guarded([&]() -> Outcome<bool> { return variant_->peer_works(stage); });
  if (!asked) return fail_with(asked.error(), true);
  peer_works_ = *asked;
  await_answer();
  if (role_ == Role::initiator) run_turn(std::nullopt);
}

// Restarts the time limit for the peer's next message.
void Session::await_answer() { answer_deadline_ = peer_works_ ? never : limited(now_, options_.answer_timeout); }

// Handles a message of the peer after this side's last one. False: the session has failed.
bool Session::listen(ConstBytes peer) {
  if (peer.empty()) return true;
  auto said = guarded([&] { return variant_->exchange(stage_, peer); });
  if (!said)
    fail_with(std::move(said.error()), true);
  else if (!said->message.empty())
    fail_with(here(Problem::plugin_refused, "the variant speaks again after it had completed the stage"), true);
  return state_ != State::over;
}

// Gets this side's next message from the variant, and sends it.
void Session::run_turn(std::optional<ConstBytes> peer) {
  if (sent_rounds_ == options_.rounds_max)
    return fail_with(here(Problem::too_many_rounds, fmt::format("{} in one stage", counted(sent_rounds_, "round")),
                          "raise rounds_max if the variant needs more"),
                     true);
  Turn turn{.completed = true};
  if (said_last_) {
    if (!listen(*peer)) return;
  } else {
    auto said = guarded([&] { return variant_->exchange(stage_, peer); });
    if (!said) return fail_with(std::move(said.error()), true);
    turn = std::move(*said);
  }
  if (turn.message.size() > options_.message_max)
    return fail_with(here(Problem::plugin_refused,
                          fmt::format("the variant made a message of {} octets; at most {} go out", turn.message.size(),
                                      options_.message_max),
                          "raise message_max on both sides"),
                     true);
  said_last_ = turn.completed;
  ++sent_rounds_;
  if (framing_ == Framing::parley || !turn.message.empty()) send(NegType::turn, turn.message, said_last_);
  if (said_last_ && (heard_last_ || framing_ == Framing::raw)) end_stage();
}

void Session::end_stage() {
  auto finished = guarded([this] { return variant_->finished(stage_); });
  if (!finished) return fail_with(std::move(finished.error()), true);
  working_ = true;
  work();
}

// Runs the variant's work between stages. When it is done, handles the messages that arrived meanwhile.
void Session::work() {
  auto left = guarded([this] { return variant_->work(stage_, now_); });
  if (!left) return fail_with(std::move(left.error()), true);
  if (*left) {
    if ((*left)->moved || work_at_ == never) answer_deadline_ = limited(now_, options_.answer_timeout);
    // Never due at `now`: a caller that handles all deadlines up to `now` would never finish.
    work_at_ = after(now_, std::max((*left)->again, Duration(1)));
    return;
  }
  const bool resumed = work_at_ != never;
  working_ = false;
  work_at_ = never;
  next_stage();
  if (!resumed) return;  // the caller handles the peer's messages
  handle_messages();
  if (ended_ && state_ != State::over) handle_end(now_, *std::exchange(ended_, std::nullopt));
}

void Session::next_stage() {
  if (stage_ == Stage::info) return begin_stage(Stage::ready);
  if (stage_ == Stage::ready && done_stage_) return begin_stage(Stage::done);
  record(options_.trace, now_, trace::NegStage{to_string(stage_), "over"});
  state_ = State::over;
}

void Session::send(NegType type, ConstBytes body, bool last) {
  const bool turn = type == NegType::turn;
  const NegHeader header{.type = type,
                         .stage = turn ? static_cast<std::uint8_t>(stage_) : std::uint8_t{0},
                         .flags = last ? std::uint8_t{PARLEY_NEG_FLAG_LAST} : std::uint8_t{0},
                         .round = turn ? sent_rounds_ : std::uint16_t{0},
                         .length = static_cast<std::uint32_t>(body.size())};
  if (framing_ == Framing::parley) {
    const std::size_t at = out_.size();
    out_.resize(at + PARLEY_NEG_HEADER_LEN);
    header.emit(MutBytes(out_).subspan(at));
  }
  out_.insert(out_.end(), body.begin(), body.end());
  note(true, header, body);
}

void Session::note(bool sent, const NegHeader& header, ConstBytes body) {
  record(options_.trace, now_,
         trace::NegMessage{.sent = sent,
                           .kind = kind_of(framing_, header.type),
                           .stage = to_string(static_cast<Stage>(header.stage)),
                           .round = header.round,
                           .last = header.last(),
                           .octets = header.length});
  if (options_.history_max == 0) return;
  if (history_.size() == options_.history_max) {
    history_.pop_front();
    ++history_dropped_;
  }
  const ConstBytes head = body.first(std::min(body.size(), options_.history_octets));
  history_.push_back({.at = now_,
                      .stage = static_cast<Stage>(header.stage),
                      .round = header.round,
                      .sent = sent,
                      .last = header.last(),
                      .length = header.length,
                      .head = Bytes(head.begin(), head.end())});
}

Failure Session::here(Problem problem, std::string text, std::string advice) const {
  return {.problem = problem,
          .text = std::move(text),
          .advice = std::move(advice),
          .stage = stage_,
          .round = round_of(stage_, sent_rounds_, heard_rounds_)};
}

void Session::violated(std::string text) {
  fail_with(here(Problem::protocol_violation, std::move(text), "see whether the address and port are the server's"),
            true);
}

void Session::fail_with(Failure why, bool tell_peer) {
  if (why.stage == Stage::none) {
    why.stage = stage_;
    why.round = round_of(stage_, sent_rounds_, heard_rounds_);
  }
  state_ = State::over;
  if (tell_peer && framing_ == Framing::parley) {
    Bytes body, code(2);
    Writer(code).be16(static_cast<std::uint16_t>(why.problem));
    add_neg_item(body, NegItemType::error, ConstBytes(code));
    add_neg_item(body, NegItemType::text, why.text.substr(0, text_max));
    if (!why.advice.empty()) add_neg_item(body, NegItemType::advice, why.advice.substr(0, text_max));
    send(NegType::abort, body);
  }
  failure_ = std::move(why);
}

ConstBytes messages_in(ConstBytes private_data) {
  ConstBytes rest = private_data;
  while (const auto message = NegMessage::parse(rest)) rest = rest.subspan(message->size());
  const bool padding = std::all_of(rest.begin(), rest.end(), [](std::uint8_t octet) { return octet == 0; });
  return padding ? private_data.first(private_data.size() - rest.size()) : private_data;
}

}  // namespace parley::neg
