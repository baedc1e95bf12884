// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Raw exchanges of programs that write and read in turn: in each step the initiator sends a message of known length, and the
// responder answers with one of the same length.
#pragma once
#include <functional>
#include <vector>

#include "parley/neg.hpp"

namespace parley::neg {

class Lockstep : public Variant {
 public:
  explicit Lockstep(Role role) : role_(role) {}
  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override;
  Outcome<std::optional<std::size_t>> message_length(Stage stage, ConstBytes begun) override;

 protected:
  struct Step {
    std::size_t length = 0;  ///< octets of each message
    std::function<Bytes()> say;
    std::function<Outcome<void>(ConstBytes)> take;
    bool answered = true;  ///< false, only for the last step of a stage: the responder does not answer
  };
  /// Called at the start of the stage.
  virtual std::vector<Step> steps(Stage stage) = 0;
  Role role() const { return role_; }

 private:
  void enter(Stage stage);
  Role role_;
  Stage stage_ = Stage::none;
  std::vector<Step> steps_;
  std::size_t at_ = 0;
};

}  // namespace parley::neg
