// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Segments that a peer may send, rightly or not, to a queue pair with requests under way, beside
// tests/states/nic_segments.txt: what it answers, tells and completes; of all of them how often.
#include <fmt/format.h>

#include "base/rng.hpp"
#include "test_pair.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::nic::iwarp::test {
namespace {

using wire::DdpHeader;
using wire::RdmapOpcode;

/// A queue pair that has posted receives, Reads, Writes and an Atomic, and its peer, which the seed draws.
class DrawnPeer {
 public:
  explicit DrawnPeer(std::uint64_t seed)
      : rng_(seed),
        solo_(
            [this](AttachOptions& o) {
              o.parameters.ird = o.parameters.ord = static_cast<std::uint16_t>(rng_.between(1, 4));
            },
            rng_.below(2) == 0 ? mpa::Role::responder : mpa::Role::initiator, 0x10000) {}

  std::string play(Tally& tally) {
    tally_ = &tally;
    post();
    note("at first");
    for (std::uint64_t n = rng_.between(1, 6); n > 0; --n) {
      Bytes ulpdu = segment();
      if (rng_.below(12) == 0) ulpdu.resize(rng_.below(ulpdu.size() + 1));
      Bytes fpdu = solo_.fpdu(ulpdu);
      if (rng_.below(25) == 0) fpdu[rng_.below(fpdu.size())] ^= 0x10;
      solo_.side.qp->handle_bytes(fpdu);
      note(hex(ConstBytes(ulpdu).first(std::min<std::size_t>(ulpdu.size(), 26))));
    }
    return out_;
  }

 private:
  void post() {
    for (std::uint64_t n = rng_.below(4), id = 1; n > 0; --n, ++id) {
      const std::size_t size = rng_.below(40);
      (void)solo_.side.recv(id, {solo_.buffer.sge(0, size)});
    }
    for (std::uint64_t n = rng_.below(4), id = 100; n > 0; --n, ++id) {
      const Sge sge = solo_.buffer.sge(64, 8);
      SendWr wr{.wr_id = id, .sges = {&sge, 1}, .remote_addr = 0x1000, .rkey = 0x77};
      constexpr SendWr::Opcode opcodes[] = {SendWr::Opcode::rdma_read, SendWr::Opcode::rdma_write,
                                            SendWr::Opcode::send};
      wr.opcode = opcodes[rng_.below(3)];
      (void)solo_.side.qp->post_send(wr);
    }
  }

  Bytes segment() {
    constexpr RdmapOpcode all[] = {RdmapOpcode::send,           RdmapOpcode::send,           RdmapOpcode::send_se,
                                   RdmapOpcode::send_inv,       RdmapOpcode::rdma_write,     RdmapOpcode::read_request,
                                   RdmapOpcode::read_response,  RdmapOpcode::terminate,      RdmapOpcode::immediate,
                                   RdmapOpcode::atomic_request, RdmapOpcode::atomic_response};
    DdpHeader h;
    h.opcode = rng_.below(15) == 0 ? static_cast<RdmapOpcode>(rng_.below(16)) : all[rng_.below(std::size(all))];
    h.last = rng_.below(5) != 0;
    h.tagged = h.opcode == RdmapOpcode::rdma_write || h.opcode == RdmapOpcode::read_response;
    if (rng_.below(20) == 0) h.tagged = !h.tagged;
    if (rng_.below(30) == 0) h.ddp_version = static_cast<std::uint8_t>(rng_.below(4));
    if (rng_.below(30) == 0) h.rdmap_version = static_cast<std::uint8_t>(rng_.below(4));
    h.stag = rng_.below(6) == 0 ? 0x99 : solo_.buffer.region.rkey;
    h.to = solo_.buffer.region.addr + (rng_.below(6) == 0 ? rng_.below(400) : 64);
    if (rng_.below(30) == 0) h.to = ~std::uint64_t{0} - rng_.below(9);
    const bool asks = h.opcode == RdmapOpcode::read_request || h.opcode == RdmapOpcode::atomic_request;
    h.qn = asks ? 1 : h.opcode == RdmapOpcode::terminate ? 2 : h.opcode == RdmapOpcode::atomic_response ? 3 : 0;
    if (rng_.below(20) == 0) h.qn = static_cast<std::uint32_t>(rng_.below(6));
    h.msn = next_msn_[h.qn % 6];
    if (rng_.below(12) == 0) h.msn += static_cast<std::uint32_t>(rng_.between(1, 2));
    h.mo = rng_.below(12) == 0 ? static_cast<std::uint32_t>(rng_.below(50)) : mo_;
    Bytes out(h.size());
    h.emit(out);
    const Bytes body = payload(h);
    out.insert(out.end(), body.begin(), body.end());
    if (!h.tagged && h.last) ++next_msn_[h.qn % 6];
    if (!h.tagged) mo_ = h.last ? 0 : h.mo + static_cast<std::uint32_t>(body.size());
    return out;
  }

  Bytes payload(const DdpHeader& h) {
    const std::uint64_t off = rng_.below(8) == 0 ? rng_.below(3) : 0;
    const std::uint64_t at = solo_.buffer.region.addr + (rng_.below(6) == 0 ? 250 : 0);
    Bytes out;
    if (h.opcode == RdmapOpcode::read_request) {
      out.resize(28);
      wire::ReadRequest{.sink_stag = 5,
                        .sink_to = 0x500,
                        .size = static_cast<std::uint32_t>(rng_.below(60)),
                        .source_stag = h.stag,
                        .source_to = at}
          .emit(out);
    } else if (h.opcode == RdmapOpcode::atomic_request) {
      out.resize(PARLEY_RDMAP_ATOMIC_REQUEST_LEN);
      wire::AtomicRequest{.aop = static_cast<std::uint8_t>(rng_.below(4)),
                          .request_id = 7,
                          .stag = h.stag,
                          .to = at + off,
                          .add_swap = 3}
          .emit(out);
    } else if (h.opcode == RdmapOpcode::atomic_response) {
      out.resize(PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
      wire::AtomicResponse{static_cast<std::uint32_t>(rng_.below(3)), 9}.emit(out);
    } else if (h.opcode == RdmapOpcode::terminate) {
      const std::uint64_t layer = rng_.below(3), type = rng_.below(4), code = rng_.below(10);
      out = {static_cast<std::uint8_t>(layer << 4 | type), static_cast<std::uint8_t>(code), 0, 0};
      out[2] = rng_.below(3) == 0 ? 0xC0 : 0;
    } else {
      out = Bytes(h.opcode == RdmapOpcode::immediate ? 8 : rng_.below(50), 0x5A);
    }
    if (off != 0 && rng_.below(2) == 0) out.resize(out.size() + off);
    return out;
  }

  /// What has come of it, behind what was done. Of the answer the octets and their sum.
  void note(const std::string& done) {
    out_ += fmt::format("; {}", done);
    const auto n = [](auto of) { return static_cast<std::int64_t>(of); };
    const std::size_t told = solo_.side.events.size();
    solo_.side.drain_events();
    if (const Bytes answer = solo_.side.transmit_all(); !answer.empty()) {
      std::int64_t sum = 0;
      for (const std::uint8_t octet : answer) sum += octet;
      out_ += fmt::format(" says {} octets", answer.size());
      tally_->add(fmt::format("says opcode {:x}", answer.size() > 3 ? answer[3] & 0xF : 0), {n(answer.size()), sum});
    }
    for (std::size_t i = told; i < solo_.side.events.size(); ++i) {
      const std::string what = fmt::format("event {}: {}", static_cast<int>(solo_.side.events[i].kind),
                                           solo_.side.events[i].failure.to_string());
      out_ += " " + what;
      tally_->add(without_numbers(what));
    }
    for (CompletionQueue* cq : {solo_.side.send_cq.get(), solo_.side.recv_cq.get()})
      for (const WorkCompletion& wc : solo_.side.poll(*cq)) {
        out_ += fmt::format(" {} {}: {}, {}", to_string(wc.opcode), wc.wr_id, to_string(wc.status), wc.byte_len);
        tally_->add(fmt::format("{}: {}", to_string(wc.opcode), to_string(wc.status)), {n(wc.wr_id), n(wc.byte_len)});
      }
    if (solo_.side.qp->terminate() && !terminated_) {
      terminated_ = true;
      const std::string what = fmt::format("Terminate {}: {}", solo_.side.qp->terminate()->sent ? "sent" : "received",
                                           solo_.side.qp->terminate()->text);
      out_ += " " + what;
      tally_->add(what);
    }
  }

  Rng rng_;
  Solo solo_;
  std::uint32_t next_msn_[6] = {1, 1, 1, 1, 1, 1};
  std::uint32_t mo_ = 0;
  bool terminated_ = false;
  Tally* tally_ = nullptr;
  std::string out_;
};

TEST(NicSegments, DrawnOnesAreAnsweredAsReviewed) {
  std::string out =
      "# Drawn segments to a queue pair: the heads of their ULPDUs, and what comes of them. Then of 6000 how often "
      "what came.\n";
  Tally tally;
  for (std::uint64_t seed = 1; seed <= 6000; ++seed) {
    const std::string text = DrawnPeer(seed).play(tally);
    if (seed <= 30) out += fmt::format("{}{}\n", seed, text);
  }
  expect_as_reviewed("nic_segments.txt", out + tally.text());
}

}  // namespace
}  // namespace parley::nic::iwarp::test
