# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Plug-ins in Python: the example negotiates with itself and over sockets; whatever a module does wrong ends its session with a
reason, and nothing else."""
import os
import unittest

from cli import PARLEY, SOURCE_DIR, CliTest, main, run

EXAMPLE = os.path.join(SOURCE_DIR, "docs", "examples", "neg_plugin.py")
BRIDGE = os.path.join(os.path.dirname(PARLEY), "..", "lib", "parley", "parley_python.so")
# The builds with sanitizers leave it out; in CI every other one has it.
BRIDGE_DUE = "CI" in os.environ and "clang" not in os.path.abspath(PARLEY)

# A plug-in that is right, of which each test changes one thing.
RIGHT = {
    "head": "import parley",
    "id": 'plugin_id = "t"',
    "variants": 'return ["v"]',
    "make": "return V()",
    "info": 'return {"data": b"x" if peer_data is None else b"", "completed": True}',
    "ready": 'return {"completed": True}',
    "more": "",
    "tail": "plugin = P()",
}
MODULE = """\
{head}
class V:
    def rdma_info_exchange(self, peer_data=None):
        {info}
    def rdma_ready_exchange(self, peer_data=None):
        {ready}
    {more}
class P:
    {id}
    version = "1"
    def get_variants(self):
        {variants}
    def get_variant(self, variant_id, config):
        {make}
{tail}
"""


@unittest.skipUnless(os.path.exists(BRIDGE) or BRIDGE_DUE, "this build has no bridge to Python (pybind11)")
class PythonPluginTest(CliTest):
    def module(self, **changes):
        return self.path("vendor.py", MODULE.format(**{**RIGHT, **changes}).encode())

    def check(self, path, *args):
        done = run("neg", "check-plugin", path, "--json", *args)
        return done, done.event("checked_plugin") if '"checked_plugin"' in done.out else None

    def fails(self, problem, text, **changes):
        done, said = self.check(self.module(**changes))
        self.assertEqual(done.code, 1, done)
        self.assertEqual(said["why"]["problem"], problem, done)
        self.assertIn(text, said["why"]["text"], done)

    def refused(self, text, **changes):
        done, said = self.check(self.module(**changes))
        self.assertEqual((done.code, said), (1, None), done)
        self.assertIn(text, done.err)

    def test_the_example_negotiates_with_itself(self):
        done, said = self.check(EXAMPLE, "--set", "rate=200")
        self.assertEqual((done.code, said["outcome"], said["variant"]), (0, "completed", "rate"), done)

    def test_two_programs_agree_through_it(self):
        peer = self.start("neg", "serve", "127.0.0.1:0", "--plugin", EXAMPLE, "--variant", "acme/rate", "--set", "rate=50", "-n", "1")
        port = peer.wait_for("listening")["port"]
        done = run("neg", "dial", f"127.0.0.1:{port}", "--plugin", EXAMPLE, "--variant", "acme/rate", "--history", "--json")
        self.assertEqual(done.code, 0, done)
        told = done.event("negotiated")
        self.assertEqual(told["outcome"], "completed")
        info = [(m["sent"], m["hex"]) for m in told["history"] if m["stage"] == "info"]
        self.assertEqual(info, [(True, "00000064"), (False, "00000032"), (True, "00000032")], "the initiator gives way")
        self.assertEqual(peer.finish().event("negotiated")["outcome"], "completed")

    def test_values_are_checked_before_the_module_is_asked(self):
        for value, text in (("0", "1 to 800"), ("fast", "number")):
            done = run("neg", "check-plugin", EXAMPLE, "--set", f"rate={value}", "--json")
            self.assertEqual(done.event("checked_plugin")["why"]["problem"], "configuration_error", done)
            self.assertIn(text, done.event("checked_plugin")["why"]["text"], done)

    def test_values_are_of_the_kinds_that_the_module_names(self):
        _, said = self.check(self.module(
            variants='return [{"id": "v", "parameters": [{"name": "n", "kind": "number", "otherwise": "0x10"}, '
                     '{"name": "f", "kind": "flag", "otherwise": "true"}, {"name": "c", "choices": ["a"], "otherwise": "a"}]}]',
            make='assert config in ({"n": 16, "f": True, "c": "a", "role": r} for r in ("initiator", "responder")), config; return V()'))
        self.assertEqual(said["outcome"], "completed", said)

    def test_numbers_are_read_as_they_were_checked(self):
        for value, number in (("0100", 100), ("0800", 800), ("0x10", 16)):
            _, said = self.check(self.module(
                variants='return [{"id": "v", "parameters": [{"name": "n", "kind": "number", "least": 1, "most": 800}]}]',
                make=f'assert config["n"] == {number}, config; return V()'), "--set", f"n={value}")
            self.assertEqual(said["outcome"], "completed", said)

    def test_any_octets_in_one_piece_are_data(self):
        for data in "bytearray(b'x')", "memoryview(b'x')", "b'x'":
            _, said = self.check(self.module(info=f'return {{"data": {data} if peer_data is None else b"", "completed": True}}'))
            self.assertEqual(said["outcome"], "completed", said)

    def test_the_folder_it_runs_in_is_not_searched(self):
        here = os.path.dirname(self.path("struct.py", b"raise SystemExit('planted')"))
        before = os.getcwd()
        os.chdir(here)
        self.addCleanup(os.chdir, before)
        done = run("neg", "check-plugin", EXAMPLE)  # imports struct
        self.assertEqual(done.code, 0, done)

    def test_modules_beside_it_are_found_and_dataclasses_work(self):
        self.path("vendor_words.py", "grüße = 'é'\n".encode())
        _, said = self.check(self.module(
            head="from __future__ import annotations\nimport parley, dataclasses, vendor_words\n"
                 "@dataclasses.dataclass\nclass D:\n    n: int = 1\nprint(vendor_words.grüße)"))
        self.assertEqual(said["outcome"], "completed", said)

    def test_what_it_prints_goes_to_standard_error(self):
        done = run("neg", "check-plugin", self.module(head="import parley\nprint('said')"), "--json")
        self.assertIn("said", done.err)
        self.assertNotIn("said", done.out)

    def test_a_child_that_it_forks_does_not_go_on(self):
        done = run("neg", "check-plugin", self.module(info="""import os, sys
        child = os.fork()
        if child == 0: sys.exit(0)
        os.waitpid(child, 0)
        return {"data": b"x" if peer_data is None else b"", "completed": True}"""), "--json")
        self.assertEqual(done.out.count("checked_plugin"), 1, done)

    def test_a_call_that_does_not_return_ends_its_session_alone(self):
        path = self.module(variants='return [{"id": "v", "parameters": [{"name": "hang", "kind": "flag"}]}]',
                           make='hang = config.get("hang")\n        return H() if hang else V()',
                           head="import parley",
                           tail="class H(V):\n    def rdma_ready_exchange(self, peer_data=None):\n        while True: pass\nplugin = P()")
        peer = self.start("neg", "serve", "127.0.0.1:0", "--plugin", path, "--variant", "t/v", "-n", "2")
        port = peer.wait_for("listening")["port"]
        dial = ("neg", "dial", f"127.0.0.1:{port}", "--plugin", path, "--variant", "t/v", "--json")
        done = run(*dial, "--set", "hang=true", "--plugin-limit", "5s")
        self.assertEqual((done.code, done.event("negotiated")["why"]["problem"]), (1, "vendor_library_error"), done)
        self.assertIn("exchange() is not over after 5 s", done.err)
        self.assertEqual(run(*dial).code, 0)
        self.assertEqual(peer.finish().event("summary")["completed"], 1)

    def test_sessions_share_nothing_unless_they_run_in_the_program(self):
        path = self.module(head="import parley\ncount = [0]", info="""first = not hasattr(self, "said")
        self.said = True
        count[0] += first
        return {"data": b"%d" % count[0] if first else b"", "completed": True}""")
        for limit, numbers in (("60s", [b"1", b"1"]), ("0s", [b"1", b"2"])):
            with self.subTest(limit):
                peer = self.start("neg", "serve", "127.0.0.1:0", "--plugin", path, "--variant", "t/v", "--plugin-limit", limit, "-n", "2",
                                  "--history")
                port = peer.wait_for("listening")["port"]
                for _ in numbers:
                    self.assertEqual(run("neg", "dial", f"127.0.0.1:{port}", "--plugin", path, "--variant", "t/v").code, 0)
                told = [event for event in peer.finish().events if event["event"] == "negotiated"]
                said = [bytes.fromhex(m["hex"]) for event in told for m in event["history"] if m["sent"] and m["stage"] == "info"]
                self.assertEqual(said, numbers)

    def test_the_right_module_is_right(self):
        done, said = self.check(self.module())
        self.assertEqual((done.code, said["outcome"]), (0, "completed"), done)

    def test_a_done_stage_and_the_ends_of_stages_are_optional(self):
        _, said = self.check(self.module(
            head="import parley\nseen = []",
            more='def rdma_done_exchange(self, peer_data=None):\n        return {"completed": True}\n'
                 '    def stage_finished(self, stage):\n        seen.append(stage)\n'
                 '        if stage == "done": raise parley.VendorLibraryError(" ".join(seen))'))
        self.assertEqual(said["why"]["problem"], "vendor_library_error")
        self.assertEqual(said["why"]["received"].split()[:4], ["info", "info", "ready", "ready"])

    def test_what_a_module_raises_ends_its_session(self):
        for name, problem in (("SerializationFailure", "serialization_failure"), ("InvalidPeerData", "invalid_peer_data"),
                              ("ResourceExhaustion", "resource_exhaustion"), ("VendorLibraryError", "vendor_library_error"),
                              ("ConfigurationError", "configuration_error")):
            with self.subTest(name):
                self.fails(problem, "too bad", info=f'raise parley.{name}("too bad")')
        self.fails("resource_exhaustion", "MemoryError", ready="raise MemoryError()")

    def test_anything_else_is_told_with_its_frames(self):
        self.fails("unexpected_exception", "ZeroDivisionError: division by zero; vendor.py:5 in rdma_info_exchange, vendor.py:1 in f",
                   head="def f(): return 1 / 0\nimport parley", info="return f()")
        self.fails("unexpected_exception", "RecursionError", head="def f(): return f()\nimport parley", info="return f()")
        self.fails("unexpected_exception", "SystemExit", ready="raise SystemExit(0)")

    def test_answers_that_cannot_be_are_refused(self):
        for answer, text in (("None", "returned None"), ("7", "returned int"), ("{}", "'completed' is to be"),
                             ('{"completed": 1}', "'completed' is to be"),
                             ('{"completed": True, "data": "x"}', "'data' is str; bytes are expected"),
                             ('{"completed": True, "data": bytes(1 << 21)}', "'data' has 2097152 octets")):
            with self.subTest(answer):
                self.fails("plugin_refused", text, info="return " + answer)

    def test_modules_that_are_no_plugins_are_refused(self):
        for changes, text in (({"tail": ""}, "has no 'plugin'"), ({"tail": "plugin = 3"}, "'plugin' has no plugin_id"),
                              ({"head": "import nothing_of_that_name"}, "ModuleNotFoundError"),
                              ({"head": "def"}, "SyntaxError"), ({"tail": "raise ValueError('no')"}, "ValueError: no"),
                              ({"variants": 'return [{"id": "v", "parameters": [{"name": "n", "kind": "int"}]}]'}, "is 'int', not text"),
                              ({"variants": 'return [{"id": "v", "parameters": [{"name": "role"}]}]'}, "named 'role'"),
                              ({"tail": "raise ValueError(chr(27) * 9999)"}, "ValueError"),
                              ({"variants": "return 5"}, "TypeError"), ({"variants": "return [5]"}, "get_variants() has int"),
                              ({"variants": 'return ["v", "v"]'}, "twice"), ({"id": 'plugin_id = "a b"'}, "a b")):
            with self.subTest(text):
                self.refused(text, **changes)
        self.fails("plugin_refused", "has no rdma_info_exchange()", make="return object()")
        self.assertIn("not_there.py", run("neg", "check-plugin", "not_there.py").err)
        again = run("neg", "plugins", "--plugin", self.module(id='plugin_id = "parley"'))
        self.assertEqual(again.code, 3, again)
        self.assertIn("parley", again.err)

    def test_a_pipe_is_no_module(self):
        path = os.path.join(os.path.dirname(self.path("x")), "pipe.py")
        os.mkfifo(path)
        self.assertIn("not a regular file", run("neg", "check-plugin", path).err)

    def test_a_folder_is_searched_for_modules(self):
        path = self.module()
        done = run("neg", "plugins", "--plugin-dir", os.path.dirname(path))
        self.assertIn("t/v", done.out)
        self.assertEqual(os.listdir(os.path.dirname(path)), ["vendor.py"], "nothing is written beside it")

    def test_without_the_bridge_it_is_said_what_to_do(self):
        os.environ["PARLEY_PYTHON_BRIDGE"] = "/nowhere.so"
        self.addCleanup(os.environ.pop, "PARLEY_PYTHON_BRIDGE")
        done = run("neg", "check-plugin", EXAMPLE)
        self.assertEqual(done.code, 1)
        self.assertIn("need the bridge parley_python.so", done.err)
        os.environ["PARLEY_PYTHON_BRIDGE"] = EXAMPLE
        self.assertIn("invalid ELF header", run("neg", "check-plugin", EXAMPLE).err)


if __name__ == "__main__":
    main()
