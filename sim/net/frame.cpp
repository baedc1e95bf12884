// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/frame.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace parley::sim {

FramePool::~FramePool() = default;

void FrameReturn::operator()(Frame* frame) const { frame->pool->give_back(frame); }

FramePtr FramePool::take(std::size_t size) {
  std::uint8_t size_class = 0;
  while (size_class < class_octets.size() && class_octets[size_class] < size) ++size_class;
  if (size_class == class_octets.size()) return nullptr;
  Frame* frame = nullptr;
  if (std::vector<Frame*>& free = free_[size_class]; !free.empty()) {
    frame = free.back();
    free.pop_back();
  } else {
    static_assert(alignof(Frame) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    blocks_.push_back(std::unique_ptr<std::uint8_t[]>(new std::uint8_t[sizeof(Frame) + class_octets[size_class]]));
    frame = new (blocks_.back().get()) Frame;
    frame->pool = this;
    frame->capacity = class_octets[size_class];
    frame->size_class = size_class;
  }
  frame->id = ++serial_;
  frame->size = static_cast<std::uint32_t>(size);
  frame->altered = false;
  peak_ = std::max(peak_, ++out_);
  return FramePtr(frame);
}

FramePtr FramePool::copy(const Frame& frame) {
  FramePtr result = take(frame.size);
  --serial_;  // a copy does not count as a new frame
  result->id = frame.id;
  result->altered = frame.altered;
  std::memcpy(result->data(), frame.data(), frame.size);
  return result;
}

void FramePool::give_back(Frame* frame) {
  --out_;
  free_[frame->size_class].push_back(frame);
}

}  // namespace parley::sim
