// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queue pairs in memory, for tests of variants: they move through the states of verbs, refuse what verbs refuses, and
// carry messages between those that name each other.
#pragma once
#include <algorithm>
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
    Bytes memory;                                            // of those that play
    std::deque<std::pair<std::size_t, std::size_t>> posted;  // receives: where, how long
    std::deque<Bytes> unreceived;
    std::deque<WorkCompletion> completed;
  };
  std::map<std::uint32_t, Qp> qps;
  std::uint32_t next = 0x11;
  bool tests = true, drops = false, garbles = false;
  int hides = 0;           ///< looks at which a message that is there has not come yet
  std::string fails;       ///< the call that fails: "open", "rtr", "rts", "send", "take"
  bool plays = false;      ///< they have memory and a DataPath
  std::size_t lose = 0;    ///< the message of this number, of all, is lost
  std::size_t alters = 0;  ///< the last octet of the message of this number, of all, changes
  std::size_t cuts = 0;    ///< that message lacks its last octet
  int strangers = 0;       ///< test messages of others that come first
  std::size_t breaks = 0;  ///< the request of this number, of all, fails
  std::size_t slow = 0;    ///< one look of so many finds a completion; 0: all find all
  std::size_t requests = 0;
  std::vector<Config> configs;  ///< of each that was made
  std::array<std::uint8_t, 16> gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

  Outcome<void> call(std::string_view name) const {
    if (fails != name) return {};
    return tl::unexpected(Failure{.problem = Problem::vendor_library_error, .text = std::string(name) + " failed"});
  }
  QpDrivers drivers() {
    return {.name = "fabric",
            .parameters = {{.name = std::string(toward_parameter)}},
            .make = [this](Transport transport, const Config& config) -> Outcome<std::unique_ptr<QpDriver>> {
              configs.push_back(config);
              const auto length = config.find("length");
              return std::make_unique<Driver>(*this, transport,
                                              plays && length != config.end() ? std::stoul(length->second) : 0);
            }};
  }
  static void deliver(Qp& to) {
    while (!to.posted.empty() && !to.unreceived.empty()) {
      const auto [at, length] = to.posted.front();
      const Bytes& message = to.unreceived.front();
      EXPECT_LE(message.size(), length);
      std::copy(message.begin(), message.end(), to.memory.begin() + static_cast<std::ptrdiff_t>(at));
      to.completed.push_back({.opcode = WcOpcode::recv, .byte_len = static_cast<std::uint32_t>(message.size())});
      to.posted.pop_front();
      to.unreceived.pop_front();
    }
  }

  class Driver final : public QpDriver, public DataPath {
   public:
    Driver(Fabric& fabric, Transport transport, std::size_t memory)
        : fabric_(fabric), transport_(transport), memory_(memory) {}
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
      qp.memory.resize(memory_);
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
    Outcome<std::optional<Bytes>> receive_test() override {
      if (auto fine = fabric_.call("take"); !fine) return tl::unexpected(fine.error());
      if (fabric_.strangers > 0) {
        --fabric_.strangers;
        return Bytes(12, 0x5A);
      }
      if (qp().arrived.empty() || fabric_.hides-- > 0) return std::nullopt;
      Bytes out = std::move(qp().arrived.front());
      qp().arrived.pop_front();
      return out;
    }

    DataPath* path() override { return memory_ == 0 ? nullptr : this; }
    MutBytes memory() override { return qp().memory; }
    std::size_t send_depth() const override { return 4; }
    std::size_t receive_depth() const override { return 6; }
    Outcome<void> post_receive(std::size_t at, std::size_t length) override {
      EXPECT_GE(qp().state, QpState::init);
      EXPECT_LE(at + length, memory_);
      EXPECT_LT(qp().posted.size(), receive_depth());
      qp().posted.emplace_back(at, length);
      deliver(qp());
      return {};
    }
    Outcome<void> post(SendWr::Opcode opcode, std::size_t at, std::size_t length) override {
      EXPECT_EQ(qp().state, QpState::rts);
      EXPECT_LE(at + length, memory_);
      const bool lost = ++fabric_.requests == fabric_.lose, broken = fabric_.requests == fabric_.breaks;
      Bytes& own = qp().memory;
      Qp& to = fabric_.qps.at(qp().peer.qpn);
      const auto from = own.begin() + static_cast<std::ptrdiff_t>(at);
      WorkCompletion done{.status = broken ? WcStatus::retry_exc_err : WcStatus::success};
      if (opcode == SendWr::Opcode::send && !lost && !broken) {
        Bytes message(transport_ == Transport::ud ? grh_len : 0, 0xEE);
        message.insert(message.end(), from, from + static_cast<std::ptrdiff_t>(length));
        if (fabric_.garbles || fabric_.requests == fabric_.alters) message.back() ^= 1;
        if (fabric_.requests == fabric_.cuts) message.pop_back();
        to.unreceived.push_back(std::move(message));
        deliver(to);
      } else if (opcode == SendWr::Opcode::rdma_write) {
        done.opcode = WcOpcode::rdma_write;
        std::copy_n(from, length, to.memory.begin());
      } else if (opcode == SendWr::Opcode::rdma_read) {
        done.opcode = WcOpcode::rdma_read;
        std::copy_n(to.memory.begin(), length, from);
      }
      qp().completed.push_back(done);
      const auto own_open = std::count_if(qp().completed.begin(), qp().completed.end(),
                                          [](const WorkCompletion& c) { return c.opcode != WcOpcode::recv; });
      EXPECT_LE(static_cast<std::size_t>(own_open), send_depth()) << "more than the queue holds";
      return {};
    }
    std::size_t poll(std::span<WorkCompletion> out) override {
      if (fabric_.slow != 0 && ++looks_ % fabric_.slow != 0) return 0;
      std::size_t n = 0;
      for (; n < (fabric_.slow != 0 ? 1 : out.size()) && !qp().completed.empty(); ++n) {
        out[n] = qp().completed.front();
        qp().completed.pop_front();
      }
      return n;
    }

   private:
    Qp& qp() { return fabric_.qps.at(qpn_); }
    Fabric& fabric_;
    Transport transport_;
    std::size_t memory_, looks_ = 0;
    std::uint32_t qpn_ = 0;
  };
};

}  // namespace parley::neg::kit
