// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A plug-in with a separate process for each session. This file has both ends of the protocol: a request begins with
// its kind; an answer begins with 1 and the result, or with 0 and a failure. Texts and octets are preceded by their
// length. Answers are untrusted input.
#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "cm/neg/guarded.hpp"
#include "drivers/plugin/process.hpp"
#include "parley/neg_plugin.hpp"

namespace parley::neg {
namespace {

enum class RequestCode : std::uint8_t { description = 1, initialize, variant, exchange, finished };

class Packer {
 public:
  void number(std::uint64_t value) {
    const std::size_t at = octets_.size();
    octets_.resize(at + sizeof value);
    Writer(MutBytes(octets_).subspan(at)).be64(value);
  }
  void bytes(ConstBytes in) {
    number(in.size());
    octets_.insert(octets_.end(), in.begin(), in.end());
  }
  void text(std::string_view in) { bytes({reinterpret_cast<const std::uint8_t*>(in.data()), in.size()}); }
  Bytes take() { return std::move(octets_); }

 private:
  Bytes octets_;
};

class Unpacker {
 public:
  explicit Unpacker(ConstBytes in) : in_(in) {}
  std::uint64_t number() { return in_.be64(); }
  ConstBytes bytes() { return in_.bytes(number()); }
  std::string text() {
    const ConstBytes octets = bytes();
    return {octets.begin(), octets.end()};
  }
  /// An excessive count ends with ok() false at the first missing element.
  template <class Each>
  void each(Each one) {
    for (std::uint64_t left = number(); left > 0 && ok(); --left) one();
  }
  bool ok() const { return in_.ok(); }

 private:
  Reader in_;
};

struct Description {
  std::string id, version;
  std::vector<VariantInfo> variants;
};

void pack(Packer& out, const Parameter& p) {
  out.text(p.name);
  out.number(static_cast<std::uint64_t>(p.kind));
  out.text(p.help);
  out.number(p.required ? 1 : 0);
  out.text(p.otherwise);
  out.number(p.least);
  out.number(p.most);
  out.number(p.choices.size());
  for (const std::string& choice : p.choices) out.text(choice);
}
Parameter unpack_parameter(Unpacker& in) {
  Parameter p;
  p.name = in.text();
  p.kind = static_cast<Parameter::Kind>(
      std::min<std::uint64_t>(in.number(), static_cast<std::uint64_t>(Parameter::Kind::choice)));
  p.help = in.text();
  p.required = in.number() != 0;
  p.otherwise = in.text();
  p.least = in.number();
  p.most = in.number();
  in.each([&] { p.choices.push_back(in.text()); });
  return p;
}

void pack(Packer& out, const Description& d) {
  out.text(d.id);
  out.text(d.version);
  out.number(d.variants.size());
  for (const VariantInfo& variant : d.variants) {
    out.text(variant.id);
    out.text(variant.summary);
    out.number(variant.parameters.size());
    for (const Parameter& p : variant.parameters) pack(out, p);
  }
}
Description unpack_description(Unpacker& in) {
  Description d{.id = in.text(), .version = in.text(), .variants = {}};
  in.each([&] {
    VariantInfo variant{.id = in.text(), .summary = in.text()};
    in.each([&] { variant.parameters.push_back(unpack_parameter(in)); });
    d.variants.push_back(std::move(variant));
  });
  return d;
}

Bytes packed(const Failure& why) {
  Packer out;
  out.number(0);
  out.number(static_cast<std::uint64_t>(why.problem));
  out.text(why.text);
  out.text(why.advice);
  return out.take();
}
template <class Pack>
Bytes packed(Pack pack) {
  Packer out;
  out.number(1);
  pack(out);
  return out.take();
}

/// The result from the process, or the reason for the failure.
template <class Unpack>
auto answered(const Outcome<Bytes>& octets, Unpack unpack) -> Outcome<decltype(unpack(std::declval<Unpacker&>()))> {
  if (!octets) return tl::unexpected(octets.error());
  Unpacker in(*octets);
  if (in.number() == 1) {
    auto out = unpack(in);
    if (in.ok()) return out;
  } else if (in.ok()) {
    Failure why{.problem = static_cast<Problem>(in.number())};
    why.text = in.text();
    why.advice = in.text();
    if (in.ok()) {
      make_sound(why);
      return tl::unexpected(std::move(why));
    }
  }
  return failed(Problem::plugin_refused, "what its process answered cannot be read");
}

/// Runs in the process: the plug-in, and the variant of its single session.
class PluginProcess {
 public:
  explicit PluginProcess(std::string path) : path_(std::move(path)) {}

  Bytes answer(ConstBytes request) {
    Unpacker in(request);
    switch (static_cast<RequestCode>(in.number())) {
      case RequestCode::description: return describe();
      case RequestCode::initialize: return initialize();
      case RequestCode::variant: return make(in);
      case RequestCode::exchange: return exchange(in);
      case RequestCode::finished: return finished(in);
    }
    return {};
  }

 private:
  Outcome<void> load() {
    if (plugin_) return {};
    auto loaded = load_plugin(path_);
    if (!loaded) return tl::unexpected(loaded.error());
    plugin_ = std::move(*loaded);
    return {};
  }
  Bytes describe() {
    const auto described = guarded([&]() -> Outcome<Description> {
      if (auto loaded = load(); !loaded) return tl::unexpected(loaded.error());
      return Description{plugin_->id(), plugin_->version(), plugin_->variants()};
    });
    return described ? packed([&](Packer& out) { pack(out, *described); }) : packed(described.error());
  }
  Bytes initialize() {
    const auto done = guarded([&]() -> Outcome<void> {
      if (auto loaded = load(); !loaded) return loaded;
      return plugin_->initialize();
    });
    return done ? packed([](Packer&) {}) : packed(done.error());
  }
  Bytes make(Unpacker& in) {
    const auto role = in.number() == 0 ? Role::initiator : Role::responder;
    const std::string name = in.text();
    Config config;
    in.each([&] {
      std::string key = in.text();
      config[std::move(key)] = in.text();
    });
    const auto made = guarded([&]() -> Outcome<bool> {
      if (auto loaded = load(); !loaded) return tl::unexpected(loaded.error());
      if (auto started = plugin_->initialize(); !started) return tl::unexpected(started.error());
      auto variant = plugin_->make(name, role, config);
      if (!variant) return tl::unexpected(variant.error());
      variant_ = std::move(*variant);
      return variant_->has_done_stage();
    });
    return made ? packed([&](Packer& out) { out.number(*made ? 1 : 0); }) : packed(made.error());
  }
  Bytes exchange(Unpacker& in) {
    const auto stage = static_cast<Stage>(in.number());
    const bool spoken = in.number() != 0;
    const ConstBytes peer = in.bytes();
    const auto turn = guarded([&] { return variant_->exchange(stage, spoken ? std::optional(peer) : std::nullopt); });
    if (!turn) return packed(turn.error());
    return packed([&](Packer& out) {
      out.number(turn->completed ? 1 : 0);
      out.bytes(turn->message);
    });
  }
  Bytes finished(Unpacker& in) {
    const auto stage = static_cast<Stage>(in.number());
    const auto done = guarded([&] { return variant_->finished(stage); });
    return done ? packed([](Packer&) {}) : packed(done.error());
  }

  std::string path_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<Variant> variant_;
};

/// Loading takes longer than a call: a Python plug-in starts the whole interpreter.
constexpr Duration load_limit = std::chrono::seconds(10);

struct Limits {
  Duration call;
  Duration load() const { return std::max(call, load_limit); }
};

Outcome<std::unique_ptr<Process>> start(const std::string& path, const Limits& limits) {
  return Process::start(
      [inside = std::make_shared<PluginProcess>(path)](ConstBytes request) { return inside->answer(request); },
      limits.call);
}

Packer request_of(RequestCode what) {
  Packer out;
  out.number(static_cast<std::uint64_t>(what));
  return out;
}

constexpr auto nothing = [](Unpacker&) { return true; };

class IsolatedVariant final : public Variant {
 public:
  IsolatedVariant(std::unique_ptr<Process> process, const Limits& limits, bool done_stage)
      : process_(std::move(process)), limits_(limits), done_stage_(done_stage) {}

  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override {
    Packer request = request_of(RequestCode::exchange);
    request.number(static_cast<std::uint64_t>(stage));
    request.number(peer ? 1 : 0);
    request.bytes(peer.value_or(ConstBytes()));
    return answered(process_->ask("exchange()", request.take(), limits_.call), [](Unpacker& in) {
      Turn turn;
      turn.completed = in.number() != 0;
      const ConstBytes message = in.bytes();
      turn.message.assign(message.begin(), message.end());
      return turn;
    });
  }
  Outcome<void> finished(Stage stage) override {
    Packer request = request_of(RequestCode::finished);
    request.number(static_cast<std::uint64_t>(stage));
    const auto done = answered(process_->ask("finished()", request.take(), limits_.call), nothing);
    if (!done) return tl::unexpected(done.error());
    return {};
  }
  bool has_done_stage() const override { return done_stage_; }

 private:
  std::unique_ptr<Process> process_;
  Limits limits_;
  bool done_stage_;
};

class IsolatedPlugin final : public Plugin {
 public:
  IsolatedPlugin(std::string path, const Limits& limits, std::unique_ptr<Process> process, Description description)
      : path_(std::move(path)), limits_(limits), first_(std::move(process)), description_(std::move(description)) {}
  std::string id() const override { return description_.id; }
  std::string version() const override { return description_.version; }
  std::vector<VariantInfo> variants() const override { return description_.variants; }
  Outcome<void> initialize() override {
    if (!first_) return {};
    const auto done =
        answered(first_->ask("initialize()", request_of(RequestCode::initialize).take(), limits_.load()), nothing);
    first_.reset();
    if (!done) return tl::unexpected(done.error());
    return {};
  }
  Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role role, const Config& config) override {
    Packer request = request_of(RequestCode::variant);
    request.number(role == Role::initiator ? 0 : 1);
    request.text(variant);
    request.number(config.size());
    for (const auto& [name, value] : config) {
      request.text(name);
      request.text(value);
    }
    auto process = start(path_, limits_);
    if (!process) return tl::unexpected(process.error());
    const auto made = answered((*process)->ask("making the variant", request.take(), limits_.load()),
                               [](Unpacker& in) { return in.number() != 0; });
    if (!made) return tl::unexpected(made.error());
    return std::make_unique<IsolatedVariant>(std::move(*process), limits_, *made);
  }

 private:
  std::string path_;
  Limits limits_;
  std::unique_ptr<Process> first_;  // until initialisation: each session has its own process
  Description description_;
};

}  // namespace

Outcome<std::unique_ptr<Plugin>> load_isolated_plugin(const std::string& path, Duration call_limit) {
  if (call_limit <= Duration{})
    return failed(Problem::configuration_error, "the longest time of a call of a plug-in is more than 0");
  const Limits limits{call_limit};
  auto process = start(path, limits);
  if (!process) return tl::unexpected(process.error());
  auto described = answered((*process)->ask("loading", request_of(RequestCode::description).take(), limits.load()),
                            unpack_description);
  if (!described) {
    Failure why = std::move(described.error());
    if (why.problem != Problem::plugin_refused) why.text = fmt::format("{}: {}", path, why.text);
    why.problem = Problem::plugin_refused;
    return tl::unexpected(std::move(why));
  }
  return std::make_unique<IsolatedPlugin>(path, limits, std::move(*process), std::move(*described));
}

}  // namespace parley::neg
