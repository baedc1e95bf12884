// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The root's collection of its subnet: periodically, and soon after a port greets that the last one has not found.
#include <algorithm>
#include <ctime>

#include "drivers/clock.hpp"
#include "drivers/ssa/daemon.hpp"

namespace parley::ssa_driver {

namespace {

mad::Task<void> collect_all(mad::Port& port, CollectOptions options, Survey& out) {
  co_await mad::discover(port, {}, out.found);
  if (out.found.whole && out.found.lost == 0 && out.found.doubtful == 0)
    co_await collect(port, out.found.topology, options, out.tables);
}

/// Why a collection cannot be used; empty: it can.
std::string fault_of(const Survey& survey) {
  if (survey.found.lost > 0) return "the discovery had requests without an answer";
  if (survey.found.doubtful > 0) return "the subnet changed during the discovery";
  if (!survey.found.whole) return "the discovery was incomplete";
  if (survey.tables.lost > 0) return "a table had no good answer: " + survey.tables.first_error;
  if (!survey.tables.whole) return "the collection was incomplete";
  return {};
}

ssa::MasterTimers master_timers(Duration heartbeat) {
  ssa::MasterTimers out;
  for (Duration* time :
       {&out.settle, &out.shape_grace, &out.spread, &out.answer_first, &out.confirm, &out.rebalance, &out.unpark})
    *time = scaled(*time, heartbeat);
  return out;
}

}  // namespace

void Daemon::survey(Instant now) {
  if (member_ == nullptr || !was_root_) return;
  if (surveying_) {
    if (surveying_->done()) end_survey(now);
    return;
  }
  if (std::exchange(unknown_port_, false)) times_.unknown_port(now);
  if (now < times_.at()) return;
  survey_ = std::make_unique<Survey>();
  survey_began_ = now;
  surveying_.emplace(port_.executor(), collect_all(port_, {.route_sls = options_.route_sls}, *survey_));
}

void Daemon::end_survey(Instant now) {
  surveying_.reset();
  surveys_.took = now - survey_began_;
  surveys_.asked = survey_->found.asked + survey_->tables.asked;
  surveys_.error = fault_of(*survey_);
  if (surveys_.error.empty())
    if (const auto published = publish_survey(now); !published) surveys_.error = published.error().message();
  ++(surveys_.error.empty() ? surveys_.done : surveys_.failed);
  if (surveys_.error.empty()) surveys_.sl_unknown = std::move(survey_->tables.sl_unknown);
  survey_.reset();
  times_.ended(now, surveys_.took, surveys_.error.empty() ? std::optional(places_->size()) : std::nullopt);
}

Result<void> Daemon::publish_survey(Instant now) {
  if (!database_) {
    const auto seconds = static_cast<std::uint32_t>(::time(nullptr));
    const ssa::SnapshotPtr last = current_.get();
    const std::uint32_t seen = std::max(met_, last == nullptr ? 0 : last->epoch().incarnation);
    incarnation_ = incarnation_ == 0 && seen == 0 && options_.incarnation != 0
                       ? options_.incarnation
                       : next_incarnation(incarnation_, seen, seconds);
    auto made = SubnetDatabase::create(incarnation_);
    if (!made) return tl::unexpected(made.error());
    database_.emplace(std::move(*made));
  }
  const auto snapshot = database_->update(survey_->found.topology, survey_->tables);
  if (!snapshot) return tl::unexpected(snapshot.error());
  if (places_ == nullptr || *snapshot != member_->snapshot())
    places_ = std::make_shared<SubnetPlaces>(survey_->found.topology, survey_->tables);
  if (*snapshot != member_->snapshot())
    if (const auto good = accept(*snapshot); !good) return good;
  if (member_->master() == nullptr) member_->lead(now, master_options((*snapshot)->epoch()));
  member_->publish(now, *snapshot);
  return {};
}

ssa::MasterOptions Daemon::master_options(ssa::Epoch epoch) {
  ssa::MasterOptions out;
  out.seed = node_options(transport_->local()).seed;
  out.epoch = epoch;
  out.topology.hops = [this](const Gid& a, const Gid& b) { return places_->hops(a, b); };
  out.topology.leaf = [this](const Gid& gid) { return places_->leaf_of(gid); };
  out.roles_of = options_.roles_of;
  out.has_p_key = [this](const Gid& gid, std::uint16_t p_key) {
    if (!places_->has(gid)) unknown_port_ = true;
    return places_->has_p_key(gid, p_key);
  };
  out.placement.capacity = options_.children_max / 2;  // others have the node as their backup
  out.timers = master_timers(options_.heartbeat);
  return out;
}

}  // namespace parley::ssa_driver
