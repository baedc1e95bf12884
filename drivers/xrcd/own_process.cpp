// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/xrcd/own_process.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <system_error>

#include "parley/result.hpp"

namespace parley::xrc {
namespace {

constexpr std::size_t page = 4096;

}  // namespace

OwnProcess::OwnProcess() : pid_(::getpid()) {
  void* const got = ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return;
  if (::madvise(got, page, MADV_WIPEONFORK) != 0) {
    ::munmap(got, page);
    return;
  }
  page_ = static_cast<std::uint32_t*>(got);
  *page_ = 1;
}
OwnProcess::~OwnProcess() {
  if (page_ != nullptr) ::munmap(page_, page);
}

void OwnProcess::refuse(const char* call) {
  throw std::system_error(make_error_code(Errc::wrong_state),
                          std::string(call) + ": the host belongs to the process of which this one is a fork");
}

}  // namespace parley::xrc
