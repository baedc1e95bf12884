// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "conform/ibcm/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "conform/ibcm/judge.hpp"

namespace parley::conform::ibcm {

std::vector<const Case*> cases(Iut iut) {
  std::vector<const Case*> out;
  const auto add = [&out](std::initializer_list<std::span<const Case>> tables) {
    for (const auto& table : tables)
      for (const Case& c : table) out.push_back(&c);
  };
  if (iut == Iut::initiator)
    add({asking_cases(), rejected_cases(), leaving_cases(), resolving_cases()});
  else
    add({setup_cases(), request_cases(), datagram_cases(), ending_cases(), sidr_cases(), request_order_cases(),
         request_fault_cases(), alternate_cases()});
  return out;
}

Run::Run(tester::PacketPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks)
    : peer_(peer),
      settings_(settings),
      list_(std::move(list)),
      selection_(std::move(selection)),
      hooks_(std::move(hooks)),
      tester_(peer, settings_) {}

Task<> Run::begin(const Case& what) {
  if (!hooks_.before) co_return;
  // A newly started program sends its own REQ; one that has already arrived is from an earlier program.
  tester_.drop_arrived();
  hooks_.before(what.what);
  co_await peer_.sleep(1us);  // the hook took time; the next input updates the clock
}

Task<std::string> Run::end() {
  co_await tester_.close();
  tester_.clear();
  co_await peer_.sleep(settings_.pause);
  if (!hooks_.after) co_return std::string();
  std::string output = hooks_.after();
  co_await peer_.sleep(1us);
  co_return output;
}

Task<Result> Run::one(const Case& what) {
  Result result{.what = &what.what};
  co_await begin(what);
  result.began = began_ = peer_.now();
  running_ = &what;
  const std::uint64_t before = tester_.heard();
  result.finding = co_await what.ask(tester_);
  // A malformed message from the peer is a failure, not a missing answer (IBA §12.6.1, §13.4.2).
  if (result.finding.verdict == Verdict::inconclusive && !tester_.unreadable().empty())
    result.finding = failed(tester_.unreadable());
  result.took = peer_.now() - result.began;
  result.exchanges = tester_.exchanges();
  // A REQ of the peer that arrived before the case also shows that the peer is there.
  const bool took =
      std::any_of(result.exchanges.begin(), result.exchanges.end(), [](const Exchange& e) { return !e.by_tester; });
  silent_ = tester_.heard() == before && !took && !tester_.nobody_resolves() ? silent_ + 1 : 0;
  result.output = co_await end();
  running_ = nullptr;
  co_return result;
}

Task<> Run::probe(const Case& what) {
  probed_ = true;
  const bool bound = co_await tester_.bind();
  if (!bound) {
    unreachable_ = true;
    why_ = tester_.why();
    co_return;
  }
  co_await begin(what);
  const Link* link = co_await established_link(tester_);
  if (link == nullptr) {
    if (tester_.unreadable().empty()) (tester_.heard() == 0 ? unreachable_ : refused_) = true;
    why_ = tester_.trouble().observed;
  }
  (void)co_await end();
}

std::string Run::left_out(const Case& what) const { return selection_ ? selection_(what.what) : std::string(); }

void Run::add(Result result) {
  results_.push_back(std::move(result));
  if (hooks_.result) hooks_.result(results_.back());
}

void Run::interrupt() {
  peer_.stop();
  interrupted_ = true;
  if (running_ != nullptr) {
    Result result{.what = &running_->what, .finding = {Verdict::not_run, "interrupted"}};
    result.began = began_;
    result.took = peer_.now() - began_;
    result.exchanges = tester_.exchanges();
    if (hooks_.after) result.output = hooks_.after();
    running_ = nullptr;
    add(std::move(result));
  }
  tester_.clear();
  while (results_.size() < list_.size()) {
    const Case& what = *list_[results_.size()];
    std::string why = left_out(what);
    if (why.empty()) why = "the run was ended";
    add({.what = &what.what, .finding = {Verdict::not_run, std::move(why)}});
  }
}

std::string Run::why_not_now() {
  if (unreachable_) return "the peer was never reached";
  if (refused_) return "the peer accepts no connection";
  if (silent_ >= settings_.refused_max) {
    gave_up_ = true;
    why_ = fmt::format("nothing came from it in {} cases", silent_);
    return "the peer was not there any more";
  }
  if (!hooks_.stopped || !hooks_.stopped()) return {};
  interrupted_ = true;
  return "the run was ended";
}

Task<> Run::script() {
  for (const Case* what : list_) {
    Result result{.what = &what->what};
    std::string why = left_out(*what);
    if (why.empty() && !probed_) co_await probe(*what);
    if (why.empty()) why = why_not_now();
    if (why.empty()) {
      result = co_await one(*what);
    } else {
      result.finding = {Verdict::not_run, why};
    }
    add(std::move(result));
  }
}

}  // namespace parley::conform::ibcm
