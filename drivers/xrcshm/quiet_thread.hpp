// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#pragma once
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace parley::xrc {

/// A thread in a program that does not know of it: all signals are blocked. Not joinable: the thread could not be
/// created.
template <class Work>
std::thread quiet_thread(Work work) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  struct Restore {
    const sigset_t& mask;
    ~Restore() { ::pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } const restore{before};
  try {
    return std::thread(std::move(work));
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace parley::xrc
