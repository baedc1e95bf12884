# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.purity: the pure libraries call no clock, socket, thread, file or entropy, and hold no mutable globals.

`purity.py LIBRARY...` reads their symbols; `purity.py --self-test CONTROL` proves with a library of offenders
(purity_control.cpp) that each kind is found.
"""
import re
import subprocess
import sys

# C functions are matched by their whole name, so that parley::cm::Manager::connect(...) is no socket call.
C_NAMES = {
    "clock": "time gettimeofday clock clock_gettime clock_getres nanosleep clock_nanosleep usleep sleep timer_create "
             "timerfd_create localtime localtime_r gmtime gmtime_r",
    "socket": "socket socketpair bind listen accept accept4 connect send sendto sendmsg sendmmsg recv recvfrom recvmsg "
              "recvmmsg getaddrinfo getsockopt setsockopt shutdown poll ppoll select epoll_create1 epoll_ctl epoll_wait",
    "thread": "pthread_create pthread_mutex_lock pthread_cond_wait pthread_once fork vfork system kill signal sigaction",
    "file": "open open64 openat creat fopen fopen64 freopen fread fwrite read write pread pwrite close unlink rename "
            "mmap munmap dlopen getenv secure_getenv printf puts putchar fputs fputc fprintf vfprintf fflush stdout "
            "stderr stdin",
    "entropy": "getrandom getentropy rand rand_r srand random srandom drand48 arc4random",
}
CXX_PATTERNS = {
    "clock": r"std::chrono::(_V2::)?\w+_clock::now|std::chrono::.*tzdb",
    "thread": r"std::(j?thread|this_thread|mutex|condition_variable|__condvar|__future_base|call_once)\b",
    "file": r"std::(cout|cerr|clog|cin|basic_[io]?fstream|basic_filebuf|ios_base::Init|filesystem)\b|^stdout$|^stderr$",
    "entropy": r"std::random_device",
}
# The compiler guards a function's constant static with these; they order its first use and hold nothing of ours.
CONSTANT_STATICS = re.compile(r"^guard variable for ")
# The last words of PARLEY_ASSERT (base/assert.hpp) before it aborts. lint.includes keeps <cstdio> out of every room but
# base, so that nothing else in a pure room can reach these two.
ALLOWED_CALLS = {"fprintf", "stderr"}
# Each with the reason why it is not mutable state.
ALLOWED_DATA = {
    "DW.ref.__gxx_personality_v0": "a pointer to the C++ runtime's exception routine, written by the compiler",
    "DW.ref._ZTISt9exception": "a pointer to the type that a catch names, written by the compiler",
    "std::__n4861::coroutine_handle<std::__n4861::noop_coroutine_promise>::_S_fr": "the library's coroutine without state",
    "parley::xrc::refusal_category()::category": "constant; std::error_code compares categories by address",
    "parley::error_category()::category": "constant; std::error_code compares categories by address",
    "parley::mpa::(anonymous namespace)::chosen()::choice": "constant after the first call; depends on the CPU alone",
    "parley::mpa::(anonymous namespace)::preference": "constexpr; g++ 12 leaves arrays of deduced type in .data",
    "parley::mpa::(anonymous namespace)::table": "constexpr; g++ 12 leaves arrays of deduced type in .data",
}


def tool(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def called(library):
    """(object, symbol) for each undefined symbol."""
    obj = ""
    for line in tool("nm", "-C", "-u", library).splitlines():
        if line.endswith(".o:"):
            obj = line[:-1]
        elif match := re.match(r"\s+[Uvw] (.*)", line):
            yield obj, match[1]


def kind_of(symbol):
    name = symbol.split("@")[0]
    for kind, names in C_NAMES.items():
        if name in names.split() or name.removeprefix("__").removesuffix("_chk") in names.split():
            return kind
    for kind, pattern in CXX_PATTERNS.items():
        if re.search(pattern, name):
            return kind
    return None


def mutable_data(library):
    """(object, symbol) for each datum in a writable section, constants that only need relocation left out."""
    obj = ""
    for line in tool("objdump", "-C", "-t", library).splitlines():
        if match := re.match(r"(\S+\.o):\s+file format", line):
            obj = match[1]
        match = re.match(r"[0-9a-f]+ .{7} (\.(?:data|bss|tdata|tbss)\S*)\s+([0-9a-f]+)\s+(?:0x\S+ |\.hidden )*(.*)", line)
        if not match or match[1].startswith(".data.rel.ro") or int(match[2], 16) == 0:
            continue
        name = match[3].strip()
        if not CONSTANT_STATICS.match(name) and name not in ALLOWED_DATA:
            yield obj, name


def check(*libraries):
    findings = []
    for library in libraries:
        short = library.rsplit("/", 1)[-1]
        findings += [f"{short}({obj}): {kind}: {symbol}" for obj, symbol in called(library)
                     if symbol not in ALLOWED_CALLS and (kind := kind_of(symbol))]
        findings += [f"{short}({obj}): mutable data: {symbol}" for obj, symbol in mutable_data(library)]
    return findings


def self_test(control):
    findings = check(control)
    text = "\n".join(findings)
    for kind in (*C_NAMES, "mutable data"):
        if f": {kind}: " not in text:
            raise AssertionError(f"the control calls a {kind} and nobody noticed:\n{text}")
    if "harmless" in text:  # the constant table of the control
        raise AssertionError(f"a constant was taken for an offender:\n{text}")
    if kind_of("parley::cm::Manager::connect(parley::Address)") or kind_of("parley::time"):
        raise AssertionError("a name of ours was taken for a system call")


def main():
    if sys.argv[1:2] == ["--self-test"]:
        self_test(sys.argv[2])
        print("the lint finds every offender of the control")
        return 0
    findings = check(*sys.argv[1:])
    print("\n".join(findings + [f"{len(findings)} finding(s) in {len(sys.argv) - 1} libraries"]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
