// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ib_terms.hpp"

#include <gtest/gtest.h>

#include "parley/mpa.hpp"

namespace parley::cm {
namespace {

using wire::ib::CmReject;

TEST(IbTerms, ReasonsOfARejAreGivenInWords) {
  EXPECT_EQ(reject_sentence(CmReject::invalid_service_id), "a REJ: invalid service ID: there is no listener there (8)");
  EXPECT_EQ(reject_sentence(CmReject::consumer), "a REJ: consumer reject: the peer's program said no (28)");
  EXPECT_EQ(reject_sentence(CmReject::alternate_flow_label), "a REJ: invalid alternate flow label (33)");
  EXPECT_EQ(reject_sentence(CmReject::vendor_option), "a REJ: vendor option (ECE) not supported (35)");
  EXPECT_EQ(reject_sentence(static_cast<CmReject>(34)), "a REJ: unassigned reason (34)");
}

TEST(IbTerms, AdviceSaysWhoRefused) {
  EXPECT_EQ(reject_advice(CmReject::consumer), "the peer's program gave the connection up: look at its log");
  EXPECT_EQ(reject_advice(CmReject::invalid_service_id), "start the peer's listener, or check address and port");
  EXPECT_EQ(reject_advice(CmReject::no_qp), "the peer's connection manager refused, not its program: see the reason");
  EXPECT_EQ(reject_advice(CmReject::timeout),
            "the peer gave up waiting: look for packets that are lost, or a program that is slow to decide");
}

TEST(IbTerms, WhatMayPassIsNotRejected) {
  for (const auto passing : {CmReject::no_qp, CmReject::no_eec, CmReject::no_resources})
    EXPECT_EQ(errc_of(passing), Errc::no_space);
  EXPECT_EQ(errc_of(CmReject::timeout), Errc::timed_out);
  EXPECT_EQ(errc_of(CmReject::stale_connection), Errc::peer_reset);
  EXPECT_EQ(errc_of(CmReject::consumer), Errc::rejected);
}

TEST(IbTerms, OptionsAreChecked) {
  EXPECT_TRUE(ib_options({}, "not these"));
  const auto of_mpa = ib_options(mpa::Options{}, "not these");
  ASSERT_FALSE(of_mpa);
  EXPECT_EQ(of_mpa.error().sentence(), "not these");
  EXPECT_EQ(of_mpa.error(), Errc::unsupported);
  EXPECT_EQ(ib_options(ib::Options{.retry_count = 8}, "").error(), Errc::invalid_argument);
  EXPECT_EQ(ib_options(ib::Options{.rnr_retry_count = 8}, "").error(), Errc::invalid_argument);
  EXPECT_EQ(ib_options(ib::Options{.reply_timeout = Duration{-1}}, "").error(), Errc::invalid_argument);
  EXPECT_EQ(ib_options(ib::Options{.retry_count = 7}, "")->retry_count, 7);
}

TEST(IbTerms, EachSideOfXrcHasItsType) {
  EXPECT_EQ(ib_options(ib::Options{.qp_type = QpType::xrc_tgt}, "", QpType::xrc_tgt).error(), Errc::invalid_argument);
  EXPECT_TRUE(ib_options(ib::Options{.qp_type = QpType::xrc_ini}, "", QpType::xrc_tgt));
  EXPECT_TRUE(ib_options({}, "", QpType::xrc_tgt));
  EXPECT_EQ(ib_options(ib::Options{.qp_type = QpType(8)}, "").error(), Errc::unsupported);
}

TEST(IbTerms, AQueuePairIsOfTheConnectionsType) {
  EXPECT_TRUE(check_qp_type(QpType::uc, QpType::uc));
  EXPECT_EQ(check_qp_type(QpType::rc, QpType::uc).error(), Errc::invalid_argument);
  EXPECT_EQ(check_qp_type(QpType(8), QpType(8)).error(), Errc::unsupported);
}

TEST(IbTerms, ServicesSayWhyTheyAreNotGranted) {
  using wire::ib::SidrStatus;
  const Failure nobody = sidr_failure(SidrStatus::unsupported_service_id);
  EXPECT_EQ(nobody.code, Errc::refused);
  EXPECT_EQ(nobody.received, "a SIDR_REP: service ID not supported (1)");
  EXPECT_EQ(sidr_failure(SidrStatus::rejected).code, Errc::rejected);
  EXPECT_EQ(sidr_failure(SidrStatus::rejected).advice, "look at the peer's log, or at its private data");
  EXPECT_EQ(sidr_failure(SidrStatus::no_qp).code, Errc::no_space);
  EXPECT_EQ(sidr_failure(SidrStatus::unsupported_version).code, Errc::rejected);
}

}  // namespace
}  // namespace parley::cm
