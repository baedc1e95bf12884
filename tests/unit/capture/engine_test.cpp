// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The C interface of the engine (capture/engine/parley_engine.h), as the Wireshark plugin uses it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <new>

#include "capture/analyzer.hpp"
#include "capture/engine/parley_engine.h"
#include "tests/unit/capture/roce_kit.hpp"

namespace {
// Of this many allocations in a row the last one is refused; 0: none is.
thread_local std::size_t refused_in = 0;
}  // namespace

// The test of memory that runs out refuses it here.
void* operator new(std::size_t size) {
  if (refused_in > 0 && --refused_in == 0) throw std::bad_alloc();
  if (void* out = std::malloc(size == 0 ? 1 : size)) return out;
  throw std::bad_alloc();
}
// AddressSanitizer has this one of its own, which does not go with the others.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size == 0 ? 1 : size); }
void operator delete(void* octets, const std::nothrow_t&) noexcept { std::free(octets); }
void operator delete(void* octets) noexcept { std::free(octets); }
void operator delete(void* octets, std::size_t) noexcept { std::free(octets); }

namespace parley::capture::test {
namespace {

using Handle = std::unique_ptr<parley_engine, decltype(&parley_engine_close)>;

Handle open_engine() {
  const parley_engine_options options{};
  return {parley_engine_open(&options), parley_engine_close};
}

/// RoceTalk's frames: Ethernet, IPv4 without options, UDP.
parley_engine_packet packet_of(const Frame& f, std::uint64_t number) {
  constexpr std::size_t ip = 14, udp = ip + 20, bth = udp + 8;
  parley_engine_packet p{};
  p.frame = number;
  p.at = f.at.time_since_epoch().count();
  p.octets = f.octets.data();
  p.captured = p.end = f.octets.size();
  p.below = ip;
  p.bth = bth;
  p.plain = true;
  p.carriage = PARLEY_ENGINE_ROCE_V2_IPV4;
  for (std::size_t i = 0; i < 2; ++i) {
    std::uint8_t* const gid = i == 0 ? p.source : p.destination;
    gid[10] = gid[11] = 0xFF;
    std::copy_n(f.octets.data() + ip + 12 + 4 * i, 4, gid + 12);
  }
  p.source_port = static_cast<std::uint16_t>(f.octets[udp] << 8 | f.octets[udp + 1]);
  return p;
}

parley_engine_place push(parley_engine* engine, const RoceTalk& talk, std::size_t frame) {
  const parley_engine_packet p = packet_of(talk.frames[frame - 1], frame);
  parley_engine_place out{};
  EXPECT_EQ(parley_engine_roce(engine, &p, &out), PARLEY_ENGINE_OK);
  return out;
}

std::string rules_at(const parley_engine* engine, std::uint64_t frame) {
  std::string out;
  for (const auto* f = parley_engine_findings(engine, frame); f != nullptr; f = f->next)
    out += std::string(out.empty() ? "" : " ") + (f->rule != nullptr ? f->rule : f->quirk);
  return out;
}

TEST(EngineTest, MessagesAndDataKnowTheirConnectionAndEachOther) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_only, RoceTalk::psns[0]);
  t.ack(1, RoceTalk::psns[0], 1);
  t.close();
  const Handle engine = open_engine();
  const auto req = push(engine.get(), t, 1), rep = push(engine.get(), t, 2), rtu = push(engine.get(), t, 3),
             sent = push(engine.get(), t, 4), ack = push(engine.get(), t, 5), dreq = push(engine.get(), t, 6),
             drep = push(engine.get(), t, 7);
  ASSERT_NE(req.connection, nullptr);
  const parley_engine_connection& c = *req.connection;
  EXPECT_EQ(c.number, 1u);
  EXPECT_STREQ(c.service_name, "tcp:7174");
  EXPECT_EQ(c.qpn[0], RoceTalk::qpns[0]);
  EXPECT_EQ(c.qpn[1], RoceTalk::qpns[1]);
  for (const auto* each : {&rep, &rtu, &sent, &ack, &dreq, &drep}) EXPECT_EQ(each->connection, &c);
  EXPECT_TRUE(req.message && !sent.message);
  EXPECT_EQ(req.from + sent.from, 0);
  EXPECT_EQ(rep.from + ack.from, 2);
  EXPECT_EQ(rep.request, 1u);
  EXPECT_EQ(rtu.request, 2u);
  EXPECT_EQ(drep.request, 6u);
  EXPECT_EQ(c.sent[0][0].answer, 2u);
  EXPECT_EQ(c.packets[0], 1u);
  EXPECT_TRUE(sent.icrc_known);
  ASSERT_EQ(parley_engine_finish(engine.get()), PARLEY_ENGINE_OK);
  EXPECT_EQ(c.outcome, PARLEY_ENGINE_ESTABLISHED);
  EXPECT_STREQ(c.verdict, "passed");
  EXPECT_EQ(c.errors + c.warnings, 0u);
}

TEST(EngineTest, AMessageSentAgainKnowsTheFirst) {
  RoceTalk t;
  t.cm(0, t.req());
  t.cm(0, t.req(), 5s);
  t.cm(1, t.rep());
  const Handle engine = open_engine();
  push(engine.get(), t, 1);
  const auto again = push(engine.get(), t, 2), rep = push(engine.get(), t, 3);
  EXPECT_EQ(again.first, 1u);
  EXPECT_EQ(again.copy, 2u);
  EXPECT_EQ(rep.request, 1u);
}

TEST(EngineTest, FindsWhatCheckFindsAtItsFrame) {
  RoceTalk t;
  t.set_up();
  wire::ib::Packet p = t.packet(0, Operation::send_only, RoceTalk::psns[0]);
  p.bth.tver = 3;
  t.put(0, p);
  t.data(0, Operation::send_last, RoceTalk::psns[0] + 1);
  const Handle engine = open_engine();
  for (std::size_t n = 1; n <= t.frames.size(); ++n) push(engine.get(), t, n);
  parley_engine_finish(engine.get());
  EXPECT_EQ(rules_at(engine.get(), 4), "ib.tver");
  EXPECT_EQ(rules_at(engine.get(), 5), "ib.sequence");
  EXPECT_EQ(rules_at(engine.get(), 3), "");
  const auto* f = parley_engine_findings(engine.get(), 4);
  EXPECT_EQ(f->severity, PARLEY_ENGINE_ERROR);
  EXPECT_STREQ(f->clause, "IBA §9.2");
  EXPECT_EQ(f->found, 4u);
  EXPECT_STREQ(parley_engine_connection_at(engine.get(), 0)->verdict, "failed");
}

TEST(EngineTest, WhatALaterPacketProvesIsHandedOutWithIt) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::send_only, RoceTalk::psns[0]);
  wire::ib::Packet wrong = t.packet(0, Operation::send_only, RoceTalk::psns[0] + 1);
  wrong.icrc = 0x1234;  // no packet of the initiator's queue pair had the right one: it may be made later
  RoceTalk bare;
  bare.put(0, wrong);
  bare.data(0, Operation::send_only, RoceTalk::psns[0] + 2);
  const Handle engine = open_engine();
  EXPECT_EQ(push(engine.get(), bare, 1).late_count, 0u);
  const auto second = push(engine.get(), bare, 2);
  ASSERT_EQ(second.late_count, 1u);
  EXPECT_STREQ(second.late[0]->rule, "ib.icrc");
  EXPECT_EQ(second.late[0]->frame, 1u);
  EXPECT_EQ(second.late[0]->found, 2u);
  EXPECT_EQ(rules_at(engine.get(), 1), "ib.icrc");
}

TEST(EngineTest, TheIcrcIsThatOfThePacket) {
  RoceTalk t;
  t.data(0, Operation::send_only, 5);
  parley_engine_packet p = packet_of(t.frames[0], 1);
  std::uint32_t due = 0;
  ASSERT_TRUE(parley_engine_icrc(&p, &due));
  const std::uint8_t* const last = p.octets + p.end - 4;
  EXPECT_EQ(due, static_cast<std::uint32_t>(last[0] | last[1] << 8 | last[2] << 16) | std::uint32_t{last[3]} << 24);
  --p.captured;
  EXPECT_FALSE(parley_engine_icrc(&p, &due));
}

TEST(EngineTest, WhatEndsTooSoonIsFoundWithoutAConnection) {
  RoceTalk t;
  t.data(0, Operation::write_only, 5, 0);
  parley_engine_packet p = packet_of(t.frames[0], 1);
  p.end = p.captured = p.bth + 20;  // a BTH and half a RETH
  const Handle engine = open_engine();
  parley_engine_place out{};
  ASSERT_EQ(parley_engine_roce(engine.get(), &p, &out), PARLEY_ENGINE_OK);
  EXPECT_EQ(out.connection, nullptr);
  EXPECT_EQ(rules_at(engine.get(), 1), "ib.malformed");
}

TEST(EngineTest, WhatEndsTooSoonCountsAgainstItsConnection) {
  RoceTalk t;
  t.set_up();
  t.data(0, Operation::write_only, RoceTalk::psns[0], 0);
  const Handle engine = open_engine();
  for (std::size_t n = 1; n <= 3; ++n) push(engine.get(), t, n);
  parley_engine_packet p = packet_of(t.frames[3], 4);
  p.end = p.captured = p.bth + 20;  // a BTH and half a RETH
  parley_engine_place out{};
  ASSERT_EQ(parley_engine_roce(engine.get(), &p, &out), PARLEY_ENGINE_OK);
  EXPECT_EQ(rules_at(engine.get(), 4), "ib.malformed");
  ASSERT_EQ(parley_engine_finish(engine.get()), PARLEY_ENGINE_OK);
  EXPECT_EQ(parley_engine_connection_at(engine.get(), 0)->errors, 1u);
}

TEST(EngineTest, MemoryThatIsRefusedEndsTheJudgementAndNothingElse) {
  RoceTalk t;
  t.set_up();
  std::size_t refused = 0;
  for (std::size_t n = 1; n < 200; ++n) {
    const Handle engine = open_engine();
    const parley_engine_packet first = packet_of(t.frames[0], 1), second = packet_of(t.frames[1], 2);
    parley_engine_place out{};
    refused_in = n;
    const auto status = parley_engine_roce(engine.get(), &first, &out);
    const bool reached = refused_in == 0;
    refused_in = 0;
    if (!reached) break;
    ++refused;
    EXPECT_EQ(status, PARLEY_ENGINE_NO_MEMORY) << n;
    EXPECT_EQ(parley_engine_roce(engine.get(), &second, &out), PARLEY_ENGINE_NO_MEMORY) << n;
    EXPECT_EQ(out.connection, nullptr);
    EXPECT_EQ(parley_engine_findings(engine.get(), 2), nullptr);
    EXPECT_EQ(parley_engine_finish(engine.get()), PARLEY_ENGINE_NO_MEMORY);
  }
  EXPECT_GT(refused, 5u);
}

}  // namespace
}  // namespace parley::capture::test
