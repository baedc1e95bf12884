// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/run.hpp"

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
      case Verdict::fail: ++(counts_as_failed(r, strict) ? t.failed : t.should_failed); break;
      case Verdict::inconclusive: ++t.inconclusive; break;
      case Verdict::not_run: ++t.not_run; break;
    }
  }
  return t;
}

Run::Run(peer::Stage& stage, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks)
    : stage_(stage),
      settings_(settings),
      list_(std::move(list)),
      selection_(std::move(selection)),
      hooks_(std::move(hooks)),
      bench_(stage, settings_) {}

// Both halves are closed in order where the peer plays along; what is left open then is reset.
Task<> Run::close() {
  const bool open = bench_.finish();
  if (open) co_await stage_.until([this] { return bench_.all_over(); }, 300ms);
  bench_.clear();
}

Task<Result> Run::one(const Case& what) {
  Result result{.what = &what};
  // A program that is started anew makes a connection of its own; what waits is a late retry.
  if (hooks_.before) stage_.drop_waiting();
  if (hooks_.before) {
    hooks_.before(what);
    co_await stage_.sleep(1us);  // the hook took time, of which the stage learns at its next input
  }
  result.began = began_ = stage_.now();
  running_ = &what;
  result.finding = co_await what.run(bench_);
  result.took = stage_.now() - result.began;
  bench_.note_rest();
  result.exchanges = std::move(bench_.exchanges());
  co_await close();
  co_await stage_.sleep(settings_.pause);
  if (hooks_.after) {
    result.output = hooks_.after();
    co_await stage_.sleep(1us);
  }
  running_ = nullptr;
  co_return result;
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
  stage_.stop();
  interrupted_ = true;
  if (running_ != nullptr) {
    Result result{.what = running_, .finding = {Verdict::not_run, "interrupted"}};
    result.began = began_;
    result.took = stage_.now() - began_;
    bench_.note_rest();
    result.exchanges = std::move(bench_.exchanges());
    if (hooks_.after) result.output = hooks_.after();
    running_ = nullptr;
    add(std::move(result));
  }
  bench_.clear();
  while (results_.size() < list_.size()) {
    const Case* what = list_[results_.size()];
    std::string why = left_out(*what);
    if (why.empty()) why = "the run was ended";
    add({.what = what, .finding = {Verdict::not_run, std::move(why)}});
  }
}

Task<> Run::script() {
  unsigned refused = 0;
  for (const Case* what : list_) {
    Result result{.what = what};
    std::string why = left_out(*what);
    if (why.empty() && refused >= settings_.refused_max) {
      why = fmt::format("the peer was not there for the last {} cases", refused);
      gave_up_ = true;
    }
    if (why.empty() && hooks_.stopped && hooks_.stopped()) why = "the run was ended";
    if (!why.empty()) {
      result.finding = {Verdict::not_run, why};
    } else {
      tried_ = true;
      result = co_await one(*what);
      // Some peers leave an FPDU unread now and then; what rests on silence alone is asked once more.
      if (result.finding.silent) {
        Result again = co_await one(*what);
        if (again.finding.verdict != Verdict::inconclusive) result = std::move(again);
      }
      const bool there = !result.exchanges.empty();
      reached_ = reached_ || there;
      if (!there) why_ = result.finding.observed;
      refused = there ? 0 : refused + 1;
    }
    add(std::move(result));
  }
}

}  // namespace parley::conform
