// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A vendor's plug-in in C++ that does what plugin.h forbids: it throws, from every call but open().
#include <stdexcept>

#include "parley/plugin.h"

namespace {

std::int32_t throwing_open(const char*, std::int32_t, const parley_plugin_value*, std::size_t, void** session,
                           parley_plugin_text) {
  static int one;
  *session = &one;
  return PARLEY_PLUGIN_OK;
}
std::int32_t throwing_exchange(void*, std::int32_t, const std::uint8_t*, std::size_t, parley_plugin_turn*,
                               parley_plugin_text) {
  throw std::runtime_error("thrown by exchange");
}
std::int32_t throwing_finished(void*, std::int32_t, parley_plugin_text) {
  throw std::runtime_error("thrown by finished");
}
void throwing_close(void*) { throw std::runtime_error("thrown by close"); }

const parley_plugin_variant variants[] = {
    {.id = "hello", .summary = "throws", .parameters = nullptr, .parameter_count = 0, .has_done_stage = 0}};

}  // namespace

extern "C" __attribute__((visibility("default"))) const parley_plugin_v1 parley_plugin_v1;
const struct parley_plugin_v1 parley_plugin_v1 = {.size = sizeof(struct parley_plugin_v1),
                                                  .abi = PARLEY_PLUGIN_ABI_V1,
                                                  .id = "echo",
                                                  .version = "1.0",
                                                  .variants = variants,
                                                  .variant_count = 1,
                                                  .initialize = nullptr,
                                                  .open = throwing_open,
                                                  .exchange = throwing_exchange,
                                                  .finished = throwing_finished,
                                                  .close = throwing_close};
