# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs `parley pcap check` on every capture and compares verdicts and exit codes with the reviewed ones; then its
reports as JUnit XML and CSV, and the ladders as a page, with those verdicts."""
import csv
import hashlib
import io
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

LIMIT = 300  # seconds for any one command: only a hang takes as long, on a slow machine too


def run(parley, *args):
    done = subprocess.run([parley, "pcap", "check", *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
    return done.returncode, done.stdout, done.stderr


def by_ids(verdict):
    """Without the sentences and clauses of findings, which the goldens leave to the table of rules."""
    for connection in verdict["connections"] + verdict.get("negotiations", []):
        for finding in connection["findings"]:
            del finding["text"], finding["rule"]
    return verdict


def golden(parley, tests, problems):
    captures = sorted((tests / "captures" / "iwarp").glob("*.pcap"))
    status, out, err = run(parley, "--json", *captures)
    lines = out.splitlines()
    if len(lines) != len(captures) or err:
        problems.append(f"{len(captures)} captures gave {len(lines)} lines, and on standard error: {err!r}")
    for capture, line in zip(captures, lines):
        verdict = json.loads(line)
        verdict["file"] = capture.name
        verdict.pop("total", None)  # of the last one: totals() looks at it
        verdict.pop("report")  # provenance() looks at it
        expected = json.loads((tests / "golden" / "iwarp" / f"{capture.stem}.json").read_text(encoding="utf-8"))
        if by_ids(verdict) != expected:
            problems.append(f"{capture.name}: the verdict is not the reviewed one")
        alone, _, _ = run(parley, capture)
        if alone != (0 if expected["verdict"] == "passed" else 1):
            problems.append(f"{capture.name}: exit code {alone}, but it is {expected['verdict']}")
    if status != 1:
        problems.append(f"all captures together: exit code {status}, not 1")


def negotiations(parley, tests, problems):
    """Staged QP negotiations: verdicts and exit codes; what shows MPA alone says that there is none."""
    captures = sorted((tests / "captures" / "neg").glob("*.pcap"))
    with tempfile.TemporaryDirectory() as folder:
        junit = pathlib.Path(folder) / "junit.xml"
        status, out, err = run(parley, "--json", "--junit", junit, *captures)
        suites = xml.etree.ElementTree.parse(junit).getroot().findall("testsuite")
    verdicts = [json.loads(line) for line in out.splitlines()]
    if status or err or len(verdicts) != len(captures) or verdicts[-1]["total"]["negotiations"]["passed"] != len(captures):
        problems.append(f"negotiations: exit code {status}, {err!r}, {out[-300:]!r}")
    for capture, verdict, suite in zip(captures, verdicts, suites):
        expected = json.loads((tests / "golden" / "neg" / f"{capture.stem}.json").read_text(encoding="utf-8"))
        if by_ids(verdict)["negotiations"] != expected["negotiations"]:
            problems.append(f"{capture.name}: the verdict is not the reviewed one")
        if len(suite.findall("testcase")) != 2 + 5 or suite.find("testcase/failure") is not None:
            problems.append(f"{capture.name}: {len(suite.findall('testcase'))} JUnit cases, none of which should fail")
    for command in ("ladder", "matrix"):
        done = subprocess.run([parley, "pcap", command, captures[0]], capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode != 1 or "no MPA connection; it holds 1 QP" not in re.sub(r"\s+", " ", done.stdout + done.stderr):
            problems.append(f"{command} of a negotiation: exit code {done.returncode}, {done.stdout!r}, {done.stderr!r}")


def unreadable(parley, tests, problems):
    whole = (tests / "captures" / "iwarp" / "made_01_v1_nomarker.pcap").read_bytes()
    wrong_link = whole[:20] + (197).to_bytes(4, "little") + whole[24:]
    cases = {"truncated": (whole[:-7], "truncated"), "empty": (b"", "empty"), "text": (b"x" * 99, "not a pcap"),
             "link": (wrong_link, "link type 197")}
    with tempfile.TemporaryDirectory() as folder:
        missing = pathlib.Path(folder) / "missing"
        for name, (octets, word) in cases.items():
            (pathlib.Path(folder) / name).write_bytes(octets)
        for path, word in [(missing, "No such file"), *((pathlib.Path(folder) / n, w) for n, (_, w) in cases.items())]:
            for flags in ([], ["--json"]):
                status, out, err = run(parley, *flags, path)
                if status != 3 or word not in err or err.count("\n") != 1:
                    problems.append(f"{path.name}: exit code {status}, standard error {err!r}")
                if flags and "connections" not in json.loads(out):
                    problems.append(f"{path.name}: JSON without connections")


def reports(parley, tests, problems):
    """--junit and --csv say what the verdicts say."""
    captures = sorted((tests / "captures" / "iwarp").glob("*.pcap"))
    verdicts = [json.loads(line) for line in run(parley, "--json", *captures)[1].splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        junit, table = pathlib.Path(folder) / "junit.xml", pathlib.Path(folder) / "table.csv"
        status, out, err = run(parley, "--junit", junit, "--csv", table, *captures)
        if status != 1 or err or "of them MPA" not in out:
            problems.append(f"--junit and --csv beside the text: exit code {status}, standard error {err!r}")
        suites = xml.etree.ElementTree.parse(junit).getroot().findall("testsuite")
        with open(table, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    if [s.get("name") for s in suites] != [str(c) for c in captures]:
        problems.append("JUnit does not have one suite per capture")
    for capture, verdict, suite in zip(captures, verdicts, suites):
        failures = "\n".join(f.text for f in suite.iter("failure")).splitlines()
        cases = suite.findall("testcase")
        of_rules = [line for line in failures if line.startswith("frame ")]
        if len(cases) != 2 + 8 * len(verdict["connections"]) or len(of_rules) != verdict["errors"]:
            problems.append(f"{capture.name}: {len(cases)} JUnit cases, {len(of_rules)} errors")
        errors = [f for c in verdict["connections"] for f in c["findings"] if f["severity"] == "error"]
        for f in errors:
            if f"frame {f['frame']}: {f['text']} [{f['rule']}, {f['key']}]" not in failures:
                problems.append(f"{capture.name}: JUnit lacks {f['text']}")
        mine = [r for r in rows if r["file"] == str(capture)]
        if [(r["initiator"], r["outcome"], r["rtr"], int(r["first_frame"])) for r in mine] != \
                [(c["initiator"], c["outcome"], c["rtr"], c["first_frame"]) for c in verdict["connections"]]:
            problems.append(f"{capture.name}: the lines of the CSV are not its connections")
        if sum(int(r["errors"]) for r in mine) != verdict["errors"]:
            problems.append(f"{capture.name}: the CSV counts other errors")


def capture_of(link_type, frames):
    """A pcap file in memory."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)
    return out + b"".join(struct.pack("<IIII", i, 0, len(f), len(f)) + f for i, f in enumerate(frames))


def udp(port):
    return (bytes(12) + b"\x08\x00\x45\x00" + struct.pack(">H", 40) + bytes(5) + b"\x11" + bytes(10) +
            struct.pack(">HHHH", 9, port, 20, 0) + bytes(12))


def one_word(parley, tests, problems):
    """Text, JSON, CSV, JUnit, matrix, page and exit codes have one and the same word for each connection and file."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        whole = (tests / "captures" / "iwarp" / "made_12_v2_rtr_read.pcap").read_bytes()
        names = ("made_01_v1_nomarker", "made_10_badcrc", "made_20_terminate_variants", "siw_v2_reject", "siw_probe_startup")
        for name in names:
            (folder / f"{name}.pcap").write_bytes((tests / "captures" / "iwarp" / f"{name}.pcap").read_bytes())
        head, records, at = whole[:24], [], 24
        while at < len(whole):
            size = 16 + struct.unpack_from("<I", whole, at + 8)[0]
            records.append(whole[at:at + size])
            at += size
        (folder / "partial.pcap").write_bytes(head + b"".join(records[:4]))  # no more than the Request
        (folder / "roce.pcap").write_bytes(capture_of(1, [udp(4791), udp(4791), udp(53)]))
        (folder / "nothing.pcap").write_bytes(capture_of(1, []))
        expected = {"made_01_v1_nomarker": "passed", "made_10_badcrc": "failed", "made_20_terminate_variants": "failed",
                    "siw_v2_reject": "passed", "siw_probe_startup": "failed", "partial": "partial", "roce": "failed",
                    "nothing": "failed"}
        for name, word in expected.items():
            file = folder / f"{name}.pcap"
            code, text, _ = run(parley, file)
            lenient, _, _ = run(parley, "--partial-ok", file)
            _, out, _ = run(parley, "--json", file)
            verdict = json.loads(out)
            words = [c["verdict"] for c in verdict["connections"]]
            _, out, _ = run(parley, "--csv", "-", file)
            lines = [row["verdict"] for row in csv.DictReader(io.StringIO(out))]
            _, out, _ = run(parley, "--junit", "-", file)
            broken = len(xml.etree.ElementTree.fromstring(out).findall(".//failure"))
            _, out, _ = run(parley, "--junit", "-", "--partial-ok", file)
            broken_leniently = len(xml.etree.ElementTree.fromstring(out).findall(".//failure"))
            done = subprocess.run([parley, "pcap", "matrix", "--json", file], capture_output=True, text=True, timeout=LIMIT)
            matrix = json.loads(done.stdout)
            done_page = subprocess.run([parley, "pcap", "ladder", "--html", "-", file], capture_output=True, text=True,
                                       timeout=LIMIT)
            badges = [badge.split(":")[0] for badge in re.findall(
                r'class=(?:"|&quot;)badge [a-z]*(?:"|&quot;)(?:>|&gt;)([^<&]*)', done_page.stdout)]
            found = {"exit code": code == (0 if word == "passed" else 1), "text": f"{file}: {word}" in text,
                     "--partial-ok": lenient == (1 if word == "failed" else 0), "JSON": verdict["verdict"] == word,
                     "counts": all(verdict[w] == words.count(w) for w in ("passed", "partial", "failed")),
                     "CSV": lines == (words or [word]), "JUnit": (broken > 0) == (word != "passed"),
                     "lenient JUnit": (broken_leniently > 0) == (word == "failed"), "matrix": matrix["verdict"] == word,
                     "matrix's exit code": done.returncode == code, "page": badges == sorted(words, key=("failed", "partial", "passed").index),
                     "lines of the text": [line.count(f", {w}") or line.count(f"  {w}") for line, w in zip(
                         [line for line in text.splitlines() if " -> " in line and not line.startswith(" ")], words)] ==
                     [1] * len(words)}
            problems += [f"{name}: it is {word}, but not so: {what}" for what, good in found.items() if not good]
        _, text, _ = run(parley, folder / "roce.pcap")
        if "2 packets of RoCEv2 (UDP port 4791), 1 packet of other UDP" not in text:
            problems.append(f"what a capture without a connection holds: {text!r}")
        for words, wanted in ((["--expect", "2"], 1), (["--expect", "1"], 0)):
            code, text, _ = run(parley, *words, folder / "made_01_v1_nomarker.pcap")
            if code != wanted:
                problems.append(f"{words}: exit code {code}, {text[-200:]!r}")
        warned = tests / "captures" / "iwarp" / "siw_v1.pcap"  # C=0: warnings only
        for words, wanted in (([], 0), (["--fail-on", "error"], 0), (["--fail-on", "warning"], 1), (["--fail-on", "note"], 2)):
            if run(parley, *words, warned)[0] != wanted:
                problems.append(f"{words} of a capture with warnings: exit code is not {wanted}")


def totals(parley, tests, problems):
    """Several files end with a total in text, JSON and JUnit, and each file's name stands before its connections."""
    captures = sorted((tests / "captures" / "iwarp").glob("*.pcap"))
    verdicts = [json.loads((tests / "golden" / "iwarp" / f"{c.stem}.json").read_text(encoding="utf-8")) for c in captures]
    words = ("passed", "partial", "failed")
    files = {"all": len(verdicts), **{w: sum(v["verdict"] == w for v in verdicts) for w in words}, "unread": 0}
    connections = {w: sum(v[w] for v in verdicts) for w in words}
    wanted = {"files": files, "connections": {"all": sum(connections.values()), **connections},
              "errors": sum(v["errors"] for v in verdicts), "warnings": sum(v["warnings"] for v in verdicts)}
    lines = [json.loads(line) for line in run(parley, "--json", *captures)[1].splitlines()]
    if ["total" in line for line in lines] != [False] * (len(captures) - 1) + [True] or lines[-1]["total"] != wanted:
        problems.append(f"the total in JSON: {lines[-1].get('total')}, not {wanted}")
    if "total" in json.loads(run(parley, "--json", captures[0])[1]):
        problems.append("one file has a total of its own")
    text = run(parley, *captures)[1]
    line = (f"{files['all']} files: {files['passed']} passed, {files['partial']} partial, {files['failed']} failed; "
            f"{sum(connections.values())} MPA connections: {connections['passed']} passed, {connections['partial']} partial, "
            f"{connections['failed']} failed; {wanted['errors']} errors, {wanted['warnings']} warnings")
    if line not in text.splitlines()[-8:]:
        problems.append(f"the total in text: {text[-400:]!r}, not {line!r}")
    at = 0
    for capture, verdict in zip(captures, verdicts):
        n = len(verdict["connections"])
        head = text.find(f"{capture}: {n} MPA connection{'' if n == 1 else 's'}\n\n{verdict['connections'][0]['initiator']} ", at)
        end = text.find(f"\n{capture}: {verdict['verdict']}", at)
        if not at <= head < end:
            problems.append(f"{capture.name}: its name does not stand before its connections")
        at = end
    with tempfile.TemporaryDirectory() as folder:
        broken = pathlib.Path(folder) / "broken.pcap"
        broken.write_bytes(captures[0].read_bytes()[:-7])
        status, out, _ = run(parley, "--junit", "-", captures[0], broken, pathlib.Path(folder) / "missing.pcap")
    suites = xml.etree.ElementTree.fromstring(out).findall("testsuite")
    for suite in suites:
        said = {p.get("name"): p.get("value") for p in suite.findall("properties/property")}
        found = {name: said.get(f"total.{name}") for name in ("files", "files.failed", "files.unread", "connections.passed")}
        if status != 3 or found != {"files": "3", "files.failed": "1", "files.unread": "2", "connections.passed": "2"}:
            problems.append(f"the total in JUnit: {said}")


def provenance(parley, tests, problems):
    """Every format says version, commit, date, command, and the file with its SHA-256."""
    capture = tests / "captures" / "iwarp" / "made_10_badcrc.pcap"
    packed = tests / "captures" / "packed" / "siw_v2_p2p_write_rtr.pcap.zst"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    date = "2023-11-14T22:13:20Z"

    def made(*args, **how):
        return subprocess.run([parley, *map(str, args)], capture_output=True, timeout=LIMIT, env=environment, **how).stdout

    def sha256(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    for command in ("check", "ladder", "matrix"):
        said = json.loads(made("pcap", command, "--json", capture))["report"]
        inputs = [{"path": str(capture), "sha256": sha256(capture), "size": capture.stat().st_size}]
        if (said["date"], said["command"], said["inputs"]) != (date, f"parley pcap {command} --json {capture}", inputs) or \
                not re.fullmatch(r"\d+\.\d+\.\d+", said["version"]) or \
                not re.fullmatch(r"[0-9a-f]{12}(-dirty)?|unknown", said["commit"]):
            problems.append(f"report of pcap {command} --json: {said}")
        first, *rest = made("pcap", command, capture).decode().splitlines()
        head = f"parley {said['version']} (commit {said['commit']}) at {date}: parley pcap {command} {capture}"
        if first != head or f"{capture}: {capture.stat().st_size} octets, SHA-256 {sha256(capture)}" not in rest:
            problems.append(f"text of pcap {command}: {first!r}, {rest[:3]}")
    with tempfile.TemporaryDirectory() as folder:
        pages = {"ladder": pathlib.Path(folder) / "l.html", "matrix": pathlib.Path(folder) / "m.html"}
        for command, page in pages.items():
            made("pcap", command, "--html", page, capture)
            footer = page.read_text(encoding="utf-8").partition("<footer")[2]
            if date not in footer or sha256(capture) not in footer or f"pcap {command} --html" not in footer:
                problems.append(f"the end of the page of pcap {command}: {footer[:300]!r}")
        table = pathlib.Path(folder) / "m.csv"
        made("pcap", "matrix", "--csv", table, capture)
        tables = {"check": made("pcap", "check", "--csv", "-", capture).decode(), "matrix": table.read_text(encoding="utf-8")}
        for command, text in tables.items():
            for row in csv.DictReader(io.StringIO(text)):
                if (row["input_sha256"], row["input_size"], row["report_date"]) != \
                        (sha256(capture), str(capture.stat().st_size), date) or not row["report_version"] or \
                        f"pcap {command}" not in row["report_command"]:
                    problems.append(f"CSV of pcap {command}: {row}")
        broken = pathlib.Path(folder) / "broken.pcap"  # damaged early: the rest counts for the SHA-256
        broken.write_bytes(capture.read_bytes()[:24] + b"\xff" * 64 + bytes(1 << 20))
        missing = pathlib.Path(folder) / "missing.pcap"
        for file, wanted in ((broken, sha256(broken)), (packed, sha256(packed)), (missing, None)):
            said = json.loads(made("pcap", "check", "--json", file))["report"]["inputs"][0]
            if said["sha256"] != wanted or said["size"] != (None if wanted is None else file.stat().st_size):
                problems.append(f"{file.name}: {said}, not {wanted}")
    piped = json.loads(made("pcap", "check", "--json", "-", input=packed.read_bytes()))["report"]["inputs"]
    if piped != [{"path": "-", "sha256": sha256(packed), "size": packed.stat().st_size}]:
        problems.append(f"report of what came through a pipe: {piped}")
    suite = xml.etree.ElementTree.fromstring(made("pcap", "check", "--junit", "-", capture)).find("testsuite")
    said = {p.get("name"): p.get("value") for p in suite.findall("properties/property")}
    if (said.get("report.date"), said.get("input.path"), said.get("input.sha256")) != (date, str(capture), sha256(capture)):
        problems.append(f"JUnit's properties: {said}")
    played = made("replay", packed, "--json", "-n", "1", "--role", "initiator", "--against", "sim:parley")
    if json.loads(played.splitlines()[-1])["report"]["inputs"][0]["sha256"] != sha256(packed):
        problems.append(f"report of replay: {played!r}")
    if made("pcap", "check", "--json", capture) != made("pcap", "check", "--json", capture):
        problems.append("the same run with SOURCE_DATE_EPOCH differs")


def targets(parley, tests, problems):
    """Where reports may go, and where not."""
    capture = tests / "captures" / "iwarp" / "made_10_badcrc.pcap"
    status, out, err = run(parley, "--csv", "-", capture)
    if status != 1 or err or len(list(csv.reader(io.StringIO(out)))) != 2:
        problems.append(f"--csv -: exit code {status}, {out!r}")
    status, out, err = run(parley, "--junit", "-", capture)
    if status != 1 or err or xml.etree.ElementTree.fromstring(out).tag != "testsuites":
        problems.append(f"--junit -: exit code {status}, {out!r}")
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.pcap"
        copy.write_bytes(capture.read_bytes())
        same = str(pathlib.Path(folder) / "same")
        for words, wanted in ((["--csv", "-", "--junit", "-"], 2), (["--json", "--csv", "-"], 2), (["--csv", copy], 2),
                              (["--csv", same, "--junit", same], 2), (["--csv", f"{folder}/no/such"], 3)):
            status, out, err = run(parley, *words, copy)
            if status != wanted or err.count("\n") != 1:
                problems.append(f"{words}: exit code {status}, not {wanted}; standard error {err!r}")
        if copy.read_bytes() != capture.read_bytes():
            problems.append("a capture was overwritten by its own report")
        broken = pathlib.Path(folder) / "broken.pcap"
        broken.write_bytes(copy.read_bytes()[:-9])
        status, out, err = run(parley, "--junit", "-", broken)
        first = xml.etree.ElementTree.fromstring(out).find("testsuite/testcase/failure")
        if status != 3 or first is None or "truncated" not in first.text:
            problems.append(f"a truncated capture in JUnit: exit code {status}, {out!r}")


def pages(parley, tests, problems):
    captures = tests / "captures" / "iwarp"

    def ladder(*args):
        done = subprocess.run([parley, "pcap", "ladder", *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, done.stdout, done.stderr
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.html"
        status, out, err = ladder("--html", page, captures / "made_10_badcrc.pcap")
        text = page.read_text(encoding="utf-8")
        if status or err or "1 connection drawn" not in out or "MPA Request" not in text or "RFC 5044 §4.4" not in text:
            problems.append(f"ladder --html: exit code {status}, {out!r}, {err!r}")
        status, out, err = ladder("--html", "-", captures / "siw_v2_reject.pcap")
        if status or err or out.count("<section") != 2:
            problems.append(f"ladder --html -, two connections: exit code {status}, {out.count('<section')} sections")
        status, out, err = ladder("--html", "-", "-n", "2", captures / "siw_v2_reject.pcap")
        if status or err or "<section id=\"c" in out or "MPA Reply" not in out:
            problems.append(f"ladder --html - -n 2: exit code {status}")
        status, out, err = ladder("-n", "3", captures / "siw_v2_reject.pcap")
        if status != 2 or "it has 2 MPA connections, no number 3" not in err or err.count("\n") != 1 or "connection 1" in out:
            problems.append(f"ladder -n 3 of 2: exit code {status}, {err!r}")
        for words in ("9-5", "0", "1-", "x", "1,,2", "1-2-3", "2,0-1", "", "99999999999999999999"):
            status, out, err = ladder(f"--connection={words}", captures / "siw_v2_reject.pcap")
            if status != 2 or "--connection" not in err or err.count("\n") != 1 or out:
                problems.append(f"ladder --connection={words}: exit code {status}, {err!r}")
        status, out, err = ladder("--html", page, "-n", "1-3", captures / "siw_v2_reject.pcap")
        if status != 2 or page.read_text(encoding="utf-8") != text:
            problems.append(f"ladder --html -n 1-3 of 2: exit code {status}, and the page is another")
        status, out, err = ladder("--html", "-", "--json", captures / "siw_v2_reject.pcap")
        if status != 2:
            problems.append(f"ladder --html - --json: exit code {status}")


def failed_first(parley, tests, problems):
    """Ladders begin with what failed, and can be asked for it alone; each says its number in the file."""
    captures = tests / "captures" / "iwarp"
    many, clean, one = (captures / f"{name}.pcap" for name in ("siw_probe_startup", "siw_v2_reject", "made_10_badcrc"))
    verdict = json.loads((tests / "golden" / "iwarp" / "siw_probe_startup.json").read_text(encoding="utf-8"))
    words = [c["verdict"] for c in verdict["connections"]]
    if len(set(words)) < 3:
        problems.append("the capture does not have all three standings")

    def ladder(*args):
        done = subprocess.run([parley, "pcap", "ladder", *map(str, args)], capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, done.stdout, done.stderr

    def numbers(*args):
        status, out, err = ladder(*args)
        if status or err:
            problems.append(f"ladder {args}: exit code {status}, {err!r}")
        return [int(n) for n in re.findall(r": connection (\d+) of \d+$", out, flags=re.M)], out
    order = sorted(range(1, len(words) + 1), key=lambda n: (("failed", "partial", "passed").index(words[n - 1]), n))
    failed = [n for n in order if words[n - 1] == "failed"]
    last = order[-1]
    for args, wanted in (((many,), order), (("--failed", many), failed), (("-n", "2", many), [2]),
                         (("--connection", f"1-3,{last}", many), [n for n in order if n in (1, 2, 3, last)]),
                         (("--failed", "-n", f"{failed[1]}-{last}", many), [n for n in failed if failed[1] <= n <= last]),
                         (("--failed", clean), [])):
        if numbers(*args)[0] != wanted:
            problems.append(f"ladder {args[:-1]}: {numbers(*args)[0]}, not {wanted}")
    if numbers("--failed", clean)[1].splitlines()[3:] != [f"{clean}: none of 2 connections failed"]:
        problems.append(f"ladder --failed of what passed: {numbers('--failed', clean)[1]!r}")
    objects = [json.loads(line) for line in ladder("--json", many)[1].splitlines()]
    if [(o["connection"], o["verdict"], o["initiator"]) for o in objects] != \
            [(n, words[n - 1], verdict["connections"][n - 1]["initiator"]) for n in order]:
        problems.append("ladder --json does not begin with what failed")
    # A page has room for so many: what failed is on it, wherever it stands in whichever file.
    with tempfile.TemporaryDirectory() as folder:
        long = pathlib.Path(folder) / "long.pcap"
        reject, bad = clean.read_bytes(), one.read_bytes()
        records = b""
        for i in range(40):  # other ports, so that these are other connections
            records += reject[24:].replace(struct.pack(">H", 9001), struct.pack(">H", 10000 + i)).replace(
                struct.pack(">H", 9003), struct.pack(">H", 11000 + i))
        long.write_bytes(reject[:24] + records + bad[24:])
        for files in ([long], [clean, long]):
            status, out, err = ladder("--html", "-", *files)
            titles = re.findall(r'<li[^>]*><a href="#c\d+">([^<]*)</a>', out)
            if status or len(titles) != 60 or "made_10" in out or "wrong CRC" not in out and "with CRC" not in out:
                problems.append(f"ladder --html of {len(files)} files: exit code {status}, {len(titles)} connections, {err!r}")
        status, out, err = ladder("--html", "-", "--failed", clean)
        if status or err or "<iframe" in out or not out.startswith("<!DOCTYPE html>"):
            problems.append(f"ladder --html - --failed of what passed: exit code {status}, {out[:200]!r}, {err!r}")


def progress(parley, tests, problems):
    """A bar on a terminal while a large file is read, and nothing of it in what a program reads."""
    one = (tests / "captures" / "iwarp" / "siw_v2_crc.pcap").read_bytes()
    repeated = one[24:] * (1 + (24 << 20) // len(one))
    shown, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    # The file comes through a pipe with a pause in it: from a disk it would be read before a bar is worth drawing.
    with subprocess.Popen([parley, "pcap", "check", "-q", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=terminal, env=environment) as process:
        os.close(terminal)
        process.stdin.write(one[:24] + repeated)
        process.stdin.flush()
        time.sleep(0.3)
        out, _ = process.communicate(repeated, timeout=LIMIT)
    out = out.decode()
    seen = b""
    try:
        while part := os.read(shown, 4096):
            seen += part
    except OSError:  # how a pseudo terminal tells that nobody writes any more
        pass
    os.close(shown)
    if "MPA" not in out or "\x1b" in out:
        problems.append(f"a large file: {out[-200:]!r}")
    if b"MiB" not in seen or not seen.endswith(b"\r\x1b[K"):
        problems.append(f"no bar for a large file: {seen[-200:]!r}")


def main():
    parley, tests = sys.argv[1], pathlib.Path(sys.argv[2])
    problems = []
    golden(parley, tests, problems)
    negotiations(parley, tests, problems)
    unreadable(parley, tests, problems)
    reports(parley, tests, problems)
    one_word(parley, tests, problems)
    totals(parley, tests, problems)
    provenance(parley, tests, problems)
    targets(parley, tests, problems)
    pages(parley, tests, problems)
    failed_first(parley, tests, problems)
    progress(parley, tests, problems)
    print("\n".join(problems) or "every verdict is the reviewed one")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
