// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ops/probes.hpp"

#ifdef PARLEY_HAVE_SDT
#include <sys/sdt.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "parley/result.hpp"
#endif

namespace parley::tools {

#ifdef PARLEY_HAVE_SDT
namespace {

/// A probe is one instruction without effect, and its arguments are numbers and texts that exist anyway. All texts here
/// are literals, so that they end with a zero octet, although a view does not guarantee it.
class Probes final : public trace::Sink {
 public:
  Probes() { up_to = trace::Level::debug; }

  void record(const trace::Record& record) override { std::visit(ProbeVisitor{*this, record}, record.event); }

 private:
  // Connections whose start time is stored. For connections beyond this limit durations are 0.
  static constexpr std::size_t begun_max = 1U << 18;

  static std::uint64_t nanoseconds(Duration d) { return static_cast<std::uint64_t>(std::max(d, Duration{}).count()); }
  /// The Errc as a number; 0 for other categories.
  static int reason(const std::error_code& code) { return code.category() == error_category() ? code.value() : 0; }

  void begin(const trace::Record& record) {
    if (begun_.size() < begun_max) begun_[record.connection] = record.at;
  }
  std::uint64_t age(const trace::Record& record) const {
    const auto at = begun_.find(record.connection);
    return at == begun_.end() ? 0 : nanoseconds(record.at - at->second);
  }

  struct ProbeVisitor {
    Probes& p;
    const trace::Record& r;

    void operator()(const trace::CmState& e) const {
      if (e.from == "noted") {
        p.begin(r);
        DTRACE_PROBE2(parley, connect_begin, r.connection, r.peer.port);
      }
      DTRACE_PROBE4(parley, state, r.connection, e.from.data(), e.to.data(), p.age(r));
      if (e.to == "over" || e.to == "gone" || e.to == "moved") p.begun_.erase(r.connection);
    }
    void operator()(const trace::Admitted&) const {
      p.begin(r);
      DTRACE_PROBE2(parley, accept_begin, r.connection, r.peer.port);
    }
    // For a NIC, this is the first event of a peer.
    void operator()(const trace::Requested& e) const {
      if (e.device.empty()) return;
      p.begin(r);
      DTRACE_PROBE2(parley, accept_begin, r.connection, r.peer.port);
    }
    void operator()(const trace::KernelMessage& e) const {
      DTRACE_PROBE4(parley, kernel_message, r.connection, e.sent ? 1 : 0, e.kind.data(), p.age(r));
    }
    void operator()(const trace::MpaFrame& e) const {
      DTRACE_PROBE4(parley, mpa_frame, r.connection, e.sent ? 1 : 0, e.kind.data(), p.age(r));
    }
    void operator()(const trace::Decided& e) const {
      DTRACE_PROBE3(parley, decided, r.connection, e.accept ? 1 : 0, p.age(r));
    }
    void operator()(const trace::Established& e) const {
      DTRACE_PROBE3(parley, established, r.connection, (e.mpa ? e.mpa->rtr : std::string_view("")).data(), p.age(r));
    }
    void operator()(const trace::Rejected&) const { DTRACE_PROBE2(parley, rejected, r.connection, p.age(r)); }
    void operator()(const trace::Failed& e) const {
      DTRACE_PROBE4(parley, failed, r.connection, stage(e.why), reason(e.why.code), p.age(r));
    }
    void operator()(const trace::Retrying& e) const {
      DTRACE_PROBE5(parley, retrying, r.connection, stage(e.why), reason(e.why.code), p.age(r), nanoseconds(e.wait));
    }
    void operator()(const trace::Disconnected&) const { DTRACE_PROBE2(parley, disconnected, r.connection, p.age(r)); }
    void operator()(const trace::Lost& e) const {
      DTRACE_PROBE4(parley, lost, r.connection, stage(e.why), reason(e.why.code), p.age(r));
    }
    void operator()(const trace::Refused& e) const { DTRACE_PROBE1(parley, refused, e.limit.data()); }
    void operator()(const trace::Evicted& e) const {
      DTRACE_PROBE3(parley, evicted, r.connection, e.limit.data(), nanoseconds(e.waited));
      p.begun_.erase(r.connection);
    }
    void operator()(const trace::TimerExpired& e) const {
      DTRACE_PROBE3(parley, timer_expired, r.connection, e.timer.data(), p.age(r));
    }
    void operator()(const trace::Terminate& e) const {
      DTRACE_PROBE5(parley, terminate, r.connection, e.sent ? 1 : 0, e.layer, e.etype, e.code);
    }
    void operator()(const trace::NegStarted& e) const {
      p.begin(r);
      DTRACE_PROBE2(parley, neg_started, r.connection, e.role == "initiator" ? 1 : 0);
    }
    void operator()(const trace::NegStage& e) const {
      DTRACE_PROBE4(parley, neg_stage, r.connection, e.from.data(), e.to.data(), p.age(r));
    }
    void operator()(const trace::NegAgreed& e) const {
      DTRACE_PROBE3(parley, neg_agreed, r.connection, e.qps, p.age(r));
      p.begun_.erase(r.connection);
    }
    void operator()(const trace::NegFailed& e) const {
      DTRACE_PROBE4(parley, neg_failed, r.connection, e.why.stage.data(), e.why.problem.data(), p.age(r));
      p.begun_.erase(r.connection);
    }
    void operator()(const trace::NegRetrying& e) const {
      DTRACE_PROBE5(parley, neg_retrying, r.connection, e.why.stage.data(), e.why.problem.data(), p.age(r),
                    nanoseconds(e.wait));
    }
    // Other events report the same facts. FPDUs and deadlines are too frequent to be recorded without a consumer.
    template <class E>
    void operator()(const E&) const {}

    static const char* stage(const cm::Failure& why) { return to_string(why.stage()).data(); }
  };
  friend struct ProbeVisitor;

  std::unordered_map<std::uint64_t, Instant> begun_;
};

}  // namespace
#endif

std::unique_ptr<trace::Sink> make_probes() {
#ifdef PARLEY_HAVE_SDT
  return std::make_unique<Probes>();
#else
  return nullptr;
#endif
}

}  // namespace parley::tools
