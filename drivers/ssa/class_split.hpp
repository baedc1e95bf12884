// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A transport that gives datagrams of class 0x2C to a function, and all others to the Port that receives from it.
#pragma once
#include <functional>
#include <utility>

#include "mad/transport.hpp"

namespace parley::ssa_driver {

class ClassSplit final : public mad::Transport {
 public:
  using Take = std::function<void(const mad::Address& from, ConstBytes mad)>;

  /// `below` must outlive this.
  ClassSplit(mad::Transport& below, Take take) : below_(below), take_(std::move(take)) {}

  const mad::TransportFacts& facts() const override { return below_.facts(); }
  const mad::LocalPort& local() const override { return below_.local(); }
  Result<bool> send(const mad::Address& to, ConstBytes mad) override { return below_.send(to, mad); }
  Result<std::optional<Received>> receive() override {
    for (std::size_t i = 0; i < batch_max; ++i) {
      auto received = below_.receive();
      if (!received || !*received) return received;
      const ConstBytes mad = (*received)->mad;
      if (mad.size() < 2 || mad[1] != static_cast<std::uint8_t>(wire::mad::MgmtClass::ssa)) return received;
      ++taken_;
      // Those that were lost or refused are the machines' own: they have time limits for their answers.
      if (!(*received)->lost && !(*received)->refused) take_((*received)->from, mad);
    }
    return std::nullopt;  // taken() tells that there may be more
  }
  Result<void> serve(const mad::ServedClass& what) override { return below_.serve(what); }
  bool poll_changed() override { return below_.poll_changed(); }
  int fd() const override { return below_.fd(); }
  bool wants_to_send() const override { return below_.wants_to_send(); }

  /// Datagrams of the class since the last call.
  std::size_t taken() { return std::exchange(taken_, 0); }

 private:
  static constexpr std::size_t batch_max = 64;

  mad::Transport& below_;
  Take take_;
  std::size_t taken_ = 0;
};

}  // namespace parley::ssa_driver
