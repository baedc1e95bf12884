// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queue pairs in memory, for tests of variants: they move through the states of verbs, refuse what verbs refuses, and
// carry messages between those that name each other.
#pragma once
#include <deque>
#include <map>

#include "parley/neg_qp.hpp"
#include "parley/qp.hpp"
#include "tests/unit/cm/neg_net.hpp"

namespace parley::neg::kit {

struct Fabric {
  struct Qp {
    QpState state = QpState::reset;
    QpAttributes own{}, peer{};
    Transport transport{};
    std::deque<Bytes> arrived;
  };
  std::map<std::uint32_t, Qp> qps;
  std::uint32_t next = 0x11;
  bool tests = true, drops = false, garbles = false;
  int hides = 0;      ///< looks at which a message that is there has not come yet
  std::string fails;  ///< the call that fails: "open", "rtr", "rts", "send", "take"
  std::array<std::uint8_t, 16> gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

  Outcome<void> call(std::string_view name) const {
    if (fails != name) return {};
    return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = std::string(name) + " failed"});
  }
  QpDrivers drivers() {
    return {.name = "fabric", .make = [this](Transport transport, const Config&) -> Outcome<std::unique_ptr<QpDriver>> {
              return std::make_unique<Driver>(*this, transport);
            }};
  }

  class Driver final : public QpDriver {
   public:
    Driver(Fabric& fabric, Transport transport) : fabric_(fabric), transport_(transport) {}
    ~Driver() override { fabric_.qps.erase(qpn_); }
    Outcome<QpAttributes> open() override {
      if (auto fine = fabric_.call("open"); !fine) return tl::unexpected(fine.error());
      qpn_ = fabric_.next++;
      Qp& qp = fabric_.qps[qpn_];
      qp.state = QpState::init;
      qp.transport = transport_;
      qp.own = {.qpn = qpn_,
                .psn = 0xABC000 + qpn_,
                .gid = fabric_.gid,
                .mtu = qpn_ % 2 == 0 ? 2048U : 1024U,
                .ird = static_cast<std::uint8_t>(qpn_ % 8),
                .ord = 16,
                .qkey = 7,
                .srqn = 5,
                .ini_qpn = 6,
                .rkey = 0x1234,
                .vaddr = 0x7F0000001000,
                .length = 4096};
      return qp.own;
    }
    Outcome<void> to_rtr(const QpPair& pair) override {
      EXPECT_EQ(qp().state, QpState::init);
      qp().state = QpState::rtr;
      qp().peer = pair.peer;
      return fabric_.call("rtr");
    }
    Outcome<void> to_rts(const QpPair&) override {
      EXPECT_EQ(qp().state, QpState::rtr);
      qp().state = QpState::rts;
      return fabric_.call("rts");
    }
    bool can_test() const override { return fabric_.tests; }
    Outcome<void> send_test(ConstBytes message) override {
      EXPECT_EQ(qp().state, QpState::rts);
      const auto to = fabric_.qps.find(qp().peer.qpn);
      if (to == fabric_.qps.end() || to->second.state < QpState::rtr)
        return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = "retries exceeded"});
      if (!fabric_.drops) to->second.arrived.emplace_back(message.begin(), message.end());
      if (fabric_.garbles) to->second.arrived.back().back() ^= 1;
      return fabric_.call("send");
    }
    Outcome<std::optional<Bytes>> take_test() override {
      if (auto fine = fabric_.call("take"); !fine) return tl::unexpected(fine.error());
      if (qp().arrived.empty() || fabric_.hides-- > 0) return std::nullopt;
      Bytes out = std::move(qp().arrived.front());
      qp().arrived.pop_front();
      return out;
    }

   private:
    Qp& qp() { return fabric_.qps.at(qpn_); }
    Fabric& fabric_;
    Transport transport_;
    std::uint32_t qpn_ = 0;
  };
};

}  // namespace parley::neg::kit
