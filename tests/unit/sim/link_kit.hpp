// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Links and switches between nodes that only keep what they get, and a tap that keeps what it is told.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/net/link.hpp"
#include "sim/net/switch.hpp"

namespace parley::sim::testing_links {

using namespace std::chrono_literals;

inline Instant at(std::int64_t ns) { return Instant(Duration(ns)); }

struct Sink final : Node {
  Sink(Engine& its_engine, NodeId its_id, std::string its_name)
      : engine(its_engine), id_(its_id), name_(std::move(its_name)) {}
  NodeId id() const override { return id_; }
  const std::string& name() const override { return name_; }
  void receive(std::uint16_t port, FramePtr frame) override {
    arrivals.push_back({engine.now(), port, frame->id, frame->size, Bytes(frame->data(), frame->data() + frame->size)});
  }
  std::string_view would_discard(std::uint16_t, const Frame& frame, DropReason& reason) const override {
    if (frame.size != discarded_size) return {};
    reason = DropReason::discarded;
    return "not wanted";
  }
  void on_event(std::uint32_t, std::uint64_t) override {}

  struct Arrival {
    Instant at;
    std::uint16_t port;
    std::uint64_t id;
    std::uint32_t size;
    Bytes octets;
  };
  std::vector<std::int64_t> times() const {
    std::vector<std::int64_t> out;
    for (const Arrival& a : arrivals) out.push_back(a.at.time_since_epoch().count());
    return out;
  }
  std::vector<std::uint64_t> ids() const {
    std::vector<std::uint64_t> out;
    for (const Arrival& a : arrivals) out.push_back(a.id);
    return out;
  }
  Engine& engine;
  std::vector<Arrival> arrivals;
  std::uint32_t discarded_size = 0;

 private:
  NodeId id_;
  std::string name_;
};

struct Seen final : Tap {
  struct Record {
    Instant at;
    LinkId link;
    int end;
    bool outbound;
    std::uint64_t id;
    Bytes octets;
    DropReason drop;
    std::string note;
  };
  void on_frame(const TapFrame& f) override {
    frames.push_back({f.at, f.link, f.end, f.outbound, f.frame_id, Bytes(f.octets.begin(), f.octets.end()), f.drop,
                      std::string(f.note)});
  }
  void on_note(Instant when, NodeId host, NoteKind, std::string_view text) override {
    notes.push_back(std::to_string(when.time_since_epoch().count()) + " " + std::to_string(host) + " " +
                    std::string(text));
  }
  std::vector<Record> frames;
  std::vector<std::string> notes;
};

struct Scheduled final : HostActions {
  void schedule(Instant when, const FaultRule& rule) override { actions.emplace_back(when, rule.action); }
  std::vector<std::pair<Instant, FaultAction>> actions;
};

/// Nodes a and b and one link between them.
class Wire {
 public:
  explicit Wire(const LinkOptions& options = {}, std::uint64_t seed = 1)
      : forward(engine, scheduled, 0, 0, options, true, Rng(seed)),
        backward(engine, scheduled, 0, 1, options, true, Rng(seed + 1)) {
    forward.connect(b, 0, backward);
    backward.connect(a, 0, forward);
  }
  FramePtr frame(std::size_t size) {
    FramePtr frame = engine.frames.take(size);
    for (std::size_t i = 0; i < size; ++i) frame->data()[i] = static_cast<std::uint8_t>(i);
    return frame;
  }
  std::uint64_t send(std::size_t size) { return send(frame(size)); }
  std::uint64_t send(FramePtr frame) {
    const std::uint64_t id = frame->id;
    forward.transmit(std::move(frame));
    return id;
  }
  void run() {
    while (engine.step(never)) {
    }
  }

  Engine engine;
  Scheduled scheduled;
  Sink a{engine, 0, "a"}, b{engine, 1, "b"};
  LinkWay forward, backward;
};

}  // namespace parley::sim::testing_links
