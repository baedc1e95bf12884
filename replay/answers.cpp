// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/answers.hpp"

#include <algorithm>
#include <optional>

namespace parley::replay {
namespace {

using wire::RdmapOpcode;

constexpr std::size_t looked_at_max = 256;  // requests after one gap whose answers may be lost

/// Reads or Atomics of a connection; the two are paired separately.
struct Kinds {
  RdmapOpcode request, response;
};

class Pairing {
 public:
  Pairing(const SideRecord& answering, const SideRecord& asking, const Kinds& kinds)
      : answering_(answering), asking_(asking), kinds_(kinds) {
    for (std::size_t i = 0; i < asking.items.size(); ++i)
      if (asking.items[i].is(kinds.request) && names_known(asking.items[i])) requests_.push_back(i);
    for (std::size_t i = 0; i < answering.items.size(); ++i) {
      if (answering.items[i].kind == Item::Kind::gap) gaps_.push_back(i);
      if (answering.items[i].is(kinds.response)) responses_.push_back(i);
    }
  }

  void run(Answers& out) {
    // The rest of a split response is not a separate answer, so find it before counting the answers.
    for (std::size_t n = 1; n < responses_.size(); ++n) {
      const Item &head = at(responses_[n - 1]), &rest = at(responses_[n]);
      if (head.cut && rest.after_gap && rest.header.tagged && rest.header.stag == head.header.stag &&
          rest.header.to > head.header.to) {
        out.rest_of[responses_[n - 1]] = responses_[n];
        out.rests.insert(responses_[n]);
      }
    }
    std::erase_if(responses_, [&out](std::size_t i) { return out.rests.contains(i); });
    std::size_t next = 0;
    for (std::size_t n = 0; n < responses_.size() && next < requests_.size(); ++n) {
      const auto found = request_for(n, next);
      if (!found) continue;
      for (; next < *found; ++next) owe(requests_[next], out);
      out.request_of[responses_[n]] = requests_[*found];
      answered_until_ = at(responses_[n]).last_step;
      next = *found + 1;
    }
    for (; next < requests_.size(); ++next) owe(requests_[next], out);
  }

 private:
  const Item& at(std::size_t item) const { return answering_.items[item]; }

  // Items are ordered by their ends, and a gap is one step, so the steps of gaps are in order.
  bool gap_before(std::size_t response) const {
    const auto gap = std::lower_bound(gaps_.begin(), gaps_.end(), answered_until_,
                                      [this](std::size_t g, std::size_t step) { return at(g).first_step < step; });
    return gap != gaps_.end() && at(*gap).first_step < at(response).first_step;
  }

  bool fits(const Item& response, const Item& request) const {
    if (kinds_.response == RdmapOpcode::atomic_response) {
      const auto a = wire::AtomicRequest::parse(request.payload);
      const auto r = wire::AtomicResponse::parse(response.payload);
      return a && r && a->request_id == r->request_id;
    }
    const auto q = wire::ReadRequest::parse(request.payload);
    if (!q || response.header.stag != q->sink_stag) return false;
    return response.header.to == q->sink_to ||
           (response.after_gap && response.header.to > q->sink_to && response.header.to - q->sink_to < q->size);
  }

  /// The n-th response answers the next request. After a gap it answers the last request that it fits and that leaves
  /// enough requests for later responses: if a program always reads into the same place, there is no other evidence.
  std::optional<std::size_t> request_for(std::size_t n, std::size_t next) const {
    const Item& response = at(responses_[n]);
    if (!gap_before(responses_[n])) return next;
    const std::size_t after = responses_.size() - n;  // including this one
    if (requests_.size() < next + after) return next;
    const auto received =
        std::upper_bound(requests_.begin(), requests_.end(), response.first.peer_received,
                         [this](std::uint64_t end, std::size_t r) { return end < asking_.items[r].end; });
    std::size_t r = std::min(requests_.size() - after + 1, static_cast<std::size_t>(received - requests_.begin()));
    for (std::size_t looked = 0; r > next && looked < looked_at_max; ++looked)
      if (fits(response, asking_.items[requests_[--r]])) return r;
    return next;
  }

  void owe(std::size_t request, Answers& out) {
    // Requests come in order, so a gap that is too early for one is too early for all after it.
    while (gap_ < gaps_.size() && (at(gaps_[gap_]).first_step < answered_until_ ||
                                   asking_.items[request].end > at(gaps_[gap_]).first.peer_received))
      ++gap_;
    if (gap_ < gaps_.size()) out.owed_at[at(gaps_[gap_]).first_step].push_back(request);
  }

  const SideRecord &answering_, &asking_;
  Kinds kinds_;
  std::vector<std::size_t> requests_, responses_, gaps_;  // items, in order
  std::size_t answered_until_ = 0;                        // step of the answering side
  std::size_t gap_ = 0;                                   // index into gaps_: the first in which an answer may be lost
};

/// Size of the head of a request that gives the place and the size; 0 for other messages.
std::size_t names_size(const Item& item) {
  return item.is(RdmapOpcode::read_request)     ? PARLEY_RDMAP_READ_REQUEST_LEN
         : item.is(RdmapOpcode::atomic_request) ? PARLEY_RDMAP_ATOMIC_REQUEST_LEN
                                                : 0;
}

}  // namespace

bool names_known(const Item& item) {
  return item.kind == Item::Kind::message && item.whole && !item.headless && item.payload.size() >= names_size(item) &&
         !names_lost(item);
}

bool names_lost(const Item& item) {
  return item.kind == Item::Kind::message && !item.unknown.empty() && item.unknown.front().first < names_size(item);
}

Answers pair_answers(const SideRecord& answering, const SideRecord& asking) {
  Answers out;
  for (const Kinds& kinds : {Kinds{RdmapOpcode::read_request, RdmapOpcode::read_response},
                             Kinds{RdmapOpcode::atomic_request, RdmapOpcode::atomic_response}})
    Pairing(answering, asking, kinds).run(out);
  for (auto& [step, requests] : out.owed_at) std::sort(requests.begin(), requests.end());
  return out;
}

}  // namespace parley::replay
