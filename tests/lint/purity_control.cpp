// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Never run. It does once each thing that a pure room must not do, so that lint.purity can be seen to find them.
#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

namespace control {

extern const int harmless_table[3];
const int harmless_table[3] = {1, 2, 3};
int calls_so_far = 0;

long clock() { return std::chrono::steady_clock::now().time_since_epoch().count() + ++calls_so_far; }
int socket() { return ::socket(AF_INET, SOCK_STREAM, 0); }
void thread() {
  std::thread([] {}).join();
}
bool file(const char* name) { return std::fopen(name, "r") != nullptr; }
unsigned entropy() { return std::random_device{}(); }

}  // namespace control
