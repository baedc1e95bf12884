// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a queue pair that plays a known peer puts on the wire in that peer's way: Terminates, and STag 0.
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

void like_siw(AttachOptions& o) { o.terminate_nibbles_swapped = true; }
void like_cxgb4(AttachOptions& o) {
  o.terminate_llp_etype = 3;
  o.refuses_stag_zero = true;
}

const std::string wrong_opcode = "414f" + std::string(32, '0');
const std::string empty_write_at_stag_zero = "c140" + std::string(24, '0');

TEST(NicPlayedQuirks, SiwsTerminateHasItsNibblesSwappedAndItsBitsLow) {
  Solo siw(like_siw);
  // Linux siw answers opcode F so (measured); the RFC's order would be 02 06 C0 00.
  EXPECT_EQ(siw.feed(wrong_opcode), Solo::terminate("20060300"
                                                    "0012" +
                                                    wrong_opcode));
  Solo lower(like_siw);
  lower.side.qp->send_terminate(2, 0, 7);
  EXPECT_EQ(hex(lower.side.transmit_all()).substr(40, 8), "02070000");
  // It is siw's spelling of the same error, and a peer that knows siw reads it as that.
  Solo peer;
  peer.feed("4147" + Solo::hex32(0) + Solo::hex32(2) + Solo::hex32(1) + Solo::hex32(0) + "02070000");
  ASSERT_TRUE(peer.side.qp->terminate().has_value());
  EXPECT_EQ(peer.side.qp->terminate()->layer, 2);
  EXPECT_EQ(peer.side.qp->terminate()->etype, 0);
}

TEST(NicPlayedQuirks, Cxgb4SendsLlpErrorsWithType3AndOthersAsTheRfcSays) {
  Solo lower(like_cxgb4), upper(like_cxgb4);
  lower.side.qp->send_terminate(2, 0, 2);
  EXPECT_EQ(hex(lower.side.transmit_all()).substr(40, 8), "23020000");
  EXPECT_EQ(upper.feed(wrong_opcode), Solo::terminate("0206c000"
                                                      "0012" +
                                                      wrong_opcode));
}

TEST(NicPlayedQuirks, Cxgb4RefusesStagZeroThatOthersLeaveAloneAtLengthZero) {
  Solo cxgb4(like_cxgb4), other;
  EXPECT_EQ(other.feed(empty_write_at_stag_zero), "");
  EXPECT_EQ(other.side.qp->state(), QpState::rts);
  EXPECT_EQ(cxgb4.feed(empty_write_at_stag_zero), Solo::terminate("1100c000"
                                                                  "000e" +
                                                                  empty_write_at_stag_zero));
  EXPECT_EQ(cxgb4.side.qp->rdmap_state(), RdmapState::terminate);
}

}  // namespace
}  // namespace parley::nic::iwarp::test
