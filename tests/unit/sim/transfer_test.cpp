// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One end's transfers against a queue pair that only keeps what was posted: what is posted when, and what is said of a
// peer or a NIC that does not keep to it.
#include "sim/workload/workload_transfer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <fmt/format.h>

#include "base/bytes_io.hpp"

namespace parley::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Instant noon{std::chrono::hours(12)};

/// Keeps regions; addresses are those of the memory.
class KeptDevice final : public Device {
 public:
  std::vector<std::pair<std::uint32_t, Access>> regions;
  std::size_t regions_max = 2;

  Result<PdHandle> alloc_pd() override { return 1; }
  Result<void> dealloc_pd(PdHandle) override { return {}; }
  Result<MemoryRegion> reg_mr(PdHandle pd, MutBytes memory, Access access) override {
    if (regions.size() == regions_max) return tl::unexpected(make_error_code(Errc::unsupported));
    const std::uint32_t key = next_key_++;
    regions.emplace_back(key, access);
    return MemoryRegion{.lkey = key,
                        .rkey = key + 1000,
                        .addr = reinterpret_cast<std::uintptr_t>(memory.data()),
                        .length = memory.size(),
                        .pd = pd,
                        .access = access};
  }
  Result<void> dereg_mr(std::uint32_t lkey) override {
    if (std::erase_if(regions, [lkey](const auto& region) { return region.first == lkey; }) == 1) return {};
    return tl::unexpected(make_error_code(Errc::wrong_state));
  }
  Result<std::unique_ptr<CompletionChannel>> create_comp_channel() override { return nullptr; }
  Result<std::unique_ptr<CompletionQueue>> create_cq(const CqInit&) override { return nullptr; }
  Result<std::unique_ptr<SharedReceiveQueue>> create_srq(const SrqInit&) override { return nullptr; }
  Result<std::unique_ptr<QueuePair>> create_qp(const QpInit&) override { return nullptr; }
  Result<std::unique_ptr<XrcDomain>> open_xrcd(const XrcdInit&) override { return nullptr; }
  Result<std::unique_ptr<QueuePair>> open_qp(XrcDomain&, std::uint32_t) override { return nullptr; }
  Result<std::unique_ptr<AddressHandle>> create_ah(PdHandle, const AhAttr&) override { return nullptr; }
  std::optional<AsyncEvent> poll_async_event() override { return {}; }
  DeviceAttr query() const override { return {}; }

 private:
  std::uint32_t next_key_ = 100;
};

class KeptQueuePair final : public QueuePair {
 public:
  struct Sent {
    SendWr::Opcode opcode{};
    std::uint64_t wr_id = 0, remote_addr = 0;
    std::uint32_t rkey = 0;
    bool signaled = true;
    Bytes octets;
  };
  std::vector<Sent> sent;
  std::vector<std::uint64_t> receives;
  std::map<std::uint64_t, MutBytes> memory;  // by wr_id
  std::error_code refuse;

  std::uint32_t qp_num() const override { return 1; }
  QpState state() const override { return QpState::rts; }
  Result<void> modify(const QpAttr&) override { return {}; }
  QpAttr query() const override { return {}; }
  Result<void> post_send(const SendWr& wr) override {
    if (refuse) return tl::unexpected(refuse);
    Sent out{wr.opcode, wr.wr_id, wr.remote_addr, wr.rkey, wr.signaled, {}};
    for (const Sge& sge : wr.sges) {
      memory[wr.wr_id] = at(sge);
      out.octets.assign(memory[wr.wr_id].begin(), memory[wr.wr_id].end());
    }
    sent.push_back(std::move(out));
    return {};
  }
  Result<void> post_recv(const RecvWr& wr) override {
    if (refuse) return tl::unexpected(refuse);
    receives.push_back(wr.wr_id);
    memory[wr.wr_id] = at(wr.sges[0]);
    return {};
  }

 private:
  static MutBytes at(const Sge& sge) { return {reinterpret_cast<std::uint8_t*>(sge.addr), sge.length}; }
};

/// One end, from the moment when its queue pair is there.
class Transferring {
 public:
  KeptDevice device;
  KeptQueuePair qp;
  check::End end;
  check::Judge judge;
  bool corrupted = false;

  explicit Transferring(TransferPlan plan) : plan_(plan), transfer(plan, end, label_, corrupted, judge) {
    end.role = plan.role;
    end.parameters.crc = true;
    EXPECT_TRUE(transfer.open(device, 1));
    transfer.use(qp, noon);
  }
  void establish(std::uint16_t ord = 8, mpa::Rtr rtr = mpa::Rtr::read, bool negotiated = true) {
    end.parameters.ord = ord;
    end.parameters.rtr = rtr;
    end.parameters.depths_negotiated = negotiated;
    transfer.established(end.parameters, noon);
  }
  /// The next posted receive gets these octets.
  void receive(ConstBytes octets) {
    const std::uint64_t wr_id = qp.receives.at(received_++);
    std::copy_n(octets.begin(), std::min(octets.size(), qp.memory[wr_id].size()), qp.memory[wr_id].begin());
    transfer.completed(
        {.wr_id = wr_id, .opcode = WcOpcode::recv, .byte_len = static_cast<std::uint32_t>(octets.size())}, noon);
  }
  /// hello 1, region 2, batch 3, credit 4, done 5.
  void receive_small(std::uint32_t kind, std::uint64_t number, std::uint32_t stag = 0, std::uint64_t to = 0) {
    Bytes octets(plan_.octets == 24 ? 32 : 24);
    Writer w(octets);
    w.be32(kind), w.be64(number), w.be32(stag), w.be64(to);
    receive(octets);
  }
  Bytes message(std::uint64_t number, check::Direction direction) const {
    Bytes out(plan_.octets);
    check::fill_pattern({plan_.number, direction, number}, out);
    return out;
  }
  /// Completes what was posted as the n-th.
  void complete(std::size_t n, std::uint32_t byte_len = 0) {
    const auto& s = qp.sent.at(n);
    const WcOpcode opcode = s.opcode == SendWr::Opcode::rdma_read ? WcOpcode::rdma_read : WcOpcode::send;
    transfer.completed({.wr_id = s.wr_id, .opcode = opcode, .byte_len = byte_len}, noon);
  }
  /// "send 64", "write 64 unsignaled", "read 64", "small 3: 16", in order since the last call.
  std::vector<std::string> posted() {
    std::vector<std::string> out;
    for (; told_ < qp.sent.size(); ++told_) {
      const auto& s = qp.sent[told_];
      const std::size_t small = plan_.octets == 24 ? 32 : 24;
      if (s.opcode == SendWr::Opcode::send && s.octets.size() == small) {
        Reader r(s.octets);
        const std::uint32_t kind = r.be32();
        out.push_back(fmt::format("small {}: {}", kind, r.be64()));
        continue;
      }
      const std::string_view name = s.opcode == SendWr::Opcode::send         ? "send"
                                    : s.opcode == SendWr::Opcode::rdma_write ? "write"
                                                                             : "read";
      out.push_back(fmt::format("{} {}{}", name, s.octets.size(), s.signaled ? "" : " unsignaled"));
    }
    return out;
  }
  std::vector<std::string> said() const {
    std::vector<std::string> out;
    for (const Violation& v : judge.list()) out.push_back(v.checker + ": " + v.text);
    return out;
  }

 private:
  TransferPlan plan_;
  std::string label_ = "it";
  std::size_t received_ = 0, told_ = 0;

 public:
  TransferEnd transfer;
};

constexpr auto responder = mpa::Role::responder;
constexpr auto to_responder = check::Direction::to_responder, to_initiator = check::Direction::to_initiator;

std::vector<std::string> times(std::size_t n, std::string_view word) {
  return std::vector<std::string>(n, std::string(word));
}

// ---- Sends ----------------------------------------------------------------------------------------------------------

TEST(SimTransfer, SendsAWindowAndGoesOnAsItsMessagesCompleteAndCreditComes) {
  Transferring t({.kind = Transfer::send, .messages = 20, .octets = 64, .both_ways = false, .number = 7});
  EXPECT_THAT(t.posted(), IsEmpty()) << "not before it is up";
  t.establish();
  EXPECT_EQ(t.posted(), times(16, "send 64"));
  EXPECT_EQ(t.qp.sent[15].octets, t.message(15, to_responder));
  for (std::size_t i = 0; i < 16; ++i) t.complete(i);
  EXPECT_THAT(t.posted(), IsEmpty()) << "no credit";
  EXPECT_EQ(t.transfer.pending(), "16 of 20 messages sent, 0 of 0 received");
  t.receive_small(4, 18);
  EXPECT_EQ(t.posted(), times(2, "send 64"));
  t.receive_small(4, 17);
  EXPECT_THAT(t.posted(), IsEmpty()) << "credit is not taken back";
  EXPECT_FALSE(t.transfer.finished());
  t.receive_small(4, 99);
  EXPECT_EQ(t.posted(), times(2, "send 64")) << "and no more than it has to send";
  EXPECT_TRUE(t.transfer.finished());
  EXPECT_EQ(t.end.messages_sent, 20U);
  EXPECT_TRUE(t.end.transfers_done);
  EXPECT_THAT(t.said(), IsEmpty());
}

TEST(SimTransfer, AReceiverGrantsCreditForHalfAWindowAtATime) {
  Transferring t({.kind = Transfer::send, .messages = 30, .octets = 64, .both_ways = false, .role = responder});
  t.establish();
  EXPECT_EQ(t.qp.receives.size(), 16U + 6U);
  std::vector<std::string> said;
  for (std::uint64_t i = 0; i < 30; ++i) {
    t.receive(t.message(i, to_responder));
    for (const std::string& word : t.posted()) said.push_back(fmt::format("{} after {}", word, i + 1));
    if (i == 11) {
      EXPECT_EQ(t.transfer.pending(), "0 of 0 messages sent, 12 of 30 received");
    }
  }
  EXPECT_THAT(said, ElementsAre("small 4: 24 after 8", "small 4: 32 after 16"));
  EXPECT_TRUE(t.transfer.finished());
  EXPECT_EQ(t.end.messages_got, 30U);
  EXPECT_EQ(t.end.octets_got, 30U * 64);
  EXPECT_EQ(t.qp.receives.size(), 22U + 30U) << "each that was used is posted anew";
  EXPECT_THAT(t.said(), IsEmpty());
}

TEST(SimTransfer, BothWaysTheResponderSendsAsManyAndEachCounts) {
  Transferring t({.kind = Transfer::send, .messages = 2, .octets = 24, .role = responder});
  EXPECT_EQ(t.posted(), times(2, "send 24")) << "behind the fence";
  t.establish();
  EXPECT_EQ(t.transfer.pending(), "2 of 2 messages sent, 0 of 2 received");
  t.receive(t.message(0, to_responder));
  t.receive(t.message(1, to_responder));
  EXPECT_EQ(t.transfer.pending(), "2 of 2 messages sent, 2 of 2 received");
  EXPECT_TRUE(t.transfer.finished());
  EXPECT_THAT(t.said(), IsEmpty());
}

TEST(SimTransfer, WhatIsDeliveredIsTheMessageThatWasSent) {
  const auto said = [](bool corrupted, bool crc, Bytes octets) {
    Transferring t({.kind = Transfer::send, .messages = 4, .octets = 64, .both_ways = false, .role = responder});
    t.corrupted = corrupted;
    t.end.parameters.crc = crc;
    t.establish();
    t.receive(octets);
    return t.said();
  };
  Bytes good(64), bent(64);
  check::fill_pattern({0, to_responder, 0}, good);
  bent = good;
  bent[5] ^= 1;
  EXPECT_THAT(said(false, true, good), IsEmpty());
  const Bytes cut(good.begin(), good.end() - 1);
  for (const bool crc : {false, true}) {
    EXPECT_THAT(said(false, crc, bent), ElementsAre("delivery: octet 5 of 64 of message 1 to the responder is wrong"));
    EXPECT_THAT(said(false, crc, cut), ElementsAre("delivery: message 1 to the responder has 63 octets instead of 64"));
  }
  EXPECT_EQ(said(true, true, bent).size(), 1U) << "the CRC should have seen what a fault did";
  EXPECT_THAT(said(true, false, bent), IsEmpty()) << "and without it nobody can";
}

// ---- small messages -------------------------------------------------------------------------------------------------

TEST(SimTransfer, ASmallMessageHasItsLengthAndAKnownKind) {
  const auto said = [](bool corrupted, std::size_t octets, std::uint32_t kind) {
    Transferring t({.kind = Transfer::write, .messages = 4, .octets = 64});
    t.corrupted = corrupted;
    t.establish();
    Bytes small(octets);
    Writer w(small);
    w.be32(kind);
    t.receive(small);
    return t.said();
  };
  EXPECT_THAT(said(false, 24, 1), IsEmpty());
  EXPECT_THAT(said(false, 23, 1), ElementsAre("delivery: a small message came with 23 octets instead of 24"));
  EXPECT_THAT(said(false, 32, 1), ElementsAre("delivery: a small message came with 32 octets instead of 24"));
  EXPECT_THAT(said(false, 24, 0), ElementsAre("delivery: a small message of the unknown kind 0 came"));
  EXPECT_THAT(said(false, 24, 6), ElementsAre("delivery: a small message of the unknown kind 6 came"));
  EXPECT_THAT(said(true, 23, 1), IsEmpty());
  EXPECT_THAT(said(true, 24, 6), IsEmpty());
}

// RFC 5044 §7.1.2 rule 4: without an RTR the initiator has to speak, also where it has nothing to say.
TEST(SimTransfer, TheInitiatorSpeaksFirstWhereNoRtrWasAgreed) {
  for (const Transfer kind : {Transfer::send, Transfer::write, Transfer::read})
    for (const std::uint32_t messages : {0U, 1U})
      for (const std::uint32_t octets : {0U, 64U})
        for (const mpa::Rtr rtr : {mpa::Rtr::none, mpa::Rtr::send}) {
          Transferring t({.kind = kind, .messages = messages, .octets = octets});
          t.establish(8, rtr);
          const auto posted = t.posted();
          const bool hello = rtr == mpa::Rtr::none && (kind != Transfer::send || messages == 0 || octets == 0);
          EXPECT_EQ(!posted.empty() && posted[0] == "small 1: 0", hello)
              << to_string(kind) << ' ' << messages << ' ' << octets;
        }
}

// ---- Writes ---------------------------------------------------------------------------------------------------------

TEST(SimTransfer, WritesABatchAndWaitsUntilItIsConfirmed) {
  Transferring t({.kind = Transfer::write, .messages = 20, .octets = 64, .number = 3});
  t.establish();
  EXPECT_THAT(t.posted(), IsEmpty()) << "the region is not known";
  t.receive_small(2, 8, 0x77, 0x1000);
  auto words = times(16, "write 64 unsignaled");
  words.emplace_back("small 3: 16");
  EXPECT_EQ(t.posted(), words);
  EXPECT_EQ(t.qp.sent[3].rkey, 0x77U);
  EXPECT_EQ(t.qp.sent[3].remote_addr, 0x1000U + 3 * 64);
  EXPECT_EQ(t.qp.sent[3].octets, t.message(3, to_responder));
  EXPECT_EQ(t.transfer.pending(), "16 of 20 messages sent, 0 of 0 received");
  t.complete(16);
  t.receive_small(3, 16);
  words = times(4, "write 64 unsignaled");
  words.emplace_back("small 3: 20");
  EXPECT_EQ(t.posted(), words);
  EXPECT_FALSE(t.transfer.finished());
  t.complete(21);
  t.receive_small(3, 20);
  EXPECT_TRUE(t.transfer.finished());
  EXPECT_THAT(t.said(), IsEmpty());
}

TEST(SimTransfer, TheWrittenLooksAtEachBatchAndConfirmsIt) {
  Transferring t({.kind = Transfer::write, .messages = 3, .octets = 64, .role = responder});
  EXPECT_THAT(t.posted(), ElementsAre("small 2: 0")) << "its region, behind the fence";
  Reader r(t.qp.sent[0].octets);
  r.skip(12);
  const std::uint32_t stag = r.be32();
  auto* region = reinterpret_cast<std::uint8_t*>(r.be64());
  EXPECT_EQ(stag, t.device.regions[1].first + 1000);
  EXPECT_EQ(t.device.regions[1].second, Access::local_write | Access::remote_write | Access::remote_read);
  t.establish();
  for (std::uint64_t i = 0; i < 2; ++i) check::fill_pattern({0, to_responder, i}, {region + 64 * i, 64});
  t.receive_small(3, 2);
  EXPECT_THAT(t.posted(), ElementsAre("small 3: 2"));
  EXPECT_EQ(t.transfer.pending(), "0 of 0 messages sent, 2 of 3 received");
  EXPECT_THAT(t.said(), IsEmpty());
  t.receive_small(3, 3);
  EXPECT_EQ(t.said().size(), 1U) << "the third was never written";
  EXPECT_TRUE(t.transfer.finished());
}

// ---- Reads ----------------------------------------------------------------------------------------------------------

TEST(SimTransfer, ReadsAsManyAtOnceAsItsOrdAllows) {
  struct Case {
    std::uint16_t ord;
    bool negotiated;
    std::uint64_t told;  // by the responder
    std::size_t at_once;
  };
  for (const Case& c : {Case{3, true, 0, 3}, Case{1, true, 9, 1}, Case{40, true, 9, 16},
                        Case{mpa::depth_not_negotiated, false, 9, 9}, Case{5, false, 2, 2}, Case{5, false, 7, 5}}) {
    Transferring t({.kind = Transfer::read, .messages = 20, .octets = 64});
    t.establish(c.ord, mpa::Rtr::read, c.negotiated);
    t.receive_small(2, c.told, 0x77, 0x1000);
    EXPECT_EQ(t.posted(), times(c.at_once, "read 64")) << c.ord << ' ' << c.told;
  }
  for (const bool negotiated : {true, false}) {
    Transferring none({.kind = Transfer::read, .messages = 20, .octets = 64});
    none.establish(negotiated ? 0 : 5, mpa::Rtr::read, negotiated);
    none.receive_small(2, 0, 0x77, 0x1000);
    EXPECT_THAT(none.posted(), ElementsAre("small 5: 0")) << "nothing can be read";
  }
}

TEST(SimTransfer, ReadsEachMessageAndSaysWhenItHasAll) {
  Transferring t({.kind = Transfer::read, .messages = 2, .octets = 64, .number = 5});
  t.establish(1);
  t.receive_small(2, 1, 0x77, 0x1000);
  EXPECT_THAT(t.posted(), ElementsAre("read 64"));
  EXPECT_EQ(t.transfer.pending(), "0 of 2 messages read");
  check::fill_pattern({5, to_initiator, 0}, t.qp.memory[t.qp.sent[0].wr_id]);
  t.complete(0, 64);
  EXPECT_EQ(t.transfer.pending(), "1 of 2 messages read");
  EXPECT_THAT(t.posted(), ElementsAre("read 64"));
  EXPECT_EQ(t.qp.sent[1].remote_addr, 0x1000U + 64);
  EXPECT_THAT(t.said(), IsEmpty());
  t.complete(1, 64);
  EXPECT_EQ(t.said().size(), 1U) << "the second never came";
  EXPECT_THAT(t.posted(), ElementsAre("small 5: 2"));
  EXPECT_TRUE(t.transfer.finished());
  EXPECT_EQ(t.end.octets_got, 128U);
}

TEST(SimTransfer, TheReadHasItsMessagesReadyAndWaitsForTheWord) {
  Transferring t({.kind = Transfer::read, .messages = 2, .octets = 64, .number = 5, .role = responder, .ird = 4});
  EXPECT_THAT(t.posted(), ElementsAre("small 2: 4"));
  Reader r(t.qp.sent[0].octets);
  r.skip(16);
  const auto* region = reinterpret_cast<const std::uint8_t*>(r.be64());
  for (std::uint64_t i = 0; i < 2; ++i)
    EXPECT_EQ(Bytes(region + 64 * i, region + 64 * i + 64), t.message(i, to_initiator));
  t.establish();
  EXPECT_FALSE(t.transfer.finished());
  t.receive_small(5, 2);
  EXPECT_TRUE(t.transfer.finished());
}

// ---- what goes wrong ------------------------------------------------------------------------------------------------

TEST(SimTransfer, SaysWhatCouldNotBePostedUnlessTheConnectionHasEnded) {
  for (const Transfer kind : {Transfer::send, Transfer::write, Transfer::read}) {
    const auto said = [kind](Errc why) {
      Transferring t({.kind = kind, .messages = 1, .octets = 64});
      t.establish();
      t.qp.refuse = make_error_code(why);
      t.receive_small(2, 1, 0x77, 0x1000);
      return t.said();
    };
    EXPECT_THAT(said(Errc::wrong_state), IsEmpty());
    const std::string why = make_error_code(Errc::unsupported).message();
    std::vector<std::string> words;
    if (kind != Transfer::send)
      words.push_back(fmt::format("delivery: a {} could not be posted: {}",
                                  kind == Transfer::write ? "rdma write" : "rdma read", why));
    words.insert(words.begin(), fmt::format("delivery: a receive could not be posted: {}", why));
    EXPECT_EQ(said(Errc::unsupported), words);
  }
}

TEST(SimTransfer, AtTheEndEverythingHasCompleted) {
  Transferring t({.kind = Transfer::send, .messages = 2, .octets = 64, .both_ways = false});
  t.establish();
  t.complete(0);
  t.transfer.ended(noon);
  ASSERT_EQ(t.said().size(), 2U);
  EXPECT_EQ(t.said()[0],
            "completions: the connection has ended, and 1 of its send requests have not completed (first: 2)");
  EXPECT_THAT(t.said()[1], ::testing::HasSubstr("and 6 of its receive requests have not completed"));
}

TEST(SimTransfer, RegionsAreGivenBackAndOneThatIsGoneIsTold) {
  Transferring t({});
  EXPECT_EQ(t.device.regions.size(), 2U);
  EXPECT_EQ(t.device.regions[0].second, Access::local_write);
  EXPECT_TRUE(t.transfer.close(t.device));
  EXPECT_TRUE(t.device.regions.empty());
  EXPECT_TRUE(t.transfer.close(t.device)) << "once is enough";
  Transferring lost({});
  lost.device.regions.clear();
  EXPECT_FALSE(lost.transfer.close(lost.device));
  for (const std::size_t room : {0U, 1U}) {
    KeptDevice full;
    full.regions_max = room;
    check::End end;
    check::Judge judge;
    const std::string label;
    const bool corrupted = false;
    TransferEnd transfer({}, end, label, corrupted, judge);
    EXPECT_FALSE(transfer.open(full, 1));
  }
}

TEST(SimTransfer, TheWindowShrinksForLongMessagesAndItsQueuesWithIt) {
  const auto queues = [](std::uint32_t messages, std::uint32_t octets) {
    Transferring t({.kind = Transfer::send, .messages = messages, .octets = octets});
    const QpInit init = t.transfer.qp_init(1, nullptr);
    return std::pair(init.max_send_wr, init.max_recv_wr);
  };
  EXPECT_EQ(queues(100, 64), std::pair(22U, 22U));
  EXPECT_EQ(queues(3, 64), std::pair(9U, 9U));
  EXPECT_EQ(queues(0, 64), std::pair(7U, 6U));
  EXPECT_EQ(queues(100, 512 << 10), std::pair(22U, 22U));
  EXPECT_EQ(queues(100, (512 << 10) + 1), std::pair(14U, 14U));
  EXPECT_EQ(queues(100, 8 << 20), std::pair(7U, 7U));
  EXPECT_EQ(queues(100, (8 << 20) + 1), std::pair(7U, 7U));
}

}  // namespace
}  // namespace parley::sim
