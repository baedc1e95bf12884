#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Linux's rxe beside Parley's RoCE on UDP sockets, in the same guests of the lab in the same run.

Set-ups: stock cmtime over rxe between two guests, then `parley cmtime --roce` between the same two; microseconds of each step,
and how many times as long Parley takes. Data: perftest over rxe from a guest to itself, then roce_bench there; Sends, RDMA Writes
and Reads of 64 KiB, path MTU 1024, both ends on the guest's one CPU. Each is run several times and the median told.
docs/performance.md says what the figures are for. Nothing is judged: a slow machine is no defect of the code.

Exit status: 0 all figures are there, 1 some are not, 3 the lab cannot run here.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests/interop"))
import stage  # noqa: E402

SERVER, CLIENT = "192.0.2.1", "192.0.2.2"
DATA = {"Send": "ib_send_bw", "RDMA Write": "ib_write_bw", "RDMA Read": "ib_read_bw"}
PORT = 18515

# Guest a accepts set-ups. Guest b requests them, and then transfers data to itself.
GUEST_A = """
rdmadev rxe
for i in $(seq $ROUNDS); do
  cmtime -c $COUNT -p $((7200 + i)) >/out/server.log 2>&1 & server=$!
  sleep 1; mark rxe.up.$i; waitfor rxe.done.$i $TENTHS
  kill $server; wait $server
done
rdma link delete rxe0; rmmod rdma_rxe; mark bare.a; waitfor bare.b $TENTHS
for i in $(seq $ROUNDS); do
  /out/parley cmtime -b $SERVER -c $COUNT -p $((7300 + i)) --roce >/out/server.log 2>&1 & server=$!
  sleep 1; mark parley.up.$i; waitfor parley.done.$i $TENTHS
  kill $server; wait $server
done
"""
GUEST_B = """
rdmadev rxe
for i in $(seq $ROUNDS); do
  waitfor rxe.up.$i $TENTHS; cmtime -s $SERVER -c $COUNT -p $((7200 + i)) >/out/rxe.cmtime.$i 2>&1; mark rxe.done.$i
done
for i in $(seq $ROUNDS); do
  for program in $PROGRAMS; do
    $program -F -x 1 -m 1024 -s 65536 -n $MESSAGES -p $PORT >/out/server.b.log 2>&1 & server=$!
    sleep 1
    $program -F -x 1 -m 1024 -s 65536 -n $MESSAGES -p $PORT $CLIENT >/out/rxe.$program.$i 2>&1
    wait $server
  done
done
rdma link delete rxe0; rmmod rdma_rxe; mark bare.b; waitfor bare.a $TENTHS
for i in $(seq $ROUNDS); do
  waitfor parley.up.$i $TENTHS
  /out/parley cmtime -s $SERVER -c $COUNT -p $((7300 + i)) --roce >/out/parley.cmtime.$i 2>&1; mark parley.done.$i
done
/out/roce_bench --only stream --rounds $ROUNDS --seconds 0.3 --json /out/roce_bench.json >/out/roce_bench.log 2>&1
"""


def arguments():
    build = HERE.parent / "build"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parley", type=Path, default=build / "bin/parley")
    parser.add_argument("--roce-bench", type=Path, default=build / "bench/bench/roce_bench", help="that of ./dev bench")
    parser.add_argument("--work", type=Path, default=build / "roce-lab", help="where results go")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000, help="connections of a round")
    parser.add_argument("--messages", type=int, default=500, help="of 64 KiB in a round of perftest")
    return parser.parse_args()


def run_guests(options):
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    shutil.copy(options.parley, options.work / "parley")
    shutil.copy(options.roce_bench, options.work / "roce_bench")
    limit = os.environ.get("LAB_TIMEOUT", "1200")
    names = {"ROUNDS": options.rounds, "COUNT": options.count, "MESSAGES": options.messages, "PORT": PORT, "SERVER": SERVER,
             "CLIENT": CLIENT, "TENTHS": 10 * int(limit), "PROGRAMS": f"'{' '.join(DATA.values())}'"}
    settings = "".join(f"{name}={value}\n" for name, value in names.items())
    (options.work / "a.sh").write_text(settings + GUEST_A)
    (options.work / "b.sh").write_text(settings + GUEST_B)
    environment = {**os.environ, "LAB_TIMEOUT": limit}
    subprocess.run([stage.LAB, "pair", options.work], check=False, env=environment)


def steps_of(path):
    """Milliseconds that each step of all connections took together, from the first one's start to the last one's end: both programs
    print that first, cmtime in milliseconds and parley cmtime in microseconds."""
    text = stage.text(path)
    unit = 1 if "total ms" in text else 1000
    return {name: float(total) / unit for name, total in re.findall(r"^([a-z][a-z ]*?) *:? +([0-9.]+) .*$", text, re.MULTILINE)
            if name != "step"}


def set_up(steps):
    """All that comes before a connection is established; Parley's cmtime has one step for it."""
    parts = ("create id", "resolve addr", "resolve route", "create qp", "connect")
    return steps["full connect"] if "full connect" in steps else sum(steps[part] for part in parts)


def rate_of(path):
    """Of perftest's last line, in 10^6 octets a second; its own MB are 2^20."""
    text = stage.text(path)
    found = re.findall(r"^ *65536 +[0-9]+ +[0-9.]+ +([0-9.]+) ", text, re.MULTILINE)
    return float(found[-1]) * 1.048576 if found else None


def median(values):
    return statistics.median(values) if values and None not in values else None


class Table:
    """What was measured of rxe and of Parley; `complete` tells whether all of it was."""

    def __init__(self):
        self.complete = True

    def row(self, what, rxe, parley, unit, higher_is_better):
        if not rxe or not parley:
            self.complete = False
            print(f"  {what:24}  not measured")
            return
        ratio = parley / rxe if higher_is_better else rxe / parley
        print(f"  {what:24}{parley:12.1f}{rxe:12.1f}  {unit:6}{ratio:8.2f}")


def tell_set_ups(options, table):
    print(f"\n{options.count} set-ups at once, both ends, {options.rounds} rounds; how many times as fast as rxe Parley is")
    print(f"  {'step':24}{'Parley':>12}{'rxe':>12}  {'':6}{'ratio':>8}")
    runs = {who: [steps_of(options.work / f"{who}.cmtime.{i}") for i in range(1, options.rounds + 1)] for who in ("rxe", "parley")}
    if not all(steps for rounds in runs.values() for steps in rounds):
        return table.row("set-ups", None, None, "", False)
    table.row("until established", *(median([set_up(steps) for steps in runs[who]]) for who in ("rxe", "parley")), "ms", False)
    for name in ("create id", "connect", "disconnect", "destroy"):
        table.row(name, *(median([steps.get(name) for steps in runs[who]]) for who in ("rxe", "parley")), "ms", False)


def tell_data(options, table):
    path = options.work / "roce_bench.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    parley = {row["figure"]: row["value"] for row in rows}
    print("\nRC, 64 KiB, path MTU 1024, one way, both ends on one CPU")
    print(f"  {'':24}{'Parley':>12}{'rxe':>12}  {'':6}{'ratio':>8}")
    for name, program in DATA.items():
        rxe = median([rate_of(options.work / f"rxe.{program}.{i}") for i in range(1, options.rounds + 1)])
        table.row(name, rxe, parley.get(name), "MB/s", True)


def main():
    options = arguments()
    stage.need_program(options.parley, "run './dev build'")
    stage.need_program(options.roce_bench, "run './dev bench'")
    stage.need_lab()
    run_guests(options)
    accelerator = subprocess.run([stage.LAB, "accel"], check=False, capture_output=True, text=True).stdout.strip()
    print(f"guests on {accelerator}, load of this machine {os.getloadavg()[0]:.1f}")
    table = Table()
    tell_set_ups(options, table)
    tell_data(options, table)
    return 0 if table.complete else 1


if __name__ == "__main__":
    sys.exit(main())
