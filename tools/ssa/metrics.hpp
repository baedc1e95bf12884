// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley ssad --metrics` and `--metrics-http`: a node's place, its database and its counters. docs/ssa.md lists them.
#pragma once
#include "drivers/ssa/control.hpp"
#include "drivers/ssa/daemon.hpp"
#include "ops/metrics/exposition.hpp"
#include "ops/metrics/source.hpp"
#include "tools/ssa/node_acm.hpp"
#include "tools/ssa/report.hpp"

namespace parley::tools {

class SsadMetrics final : public ops::MetricsSource {
 public:
  /// All must outlive this object. `acm` may be null.
  SsadMetrics(const ssa_driver::Daemon& daemon, const ssa_driver::ControlServer& control,
              const QuestionCounts& questions, const NodeAcm* acm)
      : daemon_(daemon), control_(control), questions_(questions), acm_(acm) {}

  std::string text() const override;

 private:
  void write_place(ops::Exposition& out) const;
  void write_database(ops::Exposition& out) const;
  void write_data(ops::Exposition& out) const;
  void write_refusals(ops::Exposition& out) const;
  void write_lookups(ops::Exposition& out) const;

  const ssa_driver::Daemon& daemon_;
  const ssa_driver::ControlServer& control_;
  const QuestionCounts& questions_;
  const NodeAcm* acm_;
};

}  // namespace parley::tools
