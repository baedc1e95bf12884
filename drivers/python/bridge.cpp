// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plug-ins of staged QP negotiation that are Python modules (docs/negotiation.md, Plug-ins in Python). The interpreter
// is started with the first of them and runs until the process ends.
#include <pybind11/embed.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "drivers/plugin/python.hpp"
#include "drivers/secure_env.hpp"

namespace py = pybind11;

namespace parley::neg {
namespace {

constexpr int frames_max = 8;  // of a traceback, in a failure's text

/// The exceptions with which a module reports errors, in its module `parley`.
constexpr std::pair<const char*, Problem> exceptions[] = {
    {"SerializationFailure", Problem::serialization_failure}, {"InvalidPeerData", Problem::invalid_peer_data},
    {"ResourceExhaustion", Problem::resource_exhaustion},     {"VendorLibraryError", Problem::vendor_library_error},
    {"ConfigurationError", Problem::configuration_error},
};

/// The module `parley`, with the exceptions. It is created manually: pybind11's own way requires that Python has not
/// started yet.
void make_module() {
  py::dict modules = py::module_::import("sys").attr("modules");
  const py::object there = modules.contains("parley") ? py::object(modules["parley"])
                                                      : py::reinterpret_steal<py::object>(PyModule_New("parley"));
  for (const auto& [name, problem] : exceptions)
    there.attr(name) = py::reinterpret_steal<py::object>(
        PyErr_NewException(fmt::format("parley.{}", name).c_str(), PyExc_Exception, nullptr));
  modules["parley"] = there;
}

/// Modules are not searched in the current directory. Texts are UTF-8.
void start_interpreter() {
  PyPreConfig before;
  PyPreConfig_InitIsolatedConfig(&before);
  before.utf8_mode = 1;
  (void)Py_PreInitialize(&before);
  if (has_more_rights()) {  // then only the system's modules are used
    PyConfig config;
    PyConfig_InitIsolatedConfig(&config);
    py::initialize_interpreter(&config, 0, nullptr, false);
  } else {
    py::initialize_interpreter(false, 0, nullptr, false);
  }
  const py::module_ sys = py::module_::import("sys");
  sys.attr("dont_write_bytecode") = true;
  sys.attr("stdout") = sys.attr("stderr");  // standard output belongs to the program
}

void start_python() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (Py_IsInitialized() != 0) {  // the program itself uses Python
      const py::gil_scoped_acquire lock;
      return make_module();
    }
    start_interpreter();
    make_module();
    (void)PyEval_SaveThread();  // each call acquires the lock
  });
}

/// "ValueError: 3 octets; acme.py:17 in rdma_info_exchange, acme.py:9 in parse": the innermost call comes last.
std::string text_of(const py::error_already_set& error) {
  std::string out =
      fmt::format("{}: {}", std::string(py::str(error.type().attr("__name__"))), std::string(py::str(error.value())));
  std::vector<std::string> frames;
  for (py::object at = error.trace(); at && !at.is_none(); at = at.attr("tb_next")) {
    const py::object code = at.attr("tb_frame").attr("f_code");
    frames.push_back(fmt::format(
        "{}:{} in {}", std::filesystem::path(std::string(py::str(code.attr("co_filename")))).filename().string(),
        at.attr("tb_lineno").cast<int>(), std::string(py::str(code.attr("co_name")))));
  }
  const std::size_t from = frames.size() > frames_max ? frames.size() - frames_max : 0;
  for (std::size_t i = from; i < frames.size(); ++i) out += (i == from ? "; " : ", ") + frames[i];
  return out;
}

/// Converts the exception that was raised: one of those above, or any other.
Failure raised(const py::error_already_set& error) {
  const py::module_ parley = py::module_::import("parley");
  for (const auto& [name, problem] : exceptions)
    if (error.matches(parley.attr(name))) return {.problem = problem, .text = std::string(py::str(error.value()))};
  if (error.matches(PyExc_MemoryError)) return {.problem = Problem::resource_exhaustion, .text = text_of(error)};
  return {.problem = Problem::unexpected_exception, .text = text_of(error)};
}

/// A forked child of a module must not continue as a second server with the parent's sockets.
class OneProcess {
 public:
  OneProcess() = default;
  OneProcess(const OneProcess&) = delete;
  OneProcess& operator=(const OneProcess&) = delete;
  ~OneProcess() {
    if (::getpid() != self_) ::_exit(EXIT_FAILURE);
  }

 private:
  pid_t self_ = ::getpid();
};

/// Calls with Python's lock; an exception of the module becomes a Failure.
template <class F>
auto locked(F&& call) -> decltype(call()) {
  const OneProcess parent;
  const py::gil_scoped_acquire lock;
  try {
    return call();
  } catch (const py::error_already_set& error) {
    return tl::unexpected(raised(error));
  } catch (const py::builtin_exception& error) {  // pybind11's own: a value of the wrong type
    return tl::unexpected(Failure{.problem = Problem::plugin_refused, .text = error.what()});
  }
}

tl::unexpected<Failure> refused(std::string text) {
  return tl::unexpected(Failure{.problem = Problem::plugin_refused, .text = std::move(text)});
}

std::string type_of(const py::handle& value) { return std::string(py::str(py::type::of(value).attr("__name__"))); }

/// A reference to a Python object, released with the lock held wherever it is destroyed.
class ObjectRef {
 public:
  explicit ObjectRef(py::object object) : object_(std::move(object)) {}
  ~ObjectRef() {
    const py::gil_scoped_acquire lock;
    object_ = py::object();
  }
  ObjectRef(const ObjectRef&) = delete;
  ObjectRef& operator=(const ObjectRef&) = delete;
  const py::object& get() const { return object_; }

 private:
  py::object object_;
};

const char* method_of(Stage stage) {
  return stage == Stage::info    ? "rdma_info_exchange"
         : stage == Stage::ready ? "rdma_ready_exchange"
                                 : "rdma_done_exchange";
}

class PythonVariant final : public Variant {
 public:
  PythonVariant(py::object variant, bool done_stage) : variant_(std::move(variant)), done_stage_(done_stage) {}

  Outcome<Turn> exchange(Stage stage, std::optional<ConstBytes> peer) override {
    return locked([&]() -> Outcome<Turn> {
      py::object said = py::none();
      if (peer) said = py::bytes(reinterpret_cast<const char*>(peer->data()), peer->size());
      return turn_of(method_of(stage), variant_.get().attr(method_of(stage))(said));
    });
  }
  Outcome<void> finished(Stage stage) override {
    return locked([&]() -> Outcome<void> {
      if (py::hasattr(variant_.get(), "stage_finished"))
        variant_.get().attr("stage_finished")(stage == Stage::info ? "info" : stage == Stage::ready ? "ready" : "done");
      return {};
    });
  }
  bool has_done_stage() const override { return done_stage_; }

 private:
  static Outcome<Turn> turn_of(const char* method, const py::object& answer) {
    if (!py::isinstance<py::dict>(answer))
      return refused(
          fmt::format("{}() returned {}; a dict with 'data' and 'completed' is expected", method, with_type(answer)));
    const auto dict = answer.cast<py::dict>();
    if (!dict.contains("completed") || !py::isinstance<py::bool_>(dict["completed"]))
      return refused(fmt::format("{}(): 'completed' is to be True or False", method));
    Turn turn{.message = {}, .completed = dict["completed"].cast<bool>()};
    if (!dict.contains("data") || dict["data"].is_none()) return turn;
    const py::object data = dict["data"];
    if (PyObject_CheckBuffer(data.ptr()) == 0)
      return refused(fmt::format("{}(): 'data' is {}; bytes are expected", method, with_type(data)));
    Py_buffer view;
    if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      return refused(fmt::format("{}(): the octets of 'data' ({}) are not in one piece", method, type_of(data)));
    }
    const auto size = static_cast<std::size_t>(view.len);
    if (size <= PARLEY_NEG_LENGTH_MAX) {
      const auto* const octets = static_cast<const std::uint8_t*>(view.buf);
      turn.message.assign(octets, octets + size);
    }
    PyBuffer_Release(&view);
    if (size > PARLEY_NEG_LENGTH_MAX)
      return refused(fmt::format("{}(): 'data' has {} octets; at most {}", method, size, PARLEY_NEG_LENGTH_MAX));
    return turn;
  }
  static std::string with_type(const py::object& value) { return value.is_none() ? "None" : type_of(value); }

  ObjectRef variant_;
  bool done_stage_;
};

class PythonPlugin final : public Plugin {
 public:
  PythonPlugin(py::object plugin, std::string id, std::string version, std::vector<VariantInfo> variants)
      : plugin_(std::move(plugin)), id_(std::move(id)), version_(std::move(version)), variants_(std::move(variants)) {}
  std::string id() const override { return id_; }
  std::string version() const override { return version_; }
  std::vector<VariantInfo> variants() const override { return variants_; }

  Outcome<void> initialize() override {
    return locked([&]() -> Outcome<void> {
      if (py::hasattr(plugin_.get(), "initialize")) plugin_.get().attr("initialize")();
      return {};
    });
  }
  Outcome<std::unique_ptr<Variant>> make(std::string_view variant, Role role, const Config& config) override {
    return locked([&]() -> Outcome<std::unique_ptr<Variant>> {
      py::object made = plugin_.get().attr("get_variant")(std::string(variant), values_of(variant, role, config));
      for (const Stage stage : {Stage::info, Stage::ready})
        if (!py::hasattr(made, method_of(stage)))
          return refused(fmt::format("get_variant() returned {}, which has no {}()", type_of(made), method_of(stage)));
      const bool done = py::hasattr(made, method_of(Stage::done));
      return std::make_unique<PythonVariant>(std::move(made), done);
    });
  }

 private:
  /// Numbers and flags as Python values, and "role".
  py::dict values_of(std::string_view variant, Role role, const Config& config) const {
    py::dict out;
    for (const auto& [name, value] : config) out[py::str(name)] = value_of(kind_of(variant, name), value);
    out["role"] = role == Role::initiator ? "initiator" : "responder";
    return out;
  }
  Parameter::Kind kind_of(std::string_view variant, std::string_view name) const {
    for (const VariantInfo& v : variants_)
      for (const Parameter& p : v.parameters)
        if (v.id == variant && p.name == name) return p.kind;
    return Parameter::Kind::text;
  }
  /// In the format that the framework has checked: hexadecimal after 0x, else decimal.
  static std::uint64_t number_of(const std::string& value) {
    const bool hex = value.starts_with("0x");
    return std::stoull(hex ? value.substr(2) : value, nullptr, hex ? 16 : 10);
  }
  static py::object value_of(Parameter::Kind kind, const std::string& value) {
    if (kind == Parameter::Kind::flag) return py::bool_(value == "true");
    if (kind == Parameter::Kind::number) return py::int_(number_of(value));
    return py::str(value);
  }

  ObjectRef plugin_;
  std::string id_, version_;
  std::vector<VariantInfo> variants_;
};

std::string text_in(const py::dict& in, const char* key) {
  return in.contains(key) ? std::string(py::str(in[key])) : std::string();
}

Parameter parameter_of(const py::dict& in) {
  Parameter out{.name = text_in(in, "name"), .help = text_in(in, "help"), .otherwise = text_in(in, "otherwise")};
  const std::string kind = text_in(in, "kind");
  if (!kind.empty() && kind != "text" && kind != "number" && kind != "flag" && kind != "choice")
    throw py::cast_error(fmt::format("the kind of '{}' is '{}', not text, number, flag or choice", out.name, kind));
  if (out.name == "role") throw py::cast_error("a parameter cannot be named 'role': get_variant() always gets it");
  if (kind == "number") out.kind = Parameter::Kind::number;
  if (kind == "flag") out.kind = Parameter::Kind::flag;
  if (in.contains("choices")) {
    out.kind = Parameter::Kind::choice;
    for (const py::handle choice : in["choices"]) out.choices.push_back(py::str(choice));
  }
  if (in.contains("required")) out.required = in["required"].cast<bool>();
  if (in.contains("least")) out.least = in["least"].cast<std::uint64_t>();
  if (in.contains("most")) out.most = in["most"].cast<std::uint64_t>();
  return out;
}

std::vector<VariantInfo> variants_of(const py::object& plugin) {
  std::vector<VariantInfo> out;
  for (const py::handle each : plugin.attr("get_variants")()) {
    if (py::isinstance<py::str>(each)) {
      out.push_back({.id = py::str(each)});
      continue;
    }
    if (!py::isinstance<py::dict>(each))
      throw py::cast_error(fmt::format("get_variants() has {}; names or dicts are expected", type_of(each)));
    const auto in = py::reinterpret_borrow<py::dict>(each);
    VariantInfo info{.id = text_in(in, "id"), .summary = text_in(in, "summary")};
    if (in.contains("parameters"))
      for (const py::handle parameter : in["parameters"])
        info.parameters.push_back(parameter_of(parameter.cast<py::dict>()));
    out.push_back(std::move(info));
  }
  return out;
}

Outcome<std::unique_ptr<Plugin>> load(const std::string& path) {
  static int count = 0;
  const std::filesystem::path file = std::filesystem::absolute(path);
  const py::module_ util = py::module_::import("importlib.util"), sys = py::module_::import("sys");
  py::list folders = sys.attr("path");
  if (!folders.contains(file.parent_path().string()))
    folders.append(file.parent_path().string());  // for modules next to it
  const std::string name = fmt::format("parley_plugin_{}_{}", ++count, file.stem().string());
  const py::object spec = util.attr("spec_from_file_location")(name, file.string());
  const py::object module = util.attr("module_from_spec")(spec);
  sys.attr("modules")[name.c_str()] = module;  // dataclasses, for instance, look it up there
  spec.attr("loader").attr("exec_module")(module);
  if (!py::hasattr(module, "plugin"))
    return refused(path + " has no 'plugin': an object with plugin_id, version, get_variants() and get_variant()");
  py::object plugin = module.attr("plugin");
  for (const char* needed : {"plugin_id", "version", "get_variants", "get_variant"})
    if (!py::hasattr(plugin, needed)) return refused(fmt::format("{}: 'plugin' has no {}", path, needed));
  std::string id = py::str(plugin.attr("plugin_id")), version = py::str(plugin.attr("version"));
  std::vector<VariantInfo> variants = variants_of(plugin);
  return std::make_unique<PythonPlugin>(std::move(plugin), std::move(id), std::move(version), std::move(variants));
}

}  // namespace
}  // namespace parley::neg

extern "C" {

__attribute__((visibility("default"))) const char* parley_python_version() {
  static const std::string version = parley::neg::python_bridge_version(PARLEY_VERSION);
  return version.c_str();
}

__attribute__((visibility("default"))) void parley_python_load(
    const std::string& path, parley::neg::Outcome<std::unique_ptr<parley::neg::Plugin>>& out) {
  using namespace parley::neg;
  try {
    start_python();
    out = locked([&] { return load(path); });
  } catch (const std::exception& error) {
    out = refused(error.what());
  }
  // Any exception during loading means that the module is not loaded.
  if (!out && out.error().problem != Problem::plugin_refused)
    out = refused(std::filesystem::path(path).filename().string() + ": " + out.error().text);
}
}
