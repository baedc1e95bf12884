// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/neg_plugin.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "drivers/plugin/python.hpp"
#include "parley/plugin.h"

namespace parley::neg {
namespace {

using Library = std::shared_ptr<void>;

tl::unexpected<Failure> refused(const std::string& path, std::string_view what, std::string advice = {}) {
  return tl::unexpected(Failure{
      .problem = Problem::plugin_refused, .text = fmt::format("{}: {}", path, what), .advice = std::move(advice)});
}

Problem problem_of(std::int32_t result) {
  switch (result) {
    case PARLEY_PLUGIN_SERIALIZATION: return Problem::serialization_failure;
    case PARLEY_PLUGIN_PEER_DATA: return Problem::invalid_peer_data;
    case PARLEY_PLUGIN_EXHAUSTED: return Problem::resource_exhaustion;
    case PARLEY_PLUGIN_CONFIGURATION: return Problem::configuration_error;
    default: return Problem::vendor_library_error;
  }
}

/// A buffer for a plug-in's error text.
class ErrorText {
 public:
  parley_plugin_text room() { return {text_.data(), text_.size()}; }
  tl::unexpected<Failure> failed(std::int32_t result) {
    text_.back() = '\0';
    std::string text = text_.data();
    // A number that plugin.h does not list is the vendor's own, and is more useful to its users than our name for it.
    if (result < PARLEY_PLUGIN_SERIALIZATION || result > PARLEY_PLUGIN_CONFIGURATION)
      text = text.empty() ? fmt::format("error {}", result) : fmt::format("{} (error {})", text, result);
    return tl::unexpected(Failure{.problem = problem_of(result), .text = std::move(text)});
  }

 private:
  std::array<char, 512> text_{};
};

class LoadedVariant final : public Variant {
 public:
  LoadedVariant(Library library, const parley_plugin_v1& api, void* session, bool done_stage)
      : library_(std::move(library)), api_(api), session_(session), done_stage_(done_stage) {}
  ~LoadedVariant() override {
    try {
      api_.close(session_);
    } catch (...) {  // plugin.h forbids exceptions; the session ends, but not this process
    }
  }
  LoadedVariant(const LoadedVariant&) = delete;
  LoadedVariant& operator=(const LoadedVariant&) = delete;

  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override {
    static constexpr std::uint8_t nothing = 0;  // an empty message differs from no message
    const std::uint8_t* said = !peer ? nullptr : peer->empty() ? &nothing : peer->data();
    parley_plugin_turn turn{};
    ErrorText why;
    const auto result =
        api_.exchange(session_, static_cast<std::int32_t>(stage), said, peer ? peer->size() : 0, &turn, why.room());
    if (result != PARLEY_PLUGIN_OK) return why.failed(result);
    if ((turn.message == nullptr && turn.length != 0) || turn.length > PARLEY_NEG_LENGTH_MAX)
      return tl::unexpected(Failure{.problem = Problem::plugin_refused,
                                    .text = fmt::format("the plug-in made a message of {} octets{}", turn.length,
                                                        turn.message == nullptr ? " at NULL" : "")});
    return Turn{turn.length == 0 ? Bytes() : Bytes(turn.message, turn.message + turn.length), turn.completed != 0};
  }
  Outcome<void> finished(Stage stage) override {
    if (api_.finished == nullptr) return {};
    ErrorText why;
    const auto result = api_.finished(session_, static_cast<std::int32_t>(stage), why.room());
    if (result != PARLEY_PLUGIN_OK) return why.failed(result);
    return {};
  }
  bool has_done_stage() const override { return done_stage_; }

 private:
  Library library_;  // stays loaded as long as any object of it lives
  const parley_plugin_v1& api_;
  void* session_;
  bool done_stage_;
};

class LoadedPlugin final : public Plugin {
 public:
  LoadedPlugin(Library library, const parley_plugin_v1& api) : library_(std::move(library)), api_(api) {}
  std::string id() const override { return api_.id; }
  std::string version() const override { return api_.version; }
  std::vector<VariantInfo> variants() const override;
  Outcome<void> initialize() override {
    if (api_.initialize == nullptr) return {};
    ErrorText why;
    const auto result = api_.initialize(why.room());
    if (result != PARLEY_PLUGIN_OK) return why.failed(result);
    return {};
  }
  Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role role, const Config& config) override;

 private:
  Library library_;
  const parley_plugin_v1& api_;
};

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

Parameter parameter_of(const parley_plugin_parameter& p) {
  Parameter out{.name = text_or_empty(p.name), .help = text_or_empty(p.help), .required = p.required != 0};
  out.otherwise = text_or_empty(p.otherwise);
  if (p.kind == PARLEY_PLUGIN_FLAG) out.kind = Parameter::Kind::flag;
  if (p.kind == PARLEY_PLUGIN_NUMBER) {
    out.kind = Parameter::Kind::number;
    if (p.most != 0) out.least = p.least, out.most = p.most;
  }
  return out;
}

std::vector<VariantInfo> LoadedPlugin::variants() const {
  std::vector<VariantInfo> out;
  for (std::size_t i = 0; i < api_.variant_count; ++i) {
    const parley_plugin_variant& v = api_.variants[i];
    VariantInfo info{.id = text_or_empty(v.id), .summary = text_or_empty(v.summary)};
    for (std::size_t p = 0; v.parameters != nullptr && p < v.parameter_count; ++p)
      info.parameters.push_back(parameter_of(v.parameters[p]));
    out.push_back(std::move(info));
  }
  return out;
}

Outcome<std::unique_ptr<Variant>> LoadedPlugin::make(std::string_view variant, Role role, const Config& config) {
  std::vector<parley_plugin_value> values;
  for (const auto& [name, value] : config) values.push_back({name.c_str(), value.c_str()});
  const std::string name(variant);
  const std::int32_t side = role == Role::initiator ? PARLEY_PLUGIN_INITIATOR : PARLEY_PLUGIN_RESPONDER;
  void* session = nullptr;
  ErrorText why;
  const auto result = api_.open(name.c_str(), side, values.data(), values.size(), &session, why.room());
  if (result != PARLEY_PLUGIN_OK) return why.failed(result);
  const auto* const end = api_.variants + api_.variant_count;
  const auto* const which =
      std::find_if(api_.variants, end, [&](const parley_plugin_variant& v) { return name == text_or_empty(v.id); });
  return std::make_unique<LoadedVariant>(library_, api_, session, which != end && which->has_done_stage != 0);
}

/// Empty, or the missing member.
std::string_view lacking(const parley_plugin_v1& api) {
  if (api.id == nullptr) return "id";
  if (api.version == nullptr) return "version";
  if (api.variants == nullptr) return "variants";
  if (api.open == nullptr) return "open";
  if (api.exchange == nullptr) return "exchange";
  if (api.close == nullptr) return "close";
  return {};
}

/// Detects counts that exceed the plug-in's memory before they are used.
std::string miscounted(const parley_plugin_v1& api) {
  if (api.variant_count > Framework::variants_max)
    return fmt::format("it has {} variants; at most {}", api.variant_count, Framework::variants_max);
  for (std::size_t i = 0; i < api.variant_count; ++i) {
    const parley_plugin_variant& v = api.variants[i];
    if (v.parameter_count > Framework::parameters_max)
      return fmt::format("its variant {} has {} parameters; at most {}", i, v.parameter_count,
                         Framework::parameters_max);
    if (v.parameters == nullptr && v.parameter_count != 0)
      return fmt::format("its variant {} has {} parameters at NULL", i, v.parameter_count);
  }
  return {};
}

/// The symbol's size in octets according to the object's symbol table; 0: unknown.
std::size_t size_of_symbol(const void* symbol) {
  Dl_info info{};
  void* extra = nullptr;
  if (::dladdr1(symbol, &info, &extra, RTLD_DL_SYMENT) == 0 || info.dli_saddr != symbol || extra == nullptr) return 0;
  return static_cast<const ElfW(Sym)*>(extra)->st_size;
}

}  // namespace

Outcome<std::unique_ptr<Plugin>> load_plugin(const std::string& path) {
  // A name without a slash would be searched in the system's paths.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  // Opening a pipe would block until a writer opens it.
  if (std::error_code none; std::filesystem::exists(file, none) && !std::filesystem::is_regular_file(file, none))
    return refused(path, "it is not a regular file");
  if (std::filesystem::path(path).extension() == ".py") return load_python_plugin(path);
  (void)::dlerror();
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const said = ::dlerror();
    return refused(path, said == nullptr ? "it cannot be loaded" : said);
  }
  const Library library(handle, [](void* h) { ::dlclose(h); });
  const auto* const api = static_cast<const parley_plugin_v1*>(::dlsym(handle, PARLEY_PLUGIN_SYMBOL_V1));
  if (api == nullptr)
    return refused(path, "it exports no " PARLEY_PLUGIN_SYMBOL_V1, "see include/parley/plugin.h for what a plug-in is");
  // Otherwise a pointer, or a function, of that name would be read as the structure.
  if (const std::size_t there = size_of_symbol(api); there != 0 && there < sizeof(parley_plugin_v1))
    return refused(
        path,
        fmt::format("its " PARLEY_PLUGIN_SYMBOL_V1 " has {} octets, {} are expected", there, sizeof(parley_plugin_v1)),
        "export the structure itself, not a pointer to it");
  if (api->abi != PARLEY_PLUGIN_ABI_V1)
    return refused(path,
                   fmt::format("its interface has version {}; this program knows {}", api->abi, PARLEY_PLUGIN_ABI_V1),
                   "compile it with this program's parley/plugin.h");
  if (api->size < sizeof(parley_plugin_v1))
    return refused(path,
                   fmt::format("its structure has {} octets, {} are expected", api->size, sizeof(parley_plugin_v1)),
                   "compile it with this program's parley/plugin.h");
  if (const std::string_view what = lacking(*api); !what.empty())
    return refused(path, fmt::format("'{}' of its interface is NULL", what));
  if (const std::string what = miscounted(*api); !what.empty()) return refused(path, what);
  return std::make_unique<LoadedPlugin>(library, *api);
}

Outcome<std::vector<std::string>> plugins_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code wrong;
  for (std::filesystem::directory_iterator at(folder, wrong), end; !wrong && at != end; at.increment(wrong))
    if (at->path().extension() == ".so" || at->path().extension() == ".py") out.push_back(at->path().string());
  if (wrong) return refused(folder, wrong.message());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace parley::neg
