// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks shared by many cases: is this the expected Terminate, did the peer close, does the peer still understand the
// stream. RFC 5040 §4.8, RFC 5041 §7.1, RFC 5044 §8.
#pragma once
#include <array>
#include <initializer_list>
#include <optional>

#include "conform/core/tester.hpp"

namespace parley::conform {

struct TermCode {
  std::uint8_t layer = 0, etype = 0, code = 0;
  bool operator==(const TermCode&) const = default;
};
/// At most 8 codes; the report names the first one.
struct TermCodes {
  std::array<TermCode, 8> list{};
  std::size_t size = 0;
  TermCodes() = default;
  TermCodes(std::initializer_list<TermCode> codes) {
    for (const TermCode& code : codes) list[size++] = code;  // callers name fewer than 8
  }
  bool has(const TermCode& code) const;
};

inline Observation pass(std::string observed) { return {Verdict::pass, std::move(observed)}; }
inline Observation failed(std::string observed) { return {Verdict::fail, std::move(observed)}; }
inline Observation unclear(std::string observed) { return {Verdict::inconclusive, std::move(observed)}; }
/// Names an unexpected event in a finding, without octets that change from run to run.
std::string ending_text(const Received& received);

/// The expected Terminate.
struct TerminateDue {
  TermCodes codes;            ///< empty: any registered one of RDMAP and DDP
  bool header = true;         ///< M and D should be set (RFC 5040 §4.8: "SHOULD be set")
  bool read_request = false;  ///< R should also be set
  bool parts_judged = false;  ///< the case fails if M, D or R is missing
  Bytes segment;              ///< the faulty ULPDU; empty: not compared
  TermCodes unclear;          ///< codes that show that the peer's program did not do what the case needs
  std::string_view unclear_why;
};
/// Judges the octets as they are on the wire. If they are right only with the nibbles of octet 0 exchanged, the case
/// fails and the text says so.
Observation judge_terminate(const Received& received, const TerminateDue& due);
/// Whether it is a Terminate with that code, in either nibble order, or with the error type of Chelsio and Intel.
bool means(const Received& received, const TermCode& code);

/// One or more FPDUs that the peer must answer with a Terminate.
struct Provocation {
  struct Step {
    Bytes ulpdu;
    tester::FpduFaults faults{};
  };
  std::vector<Step> steps;  ///< the last one is the faulty one
  TerminateDue due;
  SetUp set_up;
  bool one_write = false;  ///< all steps in one write
};
Task<Observation> provoke(Tester& tester, Provocation provocation);
/// The same on an existing connection.
Task<Observation> provoke_on(Tester& tester, Conn& conn, Provocation provocation);

/// Ends the connection with a segment of RDMAP version 0. If the peer answers with the Terminate for it, the peer
/// understood everything before it. Returns nullopt then; else the text of what came instead.
Task<std::optional<std::string>> still_understands(Tester& tester, Conn& conn);
/// The segment of RDMAP version 0, and the code of its Terminate.
Bytes wrong_version_segment(std::uint32_t msn);
inline constexpr TermCode wrong_version{0, 2, 0x05};

/// Sends an Rtr frame with that key (OFA 2007-10 Rtr §1), then does the same.
Task<std::optional<std::string>> accepts_rtr_frame(Tester& tester, Conn& conn, std::string_view key);

/// Names what is wrong in the response to a zero-length Read: its length, sink STag or TO (RFC 5040 §5.2.2: the sink is
/// copied from the request). Empty: nothing.
std::string sink_fault(const Received& response, std::uint32_t stag, std::uint64_t to);

/// Memory that the peer advertised.
struct Region {
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;
};
/// The memory that rping's client advertises in its first Send. nullopt: no such message came.
Task<std::optional<Region>> rping_advertised(Tester& tester, Conn& conn);
/// An advertisement from the tester, which rping's server answers with a Read; and the parser of an advertisement.
Bytes rping_advertisement();
Region rping_region(ConstBytes advertisement);
/// The memory that rping's client advertises, or the sink of the Read that rping's server requests.
Task<std::optional<Region>> region_of(Tester& tester, Conn& conn);
/// Terminates that may also answer a Write to such memory. No RFC says that the sink of a Read, or memory open to
/// remote reads, accepts remote Writes. No RFC says whether its STag is then invalid or lacks the access right.
inline constexpr TermCode not_for_writes[] = {{0, 1, 0x02}, {1, 1, 0x00}};
inline constexpr std::string_view not_for_writes_why =
    "the memory may not be written at all, which is the first error found";

/// The peer must end the TCP connection by FIN or RST and send nothing before that.
Observation judge_closed(const Received& received, Duration within);
std::string seconds(Duration d);

}  // namespace parley::conform
