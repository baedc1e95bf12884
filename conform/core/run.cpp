// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/core/run.hpp"

#include <fmt/format.h>

namespace parley::conform {

bool counts_as_failed(const Result& result, bool strict) {
  return result.finding.verdict == Verdict::fail && (strict || result.what->level == Level::must);
}

Tally tally(const std::vector<Result>& results, bool strict) {
  Tally t;
  for (const Result& r : results) {
    switch (r.finding.verdict) {
      case Verdict::pass: ++t.passed; break;
      case Verdict::fail:
        ++(counts_as_failed(r, strict) ? t.failed : r.what->level == Level::should ? t.should_failed : t.may_failed);
        break;
      case Verdict::inconclusive: ++t.inconclusive; break;
      case Verdict::not_run: ++t.not_run; break;
    }
  }
  return t;
}

Run::Run(tester::ScriptedPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks)
    : peer_(peer),
      settings_(settings),
      list_(std::move(list)),
      selection_(std::move(selection)),
      hooks_(std::move(hooks)),
      tester_(peer, settings_) {}

// Both halves are closed gracefully if the peer cooperates; connections that stay open are reset.
Task<> Run::close() {
  const bool open = tester_.finish();
  if (open) co_await peer_.until([this] { return tester_.all_over(); }, 300ms);
  tester_.clear();
}

Task<> Run::begin(const Case& what) {
  if (!hooks_.before) co_return;
  // A newly started program opens its own connection; a waiting one is a late retry of an earlier program.
  peer_.drop_waiting();
  hooks_.before(what);
  co_await peer_.sleep(1us);  // the hook took time; the next input updates the clock
}

Task<std::string> Run::end() {
  co_await close();
  co_await peer_.sleep(settings_.pause);
  if (!hooks_.after) co_return std::string();
  std::string output = hooks_.after();
  co_await peer_.sleep(1us);
  co_return output;
}

Task<Result> Run::one(const Case& what) {
  Result result{.what = &what};
  co_await begin(what);
  result.began = began_ = peer_.now();
  running_ = &what;
  result.finding = co_await what.run(tester_);
  result.took = peer_.now() - result.began;
  tester_.note_rest();
  result.exchanges = std::move(tester_.exchanges());
  result.output = co_await end();
  running_ = nullptr;
  co_return result;
}

// Each form on its own connection, with the program restarted before each: it may serve only one.
Task<> Run::ask_for_set_up(const Case& what) {
  if (asked_for_set_up_ || tester_.initiator()) co_return;
  asked_for_set_up_ = true;
  for (unsigned form = 0; form < Tester::form_count && !tester_.accepted(); ++form) {
    co_await begin(what);
    co_await tester_.ask_form(form);
    (void)co_await end();
  }
}

// A server for another protocol also closes on a wrong Request, or answers it with octets that are not a Reply. Such a
// result says nothing about MPA.
Task<Result> Run::judged(const Case& what) {
  Result result = co_await one(what);
  const auto told = [&result] {
    return result.finding.verdict == Verdict::pass || result.finding.verdict == Verdict::fail;
  };
  if (told() && !tester_.accepted()) co_await ask_for_set_up(what);
  if (told() && !tester_.accepted()) {
    result.finding = {Verdict::inconclusive,
                      result.finding.observed + "; but no valid Request was accepted either, so this is inconclusive"};
  }
  // Some peers occasionally leave an FPDU unread: repeat a case whose result rests on silence alone.
  if (!result.finding.silent) co_return result;
  Result again = co_await one(what);
  co_return again.finding.verdict != Verdict::inconclusive ? std::move(again) : std::move(result);
}

std::string Run::why_foreign() const {
  if (!reached_ || interrupted_ || tester_.accepted()) return {};
  return tester_.instead();
}

std::string Run::left_out(const Case& what) const {
  std::string why = selection_ ? selection_(what) : std::string();
  if (why.empty() && what.run == nullptr) why = std::string(what.expected);
  return why;
}

void Run::add(Result result) {
  results_.push_back(std::move(result));
  if (hooks_.result) hooks_.result(results_.back());
}

void Run::interrupt() {
  peer_.stop();
  interrupted_ = true;
  if (running_ != nullptr) {
    Result result{.what = running_, .finding = {Verdict::not_run, "interrupted"}};
    result.began = began_;
    result.took = peer_.now() - began_;
    tester_.note_rest();
    result.exchanges = std::move(tester_.exchanges());
    if (hooks_.after) result.output = hooks_.after();
    running_ = nullptr;
    add(std::move(result));
  }
  tester_.clear();
  while (results_.size() < list_.size()) {
    const Case* what = list_[results_.size()];
    std::string why = left_out(*what);
    if (why.empty()) why = "the run was ended";
    add({.what = what, .finding = {Verdict::not_run, std::move(why)}});
  }
}

std::string Run::why_not_now(unsigned refused, unsigned ran) {
  // A peer that was never reached is reported at once. A program restarted for each case may be slow to start.
  if (!reached_ && refused > 0 && !tester_.initiator() && !hooks_.before) return "the peer was never reached";
  if (refused >= settings_.refused_max) {
    gave_up_ = true;
    return fmt::format("the peer was not there for the last {} cases", refused);
  }
  if (ran >= settings_.foreign_max && tester_.foreign() && !tester_.spoke_mpa()) return "the peer does not speak MPA";
  if (!hooks_.stopped || !hooks_.stopped()) return {};
  interrupted_ = true;
  return "the run was ended";
}

Task<> Run::script() {
  unsigned refused = 0, ran = 0;
  const Case* last = nullptr;
  for (const Case* what : list_) {
    Result result{.what = what};
    std::string why = left_out(*what);
    if (why.empty()) why = why_not_now(refused, ran);
    if (!why.empty()) {
      result.finding = {Verdict::not_run, why};
    } else {
      tried_ = true;
      result = co_await judged(*what);
      const bool there = !result.exchanges.empty();
      reached_ = reached_ || there;
      if (!there) why_ = result.finding.observed;
      refused = there ? 0 : refused + 1;
      ++ran;
      last = what;
      if (ran == settings_.foreign_max && reached_ && !tester_.accepted()) co_await ask_for_set_up(*what);
    }
    add(std::move(result));
  }
  // If no case had a result, the peer may not speak MPA at all.
  if (last != nullptr && reached_ && !gave_up_ && !interrupted_ && !tester_.accepted()) co_await ask_for_set_up(*last);
}

}  // namespace parley::conform
