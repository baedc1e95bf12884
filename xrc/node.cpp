// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "xrc/node.hpp"

#include <algorithm>

namespace parley::xrc {
namespace {

constexpr DomainKey the_domain{.device = 1, .st_dev = 0, .st_ino = 1};  // of the node's one domain, which has no file

}  // namespace

Result<std::unique_ptr<Node>> Node::create(Instant now, parley::Device& nic, RegistryOptions options) {
  options.assigns_numbers = false;
  auto registry = Registry::create(now, options);
  if (!registry) return tl::unexpected(registry.error());
  auto domain = nic.open_xrcd();
  if (!domain) return tl::unexpected(domain.error());
  return std::unique_ptr<Node>(new Node(now, nic, std::move(*registry), std::move(*domain)));
}

Result<Node::Member*> Node::open(Process process) {
  const auto id = registry_.open(now_, {.key = the_domain, .process = std::move(process)});
  if (!id) return tl::unexpected(id.error());
  return &members_.emplace_back(registry_, *id, now_, nic_, *domain_);
}

Result<void> Node::leave(Member& member, bool force) {
  if (auto closed = registry_.close(now_, member.registrar.member(), force); !closed) return closed;
  drop(member);
  return {};
}

void Node::dead(Member& member) {
  registry_.dead(now_, member.registrar.member());
  drop(member);
}

void Node::drop(Member& member) {
  members_.remove_if([&member](const Member& m) { return &m == &member; });
  reap();
}

bool Node::handle(const AsyncEvent& event) {
  return std::any_of(members_.begin(), members_.end(), [&event](Member& m) { return m.attachment.handle(event); });
}

void Node::turn(Instant now) {
  now_ = now;
  registry_.handle_deadline(now);
  reap();
}

// Closes the handles of queue pairs that the registry has ended, also those of members that did not unregister.
void Node::reap() {
  while (const auto id = registry_.poll_ended())
    for (Member& m : members_) m.attachment.ended(*id);
}

}  // namespace parley::xrc
