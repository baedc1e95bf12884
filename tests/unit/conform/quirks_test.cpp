// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tool finds departures by itself: Parley playing each entry of the quirk table fails the cases that the entry
// breaks, and no others.
#include "mpa/quirks.hpp"
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

using Names = std::set<std::string>;

Names failing(const Under& under) {
  Names names;
  for (const Result& r : run(under))
    if (r.finding.verdict == Verdict::fail) names.insert(std::string(r.what->name));
  return names;
}

Under playing(Iut iut, std::string_view quirk) {
  Under under{.iut = iut};
  under.mpa.play_quirk = std::string(quirk);
  under.mpa.rtr = iut == Iut::initiator ? mpa::Rtr::write : mpa::Rtr::none;
  under.sends_first = true;
  return under;
}

/// Checked both ways: each case named is found, and nothing else.
void expect(Iut iut, std::string_view quirk, const Names& expected) {
  const Names found = failing(playing(iut, quirk));
  for (const std::string& name : expected)
    EXPECT_TRUE(found.count(name) > 0) << quirk << " as " << to_string(iut) << " passed " << name;
  for (const std::string& name : found)
    EXPECT_TRUE(expected.count(name) > 0) << quirk << " as " << to_string(iut) << " failed " << name;
}

Names with(Names names, const Names& more) {
  names.insert(more.begin(), more.end());
  return names;
}

/// Every case that a Terminate answers, above MPA.
const Names terminated{"atomic-misaligned",
                       "atomic-response-unasked",
                       "ddp-version-0-tagged",
                       "ddp-version-0-untagged",
                       "immediate-of-7-octets",
                       "invalidate-foreign-stag",
                       "message-too-long",
                       "mo-4-first",
                       "msn-2-first",
                       "no-receive",
                       "opcode-f",
                       "queue-5",
                       "rdmap-version-0",
                       "read-bad-stag",
                       "read-msn-2-first",
                       "read-on-queue-0",
                       "read-response-unasked",
                       "tagged-send",
                       "terminate-carries-read-header",
                       "terminate-carries-segment-header",
                       "ulpdu-length-4",
                       "untagged-write",
                       "write-bad-stag"};
const Names terminated_by_mpa{"bad-crc", "bad-crc-after-good", "ulpdu-length-0"};
/// What an initiator finds wrong in a Reply is told by a Terminate too: RFC 6581 §8.
const Names terminated_by_initiator =
    with(terminated_by_mpa, {"no-common-rtr", "reply-ord-over-ird", "reply-without-a"});

TEST(ConformQuirks, EachQuirkFailsItsOwnCasesAsResponder) {
  const Names echo{"reserved-bits-ignored", "s-on-revision-1-truthful", "rtr-frame-text", "rtr-frame-octets"};
  // Its early Send also stands where the tester waits for the end of the connection.
  const Names unfenced{"responder-waits-for-first-fpdu", "rtr-missing-times-out"};
  // Linux siw under the same cases is in docs/interop/linux-6.1-siw.md; what its table entry does not say is not here.
  const Names siw = with(with(with(with(echo, unfenced), with(terminated, terminated_by_mpa)), {"reads-over-ird"}),
                         {"depths-3fff-mirrored", "enhanced-of-3-octets-closes", "enhanced-without-data-closes",
                          "markers-asked", "markers-asked-v1", "markers-at-every-place-sent", "private-data-512",
                          "r-in-request-ignored", "read-rtr-raises-ird", "rtr-faulty"});
  const Names cxgb4 = with(terminated_by_mpa, {"a-alone", "a-with-send", "private-data-512", "zero-write-any-stag"});
  const std::map<std::string_view, Names> expected{
      {"siw", siw},
      {"siw-p2p", siw},
      {"siw-no-a",
       [&] {
         Names names = with(siw, {"a-alone", "a-with-all-kinds", "a-with-read", "a-with-send", "a-with-write"});
         for (const char* name : {"rtr-missing-times-out", "rtr-faulty"}) names.erase(name);  // no indication is agreed
         return names;
       }()},
      {"cxgb4", cxgb4},
      {"cxgb4-write", with(cxgb4, {"write-rtr-stag-0"})},
      {"cxgb4-stag0", cxgb4},
      {"irdma", with(terminated_by_mpa, {"request-in-two-segments", "request-octet-by-octet"})},
      {"qedr", {}},
      {"erdma", {"revision-129-closes"}},
      {"echo-reserved", echo},
      {"no-fence", unfenced},
  };
  for (const mpa::Quirk& quirk : mpa::all_quirks()) {
    const auto found = expected.find(quirk.name);
    ASSERT_NE(found, expected.end()) << quirk.name;
    expect(Iut::responder, quirk.name, found->second);
  }
}

TEST(ConformQuirks, EachQuirkFailsItsOwnCasesAsInitiator) {
  const Names siw =
      with(with(terminated, terminated_by_initiator), {"crc-by-default", "depths-3fff-left-alone", "markers-asked",
                                                       "markers-at-every-place-sent", "reply-without-a-with-kinds"});
  const Names cxgb4_write = with(terminated_by_initiator, {"reply-without-a-with-kinds", "zero-write-any-stag"});
  const Names cxgb4 = with(cxgb4_write, {"both-kinds-to-one"});
  const std::map<std::string_view, Names> expected{
      {"siw", siw},
      {"siw-p2p", siw},
      {"siw-no-a", siw},
      {"cxgb4", cxgb4},
      {"cxgb4-write", cxgb4_write},
      {"cxgb4-stag0", cxgb4},
      {"irdma", with(terminated_by_initiator, {"reply-octet-by-octet", "reply-without-a-with-kinds"})},
      {"qedr", {}},
      {"erdma",
       {"bad-key-closes", "fpdu-glued-to-reply", "half-reply-times-out", "no-reply-times-out", "rejected-with-data",
        "reply-enhanced-without-data", "reply-octet-by-octet", "reply-private-data-600", "request-key-closes",
        "request-sound", "revision-3-closes", "silent-before-reply", "v1-answer-to-v2"}},
      {"echo-reserved", {}},
      {"no-fence", {}},
  };
  for (const mpa::Quirk& quirk : mpa::all_quirks()) {
    const auto found = expected.find(quirk.name);
    ASSERT_NE(found, expected.end()) << quirk.name;
    expect(Iut::initiator, quirk.name, found->second);
  }
}

}  // namespace
}  // namespace parley::conform
