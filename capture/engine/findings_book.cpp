// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/engine/findings_book.hpp"

namespace parley::capture {

const char* FindingsBook::constant(std::string_view text) {
  if (text.empty()) return nullptr;
  if (const auto it = constants_.find(text); it != constants_.end()) return it->second;
  const std::string& kept = texts_.emplace_back(text);
  return constants_.emplace(kept, kept.c_str()).first->second;
}

void FindingsBook::add(const Finding& f) {
  const std::size_t octets = sizeof(parley_engine_finding) + sizeof(std::string) + sizeof(Frame) + f.text.size();
  if (octets_ + octets > PARLEY_ENGINE_FINDINGS_MAX) return;
  octets_ += octets;
  parley_engine_finding& out = all_.emplace_back();
  out.frame = f.frame;
  out.found = now_;
  out.severity = f.severity == Severity::error     ? PARLEY_ENGINE_ERROR
                 : f.severity == Severity::warning ? PARLEY_ENGINE_WARNING
                                                   : PARLEY_ENGINE_NOTE;
  out.rule = constant(f.key());
  out.quirk = constant(f.quirk);
  out.clause = constant(f.rule);
  out.text = f.text.empty() ? nullptr : keep(f.text);
  Frame& frame = frames_[f.frame];
  if (frame.last == nullptr)
    frame.first = &out;
  else
    frame.last->next = &out;
  frame.last = &out;
  if (f.frame != now_) late_.push_back(&out);
}

const parley_engine_finding* FindingsBook::of(std::uint64_t frame) const {
  const auto it = frames_.find(frame);
  return it == frames_.end() ? nullptr : it->second.first;
}

}  // namespace parley::capture
