// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Judgements shared by many cases: is this Terminate the one that is due, did the peer close, is the stream still
// understood. RFC 5040 §4.8, RFC 5041 §7.1, RFC 5044 §8.
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
/// At most a few; the first is the one named in the text.
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
/// How a finding names an unexpected end: without octets that change from run to run.
std::string ending_text(const Received& received);

/// What a Terminate must be.
struct TerminateDue {
  TermCodes codes;            ///< none: any registered one of RDMAP and DDP
  bool header = true;         ///< M and D should be there (RFC 5040 §4.8: "SHOULD be set")
  bool read_request = false;  ///< R as well
  bool parts_judged = false;  ///< the case is about their absence
  Bytes segment;              ///< the ULPDU terminated; empty: not compared
  TermCodes unclear;          ///< codes that show that the peer's program did not do what the case needs
  std::string_view unclear_why;
};
/// Judges octets as they are on the wire, regardless of what the peer may have meant; then says what it meant.
Observation judge_terminate(const Received& received, const TerminateDue& due);
/// Whether it is that Terminate in either nibble order, or with the error type of Chelsio and Intel.
bool means(const Received& received, const TermCode& code);

/// An FPDU, or several, after which a Terminate is due.
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

/// Ends the connection with a segment of RDMAP version 0: if the answer is the one due for it, everything before it was
/// understood. Returns nothing then; else what came instead.
Task<std::optional<std::string>> still_understands(Tester& tester, Conn& conn);
/// The segment of RDMAP version 0 and the code due for it.
Bytes wrong_version_segment(std::uint32_t msn);
inline constexpr TermCode wrong_version{0, 2, 0x05};

/// The same after an Rtr frame with that key, which is sent first (OFA 2007-10 Rtr §1).
Task<std::optional<std::string>> takes_rtr_frame(Tester& tester, Conn& conn, std::string_view key);

/// Which of length, sink STag and TO of this Read Response are not those due for a zero-length Read
/// (RFC 5040 §5.2.2: the sink is copied from the request); empty: none.
std::string sink_fault(const Received& response, std::uint32_t stag, std::uint64_t to);

/// Memory of the peer that it advertised itself.
struct Region {
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::uint32_t length = 0;
};
/// The memory that rping's client advertises in its first Send. Nothing: no such message came.
Task<std::optional<Region>> rping_advertised(Tester& tester, Conn& conn);
/// Such a message from the tester, which rping's server answers with a Read; and what one says.
Bytes rping_advertisement();
Region rping_region(ConstBytes advertisement);
/// What rping's client advertises, or the sink of the Read that rping's server requests.
Task<std::optional<Region>> region_of(Tester& tester, Conn& conn);
/// How a Write to such memory may end although it exists: no RFC says that the sink of a Read, or memory open to remote
/// reads, accepts remote Writes, nor whether its STag is invalid for them or lacks the right.
inline constexpr TermCode not_for_writes[] = {{0, 1, 0x02}, {1, 1, 0x00}};
inline constexpr std::string_view not_for_writes_why =
    "the memory may not be written at all, which is the first error found";

/// The peer must end the TCP connection by FIN or RST and send nothing before that.
Observation judge_closed(const Received& received, Duration within);
std::string seconds(Duration d);

}  // namespace parley::conform
