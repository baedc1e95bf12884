// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Variants and plug-ins for tests of the negotiation, and two sessions that talk to each other.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parley/neg_session.hpp"
#include "wire/neg.hpp"

namespace parley::neg::kit {

inline Bytes octets(std::string_view text) { return {text.begin(), text.end()}; }
inline std::string words(ConstBytes octets) { return {octets.begin(), octets.end()}; }

/// Says what a function says, and keeps what it hears: "info <hello", "info finished".
class Scripted : public Variant {
 public:
  using Play = std::function<Outcome<Turn>(Stage stage, int turn, std::optional<ConstBytes> peer)>;
  struct Log {
    std::vector<std::string> lines;
  };
  Scripted(Play play, std::shared_ptr<Log> log, bool done_stage = false)
      : play_(std::move(play)), log_(std::move(log)), done_stage_(done_stage) {}

  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override {
    if (stage != stage_) turn_ = 0;
    stage_ = stage;
    if (peer) log_->lines.push_back(std::string(to_string(stage)) + " <" + words(*peer));
    return play_(stage, turn_++, peer);
  }
  Outcome<void> finished(Stage stage) override {
    log_->lines.push_back(std::string(to_string(stage)) + " finished");
    return {};
  }
  bool has_done_stage() const override { return done_stage_; }

 private:
  Play play_;
  std::shared_ptr<Log> log_;
  bool done_stage_;
  Stage stage_ = Stage::none;
  int turn_ = 0;
};

/// One message in each stage: its stage and name.
inline Scripted::Play one_message(std::string name) {
  return [name](Stage stage, int turn, std::optional<ConstBytes>) -> Outcome<Turn> {
    return Turn{turn == 0 ? octets(name + " " + std::string(to_string(stage))) : Bytes{}, true};
  };
}

/// Both ends over a wire that delivers `chunk` octets at a time.
struct Pair {
  std::shared_ptr<Scripted::Log> a_log = std::make_shared<Scripted::Log>(), b_log = std::make_shared<Scripted::Log>();
  std::optional<Session> a, b;
  Instant now{};
  Bytes to_a, to_b;

  void begin(Scripted::Play a_plays, Scripted::Play b_plays, bool done_stage = false,
             const SessionOptions& options = {}) {
    auto made = Session::initiate({.plugin = "acme", .variant = "rc", .label = "test"},
                                  std::make_unique<Scripted>(std::move(a_plays), a_log, done_stage), options, now);
    ASSERT_TRUE(made) << made.error().to_string();
    a.emplace(std::move(*made));
    b.emplace(*Session::respond(
        [this, play = std::move(b_plays)](const Request&) -> Outcome<std::unique_ptr<Variant>> {
          return std::make_unique<Scripted>(play, b_log);
        },
        options, now));
  }
  void collect() {
    const Bytes from_a = a->poll_transmit(), from_b = b->poll_transmit();
    to_b.insert(to_b.end(), from_a.begin(), from_a.end());
    to_a.insert(to_a.end(), from_b.begin(), from_b.end());
  }
  bool deliver(Session& to, Bytes& queue, std::size_t chunk) {
    if (queue.empty()) return false;
    const std::size_t n = std::min(chunk, queue.size());
    const Bytes part(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(n));
    queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(n));
    to.handle_bytes(now, part);
    return true;
  }
  /// Until nothing moves.
  void run(std::size_t chunk = 1 << 20) {
    for (collect(); deliver(*b, to_b, chunk) || deliver(*a, to_a, chunk);) collect();
  }
};

}  // namespace parley::neg::kit
