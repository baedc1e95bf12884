// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The functions of parley_engine.h. They throw nothing.
#include <new>

#include "capture/engine/engine.hpp"
#include "wire/ib/packet.hpp"

struct parley_engine {
  parley::capture::Engine engine;
};

namespace {

template <class Work>
parley_engine_status guarded(parley_engine* engine, const Work& work) noexcept {
  if (engine->engine.gave_up()) return PARLEY_ENGINE_NO_MEMORY;
  try {
    work();
    return PARLEY_ENGINE_OK;
  } catch (...) {  // only std::bad_alloc is expected
    engine->engine.give_up();
    return PARLEY_ENGINE_NO_MEMORY;
  }
}

}  // namespace

parley_engine* parley_engine_open(const parley_engine_options* options) noexcept {
  try {
    return new parley_engine{parley::capture::Engine(*options)};
  } catch (...) {
    return nullptr;
  }
}

void parley_engine_close(parley_engine* engine) noexcept { delete engine; }

const parley_engine_finding* parley_engine_findings(const parley_engine* engine, uint64_t frame) noexcept {
  return engine->engine.findings().of(frame);
}

parley_engine_status parley_engine_finish(parley_engine* engine) noexcept {
  return guarded(engine, [engine] { engine->engine.finish(); });
}

parley_engine_status parley_engine_roce(parley_engine* engine, const parley_engine_packet* packet,
                                        parley_engine_place* out) noexcept {
  *out = parley_engine_place{};
  const parley_engine_status status = guarded(engine, [&] { engine->engine.roce(*packet, *out); });
  const auto& late = engine->engine.findings().late();
  out->late = late.data();
  out->late_count = late.size();
  return status;
}

bool parley_engine_icrc(const parley_engine_packet* packet, uint32_t* out) noexcept {
  const parley_engine_packet& p = *packet;
  if (!p.plain || p.end > p.captured || p.below > p.bth || p.bth + PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN > p.end)
    return false;
  try {
    const auto due = parley::wire::ib::icrc({p.octets + p.below, p.bth - p.below},
                                            {p.octets + p.bth, p.end - p.bth - PARLEY_IB_ICRC_LEN});
    if (due) *out = *due;
    return due.has_value();
  } catch (...) {
    return false;
  }
}

size_t parley_engine_connections(const parley_engine* engine) noexcept { return engine->engine.connections().size(); }

const parley_engine_connection* parley_engine_connection_at(const parley_engine* engine, size_t index) noexcept {
  return &engine->engine.connections()[index];
}
