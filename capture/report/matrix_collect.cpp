// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report/matrix_collect.hpp"

#include <algorithm>

namespace parley::capture {
namespace {

/// Names for the hosts of one file.
class FileNames {
 public:
  FileNames(const PeerNames& names, const std::string& file, std::string first_initiator, std::string first_responder)
      : names_(names),
        first_host_(std::move(first_initiator)),
        second_host_(std::move(first_responder)),
        in_path_(names_in_path(file, first_, second_)) {}

  /// The path gives the names for the ends of the first connection. The same hosts have these names in all connections.
  std::string name(const std::string& host, bool initiator) const {
    const std::string given = names_.name_of_host(host);
    if (given != host || !in_path_) return given;
    if (first_host_ == second_host_ && host == first_host_) return initiator ? first_ : second_;
    return host == first_host_ ? first_ : host == second_host_ ? second_ : given;
  }

 private:
  const PeerNames& names_;
  std::string first_host_, second_host_, first_, second_;
  bool in_path_;
};

}  // namespace

void MatrixCollector::add(ConnectionReport&& c, std::string ladder) {
  Hosts hosts{host_of(c.initiator), host_of(c.responder)};
  if (c.first_frame < first_frame_) {
    first_frame_ = c.first_frame;
    first_ = hosts;
  }
  const Standing standing = c.judgement.standing;
  if (is_listed(matrix_.entries.size() + listed_.size(), standing)) {
    listed_.push_back({std::move(hosts), matrix_entry(std::move(c))});
    listed_.back().entry.ladder = std::move(ladder);
    return;
  }
  GroupKey alike{std::move(hosts), form_of(c), c.ib != nullptr};
  const auto found = counted_.find(alike);
  if (found != counted_.end())
    found->second.add(standing);
  else if (counted_.size() < Matrix::cells_max)
    counted_[std::move(alike)].add(standing);
  else
    outside_.add(standing);
}

void MatrixCollector::finish() {
  const FileNames names(names_, file_, first_.initiator, first_.responder);
  std::stable_sort(listed_.begin(), listed_.end(),
                   [](const Listed& a, const Listed& b) { return a.entry.first_frame < b.entry.first_frame; });
  for (Listed& one : listed_) {
    one.entry.file = file_;
    one.entry.initiator = names.name(one.hosts.initiator, true);
    one.entry.responder = names.name(one.hosts.responder, false);
    matrix_.add(std::move(one.entry));
  }
  for (const auto& [alike, counts] : counted_)
    matrix_.add({names.name(alike.hosts.initiator, true), names.name(alike.hosts.responder, false)}, alike.form,
                alike.roce, counts);
  matrix_.add_outside(outside_);
}

}  // namespace parley::capture
