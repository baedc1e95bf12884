// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Raw exchanges of programs that write and read in turn: in each step the initiator says something of a known length, and
// the responder answers with as much.
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
    std::size_t length = 0;  ///< octets that each says
    std::function<Bytes()> say;
    std::function<Outcome<void>(ConstBytes)> take;
    bool answered = true;  ///< false, for the last step of a stage only: the initiator says it and that is all
  };
  /// Asked for when the stage begins.
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
