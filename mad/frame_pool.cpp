// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/frame_pool.hpp"

#include <new>

namespace parley::mad {

namespace {
constexpr std::size_t block_octets = 64 * 1024;
}

void* FramePool::take(FramePool* pool, std::size_t octets) {
  static_assert(sizeof(Header) % __STDCPP_DEFAULT_NEW_ALIGNMENT__ == 0);
  octets += sizeof(Header);
  const std::size_t size_class = (octets + step - 1) / step;
  std::byte* memory;
  if (pool == nullptr || size_class >= classes) {
    memory = static_cast<std::byte*>(::operator new(octets));
    pool = nullptr;
  } else {
    if (pool->free_[size_class] == nullptr) pool->refill(size_class);
    Free* first = pool->free_[size_class];
    pool->free_[size_class] = first->next;
    ++pool->in_use_;
    memory = reinterpret_cast<std::byte*>(first);
  }
  new (memory) Header{pool, size_class};
  return memory + sizeof(Header);
}

void FramePool::give_back(void* frame) noexcept {
  std::byte* memory = static_cast<std::byte*>(frame) - sizeof(Header);
  const Header header = *reinterpret_cast<const Header*>(memory);
  if (header.pool == nullptr) return ::operator delete(memory);
  --header.pool->in_use_;
  header.pool->free_[header.size_class] = new (memory) Free{header.pool->free_[header.size_class]};
}

void FramePool::refill(std::size_t size_class) {
  const std::size_t octets = size_class * step, count = block_octets / octets;
  blocks_.push_back(std::make_unique<std::byte[]>(octets * count));
  for (std::size_t i = count; i-- > 0;)
    free_[size_class] = new (blocks_.back().get() + i * octets) Free{free_[size_class]};
}

}  // namespace parley::mad
